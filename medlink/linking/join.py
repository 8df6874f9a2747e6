"""The ranker and the calibration that a bundle's manifest holds, and those that ship with medlink."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

from medlink.errors import BundleError
from medlink.linking.calibration import Curve, Curves
from medlink.linking.measures import FEATURES
from medlink.linking.ranking import LinearJoin

_KINDS = ("alike", "named")


@dataclass(frozen=True, slots=True)
class Join:
    """Weights of the evidence and the curves of the score, fitted together."""

    ranker: LinearJoin
    calibration: Curves

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a bundle's manifest."""
        return {
            "weights": dict(zip(FEATURES, self.ranker.weights, strict=True)),
            "calibration": asdict(self.calibration),
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
            return cls(LinearJoin(tuple(float(raw["weights"][f]) for f in FEATURES)), curves_of(raw["calibration"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BundleError(
                "the calibration is of another version of medlink", remedy="run 'medlink index build' again"
            ) from error


def curves_of(told: dict[str, Any]) -> Curves:
    """Curves from plain data; KeyError, TypeError, ValueError or AttributeError where it is none of them."""
    alike, named = (Curve(**{key: float(value) for key, value in told[kind].items()}) for kind in _KINDS)
    languages = {str(tag): float(value) for tag, value in told["languages"].items()}
    return Curves(alike, named, float(told["named_least"]), float(told["rival"]), languages)


@cache
def default_join() -> Join:
    """The weights that ship with medlink."""
    text = resources.files("medlink").joinpath("resources/linking/join.json").read_text("utf-8")
    return Join.from_dict(json.loads(text))
