"""A process that works ahead: what it leaves on the disk is there when this process comes to the same work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import current_process, get_context, parent_process
from threading import Thread


@contextmanager
def working_ahead(work: Callable[[], object], *, wanted: bool) -> Iterator[Callable[[float], bool]]:
    """Do some work in a forked process while the block does another.

    The work has to be one that goes on where it was left: the block does it again itself, and so finds what is done. So
    it does not matter how the process ends. It ends with the block at the latest, and with this process if that is
    killed.

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
        process.join(seconds)
        return process.is_alive()

    try:
        yield is_at_work
    finally:
        process.kill()
        process.join()
        process.close()


def _work(work: Callable[[], object]) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    work()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
