"""Drop candidate spans that hardly are mentions, by their words alone, before anything is ranked.

Most candidates are no mentions, and those that are no name need a search each. A logistic regression over the kinds of
their words (``resources/notes/prefilter.json``, fitted by ``benchmarks/fit_choice.py``) keeps those that may be
selected.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

from medlink.reading.features import UNRANKED
from medlink.reading.logistic import LogisticModel, Rows


@dataclass(frozen=True, slots=True)
class SpanFilter:
    """A logistic regression over :data:`medlink.reading.features.UNRANKED`, and the probability that a span needs to be
    ranked."""

    model: LogisticModel
    least: float

    def kept(self, rows: Rows) -> list[bool]:
        """Which of n candidates are worth ranking, by their columns ``(n, c)``."""
        return [probability >= self.least for probability in self.model.probabilities(rows)]


@cache
def shipped_filter() -> SpanFilter:
    """The weights that ship with medlink."""
    raw = json.loads(resources.files("medlink").joinpath("resources/notes/prefilter.json").read_text("utf-8"))
    return SpanFilter(LogisticModel.of(raw, UNRANKED), raw["least"])
