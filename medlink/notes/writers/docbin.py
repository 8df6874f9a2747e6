"""spaCy's DocBin: a folder of ``.spacy`` files, as spaCy's own training reads them (https://spacy.io/api/docbin).

A DocBin is in memory as a whole when it is written and read, so that each file holds some hundred notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spacy.tokens import Doc, DocBin, Span

from medlink.notes.language import blank
from medlink.notes.readers.protocol import Note
from medlink.notes.writers.folder import FolderWriter
from medlink.notes.writers.protocol import LinkedMention, OutputFormat
from medlink.notes.writers.rows import note_name, row
from medlink.records import NIL

SHARD = 256
"""Notes of a file, those that could not be read among them."""
_KEY, _LABEL = "medlink", "MENTION"  # as the components write them
_STORED = ("ENT_IOB", "ENT_TYPE", "ENT_KB_ID")


class DocBinWriter(FolderWriter):
    """Notes as documents: mentions are the entities and the group ``medlink``, ``kb_id_`` is the concept or ``NIL``.

    ``doc.user_data`` has the id of the note (``note``) and its ``language``. Where the components of medlink are
    imported ``span._.medlink`` is the row of the mention.
    """

    def __init__(self, out: str | Path | None) -> None:
        super().__init__(out)
        self._held: list[Doc] = []
        self._tokenizers: dict[str, Any] = {}

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        """Hold the document of one note back."""
        if language not in self._tokenizers:
            self._tokenizers[language] = blank(language).tokenizer
        doc: Doc = self._tokenizers[language](note.text)
        held: dict[Any, Any] = doc.user_data
        held |= {"note": note_name(note), "language": language}
        spans: list[Span] = []
        for mention in mentions:
            kb_id = mention.link.concept_id or NIL.upper()
            span = doc.char_span(mention.start, mention.end, _LABEL, kb_id, alignment_mode="expand")
            if isinstance(span, Span) and (not spans or spans[-1].end <= span.start):
                spans.append(span)  # two mentions may share a token of spaCy
                held["._.", _KEY, span.start_char, span.end_char] = row(note, language, mention, self.bundle)
        doc.spans[_KEY] = spans
        # the finder gives no two that overlap
        doc.set_ents(spans)
        self._held.append(doc)
        self.written += 1

    def whole(self, notes: int, *, end: bool) -> bool:
        """Write a file when there is enough for one."""
        if notes - self.kept < SHARD and not end:
            return False
        if self._held:
            held = DocBin(_STORED, store_user_data=True, docs=self._held)
            self.add(f"{notes:010}.spacy", held.to_bytes())
            self._held.clear()
        return True


FORMAT = OutputFormat((), lambda out, options: DocBinWriter(out))
