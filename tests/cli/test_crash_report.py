"""What nobody foresaw: one line, an exit code of its own, and a file that says where, but nothing of what was read."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from medlink.cli.main import main
from medlink.kb import KnowledgeBase

SECRET = "Frau Müller"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's state."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "medlink" / "errors"


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    """Exit code and the one line on standard error."""
    with pytest.raises(SystemExit) as stop:
        main(list(args))
    printed = capsys.readouterr()
    assert printed.out == ""
    line = printed.err.lstrip("\n")  # click ends the line in which ^C stands
    assert line.count("\n") == 1, line
    assert isinstance(stop.value.code, int)
    return stop.value.code, line


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def search(*_: object, **__: object) -> None:
        text = SECRET
        try:
            raise LookupError(text)
        except LookupError:
            raise error from None if isinstance(error, OSError) else ValueError(text)

    monkeypatch.setattr(KnowledgeBase, "search", search)


def test_one_line_and_a_file_without_what_was_read(
    state: Path, demo_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, RuntimeError(f"{SECRET} in /home/anna"))
    code, line = run(capsys, "kb", "search", str(demo_path), SECRET)
    assert code == 70
    (log,) = state.iterdir()
    assert re.match(r"medlink: unforeseen RuntimeError at tests/cli/test_crash_report\.py:\d+\. ", line)
    assert str(log) in line
    said = log.read_text("utf-8")
    assert SECRET not in line + said
    assert "anna" not in line + said
    assert str(demo_path) not in said
    assert "\ncommand: medlink kb search\n" in said
    assert re.search(
        r"^RuntimeError\n  medlink/cli/main\.py:\d+ main\n(  .*\n)+  medlink/cli/kb\.py:\d+ search\n", said, re.M
    )
    assert re.search(r"^caused by ValueError\n", said, re.M)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_the_newest_files_are_kept(
    state: Path, demo_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.mkdir(parents=True)
    for day in range(10, 25):
        (state / f"202001{day}-000000-1.txt").write_text("old")
    (state / "mine.doc").write_text("mine")
    failing(monkeypatch, RecursionError())
    run(capsys, "kb", "search", str(demo_path), "x")
    left = sorted(path.name for path in state.iterdir())
    assert left[:9] == [f"202001{day}-000000-1.txt" for day in range(16, 25)]
    assert len(left) == 11


def test_no_place_for_a_file(
    state: Path, demo_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.parent.mkdir(parents=True)
    state.write_text("a file")
    failing(monkeypatch, OSError(5, SECRET))
    code, line = run(capsys, "kb", "search", str(demo_path), "x")
    assert (code, SECRET in line) == (70, False)
    assert "OSError 5 (EIO) at tests/" in line
    assert "could not be written down: File exists" in line


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (MemoryError(), 70, "medlink: the memory does not suffice: unforeseen MemoryError at "),
        (EOFError(), 70, "medlink: unforeseen EOFError at "),
        (KeyboardInterrupt(), 130, "medlink: interrupted"),
        (SyntaxError("x"), 70, "medlink: unforeseen SyntaxError at "),
    ],
)
@pytest.mark.usefixtures("state")
def test_of_each_kind(
    error: BaseException,
    code: int,
    said: str,
    demo_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing(monkeypatch, error)
    ended, line = run(capsys, "kb", "search", str(demo_path), "x")
    assert ended == code
    assert line.startswith(said)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["show", "KB", "\udcff"], 1, r"an argument is not UTF-8: '\udcff'. Remedy: type it in UTF-8."),
        (["search", "KB", "fever", "--limit", "99999999999999999999"], 2, "is not in the range 1<=x<=1000000"),
        (["show", "KB", "DEMO:0001", "--depth", "99999999999999999999"], 2, "is not in the range 0<=x<=1000"),
    ],
)
def test_what_a_shell_can_hand_over(args: list[str], code: int, said: str, state: Path, demo_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", "from medlink.cli.main import main; main()", "kb", *args]
    command = [str(demo_path) if part == "KB" else part for part in command]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not state.exists()


def test_a_reader_that_goes_away_is_no_error(demo_path: Path, state: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = (
        f'"{sys.executable}" -c "from medlink.cli.main import main; main()" kb search "{demo_path}" e --limit 9000'
    )
    done = subprocess.run(["bash", "-c", f"{command} | true"], capture_output=True, text=True, check=True, env=env)
    assert (done.stderr, state.exists()) == ("", False)
