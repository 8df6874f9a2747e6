"""The join: one score from all evidence.

A linear model over :data:`medlink.linking.evidence.FEATURES`, fitted by :mod:`medlink.linking.fit` on training
mentions, ranks the names; a logistic curve on top turns the rank score of the best name into the share of such links
that were right on training mentions.
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


@dataclass(frozen=True, slots=True)
class Join:
    """Weights of the evidence and the curve of the score.

    Args:
        weights: one per feature.
        slope: of the logistic curve, above 0, so that the score ranks as the evidence does.
        offset: of the logistic curve.
    """

    weights: tuple[float, ...]
    slope: float
    offset: float

    def rank(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Rank scores ``(p,)`` of ``features (p, f)``.

        Summed feature by feature: a matrix product may round differently with another number of pairs.
        """
        total = np.zeros(len(features))
        for i, weight in enumerate(self.weights):
            total += weight * features[:, i].astype(np.float64)
        return total

    def score(self, rank: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rank scores to scores in [0, 1].

        >>> Join((1.0,), slope=2.0, offset=-1.0).score(np.array([0.5])).tolist()
        [0.5]
        """
        curve: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(self.slope * rank + self.offset, -40, 40)))
        return curve

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a bundle's manifest."""
        return {
            "weights": dict(zip(FEATURES, self.weights, strict=True)),
            "slope": self.slope,
            "offset": self.offset,
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Join:
        """Read what :meth:`to_dict` wrote.

        Raises:
            BundleError: the weights are of another set of features.
        """
        try:
            if set(raw["weights"]) != set(FEATURES):
                raise KeyError("weights")
            return cls(tuple(float(raw["weights"][f]) for f in FEATURES), float(raw["slope"]), float(raw["offset"]))
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(
                "the calibration is of another version of medlink", remedy="run 'medlink index build' again"
            ) from error


@lru_cache(maxsize=1)
def default_join() -> Join:
    """The weights that ship with medlink."""
    text = resources.files("medlink").joinpath("resources/linking/join.json").read_text("utf-8")
    return Join.from_dict(json.loads(text))
