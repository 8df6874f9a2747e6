"""The phases of BioLORD as functions of paths and recipes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medlink.errors import ConfigError, InputError, needs_extra
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb import KnowledgeBase
from medlink.language.tags import language_tag
from medlink.training.biolord.trainer import BioLordTrainer
from medlink.training.data.pair_recipe import PairRecipe
from medlink.training.data.rated_pairs import RatedPair, read_pairs
from medlink.training.data.selection import Selection, definitions_by_code, read_definitions
from medlink.training.recipes import (
    ContrastiveRecipe,
    DistillationRecipe,
    MultilingualRecipe,
    RunOptions,
    StaticStudentRecipe,
    StsRecipe,
)

if TYPE_CHECKING:
    from medlink.models.encoders import Encoder
    from medlink.records import Definition
    from medlink.training.common.resumable_trainer import Measure
    from medlink.training.data.text_store import ConceptTexts
    from medlink.training.data.view import TrainingView
    from medlink.training.static.student import StaticStudent

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The part of a knowledge base to train on, the same for all phases.

    ``definitions`` are tables of further definitions; their ids are codes of ``system`` if that is set. ``languages``
    are the languages of names and definitions, by default all. ``without`` is a file of ids to exclude. ``progress`` is
    called with counts of unused input.
    """

    kb: Path
    definitions: tuple[Path, ...] = ()
    system: str | None = None
    languages: tuple[str, ...] = ()
    without: Path | None = None
    progress: Progress = lambda _: None

    def selection(self) -> Selection:
        """Select names and definitions; report the number of excluded ids that are not concepts."""
        excluded: frozenset[str] = frozenset()
        if self.without is not None:
            # a bad line is an error: its concept would be trained on
            lines = LineFile(self.without, Problems(0, adjustable=False))
            excluded = frozenset(text.strip() for _, text in lines if text.strip())
            if not excluded:
                raise InputError("there is no id in it", path=self.without, remedy="give one id a line")
        with KnowledgeBase(self.kb) as kb:
            selection = Selection(kb, languages=self.languages or None, without=excluded)
        if selection.unmatched:
            self.progress(f"ids to leave out that are not concepts: {selection.unmatched} in {self.without}")
        return selection

    def added_definitions(self, selection: Selection) -> list[Definition]:
        """Read the selected definitions of the tables, sorted by concept; report the number of other definitions."""
        problems = Problems(adjustable=False)
        rows: Iterable[Definition] = (row for path in self.definitions for row in read_definitions(path, problems))
        with KnowledgeBase(self.kb) as kb:
            definitions = definitions_by_code(kb, rows, self.system) if self.system else rows
            selected = selection.filter_definitions(definitions, problems)
            added = sorted(selected, key=lambda definition: (definition.concept_id, definition.text))
        _report(problems, self.progress)
        return added

    def view(self, selection: Selection, added: Iterable[Definition]) -> TrainingView:
        """Read the selected part of the knowledge base into memory, with further definitions."""
        from medlink.training.data.view import TrainingView

        with KnowledgeBase(self.kb) as kb:
            return TrainingView(kb, languages=selection.languages, without=selection.excluded, definitions=added)

    def concepts(self, descriptions: int, seed: int) -> Callable[[], Iterable[ConceptTexts]]:
        """Return a function; each call iterates over the names and definitions of each concept.

        A concept without a definition has up to ``descriptions`` descriptions, drawn by ``seed``
        (:func:`~medlink.training.data.pairs.iter_descriptions`).
        """
        from medlink.training.data.pairs import iter_descriptions
        from medlink.training.data.text_store import group_by_concept

        selection = self.selection()
        added = self.added_definitions(selection)

        def generated() -> Iterator[Definition]:
            if descriptions:
                yield from iter_descriptions(self.view(selection, added), descriptions, seed)

        def read() -> Iterable[ConceptTexts]:
            concepts = group_by_concept(selection.names(), selection.definitions(), added, generated())
            # a definition whose concept has no name is of no use
            return (concept for concept in concepts if concept.names)

        return read


def load_rated_pairs(path: Path, progress: Progress, extra: Sequence[str] = ()) -> list[RatedPair]:
    """Read rated pairs with the cells of ``extra`` columns; report unused rows."""
    problems = Problems(adjustable=False)
    pairs = read_pairs(path, problems, extra)
    _report(problems, progress)
    return pairs


def resolve_tables(names: Iterable[str | Path], folder: Path) -> dict[str, Path]:
    """Resolve names of tables, relative to a folder; raise ConfigError if a file is given twice."""
    tables: dict[str, Path] = {}
    for name in names:
        if (folder / name).resolve() in {path.resolve() for path in tables.values()}:
            raise ConfigError(f"the table {name} is given twice", remedy="name each table once")
        tables[str(name)] = folder / name
    return tables


def cosine_correlation(pairs: Sequence[RatedPair], kind: str) -> Measure:
    """Make a measure: the ``"pearson"`` or ``"spearman"`` correlation of the cosines of pairs with their ratings."""
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    first, second = [pair.text_1 for pair in pairs], [pair.text_2 for pair in pairs]
    ratings = [float(pair.rating) for pair in pairs]
    evaluator = EmbeddingSimilarityEvaluator(
        first, second, ratings, batch_size=32, similarity_fn_names=["cosine"], write_csv=False
    )
    return lambda model: float(evaluator(model)[f"{kind}_cosine"])


def _report(problems: Problems, progress: Progress) -> None:
    for line in (*problems.notes, *problems.summary_lines()):
        progress(line)


@dataclass(frozen=True, slots=True)
class Job:
    """Output folder, options of the run, and the table of rated pairs for the development measure."""

    out: Path
    options: RunOptions
    progress: Progress
    dev: Path | None = None

    def train(self, trainer: BioLordTrainer | StaticStudent) -> Encoder:
        """Train; the measure is the Spearman correlation of ``medlink evaluate similarity`` on ``dev``.

        Raises ConfigError if the ratings of ``dev`` do not differ.
        """
        measure = None
        if self.dev is not None:
            pairs = load_rated_pairs(self.dev, self.progress)
            if len({pair.rating for pair in pairs}) < 2:
                remedy = "measure on pairs with different ratings"
                raise ConfigError("the ratings do not differ", path=self.dev, remedy=remedy)
            measure = cosine_correlation(pairs, "spearman")
        return trainer.train(self.out, **dict(self.options), progress=self.progress, evaluate=measure)


# Each function runs a phase and returns one line about its result.


def run_sts(job: Job, start: str, recipe: StsRecipe, *, tables: Iterable[str | Path], folder: Path = Path()) -> str:
    """Train on tables, relative to a folder."""
    resolved = resolve_tables(tables, folder)
    pairs = {name: load_rated_pairs(path, job.progress) for name, path in resolved.items()}
    encoder = job.train(BioLordTrainer(pairs, start, recipe))
    return f"{job.out}: encoder {encoder.fingerprint}, trained on {sum(map(len, pairs.values())):,} rated pairs"


def run_contrastive(job: Job, start: str, recipe: ContrastiveRecipe, *, data: TrainingData, pairs: PairRecipe) -> str:
    from medlink.training.data.pairs import KnowledgeBasePairs

    selection = data.selection()
    view = data.view(selection, data.added_definitions(selection))
    with KnowledgeBase(data.kb) as kb:
        about: dict[str, Any] = {"knowledge base": f"`{kb.content_hash}`"}
    if "seed" not in pairs.model_fields_set:
        pairs = pairs.replace(seed=recipe.seed)
    source = KnowledgeBasePairs(view, pairs)
    about |= {name.replace("_", " "): count for name, count in source.counts().items()}
    about["recipe of the pairs"] = f"`{source.recipe.to_dict()}`"
    encoder = job.train(BioLordTrainer(source, start, recipe.for_encoder(start), about=about))
    return f"{job.out}: encoder {encoder.fingerprint}, trained on {source.pairs_per_epoch:,} pairs an epoch"


def run_distill(job: Job, start: str, recipe: DistillationRecipe, *, data: TrainingData, teacher: str) -> str:
    concepts = data.concepts(recipe.descriptions, recipe.seed)
    job.train(BioLordTrainer(concepts, start, recipe, teacher=teacher))
    return f"{job.out}: {recipe.runs} encoders, run-1 to run-{recipe.runs}; average them with 'soup'"


def run_multilingual(
    job: Job, start: str, recipe: MultilingualRecipe, *, data: TrainingData, teacher: str, alignments: Path | None
) -> str:
    with needs_extra("train", "training"):
        from medlink.training.biolord.multilingual import Alignments

    # all languages: English names are needed too, and Alignments reports a missing language
    names = replace(data, languages=()).selection().names
    groups = Alignments([language_tag(name) or name for name in data.languages], names=names, table=alignments)
    encoder = job.train(BioLordTrainer(groups, start, recipe, teacher=teacher))
    return f"{job.out}: encoder {encoder.fingerprint} for en, {', '.join(groups.languages)}"


def run_static(job: Job, start: str | None, recipe: StaticStudentRecipe, *, data: TrainingData, teacher: str) -> str:
    from medlink.training.static.student import StaticStudent

    encoder = job.train(StaticStudent(data.selection().names, start, recipe, teacher=teacher))
    return f"{job.out}: static encoder {encoder.fingerprint}; its README.md states what it loses"


def run_soup(folders: Sequence[Path], out: Path) -> str:
    """Average encoders; an output folder of the self-distillation stands for all encoders in it."""
    from medlink.training.common.averaging import encoder_folders, soup

    return f"{out}: encoder {soup(folders, out).fingerprint}, the mean of {len(encoder_folders(folders))}"
