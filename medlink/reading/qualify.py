"""Read the clauses, cues and sections of a scanned text once."""

from __future__ import annotations

from medlink.language.scan import ScannedText
from medlink.reading.status import ReadNote, StatusReader


def read_note(reader: StatusReader, text: ScannedText) -> ReadNote:
    """The text as the reader of its language reads it; the text keeps it."""
    found = text.memo.get("note")
    if not isinstance(found, ReadNote):
        found = text.memo["note"] = reader.read(text.text, text.tokens)
    return found
