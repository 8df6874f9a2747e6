"""Each reader gives each note to the character, and says of what it cannot read where it is and what helps."""

from __future__ import annotations

import csv
import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from medlink.errors import ConfigError, InputError
from medlink.notes.database import SqlNotes, opened
from medlink.notes.reading import Fields, Note, read_notes
from tests.notes import tricky


def shown(notes: list[Note]) -> list[tuple[str, str, str | None]]:
    assert not [note.problem for note in notes if note.problem]
    return [(note.note_id, note.text, note.language) for note in notes]


def problems(path: Path, **options: str) -> list[tuple[str, str | None]]:
    found = list(read_notes([str(path)], encoding=options.pop("encoding", "utf-8"), fields=Fields(**options)))
    assert all(note.remedy for note in found if note.problem)
    assert not [note for note in found if "Geheimnis" in f"{note.problem}{note.remedy}"]
    return [(note.note_id.rpartition(":")[2], note.problem) for note in found]


@pytest.mark.parametrize("name", tricky.FILES)
def test_a_file_gives_each_note_to_the_character(name: str, tmp_path: Path) -> None:
    tricky.FILES[name](tmp_path / name)
    assert shown(list(read_notes([str(tmp_path / name)]))) == tricky.NOTES
    if name != "n.parquet":
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        assert shown(list(read_notes([str(packed)]))) == tricky.NOTES


def test_a_table_and_a_query_give_each_note_in_the_order_of_the_ids(tmp_path: Path) -> None:
    tricky.write_sqlite(tmp_path / "n.db")
    address = f"sqlite:///{tmp_path}/n.db"
    assert shown(list(SqlNotes(address, "note").notes(Fields()))) == tricky.NOTES
    asked = SqlNotes(address, query="select id as key, text as body, ':x' as c from note where id < 4;")
    fields = Fields("body", "key")
    assert shown(list(asked.notes(fields))) == [(a, b, None) for a, b, _ in tricky.NOTES[:3]]
    assert [note.note_id for note in asked.notes(fields, skip=2)] == ["3"]
    state = asked.state(fields)
    assert (state["rows"], state["first"], state["last"]) == (3, "1", "3")


def test_a_bad_row_of_a_table_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_bytes(
        b'id,text\n1,"fever\nand more"\n2,Geheimnis,too much\n\n"3"x,"Geheimnis"\n4,Geheimnis \xff\n,none\n5,last'
    )
    assert problems(path) == [
        ("1", None),
        ("4", "3 columns, 2 expected"),
        ("6", "broken quoting: ',' expected after '\"'"),
        ("7", "the field 'text' is not UTF-8 at byte 10, see encoding=..."),
        ("8", None),
        ("5", None),
    ]
    assert [note.text for note in read_notes([str(path)], encoding="latin-1")][3] == "Geheimnis ÿ"


def test_what_is_no_id_and_a_separator_for_excel(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    path.write_text('{"id": 1e400, "text": "a"}\n{"id": -Infinity, "text": "a"}\n{"id": 1.5, "text": "a"}\n', "utf-8")
    assert problems(path) == [
        ("1", "JSON that cannot be used: a number is too large"),
        ("2", "the field 'id' is too large a number"),
        ("1.5", None),
    ]
    path = tmp_path / "n.csv"
    for first, mark in (("sep=;", ";"), ("\ufeffsep=|", "|"), ('"sep=\t"', "\t")):
        path.write_text(f"{first}\r\nid{mark}text\r\n1{mark}a, b\r\n2\r\n", "utf-8")
        good, bad = read_notes([str(path)])
        assert (good.note_id, good.text, bad.note_id) == ("1", "a, b", f"{path}:4")


def test_a_long_cell_and_wide_characters(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    text = "fever, \r\n" * 100_000
    path.write_bytes(f'text\r\n"{text}"\r\nFieber\r\n'.encode("utf-16"))
    limit = csv.field_size_limit()
    assert [note.text for note in read_notes([str(path)], encoding="utf-16")] == [text, "Fieber"]
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"id,body\n1,Geheimnis\n", "no column 'text'; found 2 columns"),
        (b"text,text\nGeheimnis,b\n", "the column 'text' is there twice"),
        (b"", "no column 'text'; found no header"),
        (b"PK\x03\x04", "is a spreadsheet or document file, or zipped, and no text"),
    ],
)
def test_a_table_that_is_none(content: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_bytes(content)
    assert [said for _, said in problems(tmp_path / "n.csv")] == [problem]


def test_a_table_of_one_column_with_a_header_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("text", encoding="utf-8")
    assert problems(tmp_path / "n.csv") == []


def test_parquet_that_cannot_be_read(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "n.parquet"
    path.write_bytes(b"PAR1 Geheimnis")
    assert [said for _, said in problems(path)] == ["is no Parquet file, or is damaged (ArrowInvalid)"]
    pq.write_table(pa.table({"text": pa.array(["a", None]), "id": [[1], [2]]}), path)
    assert [said for _, said in problems(path)] == [
        "the field 'id' is no text and no number",
        "no field 'text' with a text",
    ]
    assert [said for _, said in problems(path, text="body")] == ["no column 'body'; found 2 columns"]
    pq.write_table(pa.table({"text": pa.array(["a"]), "id": [float("nan")]}), path)
    assert problems(path) == [("1", None)]


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ({"table": "nota"}, "no table 'nota'; the tables are: note. Remedy: name one of them"),
        ({"query": "select 1 as id, 'x' as body"}, "no column 'text'; the columns are: body, id. Remedy: name the col"),
        ({"query": "selec 1"}, "the notes cannot be read: OperationalError SQLITE_ERROR: near"),
        ({"table": "missing.note"}, "no such table: missing"),
    ],
)
def test_a_table_that_cannot_be_read(notes: dict[str, str], message: str, tmp_path: Path) -> None:
    tricky.write_sqlite(tmp_path / "n.db")
    with pytest.raises(InputError) as caught:
        SqlNotes(f"sqlite:///{tmp_path}/n.db", **notes).state(Fields())
    assert message in str(caught.value)
    assert caught.value.remedy


def test_addresses_that_are_none_and_passwords(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the address of the database cannot be read") as caught:
        SqlNotes("geheim:kennwort", "note")
    assert "kennwort" not in str(caught.value)
    with pytest.raises(ConfigError, match="needs a table or a query, and not both"):
        SqlNotes("sqlite:///a.db", "note", "select 1")
    with pytest.raises(InputError, match="no such file"):
        SqlNotes(f"sqlite:///{tmp_path}/no.db", "note").state(Fields())
    assert not (tmp_path / "no.db").exists()
    tricky.write_sqlite(tmp_path / "n.db")
    with pytest.raises(ConfigError, match="the address of the database cannot be used") as caught:
        SqlNotes(f"sqlite:///{tmp_path}/n.db?password=kennwort", "note").state(Fields())
    assert "kennwort" not in str(caught.value)
    with pytest.raises(ConfigError, match="SQLAlchemy knows no database 'nosuch'"):
        SqlNotes("nosuch://u:kennwort@h/d", "note").state(Fields())
    source = SqlNotes("postgresql://u:kennwort@127.0.0.1:1/d?password=kennwort", "note")
    assert "kennwort" not in repr(source) + source.place
    pytest.importorskip("psycopg")
    with pytest.raises(InputError, match="the notes cannot be read") as refused:
        source.state(Fields())
    assert "kennwort" not in str(refused.value)


def test_rows_without_an_id_or_text(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "n.db")) as base, base:
        base.execute("create table note (id text, text text)")
        base.executemany("insert into note values (?, ?)", [("b", None), (None, "fever"), ("a", "x"), ("a", "w")])
    found = list(SqlNotes(f"sqlite:///{tmp_path}/n.db", "note").notes(Fields()))
    assert [(note.note_id, note.text) for note in found] == [
        ("note:1", "fever"),
        ("a", "w"),
        ("a", "x"),
        ("note:4", ""),
    ]
    assert found[3].problem == "no field 'text' with a text"


def test_a_query_does_not_write(tmp_path: Path) -> None:
    tricky.write_sqlite(tmp_path / "n.db")
    address = f"sqlite:///{tmp_path}/n.db"
    before = (tmp_path / "n.db").read_bytes()
    for query in ("delete from note returning id, text", "select id, text from note) as n; delete from note; --"):
        with pytest.raises(InputError, match="the notes cannot be read"):
            SqlNotes(address, query=query).state(Fields())
    with (
        opened(address, reading=True) as engine,
        engine.connect() as connection,
        pytest.raises(DBAPIError, match="readonly"),
    ):
        connection.exec_driver_sql("delete from note")
    assert (tmp_path / "n.db").read_bytes() == before


@pytest.mark.parametrize("address", ["sqlite://u:kennwort@host/db", "sqlite:///n.db?timeout=kennwort"])
def test_addresses_that_no_database_has(address: str) -> None:
    with pytest.raises(ConfigError, match="the address of the database cannot be used") as caught, opened(address):
        pass
    assert "kennwort" not in str(caught.value)
    assert caught.value.remedy
