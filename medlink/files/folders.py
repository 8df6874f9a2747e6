"""Folders that appear whole, folders to work in, and the lock that tells which of them is in use.

A draft is a hidden folder beside its target with a locked file in it. The system takes the lock back when a process
ends, however it ends, so that the next to write the same target can tell what a killed one left from a draft in use.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from medlink.errors import ConfigError

StrPath = str | os.PathLike[str]
_LOCK = ".lock"
_REMEDY = "name a folder that you can write to and that has room"


@contextmanager
def whole_folder(path: StrPath, what: str = "the folder") -> Iterator[Path]:
    """A folder to fill, which takes its place when the block ends without an error.

    A folder that was there goes; at every moment the old one or the new one is whole, and what a kill between the
    renames left is put right by the next call. After an error the old folder is there and nothing else.

    Args:
        path: where the folder is to be.
        what: what the folder is, for the error.

    Raises:
        ConfigError: the folder cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as top:
    ...     with whole_folder(Path(top, "a")) as draft:
    ...         early = Path(top, "a").exists(), draft.joinpath("one").write_text("1")
    ...     early, os.listdir(top), os.listdir(Path(top, "a"))
    ((False, 1), ['a'], ['one'])
    """
    target = Path(os.path.realpath(path))
    with scratch_folder(target, what) as work:
        draft = work / "draft"
        draft.mkdir()
        yield draft
        with _one_error(target, what):
            old = _old(target)
            if target.exists():
                remove(old)
                os.replace(target, old)
            os.replace(draft, target)
            remove(old)


@contextmanager
def scratch_folder(target: StrPath, what: str = "the folder") -> Iterator[Path]:
    """A new folder beside a file or folder that is being made, on the same disk; removed with all that is in it.

    What killed processes left beside the same target is removed first.

    Args:
        target: what is being made.
        what: what the target is, for the error.

    Raises:
        ConfigError: the folder of ``target`` cannot be made or written to, or what is done in the block fails for want
            of room or rights.
    """
    target = Path(os.path.realpath(target))
    with _one_error(target, what):
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear(target)
        folder = target.with_name(_prefix(target) + secrets.token_hex(8))
        folder.mkdir()
        try:
            with locked(folder / _LOCK, what):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(path: StrPath, what: str = "the folder") -> Iterator[None]:
    """A file locked by this process as long as the block lasts; the file stays.

    Args:
        path: the file, made when it is not there.
        what: what the lock keeps, for the error.

    Raises:
        ConfigError: another process has the lock, or the file cannot be made.
    """
    try:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise ConfigError(f"{what} cannot be written: {error.strerror}", path=path, remedy=_REMEDY) from error
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"another process is writing {what}", path=Path(path).parent, remedy="wait for it to end"
            ) from None
        except OSError:
            pass  # some file systems have no locks
        yield
    finally:
        os.close(number)


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _prefix(target: Path) -> str:
    return f".writing-{blake2b(os.fsencode(target.name), digest_size=8).hexdigest()}-"


def _old(target: Path) -> Path:
    """Where the folder that is replaced lies between the two renames."""
    return target.with_name(f".old-{_prefix(target)[9:-1]}")


def _clear(target: Path) -> None:
    """Remove the drafts that nobody has locked, and put back a folder that a kill left moved away."""
    for left in target.parent.glob(f"{_prefix(target)}*"):
        if left.is_dir():
            with suppress(ConfigError, OSError), locked(left / _LOCK):
                shutil.rmtree(left, ignore_errors=True)
    old = _old(target)
    if old.exists() and not target.exists():
        os.replace(old, target)
    elif old.exists():
        remove(old)


@contextmanager
def _one_error(target: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{what} cannot be written: {error.strerror or error}", path=target, remedy=_REMEDY
        ) from error
