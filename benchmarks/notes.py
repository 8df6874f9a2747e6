"""Reading notes that no finder has read before: medlink and rival programs, in one run.

    python benchmarks/notes.py --work FOLDER --peers FOLDER

The notes are the letters, cases and transcriptions of the data folder and cases of CodiEsp, in Spanish or in English
translation. A case is taken once, in one language: most Spanish notes are cases of CodiEsp too, with small differences.
Before the clock starts, each finder reads other notes, among them short written German texts, which share no eight
words in a row with those that are timed. The dictionary is HPO in English, Spanish and German.

Every row is a process of its own (``peers/time_notes.py``), without other work to do on its core; only the row of two
processes has two cores. Opening an index is not timed. Rows are run in turn, and of the runs of each the one with the
median wall time counts. *linked* is the number of mentions with a concept. Memory is the most that was resident, of two
processes that of the parent and, behind the plus, of the larger worker; they share the pages of the bundle.

QuickUMLS and FastHPOCR (``rivals.py``) find mentions of names without reading their status. scispaCy's candidate
generator gets the mentions that medlink found: finding them costs it nothing here.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import median, median_low
from typing import NamedTuple

import click
from annotated import written_texts
from fit_choice import hpo_bundle
from open_data import BENCHMARKS, DATA, hpo_dictionary
from rivals import PROGRAMS, Rival, RivalError, write_names

from medlink import NotePipeline
from medlink.notes.reading import Note

LANGUAGES = {"de": "German", "es": "Spanish", "en": "English"}
NUMBER = 640
"""Notes that are timed."""
_WARM = 16  # notes of each language that are read before
_RUN = 8  # words in a row that no note of both kinds may share
_ALL, _ENGLISH = "all", "en"
_MEDLINK = "medlink"
_SAME = "`link_notes`, one process", "`link_notes`, two processes", "medlink through spaCy"
"""Rows that must find what medlink finds."""


@dataclass(frozen=True)
class Timed:
    """A note for ``time_notes.py``."""

    id: str
    language: str
    text: str
    warm: bool = False
    mentions: tuple[str, ...] = ()

    @property
    def runs(self) -> set[tuple[str, ...]]:
        """Its words, so many in a row."""
        words = re.findall(r"\w+", self.text.lower())
        return {tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)}


class Measure(NamedTuple):
    """What a process took for its notes."""

    wall: float
    processor: float
    memory: float
    workers: float
    mentions: int
    linked: int


@dataclass(frozen=True)
class Row:
    """A finder: its name in ``time_notes.py``, what it opens, its notes, and where it runs."""

    title: str
    finder: str
    index: Path
    notes: str = _ALL
    python: str = sys.executable
    path: str = ""


def of_data(language: str) -> list[Timed]:
    """The notes of the data folder in a language."""
    paths = sorted((DATA / "notes" / language).glob("*.txt"))
    return [Timed(path.stem, language, path.read_text("utf-8-sig")) for path in paths]


def cases(taken: set[str]) -> Iterator[Timed]:
    """Cases of CodiEsp but those that are taken, in an order of their own, in Spanish and in English by turns."""
    paths = [path for part in ("train", "dev") for path in (BENCHMARKS / "codiesp" / part / "text_files").glob("*.txt")]
    paths = sorted((path for path in paths if path.stem not in taken), key=lambda path: path.name)
    random.Random(1).shuffle(paths)
    for number, path in enumerate(paths):
        language = ("es", "en")[number % 2]
        folder = path.parent if language == "es" else path.parents[1] / "text_files_en"
        yield Timed(path.stem, language, (folder / path.name).read_text("utf-8-sig"))


def chosen(number: int = NUMBER) -> list[Timed]:
    """The notes to be timed, in a fixed order, and those that are read before them."""
    notes = [note for language in LANGUAGES for note in of_data(language)]
    others = cases({note.id for note in notes})
    notes += [next(others) for _ in range(NUMBER - len(notes))]
    random.Random(2).shuffle(notes)
    notes = notes[:number]
    known = {run for note in notes for run in note.runs}
    warm = Counter[str]()
    for note in chain(others, (Timed(text.name, "de", text.text) for text in written_texts("de"))):
        if warm[note.language] < _WARM and not known & note.runs:
            warm[note.language] += 1
            notes.append(replace(note, warm=True))
    return notes


def with_mentions(notes: Sequence[Timed], bundle: Path) -> Iterator[Timed]:
    """The notes with the mentions that medlink finds in them."""
    pipeline = NotePipeline(bundle)
    for note in notes:
        (linked,) = pipeline.link([Note(note.id, note.text, note.language)])
        yield replace(note, mentions=tuple(one.link.mention for one in linked.mentions))


def described(notes: Sequence[Timed]) -> Iterator[str]:
    """Lines on the notes: languages, sizes, and what of them comes twice."""
    timed = [note for note in notes if not note.warm]
    lengths = [len(note.text) for note in timed]
    yield (
        f"{len(timed)} notes, {_kilobytes(timed):,.0f} kB, each of them once, all languages mixed; of "
        f"{median(lengths):,.0f} characters in the median, {min(lengths):,} to {max(lengths):,}:\n"
    )
    for language, name in LANGUAGES.items():
        own = [note for note in timed if note.language == language]
        yield f"- {name}: {len(own)} notes, {_kilobytes(own):,.0f} kB"
    runs = Counter(run for note in timed for run in note.runs)
    again = sum(number - 1 for number in runs.values()) / runs.total()
    yield (
        f"\nOf all spans of {_RUN} words, {100 * again:.1f} % stand in another of the notes too; none stands in "
        f"one of the {len(notes) - len(timed)} notes that are read before the clock starts.\n"
    )


def _kilobytes(notes: Sequence[Timed]) -> float:
    return sum(len(note.text.encode()) for note in notes) / 1000


def rows(bundle: Path, baseline: Path | None) -> list[Row]:
    """Medlink, its other ways, and an older version of it."""
    here = str(Path(__file__).parents[1])
    found = [Row(_MEDLINK, "medlink", bundle)]
    if baseline is not None:
        found.append(Row(f"{_MEDLINK}, {baseline.name}", "medlink", bundle, path=str(baseline)))
    found += map(Row, _SAME, ("link_notes", "link_notes-two", "spacy"), [bundle] * len(_SAME))
    found.append(Row(f"{_MEDLINK}, English notes", "medlink", bundle, _ENGLISH))
    return [row if row.path else replace(row, path=here) for row in found]


def rivals(peers: Path, names: Path) -> tuple[list[Row], list[str]]:
    """The rivals whose environments are there, with an index that is built where it is missing; why others are not."""
    found, absent = [], []
    for rival, finder, suffix, notes in (
        ("quickumls", "quickumls", "", _ALL),
        ("tfidf", "candidates", ": candidates of mentions given", _ALL),
        ("fasthpocr", "fasthpocr", ", English notes", _ENGLISH),
    ):
        python, peer = peers / rival / "bin/python", Rival(rival, peers, names)
        try:
            if not python.exists():
                raise RivalError("it is not installed; benchmarks/peers/install.sh does it")
            about = peer.built().about
            if finder == "candidates":
                about = re.sub(r".*\((.+)\)", r"\1", about)  # its name in brackets
            found.append(Row(f"{about}{suffix}", finder, peer.folder / "index", notes, str(python)))
        except RivalError as error:
            absent.append(f"{rival} is left out: {error}.")
    return found, absent


def measured(row: Row, work: Path) -> Measure:
    """One run of a row, in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": row.path}
    command = [
        row.python,
        str(PROGRAMS / "time_notes.py"),
        row.finder,
        str(row.index),
        str(work / f"{row.notes}.jsonl"),
    ]
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[: 2 if row.finder.endswith("-two") else 1])
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    finally:
        os.sched_setaffinity(0, cores)
    return Measure(**json.loads(done.stdout.splitlines()[-1]))


def middle(runs: Sequence[Measure]) -> Measure:
    """The run with the median wall time."""
    wall = median_low(run.wall for run in runs)
    return next(run for run in runs if run.wall == wall)


def table(results: dict[Row, Measure], notes: dict[str, list[Timed]]) -> Iterator[str]:
    """Lines of the table; ratios are to the row of medlink with the same notes."""
    columns = ["notes", "kB", "seconds", "processor seconds", "notes a second", "kB a second", "medlink = 1"]
    columns += ["mentions", "linked", "memory, MB"]
    yield f"| finder | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}"
    first: dict[str, float] = {}
    for row, run in results.items():
        timed = [note for note in notes[row.notes] if not note.warm]
        size, rate = _kilobytes(timed), len(timed) / run.wall
        of_medlink = rate / first.setdefault(row.notes, rate)
        memory = f"{run.memory:,.0f}" + (f" + {run.workers:,.0f}" if run.workers else "")
        cells = [row.title, f"{len(timed)}", f"{size:,.0f}", f"{run.wall:,.1f}", f"{run.processor:,.1f}"]
        cells += [f"{rate:,.1f}", f"{size / run.wall:,.1f}", f"{of_medlink:.2f}", f"{run.mentions:,}"]
        yield f"| {' | '.join([*cells, f'{run.linked:,}', memory])} |"


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for what is built.")
@click.option(
    "--peers",
    envvar="MEDLINK_PEERS",
    type=click.Path(path_type=Path),
    help="Folder of the rivals (peers/install.sh) and of what they built; in <work>/peers by default.",
)
@click.option(
    "--baseline",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Checkout of another medlink, which gets a row with the same bundle.",
)
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1), help="Processes for each row.")
@click.option("--most", default=NUMBER, show_default=True, type=click.IntRange(1), help="Notes, for a trial.")
def main(work: Path, peers: Path | None, baseline: Path | None, runs: int, most: int) -> None:
    """Print the table."""
    bundle = hpo_bundle(work).folder
    others, remarks = rivals((peers or work / "peers").absolute(), write_names(work / "names.tsv"))
    every = list(with_mentions(chosen(most), bundle))
    notes = {_ALL: every, _ENGLISH: [note for note in every if note.language == "en"]}
    for name, own in notes.items():
        (work / f"{name}.jsonl").write_text("".join(json.dumps(asdict(note)) + "\n" for note in own), encoding="utf-8")
    # the first row of each set of notes is that of medlink
    race = sorted([*rows(bundle.absolute(), baseline and baseline.absolute()), *others], key=lambda row: row.notes)
    times = [{row: measured(row, work) for row in race} for _ in range(runs)]
    results = {row: middle([one[row] for one in times]) for row in race}
    counts = {row.title: (run.mentions, run.linked) for row, run in results.items()}
    if different := [title for title in _SAME if counts[title] != counts[_MEDLINK]]:
        raise click.ClickException(f"other mentions than those of medlink: {', '.join(different)}")
    click.echo(f"{len(hpo_dictionary()):,} names of HPO in three languages.\n")
    for line in chain(described(every), table(results, notes)):
        click.echo(line)
    for remark in remarks:
        click.echo(f"\n{remark}")


if __name__ == "__main__":
    main()
