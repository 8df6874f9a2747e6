"""The page of linked notes: their text with the links in place, and a card for each mention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any

from medlink.curation.page import LEAST, json_list, measured, short, to_json, unusual, write_page
from medlink.curation.review_page import CONCEPT, concept_row
from medlink.records import LINKED

if TYPE_CHECKING:  # spaCy and SQLAlchemy are not for those who only look at clusters
    from medlink.kb import KnowledgeBase
    from medlink.notes.pipeline import LinkedMention, LinkedNote

_SCRIPTS = ("note.js", "card.js", "page.js")
_FIELDS = {
    "note": ["name", "language", "problem", "parts"],
    "mention": ["text", "status", "expanded", "candidates", "said", "section", "attributes", "value"],
    "attribute": ["text", "kind", "concept_id", "name"],
    "candidate": ["concept_id", "same_as", "preferred_name", "score", "name", "language", "route", "source"],
    "concept": list(CONCEPT),
}
"""What the rows of the page's data hold, in their order; ``parts`` are texts, headings (objects) and mentions.
``said`` are the values of qualifiers but the usual ones, ``None`` where they were not read."""

_Concepts = dict[tuple[str, str], None]
"""Concepts that notes of a language speak of, in the order in which they came."""


def write_notes(path: str | PathLike[str], notes: Iterable[LinkedNote], kb: KnowledgeBase, *, title: str) -> None:
    """Write the page of notes with their links; it appears under its name when it is complete.

    Candidates with a score below :data:`~medlink.curation.page.LEAST` are left out, but for those that were linked.
    Memory grows with the concepts, which are looked up in ``kb``, not with the notes.

    Raises:
        ConfigError: the file cannot be written.
    """
    write_page(path, "notes", _SCRIPTS, title, _data(notes, kb))


def _data(notes: Iterable[LinkedNote], kb: KnowledgeBase) -> Iterator[str]:
    concepts: _Concepts = {}
    yield to_json({"fields": _FIELDS, "least": LEAST})[:-1] + ',"notes":'
    yield from json_list(_note(one, concepts) for one in notes)
    yield ',"concepts":'
    yield from json_list(row for one in concepts if (row := concept_row(kb, *one)))
    yield "}"


def _note(linked: LinkedNote, concepts: _Concepts) -> list[Any]:
    note, end = linked.note, 0
    parts: list[Any] = []
    for start, stop, row in _marks(linked):
        if start >= end:
            if isinstance(row, list):
                concepts.update(dict.fromkeys((linked.language, candidate[0]) for candidate in row[3]))
            parts += [note.text[end:start], row]
            end = stop
    return [note.note_id, linked.language, note.problem, [*parts, note.text[end:]]]


def _marks(linked: LinkedNote) -> list[tuple[int, int, Any]]:
    text = linked.note.text
    found: list[tuple[int, int, Any]] = [
        (one.start, one.end, _mention(text[one.start : one.end], one)) for one in linked.mentions
    ]
    if any(one.qualifiers is not None for one in linked.mentions):
        from medlink.reading.status import StatusReader

        taken = [(start, stop) for start, stop, _ in found]
        for start, stop, section in StatusReader(linked.language).read(text).headings:
            if not any(start < end and begin < stop for begin, end in taken):
                found.append((start, stop, {"heading": text[start:stop], "section": section}))
    return sorted(found, key=lambda mark: mark[:2])


def _mention(text: str, mention: LinkedMention) -> list[Any]:
    link = mention.link
    shown = [
        one for place, one in enumerate(link.candidates) if one.score >= LEAST or (place == 0 and link.status == LINKED)
    ]
    fields = _FIELDS["candidate"]
    candidates = [[short(getattr(one, field)) for field in fields] for one in shown]
    said = mention.qualifiers
    apart = said and unusual((said.presence, said.temporality, said.experiencer))
    attributes = [[getattr(one, field) for field in _FIELDS["attribute"]] for one in mention.attributes or ()]
    value = None if mention.value is None else measured(mention.value)
    return [text, link.status, link.expanded, candidates, apart, said and said.section, attributes, value]
