"""The fourth stage: what a rank means, as a score in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from medlink.language.tags import base

WIDEST = 5.0
"""The greatest margin that counts."""


class Calibration(Protocol):
    """What turns rank scores into the share of such links that are right."""

    def score(
        self,
        rank: NDArray[np.float64],
        margin: NDArray[np.float64],
        named: NDArray[np.bool_],
        languages: Sequence[str | None],
    ) -> NDArray[np.float64]:
        """Scores ``(p,)`` in [0, 1]; of two candidates of one kind and mention, a higher rank never has a lower score.

        The ``margin (p,)`` is by how much the best other name of another concept ranks lower, below 0 where it is
        higher. The kind is whether the mention is the name, to the letter or in another inflection (``named``).
        """


@dataclass(frozen=True, slots=True)
class Curve:
    """A logistic curve: ``slope`` of the rank, at least 0, ``margin`` of the margin, ``offset``."""

    slope: float
    margin: float
    offset: float


@dataclass(frozen=True, slots=True)
class Curves:
    """Two logistic curves, fitted by :mod:`medlink.linking.fit`.

    Args:
        alike: the curve of likenesses.
        named: that of names to the letter or in another inflection: they are right far more often at the same rank.
        named_least: the lowest rank score that such names had in training, below which the curve is not prolonged.
        rival: the lowest rank score that the best other name of a likeness had in training: where there are few names,
            that nothing else is alike does not make the best of them right.
        languages: what is added to the curve of likenesses for mentions of a language.
    """

    alike: Curve
    named: Curve
    named_least: float
    rival: float
    languages: dict[str, float] = field(default_factory=dict)

    def score(
        self,
        rank: NDArray[np.float64],
        margin: NDArray[np.float64],
        named: NDArray[np.bool_],
        languages: Sequence[str | None],
    ) -> NDArray[np.float64]:
        """What :meth:`Calibration.score` asks for."""
        kinds = zip(astuple(self.named), astuple(self.alike), strict=True)
        slope, wide, offset = (np.where(named, *pair) for pair in kinds)
        rank, margin = self.held(rank, margin, named)
        added = np.array([self.languages.get(base(language or ""), 0.0) for language in languages])
        z = slope * rank + wide * margin + offset + np.where(named, 0.0, added)
        curve: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(z, -40, 40)))
        return curve

    def held(
        self, rank: NDArray[np.float64], margin: NDArray[np.float64], named: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ranks and margins ``(p,)`` within what the curves were fitted on."""
        margin = np.where(named, np.maximum(margin, 0), np.minimum(margin, rank - self.rival))
        return np.where(named, np.maximum(rank, self.named_least), rank), np.clip(margin, -WIDEST, WIDEST)
