"""A run that is killed at any call and resumed leaves the same bytes as an unbroken run.

With ``MEDLINK_FAULTS=full`` each format is killed 50 times, else three formats a few times. The killed process is
forked from this one, and counts its calls of Python and C functions.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from medlink.errors import ConfigError
from medlink.notes.database import SqlNotes
from medlink.notes.writers.base import Failures, TextWriter
from medlink.notes.writers.sql import SqlWriter
from tests.faults.faults import FULL
from tests.notes import tricky
from tests.notes.writers.conftest import Run

pytestmark = pytest.mark.slow

KILLS = 50 if FULL else 1
TIMES = 16
"""Repetitions of the tricky notes, enough for several commits."""
FORMATS = {
    "jsonl": "o.jsonl", "csv": "o.csv", "parquet": "o.parquet", "fhir": "o.fhir.ndjson", "note_nlp": "o.csv",
    "brat": "o", "docbin": "o", "table": "sqlite:///{}/o.db", "table, note_nlp": "sqlite:///{}/o.db",
}  # fmt: skip


def content(folder: Path) -> dict[str, Any]:
    """The files of a folder, and the rows of databases."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.suffix == ".db":
            with closing(sqlite3.connect(path)) as base:
                found[path.name] = list(base.iterdump())
        else:
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def calls(work: Callable[[], object], kill_at: int = 0) -> int:
    """Count the calls of something, and kill this process at one of them."""
    number = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")
        if number == kill_at != 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return number


def forked(work: Callable[[], object], kill_at: int) -> int:
    """Run something in a forked process and kill it at a call; return the signal that ended it, 0 for none."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] & 0x7F
    try:
        calls(work, kill_at)
        os._exit(0)
    finally:
        os._exit(1)


@pytest.fixture
def linked(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that links notes, one of them unreadable, into a folder in a format."""
    monkeypatch.setattr("medlink.notes.writers.folders.SHARD", 64)
    rows = [(f"{n}0{id_}", text, la) for n in range(1, TIMES + 1) for id_, text, la in tricky.NOTES]
    with closing(sqlite3.connect(tmp_path / "n.db")) as base, base:
        base.execute("create table note (id integer, text text, language text)")
        base.executemany("insert into note values (?, ?, ?)", [(0, None, "en"), *rows, (10**9, None, "en")])
    source = SqlNotes(f"sqlite:///{tmp_path}/n.db", "note")

    def link(name: str, folder: Path, **more: Any) -> None:
        format_ = name.rpartition(" ")[2]
        options = {} if format_ == "table" else {"format": format_}
        options |= {"date": "2026-11-30"} if format_ == "note_nlp" else {}
        folder.mkdir(exist_ok=True)
        place = FORMATS[name].format(folder) if "://" in FORMATS[name] else str(folder / FORMATS[name])
        run(place, source, failures=folder / "failures.jsonl", on_message=str, **options, **more)

    return link


@pytest.mark.parametrize("name", FORMATS if FULL else ["csv", "brat", "table"])
def test_killed_and_resumed(name: str, linked: Callable[..., None], tmp_path: Path) -> None:
    out, whole, link = tmp_path / "out", tmp_path / "whole", partial(linked, name)
    link(whole)  # import lazy_getattr loaded modules
    shutil.rmtree(whole)
    number = calls(lambda: link(whole))
    wanted = content(whole)
    assert len(wanted["failures.jsonl"].splitlines()) == 2
    draw, begun = random.Random(name), 0
    for _ in range(KILLS):
        shutil.rmtree(out, ignore_errors=True)
        assert forked(lambda: link(out), draw.randint(1, number - 1)) in (signal.SIGKILL, 0)
        begun += not out.exists() or content(out) != wanted
        # kill the resumed run, too
        forked(lambda: link(out, resume=True), draw.randint(1, number - 1))
        # a table already has the run, a file is written again
        with suppress(ConfigError):
            link(out, resume=True)
        assert content(out) == wanted
    assert begun


@pytest.mark.parametrize(("name", "writer"), [("csv", TextWriter), ("table", SqlWriter)])
def test_killed_after_the_failures_are_complete(
    name: str, writer: Any, linked: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    linked(name, whole)
    close = writer.close

    def killed(self: Any, error: BaseException | None = None) -> None:
        if not isinstance(self, Failures):
            os.kill(os.getpid(), signal.SIGKILL)
        close(self, error)

    with monkeypatch.context() as patched:
        patched.setattr(writer, "close", killed)
        assert forked(lambda: linked(name, out), 0) == signal.SIGKILL
    assert len((out / "failures.jsonl").read_text().splitlines()) == 2
    with monkeypatch.context() as patched:
        patched.setattr(Failures, "rewind", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        assert forked(lambda: linked(name, out, resume=True), 0) == signal.SIGKILL
    linked(name, out, resume=True)
    assert content(out) == content(whole)


def test_killed_before_the_state_is_gone(
    linked: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    linked("jsonl", whole)

    def killed(self: Any, part: Path) -> None:
        part.unlink(missing_ok=True)
        if not isinstance(self, Failures):
            os.kill(os.getpid(), signal.SIGKILL)
        self._state.unlink()

    with monkeypatch.context() as patched:
        patched.setattr(TextWriter, "_drop", killed)
        assert forked(lambda: linked("jsonl", out), 0) == signal.SIGKILL
    assert (out / "o.jsonl.part.json").exists()
    linked("jsonl", out, resume=True)
    assert content(out) == content(whole)
