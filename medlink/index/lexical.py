"""Lexical candidates: TF-IDF cosine over hashed character n-grams, by memory-mapped postings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Array, Strings, open_array, save_array
from medlink.models.ngrams import buckets, hash_ngrams

SIZES = (2, 3, 4)
_CHUNK = 20_000
_BUDGET = 60_000  # postings read for one mention; the n-grams that most names share are left out first
_LEAST = 4  # n-grams that always count, however common


def _bags(texts: Sequence[str], size: int) -> tuple[Array, Array]:
    bags = hash_ngrams(texts, SIZES, words=False)
    return bags.indptr, buckets(bags.hashes, size)


class LexicalIndex:
    """Names by their character n-grams.

    Term weight is ``(1 + log tf) * idf`` with ``idf = 1 + log((1 + n) / (1 + df))``, as in scikit-learn's
    ``TfidfTransformer(sublinear_tf=True)``; the score of a name is the cosine. Where the n-grams of a mention have more
    postings than can be read quickly, those that most names share are left out of it.

    Args:
        folder: folder that :meth:`build` filled.
    """

    def __init__(self, folder: Path) -> None:
        self._idf = open_array(folder, "posting_idf")
        self._count = int(open_array(folder, "posting_count")[0])
        self._ends, self._rows, self._weights = (
            open_array(folder, f"posting_{column}") for column in ("ends", "rows", "weights")
        )

    @classmethod
    def build(cls, folder: Path, norms: Sequence[str] | Strings) -> LexicalIndex:
        """Fill a folder from the exact forms of names; needs about 12 bytes for every n-gram of every name."""
        count = len(norms)
        matrix = _counted(norms, 1 << max(14, min(20, int(np.ceil(np.log2(max(2, count * 8)))))))
        frequency = np.bincount(matrix.indices, minlength=matrix.shape[1])
        idf = (1 + np.log((1 + count) / (1 + frequency))).astype(np.float32)
        lengths = np.diff(matrix.indptr)
        matrix.data = (1 + np.log(matrix.data)) * idf[matrix.indices]
        norms_ = np.sqrt(np.bincount(np.repeat(np.arange(count), lengths), matrix.data**2, count))
        matrix.data /= np.repeat(np.maximum(norms_, 1e-12), lengths).astype(np.float32)
        postings = matrix.tocsc()
        postings.sort_indices()
        for column, array in (
            ("idf", idf),
            ("ends", postings.indptr.astype(np.int64)),
            ("rows", postings.indices.astype(np.int32)),
            ("weights", postings.data.astype(np.float32)),
            ("count", np.array([count])),
        ):
            save_array(folder, f"posting_{column}", array)
        return cls(folder)

    def search(
        self, texts: Sequence[str], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """The k names most alike each mention by their n-grams, of those that are ``allowed (rows,)``.

        Returns:
            For each mention row numbers and cosines, best first, ties by row; fewer than k where fewer share an n-gram.
        """
        indptr, cols = _bags(texts, len(self._idf))
        return [self._one(cols[indptr[i] : indptr[i + 1]], k, allowed) for i in range(len(texts))]

    def _one(
        self, cols: Array, k: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        grams, counts = np.unique(cols, return_counts=True)
        weights = (1 + np.log(counts)) * self._idf[grams]
        length = float(np.sqrt((weights**2).sum())) or 1.0
        lengths = self._ends[grams + 1] - self._ends[grams]
        order = np.argsort(lengths, kind="stable")
        read = np.cumsum(lengths[order])
        order = order[(read <= _BUDGET) | (np.arange(len(order)) < _LEAST)]
        if not lengths[order].sum():
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        grams, weights = grams[order], weights[order] / length
        places = list(zip(self._ends[grams].tolist(), self._ends[grams + 1].tolist(), strict=True))
        found = np.concatenate([self._rows[start:stop] for start, stop in places])
        scored = np.concatenate(
            [
                self._weights[start:stop] * np.float32(weight)
                for (start, stop), weight in zip(places, weights, strict=True)
            ]
        )
        if allowed is not None:
            kept = allowed[found]
            found, scored = found[kept], scored[kept]
        if len(found) * 20 > self._count:
            scores = np.bincount(found, scored, self._count)
            # The best k nearly always reach a quarter of the best: few rows to order, found without sorting them all.
            rows_ = np.flatnonzero(scores >= max(scores.max() / 4, 1e-9))
            if len(rows_) < k:
                rows_ = np.flatnonzero(scores)
            values = scores[rows_]
        else:
            rows_, inverse = np.unique(found, return_inverse=True)
            values = np.bincount(inverse, scored)
        if len(rows_) > k:
            # everything as good as the k-th stays until ties are broken by row
            kept = values >= np.partition(values, -k)[-k]
            rows_, values = rows_[kept], values[kept]
        best = np.lexsort((rows_, -values))[:k]
        return rows_[best].astype(np.int64), np.minimum(values[best], 1).astype(np.float32)


def _counted(norms: Sequence[str] | Strings, size: int) -> Any:
    """How often each n-gram (column) stands in each name (row), as a sparse matrix."""
    from scipy.sparse import csr_matrix, vstack

    parts = []
    for start in range(0, len(norms), _CHUNK):
        indptr, cols = _bags([norms[i] for i in range(start, min(len(norms), start + _CHUNK))], size)
        part = csr_matrix((np.ones(len(cols), np.float32), cols.astype(np.int32), indptr), (len(indptr) - 1, size))
        part.sum_duplicates()
        parts.append(part)
    return vstack(parts, format="csr") if parts else csr_matrix((0, size), dtype=np.float32)
