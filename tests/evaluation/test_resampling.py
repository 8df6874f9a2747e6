"""Intervals and the paired bootstrap test, against plain loops, SciPy's permutation test and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import permutation_test, spearmanr
from sklearn.metrics import f1_score

from medlink.errors import ConfigError
from medlink.evaluation.resampling import STATISTICS, Scores, chance


def scores(values: list[float] | np.ndarray, *others: np.ndarray, statistic: str = "mean") -> Scores:
    return Scores("m", "g", (np.asarray(values, dtype=float), *others), statistic)


def test_the_interval_of_a_mean_is_that_of_a_loop() -> None:
    values = np.random.default_rng(0).uniform(size=30)
    found = scores(values).estimate(resamples=50, seed=4)
    means = [values[rows].mean() for rows in np.random.default_rng(4).integers(0, 30, (50, 30))]
    assert (found.items, found.value) == (30, pytest.approx(values.mean()))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, (0.025, 0.975))))
    assert scores([0.4]).estimate().to_dict() == {"items": 1, "value": 0.4, "low": 0.4, "high": 0.4}


def test_chance_is_that_of_a_loop_and_near_that_of_a_permutation_test() -> None:
    rng = np.random.default_rng(2)
    one = rng.uniform(size=60)
    for shift in (0.02, 0.06, 0.1):
        other = one + rng.normal(shift, 0.25, 60)
        found = chance(scores(one), scores(other), resamples=2000, seed=5)
        rows = np.random.default_rng(5).integers(0, 60, (2000, 60))
        ahead = [(one[at] - other[at]).mean() for at in rows]
        fewer = min(sum(d <= 0 for d in ahead), sum(d >= 0 for d in ahead))
        assert found == pytest.approx(min(1, 2 * (fewer + 1) / 2001))
        by_signs = permutation_test(
            (one, other),
            lambda x, y, axis: (x - y).mean(axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=2000,
            rng=1,
        )
        assert found == pytest.approx(by_signs.pvalue, abs=0.05)


def test_chance_of_a_correlation_and_of_f1() -> None:
    rng = np.random.default_rng(3)
    ratings = rng.uniform(size=80)
    near, far = ratings + rng.normal(0, 0.1, 80), ratings + rng.normal(0, 2, 80)
    one, other = (scores(ratings, column, statistic="spearman") for column in (near, far))
    assert one.estimate(20).value == pytest.approx(spearmanr(ratings, near).statistic)
    assert chance(one, other, resamples=200) < 0.02
    assert chance(one, one, resamples=50) == 1
    gold, said = rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    columns = ((gold & said), (1 - gold) & said, gold & (1 - said))
    found = STATISTICS["f1"](*(column.astype(float) for column in columns))
    assert found == pytest.approx(f1_score(gold, said))
    assert STATISTICS["f1"](*np.zeros((3, 4))) == 0
    assert STATISTICS["f1"](*np.ones((3, 2, 4))).shape == (2,)


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="there are no items"):
        scores([]).estimate()
    with pytest.raises(ConfigError, match="0 resamples, 1 or more expected"):
        scores([1, 2]).estimate(resamples=0)
    with pytest.raises(ConfigError, match=r"two systems are compared on the same items\. Remedy: measure both"):
        chance(scores([1, 2]), scores([1, 2, 3]))
