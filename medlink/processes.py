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
    """Let this process, which must bear a kill, end as soon as the one that began it has ended or was killed."""
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def collection_paused() -> Iterator[None]:
    """Let the collector of cycles wait until a block ends: it took a third of the time of reading notes, whose many
    small objects reference counts free."""
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

    The work has to be one that goes on where it was left, on the disk: whoever comes to it after the block finds what
    is done. The process ends with the block at the latest. There is none unless ``wanted``, nor in a worker of a pool.

    Yields:
        A function that waits so many seconds for the process and tells whether it is at work still.
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
    end_with_parent()
    work()
