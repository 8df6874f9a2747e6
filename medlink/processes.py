"""Child processes that end with their parent, and a pause of the garbage collector."""

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


def exit_with_parent() -> None:
    """End this process as soon as its parent has ended or was killed; this process must tolerate a kill."""
    parent = parent_process()
    if parent is not None:
        Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Pause the cyclic garbage collector during a block.

    The collector took a third of the time of reading notes; reference counting frees their many small objects.
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
def background_process(work: Callable[[], object], *, wanted: bool) -> Iterator[Callable[[float], bool]]:
    """Do some work in a forked process while the block does something else.

    The work must store its progress on disk and be able to resume: the end of the block kills the process, and another
    call completes the work. Starts no process unless ``wanted``, nor in a daemonic worker process.

    Yields:
        A function that waits for a number of seconds and tells whether the process is still running.
    """
    if not wanted or current_process().daemon:
        yield lambda seconds: False
        return
    process = get_context("fork").Process(target=_run, args=(work,), daemon=True)
    process.start()

    def is_running(seconds: float) -> bool:
        process.join(seconds)
        return process.is_alive()

    try:
        yield is_running
    finally:
        process.kill()
        process.join()
        process.close()


def _run(work: Callable[[], object]) -> None:
    exit_with_parent()
    work()
