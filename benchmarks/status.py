"""Qualifiers of the findings of ``gold``: presence, temporality and experiencer as read and as annotated.

    python benchmarks/status.py

The spans of the findings are given, so that only their qualifiers are measured. The qualifiers of a finding in several
pieces are those of the first piece with a cue. No word of a note is printed: the cues that fail are those of the
tables. Needs the data folder. The rules were developed with this gold: these are development figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import click
from annotated import gold_notes, written_texts
from open_data import DATA

from medlink.evaluation.notes import FIELDS, HEADING, GoldText, ReadStatus, read_status, value_rates
from medlink.reading.qualifiers import QualifierReader

LANGUAGES = {"de": "German", "es": "Spanish", "en": "English"}
_WIDTH = 60  # characters of a cue in the table


class Finding(NamedTuple):
    """A finding of the gold: value and cue of each field as they are read, and the value that is right."""

    language: str
    read: ReadStatus
    right: dict[str, str]


def findings(texts: Callable[[str], Iterable[GoldText]]) -> Iterator[Finding]:
    """All findings of the texts of each language."""
    for language in LANGUAGES:
        reader = QualifierReader(language)
        for text in texts(language):
            for one, read in zip(text.findings, read_status(reader, text), strict=True):
                yield Finding(language, read, {field: getattr(one.qualifiers, field) for field in FIELDS})


def table(head: list[str], rows: list[list[Any]], text: int = 1) -> None:
    """Print a table whose first columns are of text."""
    click.echo(f"| {' | '.join(head)} |")
    click.echo("|" + "---|" * text + "---:|" * (len(head) - text))
    for row in rows:
        click.echo(f"| {' | '.join(map(str, row))} |")
    click.echo()


def score(pairs: Counter[tuple[str, str]], value: str) -> str:
    """Precision, recall and F1 of a value by pairs of what is right and what was read, and how often it is right."""
    precision, recall, f1, should, read = value_rates(pairs, value)
    return f"{precision:.3f} / {recall:.3f} / {f1:.3f} ({should})" if should else f"(0, {read} read)"


Pairs = dict[tuple[str, str], Counter[tuple[str, str]]]
"""For a language and a field how often each value that is right is read as each value."""


def values_of(found: Iterable[Finding]) -> Pairs:
    """What is right and what was read, counted."""
    pairs: Pairs = {(language, field): Counter() for language in LANGUAGES for field in FIELDS}
    for one in found:
        for field in FIELDS:
            pairs[one.language, field][one.right[field], one.read[field][0]] += 1
    return pairs


def scores(pairs: Pairs) -> None:
    """Print precision, recall and F1 of each value but the usual one."""
    marked = [(field, value) for field, values in FIELDS.items() for value in values[1:]]
    table(
        ["P / R / F1 (findings)", *LANGUAGES.values()],
        [[f"`{value}`", *(score(pairs[la, field], value) for la in LANGUAGES)] for field, value in marked],
    )


def shortened(cue: str) -> str:
    """A cue as a cell of a table."""
    return (cue if len(cue) <= _WIDTH else f"{cue[:_WIDTH].rstrip()}…").replace("|", r"\|")


@click.command()
def main() -> None:
    """Print the tables."""
    if not (DATA / "notes").is_dir():
        raise click.ClickException(
            f"the notes of the gold are not here: {DATA / 'notes'} (MEDLINK_DATA names the data)"
        )
    found = list(findings(gold_notes))
    pairs = values_of(found)
    scores(pairs)
    click.echo("The same in the texts that were written with their findings:\n")
    scores(values_of(findings(written_texts)))
    click.echo("What is right, and how often it is read as each value:\n")
    for field, values in FIELDS.items():
        rows = [
            [name, f"`{value}`", *(pairs[la, field][value, one] for one in (*values, HEADING))]
            for la, name in LANGUAGES.items()
            for value in values
            if any(right == value for right, _ in pairs[la, field])
        ]
        table([field, "right", *(f"`{one}`" for one in values), HEADING], rows, text=2)
    click.echo("The cues that fail, by language; without a cue what its section says, or nothing, was read:\n")
    wrong = Counter(
        (LANGUAGES[one.language], cue, value, one.right[field])
        for one in found
        for field in FIELDS
        for value, cue in [one.read[field]]
        if value != one.right[field]
    )
    rows = [
        [name, f"`{shortened(cue)}`" if cue else "", f"`{value}`", f"`{right}`", n]
        for (name, cue, value, right), n in sorted(wrong.items())
    ]
    table(["language", "cue", "read", "right", "findings"], rows, text=4)


if __name__ == "__main__":
    main()
