"""The graph of near terms: against a loop over all pairs."""

from __future__ import annotations

import numpy as np

from medlink.clustering.evidence import Evidence, shipped_join
from medlink.clustering.graph import build_graph, near_pairs, pairs_to_judge
from medlink.clustering.guards import KINDS, Guards
from medlink.index.selfjoin import nearest


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_graph_against_a_loop() -> None:
    rng = np.random.default_rng(1)
    vectors = unit(rng.normal(size=(12, 16))[np.arange(60) % 12] + 0.5 * rng.normal(size=(60, 16)))
    texts = [f"term {'left' if i % 5 == 0 else ''} {i % 3}" if i % 2 else "term" for i in range(60)]
    texts[7], texts[50] = "WXYZ", "wobbly xeric yellow zone"
    vectors[50] = unit(vectors[[7]] + vectors[[50]])
    concepts = [frozenset([f"C{i % 7}"] if i % 12 == 0 else []) for i in range(60)]
    guards = Guards(texts, [""] * 60, concepts=concepts)
    rows, cosines = nearest(vectors, 10)
    evidence = Evidence(texts, [""] * 60, guards, cosines)
    graph = build_graph(rows, cosines, vectors, evidence, guards)
    expected = {}
    for one in range(60):
        for other in range(one + 1, 60):
            near = other in rows[one].tolist() or one in rows[other].tolist()
            cosine = float(vectors[one] @ vectors[other])
            if not (near and cosine >= 0.35) and {texts[one], texts[other]} != {texts[7], texts[50]}:
                continue
            ends = np.array([one]), np.array([other])
            probability = float(
                shipped_join().probability(evidence.measure(*ends, np.array([cosine], dtype=np.float32)))[0]
            )
            kind = int(guards.apart(*ends)[0])
            two = bool(concepts[one] and concepts[other] and not concepts[one] & concepts[other])
            if probability >= 0.01:
                weight = -1.0 if two else -0.5 if kind else probability
                short = {texts[one], texts[other]} == {texts[7], texts[50]}
                expected[one, other] = (round(weight, 4), kind, round(probability, 4), short)
    columns = (graph.weight.round(4), graph.apart, graph.probability.round(4), graph.short)
    ends = zip(graph.one.tolist(), graph.other.tolist(), strict=True)
    assert dict(zip(ends, zip(*(column.tolist() for column in columns), strict=True), strict=True)) == expected
    assert {KINDS[kind] for kind in graph.apart} >= {"", "concept", "laterality"}
    assert -1.0 in graph.weight
    assert graph.short.sum() == 1


def test_abbreviations_are_looked_at_wherever_they_lie() -> None:
    texts = ["WXYZ", "wobbly xeric yellow zone", "wrist"]
    vectors = np.eye(3, dtype=np.float32)
    guards = Guards(texts, [""] * 3)
    rows, cosines = nearest(vectors, 2)
    evidence = Evidence(texts, [""] * 3, guards, cosines)
    one, other, cosine = pairs_to_judge(rows, cosines, vectors, evidence)
    assert (one.tolist(), other.tolist(), cosine.tolist()) == ([0], [1], [0])
    vectors[0] = 0  # too long to be read by an encoder
    assert pairs_to_judge(*nearest(vectors, 2), vectors, evidence)[0].tolist() == []


def test_no_terms() -> None:
    guards = Guards([], [])
    none = np.zeros((0, 3), dtype=np.float32)
    graph = build_graph(
        none.astype(np.int64), none, np.zeros((0, 4), np.float32), Evidence([], [], guards, none), guards
    )
    assert len(graph.one) == len(graph.weight) == len(graph.short) == 0
    assert near_pairs(none.astype(np.int64), none)[0].tolist() == []
