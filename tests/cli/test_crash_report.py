"""Unexpected errors: one line, exit code 70, and a file that names places in the code but no text that was read."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from medlink.kb import KnowledgeBase

from .runner import error_of

SECRET = "Frau Müller"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's state."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "medlink" / "errors"


def search(capsys: pytest.CaptureFixture[str], bundle: Path, text: str = "x", exit_code: int = 70) -> str:
    """The one line on standard error of a search that fails."""
    line = error_of(capsys, "kb", "search", bundle, text, exit_code=exit_code).lstrip("\n")  # click ends the line of ^C
    assert line.count("\n") == 1, line
    return line


def fail_in_search(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let a search raise an error that was caused by one with a secret in it."""

    def search(*_: object, **__: object) -> None:
        text = SECRET
        try:
            raise LookupError(text)
        except LookupError:
            raise error from None if isinstance(error, OSError) else ValueError(text)

    monkeypatch.setattr(KnowledgeBase, "search", search)


def test_the_report_has_no_text_that_was_read(
    state: Path, demo_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_in_search(monkeypatch, RuntimeError(f"{SECRET} in /home/anna"))
    line = search(capsys, demo_path, SECRET)
    (log,) = state.iterdir()
    assert re.match(r"medlink: unexpected RuntimeError at tests/cli/test_crash_report\.py:\d+\. ", line)
    assert str(log) in line
    report = log.read_text("utf-8")
    assert not re.search(f"{SECRET}|anna|{demo_path}", line + report)
    assert "\ncommand: medlink kb search\n" in report
    assert re.search(
        r"^RuntimeError\n  medlink/cli/main\.py:\d+ main\n(  .*\n)+  medlink/cli/kb\.py:\d+ search\n", report, re.M
    )
    assert re.search(r"^caused by ValueError\n", report, re.M)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_only_the_newest_reports_stay(
    state: Path, demo_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.mkdir(parents=True)
    for day in range(10, 25):
        (state / f"202001{day}-000000-1.txt").write_text("old")
    (state / "mine.doc").write_text("mine")
    fail_in_search(monkeypatch, RecursionError())
    search(capsys, demo_path)
    left = sorted(path.name for path in state.iterdir())
    assert left[:9] == [f"202001{day}-000000-1.txt" for day in range(16, 25)]
    assert len(left) == 11


def test_a_report_that_cannot_be_written(
    state: Path, demo_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.parent.mkdir(parents=True)
    state.write_text("a file")
    fail_in_search(monkeypatch, OSError(5, SECRET))
    line = search(capsys, demo_path)
    assert SECRET not in line
    assert "OSError 5 (EIO) at tests/" in line
    assert "The report cannot be written: File exists" in line


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MemoryError(), 70, "medlink: out of memory: unexpected MemoryError at "),
        (EOFError(), 70, "medlink: unexpected EOFError at "),
        (KeyboardInterrupt(), 130, "medlink: interrupted"),
        (SyntaxError("x"), 70, "medlink: unexpected SyntaxError at "),
    ],
)
@pytest.mark.usefixtures("state")
def test_kinds_of_errors(
    error: BaseException, code: int, message: str, demo_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    fail_in_search(monkeypatch, error)
    assert search(capsys, demo_path, exit_code=code).startswith(message)


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run ``medlink kb`` in a shell."""
    call = f'"{sys.executable}" -c "from medlink.cli.main import main; main()" kb {command}'
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(["bash", "-c", call], capture_output=True, text=True, check=False, env=env)


@pytest.mark.slow
def test_a_shell_may_pass_bytes_and_close_the_pipe(demo_path: Path, state: Path) -> None:
    done = shell(f"show {demo_path} $'\\xff'")
    assert (done.returncode, done.stderr) == (
        1, "medlink: an argument is not UTF-8: '\\udcff'. Remedy: type it in UTF-8.\n",
    )  # fmt: skip
    done = shell(f"search {demo_path} e --limit 9000 | true")
    assert (done.returncode, done.stderr) == (0, "")
    assert not state.exists()
