"""Excel workbooks (``.xlsx``) as tables: reading turns the first sheet into tab-separated lines; written cells are
text.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from os import PathLike
from pathlib import Path
from typing import Any, TextIO
from zipfile import ZipFile, ZipInfo

from medlink.errors import ConfigError, InputError, needs_extra
from medlink.files.atomic import atomic_text_writer, atomic_writer
from medlink.files.escapes import escape_controls, unescape_cell
from medlink.files.problems import pluralize

ENDING = ".xlsx"
_MAX_ROWS, _MAX_CELL = 1_048_576, 32_767  # of Excel
_SPACES = re.compile(r"[\t\r\n\v\f\x85\u2028\u2029]+")
QUOTED_TEXT = re.compile(r'="((?:[^"]|"")*)"')
"""A formula that is a text in quotes: some programs write codes with leading zeros in this way."""
_NUMBER = re.compile(r"-?\d{1,15}(\.\d+)?")
_ZEROS = re.compile("0+")
_CHANGED = re.compile(rb"(<dcterms:(created|modified)[^>]*>)[^<]*")


def is_workbook(path: str | PathLike[str]) -> bool:
    """Return whether the name of a file ends in ``.xlsx``."""
    return Path(path).suffix.lower() == ENDING


def read_sheet(path: str | PathLike[str]) -> tuple[bytes, list[str]]:
    """Return the first visible sheet with a value as UTF-8, a line for each row, and remarks on ignored content.

    A line has the number of its row. Tabs and line ends in cells become blanks. A formula gives the value that Excel
    stored. Without a stored value, a text in quotes (``="007"``) gives that text, and any other formula gives nothing.

    Raises:
        InputError: the file is not a workbook, is damaged or encrypted, or has no value.
        ConfigError: openpyxl is not installed.
    """
    with needs_extra("excel", "reading Excel"):
        from openpyxl import load_workbook
    remedy = "save it again as .xlsx without a password, or as CSV in UTF-8"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on styles and extensions, which are not read
            rows, titles = _rows(load_workbook(path, read_only=True))
            formulas = [(row, at) for row, cells in enumerate(rows) for at, c in enumerate(cells) if c.data_type == "f"]
            stored = _rows(load_workbook(path, read_only=True, data_only=True))[0] if formulas else rows
            texts = [list(map(_text, row)) for row in stored]
    except OSError as error:
        reason = f"cannot be read: {error.strerror or 'no workbook of Excel'}"
        raise InputError(reason, path=path, remedy=remedy) from error
    except Exception as error:  # openpyxl lets through whatever its parsers raise
        raise InputError("is not an Excel workbook, or is damaged", path=path, remedy=remedy) from error
    for row, at in formulas:
        if not texts[row][at] and (quoted := QUOTED_TEXT.fullmatch(rows[row][at].value)):
            texts[row][at] = quoted[1].replace('""', '"')
    empty = [rows[row][at].coordinate for row, at in formulas if not texts[row][at]]
    if not any(map(any, texts)):
        raise InputError("the workbook has no cell with a value", path=path, remedy="give one with a header and rows")
    while not any(texts[-1]):
        texts.pop()
    width = len(next(filter(any, texts)))
    while not any(row[width - 1] for row in texts if len(row) >= width):
        width -= 1
    lines = ("\t".join((row + [""] * width)[: max(width, _filled(row))]) if any(row) else "" for row in texts)
    remarks = []
    if titles[1:]:
        others = ", ".join(map(repr, titles[1:]))
        remarks.append(f"the sheet {titles[0]!r} is read, not {others}: the first one with a value counts")
    if empty:
        count = pluralize(len(empty), "formula")
        remarks.append(f"{count} without a stored value, read as empty, the first in {empty[0]}: save it in Excel")
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"), remarks


def _rows(book: Any) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return the rows of the first visible sheet with a value, and the titles of all such sheets."""
    sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    for sheet in sheets:
        sheet.reset_dimensions()  # other programs may write wrong ones
    filled = [sheet for sheet in sheets if any(value is not None for row in sheet.values for value in row)]
    rows = list(filled[0].iter_rows()) if filled else []
    book.close()
    return rows, [sheet.title for sheet in filled]


def _filled(row: Sequence[str]) -> int:
    return max((at for at, text in enumerate(row, 1) if text), default=0)


def _text(cell: Any) -> str:
    value = cell.value
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    if isinstance(value, int):
        # a format of zeros shows the code 7 as 007
        zeros = _ZEROS.fullmatch(cell.number_format or "")
        return str(value).zfill(len(zeros[0]) if zeros else 0)
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, date | time):
        return value.isoformat()
    return "" if value is None else _SPACES.sub(" ", str(value))


@contextmanager
def table_writer(
    path: str | PathLike[str], what: str = "the output", *, delimiter: str = ",", numbers: Collection[str] = ()
) -> Iterator[TextIO]:
    """Open a text file as :func:`atomic_text_writer` does; for ``.xlsx``, the written table becomes a workbook.

    In a workbook, no cell is a formula. Cells are text, except for numbers in the columns ``numbers``. Memory grows
    with the table. Equal tables give equal bytes.

    Raises:
        ConfigError: the file cannot be written, the table is too large for Excel, or openpyxl is not installed.
    """
    if not is_workbook(path):
        with atomic_text_writer(path, what) as file:
            yield file
        return
    with needs_extra("excel", "writing Excel"):
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
    text = io.StringIO(newline="")
    yield text
    text.seek(0)
    quoted = {"quoting": csv.QUOTE_NONE} if delimiter == "\t" else {}
    rows = list(csv.reader(text, delimiter=delimiter, **quoted))  # type: ignore[arg-type]  # typed by key
    # before openpyxl opens its own files
    longest = max((len(value) for row in rows for value in row), default=0)
    if len(rows) > _MAX_ROWS or longest > _MAX_CELL:
        limit = f"{_MAX_ROWS:,} rows" if len(rows) > _MAX_ROWS else f"{_MAX_CELL:,} characters in a cell"
        raise ConfigError(f"Excel holds at most {limit}", path=path, remedy="name a file .csv or .tsv")
    book = Workbook(write_only=True)
    sheet = book.create_sheet("medlink")
    sheet.freeze_panes = "A2"

    def cell(value: str, *, is_number: bool) -> Any:
        if is_number and _NUMBER.fullmatch(value):
            return float(value) if "." in value else int(value)
        made = WriteOnlyCell(sheet, escape_controls(unescape_cell(value)))
        made.data_type = "s"
        return made if value else None

    for line, row in enumerate(rows):
        is_number = (line > 0 and title in numbers for title in rows[0])
        sheet.append([cell(value, is_number=number) for value, number in zip(row, is_number, strict=True)])
    buffer = io.BytesIO()
    book.save(buffer)
    with atomic_writer(path, what) as binary:
        binary.write(_without_times(buffer))


def _without_times(workbook: io.BytesIO) -> bytes:
    """Write the times of a workbook as 1980, the first year of zip files."""
    out = io.BytesIO()
    with ZipFile(workbook) as given, ZipFile(out, "w") as made:
        for item in given.infolist():
            content = _CHANGED.sub(rb"\g<1>1980-01-01T00:00:00Z", given.read(item))
            made.writestr(ZipInfo(item.filename), content, item.compress_type)
    return out.getvalue()
