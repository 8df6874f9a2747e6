"""Ranks against a sort of every pair, intervals against a loop, calibration against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from medlink.errors import ConfigError
from medlink.evaluation import measures
from medlink.evaluation.measures import calibration_error, estimate, measure_ranks, rank_gold
from tests.evaluation.commands import random_groups

Floats = NDArray[np.float32]


def unit(rows: NDArray[np.float64]) -> Floats:
    found: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return found


def naive(
    queries: Floats, names: Floats, owners: list[set[int]], gold: list[set[int]], depth: int, by: str
) -> list[int]:
    ranks = []
    for query, right in zip(queries, gold, strict=True):
        cosines = [float(np.dot(query, name)) for name in names]
        nearest = sorted(range(len(names)), key=lambda row: (-cosines[row], row))[:depth]
        entries = sorted((-cosines[row], concept, row) for row in nearest for concept in owners[row])
        concepts = [concept for _, concept, _ in entries]
        if by == "concepts":
            concepts = list(dict.fromkeys(concepts))
        hits = [place for place, concept in enumerate(concepts[:depth], start=1) if concept in right]
        ranks.append(hits[0] if hits else 0)
    return ranks


def table(groups: list[set[int]], width: int) -> csr_array:
    dense = np.zeros((len(groups), width), dtype=np.int64)
    for row, group in enumerate(groups):
        dense[row, list(group)] = 1
    return csr_array(dense)


def test_by_hand() -> None:
    # cosines 1.0, 0.8, 0.6, 0.0; the second and third name are of concepts 0 and 2
    names = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]], dtype=np.float32)
    owners = table([{0}, {0}, {2}, {1}], 3)
    query = np.array([[1, 0]] * 4, dtype=np.float32)
    gold = table([{0}, {1}, {2}, {1, 2}], 3)
    found = rank_gold(query, names, owners, gold)
    assert found.rank.tolist() == [1, 3, 2, 2]
    assert found.concept.tolist() == [0] * 4
    np.testing.assert_allclose(found.cosine, 1)
    assert rank_gold(query, names, owners, gold, rank_by="names").rank.tolist() == [1, 4, 3, 3]
    assert rank_gold(query, names, owners, gold, depth=2).rank.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("by", ["concepts", "names"])
@pytest.mark.parametrize("depth", [1, 5, 40, 200])
def test_against_a_sort_of_all_pairs(by: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "_BLOCK", 7)
    rng = np.random.default_rng(depth)
    # few dimensions of few values: ties everywhere
    names = unit(rng.integers(-1, 2, (80, 3)) + np.array([0, 0, 1.5]))
    queries = unit(rng.integers(-1, 2, (30, 3)) + np.array([0, 0, 1.5]))
    owners = [{int(one[1:]) for one in group} for group in random_groups(80, 20, seed=depth)]
    gold = [set(rng.choice(20, rng.integers(0, 3), replace=False).tolist()) for _ in queries]
    # float32 sums of three terms are the same for the oracle only where they are rounded alike
    exact = (names.astype(np.float64) * 64).round() / 64
    names, queries = exact.astype(np.float32), ((queries.astype(np.float64) * 64).round() / 64).astype(np.float32)
    found = rank_gold(queries, names, table(owners, 20), table(gold, 20), depth=depth, rank_by=by)
    assert found.rank.tolist() == naive(queries, names, owners, gold, depth, by)


def test_ties_go_to_the_lower_concept_then_to_the_lower_row() -> None:
    names = np.array([[1, 0]] * 3, dtype=np.float32)
    owners = table([{2}, {1}, {1}], 3)
    found = rank_gold(names[:1], names, owners, table([{2}], 3))
    assert (found.concept.tolist(), found.rank.tolist()) == ([1], [2])
    assert rank_gold(names[:1], names, owners, table([{2}], 3), rank_by="names").rank.tolist() == [3]


def test_edges() -> None:
    none, one = np.zeros((0, 2), dtype=np.float32), np.array([[1, 0]], dtype=np.float32)
    empty = rank_gold(one, none, csr_array((0, 2), dtype=np.int64), table([{0}], 2))
    assert (empty.rank.tolist(), empty.concept.tolist()) == ([0], [-1])
    assert rank_gold(none, one, table([{0}], 1), csr_array((0, 1), dtype=np.int64)).rank.shape == (0,)
    assert rank_gold(one, one, table([{0}], 2), csr_array((1, 2), dtype=np.int64)).rank.tolist() == [0]
    owner = table([{0}], 1)
    with pytest.raises(ConfigError, match=r"rank_by is 'rows'\. Remedy: one of concepts, names"):
        rank_gold(one, one, owner, owner, rank_by="rows")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ConfigError, match="depth 0, 1 or more expected"):
        rank_gold(one, one, owner, owner, depth=0)


def test_measures_by_hand() -> None:
    mrr = (1 + 1 + 1 / 2 + 1 / 5 + 1 / 6) / 6
    found = measure_ranks(np.array([1, 1, 2, 5, 6, 0])).to_dict()
    assert found == pytest.approx({"queries": 6, "acc1": 2 / 6, "acc5": 4 / 6, "mrr": mrr, "unfound": 1 / 6})
    assert measure_ranks(np.array([0])).to_dict() == {"queries": 1, "acc1": 0, "acc5": 0, "mrr": 0, "unfound": 1}
    with pytest.raises(ConfigError, match=r"no queries to measure\. Remedy: give one or more"):
        measure_ranks(np.zeros(0, dtype=np.int64))


def test_the_interval_of_a_mean_is_that_of_a_loop() -> None:
    values = np.random.default_rng(0).uniform(size=30)
    found = estimate(np.mean, [values], 50, 0.95, 4)
    means = [values[rows].mean() for rows in np.random.default_rng(4).integers(0, 30, (50, 30))]
    assert (found.items, found.value) == (30, pytest.approx(values.mean()))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, (0.025, 0.975))))
    one = estimate(np.mean, [np.array([0.4])], 50, 0.95, 1)
    assert one.to_dict() == {"items": 1, "value": 0.4, "low": 0.4, "high": 0.4}
    with pytest.raises(ConfigError, match="there are no items"):
        estimate(np.mean, [np.zeros(0)], 50, 0.95, 1)


@pytest.mark.slow
def test_calibration_error_is_that_of_scikit_learn() -> None:
    from sklearn.calibration import calibration_curve

    rng = np.random.default_rng(3)
    scores = rng.uniform(size=400)
    right = rng.uniform(size=400) < scores**2
    share, mean = calibration_curve(right, scores, n_bins=10)
    sizes = np.histogram(scores, bins=np.linspace(0, 1, 11))[0]
    assert calibration_error(scores, right) == pytest.approx((abs(share - mean) * sizes).sum() / 400)
    assert calibration_error(np.array([1.0, 1.0]), np.array([True, True])) == 0
    assert np.isnan(calibration_error(np.zeros(0), np.zeros(0, dtype=bool)))
