"""A real PostgreSQL as source and target: OMOP's ``note`` in, ``note_nlp`` and rows out, equal to those of files.

Skipped without a server, unless ``MEDLINK_REQUIRE_POSTGRES`` is set.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import ConfigError, InputError
from medlink.notes.database import SqlNotes
from medlink.notes.reading import Fields, Note
from tests.notes import postgres, tricky
from tests.notes.writers.conftest import Run

pytestmark = pytest.mark.slow

NOTE = """
create schema cdm;
create sequence numbers;
create table cdm.note (
    note_id integer not null, person_id integer not null, note_date date not null, note_title varchar(250),
    note_text text not null, language_concept_id integer not null
);
create table cdm.note_nlp (
    note_nlp_id integer not null, note_id integer not null, section_concept_id integer, snippet varchar(250),
    "offset" varchar(50), lexical_variant varchar(250) not null, note_nlp_concept_id integer,
    note_nlp_source_concept_id integer, nlp_system varchar(250), nlp_date date not null, nlp_datetime timestamp,
    term_exists varchar(1), term_temporal varchar(50), term_modifiers varchar(2000)
);
insert into cdm.note_nlp (note_nlp_id, note_id, lexical_variant, nlp_date) values (7, 1, 'of another', '2020-01-01');
"""
QUERY = "select note_id, note_text, case note_title when 'x' then 'fr' else note_title end as language from cdm.note"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server with the tables of OMOP, and the tricky notes in one of them."""
    with postgres.server() as place:
        import psycopg

        with psycopg.connect(place, autocommit=True) as base:
            base.execute(NOTE)
            for id_, text, language in reversed(tricky.NOTES):
                row = (int(id_), language, text)
                base.execute("insert into cdm.note values (%s, 1, '2020-01-01', %s, %s, 0)", row)
        yield place


def rows(address: str, query: str) -> list[Any]:
    import psycopg

    with psycopg.connect(address) as base:
        return base.execute(query).fetchall()


def test_notes_of_a_warehouse(address: str) -> None:
    fields = Fields("note_text", "note_id")
    found = list(SqlNotes(address, query=f"{QUERY}  -- 'a:b'::text\n").notes(fields))
    assert [(one.note_id, one.text, one.language) for one in found] == tricky.NOTES
    assert [one.note_id for one in SqlNotes(address, "cdm.note").notes(fields, skip=7)] == ["8", "9"]


def test_note_and_note_nlp_of_omop(address: str, run: Run, tmp_path: Path) -> None:
    fields, options = Fields("note_text", "note_id"), {"format": "note_nlp", "date": "2026-11-30"}
    report = run(address, SqlNotes(address, query=QUERY), fields=fields, out_table="cdm.note_nlp", **options)
    local = run(f"sqlite:///{tmp_path}/o.db", **options)
    assert (report.notes, report.mentions, report.problems) == (local.notes, local.mentions, [])
    statement = (
        'select {} note_id, "offset", lexical_variant, snippet, term_exists, term_modifiers from {} {} order by 1'
    )
    with closing(sqlite3.connect(tmp_path / "o.db")) as base:
        wanted = base.execute(statement.format("note_nlp_id + 7,", "note_nlp", "")).fetchall()
    assert rows(address, statement.format("note_nlp_id,", "cdm.note_nlp", "where note_nlp_id > 7")) == wanted
    assert rows(address, "select lexical_variant from cdm.note_nlp where note_nlp_id = 7") == [("of another",)]
    with pytest.raises(ConfigError, match="already has this run"):
        run(address, SqlNotes(address, query=QUERY), fields=fields, out_table="cdm.note_nlp", **options)


def test_an_interrupted_run_is_resumed(address: str, run: Run, tmp_path: Path) -> None:
    many = [(f"{n}0{id_}", text, la) for n in range(1, 31) for id_, text, la in tricky.NOTES]
    import psycopg

    with psycopg.connect(address, autocommit=True) as base:
        base.execute("create table many (id text, text text, language text)")
        for row in many:
            base.execute("insert into many values (%s, %s, %s)", row)

    def stop(done: int, whole: int) -> None:
        assert whole == len(many)
        if done > 128:
            raise KeyboardInterrupt

    source = SqlNotes(address, "many")
    with pytest.raises(KeyboardInterrupt):
        run(address, source, progress=stop)
    begun = rows(address, "select count(*) from links")[0][0]
    report = run(address, source, resume=True)
    assert (report.already_done, report.notes) == (128, len(many) - 128)
    run(f"sqlite:///{tmp_path}/o.db", source)
    with closing(sqlite3.connect(tmp_path / "o.db")) as local:
        wanted = local.execute("select * from links order by link_id").fetchall()
    assert 0 < begun < len(wanted)
    assert rows(address, "select * from links order by link_id") == wanted


def test_nul_is_replaced(address: str, run: Run) -> None:
    messages: list[str] = []
    note = Note("1", tricky.NOTES[0][1].replace("today", "to\0ay"))
    run(address, [note], format="note_nlp", date="2026-11-30", out_table="nul", on_message=messages.append)
    assert {"to\ufffday" in snippet for (snippet,) in rows(address, "select snippet from nul")} == {True}
    assert sum("with NUL, which PostgreSQL cannot store" in message for message in messages) == 1


def test_a_query_cannot_write(address: str) -> None:
    for query in (
        "select 1 as id, nextval('numbers') as text",
        "select id, text from gone) as n; delete from cdm.note; --",
        "with gone as (delete from cdm.note returning note_id) select note_id as id, '' as text from gone",
    ):
        with pytest.raises(InputError, match="the notes cannot be read"):
            list(SqlNotes(address, query=query).notes(Fields()))
    assert rows(address, "select count(*) from cdm.note") == [(len(tricky.NOTES),)]


def test_a_second_writer_and_a_wrong_password(address: str, run: Run) -> None:
    def run_twice(done: int, whole: int) -> None:
        with pytest.raises(ConfigError, match="another process is writing the table twice"):
            run(address, out_table="twice")

    run(address, out_table="twice", progress=run_twice)
    with pytest.raises(InputError, match="the notes cannot be read: OperationalError") as refused:
        SqlNotes(address.replace("medlink@", "nobody:kennwort@"), "many").state(Fields())
    assert "kennwort" not in str(refused.value)
