"""Memory-mapped arrays and string tables in a folder: the storage of the whole index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from medlink.errors import BundleError

Array = NDArray[Any]
_PRODUCT_ROWS = 512  # rows multiplied at a time: they fit into the processor's cache
_BUFFERED = 1 << 14  # strings written at a time
REBUILD = "build the index again with build_bundle()"
"""Remedy for a missing or damaged file of an index."""


def save_array(folder: Path, name: str, array: Array) -> None:
    """Write an array ``(n,)`` or ``(n, width)`` as ``name.npy``; an :class:`OSError` names the file and the cause."""
    with ArrayWriter(folder, name, array.dtype, *array.shape[1:]) as writer:
        writer.append(array)


class ArrayWriter:
    """Write ``name.npy`` block by block; a context manager.

    Blocks are ``(n, width)``, or ``(n,)`` without ``width``, and are converted to ``dtype``.
    """

    def __init__(self, folder: Path, name: str, dtype: DTypeLike, width: int | None = None) -> None:
        self._dtype, self._width, self._count = np.dtype(dtype), width, 0
        self._path = folder / f"{name}.npy"
        self._file = open(self._path, "wb")  # noqa: SIM115  # closed by __exit__
        self._write_header()

    def _write_header(self) -> None:
        # NumPy pads the header: its length is the same for any count
        shape = (self._count,) if self._width is None else (self._count, self._width)
        kind = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, kind)  # type: ignore[no-untyped-call]  # NumPy has no types there

    def append(self, block: Array) -> None:
        if block.size:
            with self._naming_file():
                self._file.write(np.ascontiguousarray(block, dtype=self._dtype).data.cast("B"))
        self._count += len(block)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._naming_file(), self._file:
            self._file.seek(0)
            self._write_header()

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error


def open_array(folder: Path, name: str) -> Array:
    """Memory-map ``name.npy``, read-only; raise :class:`BundleError` where it is missing or damaged."""
    path = folder / f"{name}.npy"
    try:
        # An empty array cannot be mapped.
        array: Array = np.load(path, mmap_mode="r" if path.stat().st_size > 128 else None, allow_pickle=False)
        # A plain view: NumPy's memmap class makes every slice ten times slower.
        return array.view(np.ndarray)
    except FileNotFoundError:
        raise BundleError("a file of the index is missing", path=path, remedy=REBUILD) from None
    except Exception as error:  # NumPy parses a damaged header as Python: any error may follow
        raise BundleError(f"a file of the index is damaged: {error}", path=path, remedy=REBUILD) from error


def row_products(left: Array, left_rows: NDArray[np.int64], right: Array, right_rows: NDArray[np.int64]) -> Array:
    """Compute inner products ``(p,)`` of pairs of rows of matrices ``(n, d)`` and ``(m, d)``; rows are ``(p,)`` each.

    The rounding of a product does not depend on the other pairs.
    """
    products = np.empty(len(left_rows), dtype=np.result_type(left, right))
    for start in range(0, len(left_rows), _PRODUCT_ROWS):
        block = slice(start, start + _PRODUCT_ROWS)
        products[block] = np.einsum("ij,ij->i", left[left_rows[block]], right[right_rows[block]])
    return products


class StringArray:
    """A list of strings, memory-mapped: UTF-8 bytes and offsets."""

    def __init__(self, folder: Path, name: str) -> None:
        # str() of a slice of a memoryview decodes without a copy
        self._bytes = open_array(folder, f"{name}.bytes").data
        self._offsets = open_array(folder, f"{name}.ends")

    @staticmethod
    def save(folder: Path, name: str, strings: Iterable[str]) -> None:
        with StringWriter(folder, name) as writer:
            for string in strings:
                writer.append(string)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> str:
        return str(self._bytes[self._offsets[index] : self._offsets[index + 1]], "utf-8")

    def take(self, indices: Array) -> list[str]:
        """Return the strings at many indices, faster than one by one."""
        content = self._bytes
        ends = zip(self._offsets[indices].tolist(), self._offsets[indices + 1].tolist(), strict=True)
        return [str(content[start:end], "utf-8") for start, end in ends]

    def sizes(self, indices: Array) -> tuple[Array, Array]:
        """Count the characters and the blanks ``(n,)`` of the strings at many indices."""
        owner, content = RaggedArray(self._offsets, np.frombuffer(self._bytes, np.uint8)).take(indices)
        # bytes that continue a character of UTF-8 begin with the bits 10
        letters = np.bincount(owner[(content & 0xC0) != 0x80], minlength=len(indices))
        return letters, np.bincount(owner[content == ord(" ")], minlength=len(indices))


class StringWriter:
    """Write strings for :class:`StringArray` to read; a context manager."""

    def __init__(self, folder: Path, name: str) -> None:
        self._bytes = ArrayWriter(folder, f"{name}.bytes", np.uint8)
        self._offsets = ArrayWriter(folder, f"{name}.ends", np.int64)
        self._buffer, self._end = list[bytes](), 0
        self._offsets.append(np.zeros(1, np.int64))

    def append(self, string: str) -> None:
        self._buffer.append(string.encode("utf-8"))
        if len(self._buffer) == _BUFFERED:
            self._flush()

    def _flush(self) -> None:
        ends = self._end + np.cumsum(np.fromiter(map(len, self._buffer), np.int64, len(self._buffer)))
        self._bytes.append(np.frombuffer(b"".join(self._buffer), dtype=np.uint8))
        self._offsets.append(ends)
        self._end = int(ends[-1]) if len(ends) else self._end
        self._buffer.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._bytes, self._offsets:
            self._flush()


class RaggedArray:
    """Lists of numbers in one array: list i is ``values[offsets[i]:offsets[i + 1]]``. Without ``values`` the lists hold
    the positions themselves.

    >>> lists = RaggedArray(np.array([0, 2, 2, 3]), np.array([3, 1, 2]))
    >>> [lists[i] for i in range(3)], [list(RaggedArray(lists.offsets)[i]) for i in range(3)]
    ([[3, 1], [], [2]], [[0, 1], [], [2]])
    """

    def __init__(self, offsets: Array, values: Array | None = None) -> None:
        self.offsets, self._values = offsets, values

    @classmethod
    def open(cls, folder: Path, name: str) -> RaggedArray:
        return cls(open_array(folder, f"{name}.ends"), open_array(folder, f"{name}.values"))

    @classmethod
    def by_owner(cls, owner: NDArray[np.int64], count: int) -> RaggedArray:
        """List, for each of ``count`` owners, its positions in an ascending column of owners."""
        return cls(np.searchsorted(owner, np.arange(count + 1)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Sequence[int]:
        start, end = self.offsets[index], self.offsets[index + 1]
        numbers: Sequence[int] = range(start, end) if self._values is None else self._values[start:end].tolist()
        return numbers

    def take(self, indices: Array) -> tuple[Array, Array]:
        """Return each number ``(m,)`` of many lists, with the ``position (m,)`` of its list in ``indices``.

        Raises:
            BundleError: a list ends before it begins, or after the last number. In a damaged file, such a list would
                take all memory.
        """
        starts, stops = self.offsets[indices], self.offsets[np.asarray(indices) + 1]
        if np.any(stops < starts) or np.any(stops > self.offsets[-1]):
            raise BundleError("a file of the index is damaged: its lists do not follow one another", remedy=REBUILD)
        counts = stops - starts
        position = np.repeat(np.arange(len(indices)), counts)
        at = np.arange(len(position)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        return position, at if self._values is None else self._values[at]

    def holding(self, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mark the lists ``(n,)`` that hold a number for which ``wanted`` is true."""
        sums = np.concatenate([[0], np.cumsum(wanted if self._values is None else wanted[self._values])])
        held: NDArray[np.bool_] = sums[self.offsets[1:]] > sums[self.offsets[:-1]]
        return held
