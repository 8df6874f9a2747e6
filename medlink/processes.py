"""Run child processes that end with their parent, and pause the garbage collector."""

from __future__ import annotations

import gc
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from multiprocessing import current_process, get_context, parent_process
from multiprocessing.reduction import ForkingPickler
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

_P = TypeVar("_P")
_R = TypeVar("_R")
MIN_FORKED = 4096
"""Number of terms from which a second process saves time."""
_AHEAD = 2  # parts that wait for the second process


def exit_with_parent() -> None:
    """End this process abruptly as soon as its parent ends; only for processes that tolerate a kill."""
    parent = parent_process()

    def exit_after() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=exit_after, daemon=True).start()


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Pause the cyclic garbage collector in a block; it took a third of the time of reading notes, or the lexicon."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def background_process(work: Callable[[], object], *, wanted: bool) -> Iterator[Callable[[float], bool]]:
    """Run a function in a forked process while the ``with`` block continues.

    The end of the block kills the process: the function must store its progress on disk, and another call must complete
    the work. Starts no process in a daemonic worker process, or if ``wanted`` is false.

    Yields:
        A function that waits for a number of seconds and returns whether the process is still running.
    """
    if not wanted or current_process().daemon:
        yield lambda seconds: False
        return
    with _started(work) as process:

        def is_running(seconds: float) -> bool:
            process.join(seconds)
            return process.is_alive()

        yield is_running


@contextmanager
def _started(work: Callable[[], object]) -> Iterator[BaseProcess]:
    def run() -> None:
        exit_with_parent()
        work()

    process = get_context("fork").Process(target=run, daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: the work must not wait for them
        process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()
        process.close()


@contextmanager
def forked(work: Callable[[], _R], *, wanted: bool = True) -> Iterator[Callable[[], _R]]:
    """Compute a result in a forked process while the ``with`` block continues.

    Starts no process if ``wanted`` is false, on a machine with one processor, and in a daemonic worker process: the
    result is then computed here when the block asks for it. The same happens if the forked process fails, so that its
    error is raised here. The end of the block kills the process.

    Yields:
        A function that waits for the result.
    """
    if not wanted or current_process().daemon or _processors() < 2:
        yield work
        return
    receiver, sender = get_context("fork").Pipe(duplex=False)

    def send() -> None:
        with sender, suppress(Exception):
            # send() would keep the result beside its pickle until this process reads it
            sender.send_bytes(ForkingPickler.dumps(work()))

    def result() -> _R:
        try:
            found: _R = receiver.recv()
        except EOFError:
            return work()
        return found

    with receiver, _started(send):
        sender.close()
        yield result


def map_in_two(work: Callable[[_P], _R], parts: Sequence[_P], *, wanted: bool = True) -> Iterator[_R]:
    """Yield the results for some parts in order; a forked process with its own caches does every second part.

    This process does all parts in the cases that :func:`forked` describes, and the parts that a killed process leaves.
    """
    if not wanted or current_process().daemon or _processors() < 2:
        yield from map(work, parts)
        return
    # the function is inherited: it need not be picklable, and may hold much memory
    pool = ProcessPoolExecutor(1, get_context("fork"), _begin, (work,))
    try:
        others, ahead = iter(parts[1::2]), deque[tuple[_P, Callable[[], _R]]]()
        for part in parts[::2]:
            for other in islice(others, _AHEAD - len(ahead)):
                result: Callable[[], _R] = partial(work, other)  # of this process, if the other one was killed
                with suppress(BrokenProcessPool):
                    result = pool.submit(_call, other).result
                ahead.append((other, result))
            yield work(part)
            if ahead:
                other, result = ahead.popleft()
                try:
                    found = result()
                except BrokenProcessPool:
                    found = work(other)
                yield found
    finally:
        pool.shutdown(cancel_futures=True)


_works: list[Callable[..., Any]] = []  # of a forked process, the last one


def _begin(work: Callable[..., Any]) -> None:
    _works.append(work)
    exit_with_parent()


def _call(part: Any) -> Any:
    return _works[-1](part)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
