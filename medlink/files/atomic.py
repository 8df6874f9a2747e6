"""Files that appear whole or not at all: what is written over stays until the new file is complete."""

from __future__ import annotations

import errno
import io
import os
import sqlite3
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from medlink.errors import ConfigError
from medlink.files.folders import StrPath, alone, hidden_folder, one_error, sync

# what these name may be an open file of this process, such as /dev/stdout: a rename would not reach it
_OPEN_FILES = ("/dev/std", "/dev/fd/", "/proc/")
_ANOTHER = "name another file"


@contextmanager
def whole_file(path: StrPath, what: str = "the output", *, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write bytes to, which takes its place when the block ends without an error.

    What is no regular file (a device, a FIFO) is written to straight away. After an error the old file is there and
    nothing else. A ``private`` file is readable to its owner alone; a file that was there leaves the new one its mode
    all the same. Raises :class:`ConfigError`, which calls the file ``what``, where it cannot be written.
    """
    with one_error(path, what):
        if not is_replaced(path):
            with open(path, "ab") as file:
                yield file
            return
        with hidden_folder(Path(os.path.realpath(path))) as folder:
            with open(folder / "draft", "wb") as file:
                yield file
            put_in_place(folder / "draft", path, what, private=private)


def put_in_place(draft: StrPath, path: StrPath, what: str = "the output", *, private: bool = False) -> None:
    """Let a complete file take the place of ``path`` in one step, which is on the disk then.

    A symbolic link stays and its target is replaced, by a draft in the folder of that. Mode and errors are those of
    :func:`whole_file`.
    """
    with one_error(path, what):
        target, draft = Path(os.path.realpath(path)), Path(draft)
        sync(draft)
        with alone(target.parent):
            status = _status(target)
            if status is not None or private:
                draft.chmod(0o600 if status is None else stat.S_IMODE(status.st_mode))
            os.replace(draft, target)
            sync(target.parent)


def is_replaced(path: StrPath) -> bool:
    """Whether a target is a file that another one replaces; what else is there is written to as it stands."""
    status = _status(path)
    return not os.fspath(path).startswith(_OPEN_FILES) and (status is None or stat.S_ISREG(status.st_mode))


@contextmanager
def whole_text(
    path: StrPath, what: str = "the output", *, errors: str = "strict", private: bool = False
) -> Iterator[TextIO]:
    """As :func:`whole_file`, for text in UTF-8 whose line ends are left as they are; ``errors`` as for :func:`open`."""
    with whole_file(path, what, private=private) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", errors=errors, newline="")
        try:
            yield text
            text.flush()
        finally:
            # the file is closed where it was opened; what was not flushed is of a block that failed
            with suppress(OSError):
                text.detach()


@contextmanager
def room_for(path: Path) -> Iterator[None]:
    """Let a full disk be the ``OSError`` that writing any other file raises; SQLite has an error of its own."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error


@contextmanager
def standard_output(remedy: str) -> Iterator[TextIO]:
    """Standard output, flushed at the end; :class:`ConfigError` with ``remedy`` where it cannot be written.

    A reader that went away (``BrokenPipeError``) is not caught: the command line ends in silence.
    """
    out: TextIO | None = sys.stdout  # None where it was closed before Python began
    if out is None or out.closed:
        raise ConfigError("standard output is closed", remedy=remedy)
    try:
        yield out
        out.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        turn_away(out)
        raise ConfigError(f"standard output cannot be written: {error.strerror or error}", remedy=remedy) from error


def turn_away(out: TextIO) -> None:
    """Point an output that cannot be written at nothing, or what it holds fails again when Python ends."""
    # one that is no open file of the system has nothing to be pointed
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), out.fileno())


def check_targets(targets: Mapping[str, StrPath | None], inputs: Iterable[StrPath | int]) -> None:
    """Refuse before the work what could not be written in the end, or would be written over what is read.

    ``targets`` are places by what is written there (``the output``), ``None`` for what is left alone; ``inputs`` are
    files and folders that are read, or numbers of open files. Raises :class:`ConfigError` where a target is a folder,
    lies in none, is an input or lies in one, or two are one file.
    """
    read, taken = list(inputs), dict[Path, str]()
    for what, path in targets.items():
        if path is None:
            continue
        with one_error(path, what, _ANOTHER):
            where = _replaced(what, path, read)
        if where in taken:
            raise ConfigError(f"{what} and {taken[where]} are one file", path=path, remedy=_ANOTHER)
        if where is not None:
            taken[where] = what


def _replaced(what: str, path: StrPath, read: Iterable[StrPath | int]) -> Path | None:
    """The file that a target stands for, ``None`` where it is written to and not replaced."""
    where, status = Path(os.path.realpath(path)), _status(path)
    if where.is_dir():
        raise ConfigError(f"{what} is a folder", path=path, remedy="name a file")
    if status is None and not where.parent.is_dir():
        raise ConfigError(f"the folder of {what} does not exist", path=path, remedy="make it, or name another file")
    if status is not None and not stat.S_ISREG(status.st_mode):
        return None
    for other in read:
        real = None if isinstance(other, int) else Path(os.path.realpath(other))
        same = real == where
        with suppress(OSError):
            there = os.fstat(other) if isinstance(other, int) else Path(other).stat()
            same = same or (status is not None and os.path.samestat(status, there))
        if same:
            raise ConfigError(f"{what} is the input", path=path, remedy=_ANOTHER)
        if real is not None and real.is_dir() and where.is_relative_to(real):
            raise ConfigError(f"{what} lies in a folder that is read", path=path, remedy="name a file elsewhere")
    return where


def _status(path: StrPath) -> os.stat_result | None:
    try:
        return Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
