"""Reproducible batches for a trainer, in which numbers stand for texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class Texts(Protocol):
    """Texts in the order of their numbers, from 0; ``digest`` is a hash of them."""

    @property
    def digest(self) -> str: ...

    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True)
class TextList:
    """:class:`Texts` in memory."""

    texts: Sequence[str]
    digest: str

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one step, over all processes.

    ``columns`` holds, for each column of the loss, the numbers of n texts ``(n,)``, or of the parts of n texts
    ``(n, p)``, with -1 for none. The labels of the loss are ``(n,)`` or ``(n, d)`` floats or ``(n, n)`` bool.
    """

    columns: tuple[NDArray[Any], ...]
    labels: NDArray[Any]


class Batches(Protocol):
    """Batches by epoch; ``digest`` is a hash of data and settings that binds checkpoints to both.

    ``texts`` is ``None`` if the numbers themselves are the inputs of the model.
    """

    @property
    def digest(self) -> str: ...

    @property
    def texts(self) -> Texts | None: ...

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


def draw_cycles(
    seed: int, stream: int, positions: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the items at positions of a stream, and their cycles; each cycle has ``count`` items in a new order."""
    cycles, places = np.divmod(positions, count)
    items = np.empty(len(positions), np.int32)
    for cycle in np.unique(cycles).tolist():
        here = cycles == cycle
        items[here] = cycle_order(seed, stream, cycle, count)[places[here]]
    return items, cycles


def shared_keys(rows: NDArray[Any], keys: NDArray[Any], size: int, count: int) -> Iterator[NDArray[np.bool_]]:
    """Yield which rows share a key, ``(size, size)``, true on the diagonal, for each of ``count`` batches.

    Row ``rows[i]``, numbered over all batches, has the key ``keys[i]``, among others.

    >>> [mask] = shared_keys(np.array([0, 0, 1, 2]), np.array([7, 8, 9, 8]), 3, 1)
    >>> mask.astype(int).tolist()
    [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    """
    distinct, number = np.unique(keys, return_inverse=True)
    _, group, counts = np.unique(rows // size * len(distinct) + number, return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(counts[group] > 1)
    repeated = repeated[np.argsort(rows[repeated], kind="stable")]
    rows, group = rows[repeated], group[repeated]
    bounds = np.searchsorted(rows, size * np.arange(count + 1)).tolist()
    for batch, (start, stop) in enumerate(pairwise(bounds)):
        shared = np.eye(size, dtype=np.bool_)
        own, row = group[start:stop], rows[start:stop] - batch * size
        first, second = np.nonzero(own[:, None] == own)
        shared[row[first], row[second]] = True
        yield shared
