"""Dense candidates: inner product of unit vectors by Faiss, memory-mapped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError, ConfigError
from medlink.index.names import Selection

KINDS = ("flat", "hnsw")
FLAT_LIMIT = 50_000
"""Names up to which exact search is chosen."""
_FILE = "vectors.faiss"
_LINKS = 32
_BUILD_WIDTH = 80
_SEARCH_WIDTH = 64
_FEW = 8  # rows that half the width finds as well
_SMALL = 10_000  # a selection of so few rows is searched exactly, whatever the kind


def _faiss() -> Any:
    import faiss

    if not _Fork.known:
        _Fork.known = True
        # OpenMP's threads do not survive a fork; a child that starts them again hangs.
        os.register_at_fork(after_in_child=lambda: faiss.omp_set_num_threads(1))
    return faiss


class _Fork:
    known = False


def gpu_count() -> int:
    """GPUs that the installed Faiss can use; 0 for faiss-cpu."""
    return int(getattr(_faiss(), "get_num_gpus", int)())


class DenseIndex:
    """Unit vectors of all names.

    Args:
        folder: folder that :meth:`build` filled.

    Where faiss-gpu sees a GPU the vectors are copied to it and searched exactly; a search with a selection stays on
    the CPU, because Faiss has no selectors on the GPU.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / _FILE
        if not path.exists():
            raise BundleError("a file of the index is missing", path=path, remedy="build the index again")
        faiss = _faiss()
        try:
            self._index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            cause = str(error).splitlines()[0]
            raise BundleError(
                f"the vectors cannot be read: {cause}", path=path, remedy="build the index again"
            ) from error
        self._storage = self._index.storage if hasattr(self._index, "hnsw") else self._index
        self._gpu = self._copy_to_gpu() if gpu_count() else None

    def _copy_to_gpu(self) -> Any:
        """The vectors as an exact index on every GPU that Faiss sees."""
        faiss = _faiss()
        index = faiss.index_cpu_to_all_gpus(faiss.IndexFlatIP(self.dimension))
        for start in range(0, len(self), 1 << 20):
            index.add(self._storage.reconstruct_n(start, min(1 << 20, len(self) - start)))
        return index

    @property
    def dimension(self) -> int:
        """Width of the vectors."""
        return int(self._storage.d)

    @property
    def kind(self) -> str:
        """``flat`` or ``hnsw``."""
        return "hnsw" if hasattr(self._index, "hnsw") else "flat"

    def __len__(self) -> int:
        return int(self._storage.ntotal)

    @staticmethod
    def choose(count: int) -> str:
        """Kind for so many names: exact search while it is quick, a graph above."""
        return "flat" if count <= FLAT_LIMIT else "hnsw"

    @classmethod
    def create(cls, dimension: int, kind: str) -> Any:
        """An empty Faiss index of a kind, 16 bits per weight."""
        faiss = _faiss()
        if kind == "flat":
            return faiss.IndexFlatIP(dimension)
        if kind == "hnsw":
            index = faiss.IndexHNSWSQ(dimension, faiss.ScalarQuantizer.QT_fp16, _LINKS, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction = _BUILD_WIDTH
            index.is_trained = True
            return index
        raise ConfigError(f"unknown kind of index {kind!r}", remedy=f"one of {', '.join(KINDS)}")

    @classmethod
    def build(cls, folder: Path, vectors: NDArray[np.float32], kind: str, *, threads: int = 1) -> DenseIndex:
        """Fill a folder with vectors ``(n, dimension)``.

        With one thread the graph of ``hnsw`` is the same every time; more threads are quicker and may change it.
        """
        faiss = _faiss()
        index = cls.create(vectors.shape[1], kind)
        before = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(threads)
        try:
            if len(vectors):
                index.add(np.ascontiguousarray(vectors, dtype=np.float32))
        finally:
            faiss.omp_set_num_threads(before)
        faiss.write_index(index, str(folder / _FILE))
        return cls(folder)

    def search(
        self, vectors: NDArray[np.float32], k: int, selection: Selection | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rows with the largest inner product.

        Args:
            vectors: ``(n, dimension)`` unit vectors.
            k: rows wanted for each.
            selection: rows that may come back; Faiss skips the others while it searches.

        Returns:
            ``(n, k)`` rows, -1 where there are fewer, and ``(n, k)`` inner products.

        Raises:
            ConfigError: the vectors are of another width.
        """
        faiss = _faiss()
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise ConfigError(f"vectors of shape {vectors.shape}, (n, {self.dimension}) expected")
        k = min(k, len(self))
        if k == 0 or not len(vectors):
            return np.full((len(vectors), k), -1, np.int64), np.zeros((len(vectors), k), np.float32)
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        selector = None
        if selection is not None:
            bits = np.packbits(selection.rows, bitorder="little")
            selector = faiss.IDSelectorBitmap(bits)
        index = self._index
        if self._gpu is not None and selection is None:
            scores, rows = self._gpu.search(vectors, k)
            return rows, scores
        if self.kind == "hnsw" and (selection is None or selection.count > _SMALL):
            width = max(_SEARCH_WIDTH if k > _FEW else _SEARCH_WIDTH // 2, 2 * k)
            parameters = faiss.SearchParametersHNSW(efSearch=width)
            if selector is not None:
                parameters.sel = selector
        else:
            index = self._storage
            parameters = faiss.SearchParameters(sel=selector) if selector is not None else None
        scores, rows = index.search(vectors, k, params=parameters)
        return rows, scores

    def vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Vectors of rows ``(n,)`` as ``(n, dimension)``."""
        if not len(rows):
            return np.zeros((0, self.dimension), np.float32)
        found: NDArray[np.float32] = self._storage.reconstruct_batch(np.ascontiguousarray(rows, dtype=np.int64))
        return found


class JoinedDense:
    """The vectors of names and of those that came later, which are numbered on: both are searched, the best are kept.

    Args:
        main, added: each as it was saved.

    Raises:
        BundleError: they are of different width.
    """

    def __init__(self, main: DenseIndex, added: DenseIndex) -> None:
        if main.dimension != added.dimension:
            raise BundleError(
                f"vectors of {main.dimension} dimensions, the added ones have {added.dimension}",
                remedy="build the index again",
            )
        self._main, self._added = main, added

    @property
    def dimension(self) -> int:
        """Width of the vectors."""
        return self._main.dimension

    @property
    def kind(self) -> str:
        """``flat`` or ``hnsw``: that of the main part."""
        return self._main.kind

    def __len__(self) -> int:
        return len(self._main) + len(self._added)

    def search(
        self, vectors: NDArray[np.float32], k: int, selection: Selection | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rows with the largest inner product, ties by row; see :meth:`DenseIndex.search`."""
        count = len(self._main)
        parts = [
            part.search(vectors, k, None if selection is None else selection.part(rows))
            for part, rows in ((self._main, slice(None, count)), (self._added, slice(count, None)))
        ]
        rows = np.concatenate([parts[0][0], np.where(parts[1][0] < 0, -1, parts[1][0] + count)], axis=1)
        scores = np.concatenate([parts[0][1], parts[1][1]], axis=1)
        order = np.lexsort((rows, -scores, rows < 0), axis=1)[:, : min(k, len(self))]
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)

    def vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Vectors of rows ``(n,)`` as ``(n, dimension)``."""
        out = np.empty((len(rows), self.dimension), dtype=np.float32)
        later = rows >= len(self._main)
        out[~later] = self._main.vectors(rows[~later])
        out[later] = self._added.vectors(rows[later] - len(self._main))
        return out


def open_dense(folder: Path, added: Path | None) -> DenseIndex | JoinedDense:
    """The vectors of a folder, joined with those of the added part where there is one."""
    main = DenseIndex(folder)
    return main if added is None else JoinedDense(main, DenseIndex(added))
