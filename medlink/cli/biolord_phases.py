"""The phases of BioLORD as the command line runs them: knowledge base, tables and recipe to an encoder's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medlink.cli.output import say_left_out
from medlink.errors import ConfigError, InputError

if TYPE_CHECKING:
    from medlink.files.problems import Problems
    from medlink.records import Definition
    from medlink.training import BioLordTrainer
    from medlink.training.common.phase import Measure
    from medlink.training.data.rated import RatedPair
    from medlink.training.data.selection import Selection
    from medlink.training.data.text_store import ConceptTexts

OF_DEV = ("evaluate_steps", "patience")
"""What of a recipe means nothing without a development measure."""


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

    def selection(self) -> Selection:
        """What of the names and definitions is trained on; says how many ids to leave out are no concepts."""
        from medlink.kb import KnowledgeBase
        from medlink.training.data.selection import Selection

        with KnowledgeBase(self.kb) as kb:
            selection = Selection(kb, languages=self.languages or None, without=self._held_out())
        if selection.unmatched:
            click.echo(f"ids to leave out that are no concepts: {selection.unmatched} in {self.without}", err=True)
        return selection

    def further(self, selection: Selection) -> list[Definition]:
        """The definitions of the tables that are trained on, by concept; says how many are not."""
        from medlink.files.problems import Problems
        from medlink.kb import KnowledgeBase
        from medlink.training.data.definitions import definitions_by_code, read_definitions

        problems = Problems(adjustable=False)
        read: Iterable[Definition] = (
            one for path in self.definitions for one in read_definitions(path, problems=problems)
        )
        with KnowledgeBase(self.kb) as kb:
            coded = definitions_by_code(kb, read, self.system) if self.system else read
            found = sorted(selection.added(coded, problems), key=lambda one: (one.concept_id, one.text))
        _say(problems)
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
        from medlink.files.problems import Problems
        from medlink.files.streams import LineFile

        if self.without is None:
            return frozenset()
        # not one line may be lost: what it names would be trained on
        lines = LineFile(self.without, Problems(0, adjustable=False))
        ids = frozenset(text.strip() for _, text in lines if text.strip())
        if not ids:
            raise InputError("there is no id in it", path=self.without, remedy="give one id a line")
        return ids


def _say(problems: Problems) -> None:
    """Say on standard error what was noted of a table, and which of its rows are not used."""
    for note in problems.notes:
        click.echo(note, err=True)
    say_left_out(problems)


def _rated(path: Path) -> list[RatedPair]:
    """Rated pairs of a table; says which of its rows are not used."""
    from medlink.files.problems import Problems
    from medlink.training.data.rated import read_pairs

    problems = Problems(adjustable=False)
    pairs = read_pairs(path, problems)
    _say(problems)
    return pairs


def development_measure(path: Path | None) -> Measure | None:
    """Spearman correlation of cosines with the ratings of a table, as ``medlink evaluate similarity`` has it.

    Args:
        path: rated pairs of concepts or of sentences; ``None`` for no measure.

    Raises:
        InputError: the table cannot be read.
    """
    if path is None:
        return None
    from medlink.evaluation.similarity import correlate, pair_cosines

    pairs = _rated(path)
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


def train_sts(
    trainer: BioLordTrainer, tables: Mapping[str, Path], out: Path, recipe: Mapping[str, Any], dev: Path | None
) -> str:
    """Run the STS phase; says what was made."""
    from medlink.training.biolord.recipes import StsRecipe

    read = {name: _rated(path) for name, path in tables.items()}
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
    from medlink.training.biolord.recipes import ContrastiveRecipe
    from medlink.training.data.pairs import KnowledgeBasePairs, PairRecipe
    from medlink.training.data.view import TrainingView

    how = ContrastiveRecipe(**recipe)
    selection = data.selection()
    further = data.further(selection)
    with KnowledgeBase(data.kb) as kb:
        view = TrainingView(kb, languages=selection.languages, without=selection.left_out, definitions=further)
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
    from medlink.training.biolord.recipes import DistillationRecipe

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

    from medlink.language.tags import language_tag
    from medlink.training.biolord.multilingual_data import Alignments
    from medlink.training.biolord.recipes import MultilingualRecipe

    # the English names are needed as well, and a language may be in the table alone: the alignments say what is missing
    names = replace(data, languages=()).selection().names
    groups = Alignments([language_tag(one) or one for one in data.languages], names=names, table=alignments)
    encoder = trainer.multilingual(
        groups, teacher, out, MultilingualRecipe(**recipe), evaluate=development_measure(dev)
    )
    return f"{out}: encoder {encoder.fingerprint} for en, {', '.join(groups.languages)}"


def train_static(
    trainer: BioLordTrainer, data: Data, out: Path, recipe: Mapping[str, Any], dev: Path | None, student: str | None
) -> str:
    """Distil into a static encoder; says what was made."""
    from medlink.training.static.recipes import StaticStudentRecipe

    encoder = trainer.static(
        data.selection().names, out, student, StaticStudentRecipe(**recipe), evaluate=development_measure(dev)
    )
    return f"{out}: static encoder {encoder.fingerprint}; its README.md states what it loses"


def average(folders: Sequence[Path], out: Path) -> str:
    """Average encoders, or the encoders in folders that ``distill`` made; says what was made."""
    from medlink.training import BioLordTrainer

    each = [
        one
        for folder in folders
        for one in ([folder] if (folder / "modules.json").exists() else sorted(folder.glob("run-*")) or [folder])
    ]
    encoder = BioLordTrainer.soup(each, out)
    return f"{out}: encoder {encoder.fingerprint}, the mean of {len(each)}"
