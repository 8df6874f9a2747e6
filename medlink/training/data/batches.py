"""Reproducible batches of texts for a trainer, and their prefetching in other processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from medlink.errors import EncoderError
from medlink.processes import forked_pool

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one step, over all processes.

    ``columns`` holds one list of n texts for each column of the loss. ``labels`` are the labels of the loss, ``(n,)``
    or ``(n, d)`` floats or ``(n, n)`` bool, ``None`` for a loss without labels.
    """

    columns: tuple[list[str], ...]
    labels: NDArray[Any] | None = None


class Batches(Protocol):
    """Batches by epoch; ``digest`` is a hash of data and settings that binds checkpoints to both."""

    digest: str

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch from number ``start`` on, the same in each call."""

    def batches_per_epoch(self) -> int:
        """Return the number of batches of each epoch."""


def chunked(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of ``size`` items; the last may be shorter."""
    source = iter(items)
    while part := list(islice(source, size)):
        yield part


@lru_cache(maxsize=6)  # two cycles of each of three streams may be in use at a time
def cycle_order(seed: int, stream: int, cycle: int, count: int) -> NDArray[np.int32]:
    """Return a random order of ``count`` items for a seed, stream and cycle."""
    return np.random.default_rng([seed, stream, cycle]).permutation(count).astype(np.int32)


def distinct_batches(candidates: Iterable[tuple[frozenset[Hashable], T]], size: int, count: int) -> Iterator[list[T]]:
    """Yield batches in which no two items share a key; an item that does not fit waits for the next batch.

    Args:
        candidates: keys and item; read no further than the batches need.

    Yields:
        ``count`` batches of ``size`` items in the order of the candidates, shorter ones when the candidates run out.
        Items that still wait then are dropped.
    """
    coming, waiting = iter(candidates), list[tuple[frozenset[Hashable], T]]()
    for _ in range(count):
        batch: list[T] = []
        used: set[Hashable] = set()
        left: list[tuple[frozenset[Hashable], T]] = []
        queue = iter(waiting)
        for keys, item in chain(queue, coming):
            if used.isdisjoint(keys):
                used |= keys
                batch.append(item)
                if len(batch) == size:
                    break
            else:
                left.append((keys, item))
        waiting = left + list(queue)
        yield batch


def prefetch(make: Callable[..., T], tasks: Iterable[tuple[Any, ...]], workers: int) -> Iterator[T]:
    """Yield ``make(*task)`` of each task in order, computed ahead in ``workers`` processes; 0 computes it here.

    The processes are forked, so ``make`` need not be picklable. At most twice as many results as workers wait, so
    memory does not grow with the tasks. EncoderError: the system killed a process.
    """
    if not workers:
        yield from (make(*task) for task in tasks)
        return
    waiting: deque[Future[T]] = deque()
    try:
        with forked_pool(make, workers) as submit:
            for task in tasks:
                waiting.append(submit(*task))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise EncoderError(
            "the system ended a process that made pairs, most likely for want of memory",
            remedy="give fewer of them (pair_workers), and go on with resume=...",
        ) from error
