"""Atomic file output: a file appears complete or not at all, and an old file stays until the new file is complete."""

from __future__ import annotations

import errno
import io
import os
import re
import sqlite3
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from medlink.errors import ConfigError
from medlink.files.folders import StrPath, exclusive_lock, hidden_folder, sync, wrap_os_error

# such a path may name a file that this process has open, as /dev/stdout does: a rename would not reach it
_OPEN_FILES = ("/dev/std", "/dev/fd/", "/proc/")
_ANOTHER = "name another file"


@contextmanager
def atomic_writer(path: StrPath, what: str = "the output", *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a binary file that replaces ``path`` when the block ends without an error.

    An error leaves the old file as it was. Devices and FIFOs are written to directly. Only the owner can read a new
    ``private`` file; a replaced file keeps its mode. If the file cannot be written, raises :class:`ConfigError`, whose
    message calls it ``what``.
    """
    with wrap_os_error(path, what):
        if not is_replaceable(path):
            with open(path, "ab") as file:
                yield file
            return
        with hidden_folder(Path(os.path.realpath(path))) as folder:
            with open(folder / "draft", "wb") as file:
                yield file
            replace_atomically(folder / "draft", path, what, private=private)


def replace_atomically(draft: StrPath, path: StrPath, what: str = "the output", *, private: bool = False) -> None:
    """Rename a complete file to ``path`` and flush both to the disk.

    A symbolic link stays, and the file replaces its target; the draft must be on the same file system. Mode and errors
    are those of :func:`atomic_writer`.
    """
    with wrap_os_error(path, what):
        target, draft = Path(os.path.realpath(path)), Path(draft)
        sync(draft)
        with exclusive_lock(target.parent):
            status = _status(target)
            if status is not None or private:
                draft.chmod(0o600 if status is None else stat.S_IMODE(status.st_mode))
            os.replace(draft, target)
            sync(target.parent)


def is_replaceable(path: StrPath) -> bool:
    """Return whether ``path`` is a regular file or missing; other outputs, such as devices, are written directly."""
    status = _status(path)
    return not os.fspath(path).startswith(_OPEN_FILES) and (status is None or stat.S_ISREG(status.st_mode))


@contextmanager
def atomic_text_writer(
    path: StrPath, what: str = "the output", *, errors: str = "strict", private: bool = False
) -> Iterator[TextIO]:
    """Open a UTF-8 text file as :func:`atomic_writer` does; keep newlines, and use ``errors`` as in :func:`open`."""
    with atomic_writer(path, what, private=private) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", errors=errors, newline="")
        try:
            yield text
            text.flush()
        finally:
            # atomic_writer closes the file; unflushed text belongs to a block that failed
            with suppress(OSError):
                text.detach()


@contextmanager
def wrap_disk_full(path: Path) -> Iterator[None]:
    """Raise SQLite's errors about a full disk as :class:`OSError`."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error


@contextmanager
def standard_output(remedy: str) -> Iterator[TextIO]:
    """Yield standard output and flush it at the end.

    Raises :class:`ConfigError` with ``remedy`` when it cannot be written. A closed pipe stays a ``BrokenPipeError``, on
    which the command line ends silently.
    """
    out: TextIO | None = sys.stdout  # None if it was closed before Python began
    if out is None or out.closed:
        raise ConfigError("standard output is closed", remedy=remedy)
    try:
        yield out
        out.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        redirect_to_devnull(out)
        raise ConfigError(f"standard output cannot be written: {error.strerror or error}", remedy=remedy) from error


def redirect_to_devnull(out: TextIO) -> None:
    """Redirect an output that failed, because flushing it at exit would fail again."""
    # suppress: an object without a file descriptor cannot be redirected
    with suppress(OSError, ValueError), open(os.devnull, "wb") as devnull:
        os.dup2(devnull.fileno(), out.fileno())


def check_output_paths(targets: Mapping[str, StrPath | None], inputs: Iterable[StrPath | int]) -> None:
    """Check, before any work, that outputs can be written and overwrite no input.

    Args:
        targets: path by description (``the output``); ``None`` is skipped.
        inputs: files and folders that are read, or file descriptors.

    Raises:
        ConfigError: a target is a folder, its folder does not exist, it is an input or inside an input folder, or two
            targets are the same file.
    """
    read, taken = list(inputs), dict[Path, str]()
    for what, path in targets.items():
        if path is None:
            continue
        with wrap_os_error(path, what, _ANOTHER):
            target = _resolve_target(what, path, read)
        if target in taken:
            raise ConfigError(f"{what} and {taken[target]} are one file", path=path, remedy=_ANOTHER)
        if target is not None:
            taken[target] = what


def format_of_ending(path: StrPath, formats: Mapping[str, str], default: str) -> str:
    """Return the format of an output by the ending of its name, ``default`` without an ending.

    Raises:
        ConfigError: the ending names no format; a file ``x.xlsx`` must not hold CSV.
    """
    name, suffix = Path(path).name.lower(), Path(path).suffix
    ending = max((end for end in formats if name.endswith(end)), key=len, default="")
    if not ending and re.fullmatch(r"\.[A-Za-z]\w{0,9}", suffix):
        remedy = f"end the name in one of {', '.join(formats)}"
        raise ConfigError(f"the ending {suffix} names no format of this output", path=path, remedy=remedy)
    return formats.get(ending, default)


def rows_format(path: StrPath | None) -> str:
    """Return ``tsv`` or ``jsonl`` for a table of results, ``""`` for none; raises like :func:`format_of_ending`."""
    return "" if path is None else format_of_ending(path, {".tsv": "tsv", ".jsonl": "jsonl"}, "tsv")


def _resolve_target(what: str, path: StrPath, inputs: Iterable[StrPath | int]) -> Path | None:
    """Return the file to replace, ``None`` for a device or FIFO."""
    target, status = Path(os.path.realpath(path)), _status(path)
    if target.is_dir():
        raise ConfigError(f"{what} is a folder", path=path, remedy="name a file")
    if status is None and not target.parent.is_dir():
        raise ConfigError(f"the folder of {what} does not exist", path=path, remedy="make it, or name another file")
    if status is not None and not stat.S_ISREG(status.st_mode):
        return None
    for source in inputs:
        real = None if isinstance(source, int) else Path(os.path.realpath(source))
        same = real == target
        with suppress(OSError):
            found = os.stat(source)  # noqa: PTH116  # or a descriptor
            same = same or (status is not None and os.path.samestat(status, found))
        if same:
            raise ConfigError(f"{what} is the input", path=path, remedy=_ANOTHER)
        if real is not None and real.is_dir() and target.is_relative_to(real):
            raise ConfigError(f"{what} is in a folder that is read", path=path, remedy="name a file elsewhere")
    return target


def _status(path: StrPath) -> os.stat_result | None:
    try:
        return Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
