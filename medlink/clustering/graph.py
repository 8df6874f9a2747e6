"""The graph that is cut: near terms with a weight for how much they speak for one concept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.evidence import Evidence, shipped_join
from medlink.clustering.guards import CONCEPT, Guards
from medlink.index.selfjoin import exact_cosines

THRESHOLD = 0.22
"""Mean probability of all pairs between two groups that joins them (:func:`medlink.clustering.cut.average_cut`)."""
NEIGHBOURS = 30

_NEAR = 0.35  # the lowest cosine of a pair that is looked at
_FORBIDDEN = -0.5  # weight of a pair that a guard parts
_TWO_CONCEPTS = -1.0  # weight of a pair of names of two known concepts: what a terminology says is no guess
_LEAST = 0.01  # a weight below this is none
_PAIRS = 1 << 17  # pairs measured at a time


@dataclass(frozen=True, slots=True)
class Graph:
    """Undirected edges, each once with ``one < other``, sorted by both.

    ``weight (e,)`` is at most 1, below 0 where a guard parts the two; ``cosine (e,)``; ``apart (e,)`` is an index of
    :data:`medlink.clustering.guards.KINDS`; ``probability (e,)`` is what the weight would be without guards;
    ``short (e,)`` whether one of the two says as an abbreviation what the other writes out.
    """

    one: NDArray[np.int64]
    other: NDArray[np.int64]
    weight: NDArray[np.float64]
    cosine: NDArray[np.float32]
    apart: NDArray[np.uint8]
    probability: NDArray[np.float64]
    short: NDArray[np.bool_]

    def kept(self, which: NDArray[np.bool_]) -> Graph:
        """Some of the edges."""
        return Graph(*(getattr(self, name)[which] for name in self.__slots__))


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


def pairs_to_judge(
    rows: NDArray[np.int64], cosines: NDArray[np.float32], vectors: NDArray[np.float32], evidence: Evidence
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Pairs that may be one concept, as :func:`near_pairs`: near terms, and abbreviations with what they stand for.

    ``rows`` and ``cosines`` are those of :func:`medlink.index.selfjoin.nearest` for ``vectors``; a term without a
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
) -> Graph:
    """Edges between terms that are likely enough to be one concept, and between those that a guard parts.

    For ``rows``, ``cosines``, ``vectors`` and ``evidence`` see :func:`pairs_to_judge`.
    """
    one, other, cosine = pairs_to_judge(rows, cosines, vectors, evidence)
    parts = []
    for start in range(0, len(one), _PAIRS):
        ends = one[start : start + _PAIRS], other[start : start + _PAIRS]
        near = cosine[start : start + _PAIRS]
        probability = shipped_join().probability(evidence.measure(*ends, near))
        apart = guards.apart(*ends)
        weight = np.where(apart > 0, _FORBIDDEN, probability)
        weight[guards.parted_by(CONCEPT, *ends)] = _TWO_CONCEPTS
        part = Graph(*ends, weight, near, apart, probability, evidence.initials.of(*ends)[0] > 0)
        parts.append(part.kept(probability >= _LEAST))
    if not parts:
        return Graph(one, other, np.zeros(0), cosine, np.zeros(0, np.uint8), np.zeros(0), np.zeros(0, bool))
    return Graph(*(np.concatenate([getattr(part, name) for part in parts]) for name in Graph.__slots__))
