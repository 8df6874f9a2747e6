"""The sweep of CODER++, section 3: every count against all pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from medlink.errors import ConfigError
from medlink.evaluation import sweep
from medlink.evaluation.clustering import NEIGHBOURS, THRESHOLDS, ClusteringTask, count_pairs, threshold_range
from medlink.evaluation.partition import incidence
from tests.evaluation.test_pairs import random_groups


def vectors(n: int, d: int = 6, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def naive(groups: list[tuple[str, ...]], x: np.ndarray, m: int, thresholds: list[float]) -> list[tuple[int, ...]]:
    """Every pair at every threshold."""
    cosines = x.astype(np.float64) @ x.T.astype(np.float64)
    near = [set(sorted(set(range(len(x))) - {i}, key=lambda j: (-row[j], j))[:m]) for i, row in enumerate(cosines)]
    out = []
    for theta in thresholds:
        counts = {(True, True): 0, (False, True): 0, (True, False): 0, (False, False): 0}
        for i, j in combinations(range(len(x)), 2):
            true = bool(set(groups[i]) & set(groups[j]))
            counts[true, (j in near[i] or i in near[j]) and bool(cosines[i, j] > theta)] += 1
        out.append((counts[True, True], counts[False, True], counts[True, False], counts[False, False]))
    return out


def test_by_hand() -> None:
    # cosines: a-b 0.8, b-c 0.6, a-c 0; nearest: a-b, b-a, c-b
    x = np.array([[1, 0], [0.8, 0.6], [0, 1]], dtype=np.float32)
    found = sweep(["A", "A", "A"], x, neighbours=1, thresholds=[-1, 0.5, 0.7, 0.9])
    assert found.tp.tolist() == [2, 2, 1, 0]
    assert found.fn.tolist() == [1, 1, 2, 3], "a and c are in no list of each other"
    assert found.fp.tolist() == found.tn.tolist() == [0, 0, 0, 0]
    assert found.precision.tolist() == [1, 1, 1, 0], "nothing predicted has precision 0"
    np.testing.assert_allclose(found.recall, [2 / 3, 2 / 3, 1 / 3, 0])
    np.testing.assert_allclose(found.f1, [0.8, 0.8, 0.5, 0])
    assert found.best == 0, "the lowest of several best thresholds"
    assert (found.names, found.neighbours, found.true_pairs, found.listed_true_pairs) == (3, 1, 3, 2)
    assert found.tp.dtype == found.fp.dtype == found.fn.dtype == found.tn.dtype == np.int64
    assert found.to_dicts()[2] == pytest.approx(
        {"threshold": 0.7, "precision": 1, "recall": 1 / 3, "f1": 0.5, "tp": 1, "fp": 0, "fn": 2, "tn": 0}
    )


@pytest.mark.parametrize(("n", "concepts", "m"), [(60, 8, 5), (60, 40, 59), (90, 30, 200), (2, 1, 1)])
def test_counts_are_those_of_all_pairs(n: int, concepts: int, m: int) -> None:
    groups = random_groups(n, concepts, seed=n) if concepts > 4 else [("A",)] * n
    x = vectors(n, seed=m)
    thresholds = [-1, -0.5, 0, 0.3, 0.6, 0.9, 1]
    found = sweep(groups, x, neighbours=m, thresholds=thresholds)
    assert list(zip(*(a.tolist() for a in (found.tp, found.fp, found.fn, found.tn)), strict=True)) == naive(
        groups, x, m, thresholds
    )


def test_a_pair_at_the_threshold_is_not_predicted() -> None:
    x = np.array([[1, 0], [0.5, 0.75**0.5]], dtype=np.float32)
    assert sweep(["A", "A"], x, thresholds=[0.5]).tp.tolist() == [0]
    assert sweep(["A", "A"], x, thresholds=[0.5 - 1e-7]).tp.tolist() == [1]


def test_pairs_are_counted_in_64_bits() -> None:
    n = 100_000
    rows = np.full((n, 1), -1)
    found = count_pairs(incidence(["A"] * n), rows, np.zeros((n, 1), np.float32), np.array([0.5]))
    assert found.fn.tolist() == [n * (n - 1) // 2]
    assert found.tn.tolist() == [0]


def test_refusals() -> None:
    x = vectors(3)
    with pytest.raises(ConfigError, match="2 names and 3 embeddings"):
        sweep(["A", "A"], x)
    with pytest.raises(ConfigError, match=r"no two names share a concept\. Remedy: evaluate on a source that has"):
        sweep(["A", "B", "C"], x)
    for bad in ([], [0.5, 0.5], [0.6, 0.5], [1.5], [float("nan")], 0.5):
        with pytest.raises(ConfigError, match="thresholds must be cosines"):
            sweep(["A", "A", "B"], x, thresholds=bad)
    with pytest.raises(ConfigError, match="vector 0 has length 2"):
        sweep(["A", "A", "B"], 2 * x)


def test_the_task_has_the_same_defaults() -> None:
    assert threshold_range(ClusteringTask().thresholds) == list(THRESHOLDS)
    assert ClusteringTask().neighbours == NEIGHBOURS
