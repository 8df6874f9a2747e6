"""The page of linked notes: their text with the links marked, and a card for each mention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from medlink.curation import page
from medlink.curation.concepts import CONCEPT, concept_row
from medlink.curation.page import MIN_SCORE, round_score
from medlink.errors import ConfigError
from medlink.files.atomic import check_output_paths
from medlink.records import LINKED, LinkedMention

if TYPE_CHECKING:  # pages of clusters need neither spaCy nor SQLAlchemy
    from medlink.kb import KnowledgeBase
    from medlink.notes.pipeline import LinkedNote
    from medlink.notes.reading import Note
    from medlink.notes.writers import Job, Writer

PAGE_FILES = ("notes/body.html", "notes/style.css", "notes/note.js", "notes/card.js", "notes/view.js")
"""Files of every page of notes, below ``resources/pages``."""
_FIELDS = {
    "note": ["name", "language", "problem", "parts"],
    "mention": [
        *("text", "status", "expanded", "candidates", "qualifiers", "section", "attributes", "value", "start", "end")
    ],
    "attribute": ["text", "kind", "concept_id", "name"],
    "candidate": ["concept_id", "same_as", "preferred_name", "score", "name", "language", "route", "source"],
    "concept": list(CONCEPT),
}
"""Columns of the rows of the page's data. ``parts`` are texts, headings (objects) and mentions. ``qualifiers`` are the
values that are not the default, ``None`` if they were not read."""


def write_note_page(path: str | PathLike[str], notes: Iterable[LinkedNote], kb: KnowledgeBase, *, title: str) -> None:
    """Write the page of notes with their links; the file appears when it is complete.

    Candidates with a score below :data:`~medlink.curation.page.MIN_SCORE` are left out unless they were linked. Memory
    grows with the concepts, which are read from ``kb``, not with the notes.
    """
    page.write_page(path, (*PAGE_FILES, "notes/page.js"), title, note_page_data(notes, kb))


class PageWriter:
    """A writer that passes notes to another writer, and writes their page at the end. Memory grows with the notes."""

    def __init__(self, writer: Writer, path: str | PathLike[str], kb: KnowledgeBase, *, title: str) -> None:
        self._writer, self._path, self._kb, self._title = writer, path, kb, title
        self._notes: list[LinkedNote] = []
        self.out = getattr(writer, "out", None)

    @property
    def remarks(self) -> Sequence[str]:
        return getattr(self._writer, "remarks", ())

    def open(self, job: Job) -> int:
        if job.resume:
            remedy = "leave one of them out, or make the page of the links with a review"
            raise ConfigError("a run with a page cannot be resumed", path=self._path, remedy=remedy)
        check_output_paths({"the page": self._path, "the output": self.out}, job.reads)
        return self._writer.open(job)

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        from medlink.notes.pipeline import LinkedNote

        self._writer.write(note, language, mentions)
        self._notes.append(LinkedNote(note, language, tuple(mentions)))

    def commit(self, notes: int) -> None:
        self._writer.commit(notes)

    def close(self, error: BaseException | None = None) -> None:
        self._writer.close(error)
        if error is None:
            write_note_page(self._path, self._notes, self._kb, title=self._title)


def note_page_data(notes: Iterable[LinkedNote], kb: KnowledgeBase) -> Iterator[str]:
    """Return the data of the page as JSON, in pieces."""
    concepts: dict[tuple[str, str], None] = {}  # language and id, in order of appearance
    rows = (_note(linked, concepts) for linked in notes)

    def concept_rows() -> Iterator[list[Any]]:  # read after the notes
        yield from filter(None, (concept_row(kb, *concept) for concept in concepts))

    return page.json_object({"fields": _FIELDS, "least": MIN_SCORE}, notes=rows, concepts=concept_rows())


def _note(linked: LinkedNote, concepts: dict[tuple[str, str], None]) -> list[Any]:
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
    marks: list[tuple[int, int, Any]] = [
        (mention.start, mention.end, _mention(text[mention.start : mention.end], mention))
        for mention in linked.mentions
    ]
    if any(mention.qualifiers is not None for mention in linked.mentions):
        from medlink.reading.qualifiers import QualifierReader

        mentions = [(start, stop) for start, stop, _ in marks]
        for start, stop, section in QualifierReader(linked.language).read(text).headings:
            if not any(start < end and begin < stop for begin, end in mentions):
                marks.append((start, stop, {"heading": text[start:stop], "section": section}))
    return sorted(marks, key=lambda mark: mark[:2])


def _mention(text: str, mention: LinkedMention) -> list[Any]:
    link, read = mention.link, mention.qualifiers
    linked = link.candidates[:1] if link.status == LINKED else ()
    visible = [candidate for candidate in link.candidates if candidate.score >= MIN_SCORE or candidate in linked]
    candidates = [[round_score(getattr(candidate, field)) for field in _FIELDS["candidate"]] for candidate in visible]
    qualifiers = None
    if read is not None:
        age = "" if read.onset_age is None else f"at {read.onset_age}"
        values = (read.presence, read.temporality, read.experiencer, read.relative, age, "allergy" * read.allergy)
        qualifiers = page.unusual_qualifiers(value or "" for value in values)
    attributes = [[getattr(own, field) for field in _FIELDS["attribute"]] for own in mention.attributes or ()]
    value = None if mention.value is None else page.describe_value(mention.value)
    section, located = read and read.section, (mention.start, mention.end)
    return [text, link.status, link.expanded, candidates, qualifiers, section, attributes, value, *located]
