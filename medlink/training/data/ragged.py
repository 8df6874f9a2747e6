"""Values grouped by owner, as two arrays; in memory, or mapped from a folder."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Int32Array = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


class Ragged(NamedTuple):
    """Values grouped by owner: owner ``i`` has ``values[offsets[i]:offsets[i + 1]]``."""

    offsets: NDArray[np.int64]
    values: Int32Array

    @classmethod
    def group(cls, owners: NDArray[Any], values: NDArray[Any], count: int) -> Ragged:
        """Group values by their owners ``0`` to ``count - 1``, in the order given."""
        order = np.argsort(owners, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))]).astype(np.int64)
        return cls(ends, values[order].astype(np.int32))

    @classmethod
    def open(cls, folder: Path, count: int) -> list[Ragged]:
        """Map the groups of :func:`write_ragged`; raises OSError or ValueError if a file is missing or damaged."""
        names = [(folder / f"{i}.offsets", folder / f"{i}.values") for i in range(count)]
        groups = [cls(_mapped(offsets, np.int64), _mapped(values, np.int32)) for offsets, values in names]
        if any(offsets[-1] != len(values) for offsets, values in groups):
            raise ValueError("a file is shorter than it was")
        return groups

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def owners(self) -> Int32Array:
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.offsets))

    def sizes(self, owners: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of values of each of n owners, 0 for an owner below 0."""
        sizes: NDArray[np.int64] = self.offsets[owners + 1] - self.offsets[owners]
        return np.where(owners < 0, 0, sizes)

    def where(self, mask: BoolArray) -> Ragged:
        """Return the values for which the mask is true."""
        before = np.concatenate([[0], np.cumsum(mask)])
        return Ragged(before[self.offsets].astype(np.int64), self.values[mask])

    def gather(self, owners: NDArray[Any]) -> tuple[Int32Array, NDArray[np.int64]]:
        """Return the values of n owners one after the other, and how many each has; an owner below 0 has none."""
        lengths = self.sizes(owners)
        ends = np.cumsum(lengths)
        index = np.arange(ends[-1] if len(ends) else 0)
        index += np.repeat(self.offsets[owners] - ends + lengths, lengths)
        return self.values[index], lengths

    def draw_positions(self, owners: Int32Array, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the position in ``values`` of a value of each of n owners, -1 for an owner without values.

        ``uniform`` ``(n,)``, in [0, 1), is the share of the owner's values before the drawn value.
        """
        sizes = self.sizes(owners)
        positions: NDArray[np.int64] = self.offsets[owners] + (uniform * sizes).astype(np.int64)
        return np.where(sizes > 0, positions, -1)

    def draw(self, owners: Int32Array, uniform: NDArray[np.float64]) -> Int32Array:
        """Draw a value of each of n owners as :meth:`draw_positions` does."""
        positions = self.draw_positions(owners, uniform)
        drawn = np.full(len(owners), -1, dtype=np.int32)
        drawn[positions >= 0] = self.values[positions[positions >= 0]]
        return drawn


def write_ragged(folder: Path, parts: Iterable[list[tuple[NDArray[Any], NDArray[Any]]]]) -> None:
    """Append groups to files that :meth:`Ragged.open` maps: the values of each part, and the length of each group."""
    totals: dict[int, int] = {}
    with ExitStack() as stack:
        open_file = cache(lambda name: stack.enter_context((folder / name).open("wb")))
        for part in parts:
            for i, (values, lengths) in enumerate(part):
                ends = np.cumsum(lengths, dtype=np.int64) + totals.get(i, 0)
                open_file(f"{i}.values").write(values.astype(np.int32).tobytes())
                open_file(f"{i}.offsets").write((ends if i in totals else np.append(0, ends)).tobytes())
                totals[i] = totals.get(i, 0) + len(values)


def _mapped(path: Path, kind: type) -> NDArray[Any]:
    # an empty file cannot be mapped, and NumPy's memmap class makes every slice slower
    return np.memmap(path, kind, "r").view(np.ndarray) if path.stat().st_size else np.zeros(0, kind)
