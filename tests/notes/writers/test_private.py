"""A marker word of notes is in the outputs that hold notes, and nowhere else."""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from medlink.cli.main import app
from medlink.errors import MedlinkError
from medlink.notes.writers.rows import COLUMNS

MARKER = "Quartermainitis"


@pytest.mark.slow
def test_notes_do_not_leak(
    demo_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.chdir(tmp_path)
    text = f"{MARKER} and fever. Family: {MARKER}\nBad {MARKER}"
    Path("n.csv").write_text(
        f'id,text,language\n1,"{text}",en\n2,{MARKER},en\n3,"a"{MARKER}\n4,{MARKER},en,{MARKER}\n', encoding="utf-8"
    )
    with closing(sqlite3.connect("n.db")) as base, base:
        base.execute("create table note (id text, text text)")
        base.executemany("insert into note values (?, ?)", [("1", text), (MARKER, MARKER)])
    inputs = {"n.csv": ["n.csv"], "n.db": ["--sql", "sqlite:///n.db", "--table", "note", "--language", "en"]}
    printed = ""
    for number, (given, words) in enumerate(inputs.items()):
        out = ["sqlite:///o.db", "o.parquet"][number]
        # unreadable notes are named by file and line
        result = CliRunner().invoke(app, ["link", str(demo_path), *words, "-o", out, "--failures", f"{number}.jsonl"])
        assert result.exit_code in (0, 3), result.output
        assert given == "n.db" or result.exit_code == 3
        printed += result.output + result.stderr
    assert "4 columns, 3 expected" in printed
    # errors of the database do not quote rows
    with closing(sqlite3.connect("full.db")) as base, base:
        base.execute("create table o (link_id integer primary key, x text check (x is not null))")
        for column in COLUMNS:
            check = "check (text = 'x')" if column == "text" else ""
            base.execute(f'alter table o add column "{column}" text {check}')
    words = ["link", str(demo_path), "n.csv", "-o", "sqlite:///full.db", "--out-table", "o"]
    with pytest.raises(MedlinkError, match="SQLITE_CONSTRAINT") as refused:
        CliRunner().invoke(app, words, catch_exceptions=False)
    printed += f"{refused.value}{refused.value.remedy}" + caplog.text
    printed += "".join(Path(f"{number}.jsonl").read_text("utf-8") for number in range(2))
    assert MARKER not in printed
    for folder in (temporary, Path(os.environ["XDG_CACHE_HOME"])):
        assert not [path for path in folder.rglob("*") if path.is_file() and MARKER.encode() in path.read_bytes()]
