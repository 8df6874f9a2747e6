"""Reading notes: text files, folders, JSONL and standard input. No note text ever leaves this module in a message."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from medlink.errors import InputError
from medlink.files.json import parse_json
from medlink.files.problems import Problems
from medlink.files.streams import LineFile, standard_input

STANDARD_INPUT = "-"
_TEXT, _LINES = {".txt", ".text"}, {".jsonl", ".ndjson"}
KINDS = frozenset(_TEXT | _LINES)
"""Endings of the files of a folder that are notes; a file that is named itself is a note whatever its ending."""
_LONGEST = 1 << 28  # bytes of a line: the longest note that is linked, each character escaped


@dataclass(frozen=True, slots=True)
class Note:
    """A note, or why it could not be read (``problem``, without its text) and what helps (``remedy``).

    ``place`` is its file and line where ``note_id`` does not say so.
    """

    note_id: str
    text: str = ""
    language: str | None = None
    problem: str | None = None
    place: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the JSONL fields."""

    text: str = "text"
    note_id: str = "id"
    language: str = "language"


def find_inputs(paths: Sequence[str]) -> tuple[list[str], Counter[str]]:
    """Files behind the given paths, folders searched for text and JSONL files, in a fixed order.

    With them what else is in the folders, by ending: it is left out, and so is what is hidden (``.name``).

    Raises:
        InputError: a path does not exist, or a folder has no note.
    """
    found: list[str] = []
    left_out: Counter[str] = Counter()
    for given in paths:
        path = Path(given)
        if given == STANDARD_INPUT or path.is_file():
            found.append(given)
        elif path.is_dir():
            kinds = {str(p): _kind(p, path) for p in path.rglob("*") if p.is_symlink() or not p.is_dir()}
            inside = sorted(file for file, kind in kinds.items() if kind in KINDS)
            if not inside:
                others = ", ".join(sorted(set(kinds.values()))) or "no file"
                looked = ", ".join(sorted(KINDS))
                raise InputError(
                    f"no notes: looked for {looked}, found {others}", path=path, remedy="name the files that are notes"
                )
            found += inside
            left_out.update(kind for kind in kinds.values() if kind not in KINDS)
        elif path.exists():
            raise InputError("is a pipe or a device", path=given, remedy="give its notes to standard input, and name -")
        else:
            raise InputError("no such file or folder", path=given, remedy="name files or folders with notes")
    return found, left_out


def ending(path: str | Path) -> str:
    """The ending of a file, in lower case; that of a packed file is the one before ``.gz``.

    >>> ending("a/B.TXT"), ending("a.jsonl.gz"), ending("a.gz"), ending("a")
    ('.txt', '.jsonl', '.gz', '')
    """
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix or Path(name).suffix


def _kind(path: Path, folder: Path) -> str:
    """Ending of a file in a folder, or why it is not looked at."""
    if any(part.startswith(".") for part in path.relative_to(folder).parts):
        return "hidden"
    if path.is_file():
        return ending(path) or "no ending"
    return "links to nothing" if not path.exists() else "links to folders" if path.is_dir() else "pipes or devices"


def read_notes(inputs: Sequence[str], fields: Fields | None = None, encoding: str = "utf-8") -> Iterator[Note]:
    """Notes of all inputs, one at a time; a note that cannot be read is given with its problem.

    A JSONL file holds one note a line. Standard input is JSONL when its first line is a JSON object, else one note.

    Raises:
        ConfigError: ``encoding``, that of all inputs, is not known, or none of lines of text.
    """
    for given in inputs:
        first = _first_line(standard_input()) if given == STANDARD_INPUT else None
        file = _Input(given, first, encoding)
        try:
            if ending(given) in _LINES if first is None else _is_object(first, encoding):
                yield from file.notes(fields or Fields())
            else:
                yield Note(given, file.text())
        except InputError as error:
            cause = error.__cause__
            said, remedy = (cause.strerror, error.remedy) if isinstance(cause, OSError) else _not_decoded(cause)
            yield Note(given, problem=said or error.message, remedy=remedy or error.remedy)


def _first_line(stream: BinaryIO) -> bytes:
    """A stream up to the end of its first line that is not empty."""
    first = b""
    for line in stream:
        first += line
        if line.strip():
            break
    return first


def _is_object(line: bytes, encoding: str) -> bool:
    with suppress(ValueError):
        # half a character of a wide line end may be missing
        return isinstance(parse_json(line.decode(encoding, "ignore").removeprefix("\ufeff")), dict)
    return False


def _not_decoded(error: BaseException | None) -> tuple[str, str | None]:
    """What is wrong and what helps where text was in another encoding; else nothing."""
    if not isinstance(error, UnicodeDecodeError):
        return "", None
    said = f"not {error.encoding.upper()} at byte {error.start}, see --encoding"
    return said, "name the encoding that all notes have, such as latin-1, or convert them"


class _StandardInput(BytesIO):
    """Standard input, whose first line was read before."""

    def read(self, size: int | None = -1, /) -> bytes:
        """The first line, then some bytes at a time."""
        return super().read(size) or standard_input().read(-1 if size is None else size)


class _Input(LineFile):
    """One input; what is bad about a line is given as a note in its place."""

    def __init__(self, given: str, first: bytes | None, encoding: str) -> None:
        stream = None if first is None else _StandardInput(first)
        super().__init__(given, Problems(1), stream=stream, encoding=encoding, may_be_empty=True, longest=_LONGEST)
        self._named = given
        self._bad: list[Note] = []

    def bad(self, kind: str, line: int, detail: str = "") -> None:
        """Keep a bad line."""
        said, remedy = _not_decoded(self.wrong)
        self._bad.append(Note(f"{self._named}:{line}", problem=said or kind, remedy=remedy))

    def notes(self, fields: Fields) -> Iterator[Note]:
        """The notes of JSON lines."""
        for number, line in chain(self, [(0, "")]):
            while self._bad:
                yield self._bad.pop(0)
            if line.strip():
                yield _note(line, f"{self._named}:{number}", fields)


def _note(line: str, place: str, fields: Fields) -> Note:
    """The note of one line."""
    try:
        row = parse_json(line)
    except json.JSONDecodeError:
        return Note(place, problem="not JSON", remedy="give one JSON object a line, or name a text so: NAME.txt")
    except ValueError as error:
        return Note(place, problem=f"JSON that cannot be used: {error}", remedy="write such lines anew")
    if not isinstance(row, dict):
        return Note(place, problem="no JSON object", remedy="give one JSON object a line")
    language, named = row.get(fields.language), row.get(fields.note_id)
    for option, name, wrong in (
        ("text", fields.text, "" if isinstance(row.get(fields.text), str) else "no field {} with a text"),
        ("id", fields.note_id, "the field {} is no text and no number" * isinstance(named, bool | dict | list)),
        (
            "language",
            fields.language,
            "" if isinstance(language, str) or _is_missing(language) else "the field {} is no text",
        ),
    ):
        if wrong:
            field = "note_id" if option == "id" else option
            remedy = f"name the field of the {option} with --{option}-field, in Python with Fields({field}=...)"
            return Note(place, problem=wrong.format(repr(name)), remedy=remedy)
    note_id = place if _is_missing(named) else str(named)
    return Note(note_id, row[fields.text], None if _is_missing(language) else language, place=place)


def _is_missing(value: object) -> bool:
    """Whether a field has nothing; NaN is what Python writes for what is missing."""
    return value is None or (isinstance(value, float) and math.isnan(value))
