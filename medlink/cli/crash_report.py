"""Reports of unexpected errors: the places in the code, without any text that medlink read."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from errno import errorcode
from pathlib import Path
from traceback import walk_tb

from medlink import __version__

_MAX_FILES = 10
_MAX_FRAMES = 40  # at each end of a deep recursion


def report_crash(error: BaseException, command: str) -> str:
    """Write a report into a file that the user may send; return the message for the user.

    Neither contains a path of the user, an error message or a value, which may be text of a note.
    """
    message = f"unexpected {_name(error)} at {list(_frames(error))[-1].split()[0]}"
    if isinstance(error, MemoryError):
        message = f"out of memory: {message}"
    try:
        path = _write("\n".join(_lines(error, command)))
    except OSError as failed:
        return f"{message}. The report cannot be written: {failed.strerror}"
    return f"{message}. The traceback, without any text that was read, is in {path}: please send it with a report"


def _write(report: str) -> Path:
    """Write a file that only the user can read into the user's state folder; keep the newest files."""
    import platformdirs

    folder = platformdirs.user_state_path("medlink") / "errors"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_EXCL, 0o600)) as file:
        file.write(report)
    for old in sorted(folder.glob("[0-9]*-*-*.txt"))[:-_MAX_FILES]:
        with suppress(OSError):
            old.unlink()
    return path


def _lines(error: BaseException, command: str) -> Iterator[str]:
    yield f"medlink {__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield f"command: {command}"
    prefix, seen = "", set[int]()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield prefix + _name(cause)
        frames = list(_frames(cause))
        if len(frames) > 2 * _MAX_FRAMES:
            frames[_MAX_FRAMES:-_MAX_FRAMES] = ["..."]
        yield from (f"  {frame}" for frame in frames)
        prefix = "caused by "
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    yield ""


def _name(error: BaseException) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return type(error).__qualname__ + ("" if number is None else f" {number} ({errorcode.get(number, '?')})")


def _frames(error: BaseException) -> Iterator[str]:
    """Yield file, line and function of each call, the innermost last; files relative to the module search path."""
    roots = sorted((Path(root).absolute() for root in sys.path), key=lambda root: len(root.parts), reverse=True)
    for frame, line in walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        root = next((root for root in roots if file.is_relative_to(root)), file.parent)
        yield f"{file.relative_to(root)}:{line} {frame.f_code.co_qualname}"
