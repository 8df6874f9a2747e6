"""Drop candidate spans that hardly are mentions, by their words alone, before anything is ranked.

Most candidates are no mentions, and those that are no name need a search each. A logistic regression over the kinds of
their words (``resources/notes/prefilter.json``, fitted by ``benchmarks/fit_choice.py``) keeps those that may be
selected.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from medlink.reading.columns import ENDS, KINDS
from medlink.reading.features import CONTEXT
from medlink.reading.logistic import LogisticModel

COLUMNS = (
    *CONTEXT, "family", "expanded", *(f"kind_{kind}" for kind in KINDS), "unknown", "unknown_share", "known_share",
    "whole", *(f"{end}_{kind}" for kind in ENDS for end in ("first", "last")), "first_unknown", "last_unknown",
    "family_word", "window", "read_words", "abbreviation", "finding_share", "finds_share", "finding_body",
    "change_body",
)  # fmt: skip
"""What is known of a candidate without its concept: the columns of its context, whether it is a name by word families,
how many of its words are of which kind, the kinds of its first and last word, whether the lexicon knows it whole."""


@dataclass(frozen=True, slots=True)
class SpanFilter:
    """A logistic regression over :data:`COLUMNS`, and the probability that a candidate needs to be ranked."""

    model: LogisticModel
    least: float

    def kept(self, rows: Sequence[Sequence[float]]) -> list[bool]:
        """Which of n candidates are worth ranking."""
        return [probability >= self.least for probability in self.model.probabilities(rows)]


@cache
def shipped_filter() -> SpanFilter:
    """The weights that ship with medlink."""
    raw = json.loads(resources.files("medlink").joinpath("resources/notes/prefilter.json").read_text("utf-8"))
    return SpanFilter(LogisticModel.of(raw, COLUMNS), raw["least"])
