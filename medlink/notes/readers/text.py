"""Notes as text files: each is one note, named by its path."""

from __future__ import annotations

from collections.abc import Iterator

from medlink.notes.readers.protocol import Fields, Note, NoteFile, NoteFormat


def read(file: NoteFile, fields: Fields) -> Iterator[Note]:
    """The one note of a file."""
    yield Note(file.given, file.text())


FORMAT = NoteFormat((".txt", ".text"), read)
