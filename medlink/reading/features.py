"""Features of candidate spans: of their concept, of their words, and of the spans that overlap them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import log
from typing import NamedTuple

from medlink.linking.candidates import INFLECTED, WORDS
from medlink.linking.linker import Best
from medlink.linking.measures import FEATURES
from medlink.reading.candidates import CandidateSpan

_NO_RIVAL = -6.0  # log odds of a span that is not there
_LEAST = 1e-4  # least distance of a probability from 0 and 1, for its log odds
_SURE = 1e-3  # least distance of a score from 0 and 1, for its logarithm

KINDS = (
    "finding", "change", "body", "function", "substance", "organism", "quality", "procedure", "person", "circumstance",
    "measure", "general", "disease",
)  # fmt: skip
"""Kinds of words that are counted."""
ENDS = KINDS[:3]
"""Kinds of which it counts whether the first and the last word have them."""
LANGUAGES = ("de", "en", "es")
"""Languages whose texts are told apart."""
CONTEXT = (
    "opens", "closes", "grammar_before", "grammar_behind", "content", "grammar", "characters", "upper", "capital",
    "digit", "joined", "listed", "explained", "shorthand", "laconic", "of_organ", "near", "usual", "otherwise", "safe",
)  # fmt: skip
"""What the words of a span tell: whether it begins or ends its clause, whether words of the grammar stand
before or behind it, how many words and characters it has, how it is written; whether it joins things (*and*); whether
it is a name of the bundle as it is written, whether the note explains it; whether it is short for something, an
abbreviation or else a word that leaves something out, whether that is the organ that is spoken of, and in the same
sentence, how often it is; how often the same words are short for something where they are not read so; and whether it
is so without any context."""
WORDING = (
    *(f"kind_{kind}" for kind in KINDS), "unknown", "unknown_share", "known_share", "whole",
    *(f"{end}_{kind}" for kind in ENDS for end in ("first", "last")), "first_unknown", "last_unknown", "family_word",
    "window", "finding_share", "finds_share", "finding_body", "change_body",
)  # fmt: skip
"""How many words of a span are of which kind, the kinds of its first and last word, whether the lexicon knows it whole.
They count where it is read as it is written and is no name: a drug is a mention where the bundle names drugs."""
UNRANKED = (*CONTEXT, "family", "expanded", "read_words", "abbreviation", *WORDING)
"""What is known of a span before it is ranked: of its context, how it is read, and its wording."""
_LANGUAGE = tuple(f"language_{tag}" for tag in LANGUAGES)
SPAN = (*UNRANKED, *_LANGUAGE)
"""The same with the language of the text."""
UPPER, LISTED, SHORTHAND, LACONIC_WORD, USUAL, SAFE = map(
    CONTEXT.index, ("upper", "listed", "shorthand", "laconic", "usual", "safe")
)
RIVALS = ("wider", "narrower", "crossing", "wider_odds", "narrower_odds", "crossing_odds")
"""The highest probability, judged alone, of the spans that hold it, lie in it, or overlap it otherwise; and the log
odds of each less its own."""
ALONE = ("score", "log_odds", "rank", "margin", "words", "adds", *FEATURES, *CONTEXT, *WORDING, *_LANGUAGE)
"""What is known of a span whatever overlaps it: score, rank and measures of its likeliest concept by the linker, and
its words."""
COLUMNS = (*ALONE, *RIVALS)


class ScoredSpan(NamedTuple):
    """A candidate with the concept that is the likeliest for it."""

    candidate: CandidateSpan
    best: Best

    @property
    def is_name(self) -> bool:
        """Whether it is a name of the concept, to the letter or in another inflection."""
        return self.best.ranked.route <= INFLECTED

    @property
    def is_short(self) -> bool:
        """Whether it is read as an abbreviation."""
        context = self.candidate.context
        return bool(context[SHORTHAND]) and not context[LACONIC_WORD]

    def holds(self, narrow: ScoredSpan) -> bool:
        """Whether another span lies in it."""
        (first, stop), (start, end) = self.candidate.place, narrow.candidate.place
        return first <= start and end <= stop


def feature_rows(spans: Iterable[ScoredSpan]) -> Iterator[tuple[float, ...]]:
    """The columns :data:`ALONE` of spans."""
    for one in spans:
        ranked, score, own = one.best.ranked, one.best.score, one.candidate.context
        odds = min(max(score, _SURE), 1 - _SURE)
        as_written = one.candidate.expanded is None and not one.is_name
        wording = own[len(UNRANKED) - len(WORDING) : len(UNRANKED)] if as_written else (0.0,) * len(WORDING)
        yield (
            score, log(odds / (1 - odds)), ranked.rank, ranked.margin, ranked.route == WORDS, ranked.adds,
            *(ranked.measures or ()), *own[: len(CONTEXT)], *wording, *own[len(UNRANKED) :],
        )  # fmt: skip


def rival_pairs(spans: Sequence[ScoredSpan]) -> Iterator[tuple[int, int, int]]:
    """Spans of a text, each with a span that overlaps it, and how: as one of the first three of :data:`RIVALS`."""
    for i, j in overlapping(spans):
        if spans[i].candidate.place != spans[j].candidate.place:  # else two ways to read the same words
            for one, other in ((i, j), (j, i)):
                yield one, other, 0 if spans[other].holds(spans[one]) else 1 if spans[one].holds(spans[other]) else 2


def rival_rows(alone: Sequence[float], pairs: Iterable[tuple[int, int, int]]) -> Iterator[tuple[float, ...]]:
    """The columns :data:`RIVALS` of spans, by the probability of each ``alone`` and their :func:`rival_pairs`."""
    highest = [[0.0, 0.0, 0.0] for _ in alone]
    for one, other, kind in pairs:
        highest[one][kind] = max(highest[one][kind], alone[other])
    for own, held in zip(alone, highest, strict=True):
        yield (*held, *(log_odds(rival) - log_odds(own) if rival else _NO_RIVAL for rival in held))


def log_odds(probability: float) -> float:
    """The log odds of a probability, within bounds."""
    held = min(max(probability, _LEAST), 1 - _LEAST)
    return log(held / (1 - held))


def overlapping(spans: Sequence[ScoredSpan]) -> Iterator[tuple[int, int]]:
    """Pairs of spans that overlap; the spans are in the order of their places."""
    open_: list[int] = []
    for j, one in enumerate(spans):
        start = one.candidate.place[0]
        open_ = [i for i in open_ if spans[i].candidate.place[1] > start]
        yield from ((i, j) for i in open_)
        open_.append(j)
