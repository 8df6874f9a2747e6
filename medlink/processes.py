"""Run child processes that end with their parent, and pause the garbage collector."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import current_process, get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

_R = TypeVar("_R")
MIN_FORKED = 4096
"""Number of terms from which a second process saves time."""


def exit_with_parent() -> None:
    """End this process abruptly as soon as its parent ends; only for processes that tolerate a kill."""
    parent = parent_process()
    if parent is not None:
        Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Pause the cyclic garbage collector during a block.

    Collection took a third of the time of reading notes. Reference counting alone frees the many small objects of
    notes.
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
    """Run a function in a forked process while the ``with`` block continues.

    The end of the block kills the process. So the function must store its progress on disk and be able to resume, and
    another call must complete the work. Starts no process in a daemonic worker process, or if ``wanted`` is false.

    Yields:
        A function that waits for a number of seconds and returns whether the process is still running.
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


@contextmanager
def forked(work: Callable[[], _R], *, wanted: bool = True) -> Iterator[Callable[[], _R]]:
    """Compute a result in a forked process while the ``with`` block continues.

    If ``wanted`` is false, on a machine with one processor, and in a daemonic worker process, no process is started:
    the result is computed here when the block asks for it. The same happens if the forked process fails, so that its
    error is raised here. The end of the block kills the process.

    Yields:
        A function that waits for the result.
    """
    if not wanted or current_process().daemon or _processors() < 2:
        yield work
        return
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(lambda: _send(work, sender),), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: the work must not wait for them
        process.start()
    sender.close()

    def result() -> _R:
        try:
            found: _R = receiver.recv()
        except EOFError:
            return work()
        return found

    try:
        yield result
    finally:
        process.kill()
        process.join()
        process.close()
        receiver.close()


def _send(work: Callable[[], object], sender: Connection) -> None:
    with sender, suppress(Exception):
        sender.send(work())


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
