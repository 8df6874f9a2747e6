"""Making things a little ahead of their use, in other processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

from medlink.errors import EncoderError

T = TypeVar("T")

_made_by: list[Callable[..., Any]] = []
"""What a worker makes things with: inherited by the fork, as it may hold hundreds of megabytes."""


def run_ahead(make: Callable[..., T], tasks: Iterable[tuple[Any, ...]], workers: int) -> Iterator[T]:
    """``make(*task)`` of each task in order, made in ``workers`` processes; 0 makes each when it is asked for.

    No more than twice as many results as workers wait, so that memory does not grow with the tasks.

    Args:
        make: a function of a task, which need not be one that can be pickled.
        tasks: arguments.
        workers: processes, forked from this one.

    Raises:
        EncoderError: the system ended one of them.

    >>> list(run_ahead(divmod, [(7, 2), (9, 4)], 0))
    [(3, 1), (2, 1)]
    """
    if not workers:
        yield from (make(*task) for task in tasks)
        return
    waiting: deque[Future[T]] = deque()
    pool = ProcessPoolExecutor(workers, get_context("fork"), _hold, (make,))
    try:
        for task in tasks:
            waiting.append(pool.submit(_make, *task))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise EncoderError(
            "the system ended a process that made pairs, most likely for want of memory",
            remedy="give fewer of them (pair_workers), and go on with --resume",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _hold(make: Callable[..., Any]) -> None:
    _made_by[:] = [make]


def _make(*task: Any) -> Any:
    return _made_by[0](*task)
