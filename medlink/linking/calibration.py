"""The fourth stage: what a rank means, as a score in [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Calibration(Protocol):
    """What turns rank scores into the share of such links that are right."""

    def score(self, rank: NDArray[np.float64], named: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Rank scores ``(p,)`` to scores in [0, 1]; a higher rank of one kind never has a lower score.

        ``named (p,)`` is the kind: whether the mention is the name, to the letter or in another inflection.
        """


@dataclass(frozen=True, slots=True)
class Curves:
    """Two logistic curves, for names and for likenesses, fitted by :mod:`medlink.linking.fit`.

    A mention that is a name, to the letter or in another inflection, is right far more often than a likeness of the
    same rank.

    Args:
        slope, offset: of the curve of likenesses; the slope is above 0, so that the score ranks as the evidence does.
        named_slope, named_offset: of that of names to the letter or in another inflection.
        named_least: the lowest rank score that such names had in training. Another terminology may have lower ones
            (abbreviations that look like none of their concept's names); the curve says nothing about them and is not
            prolonged.
    """

    slope: float
    offset: float
    named_slope: float
    named_offset: float
    named_least: float

    def score(self, rank: NDArray[np.float64], named: NDArray[np.bool_]) -> NDArray[np.float64]:
        """
        >>> curves = Curves(slope=2.0, offset=-1.0, named_slope=2.0, named_offset=0.0, named_least=0.5)
        >>> curves.score(np.array([0.5, 0.5, 0.0]), np.array([False, True, True])).round(3).tolist()
        [0.5, 0.731, 0.731]
        """
        slope = np.where(named, self.named_slope, self.slope)
        offset = np.where(named, self.named_offset, self.offset)
        rank = np.where(named, np.maximum(rank, self.named_least), rank)
        curve: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(slope * rank + offset, -40, 40)))
        return curve
