"""The one table reader: TSV and CSV, with a header whose columns are found by name or without one."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from medlink.errors import InputError
from medlink.files.folders import StrPath
from medlink.files.problems import BAD_BYTES, UTF8_REMEDY, Problems, counted
from medlink.files.streams import LineFile

SWALLOWED = "swallowed by a quote"
"""Kind of the bad rows between a quote that should not be there and the next one."""
Rows = Iterator[tuple[int, list[str]]]
_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
_STATED = re.compile(r'"?sep=([,;\t|])"?')
_COLUMN = re.compile(r"[^\W\d][\w -]{0,40}")


@dataclass(frozen=True, slots=True)
class Table:
    """A separated file: ``header`` are the cells of its ``first`` line in lower case, ``rows`` the line numbers and
    cells of the others, and ``separators`` what could have stood between cells."""

    lines: LineFile
    header: tuple[str, ...]
    first: tuple[str, ...]
    rows: Rows
    separators: str

    def has(self, columns: Sequence[str]) -> bool:
        """Whether the header has all columns; an :class:`InputError` where it has one of them twice."""
        asked = [column.lower() for column in columns]
        if any(column not in self.header for column in asked):
            return False
        for written, column in zip(columns, asked, strict=True):
            if self.header.count(column) > 1:
                raise self.error(f"the column {written} is there twice", "rename or delete one of them")
        return True

    def places(self, columns: Sequence[str]) -> list[int]:
        """Where columns stand; an :class:`InputError` where one is missing or there twice."""
        if not self.has(columns):
            missing = next(column for column in columns if column.lower() not in self.header)
            raise self.error(
                f"looked for the columns {', '.join(columns)}; found {found_columns(self.first)}",
                f"give a file with a header and the column {missing}",
            )
        return [self.header.index(column.lower()) for column in columns]

    def with_first(self) -> Rows:
        """All rows, of a file without a header."""
        self.lines.no_rows -= 1
        yield 1, list(self.first)
        yield from self.rows

    def unknown(self, wanted: str) -> InputError:
        """What to raise of a header of no layout."""
        return self.error(
            f"looked for {wanted}; found {found_columns(self.first)}",
            "name the columns in the first line as docs/reference/evaluation.md lists them",
        )

    def error(self, message: str, remedy: str) -> InputError:
        """What to raise of the first line, which is told where something else seems to stand between its cells."""
        mark = self._other_mark()
        if mark is not None:
            wanted = " or ".join(_SEPARATORS[one] for one in self.separators)
            message += f", which {_SEPARATORS[mark]} seem to part; {wanted} are expected"
            remedy = f"save the table with {wanted} between its cells"
        begun = (BAD_BYTES, str(self.lines.path), 1)
        if any((bad.kind, bad.path, bad.line) == begun for bad in self.lines.problems.examples):
            message, remedy = f"{message}; the first line is not UTF-8", UTF8_REMEDY
        return self.lines.refused(message, remedy, 1)

    def _other_mark(self) -> str | None:
        """What seems to stand between the cells of a first line that nothing parted."""
        if len(self.first) != 1:
            return None
        for mark in _SEPARATORS:
            cells = [cell.strip().strip('"') for cell in self.first[0].split(mark)]
            # what is no row of names is a text
            if mark not in self.separators and len(cells) > 1 and all(map(_COLUMN.fullmatch, cells)):
                return mark
        return None


def found_columns(header: Sequence[str]) -> str:
    """What the first line of a table holds, without a word of it: where the header is missing, it is content."""
    return counted(len(header), "column") if any(header) else "no header"


def first_line(path: StrPath) -> str:
    """The first line of a file, ``""`` where it cannot be decoded."""
    return next(iter(LineFile(path, Problems(1.0))), (0, ""))[1]


def open_table(
    given: StrPath | LineFile,
    problems: Problems | None = None,
    *,
    separator: str | None = None,
    quoted_with: str = "",
    comments: str = "",
) -> Table:
    """The header and the rows of a table.

    A table with a tab in its first line is TSV and has no quoting. Any other is CSV with ``,`` or ``;``, whichever its
    first line has more of. A first line of one column leaves it to the name of the file.

    A first line ``sep=;``, as Excel writes and reads it, states the separator, and the header follows it.

    A quoted cell may run over several lines, unless these look like rows: then a quote that should not be there has
    swallowed them, and each is a bad row. They look like rows when a line within the cell, or both the first and the
    last, would have as many columns as the table if no quote meant anything.

    Args:
        given: the file, plain or ``.gz``, or its lines, which say then where bad rows are counted.
        problems: where bad rows are counted.
        separator: what stands between cells, where it is known: then there is no quoting.
        quoted_with: a column whose name says that cells are quoted all the same.
        comments: what a line begins with that is left out and counted.
    """
    lines = given if isinstance(given, LineFile) else LineFile(given, problems or Problems())
    numbered = _uncommented(lines, comments) if comments else iter(lines)
    number, first = next(numbered, (1, ""))
    stated = _STATED.fullmatch(first) if separator is None else None
    if stated:
        lines.no_rows += 1
        number, first = next(numbered, (2, ""))
    quoted = bool(quoted_with) and quoted_with in first.split(separator)
    separators = separator or ",;\t"
    if stated:
        separator, quoted = stated[1], True
    elif separator is None:
        separator = max(",;\t", key=lambda mark: (mark == "\t" and mark in first, first.count(mark)))
        if separator not in first and lines.path.name.lower().removesuffix(".gz").endswith(".tsv"):
            separator = "\t"
        quoted = separator != "\t"
    if quoted:
        cells, rows = _quoted(lines, chain([(number, first)], numbered), separator)
    else:
        lines.no_rows += 1
        cells = first.split(separator)
        rows = read_rows(lines, len(cells), separator, numbered=numbered)
    written = tuple(cell.strip() for cell in cells)
    return Table(lines, tuple(cell.lower() for cell in written), written, rows, separators)


def _uncommented(lines: LineFile, mark: str) -> Iterator[tuple[int, str]]:
    for number, text in lines:
        if text.startswith(mark):
            lines.problems.skipped["comment line"] += 1
        else:
            yield number, text


def read_rows(
    lines: LineFile,
    columns: int,
    separator: str,
    *,
    closed: bool = False,
    numbered: Iterator[tuple[int, str]] | None = None,
) -> Rows:
    """Line numbers and cells of a file without header and quoting.

    A row of another number of cells than ``columns`` is counted as ``column count`` and left out. Where rows are
    ``closed`` each also ends with the separator (RRF). ``numbered`` are those lines of the file that are left.

    Raises:
        InputError: the last line is cut off, or too many rows are bad.
    """
    width = columns + closed
    for number, text in lines if numbered is None else numbered:
        cells = text.split(separator)
        if len(cells) == width:
            yield number, cells
        elif text:
            _wrong_width(lines, [number], len(cells) - closed, columns)
        else:
            lines.no_rows += 1


def read_columns(
    lines: LineFile, columns: int, separator: str, wanted: Sequence[int], *, closed: bool = False
) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    """As :func:`read_rows`, thousands of rows at a time: their line numbers, and the ``wanted`` columns."""
    width = columns + closed
    for first, texts in lines.in_bulk():
        for numbers, good in _of_width(lines, first, texts, columns, separator, closed):
            cells = separator.join(good).split(separator)
            yield numbers, [cells[place::width] for place in wanted]


def _of_width(
    lines: LineFile, first: int, texts: list[str], columns: int, separator: str, closed: bool
) -> Iterator[tuple[Sequence[int], list[str]]]:
    """Lines that have so many columns, with their numbers; others are counted behind those before them."""
    wanted = columns + closed - 1
    if list(map(str.count, texts, repeat(separator))).count(wanted) == len(texts):
        yield range(first, first + len(texts)), texts
        return
    begin = 0
    for place, text in enumerate(texts):
        found = text.count(separator)
        if found != wanted:
            if begin < place:
                yield range(first + begin, first + place), texts[begin:place]
            begin = place + 1
            if text:
                _wrong_width(lines, [first + place], found + 1 - closed, columns)
            else:
                lines.no_rows += 1
    if begin < len(texts):
        yield range(first + begin, first + len(texts)), texts[begin:]


def _quoted(lines: LineFile, numbered: Iterator[tuple[int, str]], separator: str) -> tuple[list[str], Rows]:
    span: list[int] = []
    widths: list[int] = []

    def texts() -> Iterator[str]:
        for number, text in numbered:
            span.append(number)
            widths.append(text.count(separator) + 1)
            yield text + "\n"

    def swallowed(columns: int) -> bool:
        return len(span) > 1 and (columns in widths[1:-1] or widths[0] == widths[-1] == columns)

    mend = "mend the first line"
    reader = csv.reader(texts(), delimiter=separator, strict=True)
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise lines.refused(f"is no CSV: {error}", mend, 1) from error
    if any("\n" in cell and separator in cell for cell in header):
        raise lines.refused(f"a quote in the first line swallows the lines to {span[-1]}", mend, span[0])
    lines.no_rows += len(span)

    def rows() -> Rows:
        while True:
            span.clear()
            widths.clear()
            try:
                cells = next(reader, None)
            except csv.Error as error:
                _broken(lines, span, error)
                continue
            if cells is None:
                return
            if swallowed(len(header)):
                for line in span:
                    lines.bad(SWALLOWED, line, f"the quote opens in line {span[0]}")
            elif len(cells) == len(header):
                lines.no_rows += len(span) - 1
                yield span[0], cells
            elif cells:
                _wrong_width(lines, span, len(cells), len(header))
            else:
                lines.no_rows += len(span)

    return header, rows()


def _broken(lines: LineFile, span: list[int], error: csv.Error) -> None:
    """Count the lines of a row that is no CSV; where that is the rest of the file it is an error."""
    large = "field larger" in str(error)
    if "unexpected end" in str(error) or (large and len(span) > 1):
        remedy = "close the quote, or give the table as TSV, which has no quoting"
        raise lines.refused("a quoted cell does not end", remedy, span[0]) from error
    kind = f"a cell of more than {csv.field_size_limit():,} characters" if large else "broken quoting"
    for line in span:
        lines.bad(kind, line, "" if large else str(error))


def _wrong_width(lines: LineFile, span: list[int], found: int, columns: int) -> None:
    """Count a row of another width, which at the end of a file says that the rest is missing."""
    if lines.cut and found < columns:
        lines.cut_off(f": {found} of {columns} columns and no line end")
    for line in span:
        lines.bad("column count", line, f"{found} columns, {columns} expected")
