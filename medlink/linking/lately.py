"""What a linker found lately, for the next call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

_V = TypeVar("_V")


class Lately(dict[bytes, _V]):
    """Values by hashes of texts, so that no word of a note is kept; the ``most`` that were met last.

    >>> lately = Lately(2)
    >>> for found in ({b"a": 1, b"b": 2}, {b"a": 1}, {b"c": 3}):
    ...     lately.meet(found)
    >>> sorted(lately)
    [b'a', b'c']
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def meet(self, found: Mapping[bytes, _V]) -> None:
        """Keep what was found, whether it was kept before or not, longer than what is there else."""
        for digest in found:
            self.pop(digest, None)
        self.update(found)
        while len(self) > self._most:
            del self[next(iter(self))]
