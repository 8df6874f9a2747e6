"""The join: one score from all evidence.

A linear model over :data:`medlink.linking.evidence.FEATURES`, fitted by :mod:`medlink.linking.fit` on training
mentions, ranks the names; a logistic curve on top turns the rank score of the best name into the share of such links
that were right on training mentions. A mention that is a name, to the letter or in another inflection, has a curve of
its own: it is right far more often than a likeness of the same rank.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError
from medlink.linking.evidence import FEATURES

_CURVES = ("slope", "offset", "named_slope", "named_offset", "named_least")


@dataclass(frozen=True, slots=True)
class Join:
    """Weights of the evidence and the curve of the score.

    Args:
        weights: one per feature.
        slope, offset: of the logistic curve; the slope is above 0, so that the score ranks as the evidence does.
        named_slope, named_offset: those of names to the letter or in another inflection.
        named_least: the lowest rank score that such names had in training. Another terminology may have lower ones
            (abbreviations that look like none of their concept's names); the curve says nothing about them and is not
            prolonged.
    """

    weights: tuple[float, ...]
    slope: float
    offset: float
    named_slope: float
    named_offset: float
    named_least: float

    def rank(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Rank scores ``(p,)`` of ``features (p, f)``.

        Summed feature by feature: a matrix product may round differently with another number of pairs.
        """
        total = np.zeros(len(features))
        for i, weight in enumerate(self.weights):
            total += weight * features[:, i].astype(np.float64)
        return total

    def score(self, rank: NDArray[np.float64], named: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Rank scores to scores in [0, 1].

        Args:
            rank: ``(p,)`` rank scores.
            named: ``(p,)`` whether the mention is the name, to the letter or in another inflection.

        >>> join = Join((1.0,), slope=2.0, offset=-1.0, named_slope=2.0, named_offset=0.0, named_least=0.5)
        >>> join.score(np.array([0.5, 0.5, 0.0]), np.array([False, True, True])).round(3).tolist()
        [0.5, 0.731, 0.731]
        """
        slope = np.where(named, self.named_slope, self.slope)
        offset = np.where(named, self.named_offset, self.offset)
        rank = np.where(named, np.maximum(rank, self.named_least), rank)
        curve: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(slope * rank + offset, -40, 40)))
        return curve

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a bundle's manifest."""
        return {"weights": dict(zip(FEATURES, self.weights, strict=True)), **{f: getattr(self, f) for f in _CURVES}}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Join:
        """Read what :meth:`to_dict` wrote.

        Raises:
            BundleError: the weights are of another set of features.
        """
        try:
            if set(raw["weights"]) != set(FEATURES):
                raise KeyError("weights")
            return cls(tuple(float(raw["weights"][f]) for f in FEATURES), *(float(raw[f]) for f in _CURVES))
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(
                "the calibration is of another version of medlink", remedy="run 'medlink index build' again"
            ) from error


@lru_cache(maxsize=1)
def default_join() -> Join:
    """The weights that ship with medlink."""
    text = resources.files("medlink").joinpath("resources/linking/join.json").read_text("utf-8")
    return Join.from_dict(json.loads(text))
