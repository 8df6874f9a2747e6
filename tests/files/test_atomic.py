"""Atomic file output: modes, links, errors, killed processes, and checks of output paths."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from medlink.errors import ConfigError
from medlink.files.atomic import atomic_text_writer, check_output_paths, replace_atomically
from medlink.files.folders import locked

FULL = Path("/dev/full")


def write(path: Path, text: str = "new") -> None:
    with atomic_text_writer(path) as file:
        file.write(text)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_modes_are_those_of_the_umask_or_of_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "old").chmod(0o600)
    before = os.umask(0o027)
    try:
        write(tmp_path / "new", "Größe\r\n")
        write(tmp_path / "old")
    finally:
        os.umask(before)
    assert (tmp_path / "new").read_bytes() == "Größe\r\n".encode()
    assert (mode(tmp_path / "new"), mode(tmp_path / "old")) == (0o640, 0o600)
    assert (tmp_path / "old").read_text() == "new"
    assert names(tmp_path) == ["new", "old"]


def test_private_files(tmp_path: Path) -> None:
    """Unless the user made the file."""
    (tmp_path / "mine").touch(0o640)
    (tmp_path / "mine").chmod(0o640)
    (tmp_path / "draft").write_text("x")
    for name in ("new", "mine"):
        with atomic_text_writer(tmp_path / name, private=True) as file:
            file.write("note")
    replace_atomically(tmp_path / "draft", tmp_path / "placed", private=True)
    with locked(tmp_path / "part", private=True):
        assert mode(tmp_path / "part") == 0o600
    assert [mode(tmp_path / name) for name in ("new", "mine", "placed")] == [0o600, 0o640, 0o600]


def test_symlink_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "folder" / "real", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to(target)
    for text in ("first", "second"):
        write(link, text)
        assert (link.is_symlink(), target.read_text(), names(target.parent)) == (True, text, ["real"])


@pytest.mark.parametrize("error", [OSError(28, "No space left"), KeyboardInterrupt(), ValueError("x")])
def test_error_keeps_old_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def fail() -> None:
        with atomic_text_writer(path) as file:
            file.write("half")
            raise error

    with pytest.raises(ConfigError if isinstance(error, OSError) else type(error)):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_errors_of_every_step(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, step, lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(ConfigError) as caught:
        write(tmp_path / "a")
    assert str(caught.value).startswith(f"{tmp_path}/a: the output cannot be written: Input/output error. Remedy: ")
    assert list(tmp_path.iterdir()) == []


KILLED = """
import sys, time
from medlink.files.atomic import atomic_writer
with atomic_writer(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("half", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_drafts_of_killed_processes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        (left,) = tmp_path.iterdir()
        assert ((left / "draft").read_text(), mode(left)) == ("half", 0o700)
        write(path, "one")
        assert (left / "draft").exists()  # it is in use
        process.kill()
    write(tmp_path / "b")
    assert left.exists()  # it is of another file
    (tmp_path / "link").symlink_to(path)
    write(tmp_path / "link")
    assert (names(tmp_path), path.read_text()) == (["a", "b", "link"], "new")
    left.write_text("mine")  # a file that is called as a draft
    write(path)
    assert left.read_text() == "mine"


@pytest.mark.slow
def test_many_writers(tmp_path: Path) -> None:
    """No draft is removed as abandoned between its creation and its lock."""
    failed: list[ConfigError] = []

    def work(text: str) -> None:
        for _ in range(40):
            try:
                write(tmp_path / "a", text)
            except ConfigError as error:
                failed.append(error)

    threads = [threading.Thread(target=work, args=(text * 1000,)) for text in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not failed
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() in {text * 1000 for text in "xyz"}


def test_unwritable_paths(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none" / "a", tmp_path / "file" / "a", tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(ConfigError, match=r"the output cannot be written: .*Remedy: name a file in a folder"):
            write(path)
    assert names(tmp_path) == ["file"]


def test_devices_and_fifos(tmp_path: Path) -> None:
    write(Path(os.devnull))
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    if FULL.exists():
        with pytest.raises(ConfigError, match="/dev/full: the output cannot be written: No space left"):
            write(FULL)
    os.mkfifo(tmp_path / "fifo")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "fifo").read_text()))
    reader.start()
    write(tmp_path / "fifo")
    reader.join(timeout=30)
    assert (read, stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)) == (["new"], True)


def test_surrogates(tmp_path: Path) -> None:
    with atomic_text_writer(tmp_path / "a", errors="replace") as file:
        file.write("a\ud800")
    assert (tmp_path / "a").read_text() == "a?"
    with pytest.raises(UnicodeEncodeError), atomic_text_writer(tmp_path / "b") as file:
        file.write("a\ud800")
    assert names(tmp_path) == ["a"]


PRINT = """
from medlink.cli.main import main
from medlink.cli import main as module
import click
from medlink.files.atomic import standard_output
@click.command()
def printing():
    with standard_output("name a file with -o") as file:
        for number in range(100_000):
            file.write("a line of it\\n")
module.app = printing
main([])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "message"),
    [
        ("> /dev/full", "medlink: standard output cannot be written: No space left on device. Remedy: name a file"),
        ("| head -n 1", ""),
        (">&-", "medlink: standard output is closed. Remedy: name a file with -o.\n"),
    ],
)
def test_unwritable_standard_output(shell: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(PRINT)
    command = ["bash", "-c", f'"{sys.executable}" run.py {shell}']
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert result.stderr.startswith(message)
    assert len(result.stderr.splitlines()) == bool(message)


def test_valid_output_paths(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("")
    check_output_paths({"the output": tmp_path / "out", "the page": None}, [tmp_path / "in", tmp_path / "none", -1])
    check_output_paths({"the output": "None", "the page": os.devnull, "the plot": os.devnull}, ["builtin", os.devnull])
    assert names(tmp_path) == ["in"]  # nothing is written


def test_invalid_output_paths(tmp_path: Path) -> None:
    given, other = tmp_path / "in", tmp_path / "other"
    given.write_text("")
    other.hardlink_to(given)
    (tmp_path / "link").symlink_to(given)
    (tmp_path / "folder").mkdir()
    out = tmp_path / "out"
    file = given.open()
    for targets, inputs, message in (
        ({"the output": tmp_path}, [], f"{tmp_path}: the output is a folder. Remedy: name a file."),
        ({"the output": tmp_path / "none" / "a"}, [], "the folder of the output does not exist. Remedy: make it, or"),
        ({"the output": given / "a"}, [], "the folder of the output does not exist"),
        ({"the output": tmp_path / ("x" * 300)}, [], "the output cannot be written: File name too long. Remedy: name"),
        *(
            ({"the output": path}, [given], f"{path}: the output is the input. Remedy: name another file.")
            for path in (given, other, tmp_path / "link", tmp_path / "folder" / ".." / "in")
        ),
        ({"the output": given}, [file.fileno()], "the output is the input"),
        ({"the output": out}, [out], "the output is the input"),
        (
            {"the output": tmp_path / "folder" / "kb.sqlite"}, [tmp_path / "folder"],
            "the output is in a folder that is read. Remedy: name a file elsewhere.",
        ),
        ({"the table": out, "the plot": out}, [], "the plot and the table are one file. Remedy: name another file."),
    ):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            check_output_paths(targets, inputs)
        assert message in str(caught.value)
    file.close()
