"""The graph of near terms, with a weight for how much they speak for one concept, and its cut to groups.

The cut is average linkage on a sparse graph, so that one bridge does not join two concepts: the link of two groups is
the sum of the weights between them over the number of pairs that they could have, so a pair that is no edge counts as
0. Groups that are each other's best are joined in rounds (RAC; Sumengen et al. 2021, "Scaling Hierarchical
Agglomerative Clustering to Billion-sized Datasets"), which gives what joining the best pair one at a time gives, since
the average of two links is never above the larger one. That same fact lets a group leave the graph once all its links
are too weak. SciPy has average linkage for full matrices alone, which ends at some ten thousand terms, and a graph of
near terms has one component of most of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.evidence import Evidence, shipped_model
from medlink.clustering.guards import Guards
from medlink.index.knn_graph import exact_cosines

_NEAR = 0.35  # the lowest cosine of a pair that is looked at
_FORBIDDEN = -0.5  # weight of a pair that a guard parts
_STATED = 0.95  # probability of what a term of the list says itself, as "long form (ABC)" does
_LEAST = 0.01  # a probability below this says nothing
_NARROWER = 0.6  # probability of one being narrower below which nothing is said
_PAIRS = 1 << 17  # pairs measured at a time
SCALE = 1 << 20
"""Weights are summed as whole multiples of 1 / SCALE: a sum does not depend on its order."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Undirected edges, each once with ``one < other``, sorted by both.

    ``probability (e,)`` that the two are one concept, were no guard between them; ``apart (e,)`` is an index of
    :data:`medlink.clustering.guards.KINDS`; ``short (e,)`` whether one of the two says as an abbreviation what the
    other writes out; ``narrower (e,)`` the probability that ``one`` is narrower than ``other``, below 0 the negative of
    the probability that it is broader.
    """

    one: NDArray[np.int64]
    other: NDArray[np.int64]
    probability: NDArray[np.float64]
    apart: NDArray[np.uint8]
    short: NDArray[np.bool_]
    narrower: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.one)

    @property
    def weight(self) -> NDArray[np.float64]:
        """``(e,)`` at most 1, below 0 where a guard parts the two."""
        return np.where(self.apart > 0, _FORBIDDEN, self.probability)

    def of(self, which: NDArray[Any]) -> Graph:
        """Some of the edges."""
        return Graph(*(getattr(self, name)[which] for name in self.__slots__))


def near_pairs(
    rows: NDArray[np.integer[Any]], cosines: NDArray[np.float32], least: float = -1.0
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Pairs of which one is a neighbour of the other, once: lower row, higher row, and cosine, ``(p,)`` each.

    ``rows`` and ``cosines`` are those of :func:`medlink.index.knn_graph.nearest`; pairs are sorted by both rows, and
    those with a cosine below ``least`` are left out.

    >>> [ends.tolist() for ends in near_pairs(np.array([[1], [0], [1]]), np.array([[0.5], [0.5], [0.25]]))]
    [[0, 1], [1, 2], [0.5, 0.25]]
    """
    near, count = np.flatnonzero((rows >= 0) & (cosines >= least)), max(len(rows), 1)
    one, other = near // max(rows.shape[1], 1), rows.ravel()[near]
    key, first = np.unique(np.minimum(one, other) * count + np.maximum(one, other), return_index=True)
    del one, other  # a list of neighbours may be as large as all embeddings
    return key // count, key % count, cosines.ravel()[near[first]]


def pairs_to_judge(
    rows: NDArray[np.int64], cosines: NDArray[np.float32], vectors: NDArray[np.float32], evidence: Evidence
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Pairs that may be one concept, as :func:`near_pairs`: near terms, and abbreviations with what they stand for.

    ``rows`` and ``cosines`` are those of :func:`medlink.index.knn_graph.nearest` for ``vectors``; a term without a
    vector has no pair.
    """
    one, other, cosine = near_pairs(rows, cosines, _NEAR)
    short, count = evidence.initials, len(rows)
    more = ~np.isin(short.one * count + short.other, one * count + other)
    more &= vectors[short.one].any(axis=1) & vectors[short.other].any(axis=1)
    ends = short.one[more], short.other[more]
    told = exact_cosines(np.ascontiguousarray(vectors[ends[0]]), vectors, np.ascontiguousarray(ends[1][:, None]))
    one, other = np.concatenate([one, ends[0]]), np.concatenate([other, ends[1]])
    order = np.lexsort((other, one))
    return one[order], other[order], np.concatenate([cosine, told.ravel()])[order]


def build_graph(
    rows: NDArray[np.int64],
    cosines: NDArray[np.float32],
    vectors: NDArray[np.float32],
    evidence: Evidence,
    guards: Guards,
    progress: Callable[[int, int], object] | None = None,
) -> Graph:
    """Edges between terms that may be one concept or of which one may be narrower.

    For ``rows``, ``cosines``, ``vectors`` and ``evidence`` see :func:`pairs_to_judge`; ``progress`` is called with the
    pairs done and all.
    """
    model = shipped_model()
    one, other, cosine = pairs_to_judge(rows, cosines, vectors, evidence)
    parts = []
    for start in range(0, len(one) or 1, _PAIRS):
        ends = one[start : start + _PAIRS], other[start : start + _PAIRS]
        pairs = evidence.measure(*ends, cosine[start : start + _PAIRS])
        apart, broader = guards.apart(*ends), model.is_narrower(pairs.swapped())
        narrower = np.maximum(model.is_narrower(pairs), broader) * np.where(broader > 0, -1, 1)
        explained, _, stated = evidence.initials.of(*ends)
        probability = np.maximum(model.is_same(pairs), np.where(stated, _STATED, 0))
        narrower[(apart > 0) | stated] = 0
        # one answer for a pair: what is rather narrower is not the same
        rather = np.abs(narrower) > probability
        probability[rather] = np.minimum(probability[rather], 1 - np.abs(narrower[rather]))
        narrower[np.abs(narrower) < _NARROWER] = 0
        part = Graph(*ends, probability, apart, explained > 0, narrower)
        parts.append(part.of((part.probability >= _LEAST) | (narrower != 0)))
        if progress:
            progress(min(start + _PAIRS, len(one)), len(one))
    return Graph(*(np.concatenate([getattr(part, name) for part in parts]) for name in Graph.__slots__))


def components(count: int, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
    """``(n,)`` connected component of each of n nodes, numbered by their first node; ``rows, cols (e,)`` are edges.

    >>> components(4, np.array([0, 3]), np.array([2, 1])).tolist()
    [0, 1, 0, 1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, cols)), shape=(count, count))
    return numbered(connected_components(graph, directed=False)[1])


def numbered(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Labels as numbers from 0 on, in the order in which they come first.

    >>> numbered(np.array([7, 3, 7, 5])).tolist()
    [0, 1, 0, 2]
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(len(first))
    return np.asarray(number[inverse.ravel()])


def average_cut(
    count: int, rows: NDArray[np.int64], cols: NDArray[np.int64], weights: NDArray[np.float64], share: float
) -> NDArray[np.int64]:
    """Join groups by average linkage on a graph while their link is at least ``share``.

    ``rows, cols, weights (e,)`` are ends and weight of each edge of ``count`` nodes, each undirected edge once and no
    loops; a weight is at most 1, and below 0 for a pair that speaks against joining. Gives the group of each node
    ``(n,)``, numbered by their first node; where several links are equal the lower node goes first.

    >>> average_cut(4, np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([0.9, 0.6, 0.8]), 0.5).tolist()
    [0, 0, 1, 1]
    """
    from scipy.sparse import coo_array

    # the lowest node of a group stands for it, so that ties go to the lower node in every round
    group = np.arange(count, dtype=np.int64)
    size = np.ones(count, dtype=np.int64)
    value = np.rint(np.asarray(weights) * SCALE).astype(np.int64)
    one, other = np.minimum(rows, cols), np.maximum(rows, cols)
    while len(value):
        link = value / (size[one] * size[other]) / SCALE
        # a group with no link above the share is final: joins of others never strengthen its links
        alive = np.zeros(count, dtype=bool)
        enough = link >= share
        alive[one[enough]] = alive[other[enough]] = True
        keep = alive[one] & alive[other]
        one, other, value, link = one[keep], other[keep], value[keep], link[keep]
        if not len(value):
            break
        best = _best(count, one, other, link, share)
        joined = np.flatnonzero((best > np.arange(count)) & (best[best] == np.arange(count)))
        into = np.arange(count, dtype=np.int64)
        into[best[joined]] = joined
        size[joined] += size[best[joined]]
        group = into[group]
        one, other = into[one], into[other]
        inside = one == other
        one, other, value = one[~inside], other[~inside], value[~inside]
        # SciPy adds what falls on one pair; int64 sums do not depend on the order
        one, other = np.minimum(one, other), np.maximum(one, other)
        used, places = np.unique(np.concatenate([one, other]), return_inverse=True)
        small = coo_array((value, (places[: len(one)], places[len(one) :])), shape=(len(used), len(used))).tocsr()
        small.sum_duplicates()
        summed = small.tocoo()
        one, other, value = used[summed.row], used[summed.col], summed.data
    return numbered(group)


def _best(
    count: int, one: NDArray[np.int64], other: NDArray[np.int64], link: NDArray[np.float64], share: float
) -> NDArray[np.int64]:
    """``(n,)`` the strongest link's other end of each node, the lower of equals; -1 where none reaches the share."""
    enough = link >= share
    ends = np.concatenate([one[enough], other[enough]])
    far = np.concatenate([other[enough], one[enough]])
    strength = np.concatenate([link[enough], link[enough]])
    strongest = np.full(count, -np.inf)
    np.maximum.at(strongest, ends, strength)
    top = strength == strongest[ends]
    best = np.full(count, count, dtype=np.int64)
    np.minimum.at(best, ends[top], far[top])
    best[best == count] = -1
    return best
