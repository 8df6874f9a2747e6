"""Read notes from text files, rows of JSON lines, CSV, TSV or Parquet, folders of these, and standard input.

An unreadable note is yielded with its problem. No message contains text of a note.
"""

from __future__ import annotations

import csv
import datetime
import json
import math
import re
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from medlink.errors import ConfigError, InputError, needs_extra
from medlink.files.json import parse_json
from medlink.files.problems import Problems, likely_encoding
from medlink.files.streams import LineFile, standard_input
from medlink.files.tables import SEPARATOR_LINE, describe_header
from medlink.language.tags import base

STANDARD_INPUT = "-"
LONGEST = 1 << 28
"""Bytes of the longest line, and characters of the longest cell: room for the longest note, fully escaped."""
_SEPARATORS = "\t,;|"
_ROWS = 256  # of Parquet in memory
_BUFFER = 1 << 20
_DAY_FIRST = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})(?:[T ,].*)?")
_MONTHS = 12
Progress = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Note:
    """A note. If it could not be read, ``problem`` states why, without its text, and ``remedy`` states what to do.

    ``location`` is its file and line, if ``note_id`` does not state them. ``date`` is the day on which it was written.
    """

    note_id: str
    text: str = ""
    language: str | None = None
    problem: str | None = None
    location: str | None = None
    remedy: str | None = None
    date: datetime.date | None = None


def check_notes(notes: Iterable[object]) -> Iterator[Note]:
    """Yield the notes of a caller; raises ConfigError for one that is no :class:`Note`, or has no text."""
    remedy = 'give [Note("1", text)]'
    if isinstance(notes, str | Note):
        raise ConfigError(f"a list of notes is expected, not one {type(notes).__name__}", remedy=remedy)
    for at, note in enumerate(notes):
        if not isinstance(note, Note):
            raise ConfigError(f"notes[{at}] is of type {type(note).__name__}, a Note expected", remedy=remedy)
        if not isinstance(note.text, str):
            message = f"the text of notes[{at}] is of type {type(note.text).__name__}, a str expected"
            raise ConfigError(message, remedy=remedy)
        yield note


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the fields of JSON lines, and of the columns of tables; dates are read if their field is named.

    ``day_first``: in a note that states no language, 03/12/2026 is in December.
    """

    text: str = "text"
    note_id: str = "id"
    language: str = "language"
    date: str = ""
    day_first: bool = False

    def by_option(self) -> dict[str, str]:
        """Map each option to the name that it sets."""
        names = {"text": self.text, "id": self.note_id, "language": self.language, "date": self.date}
        return {option: name for option, name in names.items() if name}


class NoteFile(LineFile):
    """Bytes and lines of one input. A bad line becomes a note with a problem, in ``unreadable``.

    ``given`` is the path as the user gave it.
    """

    reads_workbooks = False

    def __init__(self, given: str, encoding: str, progress: Progress | None, stream: BinaryIO | None) -> None:
        problems = Problems(1, progress)
        super().__init__(given, problems, stream=stream, encoding=encoding, allow_empty=True, max_line_bytes=LONGEST)
        self.given, self.unreadable = given, list[Note]()

    def bad_row(self, kind: str, line: int, detail: str = "") -> None:
        problem, remedy = _describe_decoding(self.decode_error)
        self.unreadable.append(Note(f"{self.given}:{line}", problem=problem or kind, remedy=remedy))


def parse_row(row: Mapping[str, Any], location: str, fields: Fields) -> Note:
    """Return the note of a row of any format, with a problem if a field is not text."""
    present = {name: value for name, value in row.items() if not _is_missing(value)}
    text, note_id, language = row.get(fields.text), present.get(fields.note_id, location), present.get(fields.language)
    own = f"the field {fields.note_id!r} is"
    if isinstance(note_id, float) and math.isinf(note_id):
        return Note(location, problem=f"{own} too large a number", remedy="write it as text")
    if isinstance(note_id, bool | dict | list | bytes):
        return Note(location, problem=f"{own} neither text nor a number", remedy=_field_remedy("id"))
    note = Note(str(note_id), location=location)
    if not isinstance(text, str):
        problem = f"no field {fields.text!r} with text; found {describe_header(list(row), what='field')}"
        return replace(note, problem=problem, remedy=_field_remedy("text"))
    if not isinstance(language, str | None):
        return replace(note, problem=f"the field {fields.language!r} is not text", remedy=_field_remedy("language"))
    try:
        day = _parse_day(present.get(fields.date), is_english(language) if language else not fields.day_first)
    except ValueError as error:
        reason = error if isinstance(error, _MonthFirstError) else "is not a date"
        remedy = "write it as 2026-11-30 or 30.11.2026, or leave it empty"
        return replace(note, problem=f"the field {fields.date!r} {reason}", remedy=remedy)
    return replace(note, text=text, language=language, date=day)


class _MonthFirstError(ValueError):
    """The date has the order of the US."""


def is_english(language: object) -> bool:
    return isinstance(language, str) and base(language) == "en"


def _parse_day(value: object, may_begin_with_month: bool = True) -> datetime.date | None:
    """Return the day of a date or time, of a text or number in ISO 8601, or of 30.11.2026 and 30/11/2026.

    Raises:
        ValueError: it is anything else, or the month may come first (03/12/2026).

    >>> _parse_day("2026-11-30T10:00:00Z"), _parse_day(20261130), _parse_day(None)
    (datetime.date(2026, 11, 30), datetime.date(2026, 11, 30), None)
    >>> _parse_day("3.12.2026 10:00"), _parse_day("30/11/2026"), _parse_day("03/12/2026", may_begin_with_month=False)
    (datetime.date(2026, 12, 3), datetime.date(2026, 11, 30), datetime.date(2026, 12, 3))
    """
    if value is None:
        return None
    if isinstance(value, datetime.date):
        return value.date() if isinstance(value, datetime.datetime) else value
    if written := _DAY_FIRST.fullmatch(str(value).strip()):
        day, month = int(written[1]), int(written[3])
        if written[2] == "/" and may_begin_with_month and day <= _MONTHS:
            raise _MonthFirstError("may have the month first")
        if month > _MONTHS:
            raise _MonthFirstError("has the month first")
        return datetime.date(int(written[4]), month, day)
    return datetime.datetime.fromisoformat(str(value).strip()).date()


def _field_remedy(option: str) -> str:
    field = "note_id" if option == "id" else option
    return f"name the field of the {option} with {option}_field=..., in Python with Fields({field}=...)"


def _is_missing(value: object) -> bool:
    if isinstance(value, str):
        return not value or value.isspace()
    # pandas writes NaN for a missing value
    return value is None or (isinstance(value, float) and math.isnan(value))


def _missing_column(name: str, found: str) -> InputError:
    return InputError(f"no column {name!r}; found {found}", remedy=_field_remedy("text"))


def _describe_decoding(error: BaseException | None) -> tuple[str, str | None]:
    if not isinstance(error, UnicodeDecodeError):
        return "", None
    remedy = f'name the encoding of all notes, probably encoding="{likely_encoding(error.object)}", or convert them'
    return f"not {error.encoding.upper()} at byte {error.start}", remedy


def _read_text(file: NoteFile, fields: Fields) -> Iterator[Note]:
    yield Note(file.given, file.read_text())


def _read_json_lines(file: NoteFile, fields: Fields) -> Iterator[Note]:
    for number, line in chain(file, [(0, "")]):
        yield from file.unreadable
        file.unreadable.clear()
        if line.strip():
            yield _parse_json(line, f"{file.given}:{number}", fields)


def _parse_json(line: str, location: str, fields: Fields) -> Note:
    try:
        row = parse_json(line)
    except json.JSONDecodeError:
        return Note(location, problem="not JSON", remedy="give one JSON object a line, or name a text file NAME.txt")
    except ValueError as error:
        return Note(location, problem=f"unusable JSON: {error}", remedy="write the line again")
    if not isinstance(row, dict):
        return Note(location, problem="not a JSON object", remedy="give one JSON object a line")
    return parse_row(row, location, fields)


def _read_delimited(file: NoteFile, fields: Fields) -> Iterator[Note]:
    """Read CSV and TSV with a header.

    A quoted cell keeps its line ends, because offsets count from the start of the cell. In contrast, the reader of
    terminologies (:func:`medlink.files.tables.open_table`) may take a line within a cell for a row.
    """
    lines = _lines(file)
    first = next(lines, "")
    declared = SEPARATOR_LINE.fullmatch(first)
    first = next(lines, "") if declared else first
    # the earliest of equally frequent separators
    separator = max(_SEPARATORS, key=lambda mark: (mark == "\t" and mark in first, first.count(mark)))
    separator = declared[1] if declared else separator
    rows = csv.reader(chain([first] if first else [], lines), delimiter=separator, strict=True)
    header = [cell.strip() for cell in _next(rows) or []]
    if fields.text not in header:
        raise _missing_column(fields.text, describe_header(header))
    for name in fields.by_option().values():
        if header.count(name) > 1:
            remedy = "rename or delete one of them"
            raise InputError(f"duplicate column {name!r}", path=file.given, line=1, remedy=remedy)
    while True:
        location = f"{file.given}:{rows.line_num + (2 if declared else 1)}"
        try:
            cells = _next(rows)
        except csv.Error as error:
            # the message contains no word of the cell
            remedy = "quote cells with quotes or line ends, and double the quotes in them"
            yield Note(location, problem=f"broken quoting: {error}", remedy=remedy)
            continue
        if cells is None:
            return
        if cells:
            yield _parse_cells(cells, header, location, fields, file.encoding)


def _next(rows: Any) -> list[str] | None:
    # a cell may hold a note; other tables keep the default limit
    limit = csv.field_size_limit(LONGEST)
    try:
        return next(rows, None)
    finally:
        csv.field_size_limit(limit)


def _parse_cells(cells: list[str], header: list[str], location: str, fields: Fields, encoding: str) -> Note:
    if len(cells) != len(header):
        problem = f"{len(cells)} columns, {len(header)} expected"
        return Note(location, problem=problem, remedy="quote cells with separators or line ends")
    row = dict(zip(header, cells, strict=True))
    for name in fields.by_option().values():
        try:
            row.get(name, "").encode()
        except UnicodeEncodeError as error:
            cell = error.object.encode(encoding, "surrogateescape")
            problem, remedy = _describe_decoding(UnicodeDecodeError(encoding, cell, error.start, error.end, ""))
            return Note(location, problem=f"the field {name!r} is {problem}", remedy=remedy)
    return parse_row(row, location, fields)


def _lines(file: NoteFile) -> Iterator[str]:
    # lines end with \n, which they keep; undecodable bytes become surrogates
    decoder = getincrementaldecoder(file.encoding)("surrogateescape")
    pending: list[str] = []
    for block in file.iter_blocks():
        *complete, rest = decoder.decode(block).split("\n")
        for line in complete:
            yield "".join([*pending, line, "\n"]).removeprefix("\ufeff")
            pending.clear()
        pending.append(rest)
    if last := "".join([*pending, decoder.decode(b"", final=True)]).removeprefix("\ufeff"):
        yield last


def _read_parquet(file: NoteFile, fields: Fields) -> Iterator[Note]:
    with needs_extra("parquet", "reading Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    remedy = "write it again with pyarrow, pandas or Spark"
    try:
        # do not load a row group at once
        with pq.ParquetFile(file.path, buffer_size=_BUFFER, pre_buffer=False) as table:
            names = table.schema_arrow.names
            if fields.text not in names:
                raise _missing_column(fields.text, describe_header(names, certain=True))
            columns = list(dict.fromkeys(name for name in fields.by_option().values() if name in names))
            size, rows = file.path.stat().st_size, max(table.metadata.num_rows, 1)
            number = 0
            for batch in table.iter_batches(_ROWS, columns=columns):
                for at in range(len(batch)):
                    number += 1
                    yield _parse_batch_row(batch, at, f"{file.given}:{number}", fields)
                if file.problems.progress is not None:
                    file.problems.progress(size * len(batch) // rows)
    except pa.ArrowException as error:
        # the message may contain values
        raise InputError(f"not a Parquet file, or damaged ({type(error).__name__})", remedy=remedy) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or type(error).__name__}", remedy=remedy) from error


def _parse_batch_row(batch: Any, at: int, location: str, fields: Fields) -> Note:
    try:
        return parse_row({name: batch.column(name)[at].as_py() for name in batch.schema.names}, location, fields)
    except UnicodeDecodeError:
        return Note(location, problem="not UTF-8", remedy="write the file again: text in Parquet is UTF-8")


_READERS: dict[str, Callable[[NoteFile, Fields], Iterator[Note]]] = {
    **dict.fromkeys((".txt", ".text"), _read_text),
    **dict.fromkeys((".csv", ".tsv"), _read_delimited),
    **dict.fromkeys((".jsonl", ".ndjson"), _read_json_lines),
    ".parquet": _read_parquet,
}
NOTE_SUFFIXES = frozenset(_READERS)
"""Suffixes of the notes in a folder; a file named by itself may have any suffix."""


def find_inputs(paths: Sequence[str]) -> tuple[list[str], Counter[str]]:
    """List the files of notes at paths and in folders, in a fixed order; count other and hidden files by suffix.

    Raises:
        InputError: a path does not exist, or a folder has no notes.
    """
    files: list[str] = []
    left_out: Counter[str] = Counter()
    for given in paths:
        path = Path(given)
        if given == STANDARD_INPUT or path.is_file():
            files.append(given)
        elif path.is_dir():
            kinds = {str(p): _kind(p, path) for p in path.rglob("*") if p.is_symlink() or not p.is_dir()}
            inside = sorted(file for file, kind in kinds.items() if kind in NOTE_SUFFIXES)
            if not inside:
                others = ", ".join(sorted(set(kinds.values()))) or "no file"
                message = f"no notes: looked for {', '.join(sorted(NOTE_SUFFIXES))}, found {others}"
                raise InputError(message, path=path, remedy="name the files that are notes")
            files += inside
            left_out.update(kind for kind in kinds.values() if kind not in NOTE_SUFFIXES)
        elif path.exists():
            remedy = "give its notes to standard input, and name -"
            raise InputError("a pipe or a device cannot be read", path=given, remedy=remedy)
        else:
            raise InputError("no such file or folder", path=given, remedy="name files or folders with notes")
    return files, left_out


def file_suffix(path: str | Path) -> str:
    """Return the suffix of a file in lower case; for a compressed file, the suffix before ``.gz``.

    >>> file_suffix("a/B.TXT"), file_suffix("a.jsonl.gz"), file_suffix("a.gz"), file_suffix("a")
    ('.txt', '.jsonl', '.gz', '')
    """
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix or Path(name).suffix


def _kind(path: Path, folder: Path) -> str:
    if any(part.startswith(".") for part in path.relative_to(folder).parts):
        return "hidden"
    if path.is_file():
        return file_suffix(path) or "no ending"
    return "links to nothing" if not path.exists() else "links to folders" if path.is_dir() else "pipes or devices"


def read_notes(
    inputs: Sequence[str], fields: Fields | None = None, encoding: str = "utf-8", progress: Progress | None = None
) -> Iterator[Note]:
    """Yield the notes of all inputs; an unreadable note has a problem.

    The suffix of a file determines its format; other files are one note each. Standard input is JSONL if its first line
    is a JSON object, else one note. ``progress`` is called with the number of bytes read.

    Raises:
        ConfigError: ``encoding``, which applies to all inputs, is unknown or not a text encoding; or a library is
            missing.
    """
    for given in inputs:
        kind, stream = file_suffix(given), None
        if given == STANDARD_INPUT:
            first = _first_line(standard_input())
            kind, stream = ".jsonl" if _is_object(first, encoding) else ".txt", _StandardInput(first)
        file = NoteFile(given, encoding, progress, stream)
        try:
            yield from _READERS.get(kind, _read_text)(file, fields or Fields())
        except InputError as error:
            cause = error.__cause__
            problem, remedy = (
                (cause.strerror, error.remedy) if isinstance(cause, OSError) else _describe_decoding(cause)
            )
            yield Note(given, problem=problem or error.message, remedy=remedy or error.remedy)


def _first_line(stream: BinaryIO) -> bytes:
    # up to the end of the first line that is not empty
    first = b""
    for line in stream:
        first += line
        if line.strip():
            break
    return first


def _is_object(line: bytes, encoding: str) -> bool:
    with suppress(ValueError):
        # a wide line end may be cut off
        return isinstance(parse_json(line.decode(encoding, "ignore").removeprefix("\ufeff")), dict)
    return False


class _StandardInput(BytesIO):
    """Standard input after its first line was read."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size) or standard_input().read(-1 if size is None else size)
