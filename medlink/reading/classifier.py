"""Which candidate spans of a text are mentions, by their features.

A span with more words than another one inside it that is of the same concept is no better: the shorter one is taken.
What is left is scored by a logistic regression (``resources/notes/choice.json``, fitted by
``benchmarks/fit_choice.py``): the probability that the span is a mention and its concept right. Of spans that overlap
those are selected whose log odds have the greatest sum.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

from medlink.language.scan import Place
from medlink.linking.linker import OF_ANOTHER_KIND
from medlink.reading.candidates import CandidateSpan
from medlink.reading.features import (
    ALONE,
    COLUMNS,
    LACONIC_WORD,
    LISTED,
    SAFE,
    UPPER,
    USUAL,
    ScoredSpan,
    feature_rows,
    holds,
    log_odds,
    overlapping,
    rival_pairs,
    rival_rows,
)
from medlink.reading.logistic import LogisticModel

_LIKE = 0.05  # difference of scores that does not make a longer span of the same concept the better one


class SelectedSpan(NamedTuple):
    """A mention: its candidate, the probability that it is one and its concept right (``None``: it was not judged)."""

    candidate: CandidateSpan
    score: float | None

    @property
    def place(self) -> Place:
        """Its words."""
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
        alone = self.alone.probabilities(row for spans in texts for row in feature_rows(spans))
        plain = iter(self.model.probabilities(_with_rivals(texts, alone)))
        return [[SelectedSpan(one.candidate, self._score(one, next(plain))) for one in spans] for spans in texts]

    def score_given(self, spans: Sequence[ScoredSpan], places: Sequence[Place]) -> dict[Place, SelectedSpan]:
        """The likeliest way to read each of some places of a text, whatever overlaps it."""
        left, wanted = without_longer(spans), set(places)
        kept, dropped = set(map(id, left)), wanted - {one.candidate.place for one in left}
        left = [one for one in spans if id(one) in kept or one.candidate.place in dropped]
        found: dict[Place, SelectedSpan] = {}
        for one in self.score([left])[0]:
            before = found.get(one.place)
            # of equals the last, as best_apart takes it
            if one.place in wanted and (before is None or (before.score or 0.0) <= (one.score or 0.0)):
                found[one.place] = one
        return found

    def _score(self, one: ScoredSpan, plain: float) -> float:
        """The probability of a span: what was learned of it goes before what the regression says."""
        learned = one.candidate.learned
        if learned is not None:
            return one.best.score if learned else self.least
        return min(max(plain, self._floor(one)), self._ceiling(one))

    def _floor(self, one: ScoredSpan) -> float:
        """How likely a span is right whatever the weights say, which know few abbreviations and no values."""
        context = one.candidate.context
        if one.candidate.value is not None:
            return one.best.score
        if context[SAFE]:
            return one.best.score * context[USUAL]  # it means that without any context
        # a name in capitals is a mention, if often none that one can be sure of
        return self.least if one.is_name and context[LISTED] and context[UPPER] else 0.0

    @staticmethod
    def _ceiling(one: ScoredSpan) -> float:
        """How likely a span is right at most: a test, an organ, a drug is no finding that is named after it."""
        if one.best.ranked.adds or (one.candidate.of_thing and not one.is_name):
            return min(OF_ANOTHER_KIND, one.best.score)
        return 1.0


def _with_rivals(texts: Iterable[Sequence[ScoredSpan]], alone: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """The columns :data:`medlink.reading.features.COLUMNS` of the spans of texts; a long text has very many."""
    start = 0
    for spans in texts:
        rivals = rival_rows(alone[start : start + len(spans)], rival_pairs(spans))
        yield from ((*row, *rival) for row, rival in zip(feature_rows(spans), rivals, strict=True))
        start += len(spans)


@cache
def shipped_classifier() -> SpanClassifier:
    """The weights that ship with medlink."""
    raw = json.loads(resources.files("medlink").joinpath("resources/notes/choice.json").read_text("utf-8"))
    return SpanClassifier(LogisticModel.of(raw["alone"], ALONE), LogisticModel.of(raw["model"], COLUMNS), raw["least"])


def by_first_names(spans: Sequence[ScoredSpan]) -> list[ScoredSpan]:
    """Spans, of the values those alone that the bundle has a name for, each by the first of its names."""
    named, kept = set[Place](), []
    for one in spans:
        if one.candidate.value is not None:
            if not one.is_name or one.candidate.place in named:
                continue
            named.add(one.candidate.place)
        kept.append(one)
    return kept


def without_longer(spans: Sequence[ScoredSpan]) -> list[ScoredSpan]:
    """Spans, without those that another one of the same concept makes needless, and abbreviations in a name."""
    dropped = bytearray(len(spans))
    for i, j in overlapping(spans):
        for wide, narrow in ((i, j), (j, i)):
            if spans[narrow].is_short and _is_part(spans[narrow], spans[wide]):
                dropped[narrow] = 1
        if spans[i].best.ranked.concept == spans[j].best.ranked.concept:
            if spans[i].candidate.place == spans[j].candidate.place and not _is_named(spans[i], spans[j]):
                continue  # of two ways to read what is no name as it is written the likelier one is taken
            if holds(spans[i], spans[j]):
                dropped[j if _is_better(spans[i], spans[j]) else i] = 1
            elif holds(spans[j], spans[i]):
                dropped[i if _is_better(spans[j], spans[i]) else j] = 1
    return [one for one, drop in zip(spans, dropped, strict=True) if not drop]


def _is_named(*ways: ScoredSpan) -> bool:
    """Whether one of some ways to read a span is a name as it is written, or an abbreviation of a name."""
    return any(way.is_name and (way.candidate.expanded is None or way.is_short) for way in ways)


def _is_part(one: ScoredSpan, name: ScoredSpan) -> bool:
    """Whether a span is a part of a longer one that is a name of the bundle as it is written."""
    as_written = name.is_name and name.candidate.expanded is None and bool(name.candidate.context[LISTED])
    return as_written and one.candidate.place != name.candidate.place and holds(name, one)


def _is_better(wide: ScoredSpan, narrow: ScoredSpan) -> bool:
    """Whether of two spans of one concept the one that holds the other is to be kept."""
    if (wide.candidate.learned is None) != (narrow.candidate.learned is None):
        return wide.candidate.learned is not None
    if wide.candidate.place == narrow.candidate.place:
        # a name is read as itself, but an abbreviation as what it is short for where that is a name too
        return wide.preference > narrow.preference
    if wide.is_name:
        return True
    # "arterielle Hypertonie" says what "Hypertonie" leaves out; "OSA on CPAP" says no more of OSA
    like = -_LIKE if narrow.candidate.context[LACONIC_WORD] else _LIKE
    return wide.best.score > narrow.best.score + like


def best_apart(spans: Sequence[SelectedSpan], least: float) -> list[SelectedSpan]:
    """Of spans that overlap those whose log odds, each less those of ``least``, have the greatest sum; in order.

    Weighted interval scheduling (Kleinberg and Tardos 2005, section 6.1).

    >>> from medlink.reading.candidates import CandidateSpan as Span
    >>> spans = [SelectedSpan(Span((0, 3)), .8), SelectedSpan(Span((0, 1)), .7), SelectedSpan(Span((2, 3)), .7)]
    >>> [one.place for one in best_apart(spans, .35)]
    [(0, 1), (2, 3)]
    """
    scored = [one for one in spans if one.score is not None and one.score >= least]
    kept = sorted(scored, key=lambda one: (one.place[1], -one.place[0]))
    ends = [one.place[1] for one in kept]
    zero = log_odds(least)
    sums, before = [0.0], list[int | None]()
    for number, one in enumerate(kept):
        reach = bisect_right(ends, one.place[0], 0, number)
        total = sums[reach] + log_odds(one.score or 0.0) - zero
        # a mention of no gain is one where nothing else is
        better = total >= sums[number]
        sums.append(total if better else sums[number])
        before.append(reach if better else None)
    chosen, number = list[SelectedSpan](), len(kept)
    while number:
        reached = before[number - 1]
        if reached is None:
            number -= 1
        else:
            chosen.append(kept[number - 1])
            number = reached
    return chosen[::-1]
