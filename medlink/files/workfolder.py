"""The hidden folder beside a target in which a file is built before it is renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from medlink.errors import KnowledgeBaseError

try:
    import fcntl
except ImportError:  # not on Windows, where left-overs then stay until they are deleted by hand
    fcntl = None  # type: ignore[assignment]  # Windows has no such module


@contextmanager
def work_folder(target: Path) -> Iterator[Path]:
    """A new folder beside ``target``, locked while in use and removed afterwards.

    Folders that a killed process left behind for the same target are removed first; their lock, which the
    system released with the process, tells them from those of a build that runs now.

    Raises:
        KnowledgeBaseError: the folder of ``target`` cannot be made or written to.
    """
    prefix = f".{target.name}.building-"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in target.parent.glob(f"{prefix}*"):
            _remove_if_left(left)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    except OSError as error:
        raise KnowledgeBaseError(
            f"cannot be written: {error.strerror}", path=target, remedy="name a file in a folder you can write to"
        ) from error
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_if_left(folder: Path) -> None:
    if fcntl is None or not (folder / "lock").is_file():
        return
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
