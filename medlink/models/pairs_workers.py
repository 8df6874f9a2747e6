"""Making things a little ahead of their use, in other processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.pool import AsyncResult
from typing import Any, TypeVar

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

    >>> list(run_ahead(divmod, [(7, 2), (9, 4)], 0))
    [(3, 1), (2, 1)]
    """
    if not workers:
        yield from (make(*task) for task in tasks)
        return
    waiting: deque[AsyncResult[T]] = deque()
    with get_context("fork").Pool(workers, _hold, (make,)) as pool:
        for task in tasks:
            waiting.append(pool.apply_async(_make, task))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().get()
        while waiting:
            yield waiting.popleft().get()


def _hold(make: Callable[..., Any]) -> None:
    _made_by[:] = [make]


def _make(*task: Any) -> Any:
    return _made_by[0](*task)
