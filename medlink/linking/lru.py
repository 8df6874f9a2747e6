"""A cache of values computed in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K")
V = TypeVar("V")


class BatchCache(Generic[K, V]):
    """A bounded least-recently-used cache that threads may share."""

    def __init__(self, size: int) -> None:
        self._values: LRUCache[K, V] = LRUCache(size)
        self._lock = Lock()

    def get(self, keys: Iterable[K], compute: Callable[[list[K]], Iterable[V]]) -> dict[K, V]:
        """Return the values of distinct keys; call ``compute``, which must keep order, once with the missing keys."""
        keys = list(keys)
        with self._lock:
            values = {key: self._values[key] for key in keys if key in self._values}
        missing = [key for key in keys if key not in values]
        if missing:
            computed = dict(zip(missing, compute(missing), strict=True))
            with self._lock:
                self._values.update(computed)
            values |= computed
        return values
