"""Links to read: the text of each note with its findings in brackets, and a line for each finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medlink.files.escapes import escape_controls
from medlink.files.problems import pluralize
from medlink.notes.reading import Note
from medlink.notes.writers.base import TextWriter, note_name
from medlink.records import AMBIGUOUS, LinkedMention

_WIDTHS = (32, 20, 34, 7)  # of mention, concept, preferred name, score


class ReadableWriter(TextWriter):
    """Text for people, not for programs."""

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        yield escape_controls(f"{note_name(note)} ({language}): {pluralize(len(mentions), 'finding')}")
        for line in _marked(note.text, mentions).splitlines():
            yield f"  {escape_controls(line)}".rstrip()
        if mentions:
            yield _row(("finding", "concept", "preferred name", "score"), "status")
        for mention in mentions:
            yield _finding(mention)
        yield ""


def cut(text: str, width: int) -> str:
    """Return text as one line of at most ``width`` characters."""
    flat = escape_controls(" ".join(text.split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def concept_word(mention: LinkedMention) -> str:
    """Return the concept of a mention, else ``ambiguous`` or ``NIL``."""
    link = mention.link
    return link.concept_id or (link.status if link.status == AMBIGUOUS else "NIL")


def _marked(text: str, mentions: Sequence[LinkedMention]) -> str:
    parts, end = [], 0
    for mention in sorted(mentions, key=lambda mention: (mention.start, -mention.end)):
        # the longest of nested findings
        if mention.start >= end:
            parts += [text[end : mention.start], f"[{text[mention.start : mention.end]}]"]
            end = mention.end
    return "".join([*parts, text[end:]])


def _finding(mention: LinkedMention) -> str:
    best = next(iter(mention.link.candidates), None)
    name, score = ("", "") if best is None else (best.preferred_name, f"{best.score:.3f}")
    words = [] if mention.qualifiers is None else mention.qualifiers.unusual or ["present"]
    if mention.value is not None:
        value = mention.value
        words.append(f"{value.measure} {value.number:g} {value.unit}".rstrip() + f" ({value.reads})")
    return _row((mention.link.mention, concept_word(mention), name, score), ", ".join(words))


def _row(cells: Sequence[str], last: str) -> str:
    padded = "".join(f"{cut(cell, width - 2):{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))
    return f"  {padded}{escape_controls(last)}".rstrip()
