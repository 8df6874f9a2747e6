"""The cut: a graph of near terms to groups, so that one bridge does not join two concepts.

Average linkage on a sparse graph: the link of two groups is the sum of the weights between them over the number of
pairs that they could have, so a pair that is no edge counts as 0. Groups that are each other's best are joined in
rounds (RAC; Sumengen et al. 2021, "Scaling Hierarchical Agglomerative Clustering to Billion-sized Datasets"), which
gives what joining the best pair one at a time gives, since the average of two links is never above the larger one. That
same fact lets a group leave the graph once all its links are too weak. SciPy has average linkage for full matrices
alone, which ends at some ten thousand terms, and a graph of near terms has one component of most of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SCALE = 1 << 20
"""Weights are summed as whole multiples of 1 / SCALE: a sum does not depend on its order."""


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

    Sumengen et al. 2021 with average linkage; where several links are equal the lower node goes first.

    Args:
        count: n nodes.
        rows, cols, weights: ``(e,)`` ends and weight of each edge, each undirected edge once and no loops; a weight is
            at most 1, and below 0 for a pair that speaks against joining.
        share: average weight that two groups need, above 0.

    Returns:
        ``(n,)`` group of each node, numbered by their first node.

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
        # a group whose links are all below the share stays as it is: no join makes a link of its stronger
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
