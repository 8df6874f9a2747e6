"""Find names that share words with a mention: cosine over the features of their words, by memory-mapped postings."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import RaggedArray, open_array, save_array
from medlink.index.word_features import WordFeatures
from medlink.index.word_overlap import NameFeatures

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MOST_NAMES = 3_000_000
"""Larger indexes have no postings: the features of a mention have more names than can be read quickly, and embeddings
find the same names (docs/explanation/scale.md)."""
_BUDGET = 60_000  # postings read for one mention; its most common features are dropped first
_BATCH_POSTINGS = 1 << 20  # postings added up at a time
_BATCH_NAMES = 1 << 16  # names whose features are counted at a time
_MIN_FEATURES = 2  # features that always count, however common
_Found = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]


class Postings:
    """Names by the features of their words (:mod:`medlink.index.word_overlap`), in a folder that :meth:`build` filled.

    A feature counts with its weight times its share; the score of a name is the cosine. If the features of a mention
    have too many postings, the most common features do not count.
    """

    def __init__(self, folder: Path, words: NameFeatures) -> None:
        self._words = words
        self._ends, self._rows, self._weights = (
            open_array(folder, f"posting_{column}") for column in ("ends", "rows", "weights")
        )

    @classmethod
    def build(cls, folder: Path, words: NameFeatures, count: int) -> Postings:
        """Fill a folder from the features of ``count`` names; needs 16 bytes for every feature of every name."""
        from scipy.sparse import csr_matrix, vstack

        blocks = []
        count = count if count <= MOST_NAMES else 0
        for start in range(0, max(count, 1), _BATCH_NAMES):
            rows = np.arange(start, min(start + _BATCH_NAMES, count))
            names = words.of(rows)
            weights = words.weights(names)
            matrix = csr_matrix((weights, (names.text[names.word], names.feature)), (len(rows), words.width))
            lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1))).ravel()
            matrix.data /= np.repeat(np.maximum(lengths, 1e-9), np.diff(matrix.indptr)).astype(np.float32)
            blocks.append(matrix)
        matrix = vstack(blocks, format="csr")
        blocks.clear()
        postings = matrix.tocsc()
        postings.sort_indices()
        save_array(folder, "posting_ends", postings.indptr.astype(np.int64))
        save_array(folder, "posting_rows", postings.indices.astype(np.int32))
        save_array(folder, "posting_weights", postings.data.astype(np.float32))
        return cls(folder, words)

    def search(
        self, mentions: WordFeatures, wanted: NDArray[np.int64], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> _Found:
        """Find for each of the mentions ``wanted (n,)`` the k most similar of the ``allowed (rows,)`` names.

        Returns:
            Positions in ``wanted``, rows and cosines, each ``(m,)``: for each mention best first, ties by row; fewer
            than k where fewer names share a feature.
        """
        # mentions as sparse unit vectors
        owner, width = mentions.text[mentions.word], self._words.width
        position, at = RaggedArray.by_owner(owner, int(wanted.max(initial=-1)) + 1).take(wanted)
        keys, which = np.unique(position * width + mentions.feature[at], return_inverse=True)
        weight = np.bincount(which, self._words.weights(mentions)[at], len(keys))
        position, feature = np.divmod(keys, width)
        weight = weight / np.maximum(np.sqrt(np.bincount(position, weight**2, len(wanted))), 1e-9)[position]
        lengths = self._ends[feature + 1] - self._ends[feature]
        order = np.lexsort((lengths, position))
        position, feature, weight, lengths = (column[order] for column in (position, feature, weight, lengths))
        first = np.searchsorted(position, position)
        read = np.cumsum(lengths)
        read -= (read - lengths)[first]
        counted = (read <= _BUDGET) | (np.arange(len(position)) - first < _MIN_FEATURES)
        position, feature, weight, lengths = (column[counted] for column in (position, feature, weight, lengths))
        batches: list[_Found] = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))]
        ends, start = np.cumsum(lengths), 0
        while start < len(position):
            # a batch is as many whole mentions as the postings allow, at least one
            beyond = np.searchsorted(ends, ends[start] - lengths[start] + _BATCH_POSTINGS, "right")
            stop = len(position) if beyond == len(position) else np.searchsorted(position, position[beyond])
            stop = max(stop, np.searchsorted(position, position[start], "right"))
            batch = slice(start, stop)
            batches.append(self._best(position[batch], feature[batch], weight[batch], k, allowed))
            start = stop
        positions, rows, cosines = (np.concatenate(column) for column in zip(*batches, strict=True))
        return positions, rows, cosines

    @cached_property
    def _matrix(self) -> csr_matrix:
        """Cosines of each name with each feature alone ``(features, names)``: a view of the files."""
        from scipy.sparse import csr_matrix

        shape = len(self._ends) - 1, int(self._rows.max(initial=-1)) + 1
        kind = np.int32 if self._ends[-1] <= np.iinfo(np.int32).max else np.int64
        matrix = csr_matrix((self._weights, self._rows, self._ends.astype(kind)), shape)
        matrix.check_format(full_check=True)  # on a damaged file SciPy would read outside its arrays
        return matrix

    def _best(
        self, mention: NDArray[np.int64], features: NDArray[np.int64], weights: NDArray[np.float64], k: int,
        allowed: NDArray[np.bool_] | None,
    ) -> _Found:  # fmt: skip
        """The k best names of a batch, given the mention of each feature, ascending."""
        from scipy.sparse import csr_matrix

        first, count = mention[0], int(mention[-1] - mention[0]) + 1
        ends, matrix = np.searchsorted(mention, np.arange(first, first + count + 1)), self._matrix
        mentions = csr_matrix((weights.astype(np.float32), features, ends), (count, matrix.shape[0]))
        products = mentions @ matrix
        rows, cosines = products.indices, products.data
        if allowed is not None:
            cosines = np.where(allowed[rows], cosines, -1)
        best = []
        for start, stop in pairwise(products.indptr.tolist()):
            own = cosines[start:stop]
            # all ties with the k-th stay until the row decides
            least = np.partition(own, -k)[-k] if len(own) > k else 0.0
            best.append(np.flatnonzero(own >= max(least, 0.0)) + start)
        at = np.concatenate(best)
        position = np.repeat(np.arange(count), list(map(len, best)))
        order = np.lexsort((rows[at], -cosines[at], position))
        at, position = at[order], position[order]
        within_k = np.arange(len(at)) - np.searchsorted(position, position) < k
        at = at[within_k]
        return position[within_k] + first, rows[at].astype(np.int64), np.minimum(cosines[at], 1)
