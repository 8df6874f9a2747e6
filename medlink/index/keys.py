"""Keys: numbers that mean the same thing, and sort alike, in both parts of an index.

The main part is sorted, and the key of a thing is its number there. What came later has the number of the main part
where that part knows it, else a fraction between its neighbours. So equal keys are the same name (or concept), and the
order of keys is that of exact forms (or concept ids), whatever part they stand in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Strings

Keys = NDArray[np.float64]


def keys_among(strings: Sequence[str] | Strings, main: Sequence[str] | Strings) -> Keys:
    """Keys ``(n,)`` of sorted strings among those, sorted as well, of the main part; they ascend.

    >>> keys_among(["a", "b", "c", "d"], ["b"]).tolist()
    [-0.75, 0.0, 0.5, 0.75]
    """
    found = [bisect_left(main, string) for string in strings]
    places = np.array(found, dtype=np.float64)
    known = (place < len(main) and main[place] == one for place, one in zip(found, strings, strict=True))
    new = np.flatnonzero(~np.fromiter(known, bool))
    places[new] += np.arange(1, len(new) + 1) / (len(new) + 1) - 1
    return places


class Numbering:
    """What is numbered in one part, by its keys.

    Args:
        count: how many there are.
        keys: ``(count,)`` their keys, ascending; without them the number is the key.

    >>> added = Numbering(2, np.array([0.5, 3.0]))
    >>> added.numbers(np.array([3.0, 1.0, 0.5])).tolist(), added.keys(np.array([1])).tolist()
    ([1, -1, 0], [3.0])
    >>> Numbering(4).numbers(np.array([3.0, 0.5, 4.0])).tolist()
    [3, -1, -1]
    """

    def __init__(self, count: int, keys: Keys | None = None) -> None:
        self.count, self._keys = count, keys

    def keys(self, numbers: NDArray[np.int64]) -> Keys:
        """Keys of numbers."""
        return numbers.astype(np.float64) if self._keys is None else self._keys[numbers]

    def numbers(self, keys: Keys) -> NDArray[np.int64]:
        """Numbers of keys, -1 where this part does not have them."""
        if not self.count:
            return np.full(len(keys), -1)
        at = keys.astype(np.int64) if self._keys is None else np.searchsorted(self._keys, keys)
        at = np.clip(at, 0, self.count - 1)
        return np.where(self.keys(at) == keys, at, -1)

    def key(self, number: int) -> float:
        """Key of one number."""
        return float(number if self._keys is None else self._keys[number])

    @property
    def new(self) -> int:
        """How many are not in the main part."""
        return self.count if self._keys is None else int((self._keys % 1 != 0).sum())
