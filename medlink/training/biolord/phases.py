"""The phases from what a user names: from knowledge base, tables and recipe to an encoder's folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medlink.kb import KnowledgeBase
from medlink.language.tags import language_tag
from medlink.training.biolord.multilingual_data import Alignments
from medlink.training.biolord.recipes import ContrastiveRecipe, DistillationRecipe, MultilingualRecipe, StsRecipe
from medlink.training.biolord.sources import Progress, TrainingData, development_measure, rated_pairs
from medlink.training.biolord.trainer import BioLordTrainer
from medlink.training.common.recipes import RunOptions
from medlink.training.data.recipes import PairRecipe
from medlink.training.static.recipes import StaticStudentRecipe

if TYPE_CHECKING:
    from medlink.models.encoders import Encoder
    from medlink.training.static.student import StaticStudent


@dataclass(frozen=True, slots=True)
class Job:
    """Where an encoder goes, how the run goes, and the table of rated pairs that it is measured by."""

    out: Path
    options: RunOptions
    progress: Progress
    dev: Path | None = None

    def train(self, trainer: BioLordTrainer | StaticStudent) -> Encoder:
        """Train and write the encoder."""
        measure = development_measure(self.dev, self.progress)
        return trainer.train(self.out, **dict(self.options), progress=self.progress, evaluate=measure)


def run_sts(job: Job, tables: Mapping[str, Path], start: str, recipe: StsRecipe) -> str:
    """Run the STS phase; says what was made."""
    read = {name: rated_pairs(path, job.progress) for name, path in tables.items()}
    encoder = job.train(BioLordTrainer(read, start, recipe))
    return f"{job.out}: encoder {encoder.fingerprint}, trained on {sum(map(len, read.values())):,} rated pairs"


def run_contrastive(
    job: Job, data: TrainingData, start: str, recipe: ContrastiveRecipe, pairs: PairRecipe, pair_workers: int = 0
) -> str:
    """Run the contrastive phase; says what was made."""
    from medlink.training.data.pairs import KnowledgeBasePairs
    from medlink.training.data.view import TrainingView

    selection = data.selection()
    further = data.further(selection)
    with KnowledgeBase(data.kb) as kb:
        view = TrainingView(kb, languages=selection.languages, without=selection.left_out, definitions=further)
        about: dict[str, Any] = {"knowledge base": f"`{kb.content_hash}`"}
    if "seed" not in pairs.model_fields_set:
        pairs = pairs.replace(seed=recipe.seed)
    source = KnowledgeBasePairs(view, pairs, workers=pair_workers)
    about |= {name.replace("_", " "): count for name, count in source.counts().items()}
    about["pairs as asked for"] = f"`{source.recipe.to_dict()}`"
    encoder = job.train(BioLordTrainer(source, start, recipe, about=about))
    return f"{job.out}: encoder {encoder.fingerprint}, trained on {source.pairs_per_epoch:,} pairs an epoch"


def run_distill(job: Job, data: TrainingData, start: str, recipe: DistillationRecipe, teacher: str) -> str:
    """Run the self-distillation; says what was made."""
    job.train(BioLordTrainer(data.concepts(), start, recipe, teacher=teacher))
    return f"{job.out}: {recipe.runs} encoders, run-1 to run-{recipe.runs}; average them with 'soup'"


def run_multilingual(
    job: Job, data: TrainingData, start: str, recipe: MultilingualRecipe, teacher: str, alignments: Path | None = None
) -> str:
    """Run the cross-lingual distillation; says what was made."""
    # the English names are needed as well, and a language may be in the table alone: the alignments say what is missing
    names = replace(data, languages=()).selection().names
    groups = Alignments([language_tag(one) or one for one in data.languages], names=names, table=alignments)
    encoder = job.train(BioLordTrainer(groups, start, recipe, teacher=teacher))
    return f"{job.out}: encoder {encoder.fingerprint} for en, {', '.join(groups.languages)}"


def run_static(job: Job, data: TrainingData, start: str | None, recipe: StaticStudentRecipe, teacher: str) -> str:
    """Distil into a static encoder; says what was made."""
    from medlink.training.static.student import StaticStudent

    encoder = job.train(StaticStudent(data.selection().names, start, recipe, teacher=teacher))
    return f"{job.out}: static encoder {encoder.fingerprint}; its README.md states what it loses"


def run_soup(folders: Sequence[Path], out: Path) -> str:
    """Average encoders, or the encoders in folders that the self-distillation made; says what was made."""
    from medlink.training.common.averaging import encoder_folders, soup

    return f"{out}: encoder {soup(folders, out).fingerprint}, the mean of {len(encoder_folders(folders))}"
