"""Fourth stage: turn rank scores into link scores in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Protocol

import numpy as np

from medlink.language.tags import base
from medlink.linking.arrays import Bools, Floats

MAX_MARGIN = 5.0
"""Margins are clipped to this value."""


class Calibration(Protocol):
    """Maps rank scores to link scores: the share of comparable links that are right."""

    def score(self, rank: Floats, margin: Floats, named: Bools, languages: Sequence[str | None]) -> Floats:
        """Compute scores ``(p,)`` in [0, 1], monotonous in the rank for names with equal ``named``.

        Args:
            rank: rank scores ``(p,)``.
            margin: rank score minus the best rank score of a name of another concept ``(p,)``.
            named: whether the mention equals the name, exactly or in another inflection ``(p,)``.
            languages: language of each mention, ``None`` if unknown.
        """


@dataclass(frozen=True, slots=True)
class Curve:
    """A logistic curve: ``slope`` of the rank (at least 0), weight of the ``margin``, ``offset``."""

    slope: float
    margin: float
    offset: float


@dataclass(frozen=True, slots=True)
class Curves:
    """Two logistic curves, fitted by :mod:`medlink.linking.fit`."""

    alike: Curve  # for mentions that only resemble the name
    named: Curve  # for mentions that equal the name, which at the same rank score are right far more often
    named_least: float  # lowest rank score of such names in training; lower rank scores are raised to it
    # lowest rank score of the best competing name in training; bounds the margin of names that are ``alike``, because
    # in a small terminology they may have no close competitor
    rival: float
    languages: dict[str, float] = field(default_factory=dict)  # offsets added to ``alike`` by language

    def score(self, rank: Floats, margin: Floats, named: Bools, languages: Sequence[str | None]) -> Floats:
        slope, margin_weight, offset = (
            np.where(named, *pair) for pair in zip(astuple(self.named), astuple(self.alike), strict=True)
        )
        rank, margin = self.clip(rank, margin, named)
        added = np.array([self.languages.get(base(language or ""), 0.0) for language in languages])
        z = slope * rank + margin_weight * margin + offset + np.where(named, 0.0, added)
        curve: Floats = 1 / (1 + np.exp(-np.clip(z, -40, 40)))
        return curve

    def clip(self, rank: Floats, margin: Floats, named: Bools) -> tuple[Floats, Floats]:
        """Clip ranks and margins ``(p,)`` to the range that the curves were fitted on."""
        margin = np.where(named, np.maximum(margin, 0), np.minimum(margin, rank - self.rival))
        return np.where(named, np.maximum(rank, self.named_least), rank), np.clip(margin, -MAX_MARGIN, MAX_MARGIN)
