"""The phases of BioLORD as functions of paths and recipes."""

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
from medlink.training.data.pair_recipe import PairRecipe
from medlink.training.data.rated_pairs import RatedPair, read_pairs
from medlink.training.data.selection import Selection
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
        with KnowledgeBase(self.kb) as kb:
            selection = Selection(kb, languages=self.languages or None, without=self._excluded_ids())
        if selection.unmatched:
            self.progress(f"ids to leave out that are not concepts: {selection.unmatched} in {self.without}")
        return selection

    def added_definitions(self, selection: Selection) -> list[Definition]:
        """Read the selected definitions of the tables, sorted by concept; report the number of other definitions."""
        from medlink.training.data.selection import definitions_by_code, read_definitions

        problems = Problems(adjustable=False)
        rows: Iterable[Definition] = (
            definition for path in self.definitions for definition in read_definitions(path, problems)
        )
        with KnowledgeBase(self.kb) as kb:
            definitions = definitions_by_code(kb, rows, self.system) if self.system else rows
            selected = selection.filter_definitions(definitions, problems)
            added = sorted(selected, key=lambda definition: (definition.concept_id, definition.text))
        _report(problems, self.progress)
        return added

    def concepts(self, descriptions: int, seed: int) -> Callable[[], Iterable[ConceptTexts]]:
        """Return a function; each call iterates over the names and definitions of each concept.

        A concept without a definition has up to ``descriptions`` descriptions, drawn by ``seed``
        (:func:`~medlink.training.data.pairs.iter_descriptions`).
        """
        from medlink.training.data.pairs import iter_descriptions
        from medlink.training.data.text_store import group_by_concept
        from medlink.training.data.view import TrainingView

        selection = self.selection()
        added = self.added_definitions(selection)

        def generated() -> Iterator[Definition]:
            if descriptions:
                with KnowledgeBase(self.kb) as kb:
                    languages, without = selection.languages, selection.excluded
                    view = TrainingView(kb, languages=languages, without=without, definitions=added)
                yield from iter_descriptions(view, descriptions, seed)

        def read() -> Iterable[ConceptTexts]:
            concepts = group_by_concept(selection.names(), selection.definitions(), added, generated())
            # a definition whose concept has no name is of no use
            return (concept for concept in concepts if concept.names)

        return read

    def _excluded_ids(self) -> frozenset[str]:
        if self.without is None:
            return frozenset()
        # a bad line is an error: its concept would be trained on
        lines = LineFile(self.without, Problems(0, adjustable=False))
        ids = frozenset(text.strip() for _, text in lines if text.strip())
        if not ids:
            raise InputError("there is no id in it", path=self.without, remedy="give one id a line")
        return ids


def load_rated_pairs(path: Path, progress: Progress, extra: Sequence[str] = ()) -> list[RatedPair]:
    """Read rated pairs with the cells of ``extra`` columns; reports unused rows."""
    problems = Problems(adjustable=False)
    pairs = read_pairs(path, problems, extra)
    _report(problems, progress)
    return pairs


def resolve_tables(names: Sequence[str], folder: Path) -> dict[str, Path]:
    """Resolve names of tables, relative to a folder, to paths.

    Raises:
        ConfigError: a file is given twice, so its pairs would count twice.
    """
    tables: dict[str, Path] = {}
    for name in names:
        if (folder / name).resolve() in {path.resolve() for path in tables.values()}:
            raise ConfigError(f"the table {name} is given twice", remedy="name each table once")
        tables[name] = folder / name
    return tables


def development_measure(path: Path | None, progress: Progress) -> Measure | None:
    """Make a measure: the Spearman correlation of cosines with the ratings of a table (``medlink evaluate
    similarity``).

    Raises:
        ConfigError: the ratings do not differ.
    """
    if path is None:
        return None
    pairs = load_rated_pairs(path, progress)
    if len({pair.rating for pair in pairs}) < 2:
        raise ConfigError("the ratings do not differ", path=path, remedy="measure on pairs with different ratings")
    return cosine_correlation(pairs, "spearman")


def cosine_correlation(pairs: Sequence[RatedPair], kind: str) -> Measure:
    """Make a measure: the ``"pearson"`` or ``"spearman"`` correlation of the cosines of pairs with their ratings."""
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    evaluator = EmbeddingSimilarityEvaluator(
        [pair.text_1 for pair in pairs],
        [pair.text_2 for pair in pairs],
        [float(pair.rating) for pair in pairs],
        batch_size=32,
        similarity_fn_names=["cosine"],
        write_csv=False,
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
        measure = development_measure(self.dev, self.progress)
        return trainer.train(self.out, **dict(self.options), progress=self.progress, evaluate=measure)


# Each function runs a phase and returns one line about its result.


def run_sts(job: Job, tables: Mapping[str, Path], start: str, recipe: StsRecipe) -> str:
    pairs = {name: load_rated_pairs(path, job.progress) for name, path in tables.items()}
    encoder = job.train(BioLordTrainer(pairs, start, recipe))
    return f"{job.out}: encoder {encoder.fingerprint}, trained on {sum(map(len, pairs.values())):,} rated pairs"


def run_contrastive(job: Job, data: TrainingData, start: str, recipe: ContrastiveRecipe, pairs: PairRecipe) -> str:
    from medlink.training.data.pairs import KnowledgeBasePairs
    from medlink.training.data.view import TrainingView

    selection = data.selection()
    added = data.added_definitions(selection)
    with KnowledgeBase(data.kb) as kb:
        view = TrainingView(kb, languages=selection.languages, without=selection.excluded, definitions=added)
        about: dict[str, Any] = {"knowledge base": f"`{kb.content_hash}`"}
    if "seed" not in pairs.model_fields_set:
        pairs = pairs.replace(seed=recipe.seed)
    source = KnowledgeBasePairs(view, pairs)
    about |= {name.replace("_", " "): count for name, count in source.counts().items()}
    about["pairs as asked for"] = f"`{source.recipe.to_dict()}`"
    encoder = job.train(BioLordTrainer(source, start, recipe.for_encoder(start), about=about))
    return f"{job.out}: encoder {encoder.fingerprint}, trained on {source.pairs_per_epoch:,} pairs an epoch"


def run_distill(job: Job, data: TrainingData, start: str, recipe: DistillationRecipe, teacher: str) -> str:
    concepts = data.concepts(recipe.descriptions, recipe.seed)
    job.train(BioLordTrainer(concepts, start, recipe, teacher=teacher))
    return f"{job.out}: {recipe.runs} encoders, run-1 to run-{recipe.runs}; average them with 'soup'"


def run_multilingual(
    job: Job, data: TrainingData, start: str, recipe: MultilingualRecipe, teacher: str, alignments: Path | None = None
) -> str:
    with needs_extra("train", "training"):
        from medlink.training.biolord.multilingual import Alignments

    # all languages: English names are needed too, and Alignments reports a missing language
    names = replace(data, languages=()).selection().names
    groups = Alignments([language_tag(name) or name for name in data.languages], names=names, table=alignments)
    encoder = job.train(BioLordTrainer(groups, start, recipe, teacher=teacher))
    return f"{job.out}: encoder {encoder.fingerprint} for en, {', '.join(groups.languages)}"


def run_static(job: Job, data: TrainingData, start: str | None, recipe: StaticStudentRecipe, teacher: str) -> str:
    from medlink.training.static.student import StaticStudent

    encoder = job.train(StaticStudent(data.selection().names, start, recipe, teacher=teacher))
    return f"{job.out}: static encoder {encoder.fingerprint}; its README.md states what it loses"


def run_soup(folders: Sequence[Path], out: Path) -> str:
    """Average encoders; an output folder of the self-distillation stands for all encoders in it."""
    from medlink.training.common.averaging import encoder_folders, soup

    return f"{out}: encoder {soup(folders, out).fingerprint}, the mean of {len(encoder_folders(folders))}"
