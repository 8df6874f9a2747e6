"""Readers yield each note character by character, and report unreadable notes with location and remedy."""

from __future__ import annotations

import csv
import gzip
import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from medlink.errors import ConfigError, InputError
from medlink.notes.database import SqlNotes, open_database
from medlink.notes.reading import Fields, Note, read_notes
from tests.notes import tricky


def rows(notes: list[Note]) -> list[tuple[str, str, str | None]]:
    assert not [note.problem for note in notes if note.problem]
    return [(note.note_id, note.text, note.language) for note in notes]


def problems(path: Path, **fields: str) -> list[tuple[str, str]]:
    found = list(read_notes([str(path)], fields=Fields(**fields)))
    assert all(note.remedy for note in found if note.problem)
    assert not [note for note in found if "Geheimnis" in f"{note.problem}{note.remedy}"]
    return [(note.note_id.rpartition(":")[2], note.problem or "") for note in found]


@pytest.mark.parametrize("name", tricky.FILES)
def test_a_file(name: str, tmp_path: Path) -> None:
    tricky.FILES[name](tmp_path / name)
    assert rows(list(read_notes([str(tmp_path / name)]))) == tricky.NOTES
    if name != "n.parquet":
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        assert rows(list(read_notes([str(packed)]))) == tricky.NOTES


def test_a_table_and_a_query_are_ordered_by_id(tmp_path: Path) -> None:
    tricky.write_sqlite(tmp_path / "n.db")
    address = f"sqlite:///{tmp_path}/n.db"
    assert rows(list(SqlNotes(address, "note").notes(Fields()))) == tricky.NOTES
    query = SqlNotes(address, query="select id as key, text as body, ':x' as c from note where id < 4;")
    fields = Fields("body", "key")
    assert rows(list(query.notes(fields))) == [(a, b, None) for a, b, _ in tricky.NOTES[:3]]
    assert [note.note_id for note in query.notes(fields, skip=2)] == ["3"]
    state = query.state(fields)
    assert (state["rows"], state["first"], state["last"]) == (3, "1", "3")
    with closing(sqlite3.connect(tmp_path / "o.db")) as base, base:
        base.execute("create table note (id text, text text)")
        base.executemany("insert into note values (?, ?)", [("b", None), (None, "fever"), ("a", "x"), ("a", "w")])
    found = list(SqlNotes(f"sqlite:///{tmp_path}/o.db", "note").notes(Fields()))
    assert [(note.note_id, note.text) for note in found] == [
        ("note:1", "fever"), ("a", "w"), ("a", "x"), ("b", ""),
    ]  # fmt: skip
    assert found[3].location == "note:4"
    assert "no field 'text'" in str(found[3].problem)


def test_bad_rows_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_bytes(
        b'id,text\n1,"fever\nand more"\n2,Geheimnis,too much\n\n"3"x,"Geheimnis"\n4,Geheimnis \xff\n,none\n5,last'
    )
    expected = [
        ("1", ""), ("4", "3 columns, 2 expected"), ("6", "broken quoting"), ("7", "is not UTF-8 at byte 10"), ("8", ""),
        ("5", ""),
    ]  # fmt: skip
    found = problems(path)
    assert [location for location, _ in found] == [location for location, _ in expected]
    assert all(part in problem for (_, problem), (_, part) in zip(found, expected, strict=True))
    assert [note.text for note in read_notes([str(path)], encoding="latin-1")][3] == "Geheimnis ÿ"


def test_the_date_of_a_note(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    day, fields = date(2003, 11, 30), Fields(date="day")
    (tmp_path / "n.csv").write_text("id,text,day\n1,a,2003-11-30\n2,b,\n3,c,Herbst\n", "utf-8")
    rows = [
        '{"text": "a", "day": "2003-11-30T08:15:00Z"}',
        '{"text": "b", "day": 20031130}',
        '{"text": "c", "day": true, "id": "n3"}',
        '{"text": "d", "day": " ", "id": "", "language": ""}',
    ]
    (tmp_path / "n.jsonl").write_text("\n".join(rows), "utf-8")
    pq.write_table(pa.table({"text": ["a", "b"], "day": pa.array([day.isoformat(), ""])}), tmp_path / "n.parquet")
    with closing(sqlite3.connect(tmp_path / "n.db")) as base, base:
        base.execute("create table note (id integer, text text, day date)")
        base.execute("insert into note values (1, 'a', '2003-11-30'), (2, 'b', '')")
    read = [list(read_notes([str(tmp_path / f"n.{kind}")], fields)) for kind in ("csv", "jsonl", "parquet")]
    read.append(list(SqlNotes(f"sqlite:///{tmp_path}/n.db", "note").notes(fields)))
    assert [[note.date for note in notes] for notes in read] == [
        [day, None, None],
        [day, day, None, None],
        [day, None],
        [day, None],
    ]
    failed = [note.note_id.rpartition("/")[2] for notes in read for note in notes if note.problem]
    assert failed == ["3", "n3"]
    assert (read[1][3].note_id, read[1][3].language) == (f"{tmp_path}/n.jsonl:4", None)
    assert [note.problem for notes in read for note in notes if note.problem] == ["the field 'day' is not a date"] * 2
    assert all(note.date is None for note in read_notes([str(tmp_path / "n.csv")]))
    with pytest.raises(InputError, match="no column 'when'"):
        list(SqlNotes(f"sqlite:///{tmp_path}/n.db", "note").notes(Fields(date="when")))


def test_ids_and_a_separator_for_excel(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    path.write_text('{"id": 1e400, "text": "a"}\n{"id": -Infinity, "text": "a"}\n{"id": 1.5, "text": "a"}\n', "utf-8")
    assert [(location, "too large" in problem) for location, problem in problems(path)] == [
        ("1", True), ("2", True), ("1.5", False),
    ]  # fmt: skip
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


@pytest.mark.parametrize("mark", [",", ";", "|", "\t"])
def test_each_separator(mark: str, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(f"id{mark}text{mark}ward\n1{mark}fever{mark}A\n", "utf-8")
    assert [(note.note_id, note.text) for note in read_notes([str(tmp_path / "n.csv")])] == [("1", "fever")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"id,body\n1,Geheimnis\n", "no column 'text'; found 2 columns"),
        (b"text,text\nGeheimnis,b\n", "duplicate column 'text'"),
        (b"", "no column 'text'"),
        (b"PK\x03\x04", "zip file"),
        (b"text", None),
    ],
)
def test_an_invalid_table(content: bytes, problem: str | None, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_bytes(content)
    found = problems(tmp_path / "n.csv")
    assert len(found) == (problem is not None)
    assert not problem or problem in found[0][1]


def test_unreadable_parquet(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "n.parquet"
    path.write_bytes(b"PAR1 Geheimnis")
    assert "not a Parquet file, or damaged (ArrowInvalid)" in problems(path)[0][1]
    pq.write_table(pa.table({"text": pa.array(["a", None]), "id": [[1], None]}), path)
    bad_id, no_text = problems(path)
    assert "'id' is neither text nor a number" in bad_id[1]
    assert "no field 'text'" in no_text[1]
    assert problems(path, text="body")[0][1] == "no column 'body'; found 2 columns: text, id"
    pq.write_table(pa.table({"text": pa.array(["a"]), "id": [float("nan")]}), path)
    assert problems(path) == [("1", "")]


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ({"table": "nota"}, "no table 'nota'; the tables are: note"),
        ({"query": "select 1 as id, 'x' as body"}, "no column 'text'; the columns are: body, id"),
        (
            {"query": "selec 1"},
            "the notes cannot be read: OperationalError SQLITE_ERROR: near.*Remedy: check the table or the query",
        ),
        ({"table": "missing.note"}, "no such table: missing"),
    ],
)
def test_an_unreadable_table(notes: dict[str, str], message: str, tmp_path: Path) -> None:
    tricky.write_sqlite(tmp_path / "n.db")
    with pytest.raises(InputError, match=message) as caught:
        SqlNotes(f"sqlite:///{tmp_path}/n.db", **notes).state(Fields())
    assert caught.value.remedy


@pytest.mark.slow
def test_invalid_addresses_and_passwords(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a table or a query, and not both"):
        SqlNotes("sqlite:///a.db", "note", "select 1")
    with pytest.raises(InputError, match="no such file"):
        SqlNotes(f"sqlite:///{tmp_path}/no.db", "note").state(Fields())
    assert not (tmp_path / "no.db").exists()
    tricky.write_sqlite(tmp_path / "n.db")
    for address, message in (
        ("geheim:kennwort", "the address of the database cannot be read"),
        (f"sqlite:///{tmp_path}/n.db?password=kennwort", "the address of the database cannot be used"),
        *(
            (
                f"{kind}://u:kennwort@h/d",
                "medlink has no driver for .*, only for sqlite and postgresql.*write it as sqlite:///",
            )
            for kind in ("nosuch", "mysql", "postgresql+nosuch", "postgresql+asyncpg")
        ),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            SqlNotes(address, "note").state(Fields())
        assert "kennwort" not in str(caught.value)
    for address in ("sqlite://u:kennwort@host/db", "sqlite:///n.db?timeout=kennwort"):
        with pytest.raises(ConfigError, match="the address of the database cannot be used") as caught:
            open_database(address).__enter__()
        assert "kennwort" not in str(caught.value)
    source = SqlNotes("postgresql://u:kennwort@127.0.0.1:1/d?password=kennwort", "note")
    assert "kennwort" not in repr(source) + source.redacted_address
    pytest.importorskip("psycopg")
    with pytest.raises(InputError, match="the notes cannot be read") as refused:
        source.state(Fields())
    assert "kennwort" not in str(refused.value)


def test_a_query_cannot_write(tmp_path: Path) -> None:
    tricky.write_sqlite(tmp_path / "n.db")
    address = f"sqlite:///{tmp_path}/n.db"
    before = (tmp_path / "n.db").read_bytes()
    for query in ("delete from note returning id, text", "select id, text from note) as n; delete from note; --"):
        with pytest.raises(InputError, match="the notes cannot be read"):
            SqlNotes(address, query=query).state(Fields())
    with (
        open_database(address, reading=True) as engine,
        engine.connect() as connection,
        pytest.raises(DBAPIError, match="readonly"),
    ):
        connection.exec_driver_sql("delete from note")
    assert (tmp_path / "n.db").read_bytes() == before


@pytest.mark.parametrize(
    ("written", "language", "day", "problem"),
    [
        ("12.03.2026", None, date(2026, 3, 12), None),
        ("1.2.2025 08:15", "en", date(2025, 2, 1), None),
        ("30/11/2003", None, date(2003, 11, 30), None),
        ("3/12/2003", "es", date(2003, 12, 3), None),
        ("03/12/2003 10:00:00", "de-AT", date(2003, 12, 3), None),
        ("03/12/2003", "en-US", None, "the field 'day' may have the month first"),
        ("03/12/2003", None, None, "the field 'day' may have the month first"),
        ("11/30/2003", "es", None, "the field 'day' has the month first"),
        ("31.02.2003", None, None, "the field 'day' is not a date"),
        ("30.11.03", None, None, "the field 'day' is not a date"),
    ],
)
def test_days_of_german_and_spanish_tables(
    written: str, language: str | None, day: date | None, problem: str | None, tmp_path: Path
) -> None:
    (tmp_path / "n.csv").write_text(f"text;day;language\na;{written};{language or ''}\n", "utf-8")
    (note,) = read_notes([str(tmp_path / "n.csv")], Fields(date="day"))
    assert (note.date, note.problem) == (day, problem)
    if problem:
        assert note.remedy == "write it as 2026-11-30 or 30.11.2026, or leave it empty"
    if problem == "the field 'day' may have the month first" and language is None:
        (note,) = read_notes([str(tmp_path / "n.csv")], Fields(date="day", day_first=True))
        assert note.date == date(2003, 12, 3)
