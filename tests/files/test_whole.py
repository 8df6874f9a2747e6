"""Files that appear whole: what stays, what is replaced, what is refused, and that nothing is left behind."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from medlink.errors import ConfigError
from medlink.files.whole import check_targets, put_in_place, standard_output, whole_file, whole_text

FULL = Path("/dev/full")


def write(path: Path, text: str = "new") -> None:
    with whole_text(path) as file:
        file.write(text)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "a", "Größe\r\n")
    finally:
        os.umask(before)
    assert (tmp_path / "a").read_bytes() == "Größe\r\n".encode()
    assert mode(tmp_path / "a") == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_old_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o600)
    write(tmp_path / "a")
    assert ((tmp_path / "a").read_text(), mode(tmp_path / "a")) == ("new", 0o600)


def test_a_link_stays(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "real"
    for content in ("none yet", "old"):
        if content == "old":
            target.write_text(content)
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(target)
        write(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert target.read_text() == "new"


def test_a_file_beside_it_is_left_alone(tmp_path: Path) -> None:
    beside = [tmp_path / f"{before}a{after}" for before, after in (("", ".part"), (".", ".draft"), ("", "~"))]
    for path in beside:
        path.write_text("mine")
    write(tmp_path / "a")
    assert {path.read_text() for path in beside} == {"mine"}


def test_a_long_name(tmp_path: Path) -> None:
    write(tmp_path / ("x" * 255))
    assert (tmp_path / ("x" * 255)).read_text() == "new"


@pytest.mark.parametrize("error", [OSError(28, "No space left"), KeyboardInterrupt(), ValueError("x")])
def test_after_an_error_the_old_file_is_there(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def fail() -> None:
        with whole_text(path) as file:
            file.write("half")
            raise error

    with pytest.raises(ConfigError if isinstance(error, OSError) else type(error)):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_every_step_fails_in_one_way(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, step, lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(ConfigError) as caught:
        write(tmp_path / "a")
    assert str(caught.value) == (
        f"{tmp_path}/a: the output cannot be written: Input/output error. "
        "Remedy: name a file in a folder that you can write to and that has room."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_clean_up_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first error is the one that is told."""
    monkeypatch.setattr(os, "unlink", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "Input/output error")))

    def work() -> None:
        with whole_file(tmp_path / "a", "the table"):
            raise OSError(28, "No space left")

    with pytest.raises(ConfigError, match="the table cannot be written: No space left"):
        work()
    assert not (tmp_path / "a").exists()


KILLED = """
import sys, time
from medlink.files.whole import whole_file
with whole_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("half", flush=True)
    time.sleep(60)
"""


def begun(path: Path) -> subprocess.Popen[str]:
    """A process that has written half of a file."""
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    return process


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    with begun(path) as process:
        process.kill()
    (left,) = tmp_path.iterdir()
    assert (left / "draft").read_text() == "half"
    assert mode(left) == 0o700
    write(other)
    assert left.exists()  # it is of another file
    (tmp_path / "link").symlink_to(path)
    write(tmp_path / "link")
    assert {found.name for found in tmp_path.iterdir()} == {"a", "b", "link"}
    assert path.read_text() == "new"


def test_the_draft_of_another_process_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with begun(path) as process:
        write(path, "one")
        (draft,) = (found for found in tmp_path.iterdir() if found.name != "a")
        assert (draft / "draft").read_text() == "half"
        process.kill()
    write(path, "two")
    assert [found.name for found in tmp_path.iterdir()] == ["a"]


def test_many_write_one_file(tmp_path: Path) -> None:
    """Nobody takes a draft for a remnant between the moment it is made and the moment it is locked."""
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
    assert [found.name for found in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() in {text * 1000 for text in "xyz"}


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with begun(tmp_path / "a") as process:
        process.kill()
    monkeypatch.setattr(fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(37, "No locks available")))
    write(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 2  # nobody can tell whether it is in use


def test_a_file_that_is_called_as_a_draft(tmp_path: Path) -> None:
    with begun(tmp_path / "a") as process:
        (draft,) = tmp_path.iterdir()
        process.kill()
    shutil.rmtree(draft)
    draft.write_text("mine")
    write(tmp_path / "a")
    assert draft.read_text() == "mine"


def test_a_complete_file_takes_a_place(tmp_path: Path) -> None:
    draft, path = tmp_path / "a.part", tmp_path / "a"
    path.write_text("old")
    path.chmod(0o600)
    draft.write_text("new")
    (tmp_path / "link").symlink_to(path)
    put_in_place(draft, tmp_path / "link")
    assert (path.read_text(), mode(path), (tmp_path / "link").is_symlink()) == ("new", 0o600, True)
    with pytest.raises(ConfigError, match="the output cannot be written: No such file"):
        put_in_place(draft, path)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none" / "a", tmp_path / "file" / "a", tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(ConfigError, match=r"the output cannot be written: .*Remedy: name a file in a folder"):
            write(path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_device_is_written_to(tmp_path: Path) -> None:
    write(Path(os.devnull))
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    if FULL.exists():
        with pytest.raises(ConfigError, match="/dev/full: the output cannot be written: No space left"):
            write(FULL)
        assert stat.S_ISCHR(FULL.stat().st_mode)


def test_a_fifo_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    write(path)
    reader.join(timeout=30)
    assert read == ["new"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_half_a_surrogate_pair(tmp_path: Path) -> None:
    with whole_text(tmp_path / "a", errors="replace") as file:
        file.write("a\ud800")
    assert (tmp_path / "a").read_text() == "a?"
    with pytest.raises(UnicodeEncodeError), whole_text(tmp_path / "b") as file:
        file.write("a\ud800")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def run(code: str, shell: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "run.py").write_text(code)
    command = f'"{sys.executable}" run.py {shell}'
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


PRINT = """
from medlink.cli.main import main
from medlink.cli import main as module
import click
from medlink.files.whole import standard_output
@click.command()
def printing():
    with standard_output("name a file with -o") as file:
        for number in range(100_000):
            file.write("a line of it\\n")
module.app = printing
main([])
"""


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_standard_output_that_is_full(tmp_path: Path) -> None:
    result = run(PRINT, "> /dev/full", tmp_path)
    assert result.stderr == (
        "medlink: standard output cannot be written: No space left on device. Remedy: name a file with -o.\n"
    )
    assert result.returncode == 1


def test_standard_output_that_nobody_reads_or_that_is_closed(tmp_path: Path) -> None:
    assert run(PRINT, "| head -n 1", tmp_path).stderr == ""
    result = run(PRINT, ">&-", tmp_path)
    assert result.stderr == "medlink: standard output is closed. Remedy: name a file with -o.\n"


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    with standard_output("name a file") as file:
        file.write("x")
    assert capsys.readouterr().out == "x"


def test_targets_that_are_fine(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("")
    check_targets({"the output": tmp_path / "out", "the page": None}, [tmp_path / "in", tmp_path / "none", -1])
    check_targets({"the output": "None", "the page": os.devnull, "the plot": os.devnull}, ["builtin", os.devnull])
    assert [path.name for path in tmp_path.iterdir()] == ["in"]  # looked at, not written


def test_targets_that_are_refused(tmp_path: Path) -> None:
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
            "the output lies in a folder that is read. Remedy: name a file elsewhere.",
        ),
        ({"the table": out, "the plot": out}, [], "the plot and the table are one file. Remedy: name another file."),
    ):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            check_targets(targets, inputs)
        assert message in str(caught.value)
    file.close()
