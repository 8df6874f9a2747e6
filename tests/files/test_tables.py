"""Tables: headers, quoting, stray quotes, comments and separators."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.files import streams
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import SWALLOWED_BY_QUOTE, open_table, read_columns, read_rows
from tests.kb.writers import write_lines


def numbered(count: int, **given: str) -> list[str]:
    """A table of three columns; ``r5`` is another text for row 5."""
    return ["id,name,language", *(given.get(f"r{row}", f"{row},name {row},en") for row in range(1, count + 1))]


def test_header(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x", ["id\tname\tmore\tmore", "1\tone\tc\td"])
    table = open_table(path, Problems())
    assert (table.header, table.column_indices(["NAME"])) == (("id", "name", "more", "more"), [1])
    assert list(table.rows) == [(2, ["1", "one", "c", "d"])]
    with pytest.raises(InputError, match="looked for the columns id, text; found 4 columns"):
        table.column_indices(["id", "text"])
    with pytest.raises(InputError, match=r"x:1: the column more occurs twice\. Remedy: rename or delete one of them"):
        table.column_indices(["id", "more"])


def test_quoted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x", ["a,b", '1,"x', 'y"', "2,z", "3", '4,"u"v', "5,w"])
    problems = Problems()
    table = open_table(path, problems)
    assert table.header == ("a", "b")
    assert list(table.rows) == [(2, ["1", "x\ny"]), (4, ["2", "z"]), (7, ["5", "w"])]
    assert problems.bad == {"column count": 1, "broken quoting": 1}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_blank_rows_are_no_rows(separator: str, tmp_path: Path) -> None:
    lines = [",", "a,b", "1,x", " , ", ", ,", '"",""' if separator != "\t" else ",", "2,", ""]
    path = write_lines(tmp_path / "x", [line.replace(",", separator) for line in lines])
    problems = Problems(0)
    assert list(open_table(path, problems).rows) == [(3, ["1", "x"]), (7, ["2", ""])]
    assert problems.rows == 2


def test_a_first_line_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("Schlüssel;Bezeichnung\nK1;Kopfschmerz\n".encode("latin-1"))
    with pytest.raises(
        InputError, match=r"x.csv:1: the first line, which names the columns, is not UTF-8\. Remedy: .*iconv -f CP1252"
    ):
        open_table(path, Problems(1)).column_indices(["id"])
    path.write_text("Schlüssel;Bezeichnung\nK1;Kopfschmerz\n", "utf-8")
    with pytest.raises(
        InputError,
        match=r'read as ISO8859-1, but probably UTF-8\. Remedy: name its encoding, probably encoding="utf-8"',
    ):
        open_table(LineFile(path, Problems(1), encoding="latin-1")).column_indices(["id"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,b\n1,"x\n2,y\n', "a quoted cell does not end"),
        ("a,b\n1,x\n2", "last line is cut off: 1 of 2"),
        ('"a"b,c\n', "is not CSV"),
    ],
)
def test_broken_quoted(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(InputError, match=message):
        list(open_table(tmp_path / "x", Problems()).rows)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ('5,"name 5,en', '900,name 900",en'),
        ('"5,name 5,en', '900",name 900,en'),
        ('5,name 5,"en', '900,name 900,en"'),
        ('5,"name 5,en', '900,"name 900,en'),
    ],
)
def test_rows_swallowed_by_a_quote(first: str, last: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.csv", numbered(2000, r5=first, r900=last))
    with pytest.raises(InputError, match=r"x\.csv:6: 896 of 2000 rows cannot be used \(.*: 896\)"):
        list(open_table(path, Problems()).rows)
    problems = Problems(0.5)
    assert [line for line, _ in open_table(path, problems).rows] == [*range(2, 6), *range(902, 2002)]
    assert problems.bad.total() == 896
    assert problems.rows == 2000
    assert problems.examples[0].line == 6


def test_one_row_swallowed_by_a_quote(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.csv", numbered(1000, r5='5,"name 5,en', r6='6,name 6",en'))
    problems = Problems()
    assert len(list(open_table(path, problems).rows)) == 998
    assert problems.bad == {SWALLOWED_BY_QUOTE: 2}
    assert [str(problem) for problem in problems.examples] == [
        f"{path}:{line}: swallowed by a quote (the quote opens in line 6)" for line in (6, 7)
    ]


@pytest.mark.parametrize(
    ("columns", "row", "cells"),
    [
        ("a,b,c", '1,"x\ny",2', ["1", "x\ny", "2"]),
        ("a,b,c", '1,"x, and\n\ny\nz",2', ["1", "x, and\n\ny\nz", "2"]),
        ("a,b", '"x\ny",2', ["x\ny", "2"]),
        ("a,b", '2,"x\ny"', ["2", "x\ny"]),
        ("a;b", '2;"x, or\ny, or z\nw"', ["2", "x, or\ny, or z\nw"]),
    ],
)
def test_multiline_cell(columns: str, row: str, cells: list[str], tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.csv", [columns, row, "", row])
    problems = Problems(0)
    further = row.count("\n")
    assert list(open_table(path, problems).rows) == [(2, cells), (4 + further, cells)]
    assert problems.rows == 2


def test_cell_with_lines_like_rows(tmp_path: Path) -> None:
    """Lines with as many separators as a row count as swallowed rows."""
    path = write_lines(tmp_path / "x.csv", ["id,text", '1,"a, b', "c, d", 'e"', "2,f"])
    problems = Problems(1)
    assert list(open_table(path, problems).rows) == [(5, ["2", "f"])]
    assert problems.bad == {SWALLOWED_BY_QUOTE: 3}


def test_header_that_swallows_rows(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.csv", ['id,name,"note', "1,one,x", "2,two,y", '3,three",z', "4,four,w"])
    with pytest.raises(InputError) as caught:
        open_table(path, Problems())
    assert str(caught.value) == (
        f"{path}:1: a quote in the first line swallows the lines to 4. Remedy: correct the first line."
    )
    path = write_lines(tmp_path / "x.csv", ['id,"name\nof it",note', "1,one,x"])
    problems = Problems()
    table = open_table(path, problems)
    assert (table.header, list(table.rows), problems.rows) == (
        ("id", "name\nof it", "note"),
        [(3, ["1", "one", "x"])],
        1,
    )


def test_comments(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.txt", ["# of it", "id\tname", "1\tone", "#", "2\t# two"])
    problems = Problems()
    table = open_table(path, problems, separator="\t", comments="#")
    assert (table.header, list(table.rows)) == (("id", "name"), [(3, ["1", "one"]), (5, ["2", "# two"])])
    assert (problems.rows, problems.skipped) == (4, {"comment line": 2})


@pytest.mark.parametrize(
    ("first", "separator", "message"),
    [
        (
            "id,name,decision",
            "\t",
            "found 1 column, which commas seem to separate; tabs are expected. Remedy: save the",
        ),
        ('"id";"name"', "\t", "found 1 column, which semicolons seem to separate; tabs are expected. Remedy: save"),
        (
            "id|name",
            None,
            "which bars seem to separate; commas or semicolons or tabs are expected. Remedy: save the table",
        ),
        ("fever, 39 °C; cough", "\t", "found 1 column. Remedy: give a file with a header and the column id"),
        ("name,concept", None, "found 2 columns: name, concept. Remedy: give a file with a header and the column id"),
    ],
)
def test_other_separator(first: str, separator: str | None, message: str, tmp_path: Path) -> None:
    table = open_table(write_lines(tmp_path / "x.csv", [first]), Problems(), separator=separator)
    with pytest.raises(InputError) as error:
        table.column_indices(["id", "name"])
    assert message in str(error.value)


@pytest.mark.parametrize("trailing_separator", [False, True])
@pytest.mark.parametrize("block", [7, 100, 1 << 18])
def test_columns_equal_rows(
    block: int, trailing_separator: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many rows at a time are the same rows, with the same account of bad ones in the same order."""
    monkeypatch.setattr(streams, "_BLOCK_BYTES", block)
    rng = random.Random(1)
    good, end = [b"a|\xc3\xa4|", b"|b|c", b"||"], b"|" * trailing_separator
    bad = [b"a|b", b"a|b|c|d", b"", b"\xff|b|c", b"x" * 60 + b"|b|c", b"a\r|b|c"]
    lines = [rng.choice(good if rng.random() < 0.9 else bad) + end for _ in range(400)]
    (tmp_path / "x").write_bytes(b"\n".join(lines) + b"\n")
    accounts, found = [Problems(1), Problems(1)], []
    for problems in accounts:
        file = LineFile(tmp_path / "x", problems, max_line_bytes=50)
        if problems is accounts[0]:
            found.append(
                [
                    (line, cells[2], cells[0])
                    for line, cells in read_rows(file, 3, "|", trailing_separator=trailing_separator)
                ]
            )
        else:
            columns = read_columns(file, 3, "|", (2, 0), trailing_separator=trailing_separator)
            found.append([row for numbers, cells in columns for row in zip(numbers, *cells, strict=True)])
    assert found[0] == found[1]
    assert len(found[0]) > 300
    assert set(accounts[0].bad) == {"column count", "not UTF-8", "longer than 50 bytes"}
    for what in ("bad", "examples", "lines", "rows"):
        assert getattr(accounts[0], what) == getattr(accounts[1], what)
