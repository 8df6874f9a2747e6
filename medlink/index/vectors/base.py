"""The base of all kinds of vector index: search the rows with the largest inner product, by Faiss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError, ConfigError
from medlink.index.arrays import REBUILD
from medlink.index.vectors.library import faiss, gpu_copy, gpu_count

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]
FILE = "vectors.faiss"


class VectorIndex(ABC):
    """Vectors of one width; the kinds differ in how the index is built and searched.

    If Faiss sees GPUs, a loaded index is copied to them, a share in 16 bits to each, and searched there exhaustively. A
    search among allowed rows stays on the CPU: Faiss has no selectors on the GPU. A build with one thread is
    reproducible.
    """

    embedding_type: type[np.floating[Any]] = np.float32
    """Type of the vectors that an index is built from: float16 for a kind that stores no more."""
    keeps_near = True
    """Whether the nearest names of each name are stored beside the index; if not, they are searched on demand."""
    _on_gpu: Any = None

    def __init__(self, dimension: int, *, threads: int = 1) -> None:
        self._threads = threads
        self._open(self._create(dimension))

    def _open(self, index: Any) -> None:
        self._index, self._storage = index, self._vectors_of(index)
        self.dimension = int(index.d)

    @classmethod
    @abstractmethod
    def bytes_per_name(cls, dimension: int) -> int:
        """Return the bytes of memory per vector, once all of the index has been read."""

    @staticmethod
    def _create(dimension: int) -> Any:
        """An empty Faiss index; kinds that must be trained build theirs in another way."""
        raise NotImplementedError  # a trained kind has its own way, and never comes here

    @staticmethod
    def _vectors_of(index: Any) -> Any:
        return index

    def _searcher(self, k: int, allowed: NDArray[np.bool_] | None) -> tuple[Any, Any]:
        return self._storage, None if allowed is None else faiss().SearchParameters(sel=selector(allowed))

    def __len__(self) -> int:
        return int(self._storage.ntotal)

    def add(self, vectors: Vectors, progress: Callable[[int, int], object] | None = None) -> None:
        """Append vectors ``(n, dimension)`` to an index that was not opened from a file.

        ``progress`` gets the number of vectors in the index, and their total.
        """
        if len(vectors):
            with faiss_threads(self._threads), self._reporting(len(vectors), progress):
                self._index.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def _reporting(self, count: int, progress: Callable[[int, int], object] | None) -> AbstractContextManager[None]:
        """Report progress while vectors are added, where that takes long."""
        return nullcontext()

    def search(self, vectors: Vectors, k: int, allowed: NDArray[np.bool_] | None = None) -> tuple[Rows, Vectors]:
        """Find the k rows with the largest inner products with each of the vectors ``(n, dimension)``.

        The search skips rows that are not ``allowed (rows,)``.

        Returns:
            Rows and inner products, both ``(n, min(k, rows))``, best first; row -1 where there are fewer.
        """
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise ConfigError(f"vectors of shape {vectors.shape}, (n, {self.dimension}) expected")
        k = min(k, len(self))
        if k == 0 or not len(vectors):
            return np.full((len(vectors), k), -1, np.int64), np.zeros((len(vectors), k), np.float32)
        on_gpu = self._on_gpu is not None and allowed is None
        index, parameters = (self._on_gpu, None) if on_gpu else self._searcher(k, allowed)
        scores, rows = index.search(np.ascontiguousarray(vectors, dtype=np.float32), k, params=parameters)
        return rows, scores

    def vectors(self, rows: Rows) -> Vectors:
        """Return the stored vectors ``(n, dimension)`` of rows ``(n,)``; ``IndexError`` if a row does not exist."""
        if not len(rows):
            return np.zeros((0, self.dimension), np.float32)
        if rows.min() < 0 or rows.max() >= len(self):
            raise IndexError("no vector of that number")  # Faiss would read outside its memory
        vectors: Vectors = self._storage.reconstruct_batch(np.ascontiguousarray(rows, dtype=np.int64))
        return vectors

    def save(self, folder: Path) -> None:
        failed: list[OSError] = []
        # Faiss itself ignores a full disk
        with open(folder / FILE, "wb", buffering=0) as file:

            def write(content: bytes) -> None:
                view = memoryview(content)
                try:
                    while view and not failed:
                        view = view[file.write(view) :]
                except OSError as error:
                    failed.append(error)

            faiss().write_index(self._index, faiss().PyCallbackIOWriter(write))
        if failed:
            raise failed[0]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open the file of a folder by memory-mapping, and copy its vectors to the GPUs, if any."""
        if not (folder / FILE).exists():
            raise BundleError("a file of the index is missing", path=folder / FILE, remedy=REBUILD)
        opened = cls.__new__(cls)
        opened._load(folder / FILE)
        if gpu_count():
            opened._on_gpu = gpu_copy(lambda *rows: opened.vectors(np.arange(*rows)), len(opened), opened.dimension)
        return opened

    def _load(self, path: Path) -> None:
        with reporting_unreadable(path):
            self._open(faiss().read_index(str(path), faiss().IO_FLAG_MMAP_IFC))

    def prepare(self) -> None:  # noqa: B027  # most kinds are mapped
        """Read what the first search needs, so that processes forked later share it."""


@contextmanager
def faiss_threads(threads: int) -> Iterator[None]:
    """Set the number of threads of Faiss during a block."""
    before = faiss().omp_get_max_threads()
    faiss().omp_set_num_threads(threads)
    try:
        yield
    finally:
        faiss().omp_set_num_threads(before)


@contextmanager
def reporting_unreadable(path: Path) -> Iterator[None]:
    """Raise :class:`BundleError` for a file that Faiss cannot read."""
    try:
        yield
    except (RuntimeError, AttributeError) as error:
        cause = str(error).splitlines()[0]
        raise BundleError(f"the vectors cannot be read: {cause}", path=path, remedy=REBUILD) from error


def selector(allowed: NDArray[np.bool_]) -> Any:
    """Return the Faiss selector of the allowed rows."""
    return faiss().IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
