"""The graph that is cut: near terms with a weight for how much they speak for one concept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.evidence import Evidence, shipped_model
from medlink.clustering.guards import Guards
from medlink.index.selfjoin import exact_cosines

_NEAR = 0.35  # the lowest cosine of a pair that is looked at
_FORBIDDEN = -0.5  # weight of a pair that a guard parts
_STATED = 0.95  # probability of what a term of the list says itself, as "long form (ABC)" does
_LEAST = 0.01  # a probability below this says nothing
_NARROWER = 0.6  # probability of one being narrower below which nothing is said
_PAIRS = 1 << 17  # pairs measured at a time


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
