"""Folders of annotated notes: brat standoff (https://brat.nlplab.org/standoff.html), and DocBin of spaCy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from medlink.notes.reading import Note
from medlink.notes.writers.base import FolderWriter, note_name
from medlink.notes.writers.rows import mention_row
from medlink.records import NIL, LinkedMention

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span

_ATTRIBUTES = {
    "Presence": ("present", "absent", "uncertain"),
    "Temporality": ("current", "historical", "hypothetical"),
    "Experiencer": ("patient", "family", "other"),
    "Allergy": ("true",),
    "Status": ("linked", "ambiguous", "nil"),
}
_MAX_ID = 80  # characters of an id in a file name
_LINE = re.compile(r"[^\r\n]+")
_UNSAFE = re.compile(r"[^\w.-]+")
_BLANKS = re.compile(r"\s+")
SHARD = 256
"""Notes of one file of DocBin, including unreadable ones."""
_KEY, _LABEL = "medlink", "MENTION"  # as in the spaCy components
_STORED = ("ENT_IOB", "ENT_TYPE", "ENT_KB_ID")


class BratWriter(FolderWriter):
    """``NAME.txt`` with ``NAME.ann`` for each note, and ``annotation.conf``, which brat needs to show the folder.

    ``NAME`` is the number of the note in the run, and as much of its id as a file name allows. ``NAME.txt`` has every
    character of the note, including its line ends, because offsets count these.

    A mention is a ``T``, in pieces if it spans a line end, as brat requires. Its concept is an ``N``, a ``Reference``
    to source and id of the concept. Status and qualifiers are ``A``. The complete row is JSON in a note, ``#``, of type
    ``Medlink``.
    """

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        """Yield id, text and annotations of one note, as JSON."""
        lines = [
            line for number, mention in enumerate(mentions, 1) for line in self._lines(number, note, language, mention)
        ]
        yield json.dumps([note_name(note), note.text, "".join(f"{line}\n" for line in lines)], ensure_ascii=False)

    def files(self, lines: Iterable[Any]) -> Iterator[tuple[str, bytes]]:
        attributes = "".join(f"{name}\tArg:Mention, Value:{'|'.join(values)}\n" for name, values in _ATTRIBUTES.items())
        yield "annotation.conf", f"[entities]\nMention\n[relations]\n[events]\n[attributes]\n{attributes}".encode()

        for number, (note_id, text, standoff) in enumerate(lines, 1):
            # the end of a path is more specific
            short = _UNSAFE.sub("_", note_id)[-_MAX_ID:].removesuffix(".txt")
            # file names are limited in bytes
            name = f"{number:08}-{short}".encode()[:200].decode(errors="ignore")
            yield f"{name}.txt", text.encode()
            yield f"{name}.ann", standoff.encode()

    def _lines(self, at: int, note: Note, language: str, mention: LinkedMention) -> Iterator[str]:
        pieces = [line.span() for line in _LINE.finditer(note.text, mention.start, mention.end)]
        spans = ";".join(f"{start} {end}" for start, end in pieces)
        yield f"T{at}\tMention {spans}\t{' '.join(note.text[start:end] for start, end in pieces)}"
        row = mention_row(note, language, mention, self.bundle)
        for number, name in enumerate(_ATTRIBUTES, (at - 1) * len(_ATTRIBUTES) + 1):
            if row[name.lower()] not in (None, False):
                yield f"A{number}\t{name} T{at} {str(row[name.lower()]).lower()}"
        if not mention.link.nil:
            best = mention.link.candidates[0]
            source = _BLANKS.sub("_", best.source.replace(":", "_")) or "medlink"
            concept = _BLANKS.sub("_", best.concept_id)
            yield f"N{at}\tReference T{at} {source}:{concept}\t{_BLANKS.sub(' ', best.preferred_name)}"
        yield f"#{at}\tMedlink T{at}\t{json.dumps(row, ensure_ascii=False)}"


class DocBinWriter(FolderWriter):
    """Files of some hundred notes as documents, for spaCy's training (https://spacy.io/api/docbin).

    Mentions are the entities and the span group ``medlink``; ``kb_id_`` is the concept or ``NIL``. ``doc.user_data``
    has the id of the note (``note``) and its ``language``. With medlink's components imported, ``span._.medlink`` is
    the row of the mention.
    """

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        """Yield the note and the rows of its mentions, as JSON."""
        rows = [mention_row(note, language, mention, self.bundle) for mention in mentions]
        yield json.dumps([note_name(note), language, note.text, rows], ensure_ascii=False)

    def commit(self, notes: int) -> None:
        """Mark the end of a file, whose name will be the number of notes so far."""
        if notes // SHARD > self._notes // SHARD:
            self._file.write(f"{notes}\n")
        super().commit(notes)

    def files(self, lines: Iterable[Any]) -> Iterator[tuple[str, bytes]]:
        """Yield DocBins of a few hundred documents each, because memory holds a whole DocBin."""
        from spacy.tokens import DocBin  # slow to import, with torch

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
    user_data: dict[Any, Any] = doc.user_data
    user_data |= {"note": note, "language": language}
    spans: list[Span] = []
    for row in rows:
        kb_id = row["concept_id"] or NIL.upper()
        span = doc.char_span(row["start"], row["end"], _LABEL, kb_id, alignment_mode="expand")
        if span is not None and (not spans or spans[-1].end <= span.start):
            spans.append(span)  # two mentions may share a token
            user_data["._.", _KEY, span.start_char, span.end_char] = row
    doc.spans[_KEY] = spans
    doc.set_ents(spans)
    return doc
