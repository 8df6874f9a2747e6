"""Memory-mapped arrays and string tables in a folder: what every part of the index is stored in."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from medlink.errors import BundleError

Array = NDArray[Any]
_TOGETHER = 512  # rows that are multiplied at a time: they stay in the caches of a processor
_BLANK = ord(" ")
_WAITING = 1 << 14  # strings that are written at a time
REBUILD = "build the index again with build_bundle()"
"""What helps where a file of an index is missing or damaged."""


def save_array(folder: Path, name: str, array: Array) -> None:
    """Write one array as ``name.npy``; an :class:`OSError` has the file and the reason of the system."""
    path = folder / f"{name}.npy"
    try:
        np.save(path, np.ascontiguousarray(array), allow_pickle=False)
    except OSError as error:
        if error.errno is None:  # NumPy says how many values were written, and not why no more
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise


class ArrayWriter:
    """Writes an array as ``name.npy``, block by block; the file is that of :func:`save_array` for the whole array.

    Use it in a ``with`` statement, which closes it. Blocks are converted to ``dtype``; with ``width`` their rows have
    so many columns, else they are lists of numbers.
    """

    def __init__(self, folder: Path, name: str, dtype: DTypeLike, width: int | None = None) -> None:
        self._dtype, self._width, self._count = np.dtype(dtype), width, 0
        self._path = folder / f"{name}.npy"
        self._file = open(self._path, "wb")  # noqa: SIM115  # closed by __exit__
        self._header()

    def _header(self) -> None:
        # NumPy leaves room for a larger first number, so that a header that is written again is as long
        shape = (self._count,) if self._width is None else (self._count, self._width)
        kind = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, kind)  # type: ignore[no-untyped-call]  # NumPy has no types there

    def append(self, block: Array) -> None:
        if len(block):
            with self._named():
                self._file.write(np.ascontiguousarray(block, dtype=self._dtype).data.cast("B"))
        self._count += len(block)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._named(), self._file:
            self._file.seek(0)
            self._header()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error


def open_array(folder: Path, name: str) -> Array:
    """Memory-map ``name.npy``, read-only; :class:`BundleError` where it is missing or no array."""
    path = folder / f"{name}.npy"
    try:
        # An empty array cannot be mapped.
        array: Array = np.load(path, mmap_mode="r" if path.stat().st_size > 128 else None, allow_pickle=False)
        # A plain view: NumPy's memmap class makes every slice ten times slower.
        return array.view(np.ndarray)
    except FileNotFoundError:
        raise BundleError("a file of the index is missing", path=path, remedy=REBUILD) from None
    except Exception as error:  # NumPy parses a damaged header as Python: tokens, syntax, memory, whatever it is
        raise BundleError(f"a file of the index is damaged: {error}", path=path, remedy=REBUILD) from error


def row_products(one: Array, rows: NDArray[np.int64], other: Array, others: NDArray[np.int64]) -> Array:
    """Inner products ``(p,)`` of rows of two matrices ``(n, d)`` and ``(m, d)``, given by their numbers ``(p,)`` each.

    Pair by pair: an inner product does not depend on what else is asked.
    """
    found = np.empty(len(rows), dtype=np.result_type(one, other))
    for start in range(0, len(rows), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        found[part] = np.einsum("ij,ij->i", one[rows[part]], other[others[part]])
    return found


class Strings:
    """A list of strings, memory-mapped: UTF-8 bytes and offsets."""

    def __init__(self, folder: Path, name: str) -> None:
        # str() of a piece of a memoryview decodes without a copy
        self._bytes = open_array(folder, f"{name}.bytes").data
        self._ends = open_array(folder, f"{name}.ends")

    @staticmethod
    def save(folder: Path, name: str, strings: Iterable[str]) -> None:
        with StringsWriter(folder, name) as writer:
            for string in strings:
                writer.append(string)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> str:
        return str(self._bytes[self._ends[index] : self._ends[index + 1]], "utf-8")

    def many(self, indices: Array) -> list[str]:
        """Strings of an array of indices; for more than a few quicker than one by one."""
        content = self._bytes
        starts, ends = self._ends[indices].tolist(), self._ends[indices + 1].tolist()
        return [str(content[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)]

    def sizes(self, indices: Array) -> tuple[Array, Array]:
        """Characters and blanks ``(n,)`` of each string of an array of indices."""
        which, content = Groups(self._ends, np.frombuffer(self._bytes, np.uint8)).many(indices)
        # what goes on with a character of UTF-8 begins with the bits 10
        letters = np.bincount(which[(content & 0xC0) != 0x80], minlength=len(indices))
        return letters, np.bincount(which[content == _BLANK], minlength=len(indices))


class StringsWriter:
    """Writes strings one after the other, for :class:`Strings` to read; use it in ``with``, which closes it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._bytes = ArrayWriter(folder, f"{name}.bytes", np.uint8)
        self._ends = ArrayWriter(folder, f"{name}.ends", np.int64)
        self._waiting: list[bytes] = []
        self._end = 0
        self._ends.append(np.zeros(1, np.int64))

    def append(self, string: str) -> None:
        self._waiting.append(string.encode("utf-8"))
        if len(self._waiting) == _WAITING:
            self._flush()

    def _flush(self) -> None:
        ends = self._end + np.cumsum(np.fromiter(map(len, self._waiting), np.int64, len(self._waiting)))
        self._bytes.append(np.frombuffer(b"".join(self._waiting), dtype=np.uint8))
        self._ends.append(ends)
        self._end = int(ends[-1]) if len(ends) else self._end
        self._waiting.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._bytes, self._ends:
            self._flush()


def save_groups(folder: Path, name: str, groups: Sequence[Sequence[int]], dtype: type = np.int32) -> None:
    """Write lists of numbers one after the other (compressed rows)."""
    save_array(folder, f"{name}.values", np.fromiter((v for group in groups for v in group), dtype=dtype))
    save_array(folder, f"{name}.ends", np.cumsum([0, *map(len, groups)], dtype=np.int64))


class Groups:
    """Lists of numbers: list i is ``values[ends[i]:ends[i + 1]]``; without values they are their own places, which
    count on.

    >>> groups = Groups(np.array([0, 2, 2, 3]), np.array([3, 1, 2]))
    >>> [groups[i] for i in range(3)], [list(Groups(groups.ends)[i]) for i in range(3)]
    ([[3, 1], [], [2]], [[0, 1], [], [2]])
    """

    def __init__(self, ends: Array, values: Array | None = None) -> None:
        self.ends, self._values = ends, values

    @classmethod
    def open(cls, folder: Path, name: str) -> Groups:
        return cls(open_array(folder, f"{name}.ends"), open_array(folder, f"{name}.values"))

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, index: int) -> Sequence[int]:
        start, end = self.ends[index], self.ends[index + 1]
        found: Sequence[int] = range(start, end) if self._values is None else self._values[start:end].tolist()
        return found

    def many(self, indices: Array) -> tuple[Array, Array]:
        """Numbers of many lists: ``position (m,)`` in ``indices`` and number ``(m,)``.

        A list that ends before it begins or behind the last one is a :class:`BundleError`: its file is damaged, and
        what it says would take all memory.
        """
        starts, stops = self.ends[indices], self.ends[np.asarray(indices) + 1]
        if np.any(stops < starts) or np.any(stops > self.ends[-1]):
            raise BundleError("a file of the index is damaged: its lists do not follow one another", remedy=REBUILD)
        counts = stops - starts
        position = np.repeat(np.arange(len(indices)), counts)
        at = np.arange(len(position)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        return position, at if self._values is None else self._values[at]

    def holding(self, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which lists ``(n,)`` hold a number that is wanted; ``wanted`` is asked by number."""
        sums = np.concatenate([[0], np.cumsum(wanted if self._values is None else wanted[self._values])])
        held: NDArray[np.bool_] = sums[self.ends[1:]] > sums[self.ends[:-1]]
        return held
