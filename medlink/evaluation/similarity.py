"""How well cosines of embeddings agree with what people said of pairs and triplets of texts.

BioLORD 2022: Spearman correlation with ratings of concept pairs (section 4.1, table 1), Pearson correlation with scores
of sentence pairs (section 4.3, table 3), and which of two hypotheses is nearer to their premise (section 4.4, table 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from medlink.errors import ConfigError

MEASURES = ("spearman", "pearson")
RESAMPLES = 1000
CONFIDENCE = 0.95
_CELLS = 1 << 20  # cells drawn at a time, so that memory does not grow with the number of resamples

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measure with its interval.

    Attributes:
        items: pairs or triplets it was taken on.
        value: the measure.
        low: lower end of the interval, NaN where no resample defines the measure.
        high: upper end.
    """

    items: int
    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float | int]:
        """Plain data, ready for JSON."""
        return asdict(self)


def pair_cosines(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine of each row of one array with the same row of another, summed in one order: equal pairs, equal cosines.

    Args:
        one: ``(n, d)`` float32 unit vectors.
        other: ``(n, d)`` float32 unit vectors.

    Returns:
        ``(n,)`` cosines.

    Raises:
        ConfigError: the shapes differ.

    >>> x = np.array([[1, 0], [0.6, 0.8]], dtype=np.float32)
    >>> pair_cosines(x, x[::-1]).round(3).tolist()
    [0.6000000238418579, 0.6000000238418579]
    """
    if one.shape != other.shape or one.ndim != 2:
        raise ConfigError(f"embeddings of shape {one.shape} and {other.shape}, the same (n, d) expected")
    cosines: NDArray[np.float32] = np.clip(np.einsum("nd,nd->n", one, other), -1, 1)
    return cosines


def correlate(
    ratings: ArrayLike,
    scores: ArrayLike,
    *,
    measure: str = "spearman",
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 1,
) -> Estimate:
    """Correlation of ratings with scores, and its interval by resampling pairs.

    Spearman is Pearson on ranks, equal values sharing the mean of their ranks (SciPy's ``spearmanr``). BioLORD 2022,
    table 1 (Spearman) and table 3 (Pearson), where no interval is given; here it is the percentile interval of the
    bootstrap (Efron 1979): resamples in which one side does not vary define no correlation and are left out.

    Args:
        ratings: ``(n,)`` what people said, any scale.
        scores: ``(n,)`` what the embeddings say.
        measure: ``spearman`` or ``pearson``.
        resamples: how often n pairs are drawn with replacement.
        confidence: share of the resamples inside the interval.
        seed: seed of the draws.

    Returns:
        The correlation.

    Raises:
        ConfigError: lengths differ, there are fewer than two pairs, a side does not vary or is not finite, or an option
            is outside its range.

    >>> correlate([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.9]).value
    1.0
    >>> round(correlate([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.9], measure="pearson").value, 3)
    0.898
    """
    if measure not in MEASURES:
        raise ConfigError(f"unknown measure {measure!r}", remedy=f"one of {', '.join(MEASURES)}")
    x, y = np.asarray(ratings, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ConfigError(f"ratings of shape {x.shape} and scores of shape {y.shape}, the same (n,) expected")
    for name, values in (("ratings", x), ("scores", y)):
        if not np.isfinite(values).all():
            raise ConfigError(f"the {name} are not all finite")
    if len(x) < 2:
        raise ConfigError(f"{len(x)} rated pairs, two or more expected", remedy="give more pairs")
    for name, values in (("ratings", x), ("scores", y)):
        if (values == values[0]).all():
            raise ConfigError(
                f"the {name} are all equal, so no correlation is defined", remedy="give pairs that differ"
            )
    statistic = _spearman if measure == "spearman" else _pearson
    return _estimate(statistic, (x, y), resamples, confidence, seed)


def triplet_accuracy(
    entailed: ArrayLike,
    contradicted: ArrayLike,
    *,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 1,
) -> Estimate:
    """Share of triplets in which the entailed text is nearer to its premise than the contradicted one.

    BioLORD 2022, section 4.4 and table 4 (MedNLI-S). A tie is no success. The interval is that of :func:`correlate`.

    Args:
        entailed: ``(n,)`` cosines of premise and entailed text.
        contradicted: ``(n,)`` cosines of premise and contradicted text.
        resamples: how often n triplets are drawn with replacement.
        confidence: share of the resamples inside the interval.
        seed: seed of the draws.

    Returns:
        The accuracy.

    Raises:
        ConfigError: lengths differ, there is no triplet, or an option is outside its range.

    >>> triplet_accuracy([0.9, 0.5, 0.1, 0.3], [0.2, 0.5, 0.0, 0.4]).value
    0.5
    """
    x, y = np.asarray(entailed, dtype=np.float64), np.asarray(contradicted, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ConfigError(f"cosines of shape {x.shape} and {y.shape}, the same (n,) expected")
    if not len(x):
        raise ConfigError("no triplets to measure", remedy="give one or more")
    return _estimate(_share, (x, y), resamples, confidence, seed)


def _estimate(
    statistic: Callable[[Vector, Vector], Vector],
    columns: tuple[Vector, Vector],
    resamples: int,
    confidence: float,
    seed: int,
) -> Estimate:
    """A statistic of two columns with the percentile interval of its bootstrap."""
    if resamples < 1:
        raise ConfigError(f"{resamples} resamples, 1 or more expected")
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence {confidence}, above 0 and below 1 expected")
    x, y = columns
    n, rng = len(x), np.random.default_rng(seed)
    drawn = []
    step = max(1, _CELLS // n)
    for start in range(0, resamples, step):
        rows = rng.integers(0, n, size=(min(step, resamples - start), n))
        drawn.append(statistic(x[rows], y[rows]))
    values = np.concatenate(drawn)
    values = values[~np.isnan(values)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, (tail, 1 - tail)).tolist() if len(values) else (np.nan, np.nan)
    return Estimate(n, float(statistic(x[None], y[None])[0]), low, high)


def _pearson(x: Vector, y: Vector) -> Vector:
    """Pearson correlation of the rows of two ``(b, n)`` arrays as ``(b,)``; NaN for a row that does not vary."""
    varies = (x != x[:, :1]).any(axis=1) & (y != y[:, :1]).any(axis=1)
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    # each side is scaled before it is squared, or tiny deviations underflow
    x, y = (side / np.maximum(np.abs(side).max(axis=1, keepdims=True), np.finfo(float).tiny) for side in (x, y))
    below = np.sqrt(np.einsum("bn,bn->b", x, x) * np.einsum("bn,bn->b", y, y))
    found = np.divide(np.einsum("bn,bn->b", x, y), below, out=np.full(len(x), np.nan), where=varies)
    return np.clip(found, -1, 1)


def _spearman(x: Vector, y: Vector) -> Vector:
    """Spearman correlation of the rows of two ``(b, n)`` arrays as ``(b,)``; NaN for a row that does not vary."""
    from scipy.stats import rankdata

    return _pearson(rankdata(x, axis=1), rankdata(y, axis=1))


def _share(entailed: Vector, contradicted: Vector) -> Vector:
    """Share of each row of two ``(b, n)`` arrays in which the first is larger, as ``(b,)``."""
    share: Vector = (entailed > contradicted).mean(axis=1)
    return share
