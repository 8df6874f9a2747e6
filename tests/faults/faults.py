"""Faults set up within a process: a kill at a change of the file system, or a limit of the file size."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

FULL = os.environ.get("MEDLINK_FAULTS") == "full"
"""Whether every point is run, not a sample."""
# events of the audit hook, with the positions of the paths and of their folders among the arguments
_EVENTS: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.rename": ((0, 2), (1, 3)),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.link": ((0, 2), (1, 3)),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "open": ((0, None),),
    "sqlite3.connect": ((0, None),),
}
MOVES = ("os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink")
"""Changes of names."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Fault:
    """A fault of a process.

    ``kill_at`` is the number, from 1, of the change in its folder before which it is killed, or right after which with
    ``after``; ``largest`` bytes is the largest file it may write.
    """

    kill_at: int = 0
    after: bool = False
    largest: int | None = None


@contextmanager
def under(fault: Fault | None, folder: Path) -> Iterator[list[str]]:
    """Set up a fault in this process; yields the list of its changes below the folder."""
    fault, changes = fault or Fault(), list[str]()
    top = os.path.realpath(folder)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS or not _changes(event, arguments, top):
            return
        changes.append(event)
        if len(changes) == fault.kill_at:
            if fault.after:
                sys.setprofile(after)
            else:
                os.kill(os.getpid(), signal.SIGKILL)

    def after(frame: FrameType, event: str, argument: Any) -> None:
        # the first event is the return of the hook
        if frame.f_code is not hook.__code__:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    if fault.largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.largest, fault.largest))
    yield changes
    # changes at the end of the process do not count
    top = "/nowhere"


def _changes(event: str, arguments: tuple[Any, ...], top: str) -> bool:
    """Whether a call changes something below a folder."""
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITING):
        return False
    for at, relative_to in _EVENTS[event]:
        path = arguments[at]
        if isinstance(path, int):
            continue
        number = -1 if relative_to is None else arguments[relative_to]
        text = os.fsdecode(path).removeprefix("file:").partition("?")[0]
        if event == "sqlite3.connect" and "mode=ro" in os.fsdecode(path):
            continue
        relative = isinstance(number, int) and number >= 0
        base = Path(f"/proc/self/fd/{number}").readlink() if relative else Path.cwd()
        if os.path.normpath(base / text).startswith(top + os.sep):
            return True
    return False
