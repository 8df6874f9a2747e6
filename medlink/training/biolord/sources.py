"""What the phases of BioLORD read: one rule for the knowledge base, whichever phase; tables of rated pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medlink.errors import ConfigError, InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb import KnowledgeBase
from medlink.training.data.rated import RatedPair, read_pairs
from medlink.training.data.selection import Selection

if TYPE_CHECKING:
    from medlink.records import Definition
    from medlink.training.common.batch_trainer import Measure
    from medlink.training.data.text_store import ConceptTexts

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What of a knowledge base is trained on.

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
        from medlink.training.data.definitions import definitions_by_code, read_definitions

        problems = Problems(adjustable=False)
        read: Iterable[Definition] = (
            one for path in self.definitions for one in read_definitions(path, problems=problems)
        )
        with KnowledgeBase(self.kb) as kb:
            coded = definitions_by_code(kb, read, self.system) if self.system else read
            found = sorted(selection.added(coded, problems), key=lambda one: (one.concept_id, one.text))
        _say(problems, self.progress)
        return found

    def concepts(self) -> Callable[[], Iterable[ConceptTexts]]:
        """What gives the names and definitions of each concept, one pass after the other."""
        from medlink.training.data.text_store import concept_texts

        selection = self.selection()
        further = self.further(selection)

        def read() -> Iterable[ConceptTexts]:
            """One pass."""
            texts = concept_texts(selection.names(), selection.definitions(), further)
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


def rated_pairs(path: Path, progress: Progress) -> list[RatedPair]:
    """Rated pairs of a table; says which of its rows are not used."""
    problems = Problems(adjustable=False)
    pairs = read_pairs(path, problems)
    _say(problems, progress)
    return pairs


def rated_tables(names: Sequence[str], folder: Path) -> dict[str, Path]:
    """Tables by their names as they were given, so that two of one name in two folders are two.

    Args:
        names: paths, from the folder on.
        folder: where they count from.

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

    Args:
        path: rated pairs of concepts or of sentences; ``None`` for no measure.
        progress: told which rows are not used.

    Raises:
        ConfigError: the ratings do not differ.
        InputError: the table cannot be read.
    """
    if path is None:
        return None
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    pairs = rated_pairs(path, progress)
    if len({pair.rating for pair in pairs}) < 2:
        raise ConfigError("the ratings do not differ", path=path, remedy="measure on pairs with different ratings")
    evaluator = EmbeddingSimilarityEvaluator(
        [pair.one for pair in pairs],
        [pair.other for pair in pairs],
        [pair.rating for pair in pairs],
        similarity_fn_names=["cosine"],
        batch_size=32,
        write_csv=False,
    )
    return lambda model: float(evaluator(model)["spearman_cosine"])


def _say(problems: Problems, progress: Progress) -> None:
    """Say what was noted of a table, and which of its rows are not used."""
    for note in problems.notes:
        progress(note)
    for kind, count in sorted(problems.bad.items()):
        first = next((one for one in problems.examples if one.kind == kind), None)
        where = "" if first is None else f", the first at {first.path}:{first.line}"
        progress(f"rows that cannot be used: {count} ({kind}{where})")
    for reason, count in sorted(problems.skipped.items()):
        progress(f"rows left out: {count} ({reason})")
