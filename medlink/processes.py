"""Processes that medlink begins, which end with the one that began them; and when this one collects its garbage."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import current_process, get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess


def end_with_parent() -> None:
    """Let this process end as soon as the one that began it has ended, or was killed: it would go on, or wait for ever.

    What this process was doing is not ended in order: it must bear a kill.
    """
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def collection_paused() -> Iterator[None]:
    """Let the collector of cycles wait until a block ends.

    Reading makes many small objects that stay for a batch, and hardly a cycle: reference counts free them. The
    collector would walk through all of them time and again, which took a third of the time of reading notes.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def working_ahead(work: Callable[[], object], *, wanted: bool) -> Iterator[Callable[[float], bool]]:
    """Do some work in a forked process while the block does another.

    The work has to be one that goes on where it was left, on the disk: who comes to it after the block does it again,
    and finds what is done. So it does not matter how the process ends. It ends with the block at the latest.

    Args:
        work: called in the other process.
        wanted: whether there is another process at all; a worker of a pool has none in any case.

    Yields:
        Waits so many seconds for the process; whether it is at work still.
    """
    if not wanted or current_process().daemon:
        yield lambda seconds: False
        return
    process = get_context("fork").Process(target=_work, args=(work,), daemon=True)
    process.start()

    def is_at_work(seconds: float) -> bool:
        """Wait so long for the process; whether it is at work still."""
        process.join(seconds)
        return process.is_alive()

    try:
        yield is_at_work
    finally:
        process.kill()
        process.join()
        process.close()


def _work(work: Callable[[], object]) -> None:
    end_with_parent()
    work()
