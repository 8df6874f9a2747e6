"""What a kind of vector index is: vectors by row, and the rows with the largest inner product, by Faiss."""

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
    """Vectors of one width; the kinds differ in how the index is made and in how it is asked.

    Where the installed Faiss sees GPUs, an opened index lies on them as well, a share in 16 bits on each, and all of it
    is compared there. A search among allowed rows stays with the index itself: Faiss has no selectors on the GPU. With
    one of the ``threads`` that build it the same vectors give the same index.
    """

    kind: str
    embedding_type: type[np.floating[Any]] = np.float32
    """Type of the vectors that an index is built from: a kind that keeps only 16 bits is given no more."""
    keeps_near = True
    """Whether the nearest names of every name are kept beside the index; if not, they are searched for on demand."""
    _on_gpu: Any = None

    def __init__(self, dimension: int, *, threads: int = 1) -> None:
        self._threads = threads
        self._open(self._create(dimension))

    def _open(self, index: Any, folder: Path | None = None) -> None:
        """Take a Faiss index; ``folder`` is that of its file, where it has one."""
        self._index, self._storage = index, self._vectors_of(index)
        self.dimension = int(index.d)

    @classmethod
    @abstractmethod
    def bytes_per_name(cls, dimension: int) -> int:
        """Bytes of memory for each vector of so many dimensions, once all of the index was looked at."""

    @staticmethod
    def _create(dimension: int) -> Any:
        """An empty Faiss index, of kinds that need no training."""
        raise NotImplementedError  # cells are made when their first vectors come

    @staticmethod
    def _vectors_of(index: Any) -> Any:
        """The exact index within one that is searched in another way."""
        return index

    def _asked(self, k: int, allowed: NDArray[np.bool_] | None) -> tuple[Any, Any]:
        """The Faiss index that answers, and its parameters."""
        return self._storage, None if allowed is None else faiss().SearchParameters(sel=selector(allowed))

    def __len__(self) -> int:
        return int(self._storage.ntotal)

    def add(self, vectors: Vectors, progress: Callable[[int, int], object] | None = None) -> None:
        """Add vectors ``(n, dimension)`` to an index that was not opened from a file; rows are numbered on.

        ``progress`` is called with how many are in the index and how many will be.
        """
        before = faiss().omp_get_max_threads()
        faiss().omp_set_num_threads(self._threads)
        try:
            if len(vectors):
                with self._watched(len(vectors), progress):
                    self._index.add(np.ascontiguousarray(vectors, dtype=np.float32))
        finally:
            faiss().omp_set_num_threads(before)

    def _watched(self, count: int, progress: Callable[[int, int], object] | None) -> AbstractContextManager[None]:
        """Around the moment in which vectors are added: what tells how far that is, where it takes long."""
        return nullcontext()

    def search(self, vectors: Vectors, k: int, allowed: NDArray[np.bool_] | None = None) -> tuple[Rows, Vectors]:
        """The k rows with the largest inner product with each of the vectors ``(n, dimension)``, and these products.

        ``allowed (rows,)`` says which rows may come back; the others are skipped while it searches. Both are ``(n,
        k)``, best first, row -1 where there are fewer, or have as many columns as there are rows at all.
        """
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise ConfigError(f"vectors of shape {vectors.shape}, (n, {self.dimension}) expected")
        k = min(k, len(self))
        if k == 0 or not len(vectors):
            return np.full((len(vectors), k), -1, np.int64), np.zeros((len(vectors), k), np.float32)
        on_gpu = self._on_gpu is not None and allowed is None
        index, parameters = (self._on_gpu, None) if on_gpu else self._asked(k, allowed)
        scores, rows = index.search(np.ascontiguousarray(vectors, dtype=np.float32), k, params=parameters)
        return rows, scores

    def vectors(self, rows: Rows) -> Vectors:
        """Vectors of rows ``(n,)`` as ``(n, dimension)``, as they are stored; ``IndexError`` for a row there is not."""
        if not len(rows):
            return np.zeros((0, self.dimension), np.float32)
        if rows.min() < 0 or rows.max() >= len(self):
            raise IndexError("no vector of that number")  # Faiss would read beside them
        found: Vectors = self._storage.reconstruct_batch(np.ascontiguousarray(rows, dtype=np.int64))
        return found

    def save(self, folder: Path) -> None:
        """Write the index into one file of a folder; ``OSError`` where it cannot be written."""
        failed: list[OSError] = []
        # by Python: Faiss prints that a disk is full where it closes a file, and goes on
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
        """Open the file of a folder by memory-mapping, and copy its vectors to the GPUs where there are some."""
        if not (folder / FILE).exists():
            raise BundleError("a file of the index is missing", path=folder / FILE, remedy=REBUILD)
        opened = cls.__new__(cls)
        opened._load(folder / FILE)
        if gpu_count():
            opened._on_gpu = gpu_copy(lambda *rows: opened.vectors(np.arange(*rows)), len(opened), opened.dimension)
        return opened

    def _load(self, path: Path) -> None:
        with readable(path):
            self._open(faiss().read_index(str(path), faiss().IO_FLAG_MMAP_IFC), path.parent)

    def prepare(self) -> None:  # noqa: B027  # most kinds are mapped
        """Read at once what is read at the first search otherwise; processes that are forked later share it."""


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Let a file of vectors that Faiss cannot read be an error that says so."""
    try:
        yield
    except (RuntimeError, AttributeError) as error:
        cause = str(error).splitlines()[0]
        raise BundleError(f"the vectors cannot be read: {cause}", path=path, remedy=REBUILD) from error


def selector(allowed: NDArray[np.bool_]) -> Any:
    """What tells Faiss which rows may come back."""
    return faiss().IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
