"""The words of scanned texts as columns, and what is known of spans of them without ranking: a row for each span."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.language.lexicon.shorthand import LACONIC
from medlink.language.scan import ScannedText, WordEntry
from medlink.language.tags import base
from medlink.reading.candidates import CandidateSpan
from medlink.reading.features import ENDS, KINDS, LACONIC_WORD, LANGUAGES, SHORTHAND

_LETTERS = ("content", "known", "unknown", "lower", "upper", "digit")
_WORD = (*_LETTERS, "capital", *KINDS)
_AT = {name: at for at, name in enumerate(_WORD)}
_KINDS = slice(_AT[KINDS[0]], None)
_NONE = -1
_FLAGS = 9  # columns of what is known of a candidate beside its words

Columns = NDArray[np.float64]


def _row(entry: WordEntry) -> tuple[bool, ...]:
    """The columns of a word; those of kinds count in words of content alone."""
    written, content = entry.written, not entry.word.function
    low, up = written.lower() != written, written.upper() != written
    return (
        content, content and bool(entry.word.meanings), content and not entry.kinds, up, low,
        any(map(str.isdigit, written)), written[:1].isupper(), *(content and kind in entry.kinds for kind in KINDS),
    )  # fmt: skip


@dataclass(frozen=True)
class SpanColumns:
    """Spans of texts, and the words that they are made of.

    Attributes:
        words: ``(words, columns)`` of each word of all texts.
        sums: ``(words + 1, columns)`` sums of these before each word.
        first: ``(n,)`` the first word of each span.
        stop: ``(n,)`` the word behind its last.
        before: ``(words,)`` words of the grammar between a word and the word of content before it, -1 for none.
        behind: ``(words,)`` the same behind it.
        previous: ``(words,)`` the last word of content up to a word, -1 for none.
        following: ``(words,)`` the first word of content from a word on.
        spans: the spans.
        texts: the text of each.
        joins: ``(words,)`` whether a word joins things.
    """

    words: NDArray[np.bool_]
    sums: NDArray[np.int64]
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    before: NDArray[np.int64]
    behind: NDArray[np.int64]
    previous: NDArray[np.int64]
    following: NDArray[np.int64]
    spans: list[CandidateSpan]
    texts: list[ScannedText]
    joins: NDArray[np.bool_]

    @classmethod
    def of(
        cls, texts: Sequence[ScannedText], spans: Sequence[Sequence[CandidateSpan]], joins: frozenset[str]
    ) -> SpanColumns:
        """The spans of n texts that were scanned together; ``joins`` are the words that join things."""
        starts = np.cumsum([0, *(len(text.words) for text in texts)])
        clauses = np.fromiter((word.clause for text in texts for word in text.words), np.int64, int(starts[-1]))
        clauses += np.repeat(starts[:-1], np.diff(starts))  # no two texts share one
        table = texts[0].table.column("columns", _row, bool).reshape(-1, len(_WORD))
        numbers = np.concatenate([np.zeros(0, np.int64), *(text.numbers for text in texts)])
        words = table[numbers]
        sums = np.zeros((len(words) + 1, len(_WORD)), np.int64)
        np.cumsum(words, axis=0, out=sums[1:])
        content, at = (words[:, 0] if len(words) else np.zeros(0, bool), np.arange(len(words)))
        previous = np.maximum.accumulate(np.where(content, at, _NONE)) if len(words) else at
        following = np.minimum.accumulate(np.where(content, at, len(words))[::-1])[::-1] if len(words) else at
        places = np.array([one.place for of in spans for one in of], np.int64).reshape(-1, 2)
        first, stop = (places + np.repeat(starts[:-1], list(map(len, spans)))[:, None]).T
        return cls(
            words,
            sums,
            first,
            stop,
            _beside(np.concatenate([[_NONE], previous[:-1]]) if len(words) else at, clauses, at),
            _beside(np.concatenate([following[1:], [len(words)]]) if len(words) else at, clauses, at),
            previous,
            following,
            [one for of in spans for one in of],
            [text for text, of in zip(texts, spans, strict=True) for _ in of],
            texts[0].table.column("joins", lambda entry: entry.written.casefold() in joins, bool)[numbers],
        )

    def parts(self, size: int) -> Iterator[SpanColumns]:
        """The same, so many spans at a time."""
        for start in range(0, len(self.spans), size):
            at = slice(start, start + size)
            yield replace(self, first=self.first[at], stop=self.stop[at], spans=self.spans[at], texts=self.texts[at])

    def count(self, name: str) -> NDArray[np.int64]:
        """How many words of each span have a column."""
        column = self.sums[:, _AT[name]]
        found: NDArray[np.int64] = column[self.stop] - column[self.first]
        return found

    def count_of(self, column: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many words of each span have a column ``(words,)``."""
        sums = np.concatenate([[0], np.cumsum(column)])
        return np.asarray(sums[self.stop] - sums[self.first])

    @property
    def kinds(self) -> NDArray[np.int64]:
        """``(n, kinds)`` how many words of content of each span have each kind."""
        return np.asarray(self.sums[self.stop, _KINDS] - self.sums[self.first, _KINDS])

    def ends(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """``(n, columns)`` the columns of the first and of the last word of content of each span."""
        none = np.zeros((1, len(_WORD)), bool)
        words = np.concatenate([self.words, none])
        first = np.where(self.following[self.first] < self.stop, self.following[self.first], len(self.words))
        last = np.where(self.previous[self.stop - 1] >= self.first, self.previous[self.stop - 1], len(self.words))
        return words[first], words[last]


def _beside(other: NDArray[np.int64], clauses: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Words between each word and another one, -1 where that is none or of another clause."""
    if not len(at):
        return at
    held = np.clip(other, 0, len(at) - 1)
    same = (other >= 0) & (other < len(at)) & (clauses[held] == clauses)
    return np.where(same, np.abs(at - other) - 1, _NONE)


def span_columns(columns: SpanColumns, language: str) -> Columns:
    """The columns :data:`medlink.reading.features.SPAN` ``(n, c)`` of spans of texts in a language."""
    own = _own_columns(columns)
    tags = np.array([tag == base(language) for tag in LANGUAGES], np.float64)
    return np.hstack([own, _word_columns(columns, own), np.tile(tags, (len(own), 1))])


def _own_columns(columns: SpanColumns) -> Columns:
    """The columns up to "safe"."""
    spans, content = columns.spans, columns.count("content")
    before, behind = columns.before[columns.first], columns.behind[columns.stop - 1]
    lower, upper = columns.count("lower"), columns.count("upper")
    capital = columns.words[columns.first, _AT["capital"]]
    pairs = zip(columns.texts, spans, strict=True)
    characters = [text.words[one.place[1] - 1].end - text.words[one.place[0]].start for text, one in pairs]
    joined = (columns.count_of(columns.joins) > 0) & (columns.stop - columns.first > 1)
    flags = np.array([_flags(one) for one in spans], np.float64).reshape(len(spans), _FLAGS)
    return np.column_stack(
        [
            before == _NONE, behind == _NONE, before > 0, behind > 0, content, columns.stop - columns.first - content,
            characters, (lower == 0) & (upper > 0), capital, columns.count("digit") > 0, joined, flags,
        ]
    )  # fmt: skip


def _flags(one: CandidateSpan) -> tuple[float, ...]:
    """What is known of a candidate beside its words."""
    usual, cue = (None, None) if one.short is None else one.short
    return (
        one.listed, one.explained, usual is not None, usual is not None and usual.kind == LACONIC,
        cue is not None, cue is not None and cue.near, usual.weight if usual else 0.0, one.otherwise,
        usual is not None and usual.safe,
    )  # fmt: skip


def _word_columns(columns: SpanColumns, own: Columns) -> Columns:
    """The columns from "family" to "change_body"; ``own`` are those before."""
    content = columns.count("content")
    count, kinds = np.maximum(content, 1), columns.kinds
    unknown, known = columns.count("unknown"), columns.count("known")
    finding, change, body, function = kinds[:, :4].T
    first, last = columns.ends()
    pairs = zip(columns.spans, columns.texts, strict=True)
    rows: Any = [
        (
            one.family,
            one.expanded is not None,
            bool(text.meanings(one.place)),
            min((one.expanded or "").count(" ") + 1, 6),
        )
        for one, text in pairs
    ]
    family, expanded, whole, read = np.array(rows, np.float64).reshape(-1, 4).T
    shorthand, laconic = own[:, SHORTHAND], own[:, LACONIC_WORD]
    of_kind = [end[:, _AT[kind]] for kind in ENDS for end in (first, last)]
    none = [end[:, _AT["unknown"]] | ~end[:, _AT["content"]] for end in (first, last)]
    capped = np.minimum(kinds, 2)
    return np.column_stack(
        [
            family, expanded, read, (shorthand > 0) & (laconic == 0), capped, unknown, unknown / count, known / count,
            whole, *of_kind, *none,
            (family > 0) & (count == 1), (family == 0) & (expanded == 0),
            capped[:, 0] / count, (capped[:, 0] + capped[:, 1]) / count, (finding > 0) & (body > 0) & (family == 0),
            (change > 0) & (np.minimum(body, 2) + np.minimum(function, 2) > 0) & (family == 0),
        ]
    )  # fmt: skip
