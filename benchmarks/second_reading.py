"""Sentences with the mistakes that a clinician would not forgive: how many medlink reads right, by kind and language.

    python benchmarks/second_reading.py --work FOLDER

``gold/second_reading.tsv`` has the sentences, written for the purpose after the examples of an issue and after notes
of the data folder, which ``source`` names. Braces mark what is to be found: a sign for the status, the words, and an
English name of the concept. Signs: ``-`` absent, ``?`` uncertain, ``<`` historical, ``>`` hypothetical, ``@`` of
another person, ``*`` may be found or not, ``~`` before a name: found is enough. A sentence is right if all its findings
are found with status and concept, and nothing else is. What is ``open`` is known to be read wrongly. Needs the data
folder, for HPO.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
from fit_choice import hpo_bundle

from medlink import Bundle, Note, NotePipeline
from medlink.notes.pipeline import LinkedNote
from medlink.records import Qualifiers

TABLE = Path(__file__).parent / "gold" / "second_reading.tsv"
LANGUAGES = ("de", "en", "es")
_FINDING = re.compile(r"\{(?P<sign>[-?<>@~*]?)(?P<words>[^|}]+)(?:\|(?P<near>~?)(?P<name>[^}]+))?\}")
_SIGNS = {"absent": "-", "uncertain": "?", "historical": "<", "hypothetical": ">"}


class Expected(NamedTuple):
    """A finding of a sentence: its characters, the sign of its status, and a name of its concept, empty if any."""

    start: int
    end: int
    sign: str
    name: str


class Sentence(NamedTuple):
    """A row of the table without its braces."""

    kind: str
    language: str
    text: str
    expected: tuple[Expected, ...]
    is_open: bool


def sentences() -> Iterator[Sentence]:
    """The rows of the table."""
    with open(TABLE, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            text, expected, done = "", list[Expected](), 0
            for found in _FINDING.finditer(row["text"]):
                text += row["text"][done : found.start()]
                name = "" if found["near"] else found["name"] or ""
                expected.append(Expected(len(text), len(text) + len(found["words"]), found["sign"], name))
                text, done = text + found["words"], found.end()
            text += row["text"][done:]
            yield Sentence(row["kind"], row["language"], text, tuple(expected), row["open"] == "open")


def read(bundle: Bundle, rows: Sequence[Sentence]) -> list[LinkedNote]:
    """What medlink reads in sentences, measured values included."""
    notes = [Note(str(number), row.text, row.language) for number, row in enumerate(rows)]
    return NotePipeline(bundle, values=True).link(notes)


def is_right(bundle: Bundle, row: Sentence, note: LinkedNote) -> bool:
    """Whether all findings of a sentence are found with status and concept, and nothing else is."""
    left = {(mention.start, mention.end): mention for mention in note.mentions}
    for start, end, sign, name in row.expected:
        touching = [place for place in left if place[0] < end and place[1] > start]
        if sign == "*":
            for place in touching:
                del left[place]
            continue
        if not touching:
            return False
        mention = left.pop(touching[0])
        for place in touching[1:]:
            del left[place]
        first = {candidate.concept_id for candidate in mention.link.candidates[:1]}
        if _sign(mention.qualifiers) != sign:
            return False
        if name and first.isdisjoint(found.concept_id for found in bundle.kb.lookup(name, "en")):
            return False
    return not left


def _sign(qualifiers: Qualifiers | None) -> str:
    if qualifiers is None:
        return ""
    if qualifiers.experiencer != "patient":
        return "@"
    return _SIGNS.get(qualifiers.presence) or _SIGNS.get(qualifiers.temporality, "")


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the bundle.")
def main(work: Path) -> None:
    """Print the table."""
    bundle, rows = hpo_bundle(work), list(sentences())
    right, every = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row, note in zip(rows, read(bundle, rows), strict=True):
        for key in ((row.kind, row.language), (row.kind, "all"), ("all", row.language), ("all", "all")):
            every[key] += 1
            right[key] += is_right(bundle, row, note)
    click.echo(f"| kind | {' | '.join(LANGUAGES)} | all |\n|---|{'---:|' * (len(LANGUAGES) + 1)}")
    for kind in [*dict.fromkeys(row.kind for row in rows), "all"]:
        cells = [f"{right[kind, language]} of {every[kind, language]}" for language in (*LANGUAGES, "all")]
        click.echo(f"| {kind} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
