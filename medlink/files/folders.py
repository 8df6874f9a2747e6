"""Atomic folder output, scratch folders, and locks.

Output is prepared in a hidden folder beside its target, which holds a locked file. The system releases the lock however
a process ends, so the next process that writes the same target can clean up after a killed process.
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
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # from a file system without locks
_FILE = "name a file in a folder that you can write to and that has room"
_FOLDER = "name a place that you can write to and that has room"


@contextmanager
def atomic_folder(path: StrPath, what: str = "the folder", *, private: bool = False) -> Iterator[Path]:
    """Yield a new folder that replaces ``path`` when the block ends without an error.

    Creates parent folders. A replaced folder keeps its mode; only the owner can read a new ``private`` folder. An error
    leaves the old folder as it was. A process killed between the two renames leaves no folder, and the next call
    restores the old one. If two processes write the same folder, the last to end wins. If the folder cannot be written,
    raises :class:`ConfigError`, whose message calls it ``what``.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_dir():
        raise ConfigError(f"{what} would take the place of a file", path=path, remedy="name a folder")
    with scratch_folder(target, what) as work:
        draft = work / _DRAFT
        draft.mkdir(0o700 if private else 0o777)
        yield draft
        with exclusive_lock(target.parent):
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
    """Yield a private temporary folder beside ``target``, on the same disk, and remove it at the end.

    First removes the folders that killed processes left beside the same target, and creates parent folders. For an
    ``OSError`` in the block, raises :class:`ConfigError`, whose message calls the target ``what``.
    """
    target = Path(os.path.realpath(target))
    with ensure_folder(target.parent, what), wrap_os_error(target, what, _FOLDER), hidden_folder(target) as folder:
        yield folder


@contextmanager
def ensure_folder(path: Path, what: str = "the folder") -> Iterator[None]:
    """Create a folder and its parents; an error in the block removes new folders that are still empty."""
    with wrap_os_error(path, what, _FOLDER):
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
    """Yield a folder like :func:`scratch_folder`, but require the parent folder and raise ``OSError``."""
    # a hash, since the target's name may be too long to extend
    prefix = f".writing-{blake2b(os.fsencode(target.name), digest_size=8).hexdigest()}-"
    with exclusive_lock(target.parent):
        _remove_abandoned(target, prefix)
        folder = target.with_name(prefix + secrets.token_hex(8))
        folder.mkdir(0o700)
        try:
            lock = _lock(folder / _LOCK)
        except OSError:
            folder.rmdir()
            raise
    try:
        yield folder
    finally:
        # an old folder that could not be restored stays for the next call
        if target.exists() or not (folder / _OLD).exists():
            shutil.rmtree(folder, ignore_errors=True)
        lock.release()


@contextmanager
def locked(
    path: StrPath, what: str = "the folder", *, wait: bool = False, output: StrPath | None = None, private: bool = False
) -> Iterator[None]:
    """Hold a lock file during the block; it is created if needed, and stays. Without file locks nothing is locked.

    Args:
        path: the lock file.
        what: name of the protected output, for errors.
        wait: if another process holds the lock, log it and wait; otherwise raise :class:`ConfigError`.
        output: the output whose draft is the lock file; errors name it instead.
        private: make the file readable only by its owner.
    """
    from filelock import Timeout

    path, lock, is_second = Path(path), None, False
    with wrap_os_error(output or path, what, _FILE if output else _FOLDER):
        while lock is None:
            try:
                lock = _lock(path, wait=is_second)
                if private:
                    with suppress(OSError):  # not every file system has owners
                        path.chmod(0o600)
            except Timeout as error:
                if not wait:
                    remedy = "wait for it to end" + (", or name another file" if output else "")
                    raise ConfigError(
                        f"another process is writing {what}", path=output or path.parent, remedy=remedy
                    ) from error
                logger.warning("another process is writing %s %s: waiting", what, path.parent)
                is_second = True
            except FileNotFoundError:
                # the process that held the lock may have removed the folder
                if not is_second:
                    raise
    try:
        yield
    finally:
        lock.release()


def _lock(path: Path, *, wait: bool = False) -> FileLock:
    """Return a lock, held where the file system has locks; raises ``Timeout`` when another process holds it."""
    from filelock import FileLock

    lock = FileLock(path, blocking=wait, fallback_to_soft=False)
    try:
        lock.acquire()
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return lock


def remove(path: Path) -> None:
    """Delete a file or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # some file systems cannot flush folders
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


@contextmanager
def wrap_os_error(path: StrPath, what: str, remedy: str = _FILE) -> Iterator[None]:
    """Raise an ``OSError`` of the block as a :class:`ConfigError` that calls the output ``what``."""
    try:
        yield
    except OSError as error:
        message = f"{what} cannot be written: {error.strerror or error}"
        inside = re.search(rf"{os.sep}\.writing-[0-9a-f-]+{os.sep}(.+)", str(error.filename or ""))
        if inside is not None:
            message += f", at {inside[1]}"
        raise ConfigError(message, path=path, remedy=remedy) from error


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Keep other processes from renaming into a folder, or cleaning it up, during the block."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # some file systems have no locks
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove_abandoned(target: Path, prefix: str) -> None:
    """Remove the hidden folders of killed processes; first restore an old folder that one had moved away."""
    for folder in target.parent.glob(f"{prefix}*"):
        with suppress(OSError):
            # without a lock file the process was killed before it made one, or while it removed the folder
            lock = _lock(folder / _LOCK)
            # on a file system without locks nobody can tell whether the folder is in use
            if lock.is_locked:
                if (folder / _OLD).exists() and (folder / _DRAFT).exists() and not target.exists():
                    os.replace(folder / _OLD, target)
                shutil.rmtree(folder, ignore_errors=True)
            lock.release()
