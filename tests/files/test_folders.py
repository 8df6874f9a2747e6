"""Atomic folder output: after kills, errors and a full disk, and with a second process."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from medlink.errors import ConfigError
from medlink.files.folders import atomic_folder, ensure_folder, locked, remove, scratch_folder


def write(path: Path, text: str = "new") -> None:
    with atomic_folder(path) as draft:
        (draft / "one").write_text(text)
        (draft / "below").mkdir()
        (draft / "below" / "two").write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def content(folder: Path) -> str:
    assert names(folder) == ["below", "one"]
    assert (folder / "one").read_text() == (folder / "below" / "two").read_text()
    return (folder / "one").read_text()


def test_new_and_replaced_folder(tmp_path: Path) -> None:
    path, link = tmp_path / "above" / "a", tmp_path / "above" / "link"
    write(path, "old")
    (path / "more").write_text("")
    path.chmod(0o700)
    write(path)
    assert (content(path), names(path.parent)) == ("new", ["a"])
    link.symlink_to(path)
    write(link, "newer")
    assert (content(path), link.is_symlink(), path.stat().st_mode & 0o777) == ("newer", True, 0o700)


def test_a_new_folder_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "a")
        with scratch_folder(tmp_path / "b") as work:
            assert work.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("x")])
def test_error_keeps_old_folder(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a"
    write(path, "old")

    def fail() -> None:
        with atomic_folder(path, "the bundle") as draft:
            (draft / "one").write_text("half")
            raise error

    with pytest.raises(ConfigError if isinstance(error, OSError) else type(error)) as caught:
        fail()
    if isinstance(error, OSError):
        assert str(caught.value).startswith(f"{path}: the bundle cannot be written: No space left on device. Remedy: ")
    assert (content(path), names(tmp_path)) == ("old", ["a"])


def test_new_parents_are_removed_after_an_error(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        with scratch_folder(path):
            raise KeyboardInterrupt

    (tmp_path / "mine").mkdir()
    for place in ("typo/more/a", "typo/a", "mine/typo/a", "a"):
        with pytest.raises(KeyboardInterrupt):
            fail(tmp_path / place)
        assert sorted(tmp_path.rglob("*")) == [tmp_path / "mine"]
    with ensure_folder(tmp_path / "d" / "e"):
        pass
    assert names(tmp_path / "d") == ["e"]


def test_unwritable_paths(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match=r"the folder would take the place of a file\. Remedy: name a folder"):
        write(tmp_path / "file")
    with pytest.raises(ConfigError, match="the folder cannot be written: "):
        write(tmp_path / "file" / "a")
    assert (names(tmp_path), (tmp_path / "file").read_text()) == (["file"], "mine")


WORK = """
import os, signal, sys
from pathlib import Path
from medlink.files import folders

how, path = sys.argv[1], Path(sys.argv[2])
replace, calls = os.replace, []

def counting(source, target):
    calls.append(target)
    if len(calls) == 2 and how == "between":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = counting
with folders.atomic_folder(path) as draft:
    (draft / "one").write_text("half")
    (draft / "below").mkdir()
    (draft / "below" / "two").write_text("half")
    print("half", flush=True)
    if how == "wait":
        sys.stdin.read()
"""


def begun(path: Path, how: str = "wait") -> subprocess.Popen[str]:
    """A process that has filled a folder; with ``between`` it kills itself between the two renames."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, how, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("has_lock_file", [True, False])
def test_remnants_of_killed_processes(has_lock_file: bool, tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, "old")
    with begun(path) as process:
        process.kill()
    if not has_lock_file:  # killed before it made the file, or while it removed the folder
        next(tmp_path.glob(".writing-*/.lock")).unlink()
    assert content(path) == "old"
    write(tmp_path / "b")
    assert len(names(tmp_path)) == 3  # it is of another folder
    write(path)
    assert (content(path), names(tmp_path)) == ("new", ["a", "b"])


@pytest.mark.slow
def test_kill_between_the_renames(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for deleted in (False, True):
        write(path, "old")
        with begun(path, "between") as process:
            assert process.wait(timeout=60) == -signal.SIGKILL
        assert not path.exists()
        if deleted:  # both renames were done, and then the user deleted the new folder
            next(tmp_path.glob(".writing-*/draft")).rename(path)
            remove(path)
        with scratch_folder(path):  # whatever the next call is for
            assert path.exists() != deleted
        assert names(tmp_path) == [] if deleted else content(path) == "old"


def test_old_folder_is_restored_by_the_next_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write(path, "old")
    real = os.replace

    def fails(source: Path, target: Path) -> None:
        if Path(target) == path:
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(ConfigError, match="Input/output error"):
        write(path)
    monkeypatch.undo()
    assert not path.exists()
    with scratch_folder(path):
        assert content(path) == "old"
    assert names(tmp_path) == ["a"]


@pytest.mark.slow
def test_second_process(tmp_path: Path) -> None:
    """The draft of a running process stays, and the last to end wins."""
    path = tmp_path / "a"
    with begun(path) as process:
        write(path, "first")
        assert content(path) == "first"
        process.communicate("", timeout=60)
    assert (content(path), names(tmp_path), process.returncode) == ("half", ["a"], 0)


@pytest.mark.slow
def test_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with begun(tmp_path / "a") as process:
        process.kill()
    monkeypatch.setattr(fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(37, "No locks available")))
    write(tmp_path / "a")
    assert content(tmp_path / "a") == "new"
    assert len(names(tmp_path)) == 2  # nobody can tell whether it is in use
    with locked(tmp_path / "lock"), locked(tmp_path / "lock"):
        pass


def test_locked(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with (
        locked(lock, "the bundle"),
        pytest.raises(ConfigError, match=r"another process is writing the bundle\. Remedy: wait for it to end"),
        locked(lock, "the bundle"),
    ):
        pass
    with locked(lock), pytest.raises(ConfigError, match="the folder cannot be written: "), locked(lock / "x"):
        pass
