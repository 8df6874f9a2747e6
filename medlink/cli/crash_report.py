"""An error that nobody foresaw, in a file that the user may send: where it arose, and nothing of what was read."""

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

_KEPT = 10  # files, the newest
_ENDS = 40  # places shown of each end of a deep recursion


def tell(error: BaseException, command: str) -> str:
    """Write the file; gives the line for the user.

    Neither has the message of an error or the value of a variable, which may be text of a note, nor a path of the user.
    """
    what = f"unforeseen {_kind(error)} at {list(_places(error))[-1].split()[0]}"
    if isinstance(error, MemoryError):
        what = f"the memory does not suffice: {what}"
    try:
        path = _write("\n".join(_report(error, command)))
    except OSError as failed:
        return f"{what}. It could not be written down: {failed.strerror}"
    return f"{what}. The places in the code, and no text that was read, are in {path}: please send it with a report"


def _write(report: str) -> Path:
    """A new file in the folder of the user's state, which nobody else can read; the oldest ones go."""
    import platformdirs

    folder = platformdirs.user_state_path("medlink") / "errors"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_EXCL, 0o600)) as file:
        file.write(report)
    for old in sorted(folder.glob("[0-9]*-*-*.txt"))[:-_KEPT]:
        with suppress(OSError):
            old.unlink()
    return path


def _report(error: BaseException, command: str) -> Iterator[str]:
    yield f"medlink {__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield f"command: {command}"
    before, seen = "", set[int]()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield before + _kind(found)
        places = list(_places(found))
        if len(places) > 2 * _ENDS:
            places[_ENDS:-_ENDS] = ["..."]
        yield from (f"  {place}" for place in places)
        before = "caused by "
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    yield ""


def _kind(error: BaseException) -> str:
    """The name of an error, with its number where the system gave one."""
    number = error.errno if isinstance(error, OSError) else None
    return type(error).__qualname__ + ("" if number is None else f" {number} ({errorcode.get(number, '?')})")


def _places(error: BaseException) -> Iterator[str]:
    """File, line and function of each call, the innermost last; a file from where Python looks for modules."""
    roots = sorted((Path(root).absolute() for root in sys.path), key=lambda root: len(root.parts), reverse=True)
    for frame, line in walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        root = next((root for root in roots if file.is_relative_to(root)), file.parent)
        yield f"{file.relative_to(root)}:{line} {frame.f_code.co_qualname}"
