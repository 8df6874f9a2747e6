"""Vectors in cells (IVF; Jégou et al. 2011, section IV), in short codes: what the kinds for very many names share.

A search looks through the codes in the cells nearest to the query. It then compares the best of these with the query
once more, by the vectors themselves. They are in a file, 16 bits for each weight, of which a process holds few pages.
"""

from __future__ import annotations

import mmap
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError, ConfigError
from medlink.index.arrays import REBUILD, Array, ArrayWriter
from medlink.index.vectors.base import Rows, VectorIndex, Vectors, selector
from medlink.index.vectors.library import faiss

_EXACT = "exact"
_FEWEST = 64  # vectors of a cell
_CELLS = 4.0  # cells, for each square root of a vector
_PROBED = 200  # cells that are looked through, at least
_SHARE = 0.04  # of the cells, where that is more
_SAMPLED = 32  # vectors for each cell that it is trained on
_TRAINED = 20_000  # vectors that are trained on, at least
_ROUNDS = 6  # of k-means
_SEED = 1
_BLOCK = 1 << 15  # vectors that are added at a time
_TOGETHER = 64  # queries that are compared again at a time
_MILLION = 1_000_000  # vectors, beyond which more candidates are compared again: with the fourth root
_SMALL = 10_000  # allowed rows up to which the search is exact
_HELD = 1 << 14  # pages of the file of vectors that a process holds at most, about


class CellsIndex(VectorIndex):
    """Codes in cells, and the vectors themselves in a file; a kind says what the codes are.

    ``_again`` says how many candidates, for each row asked for, are compared again among a million vectors or fewer.
    """

    embedding_type = np.float16
    keeps_near = False
    _again: int

    def __init__(self, dimension: int, *, threads: int = 1) -> None:
        self._threads, self.dimension = threads, dimension
        self._index: Any = None
        self._exact: Array = np.zeros((0, dimension), np.float16)
        self._file: _Pages | None = None

    @staticmethod
    @abstractmethod
    def _codes(dimension: int) -> str:
        """How Faiss calls the codes of vectors of so many dimensions."""

    def _open(self, index: Any, folder: Path | None = None) -> None:
        if folder is None:
            raise AttributeError("no index of cells")
        self._open_exact(folder)
        self._hold(index, folder)

    def _open_exact(self, folder: Path) -> None:
        self._file = _Pages(folder / f"{_EXACT}.npy")
        self._exact = self._file.array
        if self._exact.ndim != 2:
            raise BundleError("no vectors", path=folder / f"{_EXACT}.npy", remedy=REBUILD)
        self.dimension = self._exact.shape[1]

    def _hold(self, index: Any, folder: Path) -> None:
        if not hasattr(index, "invlists"):
            raise AttributeError("no index of cells")
        if self._exact.shape != (index.ntotal, index.d):
            message = f"vectors of shape {self._exact.shape}, {(index.ntotal, index.d)} expected"
            raise BundleError(message, path=folder / f"{_EXACT}.npy", remedy=REBUILD)
        self._index = index

    def _held(self) -> Any:
        return self._index

    def __len__(self) -> int:
        return len(self._exact)

    def add(self, vectors: Vectors, progress: Callable[[int, int], object] | None = None) -> None:
        # of 32 or 16 bits, which stay where they are; the first ones make the cells
        before = faiss().omp_get_max_threads()
        faiss().omp_set_num_threads(self._threads)
        try:
            if self._index is None:
                self._index = self._trained(vectors)
            for start in range(0, len(vectors), _BLOCK):
                block = np.ascontiguousarray(vectors[start : start + _BLOCK], dtype=np.float32)
                self._index.add(block)
                if progress:
                    progress(start + len(block), len(vectors))
        finally:
            faiss().omp_set_num_threads(before)
        self._exact = vectors if not len(self._exact) else np.concatenate([self._exact, vectors])

    def _trained(self, vectors: Vectors) -> Any:
        n = len(vectors)
        cells = max(1, min(n // _FEWEST, round(_CELLS * n**0.5)))
        name = f"IVF{cells},{self._codes(self.dimension)}"
        index = faiss().index_factory(self.dimension, name, faiss().METRIC_INNER_PRODUCT)
        index.cp.seed, index.cp.niter, index.cp.min_points_per_centroid = _SEED, _ROUNDS, 1
        index.cp.max_points_per_centroid = 1 << 20
        wanted = max(_SAMPLED * cells, _TRAINED)
        rows = np.unique(np.linspace(0, n - 1, num=min(n, wanted), dtype=np.int64)) if n else np.zeros(0, np.int64)
        sample = np.ascontiguousarray(vectors[rows], dtype=np.float32)
        # training needs 16 vectors at least: fewer are repeated
        sample = sample if n else np.zeros((1, self.dimension), np.float32)
        index.train(np.resize(sample, (max(len(sample), 16), self.dimension)))
        return index

    def search(self, vectors: Vectors, k: int, allowed: NDArray[np.bool_] | None = None) -> tuple[Rows, Vectors]:
        if self._on_gpu is not None and allowed is None:
            return super().search(vectors, k)
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise ConfigError(f"vectors of shape {vectors.shape}, (n, {self.dimension}) expected")
        k = min(k, len(self))
        asked = np.ascontiguousarray(vectors, dtype=np.float32)
        rows, scores = np.full((len(asked), k), -1, np.int64), np.full((len(asked), k), -np.inf, np.float32)
        few = None if allowed is None else np.flatnonzero(allowed)
        if k == 0 or (few is not None and not len(few)):
            return rows, scores
        for start in range(0, len(asked), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            if few is not None and len(few) <= _SMALL:
                found = np.broadcast_to(few, (len(asked[part]), len(few)))
                products = asked[part] @ self.vectors(few).T
            else:
                parameters = self._parameters(allowed, 1.0 if few is None else len(few) / len(self))
                found = self._held().search(asked[part], self._candidates(k), params=parameters)[1]
                products = self._products(asked[part], found)
            best = np.lexsort((found, -products), axis=1)[:, :k]
            rows[part, : best.shape[1]] = np.take_along_axis(found, best, axis=1)
            scores[part, : best.shape[1]] = np.take_along_axis(products, best, axis=1)
        return rows, scores

    def _candidates(self, k: int) -> int:
        """How many rows are compared again where k are asked for: more where more are nearly alike."""
        more: float = max(1.0, len(self) / _MILLION) ** 0.25
        return min(round(self._again * k * more), len(self))

    def _parameters(self, allowed: NDArray[np.bool_] | None, share: float) -> Any:
        """How many cells are looked through: the more, the fewer of their rows are allowed."""
        options = {} if allowed is None else {"sel": selector(allowed)}
        cells = int(self._held().nlist)
        wanted = round(max(_PROBED, _SHARE * cells) / share)
        return faiss().SearchParametersIVF(nprobe=min(cells, wanted), **options)

    def _products(self, asked: Vectors, rows: Rows) -> Vectors:
        """Inner products ``(q, w)`` of queries with the rows found for each; what is no row has none."""
        vectors = self.vectors(np.maximum(rows, 0).ravel()).reshape(*rows.shape, self.dimension)
        products: Vectors = np.einsum("qwd,qd->qw", vectors, asked)
        products[rows < 0] = -np.inf
        return products

    def vectors(self, rows: Rows) -> Vectors:
        if len(rows) and (rows.min() < 0 or rows.max() >= len(self)):
            raise IndexError("no vector of that number")
        found = self._exact[rows].astype(np.float32)
        if self._file is not None:
            self._file.read(len(rows))
        return found

    def save(self, folder: Path) -> None:
        if self._index is None:
            self.add(self._exact.astype(np.float32))
        super().save(folder)
        with ArrayWriter(folder, _EXACT, np.float16, self.dimension) as writer:
            for start in range(0, len(self), _BLOCK):
                writer.append(self._exact[start : start + _BLOCK])


class _Pages:
    """A matrix in a file, of which this process holds few pages: from time to time it releases those that it read.

    The operating system keeps what it has room for, once for all processes.
    """

    def __init__(self, path: Path) -> None:
        try:
            with open(path, "rb") as file:
                np.lib.format.read_magic(file)  # type: ignore[no-untyped-call]  # NumPy has no types there
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)  # type: ignore[no-untyped-call]  # nor here
                offset = file.tell()
                self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            self.array = np.frombuffer(self._map, dtype, int(np.prod(shape)), offset).reshape(shape)
        except FileNotFoundError:
            raise BundleError("a file of the index is missing", path=path, remedy=REBUILD) from None
        except Exception as error:  # as in open_array
            raise BundleError(f"a file of the index is damaged: {error}", path=path, remedy=REBUILD) from error
        self._map.madvise(mmap.MADV_RANDOM)
        self._lock, self._pages = Lock(), 0

    def read(self, rows: int) -> None:
        with self._lock:
            self._pages += rows
            if self._pages > _HELD:
                self._map.madvise(mmap.MADV_DONTNEED)
                self._pages = 0
