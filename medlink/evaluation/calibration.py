"""What scores are worth: whether a score is the share of those that are right."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def calibration_error(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Expected calibration error in ten bins of one width, each with its share of the items (Naeini et al. 2015).

    ``scores (n,)`` lie between 0 and 1, ``right (n,)`` says what they are of; NaN where there is none.
    """
    if not len(scores):
        return float("nan")
    bins = np.minimum((scores * 10).astype(int), 9)
    return float(sum(abs((scores - right)[bins == b].sum()) for b in range(10)) / len(scores))
