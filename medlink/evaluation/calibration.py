"""What scores are worth: whether a score is the share of those that are right, and what a threshold links."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BINS = 10
PRECISION = 0.95


def calibration_error(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Expected calibration error in ten bins of one width, each with its share of the items (Naeini et al. 2015).

    ``scores (n,)`` lie between 0 and 1, ``right (n,)`` says what they are of; NaN where there is none.

    >>> round(calibration_error(np.array([0.9, 0.9, 0.2]), np.array([True, False, False])), 3)
    0.333
    """
    if not len(scores):
        return float("nan")
    bins = np.minimum((scores * BINS).astype(int), BINS - 1)
    return float(sum(abs((scores - right)[bins == b].sum()) for b in range(BINS)) / len(scores))


def share_at_precision(scores: NDArray[np.float64], right: NDArray[np.bool_], precision: float = PRECISION) -> float:
    """The largest share of n items that a threshold takes with a precision, 0 where no threshold has it.

    >>> share_at_precision(np.array([0.9, 0.8, 0.8, 0.1]), np.array([True, True, True, False]))
    0.75
    >>> share_at_precision(np.array([0.9, 0.8, 0.8, 0.1]), np.array([True, False, True, False]))
    0.25
    """
    order = np.argsort(-scores, kind="stable")
    linked = np.arange(1, len(scores) + 1)
    good = np.cumsum(right[order]) / linked >= precision
    # a threshold takes all items of one score
    good &= np.append(np.diff(scores[order]) != 0, True)
    return float(linked[good].max(initial=0) / len(scores))
