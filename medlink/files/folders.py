"""Folders that appear whole, folders to work in, and the locks that tell which of them is in use.

What is being made lies in a hidden folder beside its target, with a locked file in it. The system takes the lock back
when a process ends, however it ends: so the next to write the same target can tell what a killed one left.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from medlink.errors import ConfigError

if TYPE_CHECKING:  # the command line lists its commands without it
    from filelock import FileLock

StrPath = str | os.PathLike[str]
logger = logging.getLogger("medlink")
_LOCK, _DRAFT, _OLD = ".lock", "draft", "old"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of a file system without them
_FILE = "name a file in a folder that you can write to and that has room"
_FOLDER = "name a place that you can write to and that has room"


@contextmanager
def whole_folder(path: StrPath, what: str = "the folder", *, private: bool = False) -> Iterator[Path]:
    """A folder to fill, which takes its place when the block ends without an error.

    The folder above is made. A folder that was there leaves the new one its mode; else only its owner can look into a
    ``private`` one. After an error the old folder is there and nothing else. A process killed between the two renames
    leaves none, and the next call puts the old one back. Of two processes that write one folder at the same time the
    last to end wins. Raises :class:`ConfigError`, which calls the folder ``what``, where it cannot be written.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_dir():
        raise ConfigError(f"{what} would take the place of a file", path=path, remedy="name a folder")
    with scratch_folder(target, what) as work:
        draft = work / _DRAFT
        draft.mkdir(0o700 if private else 0o777)
        yield draft
        with alone(target.parent):
            if target.exists():
                draft.chmod(stat.S_IMODE(target.stat().st_mode))
                os.replace(target, work / _OLD)
            try:
                os.replace(draft, target)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.replace(work / _OLD, target)
                raise


@contextmanager
def scratch_folder(target: StrPath, what: str = "the folder") -> Iterator[Path]:
    """A new folder beside a file or folder that is being made, on the same disk; removed with all that is in it.

    What killed processes left beside the same target is removed first. Nobody else can look into the folder. The folder
    above is made. Raises :class:`ConfigError`, which calls the target ``what``, for what the system refuses in the
    block.
    """
    target = Path(os.path.realpath(target))
    with made_folder(target.parent, what), one_error(target, what, _FOLDER), hidden_folder(target) as folder:
        yield folder


@contextmanager
def made_folder(path: Path, what: str = "the folder") -> Iterator[None]:
    """Make a folder, with those above it, for ``what``; an error in the block takes them away again while empty."""
    with one_error(path, what, _FOLDER):
        new = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for folder in new:
                folder.rmdir()
        raise


@contextmanager
def hidden_folder(target: Path) -> Iterator[Path]:
    """As :func:`scratch_folder`, in a folder that is there, and with the errors of the system."""
    with alone(target.parent):
        _clear(target)
        folder = target.with_name(_prefix(target) + secrets.token_hex(8))
        folder.mkdir(0o700)
        try:
            lock = _lock(folder / _LOCK)
        except OSError:
            folder.rmdir()
            raise
    try:
        yield folder
    finally:
        # an old folder that could not be put back is left for the next call
        if target.exists() or not (folder / _OLD).exists():
            shutil.rmtree(folder, ignore_errors=True)
        lock.release()


@contextmanager
def locked(
    path: StrPath, what: str = "the folder", *, wait: bool = False, output: StrPath | None = None, private: bool = False
) -> Iterator[None]:
    """Lock a file, made where it is not there, during the block; the file stays. A file system may have no locks.

    ``what`` names in errors what the lock protects. With ``wait`` a second process waits, and logs it; else it raises
    :class:`ConfigError`. ``output`` is the file whose draft is locked: errors name it. A ``private`` file is made
    readable to its owner alone.
    """
    from filelock import Timeout

    path, lock, is_second = Path(path), None, False
    with one_error(output or path, what, _FILE if output else _FOLDER):
        while lock is None:
            try:
                lock = _lock(path, wait=is_second)
                if private:
                    with suppress(OSError):  # not every file system knows owners
                        path.chmod(0o600)
            except Timeout as error:
                if not wait:
                    remedy = "wait for it to end" + (", or name another file" if output else "")
                    place = output or path.parent
                    raise ConfigError(f"another process is writing {what}", path=place, remedy=remedy) from error
                logger.warning("another process is writing %s %s: waiting", what, path.parent)
                is_second = True
            except FileNotFoundError:
                # who was first may have taken the folder away
                if not is_second:
                    raise
    try:
        yield
    finally:
        lock.release()


def _lock(path: Path, *, wait: bool = False) -> FileLock:
    """A file that is locked where the file system has locks; raises :class:`Timeout` where another has the lock."""
    from filelock import FileLock

    lock = FileLock(path, blocking=wait, fallback_to_soft=False)
    try:
        lock.acquire()
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return lock


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or what a folder says that it holds, is on the disk."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    except OSError as error:
        # some file systems cannot do it for folders
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(number)


@contextmanager
def one_error(path: StrPath, what: str, remedy: str = _FILE) -> Iterator[None]:
    """What the system refuses (an :class:`OSError` of the block), as a :class:`ConfigError` that names ``what``."""
    try:
        yield
    except OSError as error:
        message = f"{what} cannot be written: {error.strerror or error}"
        inside = re.search(rf"{os.sep}\.writing-[0-9a-f-]+{os.sep}(.+)", str(error.filename or ""))
        if inside is not None:
            message += f", at {inside[1]}"
        raise ConfigError(message, path=path, remedy=remedy) from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else puts anything in its place, or takes remnants away, in a folder as long as the block lasts."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # some file systems have no locks
        with suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _prefix(target: Path) -> str:
    # a name of its own, since that of the target may be too long to be lengthened
    return f".writing-{blake2b(os.fsencode(target.name), digest_size=8).hexdigest()}-"


def _clear(target: Path) -> None:
    """Remove hidden folders that nobody has locked; a folder that a kill left moved away goes back first."""
    for left in target.parent.glob(f"{_prefix(target)}*"):
        with suppress(OSError):
            # one without a lock is of a process that was killed before it had one, or as it took the folder away
            lock = _lock(left / _LOCK)
            # without locks nobody can tell whether it is in use
            if lock.is_locked:
                if (left / _OLD).exists() and (left / _DRAFT).exists() and not target.exists():
                    os.replace(left / _OLD, target)
                shutil.rmtree(left, ignore_errors=True)
            lock.release()
