"""Notes as JSON lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

from medlink.files.json import parse_json
from medlink.notes.readers.protocol import Fields, Note, NoteFile, as_note


def read(file: NoteFile, fields: Fields) -> Iterator[Note]:
    """The notes of a file."""
    for number, line in chain(file, [(0, "")]):
        while file.kept:
            yield file.kept.pop(0)
        if line.strip():
            yield _note(line, f"{file.given}:{number}", fields)


def _note(line: str, place: str, fields: Fields) -> Note:
    try:
        row = parse_json(line)
    except json.JSONDecodeError:
        return Note(place, problem="not JSON", remedy="give one JSON object a line, or name a text so: NAME.txt")
    except ValueError as error:
        return Note(place, problem=f"JSON that cannot be used: {error}", remedy="write such lines anew")
    if not isinstance(row, dict):
        return Note(place, problem="no JSON object", remedy="give one JSON object a line")
    return as_note(row, place, fields)
