"""The k nearest neighbours of each vector of a set, by Faiss: the first step of clustering.

Compares all pairs of up to 50,000 distinct vectors, and divides larger sets into cells of about 256 vectors around
k-means centres (IVF; Jégou et al. 2011, section IV). A search scans the near cells by vectors compressed to four bits
per two dimensions (product quantisation, section II of the same paper; André et al. 2015 for the scan in registers),
and compares several times k candidates again by the vectors themselves. Cells keep their size as the set grows; the
number of scanned cells, and nearly the time per vector, grow with its fourth root. The search measures its recall on a
sample and, below .93, doubles the numbers of cells and candidates, up to eightfold. The recall may stay lower even
then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.index.vectors import FLAT_LIMIT
from medlink.index.vectors.library import faiss, new_cells, spread

KINDS = ("flat", "cells")
NONE = -1
"""Row, and cosine, where a vector has fewer than k neighbours."""
MAX_NEIGHBOURS = 10_000
"""Largest k: the arrays have k columns, however few vectors there are."""
_NORM_TOLERANCE = 1e-3
_CHUNK = 4096
_SPARE = 8  # candidates beyond k: rounding in a matrix product could cut a tie in the wrong place
_MIN_FOR_CELLS = 1024  # fewer vectors do not train a quantiser and take no time
_CELL = 256  # vectors of a cell
_SCANNED = 38  # cells scanned for each vector of a set of 100,000
_RESCORED = 3  # candidates compared again for each neighbour
_SAMPLE = 128  # vectors on which the recall is measured
_RECALL = 0.93
_MAX_WIDENING = 8  # factor of cells and candidates
_TRAINED, _PER_CELL = 20_000, 40  # vectors that cells and codes are trained on, at least, and for each cell
_SEED = 1

Neighbours = tuple[NDArray[np.int64], NDArray[np.float32]]


def nearest(
    vectors: NDArray[np.float32],
    k: int,
    *,
    kind: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Neighbours:
    """Find the k nearest other vectors of each vector by cosine.

    Equal input gives equal output with the same number of threads. Both kinds compute cosines from the vectors
    themselves. Ties go to the lower row, and equal vectors are neighbours. A zero vector has no neighbour and is the
    neighbour of none.

    Args:
        vectors: ``(n, d)`` float32 or float16, each of length 1 or 0; a float16 array may be memory-mapped.
        k: neighbours for each, from 1 to ``MAX_NEIGHBOURS``.
        kind: ``flat`` compares all pairs, ``cells`` only those in near cells; chosen by size (50,000 distinct vectors)
            when left out. Fewer than 1,024 distinct vectors are always ``flat``.
        progress: called with the number of distinct vectors done and their total.

    Returns:
        ``(n, k)`` rows and ``(n, k)`` cosines, best first; -1 in both where there are fewer neighbours.

    Raises:
        ConfigError: a vector is not of length 1 or 0, or k or the kind is not allowed.

    >>> rows, cosines = nearest(np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32), 2)
    >>> rows.tolist(), np.rint(10 * cosines).tolist()
    ([[1, 2], [2, 0], [1, 0]], [[6.0, 0.0], [8.0, 6.0], [8.0, 0.0]])
    """
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"unknown kind of neighbour search {kind!r}", remedy=f"one of {', '.join(KINDS)}")
    if not 1 <= k <= MAX_NEIGHBOURS:
        raise ConfigError(f"{k} neighbours requested", remedy=f"request 1 to {MAX_NEIGHBOURS}")
    groups = _EqualVectors.of(vectors, _check_norms(vectors))
    all_differ = len(groups.first) == len(vectors)
    distinct = _Vectors(vectors, None if all_differ else groups.first)
    kind = kind or ("flat" if len(distinct) <= FLAT_LIMIT else "cells")
    wanted = max(0, min(k, len(distinct) - 1))
    is_flat = kind == "flat" or len(distinct) < _MIN_FOR_CELLS
    search = _search_flat(distinct, wanted) if is_flat else _search_cells(distinct, wanted)
    rows = np.full((len(vectors), k), NONE, dtype=np.int64)
    cosines = np.full((len(vectors), k), NONE, dtype=np.float32)
    done = 0
    for queries, candidates in search:
        near, close = _rank(distinct, queries, candidates, wanted)
        if all_differ:
            rows[queries, :wanted], cosines[queries, :wanted] = near, close
        else:
            groups.expand(distinct, queries, near, close, rows, cosines)
        done += len(queries)
        if progress:
            progress(done, len(distinct))
    return rows, cosines


class _Vectors:
    """Rows of an array, or some of them, as float32; copied only as they are read."""

    def __init__(self, array: NDArray[Any], rows: NDArray[np.int64] | None) -> None:
        self._array, self._rows = array, rows
        self.dimension = array.shape[1]

    def __len__(self) -> int:
        return len(self._array if self._rows is None else self._rows)

    def __getitem__(self, at: slice | NDArray[np.int64]) -> NDArray[np.float32]:
        rows = self._array[at if self._rows is None else self._rows[at]]
        return np.ascontiguousarray(rows, dtype=np.float32)

    def cosines(self, queries: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Cosines ``(q, w)`` of queries ``(q,)`` with ``rows (q, w)``; those of negative rows have no meaning."""
        if self._array.dtype == np.float32 and self._array.flags.c_contiguous:
            at = np.maximum(rows, 0)
            return exact_cosines(self[queries], self._array, at if self._rows is None else self._rows[at])
        used, positions = np.unique(rows, return_inverse=True)
        return exact_cosines(self[queries], self[used], positions.reshape(rows.shape))


def _check_norms(vectors: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the vectors that are not zero; refuse those whose length is neither 1 nor 0."""
    if vectors.ndim != 2:
        raise ConfigError(f"vectors of shape {vectors.shape}, (n, d) expected")
    used = np.empty(len(vectors), dtype=bool)
    for start in range(0, len(vectors), _CHUNK):
        chunk = vectors[start : start + _CHUNK].astype(np.float32, copy=False)
        lengths = np.sqrt(np.einsum("nd,nd->n", chunk, chunk))
        used[start : start + _CHUNK] = lengths > 0
        # a comparison with NaN is false: it is refused as well
        bad = ~((np.abs(lengths - 1) <= _NORM_TOLERANCE) | (lengths == 0))
        if bad.any():
            at = int(np.argmax(bad))
            remedy = "divide each vector by its norm"
            raise ConfigError(f"vector {start + at} has length {lengths[at]:.4g}, 1 expected", remedy=remedy)
    return used


@dataclass(frozen=True, slots=True)
class _EqualVectors:
    """Groups of equal vectors: ``members[starts[g]:starts[g + 1]]`` are the rows of group g, ascending.

    Many equal vectors would fill one cell, and each other's lists.
    """

    first: NDArray[np.int64]
    members: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, vectors: NDArray[Any], used: NDArray[np.bool_]) -> _EqualVectors:
        nonzero = np.flatnonzero(used)
        # adding zero makes -0.0 equal to 0.0
        digests = b"".join(
            blake2b((vectors[i] + vectors.dtype.type(0)).tobytes(), digest_size=16).digest() for i in nonzero
        )
        _, first, group = np.unique(np.frombuffer(digests, dtype="V16"), return_index=True, return_inverse=True)
        order = np.argsort(first)
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        group = number[group]
        by_group = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[by_group], np.arange(len(first) + 1))
        return cls(nonzero[first[order]], nonzero[by_group], starts)

    def expand(
        self, distinct: _Vectors, queries: NDArray[np.int64], near: NDArray[np.int64], close: NDArray[np.float32],
        rows: NDArray[np.int64], cosines: NDArray[np.float32],
    ) -> None:  # fmt: skip
        """Write the lists of the members of the groups ``queries`` into ``rows`` and ``cosines``, from the neighbour
        groups ``near`` and their cosines ``close``.
        """
        k, width = rows.shape[1], near.shape[1]
        counts = np.diff(self.starts)
        plain = (counts[queries] == 1) & (counts[near] == 1).all(axis=1) & (near >= 0).all(axis=1)
        at = self.first[queries[plain]]
        rows[at, :width], cosines[at, :width] = self.first[near[plain]], close[plain]
        queries, near, close = queries[~plain], near[~plain], close[~plain]
        vectors = distinct[queries]
        own = np.minimum(np.einsum("nd,nd->n", vectors, vectors), 1)
        near = np.concatenate([queries[:, None], near], axis=1)
        close = np.concatenate([own[:, None], close], axis=1)
        # k + 1 of the own group: a member is not its own neighbour
        sizes = np.where(near >= 0, np.minimum(counts[near], k + 1), 0)
        counts = counts[queries]
        batch = max(1, _CHUNK * 64 // (k + 1))
        for start in range(0, int(counts.sum()), batch):
            # members of the queries, one after the other, each with the candidates of its group
            stop = min(start + batch, int(counts.sum()))
            query = np.searchsorted(np.cumsum(counts), np.arange(start, stop), side="right")
            offset = np.arange(start, stop) - (np.cumsum(counts) - counts)[query]
            member = self.members[self.starts[queries[query]] + offset]
            flat = sizes[query].ravel()
            offsets = np.arange(flat.sum()) - np.repeat(np.cumsum(flat) - flat, flat)
            candidate = self.members[np.repeat(self.starts[near[query]].ravel(), flat) + offsets]
            cosine = np.repeat(close[query].ravel(), flat)
            owner = np.repeat(np.repeat(np.arange(stop - start), near.shape[1]), flat)
            keep = candidate != member[owner]
            candidate, cosine, owner = candidate[keep], cosine[keep], owner[keep]
            order = np.lexsort((candidate, -cosine, owner))
            owner = owner[order]
            rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
            top = rank < k
            place = (member[owner[top]], rank[top])
            rows[place], cosines[place] = candidate[order][top], cosine[order][top]


_Batches = Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Batches of rows ``(q,)`` and their candidates ``(q, w)``, the row itself among them."""


def _search_flat(vectors: _Vectors, k: int) -> _Batches:
    whole, wanted = vectors[:], min(k + 1 + _SPARE, len(vectors))
    for start in range(0, len(vectors), _CHUNK):
        queries = np.arange(start, min(start + _CHUNK, len(vectors)))
        yield queries, faiss().knn(whole[queries], whole, wanted, metric=faiss().METRIC_INNER_PRODUCT)[1]


def _search_cells(vectors: _Vectors, k: int) -> _Batches:
    """Compare the vectors in near cells; rows come cell by cell."""
    n = len(vectors)
    cells = max(1, n // _CELL)
    index = new_cells(vectors.dimension, cells, _SEED)
    index.pq.cp.seed, index.cp.niter, index.cp.max_points_per_centroid = _SEED, 5, _PER_CELL
    index.train(vectors[spread(n, max(_PER_CELL * cells, _TRAINED))])
    index.nprobe = min(index.nlist, round(_SCANNED * max(1.0, n / 100_000) ** 0.25))
    for start in range(0, n, _CHUNK):
        index.add(vectors[start : start + _CHUNK])
    # successive rows scan the same cells, which stay in the processor's cache
    lists = index.invlists
    sizes = map(lists.list_size, range(index.nlist))
    order = np.concatenate([faiss().rev_swig_ptr(lists.get_ids(c), size) for c, size in enumerate(sizes) if size])
    first = wanted = min(_RESCORED * k + 1 + _SPARE, n)
    most, cells = min(n, _MAX_WIDENING * first), min(index.nlist, _MAX_WIDENING * index.nprobe)
    sample = spread(n, _SAMPLE)
    queries, best = vectors[sample], _exact_neighbours(vectors, sample, k)
    while index.nprobe < cells or wanted < most:
        approximate = index.search(queries, wanted)[1]
        if np.mean([np.isin(some, there).mean() for some, there in zip(best, approximate, strict=True)]) >= _RECALL:
            break
        index.nprobe, wanted = min(2 * index.nprobe, cells), min(2 * wanted, most)
    # fewer vectors at a time with more candidates: a batch reads as much
    step = max(1, _CHUNK * first // wanted)
    for start in range(0, n, step):
        rows = order[start : start + step]
        yield rows, index.search(vectors[rows], wanted)[1]


def _exact_neighbours(vectors: _Vectors, queries: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The k rows nearest to each of a few ``queries``; compares all pairs, block by block."""
    own, n = vectors[queries], len(vectors)
    rows, cosines = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
    for start in range(0, n, 16 * _CHUNK):
        block = vectors[start : start + 16 * _CHUNK]
        close, near = faiss().knn(own, block, min(k + 1, len(block)), metric=faiss().METRIC_INNER_PRODUCT)
        close[near + start == queries[:, None]] = -np.inf
        rows, cosines = best_first(np.hstack([rows, near + start]), np.hstack([cosines, close]), k)
    return rows


def _rank(vectors: _Vectors, queries: NDArray[np.int64], candidates: NDArray[np.int64], k: int) -> Neighbours:
    """The best k of the ``candidates (q, w)`` without the queries themselves, by cosine, then by row."""
    candidates = np.where(candidates == queries[:, None], NONE, candidates)
    cosines = np.minimum(vectors.cosines(queries, candidates), 1)  # rounding lifts some above 1
    cosines[candidates < 0] = -np.inf
    candidates, cosines = best_first(candidates, cosines, k)
    cosines[candidates < 0] = NONE
    return candidates, cosines


def exact_cosines(
    queries: NDArray[np.float32], vectors: NDArray[np.float32], rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Compute cosines ``(q, w)`` of queries ``(q, d)`` with vectors at ``rows (q, w)``; all arrays are contiguous.

    Each cosine is one sum in a fixed order, so equal pairs have equal cosines, in both directions.
    """
    cosines = np.empty(rows.shape, dtype=np.float32)
    pointers = map(faiss().swig_ptr, (cosines, queries, vectors, rows))
    faiss().fvec_inner_products_by_idx(*pointers, vectors.shape[1], len(queries), rows.shape[1])
    return cosines


def best_first(rows: NDArray[np.int64], cosines: NDArray[np.float32], k: int) -> Neighbours:
    """Return the k rows of each query with the highest cosines, and the cosines; ties go to the lower row."""
    order = np.lexsort((rows, -cosines), axis=1)[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(cosines, order, axis=1)
