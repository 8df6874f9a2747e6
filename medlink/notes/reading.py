"""Read notes from files, folders and standard input: one note a text file, or a row of JSON lines, CSV, TSV or Parquet.

A note that cannot be read is yielded in its place with its problem. No note text leaves this module in a message.
"""

from __future__ import annotations

import csv
import json
import math
import re
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from medlink.errors import InputError, needs_extra
from medlink.files.json import parse_json
from medlink.files.problems import Problems, counted
from medlink.files.streams import LineFile, standard_input, text_encoding
from medlink.files.tables import found_columns

STANDARD_INPUT = "-"
LONGEST = 1 << 28
"""Bytes of the longest line, and characters of the longest cell: the longest note, each character escaped."""
_SEPARATORS = "\t,;"
_NAMED_SEPARATOR = re.compile(r'"?sep=(\t|[^\w\s"])"?\s*')  # a first line that is for Excel
_ROWS = 256  # rows of Parquet that are in memory
_BUFFER = 1 << 20
Progress = Callable[[int], object]


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
    """Names of the fields of JSON lines, and of the columns of tables."""

    text: str = "text"
    note_id: str = "id"
    language: str = "language"

    def named(self) -> dict[str, str]:
        """The names by the options that set them."""
        return {"text": self.text, "id": self.note_id, "language": self.language}


class NoteFile(LineFile):
    """The bytes and lines of one input; what is bad about a line is kept as a note in its place (``kept``).

    ``given`` is what the user calls it, ``encoding`` that of the blocks.
    """

    def __init__(self, given: str, encoding: str, progress: Progress | None, stream: BinaryIO | None) -> None:
        problems = Problems(1, progress)
        super().__init__(given, problems, stream=stream, encoding=encoding, may_be_empty=True, longest=LONGEST)
        self.given, self.kept = given, list[Note]()
        known = text_encoding(encoding)
        # blocks of wide characters come as UTF-8
        self.encoding = "utf-8" if known.startswith(("utf-16", "utf-32")) else known

    def bad(self, kind: str, line: int, detail: str = "") -> None:
        said, remedy = _not_decoded(self.wrong)
        self.kept.append(Note(f"{self.given}:{line}", problem=said or kind, remedy=remedy))


def as_note(row: Mapping[str, Any], place: str, fields: Fields) -> Note:
    """The note of one row, whatever format it comes from; with its problem where a field is no text."""
    text, named, language = row.get(fields.text), row.get(fields.note_id), row.get(fields.language)
    if not isinstance(text, str):
        return Note(place, problem=f"no field {fields.text!r} with a text", remedy=_name("text"))
    if isinstance(named, float) and math.isinf(named):
        return Note(place, problem=f"the field {fields.note_id!r} is too large a number", remedy="write it as a text")
    if isinstance(named, bool | dict | list | bytes):
        return Note(place, problem=f"the field {fields.note_id!r} is no text and no number", remedy=_name("id"))
    if not isinstance(language, str) and not _is_missing(language):
        return Note(place, problem=f"the field {fields.language!r} is no text", remedy=_name("language"))
    note_id = place if _is_missing(named) else str(named)
    return Note(note_id, text, None if _is_missing(language) else language, place=place)


def _name(option: str) -> str:
    field = "note_id" if option == "id" else option
    return f"name the field of the {option} with --{option}-field, in Python with Fields({field}=...)"


def _is_missing(value: object) -> bool:
    # NaN is what pandas writes for what is missing
    return value is None or (isinstance(value, float) and math.isnan(value))


def _no_column(name: str, found: str) -> InputError:
    return InputError(f"no column {name!r}; found {found}", remedy=_name("text"))


def _not_decoded(error: BaseException | None) -> tuple[str, str | None]:
    if not isinstance(error, UnicodeDecodeError):
        return "", None
    said = f"not {error.encoding.upper()} at byte {error.start}, see encoding=..."
    return said, "name the encoding that all notes have, such as latin-1, or convert them"


def _read_text(file: NoteFile, fields: Fields) -> Iterator[Note]:
    yield Note(file.given, file.text())


def _read_json_lines(file: NoteFile, fields: Fields) -> Iterator[Note]:
    for number, line in chain(file, [(0, "")]):
        yield from file.kept
        file.kept.clear()
        if line.strip():
            yield _of_json(line, f"{file.given}:{number}", fields)


def _of_json(line: str, place: str, fields: Fields) -> Note:
    try:
        row = parse_json(line)
    except json.JSONDecodeError:
        return Note(place, problem="not JSON", remedy="give one JSON object a line, or name a text so: NAME.txt")
    except ValueError as error:
        return Note(place, problem=f"JSON that cannot be used: {error}", remedy="write such lines anew")
    if not isinstance(row, dict):
        return Note(place, problem="no JSON object", remedy="give one JSON object a line")
    return as_note(row, place, fields)


def _read_delimited(file: NoteFile, fields: Fields) -> Iterator[Note]:
    """CSV and TSV with a header.

    A cell in quotes may hold any line end, and keeps it: offsets are those of the cell. The reader of terminologies
    (:func:`medlink.files.tables.open_table`) takes a line in a cell that looks like a row for one, and notes have such.
    """
    lines = _lines(file)
    first = next(lines, "")
    named = _NAMED_SEPARATOR.fullmatch(first)
    first = next(lines, "") if named else first
    # of two that the first line has as often the earlier one
    separator = max(_SEPARATORS, key=lambda mark: (mark == "\t" and mark in first, first.count(mark)))
    rows = csv.reader(chain([first] if first else [], lines), delimiter=named[1] if named else separator, strict=True)
    header = [cell.strip() for cell in _next(rows) or []]
    if fields.text not in header:
        raise _no_column(fields.text, found_columns(header))
    for name in fields.named().values():
        if header.count(name) > 1:
            message = f"the column {name!r} is there twice"
            raise InputError(message, path=file.given, line=1, remedy="rename or delete one of them")
    while True:
        place = f"{file.given}:{rows.line_num + (2 if named else 1)}"
        try:
            cells = _next(rows)
        except csv.Error as error:
            # the message has no word of the cell
            remedy = "put cells with quotes or line ends in quotes, and write a quote in them twice"
            yield Note(place, problem=f"broken quoting: {error}", remedy=remedy)
            continue
        if cells is None:
            return
        if cells:
            yield _of_cells(cells, header, place, fields, file.encoding)


def _next(rows: Any) -> list[str] | None:
    # a cell may be as long as a note, which is the limit of no other table
    limit = csv.field_size_limit(LONGEST)
    try:
        return next(rows, None)
    finally:
        csv.field_size_limit(limit)


def _of_cells(cells: list[str], header: list[str], place: str, fields: Fields, encoding: str) -> Note:
    if len(cells) != len(header):
        said = f"{len(cells)} columns, {len(header)} expected"
        return Note(place, problem=said, remedy="put cells with separators or line ends in quotes")
    row: dict[str, str | None] = {name: cell or None for name, cell in zip(header, cells, strict=True)}
    row[fields.text] = row[fields.text] or ""
    for name in fields.named().values():
        try:
            (row.get(name) or "").encode()
        except UnicodeEncodeError as error:
            said, remedy = _not_decoded(UnicodeDecodeError(encoding, b"", error.start, error.end, ""))
            return Note(place, problem=f"the field {name!r} is {said}", remedy=remedy)
    return as_note(row, place, fields)


def _lines(file: NoteFile) -> Iterator[str]:
    r"""The lines of a file with their ends, as ``\n`` parts them; what cannot be decoded is half a surrogate pair."""
    decoder = getincrementaldecoder(file.encoding)("surrogateescape")
    held: list[str] = []
    for block in file.blocks():
        *whole, rest = decoder.decode(block).split("\n")
        for line in whole:
            yield "".join([*held, line, "\n"]).removeprefix("\ufeff")
            held.clear()
        held.append(rest)
    if last := "".join([*held, decoder.decode(b"", final=True)]).removeprefix("\ufeff"):
        yield last


def _read_parquet(file: NoteFile, fields: Fields) -> Iterator[Note]:
    with needs_extra("parquet", "reading Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    remedy = "write it again with pyarrow, pandas or Spark"
    try:
        # not all of a row group at once
        with pq.ParquetFile(file.path, buffer_size=_BUFFER, pre_buffer=False) as table:
            found = table.schema_arrow.names
            if fields.text not in found:
                raise _no_column(fields.text, counted(len(found), "column"))
            columns = list(dict.fromkeys(name for name in fields.named().values() if name in found))
            size, rows = file.path.stat().st_size, max(table.metadata.num_rows, 1)
            number = 0
            for batch in table.iter_batches(_ROWS, columns=columns):
                for at in range(len(batch)):
                    number += 1
                    yield _of_batch(batch, at, f"{file.given}:{number}", fields)
                if file.problems.progress is not None:
                    file.problems.progress(size * len(batch) // rows)
    except pa.ArrowException as error:
        # the message may hold values
        raise InputError(f"is no Parquet file, or is damaged ({type(error).__name__})", remedy=remedy) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or type(error).__name__}", remedy=remedy) from error


def _of_batch(batch: Any, at: int, place: str, fields: Fields) -> Note:
    try:
        return as_note({name: batch.column(name)[at].as_py() for name in batch.schema.names}, place, fields)
    except UnicodeDecodeError:
        return Note(place, problem="not UTF-8", remedy="write the file again: text in Parquet is UTF-8")


_READERS: dict[str, Callable[[NoteFile, Fields], Iterator[Note]]] = {
    **dict.fromkeys((".txt", ".text"), _read_text),
    **dict.fromkeys((".csv", ".tsv"), _read_delimited),
    **dict.fromkeys((".jsonl", ".ndjson"), _read_json_lines),
    ".parquet": _read_parquet,
}
KINDS = frozenset(_READERS)
"""Endings of the files of a folder that are notes; a file that is named itself is a note whatever its ending."""


def find_inputs(paths: Sequence[str]) -> tuple[list[str], Counter[str]]:
    """Files behind the given paths, folders searched for files of notes, in a fixed order.

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
                message = f"no notes: looked for {looked}, found {others}"
                raise InputError(message, path=path, remedy="name the files that are notes")
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
    if any(part.startswith(".") for part in path.relative_to(folder).parts):
        return "hidden"
    if path.is_file():
        return ending(path) or "no ending"
    return "links to nothing" if not path.exists() else "links to folders" if path.is_dir() else "pipes or devices"


def read_notes(
    inputs: Sequence[str], fields: Fields | None = None, encoding: str = "utf-8", progress: Progress | None = None
) -> Iterator[Note]:
    """Notes of all inputs, one at a time; a note that cannot be read is given with its problem.

    A file is read as its ending says, one of another ending as one note. Standard input is JSONL when its first line is
    a JSON object, else one note. ``progress`` is called with the number of bytes that were taken in.

    Raises:
        ConfigError: ``encoding``, that of all inputs, is not known, or none of lines of text; or a library is missing.
    """
    for given in inputs:
        kind, stream = ending(given), None
        if given == STANDARD_INPUT:
            first = _first_line(standard_input())
            kind, stream = ".jsonl" if _is_object(first, encoding) else ".txt", _StandardInput(first)
        file = NoteFile(given, encoding, progress, stream)
        try:
            yield from _READERS.get(kind, _read_text)(file, fields or Fields())
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


class _StandardInput(BytesIO):
    """Standard input, whose first line was read before."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size) or standard_input().read(-1 if size is None else size)
