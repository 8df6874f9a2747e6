"""Two parts of a saved index seen as one: what was there, and what was added later.

Of ``k`` things in the added part the first ``r`` stand in place of things of the main part, whose numbers ``replaced
(r,)`` ascend; the others are numbered on after the ``n`` of the main part. So a number below ``n`` means what it always
meant, and the main part, which other processes have mapped, is never written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Array, Groups, Ranges, Strings, open_array

NONE = np.zeros(0, dtype=np.int64)


class Numbering:
    """Which numbers are those of the added part, and where they stand in it.

    Args:
        count: things in the main part.
        replaced: ``(r,)`` their numbers that the added part begins with, ascending.

    >>> numbering = Numbering(3, np.array([1]))
    >>> [numbering.one(i) for i in range(5)], numbering.many(np.arange(5)).tolist()
    ([-1, 0, -1, 1, 2], [-1, 0, -1, 1, 2])
    """

    def __init__(self, count: int, replaced: Array = NONE) -> None:
        self.count = count
        self.replaced = np.asarray(replaced)
        self._places = {number: place for place, number in enumerate(self.replaced.tolist())}

    def one(self, number: int) -> int:
        """Place of a number in the added part, -1 where it is one of the main part."""
        if number >= self.count:
            return int(number) - self.count + len(self._places)
        return self._places.get(int(number), -1) if self._places else -1

    def many(self, numbers: Array) -> NDArray[np.int64]:
        """Places of numbers ``(m,)`` in the added part, -1 for those of the main part."""
        places = np.where(numbers >= self.count, numbers - (self.count - len(self._places)), -1)
        if self._places:
            at = np.minimum(np.searchsorted(self.replaced, numbers), len(self.replaced) - 1)
            places = np.where(self.replaced[at] == numbers, at, places)
        return places.astype(np.int64)


class JoinedArray:
    """Arrays ``main (n, ...)`` and ``added (k, ...)`` as one of ``n + k - r`` rows.

    >>> joined = JoinedArray(np.array([5, 6]), np.array([60, 7]), np.array([1]))
    >>> len(joined), joined[2], joined[np.array([0, 1, 2])].tolist(), np.asarray(joined).tolist()
    (3, 7, [5, 60, 7], [5, 60, 7])
    """

    def __init__(self, main: Array, added: Array, replaced: Array = NONE) -> None:
        self.main, self.added = main, added
        self._numbering = Numbering(len(main), replaced)

    def __len__(self) -> int:
        return len(self.main) + len(self.added) - len(self._numbering.replaced)

    def __array__(self, dtype: np.dtype[np.generic] | None = None, copy: bool | None = None) -> Array:
        whole = self[np.arange(len(self))]
        return whole if dtype is None else whole.astype(dtype)

    def __getitem__(self, index: int | Array) -> Array:
        if not isinstance(index, np.ndarray):
            place = self._numbering.one(index)
            row: Array = self.main[index] if place < 0 else self.added[place]
            return row
        places = self._numbering.many(index)
        mine = places >= 0
        out = np.empty((len(index), *self.main.shape[1:]), dtype=self.main.dtype)
        out[~mine], out[mine] = self.main[index[~mine]], self.added[places[mine]]
        return out


class JoinedStrings:
    """Strings of two parts; the added ones are numbered on.

    >>> import tempfile; from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, strings in (("a", ["liver"]), ("b", ["Ödem", "ren"])): Strings.save(folder, name, strings)
    >>> joined = JoinedStrings(Strings(folder, "a"), Strings(folder, "b"))
    >>> list(joined), joined.many(np.array([2, 0]))
    (['liver', 'Ödem', 'ren'], ['ren', 'liver'])
    """

    def __init__(self, main: Strings, added: Strings) -> None:
        self._main, self._added = main, added

    def __len__(self) -> int:
        return len(self._main) + len(self._added)

    def __iter__(self) -> Iterator[str]:
        yield from self._main
        yield from self._added

    def __getitem__(self, index: int) -> str:
        count = len(self._main)
        return self._main[index] if index < count else self._added[index - count]

    def many(self, indices: Array) -> list[str]:
        """Strings of an array of indices."""
        later = indices >= len(self._main)
        found = iter(self._main.many(indices[~later]))
        added = iter(self._added.many(indices[later] - len(self._main)))
        return [next(added if is_later else found) for is_later in later.tolist()]


class JoinedGroups:
    """Lists of numbers of two parts.

    >>> import tempfile; from pathlib import Path; from medlink.index.arrays import save_groups
    >>> folder = Path(tempfile.mkdtemp())
    >>> save_groups(folder, "g", [[0, 1, 3], [2]])
    >>> joined = JoinedGroups(Ranges(np.array([0, 2, 3])), Groups(folder, "g"), np.array([0]))
    >>> [list(joined[i]) for i in range(3)], [part.tolist() for part in joined.many(np.array([2, 1, 0]))]
    ([[0, 1, 3], [2], [2]], [[0, 1, 2, 2, 2], [2, 2, 0, 1, 3]])
    >>> joined.holding(np.array([False, False, False, True])).tolist()
    [True, False, False]
    """

    def __init__(self, main: Ranges | Groups, added: Groups, replaced: Array = NONE) -> None:
        self._main, self._added = main, added
        self._numbering = Numbering(len(main), replaced)

    def __len__(self) -> int:
        return len(self._main) + len(self._added) - len(self._numbering.replaced)

    def __getitem__(self, index: int) -> Sequence[int]:
        place = self._numbering.one(index)
        return self._main[index] if place < 0 else self._added[place]

    def many(self, indices: Array) -> tuple[Array, Array]:
        """Numbers of many lists: ``position (m,)`` in ``indices`` and number ``(m,)``."""
        indices = np.asarray(indices)
        places = self._numbering.many(indices)
        own, later = np.flatnonzero(places < 0), np.flatnonzero(places >= 0)
        position, number = self._main.many(indices[own])
        position_later, number_later = self._added.many(places[later])
        position = np.concatenate([own[position], later[position_later]])
        order = np.argsort(position, kind="stable")
        return position[order], np.concatenate([number, number_later])[order]

    def holding(self, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which lists hold a number that is wanted; ``wanted`` is asked by number."""
        later = self._added.holding(wanted)
        # the numbers of a list of ranges are those of the main part, which come first
        held = np.concatenate([self._main.holding(wanted), later[len(self._numbering.replaced) :]])
        held[self._numbering.replaced] = later[: len(self._numbering.replaced)]
        return held


def open_column(folder: Path, name: str, added: Path | None, replaced: Array = NONE) -> Array | JoinedArray:
    """The array ``name`` of a folder, joined with that of the added part where there is one."""
    main = open_array(folder, name)
    return main if added is None else JoinedArray(main, open_array(added, name), replaced)


def open_strings(folder: Path, name: str, added: Path | None) -> Strings | JoinedStrings:
    """The strings ``name`` of a folder, joined with those of the added part where there is one."""
    main = Strings(folder, name)
    return main if added is None else JoinedStrings(main, Strings(added, name))


class Order:
    """Keys by which numbers sort as the things do that they stand for.

    The main part is numbered in order. A thing that came later has a fraction as its key: of ``count`` and more the
    one with number ``count + i`` sorts at ``keys[i]``.

    >>> order = Order(3, np.array([0.5, -0.5]))
    >>> order(np.array([2, 3, 0, 4])).tolist()
    [2.0, 0.5, 0.0, -0.5]
    """

    def __init__(self, count: int, keys: Array) -> None:
        self._count, self._keys = count, keys

    def __call__(self, numbers: Array) -> Array:
        keys = numbers.astype(np.float64)
        later = numbers >= self._count
        keys[later] = self._keys[numbers[later] - self._count]
        return keys

    @staticmethod
    def between(places: Sequence[int]) -> NDArray[np.float64]:
        """Keys of things that came later, in their order, from the number before which each would stand.

        >>> Order.between([0, 2, 2]).tolist()
        [-0.75, 1.5, 1.75]
        """
        count = len(places)
        return np.asarray(places, dtype=np.float64) - 1 + np.arange(1, count + 1) / (count + 1)
