"""The graph of similar terms, compared with a loop over all pairs, and its cut."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from medlink.clustering import graph as graph_module
from medlink.clustering.abbreviations import stated_pairs
from medlink.clustering.graph import average_cut, build_graph, candidate_pairs, components, relabel
from medlink.clustering.guards import KINDS
from medlink.clustering.pair_features import PairFeatures, shipped_model
from medlink.index.knn_graph import nearest
from medlink.kb.readers.delimited import read_table
from medlink.language.exact import normalise_all
from medlink.linking.demo import demo_folder
from medlink.models import load_encoder
from medlink.records import Name


@pytest.mark.slow
def test_graph_against_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted({one.text for one in read_table(demo_folder() / "terminology.tsv") if isinstance(one, Name)})
    texts = [*names[::6], "WXYZ", "wobbly xeric yellow zone", "wobbly xeric yellow zone (WXYZ)", "left hand"]
    texts += ["right hand", "left hand pain", "right hand pain"]
    count = len(texts)
    vectors = load_encoder().encode(texts)
    rows, cosines = nearest(vectors, 10)
    features = PairFeatures(texts, [""] * count, cosines)
    monkeypatch.setattr(graph_module, "_PAIRS", 999)
    seen: list[tuple[int, int]] = []
    graph = build_graph(rows, cosines, vectors, features, lambda done, whole: seen.append((done, whole)))

    initials = set(zip(features.abbreviations.one.tolist(), features.abbreviations.other.tolist(), strict=True))
    near = [set(row) for row in rows.tolist()]
    pairs = [
        (one, other)
        for one in range(count)
        for other in range(one + 1, count)
        if ((other in near[one] or one in near[other]) and float(vectors[one] @ vectors[other]) >= 0.35)
        or (one, other) in initials
    ]
    one, other = np.array(pairs).T
    measured = features.measure(one, other, np.einsum("ij,ij->i", vectors[one], vectors[other]))
    same, model = shipped_model().same_probability(measured), shipped_model()
    below, above = model.narrower_probability(measured), model.narrower_probability(measured.swapped())
    stated, kinds = stated_pairs(texts, normalise_all(texts)), features.guards.apart(one, other).tolist()
    edges, norms = {}, normalise_all(texts)
    for number, pair in enumerate(pairs):
        kind = kinds[number]
        probability = max(float(same[number]), 0.95 if pair in stated else 0)
        narrower = float(below[number] if below[number] > 0 else -above[number])
        if (kind and KINDS[kind] not in ("laterality", "sex", "compound")) or pair in stated:
            narrower = 0.0
        below_text, above_text = (norms[at] for at in (pair if narrower > 0 else pair[::-1]))
        spelled = above_text in (below_text[: len(above_text)], below_text[-len(above_text) :])
        if abs(narrower) < (0.8 if not spelled else 0.5 if " " in below_text else 0.45):
            narrower = 0.0
        if abs(narrower) > 1.3 * probability and not kind:
            probability = min(probability, 1 - abs(narrower))
        if probability >= 0.01 or narrower:
            edges[pair] = probability, narrower, kind
    expected = {}
    for pair, (probability, narrower, kind) in edges.items():
        weight = -0.5 if kind else probability
        values = (weight, probability, narrower)
        expected[pair] = (*(pytest.approx(value, abs=1e-3) for value in values), kind, pair in initials)
    columns = (graph.weight, graph.probability, graph.narrower, graph.apart, graph.short)
    ends = list(zip(graph.one.tolist(), graph.other.tolist(), strict=True))
    assert ends == sorted(ends)
    assert dict(zip(ends, zip(*(column.tolist() for column in columns), strict=True), strict=True)) == expected
    assert seen[-1] == (count, count)
    # all kinds of edges occur
    assert {KINDS[kind] for kind in graph.apart} >= {"", "laterality"}
    assert graph.narrower.min() < 0 < graph.narrower.max()
    assert len(stated) == 3
    assert all(graph.probability[ends.index(pair)] >= 0.95 for pair in stated if pair in edges and not edges[pair][2])
    assert graph.short.sum() > len(stated)
    assert len(graph) == len(graph.select(graph.apart == 0)) + len(graph.select(graph.apart > 0)) < len(pairs)


def test_abbreviations_are_candidates_at_any_distance() -> None:
    texts = ["WXYZ", "wobbly xeric yellow zone", "wrist"]
    vectors = np.eye(3, dtype=np.float32)
    rows, cosines = nearest(vectors, 2)
    features = PairFeatures(texts, [""] * 3, cosines)
    one, other, cosine = candidate_pairs(rows, cosines, vectors, features)
    assert (one.tolist(), other.tolist(), cosine.tolist()) == ([0], [1], [0])
    vectors[0] = 0  # too long for the encoder
    assert candidate_pairs(*nearest(vectors, 2), vectors, features)[0].tolist() == []


def test_no_terms() -> None:
    none = np.zeros((0, 3), dtype=np.float32)
    graph = build_graph(none.astype(np.int64), none, np.zeros((0, 4), np.float32), PairFeatures([], [], none))
    assert len(graph) == len(graph.weight) == len(graph.short) == len(graph.narrower) == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_average_linkage(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.random((40, 40)) * (rng.random((40, 40)) < 0.3)
    weights = np.maximum(weights, weights.T)
    np.fill_diagonal(weights, 0)
    distances = 1 - weights
    np.fill_diagonal(distances, 0)
    expected = fcluster(linkage(squareform(distances), "average"), 1 - share, "distance")
    rows, cols = np.nonzero(np.triu(weights))
    assert average_cut(40, rows, cols, weights[rows, cols], share).tolist() == relabel(expected).tolist()


def test_a_bridge_does_not_join_two_concepts() -> None:
    """Worked by hand: two triangles of weight 0.9 and a bridge of 0.8; over 9 pairs the bridge is 0.089."""
    rows, cols = np.array([0, 0, 1, 2, 3, 3, 4]), np.array([1, 2, 2, 3, 4, 5, 5])
    values = np.where((rows == 2) & (cols == 3), 0.8, 0.9)
    assert components(6, rows, cols).tolist() == [0] * 6
    assert average_cut(6, rows, cols, values, 0.12).tolist() == [0, 0, 0, 1, 1, 1]
    assert average_cut(6, rows, cols, values, 0.08).tolist() == [0] * 6


def test_a_forbidden_pair_outweighs_a_weak_link() -> None:
    """Worked by hand: {0, 1} and 2 have links 0.5 and -0.3, on average 0.1."""
    ends = np.array([0, 0, 1]), np.array([1, 2, 2])
    assert average_cut(3, *ends, np.array([0.9, 0.5, -0.3]), 0.2).tolist() == [0, 0, 1]
    assert average_cut(3, *ends, np.array([0.9, 0.5, 0.3]), 0.2).tolist() == [0, 0, 0]


def test_ties_and_edges() -> None:
    ring = np.array([0, 1, 2, 0]), np.array([1, 2, 3, 3])
    assert average_cut(4, *ring, np.full(4, 0.5), 0.3).tolist() == [0, 0, 1, 1]
    assert average_cut(4, *ring, np.full(4, 0.5), 0.2).tolist() == [0] * 4
    none = np.zeros(0, dtype=np.int64)
    assert average_cut(0, none, none, np.zeros(0), 0.5).tolist() == []
    assert average_cut(2, none, none, np.zeros(0), 0.5).tolist() == [0, 1]
    assert components(2, none, none).tolist() == [0, 1]


def test_the_order_of_edges_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    rows, cols = np.triu_indices(60, 1)
    kept = rng.random(len(rows)) < 0.1
    rows, cols, values = rows[kept], cols[kept], rng.random(int(kept.sum()))
    order = rng.permutation(len(rows))
    turned = average_cut(60, cols[order], rows[order], values[order], 0.2)
    assert average_cut(60, rows, cols, values, 0.2).tolist() == turned.tolist()
