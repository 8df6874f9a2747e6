"""Opening, decoding and counting: the one way in which every reader takes in a file.

A row that cannot be used is counted by kind and the first five are kept with file and line. When more than
a share of a file's rows is bad the load stops: see :class:`Problems`.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO

from medlink.errors import ConfigError, InputError

EXAMPLES = 5
"""How many bad rows are kept with file and line."""
GRACE = 10
"""Fewer bad rows than this in one file never stop a load (unless no row is good, or the share is 0)."""
EARLY = 10_000
"""After this many rows the share is judged while reading, not only at the end of the file."""

_UTF8_REMEDY = "give the file as UTF-8, for example: iconv -f ISO-8859-1 -t UTF-8 FILE"


@dataclass(frozen=True, slots=True)
class Problem:
    """One bad row: what was wrong with it and where it stands."""

    kind: str
    path: str
    line: int
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}" + (f" ({self.detail})" if self.detail else "")


class Problems:
    """What went wrong, and what was left out on purpose, while one input was read.

    Args:
        max_bad_share: share of bad rows in one file above which :class:`InputError` stops the load. Fewer
            than ``GRACE`` bad rows do not stop it, except when the file has no good row at all or
            the share is 0, which tolerates none. Files of ``EARLY`` rows and more are judged while reading.
        adjustable: whether the user can set the share, which the remedy then says.
        progress: called with the number of bytes taken in from disk since the last call.

    Attributes:
        bad: bad rows by kind.
        skipped: rows left out on purpose (filters, suppressed, inactive), by reason.
        examples: the first ``EXAMPLES`` bad rows.
        notes: remarks for the user, such as an optional file that is not there.
        rows: data rows seen in all files.
    """

    def __init__(
        self,
        max_bad_share: float = 0.01,
        progress: Callable[[int], object] | None = None,
        *,
        adjustable: bool = True,
    ) -> None:
        if not 0 <= max_bad_share <= 1:
            raise ConfigError(f"max_bad_share is {max_bad_share}", remedy="give a share between 0 and 1")
        self.max_bad_share = max_bad_share
        self.adjustable = adjustable
        self.progress = progress
        self.bad: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.examples: list[Problem] = []
        self.notes: list[str] = []
        self.rows = 0
        self._bad_in_file: dict[str, Counter[str]] = {}
        self._first_in_file: dict[str, Problem] = {}

    def bad_row(self, kind: str, path: str | PathLike[str], line: int, detail: str = "", rows: int = 0) -> None:
        """Count one bad row; ``rows`` is how many of its file were seen so far.

        Raises:
            InputError: too large a share of the file is bad.
        """
        problem = Problem(kind, str(path), line, detail)
        self.bad[kind] += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(problem)
        self._bad_in_file.setdefault(problem.path, Counter())[kind] += 1
        self._first_in_file.setdefault(problem.path, problem)
        if rows >= EARLY or self.max_bad_share == 0:
            self.judge(path, max(rows, 1))

    def judge(self, path: str | PathLike[str], rows: int) -> None:
        """Stop when too large a share of the ``rows`` seen in ``path`` is bad.

        Raises:
            InputError: more than ``max_bad_share`` of the rows is bad.
        """
        kinds = self._bad_in_file.get(str(path))
        if not kinds:
            return
        bad = sum(kinds.values())
        tolerated = bad < GRACE and bad < rows and self.max_bad_share > 0
        if tolerated or bad <= self.max_bad_share * rows:
            return
        first = self._first_in_file[str(path)]
        parts = ", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items()))
        remedy = "mend or fetch the file again" + (", or raise max_bad_share" if self.adjustable else "")
        if first.kind == "bad bytes":
            remedy = _UTF8_REMEDY
        raise InputError(
            f"{bad} of {rows} rows cannot be used ({parts}), more than the share of {self.max_bad_share:g} allowed; "
            f"the first: {first.kind}" + (f" ({first.detail})" if first.detail else ""),
            path=path,
            line=first.line,
            remedy=remedy,
        )


def existing_file(path: str | PathLike[str]) -> Path:
    """``path`` if it is a file, plain or with ``.gz`` behind its name.

    Raises:
        InputError: there is no such file.
    """
    plain = Path(path)
    for found in (plain, plain.with_name(plain.name + ".gz")):
        if found.is_file():
            return found
    if plain.is_dir():
        raise InputError("is a folder, a file is needed", path=path, remedy="name a file in it")
    if plain.exists():
        raise InputError("is a pipe or a device, a file is needed", path=path, remedy="write what it gives to a file")
    raise InputError("no such file", path=path, remedy="check the path")


def input_files(path: str | PathLike[str]) -> int:
    """Bytes on disk below ``path``, for a progress bar."""
    top = Path(path)
    if top.is_dir():
        return sum(found.stat().st_size for found in top.rglob("*") if found.is_file())
    return top.stat().st_size if top.is_file() else 0


class LineFile:
    """The lines of a UTF-8 file, plain or ``.gz``, one at a time, decoded, without line ends.

    Memory does not grow with the file. A line that is not UTF-8 is counted as ``bad bytes`` and left out.

    Args:
        path: the file.
        problems: where bad rows are counted.
        may_be_empty: an empty file is no error.

    Attributes:
        header: lines at the top that are no data rows.
        rows: lines seen so far, the header included.
        cut: whether the line given last has no line end, which is so only at the end of a file.
    """

    def __init__(self, path: str | PathLike[str], problems: Problems, *, may_be_empty: bool = False) -> None:
        self.path = existing_file(path)
        self.problems = problems
        self.may_be_empty = may_be_empty
        self.header = 0
        self.rows = 0
        self.cut = False

    def bad(self, kind: str, line: int, detail: str = "") -> None:
        """Count a bad row of this file."""
        self.problems.bad_row(kind, self.path, line, detail, self.rows - self.header)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Line numbers, from 1, and lines.

        Raises:
            InputError: the file cannot be read, is empty, is cut off inside its compression, or is UTF-16.
        """
        try:
            with open(self.path, "rb") as raw:
                packed = raw.read(2) == b"\x1f\x8b"
                raw.seek(0)
                if packed:
                    with gzip.GzipFile(fileobj=raw) as unpacked:
                        yield from self._lines(unpacked, raw)  # type: ignore[arg-type]  # a GzipFile reads as a raw stream does
                else:
                    yield from self._lines(raw, raw)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"the compressed file is damaged or cut off after line {self.rows}: {error}",
                path=self.path,
                remedy="fetch or compress it again",
            ) from error
        except OSError as error:
            raise InputError(
                f"cannot be read: {error.strerror or error}", path=self.path, remedy="check the file and its rights"
            ) from error
        self.problems.rows += self.rows - self.header
        self.problems.judge(self.path, self.rows - self.header)

    def _lines(self, handle: IO[bytes], raw: IO[bytes]) -> Iterator[tuple[int, str]]:
        problems, done, number = self.problems, 0, 0
        for number, line in enumerate(handle, start=1):
            self.rows = number
            if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise InputError("is UTF-16, not UTF-8", path=self.path, line=1, remedy=_UTF8_REMEDY)
            if not number & 0x3FFF and problems.progress:
                position = raw.tell()
                problems.progress(position - done)
                done = position
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                self.bad("bad bytes", number, f"byte {error.start + 1} of the line is not UTF-8")
                continue
            self.cut = not text.endswith("\n")
            yield number, text.rstrip("\r\n")
        if problems.progress:
            problems.progress(raw.tell() - done)
        if not number and not self.may_be_empty:
            raise InputError("the file is empty", path=self.path, remedy="fetch or export it again")


def read_rows(
    lines: LineFile, columns: int, separator: str, *, closed: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells of a separated file without quoting.

    Args:
        lines: the file; a header must be taken off first.
        columns: cells in each row.
        separator: the mark between cells.
        closed: each row also ends with the mark (RRF).

    Yields:
        Line number and cells; rows of another width are counted as ``column count`` and left out.

    Raises:
        InputError: the last line is cut off, or too many rows are bad.
    """
    yield from _split(lines, iter(lines), columns, separator, closed)


def _split(
    lines: LineFile, numbered: Iterator[tuple[int, str]], columns: int, separator: str, closed: bool
) -> Iterator[tuple[int, list[str]]]:
    width = columns + closed
    for number, text in numbered:
        cells = text.split(separator)
        if len(cells) == width:
            yield number, cells
        elif lines.cut:
            raise InputError(
                f"the last line is cut off: {len(cells) - closed} of {columns} columns and no line end",
                path=lines.path,
                line=number,
                remedy="fetch or unpack the file again",
            )
        elif text:
            lines.bad("column count", number, f"{len(cells) - closed} columns, {columns} expected")


def found_columns(header: Sequence[str]) -> str:
    """What the first line of a table holds, without a word of it: where the header is missing, it is content.

    >>> found_columns(["Erika Mustermann", "3"]), found_columns([""])
    ('2 columns', 'no header')
    """
    return f"{len(header)} column{'s' * (len(header) != 1)}" if any(header) else "no header"


def read_header(
    lines: LineFile, required: Sequence[str], separator: str = "\t"
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Header and rows of a tab-separated file that is read by the names of its columns, without quoting.

    Args:
        lines: the file.
        required: columns that must be there.
        separator: the mark between cells.

    Returns:
        The header, and the rows as :func:`read_rows` gives them.

    Raises:
        InputError: a required column is missing or there twice.
    """
    numbered = iter(lines)
    first = next(numbered, None)
    lines.header = 1
    header = [] if first is None else [cell.strip() for cell in first[1].split(separator)]
    missing = [column for column in required if column not in header]
    if missing:
        raise InputError(
            f"looked for the columns {', '.join(required)}; found {found_columns(header)}",
            path=lines.path,
            line=1,
            remedy=f"give a file with a header and the column {missing[0]}",
        )
    for column in required:
        if header.count(column) > 1:
            raise InputError(f"the column {column} is there twice", path=lines.path, line=1, remedy="leave one of them")
    return header, _split(lines, numbered, len(header), separator, False)


def read_quoted(lines: LineFile, separator: str) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Header and rows of a file with quoting as in CSV, in which a cell may run over several lines.

    Args:
        lines: the file.
        separator: the mark between cells.

    Returns:
        The header, and the rows with the number of their first line; broken quoting and rows of another width
        are counted and left out.

    Raises:
        InputError: the header is no CSV, a quote does not end, or the last line is cut off.
    """
    current = [0]

    def texts() -> Iterator[str]:
        """Lines as the csv module wants them, with the number of the present one noted."""
        for number, text in lines:
            current[0] = number
            yield text + "\n"

    lines.header = 1
    reader = csv.reader(texts(), delimiter=separator, strict=True)
    try:
        header = [column.strip() for column in next(reader, [])]
    except csv.Error as error:
        raise InputError(f"is no CSV: {error}", path=lines.path, line=1, remedy="mend the first line") from error

    def rows() -> Iterator[tuple[int, list[str]]]:
        """Rows with the number of the line each begins in."""
        while True:
            start = current[0] + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                if "unexpected end of data" in str(error):
                    raise InputError(
                        "a quoted cell does not end", path=lines.path, line=start, remedy="close the quote"
                    ) from error
                lines.bad("broken quoting", start, str(error))
                continue
            if cells is None:
                return
            if len(cells) == len(header):
                yield start, cells
            elif cells and lines.cut and len(cells) < len(header):
                raise InputError(
                    f"the last line is cut off: {len(cells)} of {len(header)} columns and no line end",
                    path=lines.path,
                    line=start,
                    remedy="fetch or export the file again",
                )
            elif cells:
                lines.bad("column count", start, f"{len(cells)} columns, {len(header)} expected")

    return header, rows()
