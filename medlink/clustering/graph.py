"""The graph that is cut: near terms with a weight for how much they speak for one concept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.guards import CONCEPT, Guards

THRESHOLD = 0.71
NEIGHBOURS = 30
SHARE = 0.12
"""Average weight that two groups need to be joined (:func:`medlink.clustering.cut.average_cut`)."""

_SOFTNESS = 0.01  # cosine over which the weight rises from 0.38 to 0.62
_CROWD = 0.2  # how much a crowded neighbourhood takes off a cosine
_USUAL = 0.45  # cosine at the ranks below where a term's neighbourhood is neither crowded nor empty
_RANKS = slice(5, 25)  # ranks of neighbours that are mostly other concepts
_FORBIDDEN = -0.5  # weight of a pair that a guard parts
_TWO_CONCEPTS = -1.0  # weight of a pair of names of two known concepts: what a terminology says is no guess
_LEAST = 0.01  # a weight below this is none


@dataclass(frozen=True, slots=True)
class Graph:
    """Undirected edges, each once with ``one < other``, sorted by both.

    ``weight (e,)`` is at most 1, below 0 where a guard parts the two; ``cosine (e,)``; ``apart (e,)`` is an index of
    :data:`medlink.clustering.guards.KINDS`.
    """

    one: NDArray[np.int64]
    other: NDArray[np.int64]
    weight: NDArray[np.float64]
    cosine: NDArray[np.float32]
    apart: NDArray[np.uint8]

    def kept(self, which: NDArray[np.bool_]) -> Graph:
        """Some of the edges."""
        return Graph(self.one[which], self.other[which], self.weight[which], self.cosine[which], self.apart[which])


def crowding(cosines: NDArray[np.float32]) -> NDArray[np.float64]:
    """``(n,)`` how near the sixth to the twenty-fifth neighbour of each term are, on average.

    The local scaling of Conneau et al. 2018 ("Word translation without parallel data") with later ranks, since the
    first are synonyms here. ``cosines (n, k)`` are those to the nearest terms, best first, below 0 where there is none;
    neighbours that are missing count as a usual neighbourhood, 0.45.

    >>> crowding(np.full((1, 30), 0.6, dtype=np.float32)).round(3).tolist()
    [0.6]
    >>> crowding(np.full((1, 3), 0.6, dtype=np.float32)).tolist()
    [0.45]
    """
    width = _RANKS.stop - _RANKS.start
    found = cosines[:, _RANKS]
    there = found >= 0
    total = np.where(there, found, 0).sum(axis=1, dtype=np.float64)
    return np.asarray((total + _USUAL * (width - there.sum(axis=1))) / width)


def pair_weights(
    cosine: NDArray[np.float64],
    crowded: NDArray[np.float64],
    apart: NDArray[np.bool_],
    two_concepts: NDArray[np.bool_],
    threshold: float,
) -> NDArray[np.float64]:
    """``(p,)`` weights in [-1, 1]: how much pairs of near terms speak for one concept.

    A logistic curve over the cosine, less what a crowded neighbourhood takes off.

    Args:
        cosine: ``(p,)``.
        crowded: ``(p,)`` sum of the :func:`crowding` of both terms.
        apart, two_concepts: ``(p,)`` whether a guard parts them, and whether they are names of two known concepts.
        threshold: cosine of weight 0.5 in a usual neighbourhood.

    >>> no, yes = np.array([False, False]), np.array([False, True])
    >>> pair_weights(np.array([0.7, 0.7]), np.array([0.9, 0.9]), yes, no, 0.7).tolist()
    [0.5, -0.5]
    """
    likeness = cosine - _CROWD * (crowded - 2 * _USUAL)
    weight = 1 / (1 + np.exp(np.clip((threshold - likeness) / _SOFTNESS, -50, 50)))
    return np.where(two_concepts, _TWO_CONCEPTS, np.where(apart, _FORBIDDEN, weight))


def near_pairs(
    rows: NDArray[np.integer[Any]], cosines: NDArray[np.float32], least: float = -1.0
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Pairs of which one is a neighbour of the other, once: lower row, higher row, and cosine, ``(p,)`` each.

    ``rows`` and ``cosines`` are those of :func:`medlink.index.selfjoin.nearest`; pairs are sorted by both rows, and
    those with a cosine below ``least`` are left out.

    >>> [ends.tolist() for ends in near_pairs(np.array([[1], [0], [1]]), np.array([[0.5], [0.5], [0.25]]))]
    [[0, 1], [1, 2], [0.5, 0.25]]
    """
    near, count = np.flatnonzero((rows >= 0) & (cosines >= least)), max(len(rows), 1)
    one, other = near // max(rows.shape[1], 1), rows.ravel()[near]
    key, first = np.unique(np.minimum(one, other) * count + np.maximum(one, other), return_index=True)
    del one, other  # a list of neighbours may be as large as all embeddings
    return key // count, key % count, cosines.ravel()[near[first]]


def build_graph(
    rows: NDArray[np.int64], cosines: NDArray[np.float32], guards: Guards, threshold: float = THRESHOLD
) -> Graph:
    """Edges between near terms whose weight is not next to nothing.

    ``rows`` and ``cosines`` are those of :func:`medlink.index.selfjoin.nearest` for the terms of ``guards``; for
    ``threshold`` see :func:`pair_weights`.
    """
    around = crowding(cosines)
    # no pair below can have a weight: an empty neighbourhood adds 2 * 0.2 * 0.45 at most
    floor = threshold - 2 * _CROWD * _USUAL - 5 * _SOFTNESS
    one, other, cosine = near_pairs(rows, cosines, floor)
    likely = cosine - _CROWD * (around[one] + around[other] - 2 * _USUAL) >= threshold - 5 * _SOFTNESS
    one, other, cosine = one[likely], other[likely], cosine[likely]
    apart = guards.apart(one, other)
    weight = pair_weights(
        cosine.astype(np.float64),
        around[one] + around[other],
        apart > 0,
        guards.parted_by(CONCEPT, one, other),
        threshold,
    )
    edges = Graph(one, other, weight, cosine, apart)
    return edges.kept((weight >= _LEAST) | (apart > 0))
