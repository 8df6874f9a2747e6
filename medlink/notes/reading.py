"""Reading notes: text files, folders, JSONL and standard input. No note text ever leaves this module in a message."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from medlink.errors import InputError

STANDARD_INPUT = "-"
_TEXT, _LINES = {".txt", ".text"}, {".jsonl", ".ndjson"}


@dataclass(frozen=True, slots=True)
class Note:
    """A note, or why it could not be read (``problem``, without its text)."""

    note_id: str
    text: str = ""
    language: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the JSONL fields."""

    text: str = "text"
    note_id: str = "id"
    language: str = "language"


def find_inputs(paths: Sequence[str]) -> list[str]:
    """Files behind the given paths, folders searched for text and JSONL files, in a fixed order.

    Raises:
        InputError: a path does not exist, or a folder has no note.
    """
    found: list[str] = []
    for given in paths:
        path = Path(given)
        if given == STANDARD_INPUT or path.is_file():
            found.append(given)
        elif path.is_dir():
            inside = sorted(str(p) for p in path.rglob("*") if p.suffix.lower() in _TEXT | _LINES and p.is_file())
            if not inside:
                kinds = sorted({p.suffix or "no ending" for p in path.rglob("*") if p.is_file()})
                raise InputError(
                    f"no notes: looked for {', '.join(sorted(_TEXT | _LINES))}, found {', '.join(kinds) or 'no file'}",
                    path=path,
                )
            found += inside
        elif path.exists():
            raise InputError("is a pipe or a device", path=given, remedy="give its notes to standard input, and name -")
        else:
            raise InputError("no such file or folder", path=given)
    return found


def read_notes(inputs: Sequence[str], fields: Fields | None = None) -> Iterator[Note]:
    """Notes of all inputs, one at a time; a note that cannot be read is given with its problem.

    A JSONL file holds one note a line. Standard input is JSONL when its first line is a JSON object, else one note.
    """
    fields = fields or Fields()
    for given in inputs:
        if given == STANDARD_INPUT:
            yield from _standard_input(sys.stdin.buffer, fields)
        elif Path(given).suffix.lower() in _LINES:
            try:
                with open(given, "rb") as file:
                    yield from _lines(file, given, fields)
            except OSError as error:
                yield Note(given, problem=error.strerror or "cannot be read")
        else:
            try:
                yield _whole(Path(given).read_bytes(), given)
            except OSError as error:
                yield Note(given, problem=error.strerror or "cannot be read")


def _whole(raw: bytes, note_id: str) -> Note:
    try:
        return Note(note_id, raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return Note(note_id, problem=f"not UTF-8 at byte {error.start}")


def _standard_input(stream: BinaryIO, fields: Fields) -> Iterator[Note]:
    first = b""
    for line in stream:
        first += line
        if line.strip():
            break
    try:
        is_lines = isinstance(json.loads(first.decode("utf-8-sig")), dict)
    except (ValueError, RecursionError):
        is_lines = False
    if is_lines:
        yield from _lines(_chain(first, stream), STANDARD_INPUT, fields)
    else:
        yield _whole(first + stream.read(), STANDARD_INPUT)


def _chain(first: bytes, rest: BinaryIO) -> Iterator[bytes]:
    yield from first.splitlines(keepends=True)
    yield from rest


def _lines(lines: Iterator[bytes] | BinaryIO, source: str, fields: Fields) -> Iterator[Note]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{source}:{number}"
        try:
            row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            yield Note(place, problem=f"not UTF-8 at byte {error.start}")
            continue
        except (ValueError, RecursionError):
            yield Note(place, problem="not JSON")
            continue
        if not isinstance(row, dict) or not isinstance(row.get(fields.text), str):
            yield Note(place, problem=f"no field {fields.text!r} with a text")
            continue
        language = row.get(fields.language)
        note_id = str(row.get(fields.note_id, place))
        try:
            row[fields.text].encode("utf-8")
        except UnicodeEncodeError as error:
            yield Note(note_id, problem=f"half a surrogate pair at character {error.start}")
            continue
        yield Note(note_id, row[fields.text], language if isinstance(language, str) else None)
