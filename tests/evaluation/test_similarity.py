"""Correlations, accuracy of triplets and their intervals, against SciPy and loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from medlink.errors import ConfigError
from medlink.evaluation import measures
from medlink.evaluation.similarity import correlate, pair_cosines, triplet_accuracy


def test_cosines_by_hand() -> None:
    one = np.array([[1, 0], [0.6, 0.8], [0, 0]], dtype=np.float32)
    other = np.array([[0, 1], [0.6, 0.8], [1, 0]], dtype=np.float32)
    np.testing.assert_allclose(pair_cosines(one, other), [0, 1, 0], atol=1e-6)
    assert pair_cosines(one, one).max() <= 1
    assert pair_cosines(one[:0], one[:0]).shape == (0,)
    with pytest.raises(ConfigError, match=r"embeddings of shape \(3, 2\) and \(2, 2\), the same \(n, d\) expected"):
        pair_cosines(one, other[:2])


def test_correlations_by_hand() -> None:
    # ranks 1 2.5 2.5 4 against 1 2 3 4: deviations -1.5 0 0 1.5 and -1.5 -.5 .5 1.5, so 4.5 / sqrt(4.5 * 5)
    assert correlate([0, 3, 3, 9], [0.1, 0.2, 0.3, 0.4]).value == pytest.approx(4.5 / math.sqrt(22.5))
    # deviations -1 0 1 and -2 -1 3: 5 / sqrt(2 * 14)
    assert correlate([1, 2, 3], [1, 2, 6], measure="pearson").value == pytest.approx(5 / math.sqrt(28))
    assert correlate([1, 2], [5, 4]).value == -1


@pytest.mark.parametrize("seed", range(5))
def test_correlations_against_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ratings, scores = rng.integers(0, 4, 60) / 2, rng.normal(size=60)
    scores[rng.integers(0, 60, 20)] = 0.25
    assert correlate(ratings, scores).value == pytest.approx(spearmanr(ratings, scores).statistic)
    found = correlate(ratings, scores, measure="pearson").value
    assert found == pytest.approx(pearsonr(ratings, scores).statistic)


def test_the_interval_is_that_of_a_loop_over_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "_CELLS", 100)
    rng = np.random.default_rng(1)
    ratings, scores = rng.integers(0, 5, 25).astype(float), rng.normal(size=25)
    found = correlate(ratings, scores, resamples=40, seed=7, confidence=0.9)
    again, values = np.random.default_rng(7), []
    for _ in range(10):
        for rows in again.integers(0, 25, size=(4, 25)):
            values.append(spearmanr(ratings[rows], scores[rows]).statistic)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(values, (0.05, 0.95))))
    assert found.low < found.value < found.high
    assert found.to_dict() == {"items": 25, "value": found.value, "low": found.low, "high": found.high}


def test_edges_of_correlations() -> None:
    # of two pairs half of the resamples take one pair twice, and are left out
    found = correlate([1, 2], [1, 2], resamples=50)
    assert (found.low, found.high) == (1, 1)
    # tiny deviations do not underflow
    scores = 1e-200 * np.arange(4.0)
    assert correlate([1, 2, 3, 4], scores, measure="pearson").value == pytest.approx(1)


def test_triplets_by_hand() -> None:
    found = triplet_accuracy([0.9, 0.5, 0.3], [0.1, 0.5, 0.2], resamples=10)
    assert (found.items, found.value) == (3, pytest.approx(2 / 3))
    assert 0 <= found.low <= found.value <= found.high <= 1
    one = triplet_accuracy([0.9], [0.1])
    assert (one.value, one.low, one.high) == (1, 1, 1)
    rng = np.random.default_rng(4)
    near, far = rng.normal(size=50), rng.normal(size=50)
    assert triplet_accuracy(near, far).value == pytest.approx(sum(a > b for a, b in zip(near, far, strict=True)) / 50)
    assert triplet_accuracy(near, far, seed=2) != triplet_accuracy(near, far)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (([1, 2], [1, 2]), {"measure": "kendall"}, r"unknown measure 'kendall'\. Remedy: one of spearman, pearson"),
        (([1, 2], [1, 2, 3]), {}, r"ratings of shape \(2,\) and scores of shape \(3,\), the same"),
        (([1], [1]), {}, r"1 rated pairs, two or more expected\. Remedy: give more pairs"),
        (([1, 1], [1, 2]), {}, "the ratings are all equal, so no correlation is defined"),
        (([1, 2], [1, 1]), {}, "the scores are all equal"),
        (([1, 2], [1, math.nan]), {}, "the scores have NaN or infinite values"),
        (([1, 2], [1, 2]), {"resamples": 0}, "0 resamples, 1 or more expected"),
        (([1, 2], [1, 2]), {"confidence": 1}, "confidence 1, above 0 and below 1 expected"),
    ],
)
def test_refusals_of_correlations(
    columns: tuple[list[float], list[float]], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        correlate(*columns, **options)


def test_refusals_of_triplets() -> None:
    with pytest.raises(ConfigError, match=r"no triplets to measure\. Remedy: give one or more"):
        triplet_accuracy([], [])
    shapes = r"entailed cosines of shape \(1,\) and contradicted cosines of shape \(2,\), the same"
    with pytest.raises(ConfigError, match=shapes):
        triplet_accuracy([1], [1, 2])
