"""spaCy's DocBin: a folder of ``.spacy`` files, as spaCy's own training reads them (https://spacy.io/api/docbin).

A DocBin is in memory as a whole when it is written and read, so that each file holds some hundred notes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from medlink.notes.readers.protocol import Note
from medlink.notes.writers.folder import FolderWriter
from medlink.notes.writers.protocol import LinkedMention
from medlink.notes.writers.rows import note_name, row
from medlink.records import NIL

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span

SHARD = 256
"""Notes of a file, those that could not be read among them."""
_KEY, _LABEL = "medlink", "MENTION"  # as the components write them
_STORED = ("ENT_IOB", "ENT_TYPE", "ENT_KB_ID")


class DocBinWriter(FolderWriter):
    """Notes as documents: mentions are the entities and the group ``medlink``, ``kb_id_`` is the concept or ``NIL``.

    ``doc.user_data`` has the id of the note (``note``) and its ``language``. Where the components of medlink are
    imported ``span._.medlink`` is the row of the mention.
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
        """The documents of some hundred notes at a time."""
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
