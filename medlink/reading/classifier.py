"""Which stretches of a note are mentions, by the concept that is the likeliest for each and the words around them.

A stretch with more words than another one inside it that is of the same concept is no better: the shorter one is taken.
What is left is judged by a logistic regression (``resources/notes/choice.json``, fitted by
``benchmarks/fit_choice.py``), whose probability is that of the mention being right with its concept. Of stretches that
overlap those are taken whose probabilities sum up highest.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import exp, log
from typing import NamedTuple

import numpy as np

from medlink.index.dictionary import Match
from medlink.index.heard import Heard
from medlink.index.heard import Place as Words
from medlink.language.lexicon import Abbreviation
from medlink.language.lexicon.organs import Cue
from medlink.language.lexicon.shorthand import LACONIC
from medlink.linking.candidates import INFLECTED, WORDS
from medlink.linking.linker import OF_ANOTHER_KIND, Best
from medlink.linking.measures import FEATURES
from medlink.reading.abbreviations import Place
from medlink.records import Attribute, Value

_LIKE = 0.05  # difference of scores that does not make a longer stretch of the same concept the better one
_NONE = -10.0  # rank of what is not there
_FINDINGS = frozenset(("disease", "finding", LACONIC))  # kinds of shorthand that stand for a finding
_SURE = 1e-3  # least distance of a score from 0 and 1, for its logarithm

CONTEXT = (
    "opens", "closes", "grammar_before", "grammar_behind", "content", "grammar", "characters", "upper", "capital",
    "digit", "joined", "listed", "explained", "shorthand", "laconic", "of_organ", "near", "usual", "otherwise", "safe",
)  # fmt: skip
"""What is said of a stretch by its words: whether it begins or ends its clause, whether words of the grammar stand
before or behind it, how many words and characters it has, how it is written; whether it joins things (*and*); whether
it is a name of the bundle as it is written, whether the note explains it; whether it is short for something, an
abbreviation or else a word that leaves something out, whether that is the organ that is spoken of, and in the same
sentence, how often it is; how often the same words are short for something where they are not read so; and whether it
is so without any context."""
_UPPER, _LISTED, _SHORTHAND, _LACONIC, _USUAL, _SAFE = map(
    CONTEXT.index, ("upper", "listed", "shorthand", "laconic", "usual", "safe")
)
RIVALS = ("wider", "narrower", "crossing", "wider_rank", "narrower_rank", "crossing_rank")
"""The highest score of the stretches that hold it, lie in it, or overlap it otherwise; and the highest rank less its
own."""
EVIDENCE = ("score", "log_odds", "rank", "margin", "words", "adds", *FEATURES)
"""What is said of a stretch by its likeliest concept: score, rank and measures of the linker."""
COLUMNS = (*EVIDENCE, *CONTEXT, *RIVALS)


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a mention: the names that it is, where it is some, what it is short for, how likely its best
    concept is right, its attributes where they were read, the id of the concept that was learned for it (empty: it was
    learned to have none), the measured value that it is, and whether its words are ``loose``: no name and no fixed
    phrase, so that a denial among them (*Milz nicht vergrößert*) is the note's."""

    match: Match | None = None
    expanded: str | None = None
    likely: float | None = None
    attributes: tuple[Attribute, ...] | None = None
    taught: str | None = None
    value: Value | None = None
    loose: bool = False


class Shortened(NamedTuple):
    """What a stretch is short for; and what says of which organ, where that is what it leaves out."""

    usual: Abbreviation
    cue: Cue | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a note that may be a mention: its tokens, what is known of it, and :data:`CONTEXT`.

    ``of_thing`` says that it is read as an abbreviation for something else than a finding.
    """

    place: Place
    known: Found
    context: tuple[float, ...]
    of_thing: bool = False

    @classmethod
    def of(
        cls,
        place: Place,
        known: Found,
        text: str,
        words: Words,
        heard: Heard,
        explained: bool,
        short: Shortened | None,
        otherwise: float,
        listed: bool,
        joins: Collection[str],
    ) -> Stretch:
        """A stretch of some words with its text, and what :data:`CONTEXT` says of it."""
        first, stop = words
        content = sum(not word.function for word in heard.words[first:stop])
        before, behind = _beside(heard, first, -1), _beside(heard, stop - 1, 1)
        usual, cue = (None, None) if short is None else short
        of_thing = usual is not None and usual.kind not in _FINDINGS
        return cls(
            place,
            known,
            (
                before is None, behind is None, bool(before), bool(behind), content, stop - first - content, len(text),
                text.isupper(), text[:1].isupper(), any(map(str.isdigit, text)),
                any(word in joins for word in text.casefold().split()), listed, explained,
                usual is not None, usual is not None and usual.kind == LACONIC,
                cue is not None, cue is not None and cue.near,
                usual.weight if usual else 0.0, otherwise, usual is not None and usual.safe,
            ),
            of_thing,
        )  # fmt: skip


def _beside(heard: Heard, at: int, step: int) -> int | None:
    """How many words of the grammar stand between a word and the next one of content; ``None`` where there is none."""
    if not 0 <= at < len(heard.words):
        return None
    clause, passed = heard.words[at].clause, 0
    at += step
    while 0 <= at < len(heard.words) and heard.words[at].clause == clause:
        if not heard.words[at].function:
            return passed
        passed, at = passed + 1, at + step
    return None


class Judged(NamedTuple):
    """A stretch with the concept that is the likeliest for it."""

    stretch: Stretch
    best: Best

    @property
    def is_name(self) -> bool:
        """Whether it is a name of the concept, to the letter or in another inflection."""
        return self.best.ranked.route <= INFLECTED

    @property
    def is_short(self) -> bool:
        """Whether it is read as an abbreviation."""
        context = self.stretch.context
        return bool(context[_SHORTHAND]) and not context[_LACONIC]

    @property
    def preference(self) -> tuple[bool, bool, bool]:
        """Of two ways to read the same words the one that is a name, then the abbreviation, then what is written."""
        return self.is_name, self.is_short, self.stretch.known.expanded is None

    @property
    def evidence(self) -> tuple[float, ...]:
        """:data:`EVIDENCE`."""
        ranked, score = self.best.ranked, self.best.score
        odds = min(max(score, _SURE), 1 - _SURE)
        by_words = ranked.route == WORDS
        return (
            score,
            log(odds / (1 - odds)),
            ranked.rank,
            ranked.margin,
            by_words,
            ranked.adds,
            *(ranked.measures or ()),
        )


class Chosen(NamedTuple):
    """A mention by its tokens, how likely its best concept is right, and what else is known of it."""

    place: Place
    likely: float
    known: Found = Found()


@dataclass(frozen=True, slots=True)
class Choice:
    """A logistic regression, one weight for each of :data:`COLUMNS`, and the probability that a mention needs.

    The columns are cut to what they were between in training, ``lowest`` and ``highest``.
    """

    weights: tuple[float, ...]
    offset: float
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    least: float

    def chosen(self, judged: Sequence[Judged]) -> list[Chosen]:
        """The mentions among the stretches of a note, which are in the order of their places.

        What is left between the mentions is looked at once more: what overlaps a mention is no rival any longer.
        """
        left = without_longer(judged)
        chosen = self._best(left)
        left = _apart(left, chosen)
        return sorted([*chosen, *self._best(left)], key=lambda one: one.place) if chosen else []

    def _best(self, judged: Sequence[Judged]) -> list[Chosen]:
        """The mentions among stretches that are all there are."""
        likely = [
            min(max(plain, self._floor(one)), self._ceiling(one))
            if one.stretch.known.taught is None
            else one.best.score
            if one.stretch.known.taught
            else self.least
            for one, plain in zip(judged, self.likely(rows(judged)), strict=True)
        ]
        found = zip(judged, likely, strict=True)
        return best_apart([Chosen(one.stretch.place, p, one.stretch.known) for one, p in found], self.least)

    def _floor(self, one: Judged) -> float:
        """How likely a stretch is right whatever the weights say, which know few abbreviations and no values."""
        context = one.stretch.context
        if one.stretch.known.value is not None:
            return one.best.score
        if context[_SAFE]:
            return one.best.score * context[_USUAL]  # it means that without any context
        # a name in capitals is a mention, if often none that one can be sure of
        return self.least if one.is_name and context[_LISTED] and context[_UPPER] else 0.0

    @staticmethod
    def _ceiling(one: Judged) -> float:
        """How likely a stretch is right at most: a test, an organ, a drug is no finding that is named after it."""
        if one.best.ranked.adds or (one.stretch.of_thing and not one.is_name):
            return min(OF_ANOTHER_KIND, one.best.score)
        return 1.0

    def likely(self, rows: Sequence[Sequence[float]]) -> list[float]:
        """The probabilities of rows of :data:`COLUMNS`."""
        columns = np.array(rows, dtype=np.float64).reshape(len(rows), len(self.weights))
        total = np.zeros(len(rows))
        # column by column: a matrix product may round differently with another number of rows
        for column, weight, low, high in zip(columns.T, self.weights, self.lowest, self.highest, strict=True):
            total += weight * np.clip(column, low, high)
        # by the library of the language, as that of arrays rounds differently on other processors
        return [1 / (1 + exp(-min(max(one, -40.0), 40.0))) for one in (self.offset + total).tolist()]


@cache
def shipped_choice() -> Choice:
    """The weights that ship with medlink."""
    raw = json.loads(resources.files("medlink").joinpath("resources/notes/choice.json").read_text("utf-8"))
    columns = [raw["columns"][name] for name in COLUMNS]
    weights, low, high = (tuple(column[at] for column in columns) for at in range(3))
    return Choice(weights, raw["offset"], low, high, raw["least"])


def by_first_names(judged: Sequence[Judged]) -> list[Judged]:
    """Stretches, of the values those alone that the bundle has a name for, each by the first of its names."""
    named, kept = set[Place](), []
    for one in judged:
        if one.stretch.known.value is not None:
            if not one.is_name or one.stretch.place in named:
                continue
            named.add(one.stretch.place)
        kept.append(one)
    return kept


def without_longer(judged: Sequence[Judged]) -> list[Judged]:
    """Stretches, without those that another one of the same concept makes needless, and abbreviations in a name."""
    dropped = bytearray(len(judged))
    for i, j in _overlapping(judged):
        for wide, narrow in ((i, j), (j, i)):
            if judged[narrow].is_short and _is_part(judged[narrow], judged[wide]):
                dropped[narrow] = 1
        if judged[i].best.ranked.concept == judged[j].best.ranked.concept:
            if judged[i].stretch.place == judged[j].stretch.place and not judged[i].is_name | judged[j].is_name:
                continue  # of two ways to read what is no name the likelier one is taken
            if _holds(judged[i], judged[j]):
                dropped[j if _is_better(judged[i], judged[j]) else i] = 1
            elif _holds(judged[j], judged[i]):
                dropped[i if _is_better(judged[j], judged[i]) else j] = 1
    return [one for one, drop in zip(judged, dropped, strict=True) if not drop]


def _is_part(one: Judged, name: Judged) -> bool:
    """Whether a stretch is a part of a longer one that is a name of the bundle as it is written."""
    as_written = name.is_name and name.stretch.known.expanded is None and bool(name.stretch.context[_LISTED])
    return as_written and one.stretch.place != name.stretch.place and _holds(name, one)


def _is_better(wide: Judged, narrow: Judged) -> bool:
    """Whether of two stretches of one concept the one that holds the other is to be kept."""
    if (wide.stretch.known.taught is None) != (narrow.stretch.known.taught is None):
        return wide.stretch.known.taught is not None
    if wide.stretch.place == narrow.stretch.place:
        # a name is read as itself, but an abbreviation as what it is short for where that is a name too
        return wide.preference > narrow.preference
    if wide.is_name:
        return True
    # "arterielle Hypertonie" says what "Hypertonie" leaves out
    like = -_LIKE if narrow.stretch.context[_SHORTHAND] else _LIKE
    return wide.best.score > narrow.best.score + like


def rows(judged: Sequence[Judged]) -> list[tuple[float, ...]]:
    """:data:`COLUMNS` of stretches in the order of their places."""
    rivals = [[0.0, 0.0, 0.0, _NONE, _NONE, _NONE] for _ in judged]
    for i, j in _overlapping(judged):
        if judged[i].stretch.place == judged[j].stretch.place:
            continue  # two ways to read the same words
        for one, other in ((i, j), (j, i)):
            at = 0 if _holds(judged[other], judged[one]) else 1 if _holds(judged[one], judged[other]) else 2
            best, own = judged[other].best, rivals[one]
            own[at], own[at + 3] = max(own[at], best.score), max(own[at + 3], best.ranked.rank)
    return [
        (*one.evidence, *one.stretch.context, *own[:3], *(rank - one.best.ranked.rank for rank in own[3:]))
        for one, own in zip(judged, rivals, strict=True)
    ]


def _apart(judged: Sequence[Judged], chosen: Sequence[Chosen]) -> list[Judged]:
    """The stretches that overlap none of those chosen; both are in the order of their places."""
    taken = {at for one in chosen for at in range(*one.place)}
    return [one for one in judged if taken.isdisjoint(range(*one.stretch.place))]


def _overlapping(judged: Sequence[Judged]) -> Iterator[tuple[int, int]]:
    """Pairs of stretches that overlap; the stretches are in the order of their places."""
    open_: list[int] = []
    for j, one in enumerate(judged):
        start = one.stretch.place[0]
        open_ = [i for i in open_ if judged[i].stretch.place[1] > start]
        for i in open_:
            yield i, j
        open_.append(j)


def _holds(wide: Judged, narrow: Judged) -> bool:
    (first, stop), (start, end) = wide.stretch.place, narrow.stretch.place
    return first <= start and end <= stop


def best_apart(stretches: Sequence[Chosen], least: float) -> list[Chosen]:
    """Of stretches that overlap those whose probabilities, each less ``least``, have the greatest sum; in order.

    >>> [one.place for one in best_apart([Chosen((0, 3), .8), Chosen((0, 1), .6), Chosen((2, 3), .7)], .3)]
    [(0, 1), (2, 3)]
    """
    kept = sorted((one for one in stretches if one.likely >= least), key=lambda one: (one.place[1], -one.place[0]))
    ends = [one.place[1] for one in kept]
    sums, before = [0.0], list[int | None]()
    for number, one in enumerate(kept):
        reach = bisect_right(ends, one.place[0], 0, number)
        total = sums[reach] + one.likely - least
        # a mention of no gain is one where nothing else is
        better = total >= sums[number]
        sums.append(total if better else sums[number])
        before.append(reach if better else None)
    chosen, number = list[Chosen](), len(kept)
    while number:
        reached = before[number - 1]
        if reached is None:
            number -= 1
        else:
            chosen.append(kept[number - 1])
            number = reached
    return chosen[::-1]
