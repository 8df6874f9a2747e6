"""The cut: against SciPy's average linkage on full matrices, and on its own edges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from medlink.clustering.graph import average_cut, components, numbered


def whole(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, cols = np.triu_indices(len(weights), 1)
    kept = weights[rows, cols] != 0
    return rows[kept], cols[kept], weights[rows, cols][kept]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_it_is_average_linkage(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.random((40, 40)) * (rng.random((40, 40)) < 0.3)
    weights = np.maximum(weights, weights.T)
    np.fill_diagonal(weights, 0)
    distances = 1 - weights
    np.fill_diagonal(distances, 0)
    expected = fcluster(linkage(squareform(distances), "average"), 1 - share, "distance")
    assert average_cut(40, *whole(weights), share).tolist() == numbered(expected).tolist()


def test_a_bridge_does_not_join_two_concepts() -> None:
    """Worked by hand: two triangles of weight 0.9 and a bridge of 0.8; over 9 pairs the bridge is 0.089."""
    weights = np.zeros((6, 6))
    for triangle in ((0, 1, 2), (3, 4, 5)):
        for one in triangle:
            for other in triangle:
                weights[one, other] = 0.9 if one != other else 0
    weights[2, 3] = weights[3, 2] = 0.8
    rows, cols, values = whole(weights)
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
