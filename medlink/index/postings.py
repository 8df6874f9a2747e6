"""Names that share words with a mention: cosine over the features of their words, by memory-mapped postings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import open_array, save_array
from medlink.index.said import SaidNames, Slots

_BUDGET = 60_000  # postings read for one mention; the features that most names have are left out first
_LEAST = 2  # features that always count, however common


class Postings:
    """Names by the features of their words (:mod:`medlink.index.said`).

    A feature counts its weight, times its share; the score of a name is the cosine. Where the features of a mention
    have more postings than can be read quickly, those that most names have are left out of it.

    Args:
        folder: folder that :meth:`build` filled.
        said: what the names of the same folder say.
    """

    def __init__(self, folder: Path, said: SaidNames) -> None:
        self._said = said
        self._ends, self._rows, self._weights = (
            open_array(folder, f"posting_{column}") for column in ("ends", "rows", "weights")
        )

    @classmethod
    def build(cls, folder: Path, said: SaidNames, count: int) -> Postings:
        """Fill a folder from what ``count`` names say; needs 8 bytes for every feature of every name."""
        from scipy.sparse import csr_matrix

        slots = said.of(np.arange(count))
        weights = said.weights(slots)
        matrix = csr_matrix((weights, (slots.owner[slots.slot], slots.feature)), (count, said.width))
        lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1))).ravel()
        matrix.data /= np.repeat(np.maximum(lengths, 1e-9), np.diff(matrix.indptr)).astype(np.float32)
        postings = matrix.tocsc()
        postings.sort_indices()
        save_array(folder, "posting_ends", postings.indptr.astype(np.int64))
        save_array(folder, "posting_rows", postings.indices.astype(np.int32))
        save_array(folder, "posting_weights", postings.data.astype(np.float32))
        return cls(folder, said)

    def search(
        self, asked: Slots, mentions: NDArray[np.int64], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """The k names that say most alike each of some mentions, of those that are ``allowed (rows,)``.

        Returns:
            For each mention row numbers and cosines, best first, ties by row; fewer than k where fewer share a feature.
        """
        weights = self._said.weights(asked)
        owner = asked.owner[asked.slot]
        starts, ends = (np.searchsorted(owner, mentions, side=side) for side in ("left", "right"))
        parts = (slice(*place) for place in zip(starts.tolist(), ends.tolist(), strict=True))
        return [self._one(asked.feature[part], weights[part], k, allowed) for part in parts]

    def _one(
        self, features: NDArray[np.int64], weights: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        if not len(features):
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        features, which = np.unique(features, return_inverse=True)
        weight = np.bincount(which, weights).astype(np.float64)
        weight = weight / max(float(np.sqrt((weight**2).sum())), 1e-9)
        lengths = self._ends[features + 1] - self._ends[features]
        order = np.argsort(lengths, kind="stable")
        order = order[(np.cumsum(lengths[order]) <= _BUDGET) | (np.arange(len(order)) < _LEAST)]
        if not lengths[order].sum():
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        places = [slice(*self._ends[feature : feature + 2]) for feature in features[order].tolist()]
        found = np.concatenate([self._rows[place] for place in places])
        scored = np.concatenate([self._weights[p] * np.float32(w) for p, w in zip(places, weight[order], strict=True)])
        if allowed is not None:
            found, scored = found[allowed[found]], scored[allowed[found]]
        rows, inverse = np.unique(found, return_inverse=True)
        values = np.bincount(inverse, scored, len(rows))
        if len(rows) > k:
            # everything as good as the k-th stays until ties are broken by row
            kept = values >= np.partition(values, -k)[-k]
            rows, values = rows[kept], values[kept]
        best = np.lexsort((rows, -values))[:k]
        return rows[best].astype(np.int64), np.minimum(values[best], 1).astype(np.float32)
