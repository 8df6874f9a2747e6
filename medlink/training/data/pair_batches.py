"""Batches in which no pair is a false negative of another."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

T = TypeVar("T")


def distinct_batches(candidates: Iterable[tuple[frozenset[Hashable], T]], size: int, count: int) -> Iterator[list[T]]:
    """Batches of which no two items share a key; an item that does not fit waits for the next batch.

    Args:
        candidates: items with the keys that they take up: read only as far as batches need them.
        size: items in a batch.
        count: batches.

    Yields:
        ``count`` batches of ``size`` items, in the order of the candidates; shorter ones where the candidates run out.
        Items that still wait then are dropped.

    >>> items = [(frozenset("a"), 1), (frozenset("ab"), 2), (frozenset("c"), 3), (frozenset("d"), 4)]
    >>> list(distinct_batches(items, 2, 2))
    [[1, 3], [2, 4]]
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
