"""Read tables, TSV and CSV with or without a header, and write records as rows."""

from __future__ import annotations

import csv
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain, repeat
from typing import Any

from medlink.errors import InputError
from medlink.files.atomic import atomic_text_writer, rows_format
from medlink.files.escapes import escape_cell, escape_controls
from medlink.files.folders import StrPath
from medlink.files.json import json_line
from medlink.files.problems import Problems, encoding_remedy, is_utf8, pluralize
from medlink.files.resources import RESOURCES
from medlink.files.streams import LineFile
from medlink.files.workbooks import is_workbook

SWALLOWED_BY_QUOTE = "swallowed by a quote"
"""Kind of the bad rows between a stray quote and the next one."""
Rows = Iterator[tuple[int, list[str]]]
_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
_MAX_ROW_LINES = 100  # of a row that spans lines
SEPARATOR_LINE = re.compile(r'"?sep=(\t|[^\w\s"])"?\s*')
"""A first line for Excel, which states the separator; the header follows."""
_COLUMN_NAME = re.compile(r"[^\W\d][\w -]{0,40}")
TITLE_WORD = re.compile(r"[^\W\d][\w.-]{0,40}")
"""A title of one word, which is not text of a note."""
TITLE = re.compile(r"[^\W\d][\w .:()/-]{0,60}")
"""A title of a list of codes, which has no text of a note."""
_COUNT = re.compile(r"(\d{1,15}|\d{1,3}(?:\.\d{3}){1,4}|\d{1,3}(?:,\d{3}){1,4})(?:[.,]0+)?")
_MAX_NAMED = 10


@dataclass(frozen=True, slots=True)
class Table:
    """An open file whose cells are separated by tabs, commas or semicolons.

    Attributes:
        lines: the file.
        header: cells of the first line in lower case; empty without a header.
        first: cells of the first line.
        rows: line numbers and cells of the other rows.
        separators: the possible separators.
    """

    lines: LineFile
    header: tuple[str, ...]
    first: tuple[str, ...]
    rows: Rows
    separators: str

    def has_columns(self, columns: Sequence[str]) -> bool:
        """Return whether the header has all columns; raises :class:`InputError` if it repeats one."""
        if any(column.lower() not in self.header for column in columns):
            return False
        for column in columns:
            if self.header.count(column.lower()) > 1:
                raise self.error(f"the column {column} occurs twice", "rename or delete one of them")
        return True

    def column_indices(self, columns: Sequence[str]) -> list[int]:
        """Return the positions of columns; raises :class:`InputError` if one is missing or repeated."""
        if not self.has_columns(columns):
            missing = next(column for column in columns if column.lower() not in self.header)
            raise self.error(
                f"looked for the columns {', '.join(columns)}; found {describe_header(self.first)}",
                f"give a file with a header and the column {missing}",
            )
        return [self.header.index(column.lower()) for column in columns]

    def iter_all_rows(self) -> Rows:
        """Yield all rows including the first line, for a file without a header."""
        self.lines.lines_without_row -= 1
        yield 1, list(self.first)
        yield from self.rows

    def find_column(self, kind: str, wanted: str | None = None) -> int | None:
        """Return the position of the column ``wanted``, else of a column with a usual title of this kind, else
        ``None``.

        Raises:
            InputError: there is no column ``wanted``, or two columns have the title.
        """
        if wanted is not None:
            return self.column_indices([wanted.strip()])[0]
        by_key = {_title_key(title): title for title in reversed(self.header)}
        title = next((by_key[key] for key in map(_title_key, usual_titles(kind)) if key in by_key), None)
        return None if title is None else self.column_indices([title])[0]

    def layout_error(self, wanted: str) -> InputError:
        """Build the error for a header of no known layout."""
        return self.error(
            f"looked for {wanted}; found {describe_header(self.first)}",
            "name the columns in the first line as docs/reference/evaluation.md lists them",
        )

    def error(self, message: str, remedy: str) -> InputError:
        """Build an error for the first line that also names the likely separator."""
        mark = self._other_separator()
        if mark is not None:
            wanted = " or ".join(_SEPARATORS[separator] for separator in self.separators)
            message += f", which {_SEPARATORS[mark]} seem to separate; {wanted} are expected"
            remedy = f"save the table with {wanted} between its cells"
        encoding = self.lines.encoding
        if self.lines.problems.is_undecoded(self.lines.path, 1):
            message = f"the first line, which names the columns, is not {encoding.upper()}"
            remedy = self.lines.problems.encoding_remedy
        elif encoding != "utf-8" and is_utf8("".join(self.first).encode(encoding, "ignore")):
            message = f"read as {encoding.upper()}, but probably UTF-8"
            remedy = encoding_remedy("utf-8", is_option=True)
        return self.lines.error("; ".join((message, *self.lines.remarks)), remedy, 1)

    def _other_separator(self) -> str | None:
        if len(self.first) != 1:
            return None
        for mark in _SEPARATORS:
            cells = [cell.strip().strip('"') for cell in self.first[0].split(mark)]
            # other cells than names are running text
            if mark not in self.separators and len(cells) > 1 and all(map(_COLUMN_NAME.fullmatch, cells)):
                return mark
        return None


def describe_header(
    header: Sequence[str], *, pattern: re.Pattern[str] = TITLE_WORD, what: str = "column", certain: bool = False
) -> str:
    """Describe a header, and name its columns if there are several and all match ``pattern``, or it is ``certain``.

    Other cells may be the content of a file without a header.
    """
    count = pluralize(len(header), what) if any(header) else "no header"
    shown = [cell for cell in header if cell]
    if not shown or not (certain or (len(header) > 1 and all(map(pattern.fullmatch, shown)))):
        return count
    return f"{count}: {', '.join(shown[:_MAX_NAMED])}{', ...' * (len(shown) > _MAX_NAMED)}"


@cache
def usual_titles(kind: str) -> tuple[str, ...]:
    """Return the usual titles of a column, from ``resources/columns.toml``."""
    return tuple(tomllib.loads((RESOURCES / "columns.toml").read_text("utf-8"))[kind])


def parse_count(text: str) -> int | None:
    """Parse a whole number from 0, ``None`` for other text; groups of three digits may be separated.

    >>> list(map(parse_count, ("12", "12.0", "1.200", "1,234,567", "3,5", "-1", "1e3", "many")))
    [12, 12, 1200, 1234567, None, None, None, None]
    """
    match = _COUNT.fullmatch(text)
    return int(re.sub("[.,]", "", match[1])) if match else None


def _title_key(title: str) -> str:
    letters = unicodedata.normalize("NFKD", title.casefold())
    return "".join(letter for letter in letters if letter.isalnum())


def read_first_line(path: StrPath) -> str:
    """Read the first line of a file, ``""`` if it cannot be decoded."""
    return next(iter(LineFile(path, Problems(1.0))), (0, ""))[1]


def open_table(
    given: StrPath | LineFile,
    problems: Problems | None = None,
    *,
    separator: str | None = None,
    quoted_with: str = "",
    comments: str = "",
) -> Table:
    """Open a table and read its header.

    A table with a tab in its first line is TSV without quoting. Any other table is CSV, separated by ``,`` or ``;``,
    whichever the first line has more of. For a single column, the file name decides. A first line such as ``sep=;``,
    which Excel writes, states the separator; the header follows. Rows of blank cells are skipped.

    A quoted cell may span several lines. If its lines look like rows, an unpaired quote has joined them, and each
    counts as a bad row. Lines look like rows if, ignoring quotes, a middle line, or both the first and the last line,
    have as many columns as the table.

    Args:
        given: the file, plain or ``.gz``, or its lines, which have their own ``problems``.
        problems: where bad rows are counted.
        separator: the separator, if known; cells are then not quoted.
        quoted_with: name of a column; a file that has it may quote cells despite ``separator``.
        comments: prefix of lines to skip and count.
    """
    lines = given if isinstance(given, LineFile) else LineFile(given, problems or Problems())
    numbered = _skip_comments(lines, comments) if comments else iter(lines)
    number, first = next(((number, text) for number, text in numbered if _holds_text(lines, text)), (1, ""))
    stated = SEPARATOR_LINE.fullmatch(first) if separator is None else None
    if stated:
        lines.lines_without_row += 1
        number, first = next(numbered, (2, ""))
    quoted = bool(quoted_with) and quoted_with in first.split(separator)
    separators = separator or ",;\t"
    if stated:
        separator, quoted = stated[1], True
    elif separator is None:
        separator = max(",;\t", key=lambda mark: (mark == "\t" and mark in first, first.count(mark)))
        is_tsv = lines.path.name.lower().removesuffix(".gz").endswith(".tsv")
        if (separator not in first and is_tsv) or is_workbook(lines.path):
            separator = "\t"
        quoted = separator != "\t"
    if quoted:
        cells, rows = _quoted(lines, chain([(number, first)], numbered), separator)
    else:
        lines.lines_without_row += 1
        cells = first.split(separator)
        with_text = (line for line in numbered if _holds_text(lines, line[1]))
        rows = read_rows(lines, len(cells), separator, numbered=with_text)
    written = tuple(cell.strip() for cell in cells)
    return Table(lines, tuple(cell.lower() for cell in written), written, rows, separators)


def _holds_text(lines: LineFile, text: str) -> bool:
    """Return whether a line has a cell that is not blank; count a blank line."""
    is_blank = not text.strip(" ,;|\t\u00a0")
    lines.lines_without_row += is_blank
    return not is_blank


def _skip_comments(lines: LineFile, mark: str) -> Iterator[tuple[int, str]]:
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
    trailing_separator: bool = False,
    wider: int = 0,
    numbered: Iterator[tuple[int, str]] | None = None,
) -> Rows:
    """Yield line numbers and cells of a file without header and quoting.

    Args:
        lines: the file.
        columns: number of cells of a row; a row of another width is bad.
        separator: the separator.
        trailing_separator: each row also ends with the separator (RRF).
        wider: number of extra cells that a row may have.
        numbered: the remaining lines of the file, if some were read.

    Raises:
        InputError: the last line is truncated, or too many rows are bad.
    """
    width = columns + trailing_separator
    for number, text in lines if numbered is None else numbered:
        cells = text.split(separator)
        if width <= len(cells) <= width + wider:
            yield number, cells
        elif text:
            _report_width(lines, [number], len(cells) - trailing_separator, columns)
        else:
            lines.lines_without_row += 1


def join_lines(
    lines: LineFile, numbered: Iterator[tuple[int, str]], columns: int, delimiter: str, row_start: re.Pattern[str]
) -> Rows:
    """Yield rows whose cells may span lines. A row begins at a line whose first cell matches ``row_start``."""
    number, row = 0, list[str]()
    for line, text in chain(numbered, [(-1, "")]):
        cells = text.split(delimiter)
        continues = row and 0 < line < number + _MAX_ROW_LINES and len(row) + len(cells) - 1 <= columns
        if line > 0 and not text.strip():
            lines.lines_without_row += 1
        elif continues and not row_start.fullmatch(cells[0].strip()):
            lines.lines_without_row += 1
            row = [*row[:-1], f"{row[-1]} {cells[0]}", *cells[1:]]
        else:
            if len(row) == columns:
                yield number, row
            elif row:
                lines.bad_row("column count", number, f"{len(row)} columns, {columns} expected")
            number, row = line, cells


def read_columns(
    lines: LineFile, columns: int, separator: str, wanted: Sequence[int], *, trailing_separator: bool = False
) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    """Read rows like :func:`read_rows`, thousands at a time: yield their line numbers and ``wanted`` columns."""
    width = columns + trailing_separator
    for first, texts in lines.iter_chunks():
        for numbers, good in _of_width(lines, first, texts, columns, separator, trailing_separator):
            cells = separator.join(good).split(separator)
            yield numbers, [cells[column::width] for column in wanted]


def _of_width(
    lines: LineFile, first: int, texts: list[str], columns: int, separator: str, trailing_separator: bool
) -> Iterator[tuple[Sequence[int], list[str]]]:
    """Yield the lines of the right width with their numbers; count a bad row after the lines before it."""
    wanted = columns + trailing_separator - 1
    if list(map(str.count, texts, repeat(separator))).count(wanted) == len(texts):
        yield range(first, first + len(texts)), texts
        return
    begin = 0
    for index, text in enumerate(texts):
        separators = text.count(separator)
        if separators != wanted:
            if begin < index:
                yield range(first + begin, first + index), texts[begin:index]
            begin = index + 1
            if text:
                _report_width(lines, [first + index], separators + 1 - trailing_separator, columns)
            else:
                lines.lines_without_row += 1
    if begin < len(texts):
        yield range(first + begin, first + len(texts)), texts[begin:]


def _quoted(lines: LineFile, numbered: Iterator[tuple[int, str]], separator: str) -> tuple[list[str], Rows]:
    span, widths = list[int](), list[int]()

    def texts() -> Iterator[str]:
        for number, text in numbered:
            span.append(number)
            widths.append(text.count(separator) + 1)
            yield text + "\n"

    remedy, reader = "correct the first line", csv.reader(texts(), delimiter=separator, strict=True)
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise lines.error(f"is not CSV: {error}", remedy, 1) from error
    if any("\n" in cell and separator in cell for cell in header):
        raise lines.error(f"a quote in the first line swallows the lines to {span[-1]}", remedy, span[0])
    lines.lines_without_row += len(span)

    def rows() -> Rows:
        while True:
            span.clear()
            widths.clear()
            try:
                cells = next(reader, None)
            except csv.Error as error:
                _report_broken_row(lines, span, error)
                continue
            if cells is None:
                return
            columns = len(header)
            if len(span) > 1 and (columns in widths[1:-1] or widths[0] == widths[-1] == columns):
                for line in span:
                    lines.bad_row(SWALLOWED_BY_QUOTE, line, f"the quote opens in line {span[0]}")
            elif not any(map(str.strip, cells)):
                lines.lines_without_row += len(span)
            elif len(cells) == columns:
                lines.lines_without_row += len(span) - 1
                yield span[0], cells
            else:
                _report_width(lines, span, len(cells), columns)

    return header, rows()


def _report_broken_row(lines: LineFile, span: list[int], error: csv.Error) -> None:
    """Count the lines of a row that is not CSV; raise if it is the rest of the file."""
    large = "field larger" in str(error)
    if "unexpected end" in str(error) or (large and len(span) > 1):
        remedy = "close the quote, or give the table as TSV, which has no quoting"
        raise lines.error("a quoted cell does not end", remedy, span[0]) from error
    kind = f"a cell of more than {csv.field_size_limit():,} characters" if large else "broken quoting"
    for line in span:
        lines.bad_row(kind, line, "" if large else str(error))


def _report_width(lines: LineFile, span: list[int], width: int, columns: int) -> None:
    """Count a row of another width; at the end of a file, it means that the rest is missing."""
    if lines.unterminated and width < columns:
        lines.report_truncated(f": {width} of {columns} columns and no line end")
    for line in span:
        lines.bad_row("column count", line, f"{width} columns, {columns} expected")


@contextmanager
def row_writer(path: StrPath | None, kind: type[Any], *, private: bool = False) -> Iterator[Callable[[Any], object]]:
    """Yield a function that writes a record of ``kind``, a dataclass with slots, as a row of ``.tsv`` or ``.jsonl``.

    The file appears when the block ends; without a path, records are dropped.
    """
    if path is None:
        yield lambda record: None
        return
    is_json = rows_format(path) == "jsonl"
    with atomic_text_writer(path, private=private) as file:
        if not is_json:
            file.write("\t".join(kind.__slots__) + "\n")

        def write(record: Any) -> None:
            row = asdict(record)
            cells = ("" if value is None else escape_cell(escape_controls(str(value))) for value in row.values())
            file.write(json_line(row) if is_json else "\t".join(cells) + "\n")

        yield write
