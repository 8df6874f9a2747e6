"""Features of candidate spans: of their concept, of their words, and of overlapping spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.language.lexicon.abbreviation_table import LACONIC
from medlink.language.scan import ScannedText, WordEntry
from medlink.language.tags import base
from medlink.linking.candidates import INFLECTED, WORDS
from medlink.linking.features import FEATURES
from medlink.linking.linker import BestConcept
from medlink.reading.candidates import CandidateSpan

_NO_RIVAL = -6.0  # log odds difference without a rival
_MIN_PROBABILITY = 1e-4  # log odds clip probabilities to this distance from 0 and 1
_MIN_SCORE = 1e-3  # the same for scores

KINDS = (
    "finding", "change", "body", "function", "substance", "organism", "quality", "procedure", "person", "circumstance",
    "measure", "general", "disease",
)  # fmt: skip
"""Kinds of words with a column."""
ENDS = KINDS[:3]
"""Kinds with columns for the first and the last word."""
LANGUAGES = ("de", "en", "es")
"""Languages with a column."""
CONTEXT = (
    "opens", "closes", "grammar_before", "grammar_behind", "content", "grammar", "characters", "upper", "capital",
    "digit", "joined", "listed", "explained", "shorthand", "laconic", "of_organ", "near", "usual", "otherwise", "safe",
)  # fmt: skip
"""Columns of the context and form of a span.

``opens``, ``closes``: it begins or ends its clause, function words aside; ``grammar_before``, ``grammar_behind``: such
words precede or follow it; ``content``, ``grammar``, ``characters``: numbers of content words, function words and
characters; ``upper``, ``capital``, ``digit``: how it is written; ``joined``: it has a joining word (*and*); ``listed``:
the bundle has it as it is written; ``explained``: the note defines it; ``shorthand``: it is read as an abbreviation or
elliptical word; ``laconic``: as an elliptical word; ``of_organ``, ``near``: its body site is under discussion, in the
same sentence; ``usual``: share of its uses with this long form; ``otherwise``: share of its uses with a long form, if
it is read as written; ``safe``: it is unambiguous without context.
"""
WORDING = (
    *(f"kind_{kind}" for kind in KINDS), "unknown", "unknown_share", "known_share", "whole",
    *(f"{end}_{kind}" for kind in ENDS for end in ("first", "last")), "first_unknown", "last_unknown", "family_word",
    "window", "finding_share", "finds_share", "finding_body", "change_body",
)  # fmt: skip
"""Columns of the words of a span: how many are of each kind, the kinds of its first and last word, whether the lexicon
has it as a whole. They are 0 unless it is read as written and is not a name: any name of the bundle is a mention.
"""
UNRANKED = (*CONTEXT, "family", "expanded", "read_words", "abbreviation", *WORDING)
"""Columns that are known before ranking."""
_LANGUAGE = tuple(f"language_{tag}" for tag in LANGUAGES)
SPAN = (*UNRANKED, *_LANGUAGE)
"""The same with the language of the text."""
CONTENT, UPPER, LISTED, SHORTHAND, LACONIC_WORD, USUAL, SAFE = map(
    CONTEXT.index, ("content", "upper", "listed", "shorthand", "laconic", "usual", "safe")
)
_OF_THINGS = tuple(map(UNRANKED.index, ("kind_substance", "kind_organism", "kind_procedure")))
_OF_FINDINGS = tuple(map(UNRANKED.index, ("kind_finding", "kind_change", "kind_disease", "unknown")))
RIVALS = (
    "wider", "narrower", "crossing", "reading", "wider_odds", "narrower_odds", "crossing_odds", "reading_odds",
)  # fmt: skip
"""Highest probability alone of the spans that contain, lie in or cross a span, and of other readings of its words as
another concept; their log odds minus its own."""
ALONE = ("score", "log_odds", "rank", "margin", "words", "adds", "name", *FEATURES[2:], *CONTEXT, *WORDING, *_LANGUAGE)
"""Columns that do not depend on overlapping spans: those of the best concept, and of the words.

``name`` does not distinguish exact and inflected names: the texts of the fit name few findings in the plural.
"""
COLUMNS = (*ALONE, *RIVALS)
_WORD = ("content", "known", "unknown", "lower", "upper", "digit", "capital", *KINDS)
_AT = {name: at for at, name in enumerate(_WORD)}
_SAME, _SPELLING = FEATURES.index("same_words"), FEATURES.index("spelling")
_ALIKE = 0.4  # similarity of a name of nine letters to itself with an error
_CHUNK = 1 << 13  # spans at a time: a long note has many, and few remain

Columns = NDArray[np.float64]
_Words = NDArray[np.int64]


def _word_columns(entry: WordEntry) -> tuple[bool, ...]:
    written, content = entry.written, not entry.word.function
    return (
        content, content and bool(entry.word.meanings), content and not entry.kinds, written.upper() != written,
        written.lower() != written, any(map(str.isdigit, written)), written[:1].isupper(),
        *(content and kind in entry.kinds for kind in KINDS),
    )  # fmt: skip


def _candidate_columns(text: ScannedText, span: CandidateSpan) -> tuple[float, ...]:
    usual, cue = (None, None) if span.short is None else span.short[:2]
    start, end = text.span(span.place)
    return (
        end - start, span.listed, span.explained, usual is not None, usual is not None and usual.kind == LACONIC,
        cue is not None, cue is not None and cue.near, usual.weight if usual else 0.0, span.otherwise,
        usual is not None and usual.safe, span.family, span.expanded is not None,
        min((span.expanded or "").count(" ") + 1, 6), bool(text.meanings(span.place)),
    )  # fmt: skip


class SpanColumns:
    """Columns of the spans of n texts in one language that were scanned together; ``joins`` are joining words."""

    def __init__(
        self, texts: Sequence[ScannedText], spans: Sequence[Sequence[CandidateSpan]], joins: Set[str], language: str
    ) -> None:
        starts = np.cumsum([0, *(len(text.words) for text in texts)])
        numbers, table = np.concatenate([text.numbers for text in texts]), texts[0].table
        words = table.column("columns", _word_columns, bool).reshape(-1, len(_WORD))[numbers]
        joining = table.column("joins", lambda entry: entry.written.casefold() in joins, bool)[numbers]
        clauses = np.array([word.clause for text in texts for word in text.words], np.int64)
        clauses += np.repeat(starts[:-1], np.diff(starts))  # numbers are unique across texts
        self._words, self._clauses = np.vstack([words, np.zeros((1, len(_WORD)), bool)]), np.append(clauses, -1)
        self._sums = _cumulate(words)
        self._joins = _cumulate(joining)
        self._content = np.concatenate([[-1], np.flatnonzero(words[:, 0]), [len(words)]])
        self._spans = [(text, span) for text, own in zip(texts, spans, strict=True) for span in own]
        places = np.array([span.place for _, span in self._spans], np.int64).reshape(-1, 2)
        self._first, self._stop = (places + np.repeat(starts[:-1], list(map(len, spans)))[:, None]).T
        self._language = [float(tag == base(language)) for tag in LANGUAGES]

    def rows(self) -> Iterator[tuple[list[CandidateSpan], Columns]]:
        """Yield the spans, a chunk at a time, with their columns :data:`SPAN` ``(m, c)``."""
        for start in range(0, len(self._spans), _CHUNK):
            at = slice(start, start + _CHUNK)
            yield [span for _, span in self._spans[at]], self._rows(at)

    def _beside(self, words: _Words, others: _Words) -> _Words:
        """Number of words between each word and its counterpart, -1 across clauses or without a counterpart."""
        return np.where(self._clauses[words] == self._clauses[others], np.abs(words - others) - 1, -1)

    def _rows(self, at: slice) -> Columns:
        first, stop = self._first[at], self._stop[at]
        sums = self._sums[stop] - self._sums[first]
        content, known, unknown, lower, upper, digit = sums.T[:6]
        kinds = sums[:, _AT[KINDS[0]] :]
        finding, change, body, function = kinds.T[:4]
        before, behind = self._sums[first, 0], self._sums[stop, 0]  # content words
        opens = self._beside(first, self._content[before])
        closes = self._beside(stop - 1, self._content[behind + 1])
        none = len(self._words) - 1
        # first and last content word
        ends = [self._words[np.where(content > 0, self._content[word], none)] for word in (before + 1, behind)]
        own = np.array([_candidate_columns(*pair) for pair in self._spans[at]], np.float64)
        characters, family, expanded, read, whole = own.T[[0, 10, 11, 12, 13]]
        shorthand, laconic = own[:, 3], own[:, 4]
        plain, count, capped = family == 0, np.maximum(content, 1), np.minimum(kinds, 2)
        return np.column_stack(
            [
                opens == -1, closes == -1, opens > 0, closes > 0, content, stop - first - content, characters,
                (lower == 0) & (upper > 0), self._words[first, _AT["capital"]], digit > 0,
                (self._joins[stop] > self._joins[first]) & (stop - first > 1), own[:, 1:10],
                family, expanded, read, (shorthand > 0) & (laconic == 0), capped, unknown, unknown / count,
                known / count, whole, *(end[:, _AT[kind]] for kind in ENDS for end in ends),
                *(end[:, _AT["unknown"]] | ~end[:, 0] for end in ends),
                ~plain & (count == 1), plain & (expanded == 0),
                capped[:, 0] / count, (capped[:, 0] + capped[:, 1]) / count, (finding > 0) & (body > 0) & plain,
                (change > 0) & (np.minimum(body, 2) + np.minimum(function, 2) > 0) & plain,
                np.tile(self._language, (len(own), 1)),
            ]
        )  # fmt: skip


def _cumulate(columns: NDArray[np.bool_]) -> _Words:
    return np.concatenate([np.zeros((1, *columns.shape[1:]), np.int64), np.cumsum(columns, axis=0, dtype=np.int64)])


class ScoredSpan(NamedTuple):
    """A candidate with its best concept."""

    candidate: CandidateSpan
    best: BestConcept

    @property
    def is_name(self) -> bool:
        """Whether it equals a name of the concept, exactly or in another inflection."""
        return self.best.ranked.route <= INFLECTED

    @property
    def is_misspelt_name(self) -> bool:
        """Whether it has the words of a name of the concept, one of them with a typing error."""
        features = self.best.ranked.features
        if not self.candidate.misspelt or self.candidate.expanded is not None or features is None:
            return False
        return self.best.ranked.route == WORDS and features[_SAME] > 0 and features[_SPELLING] > _ALIKE

    @property
    def is_thing(self) -> bool:
        """Whether it has, as written, words of a drug, an organism or a procedure, and none of a finding."""
        context, as_written = self.candidate.context, self.candidate.expanded is None
        return as_written and any(context[at] for at in _OF_THINGS) and not any(context[at] for at in _OF_FINDINGS)

    @property
    def is_short(self) -> bool:
        context = self.candidate.context
        return bool(context[SHORTHAND]) and not context[LACONIC_WORD]

    def contains(self, other: ScoredSpan) -> bool:
        (first, stop), (start, end) = self.candidate.place, other.candidate.place
        return first <= start and end <= stop


def feature_rows(spans: Iterable[ScoredSpan]) -> Iterator[tuple[float, ...]]:
    """Compute the columns :data:`ALONE` of spans."""
    for span in spans:
        ranked, score, own = span.best.ranked, span.best.score, span.candidate.context
        odds = min(max(score, _MIN_SCORE), 1 - _MIN_SCORE)
        as_written = span.candidate.expanded is None and not span.is_name
        wording = own[len(UNRANKED) - len(WORDING) : len(UNRANKED)] if as_written else (0.0,) * len(WORDING)
        yield (
            score, log(odds / (1 - odds)), ranked.rank, ranked.margin, ranked.route == WORDS, ranked.adds,
            span.is_name, *(ranked.features or ())[2:], *own[: len(CONTEXT)], *wording, *own[len(UNRANKED) :],
        )  # fmt: skip


def rival_pairs(spans: Sequence[ScoredSpan]) -> Iterator[tuple[int, int, int]]:
    """Return pairs of overlapping spans, each with its kind of overlap as an index into :data:`RIVALS`."""
    for i, j in overlapping(spans):
        if spans[i].candidate.place == spans[j].candidate.place:
            if spans[i].best.ranked.concept != spans[j].best.ranked.concept:
                yield from ((i, j, RIVALS.index("reading")), (j, i, RIVALS.index("reading")))
            continue
        for span, rival in ((i, j), (j, i)):
            kind = 0 if spans[rival].contains(spans[span]) else 1 if spans[span].contains(spans[rival]) else 2
            yield span, rival, kind


def rival_rows(alone: Sequence[float], pairs: Iterable[tuple[int, int, int]]) -> Iterator[tuple[float, ...]]:
    """Yield the columns :data:`RIVALS` of spans, given their probabilities ``alone`` and their :func:`rival_pairs`."""
    highest = [[0.0] * (len(RIVALS) // 2) for _ in alone]
    for span, rival, kind in pairs:
        highest[span][kind] = max(highest[span][kind], alone[rival])
    for own, rivals in zip(alone, highest, strict=True):
        yield (*rivals, *(log_odds(rival) - log_odds(own) if rival else _NO_RIVAL for rival in rivals))


def log_odds(probability: float) -> float:
    """Return the log odds of a clipped probability."""
    clipped = min(max(probability, _MIN_PROBABILITY), 1 - _MIN_PROBABILITY)
    return log(clipped / (1 - clipped))


def overlapping(spans: Sequence[ScoredSpan]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of overlapping spans; spans must be in the order of their places."""
    open_: list[int] = []
    for j, span in enumerate(spans):
        start = span.candidate.place[0]
        open_ = [i for i in open_ if spans[i].candidate.place[1] > start]
        yield from ((i, j) for i in open_)
        open_.append(j)
