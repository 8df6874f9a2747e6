"""The graph of similar terms, and its cut into groups.

The cut is average linkage, so that one bridge does not join two concepts: the link of two groups is the sum of the
weights between them, divided by the number of possible pairs. Each round joins all reciprocal nearest neighbours (RAC;
Sumengen et al. 2021, "Scaling Hierarchical Agglomerative Clustering to Billion-sized Datasets"). The result equals that
of joining the best pair one at a time, because the average of two links is never above the larger one. SciPy has
average linkage only for full matrices, and a component may have more terms than fit in one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.guards import KINDS, NARROWING
from medlink.clustering.pair_features import PER_TERM, PairFeatures, shipped_model
from medlink.index.knn_graph import exact_cosines
from medlink.language.guard_words import NEGATION
from medlink.processes import MIN_FORKED, forked

_MIN_COSINE = 0.35
_FORBIDDEN = -0.5  # weight of a pair that a guard separates
_STATED = 0.95  # probability of a pair that the list states, as "long form (ABC)" does
_MIN_PROBABILITY = 0.01
# lowest probability of *narrower* for terms that do not spell the broader one, do so at an end, or as end of a compound
_LEAST_NARROWER = np.array([0.8, 0.5, 0.45])
_NARROWING = sorted(map(KINDS.index, NARROWING))
_LIKELIER = 1.3  # a term that is so many times likelier to be narrower is not the same
_PAIRS = 1 << 17  # in memory at a time
_WHOLE = PER_TERM.index("whole")
_PARTS = 32  # parts of the rows; the pairs of one part are in memory at a time
_SCALE = 1 << 20  # weights are summed as multiples of 1 / _SCALE, so that a sum does not depend on its order


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

    def split(self, group: NDArray[np.int64]) -> tuple[Graph, Graph]:
        """Return the edges within groups that no guard separates, and the edges between groups; ``group (n,)``."""
        joined = group[self.one] == group[self.other]
        return self.select(joined & (self.apart == 0)), self.select(~joined)


def near_pairs(
    rows: NDArray[np.integer[Any]], cosines: NDArray[np.float32], least: float = -1.0, part: slice = slice(None)
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Return pairs of near neighbours, once each, sorted: lower row, higher row, and cosine, ``(p,)`` each.

    ``rows`` and ``cosines`` are those of :func:`medlink.index.knn_graph.nearest`. Leaves out pairs with a cosine below
    ``least``, and pairs whose lower row is outside of a ``part`` of the rows.

    >>> [ends.tolist() for ends in near_pairs(np.array([[1], [0], [1]]), np.array([[0.5], [0.5], [0.25]]))]
    [[0, 1], [1, 2], [0.5, 0.25]]
    """
    start, stop, _ = part.indices(len(rows))
    width, count = max(rows.shape[1], 1), max(len(rows), 1)
    # the lists of the part give all neighbours behind its start, later lists those in the part
    is_near = (cosines[start:] >= least) & (rows[start:] >= start)
    is_near[stop - start :] &= rows[stop:] < stop
    near = np.flatnonzero(is_near) + start * width
    lower, higher = near // width, rows.ravel()[near]
    key, first = np.unique(np.minimum(lower, higher) * count + np.maximum(lower, higher), return_index=True)
    return key // count, key % count, cosines.ravel()[near[first]]


def candidate_pairs(
    rows: NDArray[np.int64], cosines: NDArray[np.float32], vectors: NDArray[np.floating[Any]], features: PairFeatures,
    part: slice = slice(None),
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:  # fmt: skip
    """Return the pairs to compare, as :func:`near_pairs`: near terms, and abbreviations with their long forms.

    ``rows`` and ``cosines`` are those of :func:`medlink.index.knn_graph.nearest` for ``vectors``. A term with a zero
    vector is in no pair.
    """
    lower, higher, cosine = near_pairs(rows, cosines, _MIN_COSINE, part)
    short, count = features.abbreviations, len(rows)
    some = slice(*np.searchsorted(short.one, part.indices(count)[:2]))
    ends = np.stack([short.one[some], short.other[some]])
    ends = ends[:, ~np.isin(ends[0] * count + ends[1], lower * count + higher) & vectors[ends].any(axis=2).all(axis=0)]
    one, other = (vectors[side].astype(np.float32) for side in ends)
    more = exact_cosines(one, other, np.arange(len(one))[:, None])
    lower, higher = np.concatenate([lower, ends[0]]), np.concatenate([higher, ends[1]])
    order = np.lexsort((higher, lower))
    return lower[order], higher[order], np.concatenate([cosine, more.ravel()])[order]


def build_graph(
    rows: NDArray[np.int64], cosines: NDArray[np.float32], vectors: NDArray[np.floating[Any]], features: PairFeatures,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Graph:  # fmt: skip
    """Build the edges between terms that may be one concept, or a narrower and a broader concept.

    For ``rows``, ``cosines``, ``vectors`` and ``features`` see :func:`candidate_pairs`. A second process compares every
    other part of a long list. ``progress`` is called with the terms done and their total.
    """
    count = len(rows)
    step = max(-(-count // _PARTS), 1)
    parts = [slice(start, min(start + step, count)) for start in range(0, count or 1, step)]

    def compare(part: slice) -> Graph:
        return _compare(*candidate_pairs(rows, cosines, vectors, features, part), features)

    with forked(lambda: list(map(compare, parts[1::2])), wanted=count >= MIN_FORKED) as others:
        graphs = []
        for part in parts[::2]:
            graphs.append(compare(part))
            if part.stop < count:
                progress(part.stop, count)
        graph = _concatenate([graph for graph in chain(*zip_longest(graphs, others())) if graph is not None])
    progress(count, count)
    return graph


def _compare(
    lower: NDArray[np.int64], higher: NDArray[np.int64], cosine: NDArray[np.float32], features: PairFeatures
) -> Graph:
    model, parts = shipped_model(), []
    for start in range(0, len(lower) or 1, _PAIRS):
        ends = lower[start : start + _PAIRS], higher[start : start + _PAIRS]
        pairs = features.measure(*ends, cosine[start : start + _PAIRS])
        # in any language a term may deny all words of another
        apart, (denied, other) = features.guards.apart(*ends), (features.guards.denied[rows] for rows in ends)
        affirmed = np.where(denied, pairs.other[:, _WHOLE], pairs.one[:, _WHOLE]) > 0
        apart[(apart == 0) & (denied != other) & affirmed] = KINDS.index(NEGATION)
        broader = model.narrower_probability(pairs.swapped())
        narrower = np.maximum(model.narrower_probability(pairs), broader) * np.where(broader > 0, -1, 1)
        explained, _, stated = features.abbreviations.lookup(*ends)
        probability = np.maximum(model.same_probability(pairs), np.where(stated, _STATED, 0))
        narrower[stated | ((apart > 0) & ~np.isin(apart, _NARROWING))] = 0
        certainty = np.abs(narrower)
        weak = np.flatnonzero((certainty >= _LEAST_NARROWER[-1]) & (certainty < _LEAST_NARROWER[0]))
        below, above = np.where(narrower[weak] > 0, (ends[0][weak], ends[1][weak]), (ends[1][weak], ends[0][weak]))
        narrower[weak[certainty[weak] < _LEAST_NARROWER[features.spelled(below, above)]]] = 0
        narrower[certainty < _LEAST_NARROWER[-1]] = 0
        certainty = np.abs(narrower)
        likelier = (certainty > _LIKELIER * probability) & (apart == 0)
        probability = np.where(likelier, np.minimum(probability, 1 - certainty), probability)
        part = Graph(*ends, probability, apart, explained > 0, narrower)
        parts.append(part.select((part.probability >= _MIN_PROBABILITY) | (narrower != 0)))
    return _concatenate(parts)


def _concatenate(graphs: Sequence[Graph]) -> Graph:
    return Graph(*(np.concatenate([getattr(graph, name) for graph in graphs]) for name in Graph.__slots__))


def components(count: int, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the connected component of each of ``count`` nodes, numbered by first node."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, cols)), shape=(count, count))
    return relabel(connected_components(graph, directed=False)[1])


def relabel(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Number labels from 0 in the order of their first occurrence."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse.ravel()])


def average_cut(
    count: int, rows: NDArray[np.int64], cols: NDArray[np.int64], weights: NDArray[np.float64], share: float
) -> NDArray[np.int64]:
    """Join groups by average linkage on a graph while their link is at least ``share``.

    ``rows, cols, weights (e,)`` are ends and weight of each undirected edge of ``count`` nodes, once and without loops.
    A weight is at most 1, and negative for a pair that should stay apart. Returns the group of each node, numbered by
    their first node; among equal links the lower node goes first.
    """
    from scipy.sparse import coo_array

    # the lowest node represents a group, so that ties go to the lower node in every round
    group = np.arange(count, dtype=np.int64)
    size = np.ones(count, dtype=np.int64)
    value = np.rint(np.asarray(weights) * _SCALE).astype(np.int64)
    lower, higher = np.minimum(rows, cols), np.maximum(rows, cols)
    # joins never strengthen a link, so nodes that no chain of sufficient links connects stay apart
    enough = value / _SCALE >= share
    connected = components(count, lower[enough], higher[enough])
    keep = connected[lower] == connected[higher]
    lower, higher, value = lower[keep], higher[keep], value[keep]
    while (link := value / (size[lower] * size[higher]) / _SCALE).max(initial=-1) >= share:
        # a node without a sufficient link never gets one
        enough, active = link >= share, np.zeros(count, dtype=bool)
        active[lower[enough]] = active[higher[enough]] = True
        keep = active[lower] & active[higher]
        lower, higher, value, link, enough = (values[keep] for values in (lower, higher, value, link, enough))
        best = _best_partner(count, lower[enough], higher[enough], link[enough])
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
    count: int, lower: NDArray[np.int64], higher: NDArray[np.int64], link: NDArray[np.float64]
) -> NDArray[np.int64]:
    # (n,) other end of the strongest link of each node, the lower of equals; -1 for none
    strongest, best = np.full(count, -1.0), np.full(count, count, dtype=np.int64)
    sides = ((lower, higher), (higher, lower))
    for ends, _ in sides:
        np.maximum.at(strongest, ends, link)
    for ends, far in sides:
        is_best = link == strongest[ends]
        np.minimum.at(best, ends[is_best], far[is_best])
    return np.where(best < count, best, -1)
