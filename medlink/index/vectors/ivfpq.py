"""Compressed vectors in cells (IVF; Jégou et al. 2011, section IV): for millions of names, and for little memory.

Product quantisation (section II) takes four bits for two dimensions; a search scans them in registers (André et al.
2015) in the cells nearest to the query, and compares the best of them again by their full vectors. The full vectors are
in a float16 file; a process keeps few of its pages.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError, ConfigError
from medlink.index.arrays import REBUILD, Array, ArrayWriter, open_array
from medlink.index.vectors.base import Rows, VectorIndex, Vectors, faiss_threads, reporting_unreadable, selector
from medlink.index.vectors.library import compressed_parts, faiss, new_cells, spread

_EXACT = "exact"
_MIN_PER_CELL = 64  # vectors
_CELLS = 4.0  # number of cells relative to the square root of the number of vectors
_PROBED = 200  # cells scanned, at least
_PROBED_SHARE = 0.04  # share of the cells scanned, where that is more
_TRAINED_PER_CELL = 32  # vectors that the cells are trained on
_TRAINED = 20_000  # vectors that the cells are trained on, at least
_ROUNDS = 6  # of k-means
_SEED = 1
_BLOCK = 1 << 15  # vectors added at a time
_QUERIES = 64  # queries compared again at a time
_RESCORED = 8  # candidates compared again for each result, among up to a million vectors
_MILLION = 1_000_000  # vectors, from which the candidates grow with the fourth root
_SMALL = 10_000  # allowed rows up to which the search is exact
_MAX_PAGES = 1 << 14  # pages of the file that a process holds, about


class Index(VectorIndex):
    """Compressed vectors in cells, and the full vectors in a file.

    The first search reads the compressed vectors. Each process has its own copy; processes forked later share it.
    """

    embedding_type = np.float16
    keeps_near = False

    def __init__(self, dimension: int, *, threads: int = 1) -> None:
        self._threads, self.dimension = threads, dimension
        self._codes: Any = None
        self._exact: Array = np.zeros((0, dimension), np.float16)
        self._file: int | None = None

    def _load(self, path: Path) -> None:
        self._path, self._lock, self._codes, self._pages = path, Lock(), None, 0
        self._exact = open_array(path.parent, _EXACT)
        if self._exact.ndim != 2:
            raise BundleError("no vectors", path=path.with_name(f"{_EXACT}.npy"), remedy=REBUILD)
        self.dimension = self._exact.shape[1]
        # of the array; an empty one is not mapped
        self._map: mmap.mmap | None = getattr(self._exact.base, "_mmap", None)
        if self._map:
            self._map.madvise(mmap.MADV_RANDOM)
        # opened now and read later, even if moved or removed meanwhile
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        finalize(self, os.close, self._file)

    @property
    def _index(self) -> Any:
        """The Faiss index of the compressed vectors, read at the first use."""
        if self._codes is None and self._file is not None:
            with self._lock, reporting_unreadable(self._path):
                if self._codes is None:
                    index = _read_index(self._file)
                    if not hasattr(index, "invlists"):
                        raise AttributeError("no index of cells")
                    if self._exact.shape != (index.ntotal, index.d):
                        message = f"vectors of shape {self._exact.shape}, {(index.ntotal, index.d)} expected"
                        raise BundleError(message, path=self._path.with_name(f"{_EXACT}.npy"), remedy=REBUILD)
                    self._codes = index
        return self._codes

    def prepare(self) -> None:
        _ = self._index

    @classmethod
    def bytes_per_name(cls, dimension: int) -> int:
        return -(-compressed_parts(dimension) // 2) + 8  # eight for the row number

    def __len__(self) -> int:
        return len(self._exact)

    def add(self, vectors: Vectors, progress: Callable[[int, int], object] | None = None) -> None:
        # the array is kept, not copied; the first vectors train the cells
        with faiss_threads(self._threads):
            if self._codes is None:
                self._codes = self._train(vectors)
            for start in range(0, len(vectors), _BLOCK):
                block = np.ascontiguousarray(vectors[start : start + _BLOCK], dtype=np.float32)
                self._index.add(block)
                if progress:
                    progress(start + len(block), len(vectors))
        self._exact = vectors if not len(self._exact) else np.concatenate([self._exact, vectors])

    def _train(self, vectors: Vectors) -> Any:
        n = len(vectors)
        cells = max(1, min(n // _MIN_PER_CELL, round(_CELLS * n**0.5)))
        index = new_cells(self.dimension, cells, _SEED)
        index.cp.niter, index.cp.max_points_per_centroid = _ROUNDS, 1 << 20
        sample = vectors[spread(n, max(_TRAINED_PER_CELL * cells, _TRAINED))] if n else np.zeros((1, self.dimension))
        # training needs at least 16 vectors: fewer are repeated
        index.train(np.resize(sample, (max(len(sample), 16), self.dimension)).astype(np.float32))
        return index

    def search(self, vectors: Vectors, k: int, allowed: NDArray[np.bool_] | None = None) -> tuple[Rows, Vectors]:
        if self._on_gpu is not None and allowed is None:
            return super().search(vectors, k)
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise ConfigError(f"vectors of shape {vectors.shape}, (n, {self.dimension}) expected")
        k = min(k, len(self))
        queries = np.ascontiguousarray(vectors, dtype=np.float32)
        rows, scores = np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), -np.inf, np.float32)
        few = None if allowed is None else np.flatnonzero(allowed)
        if k == 0 or (few is not None and not len(few)):
            return rows, scores
        for start in range(0, len(queries), _QUERIES):
            batch = slice(start, start + _QUERIES)
            if few is not None and len(few) <= _SMALL:
                candidates = np.broadcast_to(few, (len(queries[batch]), len(few)))
                products = queries[batch] @ self.vectors(few).T
            else:
                # more candidates in a large index, where more are nearly alike
                growth = max(1.0, len(self) / _MILLION) ** 0.25
                wanted = min(round(_RESCORED * k * growth), len(self))
                # more cells where only a share of their rows is allowed
                share = 1.0 if few is None else len(few) / len(self)
                cells = int(self._index.nlist)
                probed = min(cells, round(max(_PROBED, _PROBED_SHARE * cells) / share))
                options = {} if allowed is None else {"sel": selector(allowed)}
                parameters = faiss().SearchParametersIVF(nprobe=probed, **options)
                candidates = self._index.search(queries[batch], wanted, params=parameters)[1]
                full = self.vectors(np.maximum(candidates, 0).ravel()).reshape(*candidates.shape, self.dimension)
                products = np.einsum("qwd,qd->qw", full, queries[batch])
                products[candidates < 0] = -np.inf
            best = np.lexsort((candidates, -products), axis=1)[:, :k]
            rows[batch, : best.shape[1]] = np.take_along_axis(candidates, best, axis=1)
            scores[batch, : best.shape[1]] = np.take_along_axis(products, best, axis=1)
        return rows, scores

    def vectors(self, rows: Rows) -> Vectors:
        if len(rows) and (rows.min() < 0 or rows.max() >= len(self)):
            raise IndexError("no vector of that number")
        vectors = self._exact[rows].astype(np.float32)
        if self._file is not None and self._map:
            # the process releases the pages that it read from time to time; the operating system caches them for all
            with self._lock:
                self._pages += len(rows)
                if self._pages > _MAX_PAGES:
                    self._map.madvise(mmap.MADV_DONTNEED)
                    self._pages = 0
        return vectors

    def save(self, folder: Path) -> None:
        if self._codes is None:
            self.add(self._exact.astype(np.float32))
        super().save(folder)
        with ArrayWriter(folder, _EXACT, np.float16, self.dimension) as writer:
            for start in range(0, len(self), _BLOCK):
                writer.append(self._exact[start : start + _BLOCK])


def _read_index(file: int) -> Any:
    at = 0

    # with a position of its own: forked processes share that of the file
    def read(size: int) -> bytes:
        nonlocal at
        content = os.pread(file, size, at)
        at += len(content)
        return content

    return faiss().read_index(faiss().PyCallbackIOReader(read))
