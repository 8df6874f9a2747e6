"""``medlink link`` on a real terminal, and its page."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import medlink
from medlink.errors import ConfigError
from tests.cli.runner import error_of, json_lines, run
from tests.curation.test_page import Page, data

NOTE = "Hb 7,9 g/dl. Kein Fieber.\nZ.n. Herzinfarkt\x1b[2J, MS."
READABLE = """\
note.txt (de): 4 findings
  [Hb 7,9 g/dl]. Kein [Fieber].
  Z.n. [Herzinfarkt]\\u001b[2J, [MS].
  finding                         concept             preferred name                    score  status
"""


def on_terminal(folder: Path, *words: object) -> tuple[str, str]:
    """What a command prints on a terminal, and to standard error."""
    master, slave = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(medlink.__file__).parents[1])}
    command = [sys.executable, "-m", "medlink", *map(str, words)]
    program = subprocess.Popen(command, cwd=folder, env=environment, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    printed = b""
    try:
        while block := os.read(master, 4096):
            printed += block
    except OSError:
        pass  # the program ended, and the terminal was closed
    os.close(master)
    _, errors = program.communicate()
    assert program.returncode == 0, errors
    return printed.decode().replace("\r\n", "\n"), errors.decode()


@pytest.mark.slow
def test_a_terminal_shows_what_a_pipe_gets_as_json(demo_path: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text(NOTE, "utf-8")
    words = ["link", demo_path, "note.txt", "--language", "de", "--values"]
    printed, errors = on_terminal(tmp_path, *words)
    assert printed.startswith(READABLE)
    lines = printed.removeprefix(READABLE).splitlines()
    assert [line.split()[0] for line in lines if line] == ["Hb", "Fieber", "Herzinfarkt", "MS"]
    ends = ("present, hemoglobin 7.9 g/dl (low)", "absent", "historical", "present")
    assert all(line.endswith(end) for line, end in zip(lines, ends, strict=False))
    assert lines[1].split()[:4] == ["Fieber", "DEMO:0209", "Fieber", lines[1].split()[3]]
    assert errors == "1 note, 4 mentions, 3 linked\n"  # MS alone may be several things
    as_json, _ = on_terminal(tmp_path, *words, "--format", "jsonl")
    (tmp_path / "links.jsonl").write_text(as_json, "utf-8")
    rows = json_lines(tmp_path / "links.jsonl")
    assert [row["text"] for row in rows] == ["Hb 7,9 g/dl", "Fieber", "Herzinfarkt", "MS"]
    to_file, _ = on_terminal(tmp_path, *words, "-o", "o.jsonl")
    assert (to_file, (tmp_path / "o.jsonl").read_text("utf-8")) == ("", as_json)
    run("link", demo_path, tmp_path / "note.txt", "--language", "de", "--values", "-o", tmp_path / "o.txt")
    assert (tmp_path / "o.txt").read_text("utf-8").replace(f"{tmp_path}/", "") == printed


@pytest.mark.parametrize("count", [1, 3])
def test_a_page(count: int, demo_path: Path, tmp_path: Path) -> None:
    notes = [tmp_path / f"{number}.txt" for number in range(count)]
    for path in notes:
        path.write_text("No fever. Asthma.", "utf-8")
    done = run("link", demo_path, *notes, "--page", tmp_path / "x.html", "--language", "en")
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 2 * count
    page = data(Page(tmp_path / "x.html"))
    assert [note[0] for note in page["notes"]] == list(map(str, notes))
    words = [[part[0] for part in note[3] if isinstance(part, list)] for note in page["notes"]]
    assert words == [["fever", "Asthma"]] * count
    assert (tmp_path / "x.html").stat().st_mode & 0o077 == 0


def test_a_page_that_cannot_be_written(demo_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = tmp_path / "n.txt"
    note.write_text("fever", "utf-8")
    for words, message in (
        (["--page", note], "the page is the input"),
        (["--page", tmp_path / "o.jsonl", "-o", tmp_path / "o.jsonl"], "the output and the page are one file"),
        (["--page", tmp_path / "x.html", "-o", tmp_path / "o.jsonl", "--resume"], "with a page cannot be resumed"),
    ):
        with pytest.raises(ConfigError, match=message):
            run("link", demo_path, note, *words)
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
    error_of(capsys, "link", demo_path, tmp_path / "bad.txt", "--page", tmp_path / "x.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.txt", "n.txt"]
