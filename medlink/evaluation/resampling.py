"""Intervals of measures, and whether the difference of two systems is chance, by drawing items anew (SciPy).

The percentile bootstrap (Efron 1979) and the paired bootstrap test (Koehn 2004, "Statistical Significance Tests for
Machine Translation Evaluation").
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.clusters import Record
from medlink.errors import ConfigError

RESAMPLES = 1000
CONFIDENCE = 0.95
_CELLS = 1 << 20  # cells drawn at a time, so that memory does not grow with the number of resamples

Vector = NDArray[np.float64]
Statistic = Callable[..., Any]
"""Columns ``(..., n)`` to values ``(...)``, along ``axis``."""


@dataclass(frozen=True, slots=True)
class Estimate(Record):
    """A measure of so many items with its interval, NaN where no resample defines the measure."""

    items: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scores:
    """What one measure of a system is made of: for each of n items its columns ``(n,)``.

    ``measure`` is its name, ``group`` the language, file or kind of the items, and ``statistic`` one of
    :data:`STATISTICS`, which takes the columns.
    """

    measure: str
    group: str
    columns: tuple[Vector, ...]
    statistic: str = "mean"

    def estimate(self, resamples: int = RESAMPLES, seed: int = 1) -> Estimate:
        """The value with its 95 % interval."""
        return estimate(STATISTICS[self.statistic], self.columns, resamples, CONFIDENCE, seed)


def pearson(x: Vector, y: Vector, axis: int = -1) -> Any:
    """Pearson correlation along an axis, NaN where a side does not vary."""
    from scipy.stats import pearsonr

    return pearsonr(x, y, axis=axis).statistic


def spearman(x: Vector, y: Vector, axis: int = -1) -> Any:
    """Spearman correlation along an axis: Pearson on ranks, equal values sharing the mean of theirs."""
    from scipy.stats import rankdata

    return pearson(rankdata(x, axis=axis), rankdata(y, axis=axis), axis)


def f1(right: Vector, wrong: Vector, missed: Vector, axis: int = -1) -> Any:
    """F1 of summed counts along an axis, 0 where nothing is right."""
    twice = 2 * right.sum(axis=axis)
    return twice / np.maximum(twice + wrong.sum(axis=axis) + missed.sum(axis=axis), 1)


STATISTICS: Mapping[str, Statistic] = {"mean": np.mean, "f1": f1, "pearson": pearson, "spearman": spearman}
"""How values are made of columns, by name."""


def estimate(statistic: Statistic, columns: Sequence[Vector], resamples: int, confidence: float, seed: int) -> Estimate:
    """A statistic of columns ``(n,)`` with the percentile interval of its bootstrap.

    Raises:
        ConfigError: there are no items, or an option is outside its range.
    """
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence {confidence}, above 0 and below 1 expected")
    drawn = _drawn(statistic, columns, resamples, seed)
    n, value = len(columns[0]), float(statistic(*columns))
    if n == 1:
        return Estimate(n, value, value, value)
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail)).tolist() if len(drawn) else (np.nan, np.nan)
    return Estimate(n, value, low, high)


def chance(one: Scores, other: Scores, resamples: int = RESAMPLES, seed: int = 1) -> float:
    """How likely a difference of two systems as large as theirs is by chance: the two-sided paired bootstrap.

    Items are drawn with replacement, for both systems the same: twice the share of the resamples in which one of the
    two is not ahead, whichever of them this is rarer for; one resample more is counted, so that it is never 0.

    Raises:
        ConfigError: the two are not of the same items.
    """
    statistic, width = STATISTICS[one.statistic], len(one.columns)
    if (one.measure, one.group, len(one.columns[0])) != (other.measure, other.group, len(other.columns[0])):
        raise ConfigError("two systems are compared on the same items", remedy="measure both on one file")

    def difference(*columns: Vector, axis: int = -1) -> Any:
        return statistic(*columns[:width], axis=axis) - statistic(*columns[width:], axis=axis)

    drawn = _drawn(difference, (*one.columns, *other.columns), resamples, seed)
    rarer = int(min(np.count_nonzero(drawn <= 0), np.count_nonzero(drawn >= 0)))
    return min(1.0, 2 * (rarer + 1) / (len(drawn) + 1))


def _drawn(statistic: Statistic, columns: Sequence[Vector], resamples: int, seed: int) -> Vector:
    """The values of the statistic in resamples of the items, those that it is not defined in left out."""
    from scipy.stats import bootstrap

    if resamples < 1:
        raise ConfigError(f"{resamples} resamples, 1 or more expected")
    n = len(columns[0])
    if not n:
        raise ConfigError("there are no items to draw from", remedy="measure one or more")
    if n < 2:
        return np.array([float(statistic(*columns))])
    rng, batch = np.random.default_rng(seed), max(1, _CELLS // n)
    shared: dict[str, Any] = {"paired": True, "vectorized": True, "method": "percentile", "rng": rng}
    with warnings.catch_warnings():
        # of resamples in which a side does not vary: their NaN says so
        warnings.simplefilter("ignore")
        drawn: Vector = bootstrap(
            tuple(columns), statistic, n_resamples=resamples, batch=batch, **shared
        ).bootstrap_distribution
    return drawn[~np.isnan(drawn)]
