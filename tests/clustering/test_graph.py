"""Weights of near pairs: worked by hand, and against a loop over all pairs."""

from __future__ import annotations

import numpy as np

from medlink.clustering.graph import build_graph, crowding, pair_weights
from medlink.clustering.guards import KINDS, Guards
from medlink.index.selfjoin import nearest


def one_weight(cosine: float, crowded: float, apart: bool, threshold: float, two_concepts: bool = False) -> float:
    arrays = (np.array([value]) for value in (cosine, crowded, apart, two_concepts))
    return float(pair_weights(*arrays, threshold)[0])


def test_weights_worked_by_hand() -> None:
    """0.71 - 0.2 * (1.0 - 0.9) = 0.69 is 0.01 above 0.68: 1 / (1 + 1/e) = 0.7311."""
    assert round(one_weight(0.71, 1.0, False, 0.68), 4) == 0.7311
    assert one_weight(0.99, 0.9, True, 0.68) == -0.5
    assert one_weight(0.99, 0.9, True, 0.68, two_concepts=True) == -1.0
    assert one_weight(-1.0, 0.9, False, 0.68) < 1e-20
    none = np.zeros(0, bool)
    assert pair_weights(np.zeros(0), np.zeros(0), none, none, 0.5).tolist() == []


def test_crowding_worked_by_hand() -> None:
    """Of 30 places the 6th to the 25th count; 10 of 0.8 and 10 missing, which count 0.45, are 0.625."""
    cosines = np.full((1, 30), 0.9, dtype=np.float32)
    cosines[0, 5:15], cosines[0, 15:] = 0.8, -1
    assert crowding(cosines).round(6).tolist() == [0.625]
    assert crowding(np.zeros((0, 30), dtype=np.float32)).tolist() == []


def test_graph_against_a_loop() -> None:
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(12, 16))
    vectors = (centres[np.arange(60) % 12] + 0.5 * rng.normal(size=(60, 16))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [f"term {'left' if i % 5 == 0 else ''} {i % 3}" if i % 2 else "term" for i in range(60)]
    concepts = [frozenset([f"C{i % 7}"] if i % 12 == 0 else []) for i in range(60)]
    guards = Guards(texts, [""] * 60, concepts=concepts)
    rows, cosines = nearest(vectors, 10)
    graph = build_graph(rows, cosines, guards, 0.6)
    around = crowding(cosines)
    expected = {}
    for one in range(60):
        for place in range(10):
            other = int(rows[one, place])
            pair = (min(one, other), max(one, other))
            ends = np.array([pair[0]]), np.array([pair[1]])
            kind = int(guards.apart(*ends)[0])
            two = bool(concepts[pair[0]] and concepts[pair[1]] and not concepts[pair[0]] & concepts[pair[1]])
            near = around[pair[0]] + around[pair[1]]
            likeness = float(cosines[one, place])
            weight = one_weight(likeness, near, kind > 0, 0.6, two)
            if weight >= 0.01 or (kind and likeness - 0.2 * (near - 0.9) >= 0.55):
                expected[pair] = (round(weight, 6), kind)
    found = zip(
        graph.one.tolist(), graph.other.tolist(), graph.weight.round(6).tolist(), graph.apart.tolist(), strict=True
    )
    assert {(one, other): (weight, kind) for one, other, weight, kind in found} == expected
    assert {KINDS[kind] for _, kind in expected.values()} == {"", "laterality", "concept"}
    assert (graph.one < graph.other).all()


def test_no_terms_and_one() -> None:
    for count in (0, 1):
        rows, cosines = nearest(np.ones((count, 1), dtype=np.float32), 3)
        assert build_graph(rows, cosines, Guards(["a"] * count, [""] * count)).one.tolist() == []
