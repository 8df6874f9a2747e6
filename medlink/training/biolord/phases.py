"""The phases from what a user names: from knowledge base, tables and recipe to an encoder's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medlink.errors import ConfigError, InputError, needs_extra
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb import KnowledgeBase
from medlink.language.tags import language_tag
from medlink.training.biolord.trainer import BioLordTrainer
from medlink.training.data.rated import RatedPair, read_pairs
from medlink.training.data.selection import Selection
from medlink.training.recipes import (
    ContrastiveRecipe,
    DistillationRecipe,
    MultilingualRecipe,
    PairRecipe,
    RunOptions,
    StaticStudentRecipe,
    StsRecipe,
)

if TYPE_CHECKING:
    from medlink.models.encoders import Encoder
    from medlink.records import Definition
    from medlink.training.common.fit import Measure
    from medlink.training.data.text_store import ConceptTexts
    from medlink.training.static.student import StaticStudent

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What of a knowledge base is trained on, by one rule whichever the phase.

    ``definitions`` are tables of further definitions, whose ids are codes of ``system`` where that is named;
    ``languages`` those of names and definitions, all if there is none; ``without`` a file of ids to leave out;
    ``progress`` is told what is not used.
    """

    kb: Path
    definitions: tuple[Path, ...] = ()
    system: str | None = None
    languages: tuple[str, ...] = ()
    without: Path | None = None
    progress: Progress = lambda _: None

    def selection(self) -> Selection:
        """What of the names and definitions is trained on; says how many ids to leave out are no concepts."""
        with KnowledgeBase(self.kb) as kb:
            selection = Selection(kb, languages=self.languages or None, without=self._held_out())
        if selection.unmatched:
            self.progress(f"ids to leave out that are no concepts: {selection.unmatched} in {self.without}")
        return selection

    def further(self, selection: Selection) -> list[Definition]:
        """The definitions of the tables that are trained on, by concept; says how many are not."""
        from medlink.training.data.selection import definitions_by_code, read_definitions

        problems = Problems(adjustable=False)
        read: Iterable[Definition] = (
            one for path in self.definitions for one in read_definitions(path, problems=problems)
        )
        with KnowledgeBase(self.kb) as kb:
            coded = definitions_by_code(kb, read, self.system) if self.system else read
            found = sorted(selection.added(coded, problems), key=lambda one: (one.concept_id, one.text))
        _say(problems, self.progress)
        return found

    def concepts(self, descriptions: int, seed: int) -> Callable[[], Iterable[ConceptTexts]]:
        """What gives the names and definitions of each concept, one pass after the other.

        Concepts without a definition have up to so many ``descriptions``, which :func:`described` draws by ``seed``.
        """
        from medlink.training.data.pairs import described
        from medlink.training.data.text_store import concept_texts
        from medlink.training.data.view import TrainingView

        selection = self.selection()
        further = self.further(selection)

        def made() -> Iterator[Definition]:
            if descriptions:
                with KnowledgeBase(self.kb) as kb:
                    left_out = selection.left_out
                    view = TrainingView(kb, languages=selection.languages, without=left_out, definitions=further)
                yield from described(view, descriptions, seed)

        def read() -> Iterable[ConceptTexts]:
            """One pass over the concepts that have names."""
            texts = concept_texts(selection.names(), selection.definitions(), further, made())
            # a definition of no concept has no name to go with
            return (one for one in texts if one.names)

        return read

    def _held_out(self) -> frozenset[str]:
        """Ids of the concepts that are not to be trained on."""
        if self.without is None:
            return frozenset()
        # not one line may be lost: what it names would be trained on
        lines = LineFile(self.without, Problems(0, adjustable=False))
        ids = frozenset(text.strip() for _, text in lines if text.strip())
        if not ids:
            raise InputError("there is no id in it", path=self.without, remedy="give one id a line")
        return ids


def rated_pairs(path: Path, progress: Progress, extra: Sequence[str] = ()) -> list[RatedPair]:
    """Rated pairs of a table, with the cells of ``extra`` columns; says which of its rows are not used."""
    problems = Problems(adjustable=False)
    pairs = read_pairs(path, problems, extra)
    _say(problems, progress)
    return pairs


def rated_tables(names: Sequence[str], folder: Path) -> dict[str, Path]:
    """Tables by their names as they were given, relative to a folder: two of one name in two folders are two.

    Raises:
        ConfigError: a file is given twice, and its pairs would count twice.
    """
    tables: dict[str, Path] = {}
    for name in names:
        if (folder / name).resolve() in {path.resolve() for path in tables.values()}:
            raise ConfigError(f"the table {name} is given twice", remedy="name each table once")
        tables[name] = folder / name
    return tables


def development_measure(path: Path | None, progress: Progress) -> Measure | None:
    """Spearman correlation of cosines with the ratings of a table, as ``medlink evaluate similarity`` has it.

    Raises:
        ConfigError: the ratings do not differ.
    """
    if path is None:
        return None
    pairs = rated_pairs(path, progress)
    if len({pair.rating for pair in pairs}) < 2:
        raise ConfigError("the ratings do not differ", path=path, remedy="measure on pairs with different ratings")
    return correlation_of_cosines(pairs, "spearman")


def correlation_of_cosines(pairs: Sequence[RatedPair], kind: str) -> Measure:
    """The ``"pearson"`` or ``"spearman"`` correlation of the cosines of pairs with their ratings."""
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    ones, others, ratings = zip(*((pair.one, pair.other, float(pair.rating)) for pair in pairs), strict=True)
    options: dict[str, Any] = {"batch_size": 32, "similarity_fn_names": ["cosine"], "write_csv": False}
    evaluator = EmbeddingSimilarityEvaluator(list(ones), list(others), list(ratings), **options)
    return lambda model: float(evaluator(model)[f"{kind}_cosine"])


def _say(problems: Problems, progress: Progress) -> None:
    """Say what was noted of a table, and which of its rows are not used."""
    for line in (*problems.notes, *problems.left_out()):
        progress(line)


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
    encoder = job.train(BioLordTrainer(source, start, recipe.suited(start), about=about))
    return f"{job.out}: encoder {encoder.fingerprint}, trained on {source.pairs_per_epoch:,} pairs an epoch"


def run_distill(job: Job, data: TrainingData, start: str, recipe: DistillationRecipe, teacher: str) -> str:
    """Run the self-distillation; says what was made."""
    concepts = data.concepts(recipe.descriptions, recipe.seed)
    job.train(BioLordTrainer(concepts, start, recipe, teacher=teacher))
    return f"{job.out}: {recipe.runs} encoders, run-1 to run-{recipe.runs}; average them with 'soup'"


def run_multilingual(
    job: Job, data: TrainingData, start: str, recipe: MultilingualRecipe, teacher: str, alignments: Path | None = None
) -> str:
    """Run the cross-lingual distillation; says what was made."""
    with needs_extra("train", "training"):
        from medlink.training.biolord.multilingual import Alignments

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
