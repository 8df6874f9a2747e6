"""What is known of candidate spans without ranking, by the words of their texts: a row of columns for each span."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from medlink.language.lexicon.shorthand import LACONIC
from medlink.language.scan import ScannedText, WordEntry
from medlink.language.tags import base
from medlink.reading.candidates import CandidateSpan
from medlink.reading.features import ENDS, KINDS, LANGUAGES

_WORD = ("content", "known", "unknown", "lower", "upper", "digit", "capital", *KINDS)
_AT = {name: at for at, name in enumerate(_WORD)}
_AT_A_TIME = 1 << 13  # spans whose columns are worked out together: a long note has many more than are kept
_SAID = 14  # columns of what is known of a candidate beside its words

Columns = NDArray[np.float64]
_Words = NDArray[np.int64]


def _word(entry: WordEntry) -> tuple[bool, ...]:
    """The columns of a word; those of kinds count in words of content alone."""
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
    """Sums of the words before each, and of all."""
    return np.concatenate([np.zeros((1, *columns.shape[1:]), np.int64), np.cumsum(columns, axis=0, dtype=np.int64)])
