"""Values that are worked out for many keys at once, and kept for those met last."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """A bounded cache that threads may share."""

    def __init__(self, size: int) -> None:
        self.kept: LRUCache[K, V] = LRUCache(size)
        self._lock = Lock()

    def get(self, keys: Iterable[K], find: Callable[[list[K]], Iterable[V]]) -> dict[K, V]:
        """The values of distinct keys; ``find`` gives those of the keys that are not kept, in their order."""
        keys = list(keys)
        with self._lock:
            found = {key: self.kept[key] for key in keys if key in self.kept}
        new = [key for key in keys if key not in found]
        if new:
            made = dict(zip(new, find(new), strict=True))
            with self._lock:
                self.kept.update(made)
            found |= made
        return found
