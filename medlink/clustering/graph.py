"""The graph of similar terms, and its cut into groups.

The cut is average linkage on a sparse graph, so that one bridge does not join two concepts: the link of two groups is
the sum of the weights between them, divided by the number of possible pairs. A missing edge counts as 0. Each round
joins all reciprocal nearest neighbours (RAC; Sumengen et al. 2021, "Scaling Hierarchical Agglomerative Clustering to
Billion-sized Datasets"). The result equals that of joining the best pair one at a time, because the average of two
links is never above the larger one. For the same reason only the connected components of the sufficient links matter.
SciPy has average linkage only for full matrices, and a component may have more terms than fit in one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.guards import KINDS, Guards
from medlink.clustering.list_prior import adjust_to_list
from medlink.clustering.pair_features import PER_TERM, PairFeatures, Pairs, shipped_model
from medlink.index.knn_graph import exact_cosines
from medlink.language.guard_words import NEGATION
from medlink.processes import MIN_FORKED, forked

_MIN_COSINE = 0.35
_FORBIDDEN = -0.5  # weight of a pair that a guard separates
_STATED = 0.95  # probability of a pair that the list states, as "long form (ABC)" does
_MIN_PROBABILITY = 0.01
_MIN_NARROWER = 0.6
_PAIRS = 1 << 17  # in memory at a time
_WHOLE = PER_TERM.index("whole")
_PARTS = 32  # of the rows, whose pairs are in memory at a time
SCALE = 1 << 20
"""Weights are summed as multiples of 1 / SCALE, so that a sum does not depend on its order."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Undirected edges, each once with ``one < other``, sorted by both.

    ``probability (e,)`` is that of being one concept, regardless of guards. ``apart (e,)`` is an index of
    :data:`medlink.clustering.guards.KINDS`. ``short (e,)`` is true if one term abbreviates the other. ``narrower (e,)``
    is the probability that ``one`` is narrower than ``other``; a negative value means that it is broader.
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
        """Weights ``(e,)``, at most 1; negative if a guard separates the two terms."""
        return np.where(self.apart > 0, _FORBIDDEN, self.probability)

    def select(self, edges: NDArray[Any]) -> Graph:
        return Graph(*(getattr(self, name)[edges] for name in self.__slots__))


def near_pairs(
    rows: NDArray[np.integer[Any]], cosines: NDArray[np.float32], least: float = -1.0, part: slice = slice(None)
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return pairs of near neighbours, once each: lower row, higher row, and cosine, ``(p,)`` each.

    ``rows`` and ``cosines`` are those of :func:`medlink.index.knn_graph.nearest`. Pairs are sorted by both rows; pairs
    with a cosine below ``least`` and pairs whose lower row is not in a ``part`` of the rows are left out.

    >>> [ends.tolist() for ends in near_pairs(np.array([[1], [0], [1]]), np.array([[0.5], [0.5], [0.25]]))]
    [[0, 1], [1, 2], [0.5, 0.25]]
    """
    start, stop, _ = part.indices(len(rows))
    width, count = max(rows.shape[1], 1), max(len(rows), 1)
    # in the lists of the part all neighbours behind its start, in later lists those in the part
    is_near = cosines[start:] >= least
    is_near &= rows[start:] >= start
    is_near[stop - start :] &= rows[stop:] < stop
    near = np.flatnonzero(is_near) + start * width
    lower, higher = near // width, rows.ravel()[near]
    key, first = np.unique(np.minimum(lower, higher) * count + np.maximum(lower, higher), return_index=True)
    return key // count, key % count, cosines.ravel()[near[first]]


def candidate_pairs(
    rows: NDArray[np.int64], cosines: NDArray[np.float32], vectors: NDArray[np.float32], features: PairFeatures,
    part: slice = slice(None),
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:  # fmt: skip
    """Return the pairs to compare, as :func:`near_pairs`: near terms, and abbreviations with their long forms.

    ``rows`` and ``cosines`` are those of :func:`medlink.index.knn_graph.nearest` for ``vectors``. A term with a zero
    vector is in no pair.
    """
    lower, higher, cosine = near_pairs(rows, cosines, _MIN_COSINE, part)
    short, count = features.abbreviations, len(rows)
    some = slice(*np.searchsorted(short.one, part.indices(count)[:2]))
    ends = short.one[some], short.other[some]
    more = ~np.isin(ends[0] * count + ends[1], lower * count + higher)
    more &= vectors[ends[0]].any(axis=1) & vectors[ends[1]].any(axis=1)
    ends = ends[0][more], ends[1][more]
    more_cosines = exact_cosines(
        np.ascontiguousarray(vectors[ends[0]]), vectors, np.ascontiguousarray(ends[1][:, None])
    )
    lower, higher = np.concatenate([lower, ends[0]]), np.concatenate([higher, ends[1]])
    order = np.lexsort((higher, lower))
    return lower[order], higher[order], np.concatenate([cosine, more_cosines.ravel()])[order]


def build_graph(
    rows: NDArray[np.int64],
    cosines: NDArray[np.float32],
    vectors: NDArray[np.float32],
    features: PairFeatures,
    progress: Callable[[int, int], object] | None = None,
) -> Graph:
    """Build the edges between terms that may be one concept, or a narrower and a broader concept.

    For ``rows``, ``cosines``, ``vectors`` and ``features`` see :func:`candidate_pairs`. A second process compares every
    other part of a long list. ``progress`` is called with the terms done and their total.
    """
    count = len(rows)
    step = max(-(-count // _PARTS), 1)
    parts = [slice(start, min(start + step, count)) for start in range(0, count or 1, step)]
    report = progress or (lambda done, total: None)

    def compare(part: slice) -> Graph:
        return _compare(*candidate_pairs(rows, cosines, vectors, features, part), features)

    with forked(lambda: list(map(compare, parts[1::2])), wanted=count >= MIN_FORKED) as others:
        graphs = []
        for part in parts[::2]:
            graphs.append(compare(part))
            if part.stop < count:
                report(part.stop, count)
        graphs = [graph for graph in chain(*zip_longest(graphs, others())) if graph is not None]
    report(count, count)
    return _adjust(_concatenate(graphs), count)


def _adjust(graph: Graph, terms: int) -> Graph:
    free = graph.apart == 0
    adjusted = adjust_to_list(graph.probability[free], terms)
    adjusted = np.minimum(adjusted, 1 - np.abs(graph.narrower[free]))
    certain = graph.probability[free] >= _STATED
    graph.probability[free] = np.where(certain, np.maximum(adjusted, _STATED), adjusted)
    return graph


def _compare(
    lower: NDArray[np.int64], higher: NDArray[np.int64], cosine: NDArray[np.float32], features: PairFeatures
) -> Graph:
    model, parts = shipped_model(), []
    for start in range(0, len(lower) or 1, _PAIRS):
        ends = lower[start : start + _PAIRS], higher[start : start + _PAIRS]
        pairs = features.measure(*ends, cosine[start : start + _PAIRS])
        apart, broader = _guarded(ends, pairs, features.guards), model.narrower_probability(pairs.swapped())
        narrower = np.maximum(model.narrower_probability(pairs), broader) * np.where(broader > 0, -1, 1)
        explained, _, stated = features.abbreviations.lookup(*ends)
        probability = np.maximum(model.same_probability(pairs), np.where(stated, _STATED, 0))
        narrower[(apart > 0) | stated] = 0
        # a pair is either the same or narrower, whichever is likelier
        likelier = np.abs(narrower) > probability
        probability[likelier] = np.minimum(probability[likelier], 1 - np.abs(narrower[likelier]))
        narrower[np.abs(narrower) < _MIN_NARROWER] = 0
        part = Graph(*ends, probability, apart, explained > 0, narrower)
        parts.append(part.select((part.probability >= _MIN_PROBABILITY) | (narrower != 0)))
    return _concatenate(parts)


def _guarded(ends: tuple[NDArray[np.int64], NDArray[np.int64]], pairs: Pairs, guards: Guards) -> NDArray[np.uint8]:
    """Return the guard of each pair ``(p,)``, also for a term that denies all words of another in any language."""
    apart, (one, other) = guards.apart(*ends), (guards.denied[rows] for rows in ends)
    affirmed = np.where(one, pairs.other[:, _WHOLE], pairs.one[:, _WHOLE])
    return np.where((apart == 0) & (one != other) & (affirmed > 0), np.uint8(KINDS.index(NEGATION)), apart)


def _concatenate(graphs: Sequence[Graph]) -> Graph:
    return Graph(*(np.concatenate([getattr(graph, name) for graph in graphs]) for name in Graph.__slots__))


def components(count: int, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the connected component of each node ``(n,)``, numbered by first node; ``rows, cols (e,)`` are edges."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, cols)), shape=(count, count))
    return relabel(connected_components(graph, directed=False)[1])


def relabel(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Number labels from 0 in the order of their first occurrence."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(len(first))
    return np.asarray(number[inverse.ravel()])


def average_cut(
    count: int, rows: NDArray[np.int64], cols: NDArray[np.int64], weights: NDArray[np.float64], share: float
) -> NDArray[np.int64]:
    """Join groups by average linkage on a graph while their link is at least ``share``.

    ``rows, cols, weights (e,)`` are ends and weight of each undirected edge of ``count`` nodes, once and without loops.
    A weight is at most 1, and negative for a pair that should stay apart. Returns the group of each node ``(n,)``,
    numbered by their first node; of equal links the lower node goes first.
    """
    from scipy.sparse import coo_array

    # the lowest node represents a group, so that ties go to the lower node in every round
    group = np.arange(count, dtype=np.int64)
    size = np.ones(count, dtype=np.int64)
    value = np.rint(np.asarray(weights) * SCALE).astype(np.int64)
    lower, higher = np.minimum(rows, cols), np.maximum(rows, cols)
    # joins never strengthen a link, so nodes that no chain of sufficient links connects stay apart
    enough = value / SCALE >= share
    connected = components(count, lower[enough], higher[enough])
    keep = connected[lower] == connected[higher]
    lower, higher, value = lower[keep], higher[keep], value[keep]
    while (link := value / (size[lower] * size[higher]) / SCALE).max(initial=-1) >= share:
        best = _best_partner(count, lower, higher, link, share)
        joined = np.flatnonzero((best > np.arange(count)) & (best[best] == np.arange(count)))
        into = np.arange(count, dtype=np.int64)
        into[best[joined]] = joined
        size[joined] += size[best[joined]]
        group = into[group]
        lower, higher = into[lower], into[higher]
        inside = lower == higher
        lower, higher, value = lower[~inside], higher[~inside], value[~inside]
        # SciPy sums the weights of a pair; int64 sums do not depend on the order
        lower, higher = np.minimum(lower, higher), np.maximum(lower, higher)
        summed = coo_array((value, (lower, higher)), shape=(count, count)).tocsr().tocoo()
        lower, higher, value = summed.row.astype(np.int64), summed.col.astype(np.int64), summed.data
    return relabel(group)


def _best_partner(
    count: int, lower: NDArray[np.int64], higher: NDArray[np.int64], link: NDArray[np.float64], share: float
) -> NDArray[np.int64]:
    # (n,) other end of the strongest link of each node, the lower of equals; -1 if none reaches the share
    enough = link >= share
    ends = np.concatenate([lower[enough], higher[enough]])
    far = np.concatenate([higher[enough], lower[enough]])
    strength = np.concatenate([link[enough], link[enough]])
    strongest = np.full(count, -np.inf)
    np.maximum.at(strongest, ends, strength)
    top = strength == strongest[ends]
    best = np.full(count, count, dtype=np.int64)
    np.minimum.at(best, ends[top], far[top])
    best[best == count] = -1
    return best
