"""Select mentions among the candidate spans of a text.

If two nested spans have the same concept, one of them is redundant: the inner span if the outer is a name or scores
clearly higher, otherwise the outer span. A logistic regression (``resources/notes/choice.json``, fitted by
``benchmarks/fit_choice.py``) gives each other span the probability that it is a mention with the right concept. Among
overlapping spans, the disjoint spans with the greatest sum of log odds are selected.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import exp
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.language.scan import Place
from medlink.linking.linker import MAX_SCORE_OF_OTHER_KIND
from medlink.reading.candidates import CandidateSpan
from medlink.reading.features import (
    ALONE,
    COLUMNS,
    CONTENT,
    LACONIC_WORD,
    LISTED,
    SAFE,
    UNRANKED,
    UPPER,
    USUAL,
    ScoredSpan,
    feature_rows,
    log_odds,
    overlapping,
    rival_pairs,
    rival_rows,
)

_SCORE_TOLERANCE = 0.05  # a longer span of the same concept must score higher by this much
_MISSPELT = 0.8, 0.9  # share of the names with a typing error that are mentions: of one word, of several
_DISTINCT_NAME = 0.6  # lowest score of a name that hardly means anything else; findings that contain it score higher
_ONE_MEANING = 0.95  # least share of uses with this meaning, for an abbreviation to be unambiguous
_CHUNK = 1 << 13  # rows in memory at a time
_MAX_LOGIT = 40.0


@dataclass(frozen=True, slots=True)
class LogisticModel:
    """A logistic regression with one weight per column; columns are clipped to ``lowest`` and ``highest``."""

    weights: tuple[float, ...]
    offset: float
    lowest: tuple[float, ...]
    highest: tuple[float, ...]

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], names: Sequence[str]) -> Self:
        """Read ``offset`` and, by name, ``columns`` with weight, lowest and highest value."""
        weights, lowest, highest = (tuple(raw["columns"][name][at] for name in names) for at in range(3))
        return cls(weights, raw["offset"], lowest, highest)

    def predict_proba(self, rows: Iterable[Sequence[float]] | NDArray[np.float64]) -> list[float]:
        """Return the probabilities of rows of columns, read a chunk at a time."""
        remaining, probabilities = iter(rows), list[float]()
        while chunk := list(islice(remaining, _CHUNK)):
            columns = np.clip(np.array(chunk, dtype=np.float64), self.lowest, self.highest)
            total = np.full(len(columns), self.offset)
            # column by column: the rounding of a matrix product depends on the number of rows
            for column, weight in zip(columns.T, self.weights, strict=True):
                total += weight * column
            # math.exp: that of NumPy rounds differently on other processors
            probabilities += [1 / (1 + exp(-min(max(logit, -_MAX_LOGIT), _MAX_LOGIT))) for logit in total.tolist()]
        return probabilities


def load_notes_resource(name: str) -> Any:
    """Parse a JSON file of ``resources/notes``."""
    return read_json(RESOURCES / "notes" / f"{name}.json")


@cache
def default_span_filter() -> tuple[LogisticModel, float]:
    """Return a model of spans by their words alone, before ranking, and the probability that a span must reach.

    Most candidates are not mentions, and each candidate that is not a name costs a search.
    """
    raw = load_notes_resource("prefilter")
    return LogisticModel.from_dict(raw, UNRANKED), raw["least"]


class SelectedSpan(NamedTuple):
    """A candidate, and the probability that it is a mention with the right concept; ``None`` if not computed."""

    candidate: CandidateSpan
    score: float | None

    @property
    def place(self) -> Place:
        return self.candidate.place


@dataclass(frozen=True, slots=True)
class SpanClassifier:
    """Two logistic regressions, and the ``least`` probability of a mention.

    ``alone`` judges each span by :data:`medlink.reading.features.ALONE`. ``model`` gives its score by
    :data:`medlink.reading.features.COLUMNS`, which include the probabilities of overlapping spans. With
    ``trusts_names``, names are always mentions: the model was fitted on findings in three languages, and does not suit
    other concepts and languages.
    With ``trusts_things``, names of drugs, organisms and procedures are mentions.
    """

    alone: LogisticModel
    model: LogisticModel
    least: float
    trusts_names: bool = False
    trusts_things: bool = False

    def select(self, texts: Sequence[Sequence[ScoredSpan]]) -> list[list[SelectedSpan]]:
        """Select the mentions of n texts from their spans, which are sorted by position."""
        remaining = [drop_redundant_spans(spans) for spans in texts]
        return [weighted_interval_scheduling(spans, self.least) for spans in self.score(remaining)]

    def score(self, texts: Sequence[Sequence[ScoredSpan]]) -> list[list[SelectedSpan]]:
        """Return all spans of n texts with their probabilities."""
        alone = iter(self.alone.predict_proba(row for spans in texts for row in feature_rows(spans)))
        # a generator: a long text has very many rows
        rivals = (row for spans in texts for row in rival_rows([next(alone) for _ in spans], rival_pairs(spans)))
        rows = ((*row, *next(rivals)) for spans in texts for row in feature_rows(spans))
        probability = iter(self.model.predict_proba(rows))
        return [
            [SelectedSpan(span.candidate, self._score(span, next(probability))) for span in spans] for spans in texts
        ]

    def score_given(self, spans: Sequence[ScoredSpan], places: Sequence[Place]) -> dict[Place, SelectedSpan]:
        """Return the likeliest reading of each given place of a text.

        A place that :meth:`select` selects keeps its score. Any other is a mention all the same: it is scored as if
        nothing overlapped it, and a text that equals a name has at least the score of the name.
        """
        given = {span.place: span for span in self.select([spans])[0] if span.place in places}
        missed = set(places) - given.keys()
        readings = defaultdict[Place, list[ScoredSpan]](list)
        for span in spans:
            if span.candidate.place in missed:
                readings[span.candidate.place].append(span)
        for (place, own), scored in zip(readings.items(), self.score(list(readings.values())), strict=True):
            # another wording that is a name counts if the text itself is none
            names = [id(span) for span in own if span.is_name and not span.is_short]
            names = [id(span) for span in own if id(span) in names and span.candidate.expanded is None] or names
            raised = [
                one._replace(score=max(one.score or 0.0, span.best.score if id(span) in names else 0.0))
                for one, span in zip(scored, own, strict=True)
            ]
            # among equal scores, the last counts, as in weighted_interval_scheduling
            given[place] = sorted(raised, key=lambda one: one.score or 0.0)[-1]
        return given

    def _score(self, span: ScoredSpan, probability: float) -> float:
        candidate, score, context = span.candidate, span.best.score, span.candidate.context
        if candidate.learned is not None:
            return score if candidate.learned else self.least
        # the model has seen few abbreviations, drugs and procedures, and no values: lower bounds for these
        bound = 0.0
        if candidate.value is not None:
            bound = score
        elif context[SAFE]:
            bound = score * context[USUAL]  # unambiguous in any context
        elif self.trusts_names and (candidate.listed or candidate.family):
            bound = score
        elif span.is_misspelt_name:
            bound = score * _MISSPELT[context[CONTENT] > 1]
        elif span.is_name and context[LISTED] and context[UPPER]:
            # a name in capitals is a mention, though its concept is often uncertain: MS, but not COVID-19
            bound = score * candidate.otherwise if candidate.otherwise >= _ONE_MEANING else self.least
        elif (candidate.listed and candidate.expanded is None and context[CONTENT] > 1) or (
            self.trusts_things and span.is_thing and (candidate.listed or candidate.family)
        ):
            bound = min(score, _DISTINCT_NAME)
        # a test, an organ or a drug is not the finding that is named after it
        other_kind = span.best.ranked.adds or (candidate.is_short_for_other_kind and not span.is_name)
        return min(max(probability, bound), min(MAX_SCORE_OF_OTHER_KIND, score) if other_kind else 1.0)


@cache
def default_span_classifier() -> SpanClassifier:
    raw = load_notes_resource("choice")
    return SpanClassifier(
        LogisticModel.from_dict(raw["alone"], ALONE), LogisticModel.from_dict(raw["model"], COLUMNS), raw["least"]
    )


def drop_redundant_spans(spans: Sequence[ScoredSpan]) -> list[ScoredSpan]:
    """Drop spans that another span with the same concept makes redundant, and spans inside a name of several words."""
    dropped = bytearray(len(spans))
    for i, j in overlapping(spans):
        first, second = spans[i], spans[j]
        dropped[i] |= _is_part(first, second)
        dropped[j] |= _is_part(second, first)
        if first.best.ranked.concept == second.best.ranked.concept:
            if first.candidate.place == second.candidate.place and not _is_named(first, second):
                continue  # the likelier reading is selected later
            if first.contains(second):
                dropped[j if _is_better(first, second) else i] = 1
            elif second.contains(first):
                dropped[i if _is_better(second, first) else j] = 1
    return [span for span, drop in zip(spans, dropped, strict=True) if not drop]


def _is_named(*spans: ScoredSpan) -> bool:
    return any(span.is_name and (span.candidate.expanded is None or span.is_short) for span in spans)


def _is_part(span: ScoredSpan, name: ScoredSpan) -> bool:
    is_inside = span.candidate.place != name.candidate.place and name.contains(span)
    if not (is_inside and name.is_name and span.candidate.learned is None):
        return False
    as_written = name.candidate.expanded is None and bool(name.candidate.context[LISTED])
    # "inkompletter RSB" is more than RSB
    return as_written or (span.is_short and name.candidate.family)


def _is_better(wide: ScoredSpan, narrow: ScoredSpan) -> bool:
    if (wide.candidate.learned is None) != (narrow.candidate.learned is None):
        return wide.candidate.learned is not None
    if wide.candidate.place == narrow.candidate.place:
        # a name goes before any other text, and of two names the long form of an abbreviation goes first
        first, second = ((span.is_name, span.is_short, span.candidate.expanded is None) for span in (wide, narrow))
        return first > second
    if wide.is_name:
        return True
    # "arterielle Hypertonie" adds what "Hypertonie" leaves out; "OSA on CPAP" adds nothing to OSA
    tolerance = -_SCORE_TOLERANCE if narrow.candidate.context[LACONIC_WORD] else _SCORE_TOLERANCE
    return wide.best.score > narrow.best.score + tolerance


def weighted_interval_scheduling(spans: Sequence[SelectedSpan], least: float) -> list[SelectedSpan]:
    """Find the disjoint spans, in order, whose log odds minus the log odds of ``least`` have the greatest sum.

    Kleinberg and Tardos (2005), section 6.1.
    """
    scored = [span for span in spans if span.score is not None and span.score >= least]
    ordered = sorted(scored, key=lambda span: (span.place[1], -span.place[0]))
    ends = [span.place[1] for span in ordered]
    sums, previous = [0.0], list[int | None]()
    for number, span in enumerate(ordered):
        compatible = bisect_right(ends, span.place[0], 0, number)
        total = sums[compatible] + log_odds(span.score or 0.0) - log_odds(least)
        # a span without gain is selected if nothing overlaps it
        better = total >= sums[number]
        sums.append(total if better else sums[number])
        previous.append(compatible if better else None)
    selected, number = list[SelectedSpan](), len(ordered)
    while number:
        before = previous[number - 1]
        if before is not None:
            selected.append(ordered[number - 1])
        number = number - 1 if before is None else before
    return selected[::-1]
