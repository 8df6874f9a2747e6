"""The phases of BioLORD as the command line runs them: knowledge base, tables and recipe to an encoder's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from medlink.models import BioLordTrainer
    from medlink.models.distillation_data import ConceptTexts
    from medlink.models.phase import Measure
    from medlink.records import Definition, Name


@dataclass(frozen=True, slots=True)
class Data:
    """What of a knowledge base is trained on.

    ``definitions`` are tables of further definitions, whose ids are codes of ``system`` where that is named;
    ``languages`` those of names and definitions, all if there is none; ``without`` a file of ids to leave out.
    """

    kb: Path
    definitions: tuple[Path, ...] = ()
    system: str | None = None
    languages: tuple[str, ...] = ()
    without: Path | None = None

    def left_out(self) -> frozenset[str]:
        """Ids of the concepts that are not trained on."""
        from medlink.kb.intake import LineFile, Problems

        if self.without is None:
            return frozenset()
        return frozenset(text.strip() for _, text in LineFile(self.without, Problems()) if text.strip())

    def further(self) -> list[Definition]:
        """The definitions of the tables, by concept."""
        from medlink.kb import KnowledgeBase
        from medlink.kb.definition_table import definitions_by_code, read_definitions
        from medlink.kb.intake import Problems

        problems = Problems()
        read: Iterable[Definition] = (
            one for path in self.definitions for one in read_definitions(path, problems=problems)
        )
        with KnowledgeBase(self.kb) as kb:
            found = list(definitions_by_code(kb, read, self.system) if self.system else read)
        for note in [*problems.notes, *(f"{count} rows left out: {kind}" for kind, count in problems.bad.items())]:
            click.echo(note, err=True)
        return sorted(found, key=lambda one: (one.concept_id, one.text))

    def names(self) -> Callable[[], Iterable[Name]]:
        """What gives the names, one pass after the other."""
        from medlink.kb import KnowledgeBase

        without = self.left_out()

        def read() -> Iterable[Name]:
            """One pass."""
            with KnowledgeBase(self.kb) as kb:
                yield from (
                    one for one in kb.iter_names(languages=self.languages or None) if one.concept_id not in without
                )

        return read

    def concepts(self) -> Callable[[], Iterable[ConceptTexts]]:
        """What gives the names and definitions of each concept, one pass after the other."""
        from medlink.kb import KnowledgeBase
        from medlink.models.distillation_data import concept_texts

        names, further, without = self.names(), self.further(), self.left_out()

        def read() -> Iterable[ConceptTexts]:
            """One pass."""
            with KnowledgeBase(self.kb) as kb:
                own = kb.iter_definitions(languages=self.languages or None)
                texts = concept_texts(
                    names(),
                    (one for one in own if one.concept_id not in without),
                    (one for one in further if one.concept_id not in without),
                )
                # a definition of no concept has no name to go with
                yield from (one for one in texts if one.names)

        return read


def development_measure(path: Path | None) -> Measure | None:
    """Spearman correlation of cosines with the ratings of a table, as ``medlink evaluate similarity`` has it.

    Args:
        path: rated pairs of concepts or of sentences; ``None`` for no measure.

    Raises:
        InputError: the table cannot be read.
    """
    if path is None:
        return None
    from medlink.evaluation.rated import read_pairs
    from medlink.evaluation.similarity import correlate, pair_cosines
    from medlink.kb.intake import Problems

    pairs = read_pairs(path, Problems())
    columns = [[pair.one for pair in pairs], [pair.other for pair in pairs]]
    ratings = [pair.rating for pair in pairs]

    def measure(model: Any) -> float:
        """The correlation of the model as it stands."""
        one, other = (
            model.encode(texts, normalize_embeddings=True, show_progress_bar=False).astype("float32")
            for texts in columns
        )
        return correlate(ratings, pair_cosines(one, other), resamples=1).value

    return measure


def train_sts(
    trainer: BioLordTrainer, tables: Sequence[Path], out: Path, recipe: Mapping[str, Any], dev: Path | None
) -> str:
    """Run the STS phase; says what was made."""
    from medlink.evaluation.rated import read_pairs
    from medlink.kb.intake import Problems
    from medlink.models.recipes import StsRecipe

    read = {path.name: read_pairs(path, Problems()) for path in tables}
    encoder = trainer.sts(read, out, StsRecipe(**recipe), evaluate=development_measure(dev))
    return f"{out}: encoder {encoder.fingerprint}, trained on {sum(map(len, read.values())):,} rated pairs"


def train_contrastive(
    trainer: BioLordTrainer,
    data: Data,
    out: Path,
    pairs: Mapping[str, Any],
    recipe: Mapping[str, Any],
    dev: Path | None,
    pair_workers: int,
) -> str:
    """Run the contrastive phase; says what was made."""
    from medlink.kb import KnowledgeBase
    from medlink.kb.training import TrainingView
    from medlink.models.pairs import KnowledgeBasePairs, PairRecipe
    from medlink.models.recipes import ContrastiveRecipe

    how = ContrastiveRecipe(**recipe)
    with KnowledgeBase(data.kb) as kb:
        view = TrainingView(kb, languages=data.languages or None, without=data.left_out(), definitions=data.further())
        facts: dict[str, Any] = {"knowledge base": f"`{kb.content_hash}`"}
    source = KnowledgeBasePairs(view, PairRecipe(**{"seed": how.seed, **pairs}), workers=pair_workers)
    facts |= {name.replace("_", " "): count for name, count in source.counts().items()}
    facts["pairs as asked for"] = f"`{source.recipe.to_dict()}`"
    encoder = trainer.contrastive(source, out, how, evaluate=development_measure(dev), data=facts)
    return f"{out}: encoder {encoder.fingerprint}, trained on {source.pairs_per_epoch:,} pairs an epoch"


def train_distill(
    trainer: BioLordTrainer, data: Data, teacher: str, out: Path, recipe: Mapping[str, Any], dev: Path | None
) -> str:
    """Run the self-distillation; says what was made."""
    from medlink.models.distillation import DistillationRecipe

    folders = trainer.distill(
        data.concepts(), teacher, out, DistillationRecipe(**recipe), evaluate=development_measure(dev)
    )
    return f"{out}: {len(folders)} encoders, {folders[0].name} to {folders[-1].name}; average them with 'soup'"


def train_multilingual(
    trainer: BioLordTrainer,
    data: Data,
    teacher: str,
    out: Path,
    recipe: Mapping[str, Any],
    dev: Path | None,
    alignments: Path | None,
) -> str:
    """Run the cross-lingual distillation; says what was made."""
    from dataclasses import replace

    from medlink.models.multilingual import MultilingualRecipe
    from medlink.models.multilingual_data import Alignments

    # the English names are needed as well
    groups = Alignments(data.languages, names=replace(data, languages=()).names(), table=alignments)
    encoder = trainer.multilingual(
        groups, teacher, out, MultilingualRecipe(**recipe), evaluate=development_measure(dev)
    )
    return f"{out}: encoder {encoder.fingerprint} for en, {', '.join(groups.languages)}"


def train_static(
    trainer: BioLordTrainer, data: Data, out: Path, recipe: Mapping[str, Any], dev: Path | None, student: str | None
) -> str:
    """Distil into a static encoder; says what was made."""
    from medlink.models.static_student import StaticStudentRecipe

    encoder = trainer.static(
        data.names(), out, student, StaticStudentRecipe(**recipe), evaluate=development_measure(dev)
    )
    return f"{out}: static encoder {encoder.fingerprint}; its README.md states what it loses"


def average(folders: Sequence[Path], out: Path) -> str:
    """Average encoders, or the encoders in folders that ``distill`` made; says what was made."""
    from medlink.models import BioLordTrainer

    each = [
        one
        for folder in folders
        for one in ([folder] if (folder / "modules.json").exists() else sorted(folder.glob("run-*")) or [folder])
    ]
    encoder = BioLordTrainer.soup(each, out)
    return f"{out}: encoder {encoder.fingerprint}, the mean of {len(each)}"
