"""Features of candidate spans: of their concept, of their words, and of the spans that overlap them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.language.lexicon.abbreviation_table import LACONIC
from medlink.language.scan import ScannedText, WordEntry
from medlink.language.tags import base
from medlink.linking.candidates import INFLECTED, WORDS
from medlink.linking.features import FEATURES
from medlink.linking.linker import Best
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
_WORD = ("content", "known", "unknown", "lower", "upper", "digit", "capital", *KINDS)
_AT = {name: at for at, name in enumerate(_WORD)}
_AT_A_TIME = 1 << 13  # spans whose columns are worked out together: a long note has many more than are kept
_SAID = 14  # columns of what is known of a candidate beside its words

Columns = NDArray[np.float64]
_Words = NDArray[np.int64]


def _word(entry: WordEntry) -> tuple[bool, ...]:
    written, content = entry.written, not entry.word.function
    return (
        content, content and bool(entry.word.meanings), content and not entry.kinds, written.upper() != written,
        written.lower() != written, any(map(str.isdigit, written)), written[:1].isupper(),
        *(content and kind in entry.kinds for kind in KINDS),
    )  # fmt: skip


def _said(text: ScannedText, one: CandidateSpan) -> tuple[float, ...]:
    """What is known of a candidate beside the kinds of its words."""
    usual, cue = (None, None) if one.short is None else one.short
    start, end = text.span(one.place)
    return (
        end - start, one.listed, one.explained, usual is not None, usual is not None and usual.kind == LACONIC,
        cue is not None, cue is not None and cue.near, usual.weight if usual else 0.0, one.otherwise,
        usual is not None and usual.safe, one.family, one.expanded is not None,
        min((one.expanded or "").count(" ") + 1, 6), bool(text.meanings(one.place)),
    )  # fmt: skip


class SpanColumns:
    """Spans of n texts in a language that were scanned together; ``joins`` are the words that join things."""

    def __init__(
        self,
        texts: Sequence[ScannedText],
        spans: Sequence[Sequence[CandidateSpan]],
        joins: frozenset[str],
        language: str,
    ) -> None:
        starts = np.cumsum([0, *(len(text.words) for text in texts)])
        numbers, table = np.concatenate([text.numbers for text in texts]), texts[0].table
        words = table.column("columns", _word, bool).reshape(-1, len(_WORD))[numbers]
        joining = table.column("joins", lambda entry: entry.written.casefold() in joins, bool)[numbers]
        clauses = np.array([word.clause for text in texts for word in text.words], np.int64)
        clauses += np.repeat(starts[:-1], np.diff(starts))  # no two texts share one
        self._words, self._clauses = np.vstack([words, np.zeros((1, len(_WORD)), bool)]), np.append(clauses, -1)
        self._sums = _before(words)  # of the columns
        self._joins = _before(joining)
        self._content = np.concatenate([[-1], np.flatnonzero(words[:, 0]), [len(words)]])
        self._spans = [(text, one) for text, of in zip(texts, spans, strict=True) for one in of]
        places = np.array([one.place for _, one in self._spans], np.int64).reshape(-1, 2)
        self._first, self._stop = (places + np.repeat(starts[:-1], list(map(len, spans)))[:, None]).T
        self._language = [float(tag == base(language)) for tag in LANGUAGES]

    def rows(self) -> Iterator[tuple[list[CandidateSpan], Columns]]:
        """The spans, many at a time, with their columns :data:`medlink.reading.features.SPAN` ``(m, c)``."""
        for start in range(0, len(self._spans), _AT_A_TIME):
            at = slice(start, start + _AT_A_TIME)
            yield [one for _, one in self._spans[at]], self._rows(at)

    def _beside(self, words: _Words, others: _Words) -> _Words:
        """Words between each word and another one, -1 where that is none or of another clause."""
        return np.where(self._clauses[words] == self._clauses[others], np.abs(words - others) - 1, -1)

    def _rows(self, at: slice) -> Columns:
        first, stop = self._first[at], self._stop[at]
        sums = self._sums[stop] - self._sums[first]
        content, known, unknown, lower, upper, digit = sums.T[:6]
        kinds = sums[:, _AT[KINDS[0]] :]
        finding, change, body, function = kinds.T[:4]
        before, behind = self._sums[first, 0], self._sums[stop, 0]  # words of content
        opens = self._beside(first, self._content[before])
        closes = self._beside(stop - 1, self._content[behind + 1])
        none = len(self._words) - 1
        ends = [
            self._words[np.where(content > 0, self._content[one], none)] for one in (before + 1, behind)
        ]  # the first and the last word of content
        said = np.array([_said(*pair) for pair in self._spans[at]], np.float64).reshape(-1, _SAID)
        characters, family, expanded, read, whole = said.T[[0, 10, 11, 12, 13]]
        shorthand, laconic = said[:, 3], said[:, 4]
        plain, count, capped = family == 0, np.maximum(content, 1), np.minimum(kinds, 2)
        return np.column_stack(
            [
                opens == -1, closes == -1, opens > 0, closes > 0, content, stop - first - content, characters,
                (lower == 0) & (upper > 0), self._words[first, _AT["capital"]], digit > 0,
                (self._joins[stop] > self._joins[first]) & (stop - first > 1), said[:, 1:10],
                family, expanded, read, (shorthand > 0) & (laconic == 0), capped, unknown, unknown / count,
                known / count, whole, *(end[:, _AT[kind]] for kind in ENDS for end in ends),
                *(end[:, _AT["unknown"]] | ~end[:, 0] for end in ends),
                ~plain & (count == 1), plain & (expanded == 0),
                capped[:, 0] / count, (capped[:, 0] + capped[:, 1]) / count, (finding > 0) & (body > 0) & plain,
                (change > 0) & (np.minimum(body, 2) + np.minimum(function, 2) > 0) & plain,
                np.tile(self._language, (len(said), 1)),
            ]
        )  # fmt: skip


def _before(columns: NDArray[np.bool_]) -> _Words:
    return np.concatenate([np.zeros((1, *columns.shape[1:]), np.int64), np.cumsum(columns, axis=0, dtype=np.int64)])


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
        context = self.candidate.context
        return bool(context[SHORTHAND]) and not context[LACONIC_WORD]

    def holds(self, narrow: ScoredSpan) -> bool:
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
