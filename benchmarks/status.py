"""Whether what notes mention is so: presence, time and person of the findings of ``gold``, read and annotated.

    python benchmarks/status.py

The findings are given by their places, so that only what is said of them counts. A finding in several pieces is read by
the first piece that a cue speaks of. No word of a note is printed: the cues that fail are those of the tables. Needs
the data folder. The rules were made with this gold at hand, so that the figures are those of development.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import click
from annotated import Annotated, gold_notes, written_texts
from open_data import DATA

from medlink.notes.status import StatusReader
from medlink.records import Qualifiers

LANGUAGES = {"de": "German", "es": "Spanish", "en": "English"}
FIELDS = {
    "presence": ("presence", ("present", "absent", "uncertain")),
    "temporality": ("time", ("current", "historical", "hypothetical")),
    "experiencer": ("person", ("patient", "family", "other")),
}
HEADING = "heading"
"""What is read as a part of a heading has no status."""
_WIDTH = 60  # characters of a cue in the table


class Finding(NamedTuple):
    """A finding of the gold: value and cue of each field as they are read, and the value that is right."""

    language: str
    read: dict[str, tuple[str, str]]
    right: dict[str, str]


def findings(texts: Callable[[str], Iterable[Annotated]]) -> Iterator[Finding]:
    """All findings of the texts of each language."""
    for language in LANGUAGES:
        reader = StatusReader(language)
        for text in texts(language):
            note, pieces = reader.read(text.text), [piece for one in text.findings for piece in one.pieces]
            # of the whole note at once, for lists are made of mentions
            said = iter(zip(note.said_of(pieces), note.cues(pieces), strict=True))
            for one in text.findings:
                right = {field: getattr(one, column) for field, (column, _) in FIELDS.items()}
                yield Finding(language, read(list(islice(said, len(one.pieces)))), right)


def read(said: list[tuple[Qualifiers | None, dict[str, str]]]) -> dict[str, tuple[str, str]]:
    """Value and cue of each field of a finding by what is said of its pieces."""
    found = {}
    for field in FIELDS:
        ways = [(getattr(one, field) if one else HEADING, cues.get(field, "")) for one, cues in said]
        found[field] = next((way for way in ways if way[1]), ways[0])
    return found


def table(head: list[str], rows: list[list[Any]], text: int = 1) -> None:
    """Print a table whose first columns are of text."""
    click.echo(f"| {' | '.join(head)} |")
    click.echo("|" + "---|" * text + "---:|" * (len(head) - text))
    for row in rows:
        click.echo(f"| {' | '.join(map(str, row))} |")
    click.echo()


def score(pairs: Counter[tuple[str, str]], value: str) -> str:
    """Precision, recall and F1 of a value by pairs of what is right and what was read, and how often it is right."""
    right, should = pairs[value, value], sum(n for (one, _), n in pairs.items() if one == value)
    said = sum(n for (_, one), n in pairs.items() if one == value)
    if not should:
        return f"(0, {said} read)"
    return f"{right / max(said, 1):.3f} / {right / should:.3f} / {2 * right / (said + should):.3f} ({should})"


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
    marked = [(field, value) for field, (_, values) in FIELDS.items() for value in values[1:]]
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
    for field, (_, values) in FIELDS.items():
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
