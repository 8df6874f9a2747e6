"""Names that share words with a mention: cosine over the features of their words, by memory-mapped postings."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Groups, open_array, save_array
from medlink.index.word_overlap import NameWords, Slots

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MOST_NAMES = 3_000_000
"""Of more names none is found by words: the features of a mention have too many names to tell them apart by the few
that can be read quickly, and embeddings find what they would (docs/explanation/scale.md)."""
_BUDGET = 60_000  # postings read for one mention; the features that most names have are left out first
_TOGETHER = 1 << 20  # postings that are added up at a time
_BUILT = 1 << 16  # names whose features are counted at a time
_LEAST = 2  # features that always count, however common


class Postings:
    """Names by the features of their words (:mod:`medlink.index.word_overlap`), in a folder that :meth:`build` filled.

    A feature counts its weight, times its share; the score of a name is the cosine. Where the features of a mention
    have more postings than can be read quickly, those that most names have are left out of it. Of more than
    :data:`MOST_NAMES` names there are no postings.
    """

    def __init__(self, folder: Path, words: NameWords) -> None:
        self._words = words
        self._ends, self._rows, self._weights = (
            open_array(folder, f"posting_{column}") for column in ("ends", "rows", "weights")
        )

    @classmethod
    def build(cls, folder: Path, words: NameWords, count: int) -> Postings:
        """Fill a folder from what ``count`` names say; needs 16 bytes for every feature of every name."""
        from scipy.sparse import csr_matrix, vstack

        blocks = []
        count = count if count <= MOST_NAMES else 0
        for start in range(0, max(count, 1), _BUILT):
            rows = np.arange(start, min(start + _BUILT, count))
            slots = words.of(rows)
            weights = words.weights(slots)
            matrix = csr_matrix((weights, (slots.owner[slots.slot], slots.feature)), (len(rows), words.width))
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
        self, mentions: Slots, wanted: NDArray[np.int64], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """The k names that say most alike each of some mentions, of those that are ``allowed (rows,)``.

        Returns:
            Places in ``wanted``, row numbers and cosines, each ``(m,)``: of each mention best first, ties by row;
            fewer than k where fewer share a feature.
        """
        place, feature, weight = self._weighed(mentions, wanted)
        lengths = self._ends[feature + 1] - self._ends[feature]
        order = np.lexsort((lengths, place))
        place, feature, weight, lengths = (column[order] for column in (place, feature, weight, lengths))
        first = np.searchsorted(place, place)
        read = np.cumsum(lengths)
        read -= (read - lengths)[first]
        kept = (read <= _BUDGET) | (np.arange(len(place)) - first < _LEAST)
        place, feature, weight, lengths = (column[kept] for column in (place, feature, weight, lengths))
        found = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))]
        ends, start = np.cumsum(lengths), 0
        while start < len(place):
            # whole mentions with so many postings together, one at least
            beyond = np.searchsorted(ends, ends[start] - lengths[start] + _TOGETHER, "right")
            stop = len(place) if beyond == len(place) else np.searchsorted(place, place[beyond])
            stop = max(stop, np.searchsorted(place, place[start], "right"))
            part = slice(start, stop)
            found.append(self._best(place[part], feature[part], weight[part], k, allowed))
            start = stop
        positions, rows, cosines = (np.concatenate(column) for column in zip(*found, strict=True))
        return positions, rows, cosines

    def _weighed(
        self, mentions: Slots, wanted: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """The features of mentions, each once: place in ``wanted``, feature, and weight in a vector of length 1."""
        owner = mentions.owner[mentions.slot]
        place, at = Groups(np.searchsorted(owner, np.arange(wanted.max(initial=-1) + 2))).many(wanted)
        both, which = np.unique(place * self._words.width + mentions.feature[at], return_inverse=True)
        weight = np.bincount(which, self._words.weights(mentions)[at], len(both))
        place, feature = np.divmod(both, self._words.width)
        lengths = np.sqrt(np.bincount(place, weight**2, len(wanted)))
        return place, feature, weight / np.maximum(lengths, 1e-9)[place]

    @cached_property
    def _matrix(self) -> csr_matrix:
        """The cosine of each name with each feature alone ``(features, names)``: a view of the files."""
        from scipy.sparse import csr_matrix

        shape = len(self._ends) - 1, int(self._rows.max(initial=-1)) + 1
        kind = np.int32 if self._ends[-1] <= np.iinfo(np.int32).max else np.int64
        matrix = csr_matrix((self._weights, self._rows, self._ends.astype(kind)), shape)
        matrix.check_format(full_check=True)  # SciPy would read beside the arrays of a damaged file
        return matrix

    def _best(
        self, place: NDArray[np.int64], features: NDArray[np.int64], weights: NDArray[np.float64], k: int,
        allowed: NDArray[np.bool_] | None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:  # fmt: skip
        """The k best names of some mentions, by features that count up with their places."""
        from scipy.sparse import csr_matrix

        first, count = place[0], int(place[-1] - place[0]) + 1
        ends, matrix = np.searchsorted(place, np.arange(first, first + count + 1)), self._matrix
        mentions = csr_matrix((weights.astype(np.float32), features, ends), (count, matrix.shape[0]))
        products = mentions @ matrix
        rows, cosines = products.indices, products.data
        if allowed is not None:
            # what may not come back ranks behind all others
            cosines = np.where(allowed[rows], cosines, -1)
        found = []
        for start, stop in pairwise(products.indptr.tolist()):
            own = cosines[start:stop]
            # everything as good as the k-th stays until ties are broken by row
            least = np.partition(own, -k)[-k] if len(own) > k else 0.0
            found.append(np.flatnonzero(own >= max(least, 0.0)) + start)
        at = np.concatenate(found)
        position = np.repeat(np.arange(count), [len(part) for part in found])
        order = np.lexsort((rows[at], -cosines[at], position))
        at, position = at[order], position[order]
        kept = np.arange(len(at)) - np.searchsorted(position, position) < k
        at = at[kept]
        return position[kept] + first, rows[at].astype(np.int64), np.minimum(cosines[at], 1)
