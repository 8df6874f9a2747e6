"""Which candidate spans of a text are mentions, by their features.

A span with more words than another one inside it that is of the same concept is no better: the shorter one is taken.
What is left is scored by a logistic regression (``resources/notes/choice.json``, fitted by
``benchmarks/fit_choice.py``): the probability that the span is a mention and its concept right. Of spans that overlap
those are selected whose log odds have the greatest sum.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import exp
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from medlink.files.json import read_json
from medlink.language.languages import SHIPPED
from medlink.language.scan import Place
from medlink.linking.linker import OF_ANOTHER_KIND
from medlink.reading.candidates import CandidateSpan
from medlink.reading.features import (
    ALONE,
    COLUMNS,
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

_LIKE = 0.05  # difference of scores that does not make a longer span of the same concept the better one
_AT_A_TIME = 1 << 13  # rows that are in memory together
_FARTHEST = 40.0  # beyond it a probability is 0 or 1


@dataclass(frozen=True, slots=True)
class LogisticModel:
    """A logistic regression: one weight for each column; columns are cut to ``lowest`` and ``highest``."""

    weights: tuple[float, ...]
    offset: float
    lowest: tuple[float, ...]
    highest: tuple[float, ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any], names: Sequence[str]) -> Self:
        """Read plain data: ``offset``, and ``columns`` with weight, lowest and highest by name."""
        weights, lowest, highest = (tuple(raw["columns"][name][at] for name in names) for at in range(3))
        return cls(weights, raw["offset"], lowest, highest)

    def probabilities(self, rows: Iterable[Sequence[float]] | NDArray[np.float64]) -> list[float]:
        left, found = iter(rows), list[float]()
        while some := list(islice(left, _AT_A_TIME)):
            columns = np.clip(np.array(some, dtype=np.float64), self.lowest, self.highest)
            total = np.full(len(columns), self.offset)
            # column by column: a matrix product may round differently with another number of rows
            for column, weight in zip(columns.T, self.weights, strict=True):
                total += weight * column
            # by the library of the language, as that of arrays rounds differently on other processors
            found += [1 / (1 + exp(-min(max(one, -_FARTHEST), _FARTHEST))) for one in total.tolist()]
        return found


def shipped(name: str) -> Any:
    """A file of ``resources/notes``."""
    return read_json(SHIPPED.parent / "notes" / f"{name}.json")


@cache
def shipped_filter() -> tuple[LogisticModel, float]:
    """What judges spans by their words alone, before anything is ranked, and the probability that one needs.

    Most candidates are no mentions, and those that are no name need a search each.
    """
    raw = shipped("prefilter")
    return LogisticModel.of(raw, UNRANKED), raw["least"]


class SelectedSpan(NamedTuple):
    """A mention: its candidate, the probability that it is one and its concept right (``None``: it was not judged)."""

    candidate: CandidateSpan
    score: float | None

    @property
    def place(self) -> Place:
        return self.candidate.place


@dataclass(frozen=True, slots=True)
class SpanClassifier:
    """Two logistic regressions, and the probability that a mention needs.

    ``alone`` judges each span by :data:`medlink.reading.features.ALONE`. ``model`` gives its score, by
    :data:`medlink.reading.features.COLUMNS`: it knows how likely the spans are that overlap it.
    """

    alone: LogisticModel
    model: LogisticModel
    least: float

    def select(self, texts: Sequence[Sequence[ScoredSpan]]) -> list[list[SelectedSpan]]:
        """The mentions of n texts among their spans, which are in the order of their places."""
        return [best_apart(spans, self.least) for spans in self.score([without_longer(spans) for spans in texts])]

    def score(self, texts: Sequence[Sequence[ScoredSpan]]) -> list[list[SelectedSpan]]:
        """All spans of n texts with their probabilities."""
        alone = iter(self.alone.probabilities(row for spans in texts for row in feature_rows(spans)))
        rivals = (
            row for spans in texts for row in rival_rows([next(alone) for _ in spans], rival_pairs(spans))
        )  # a long text has very many, and no two are in memory
        rows = ((*row, *next(rivals)) for spans in texts for row in feature_rows(spans))
        plain = iter(self.model.probabilities(rows))
        return [[SelectedSpan(one.candidate, self._score(one, next(plain))) for one in spans] for spans in texts]

    def score_given(self, spans: Sequence[ScoredSpan], places: Sequence[Place]) -> dict[Place, SelectedSpan]:
        """The likeliest way to read each of some places of a text, whatever overlaps it."""
        left, wanted = without_longer(spans), set(places)
        kept, dropped = set(map(id, left)), wanted - {one.candidate.place for one in left}
        left = [one for one in spans if id(one) in kept or one.candidate.place in dropped]
        # of equals the last, as best_apart takes it
        ordered = sorted(self.score([left])[0], key=lambda one: one.score or 0.0)
        return {one.place: one for one in ordered if one.place in wanted}

    def _score(self, one: ScoredSpan, plain: float) -> float:
        candidate, score, context = one.candidate, one.best.score, one.candidate.context
        if candidate.learned is not None:
            return score if candidate.learned else self.least
        # the weights know few abbreviations and no values
        least = 0.0
        if candidate.value is not None:
            least = score
        elif context[SAFE]:
            least = score * context[USUAL]  # it means that without any context
        elif one.is_name and context[LISTED] and context[UPPER]:
            least = self.least  # a name in capitals is a mention, if often none that one can be sure of
        # a test, an organ, a drug is no finding that is named after it
        named_after = one.best.ranked.adds or (candidate.of_thing and not one.is_name)
        return min(max(plain, least), min(OF_ANOTHER_KIND, score) if named_after else 1.0)


@cache
def shipped_classifier() -> SpanClassifier:
    raw = shipped("choice")
    return SpanClassifier(LogisticModel.of(raw["alone"], ALONE), LogisticModel.of(raw["model"], COLUMNS), raw["least"])


def without_longer(spans: Sequence[ScoredSpan]) -> list[ScoredSpan]:
    """Spans, without those that another one of the same concept makes needless, and abbreviations in a name."""
    dropped = bytearray(len(spans))
    for i, j in overlapping(spans):
        one, other = spans[i], spans[j]
        dropped[i] |= one.is_short and _is_part(one, other)
        dropped[j] |= other.is_short and _is_part(other, one)
        if one.best.ranked.concept == other.best.ranked.concept:
            if one.candidate.place == other.candidate.place and not _is_named(one, other):
                continue  # of two ways to read what is no name as it is written the likelier one is taken
            if one.holds(other):
                dropped[j if _is_better(one, other) else i] = 1
            elif other.holds(one):
                dropped[i if _is_better(other, one) else j] = 1
    return [one for one, drop in zip(spans, dropped, strict=True) if not drop]


def _is_named(*ways: ScoredSpan) -> bool:
    return any(way.is_name and (way.candidate.expanded is None or way.is_short) for way in ways)


def _is_part(one: ScoredSpan, name: ScoredSpan) -> bool:
    as_written = name.is_name and name.candidate.expanded is None and bool(name.candidate.context[LISTED])
    return as_written and one.candidate.place != name.candidate.place and name.holds(one)


def _is_better(wide: ScoredSpan, narrow: ScoredSpan) -> bool:
    if (wide.candidate.learned is None) != (narrow.candidate.learned is None):
        return wide.candidate.learned is not None
    if wide.candidate.place == narrow.candidate.place:
        # a name is read as itself, but an abbreviation as what it is short for where that is a name too
        preferred, other = ((one.is_name, one.is_short, one.candidate.expanded is None) for one in (wide, narrow))
        return preferred > other
    if wide.is_name:
        return True
    # "arterielle Hypertonie" says what "Hypertonie" leaves out; "OSA on CPAP" says no more of OSA
    like = -_LIKE if narrow.candidate.context[LACONIC_WORD] else _LIKE
    return wide.best.score > narrow.best.score + like


def best_apart(spans: Sequence[SelectedSpan], least: float) -> list[SelectedSpan]:
    """Of spans that overlap those whose log odds, each less those of ``least``, have the greatest sum; in order.

    Weighted interval scheduling (Kleinberg and Tardos 2005, section 6.1).
    """
    scored = [one for one in spans if one.score is not None and one.score >= least]
    kept = sorted(scored, key=lambda one: (one.place[1], -one.place[0]))
    ends = [one.place[1] for one in kept]
    sums, before = [0.0], list[int | None]()
    for number, one in enumerate(kept):
        reach = bisect_right(ends, one.place[0], 0, number)
        total = sums[reach] + log_odds(one.score or 0.0) - log_odds(least)
        # a mention of no gain is one where nothing else is
        better = total >= sums[number]
        sums.append(total if better else sums[number])
        before.append(reach if better else None)
    chosen, number = list[SelectedSpan](), len(kept)
    while number:
        reached = before[number - 1]
        if reached is not None:
            chosen.append(kept[number - 1])
        number = number - 1 if reached is None else reached
    return chosen[::-1]
