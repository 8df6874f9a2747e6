"""Annotated notes in folders: brat standoff (https://brat.nlplab.org/standoff.html), DocBin of spaCy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from medlink.notes.pipeline import LinkedMention
from medlink.notes.reading import Note
from medlink.notes.writers.base import FolderWriter, note_name
from medlink.notes.writers.rows import row
from medlink.records import NIL

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span

_ATTRIBUTES = {
    "Presence": ("present", "absent", "uncertain"),
    "Temporality": ("current", "historical", "hypothetical"),
    "Experiencer": ("patient", "family", "other"),
    "Status": ("linked", "ambiguous", "nil"),
}
_LONGEST = 80  # characters of an id in the name of a file
_PIECE = re.compile(r"[^\r\n]+")
_NO_NAME = re.compile(r"[^\w.-]+")
_BLANKS = re.compile(r"\s+")
SHARD = 256
"""Notes of a file of DocBin, those that could not be read among them."""
_KEY, _LABEL = "medlink", "MENTION"  # as the components write them
_STORED = ("ENT_IOB", "ENT_TYPE", "ENT_KB_ID")


class BratWriter(FolderWriter):
    """``NAME.txt`` with ``NAME.ann`` for each note, and ``annotation.conf``, with which brat shows the folder.

    ``NAME`` is the number of the note in the run, and its id as far as a file can be named so. ``NAME.txt`` has each
    character of the note, line ends as they are: offsets are those of the note.

    A mention is a ``T``, in pieces where it goes over a line end, as brat demands; its concept an ``N``, ``Reference``
    to the source and the id of the concept; its status and qualifiers are ``A``; all of its row stands as JSON in a
    note, ``#``, of the type ``Medlink``.
    """

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        """The id, the text and the annotations of one note, as JSON."""
        lines = [line for at, one in enumerate(mentions, 1) for line in self._lines(at, note, language, one)]
        yield json.dumps([note_name(note), note.text, "".join(f"{line}\n" for line in lines)], ensure_ascii=False)

    def files(self, lines: Iterable[Any]) -> Iterator[tuple[str, bytes]]:
        attributes = "".join(f"{name}\tArg:Mention, Value:{'|'.join(values)}\n" for name, values in _ATTRIBUTES.items())
        yield "annotation.conf", f"[entities]\nMention\n[relations]\n[events]\n[attributes]\n{attributes}".encode()

        for number, (note_id, text, marked) in enumerate(lines, 1):
            # the end of a path says more than its beginning
            short = _NO_NAME.sub("_", note_id)[-_LONGEST:].removesuffix(".txt")
            # the limit of a file's name is in bytes
            name = f"{number:08}-{short}".encode()[:200].decode(errors="ignore")
            yield f"{name}.txt", text.encode()
            yield f"{name}.ann", marked.encode()

    def _lines(self, at: int, note: Note, language: str, mention: LinkedMention) -> Iterator[str]:
        pieces = [one.span() for one in _PIECE.finditer(note.text, mention.start, mention.end)]
        spans = ";".join(f"{start} {end}" for start, end in pieces)
        yield f"T{at}\tMention {spans}\t{' '.join(note.text[start:end] for start, end in pieces)}"
        said = row(note, language, mention, self.bundle)
        for number, name in enumerate(_ATTRIBUTES, (at - 1) * len(_ATTRIBUTES) + 1):
            if said[name.lower()] is not None:
                yield f"A{number}\t{name} T{at} {said[name.lower()]}"
        if not mention.link.nil:
            best = mention.link.candidates[0]
            source = _BLANKS.sub("_", best.source.replace(":", "_")) or "medlink"
            concept = _BLANKS.sub("_", best.concept_id)
            yield f"N{at}\tReference T{at} {source}:{concept}\t{_BLANKS.sub(' ', best.preferred_name)}"
        yield f"#{at}\tMedlink T{at}\t{json.dumps(said, ensure_ascii=False)}"


class DocBinWriter(FolderWriter):
    """Files of some hundred notes as documents, as spaCy's own training reads them (https://spacy.io/api/docbin).

    Mentions are the entities and the group ``medlink``, ``kb_id_`` is the concept or ``NIL``. ``doc.user_data`` has the
    id of the note (``note``) and its ``language``. Where the components of medlink are imported ``span._.medlink`` is
    the row of the mention.
    """

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        """The note and the rows of its mentions, as JSON."""
        rows = [row(note, language, one, self.bundle) for one in mentions]
        yield json.dumps([note_name(note), language, note.text, rows], ensure_ascii=False)

    def commit(self, notes: int) -> None:
        """Say where a file ends: it is named by the notes up to there."""
        if notes // SHARD > self._notes // SHARD:
            self._file.write(f"{notes}\n")
        super().commit(notes)

    def files(self, lines: Iterable[Any]) -> Iterator[tuple[str, bytes]]:
        """The documents of some hundred notes at a time: a DocBin is in memory as a whole."""
        from spacy.tokens import DocBin  # with torch: five seconds, which the other formats need not wait

        from medlink.notes.spacy_language import blank

        pipeline, docs = cache(blank), []
        for line in chain(lines, [self._notes]):
            if not isinstance(line, int):
                docs.append(_document(pipeline(line[1]), *line))
            elif docs:
                yield f"{line:010}.spacy", DocBin(_STORED, store_user_data=True, docs=docs).to_bytes()
                docs.clear()


def _document(pipeline: Language, note: str, language: str, text: str, rows: list[dict[str, Any]]) -> Doc:
    doc = pipeline.tokenizer(text)
    held: dict[Any, Any] = doc.user_data
    held |= {"note": note, "language": language}
    spans: list[Span] = []
    for one in rows:
        kb_id = one["concept_id"] or NIL.upper()
        span = doc.char_span(one["start"], one["end"], _LABEL, kb_id, alignment_mode="expand")
        if span is not None and (not spans or spans[-1].end <= span.start):
            spans.append(span)  # two mentions may share a token of spaCy
            held["._.", _KEY, span.start_char, span.end_char] = one
    doc.spans[_KEY] = spans
    # the finder gives no two that overlap
    doc.set_ents(spans)
    return doc
