"""Workbooks of Excel: read by openpyxl's files and damaged ones, and written as openpyxl reads them."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook, load_workbook

from medlink.errors import ConfigError, InputError
from medlink.files import workbooks
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import open_table
from medlink.files.workbooks import read_sheet, table_writer


def write(path: Path, *sheets: list[list[Any]]) -> Path:
    book = Workbook()
    book.remove(book.active)
    for rows in sheets:
        sheet = book.create_sheet()
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([["code", "name"], ["K1", "Übelkeit"]], "code\tname\nK1\tÜbelkeit\n"),
        ([["code", "n"], [7, 3.0], [7.5, 1e300]], "code\tn\n7\t3\n7.5\t1e+300\n"),
        ([["code", "x"], [True, date(2026, 1, 2)], [None, datetime(2026, 1, 2, 3)]],
         "code\tx\nTRUE\t2026-01-02\n\t2026-01-02T03:00:00\n"),
        ([["code", "name", None], ["K1", "two\nlines\tand a tab"], [], ["K2"]],
         "code\tname\nK1\ttwo lines and a tab\n\nK2\t\n"),
        ([[], ["code", "name"], ["K1", "x", None, "more"]], "\ncode\tname\nK1\tx\t\tmore\n"),
        ([["code"], ['a "quoted", cell']], 'code\na "quoted", cell\n'),
    ],
)  # fmt: skip
def test_a_sheet_is_lines(rows: list[list[Any]], text: str, tmp_path: Path) -> None:
    assert read_sheet(write(tmp_path / "x.xlsx", rows)) == (text.encode(), [])


def test_formats_formulas_and_other_sheets(tmp_path: Path) -> None:
    path = write(tmp_path / "x.xlsx", [["code", "name"], [7, '="a"&"b"'], [8, "'=1+1"], ['="09"', "x"]], [["more"]])
    book = load_workbook(path)
    book.worksheets[0]["A2"].number_format = "000"
    book.worksheets[0]["B3"].value = "=1+1"
    book.worksheets[0]["B3"].data_type = "s"
    book.create_sheet("hidden", 0).append(["no"])
    book.worksheets[0].sheet_state = "hidden"
    book.save(path)
    text, remarks = read_sheet(path)
    # no program stored the values of the formulas
    assert text.decode() == "code\tname\n007\t\n8\t=1+1\n09\tx\n"
    assert remarks == [
        "the sheet 'Sheet' is read, not 'Sheet1': the first one with a value counts",
        "1 formula without a stored value, read as empty, the first in B2: save it in Excel",
    ]
    problems = Problems()
    table = open_table(LineFile(path, problems))
    rows = [(2, ["007", ""]), (3, ["8", "=1+1"]), (4, ["09", "x"])]
    assert (table.header, list(table.rows)) == (("code", "name"), rows)
    assert problems.notes == [f"{path}: {remark}" for remark in remarks]
    with pytest.raises(InputError, match="found 2 columns: code, name; the sheet 'Sheet' is read, not 'Sheet1'"):
        table.column_indices(["id"])


def test_the_row_of_an_error_is_that_of_the_sheet(tmp_path: Path) -> None:
    path = write(tmp_path / "x.xlsx", [[], ["code", "name"], ["K1", "x"], ["K2", "y", "z"]])
    with pytest.raises(InputError, match=r"x\.xlsx:4: 1 of 2 rows cannot be used \(column count: 1\)"):
        list(open_table(LineFile(path, Problems(max_odd_rows=0))).rows)


@pytest.mark.parametrize(
    "content", [b"", b"code,name\n", b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 600]
)
def test_files_that_are_no_workbook(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.xlsx").write_bytes(content)
    with pytest.raises(InputError, match=r"Remedy: save it again as \.xlsx without a password, or as CSV in UTF-8"):
        read_sheet(tmp_path / "x.xlsx")


def test_an_empty_workbook(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the workbook has no cell with a value"):
        read_sheet(write(tmp_path / "x.xlsx", []))


def test_damaged_workbooks(tmp_path: Path) -> None:
    whole = write(tmp_path / "x.xlsx", [["code", "name"], *([number, f"name {number}"] for number in range(50))])
    content, rng = whole.read_bytes(), random.Random(1)
    for _ in range(60):
        damaged = bytearray(content[: rng.randrange(len(content))] if rng.random() < 0.3 else content)
        for _ in range(rng.randrange(1, 20)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / "y.xlsx").write_bytes(damaged)
        with suppress(InputError):
            read_sheet(tmp_path / "y.xlsx")


TABLE = "code,n\n'=1+1,3\n007,4.5\n\"'-a, b\",\n'@x,1e5\n\x01,2\n"


def test_a_written_table(tmp_path: Path) -> None:
    for name in ("one.xlsx", "two.XLSX"):
        with table_writer(tmp_path / name, numbers=("n",)) as file:
            file.write(TABLE)
    assert (tmp_path / "one.xlsx").read_bytes() == (tmp_path / "two.XLSX").read_bytes()
    cells = [[(cell.value, cell.data_type) for cell in row] for row in load_workbook(tmp_path / "one.xlsx").active]
    text, number = "s", "n"
    assert cells == [
        [("code", text), ("n", text)], [("=1+1", text), (3, number)], [("007", text), (4.5, number)],
        [("-a, b", text), (None, number)], [("@x", text), ("1e5", text)], [("\\u0001", text), (2, number)],
    ]  # fmt: skip
    assert read_sheet(tmp_path / "one.xlsx")[0].decode().splitlines()[1:3] == ["=1+1\t3", "007\t4.5"]


def test_a_table_that_excel_cannot_hold_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbooks, "_MAX_ROWS", 2)
    for text, message in (("a\nb\nc\n", "at most 2 rows"), ("x" * 32_768, "at most 32,767 characters in a cell")):
        with pytest.raises(ConfigError, match=message), table_writer(tmp_path / "x.xlsx") as file:
            file.write(text)
    with pytest.raises(ZeroDivisionError), table_writer(tmp_path / "x.xlsx") as file:
        file.write(str(1 / 0))
    assert list(tmp_path.iterdir()) == []
