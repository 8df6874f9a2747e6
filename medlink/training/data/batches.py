"""What a trainer is fed with: batches of texts, the same whenever an epoch is asked for.

In batches of pairs no pair is a false negative of another, and they are made a little ahead of their use in other
processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from medlink.errors import EncoderError

T = TypeVar("T")

_made_by: list[Callable[..., Any]] = []
"""What a worker makes things with: inherited by the fork, as it may hold hundreds of megabytes."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one step, over all processes.

    ``columns`` holds one list of n texts for each column of the loss; ``labels`` is what the loss takes as labels,
    ``(n,)`` or ``(n, d)`` floats or ``(n, n)`` bool, ``None`` for a loss that takes none.
    """

    columns: tuple[list[str], ...]
    labels: NDArray[Any] | None = None


class Batches(Protocol):
    """Batches by epoch; ``digest`` is a hash of data and settings that binds checkpoints to both."""

    digest: str

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number ``start`` on, the same whenever it is asked for."""

    def batches_per_epoch(self) -> int:
        """How many batches each epoch has."""


def in_parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` items, the last of which may be shorter."""
    source = iter(items)
    while part := list(islice(source, size)):
        yield part


@lru_cache(maxsize=6)  # two cycles of each of three streams may be in use at a time
def order(seed: int, stream: int, cycle: int, count: int) -> NDArray[np.int32]:
    """The order in which one cycle goes through ``count`` things: another one for each seed, stream and cycle."""
    return np.random.default_rng([seed, stream, cycle]).permutation(count).astype(np.int32)


def distinct_batches(candidates: Iterable[tuple[frozenset[Hashable], T]], size: int, count: int) -> Iterator[list[T]]:
    """Batches of which no two items share a key; an item that does not fit waits for the next batch.

    Args:
        candidates: items with the keys that they take up: read only as far as batches need them.

    Yields:
        ``count`` batches of ``size`` items, in the order of the candidates; shorter ones where the candidates run out.
        Items that still wait then are dropped.
    """
    coming, waiting = iter(candidates), list[tuple[frozenset[Hashable], T]]()
    for _ in range(count):
        batch: list[T] = []
        used: set[Hashable] = set()
        left: list[tuple[frozenset[Hashable], T]] = []
        queue = iter(waiting)
        for candidate in chain(queue, coming):
            if used.isdisjoint(candidate[0]):
                used |= candidate[0]
                batch.append(candidate[1])
                if len(batch) == size:
                    break
            else:
                left.append(candidate)
        waiting = left + list(queue)
        yield batch


def run_ahead(make: Callable[..., T], tasks: Iterable[tuple[Any, ...]], workers: int) -> Iterator[T]:
    """``make(*task)`` of each task in order, made in ``workers`` processes; 0 makes each when it is asked for.

    The processes are forked, so ``make`` need not be one that can be pickled. No more than twice as many results as
    workers wait, so that memory does not grow with the tasks. EncoderError: the system ended one of them.
    """
    if not workers:
        yield from (make(*task) for task in tasks)
        return
    waiting: deque[Future[T]] = deque()
    pool = ProcessPoolExecutor(workers, get_context("fork"), _made_by.append, (make,))
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
            remedy="give fewer of them (pair_workers), and go on with resume=...",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _make(*task: Any) -> Any:
    return _made_by[-1](*task)
