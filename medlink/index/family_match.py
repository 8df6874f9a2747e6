"""Match names in running text by word families, in any order and with gaps.

A name matches in a clause whose words cover each word of the name (:mod:`medlink.index.word_overlap`); several words
may cover the parts of a compound. A span begins and ends with a covering word and has at most one other word inside.
The index lists each name under its rarest word, and compares it only with the clauses that cover that word. Texts are
matched together, by columns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import RaggedArray, save_array
from medlink.index.word_features import WordFeatures, features_of_word
from medlink.index.word_overlap import NameFeatures
from medlink.language.scan import Place, ScannedText, ScannedWord, WordEntry

_BATCH = 1 << 16  # names indexed at a time
_CLAUSES = 1 << 12  # clauses compared with names at a time
_EXTRA = 1  # words inside a span that cover no word of the name
_WIDEST = 12  # words of the widest span, function words included
_COVERED = 0.999  # share from which on a word is covered

_Word = list[tuple[int, float]]
"""The features of a word of a name that a clause has, with their shares."""


class FeatureColumns(NamedTuple):
    """The features ``(m,)`` of the words and phrases of n texts, sorted by clause; clauses are numbered across texts.

    A feature belongs to the words of its text from ``first`` up to ``stop``; ``owner (clauses,)`` is the number of the
    text of each clause.
    """

    feature: NDArray[np.int64]
    clause: NDArray[np.int64]
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    owner: NDArray[np.int64]


def entry_features(entry: WordEntry, unknown: int) -> tuple[int, ...]:
    """Return the features of a distinct word, computed once; arguments are those of :func:`features_of_word`."""
    features: tuple[int, ...] | None = entry.memo.get("features")
    if features is None:
        listed = () if entry.word.function else features_of_word(entry.word, unknown)
        features = entry.memo["features"] = tuple([feature for feature, _ in listed])
    return features


def feature_columns(texts: Sequence[ScannedText], unknown: int) -> FeatureColumns:
    """Return the feature columns of texts that were scanned together."""
    counts = [text.words[-1].clause + 1 if text.words else 0 for text in texts]
    owner = np.repeat(np.arange(len(texts)), counts)
    if not len(owner):
        none = np.zeros(0, np.int64)
        return FeatureColumns(none, none, none, none, none)
    numbered = list(zip(np.cumsum([0, *counts]).tolist(), texts, strict=False))
    numbers = np.concatenate([text.numbers for text in texts])
    clauses = np.fromiter((before + word.clause for before, text in numbered for word in text.words), np.int64)
    positions = np.concatenate([np.arange(len(text.words)) for text in texts])
    lists = RaggedArray(*texts[0].table.lists("features", lambda entry: entry_features(entry, unknown)))
    word, features = lists.take(numbers)
    phrases = [
        (meaning, before + text.words[place[0]].clause, *place)
        for before, text in numbered
        for place, meanings in text.phrases.items()
        for meaning in meanings
    ]
    of_words = np.stack([features, clauses[word], positions[word], positions[word] + 1])
    columns = np.hstack([of_words, np.array(phrases, np.int64).reshape(-1, 4).T])
    feature, clause, first, stop = columns[:, np.argsort(columns[1], kind="stable")]
    return FeatureColumns(feature, clause, first, stop, owner)


class FamilyMatcher:
    """Index of ``count`` names by the features of their rarest words, memory-mapped from a folder that :meth:`build`
    filled.
    """

    def __init__(self, folder: Path, words: NameFeatures, count: int) -> None:
        self._words, self._count, self._rows = words, count, RaggedArray.open(folder, "anchor")

    @classmethod
    def build(cls, folder: Path, words: NameFeatures, count: int) -> FamilyMatcher:
        """Fill a folder from the word features of ``count`` names."""
        keys = [np.zeros(0, np.int64)]
        for start in range(0, count, _BATCH):
            names = words.of(np.arange(start, min(start + _BATCH, count)))
            order = np.lexsort((-names.weight, names.text))
            is_rarest = np.zeros(len(order), dtype=bool)
            is_rarest[order[np.diff(names.text[order], prepend=-1) != 0]] = True
            is_key = is_rarest[names.word]
            keys.append(names.feature[is_key] * count + names.text[names.word[is_key]] + start)
        features, rows = np.divmod(np.unique(np.concatenate(keys)), max(count, 1))
        save_array(folder, "anchor.ends", np.searchsorted(features, np.arange(words.width + 1)))
        save_array(folder, "anchor.values", rows.astype(np.int32))
        return cls(folder, words, count)

    def match(
        self, texts: Sequence[ScannedText], columns: FeatureColumns, allowed: NDArray[np.bool_] | None = None
    ) -> list[set[Place]]:
        """Find for each of n texts the spans that match an ``allowed (rows,)`` name."""
        spans: list[set[Place]] = [set() for _ in texts]
        owner, before, places = columns.owner.tolist(), -1, dict[int, list[Place]]()
        ends = np.searchsorted(columns.clause, np.arange(len(owner) + 1)).tolist()
        rows = list(zip(columns.feature.tolist(), columns.first.tolist(), columns.stop.tolist(), strict=True))
        for start in range(0, len(owner), _CLAUSES):
            batch = slice(ends[start], ends[min(start + _CLAUSES, len(owner))])
            for clause, name in self._covered(columns.clause[batch], columns.feature[batch], allowed):
                if clause != before:
                    before, places = clause, defaultdict(list)
                    for feature, first, stop in sorted(rows[ends[clause] : ends[clause + 1]]):
                        places[feature].append((first, stop))
                spans[owner[clause]].update(_find_spans(name, places, texts[owner[clause]].words))
        return spans

    def completed(
        self, words: Sequence[NDArray[np.int64]], allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the ``allowed (rows,)`` names that a span with shortened words may mean, and their numbers of words.

        ``words`` holds, for each word of the span, all its possible features. A name must have a word for each word of
        the span, and no other words.
        """
        possible = np.zeros(self._words.width, dtype=bool)
        possible[np.concatenate([np.zeros(0, np.int64), *words])] = True
        rows = np.flatnonzero(self._rows_covered(np.flatnonzero(possible), possible, allowed))
        names = self._words.of(rows)
        owner = names.text[names.word]
        fits = np.ones(len(rows), dtype=bool)
        for features in words:
            fits &= np.bincount(owner, np.isin(names.feature, features), len(rows)) > 0
        return rows[fits], np.bincount(names.text, minlength=len(rows))[fits]

    def _covered(
        self, clauses: NDArray[np.int64], features: NDArray[np.int64], allowed: NDArray[np.bool_] | None
    ) -> Iterator[tuple[int, list[_Word]]]:
        """Pairs of a clause and a name that it covers; names with equal words count once."""
        width = self._words.width
        has = np.unique(clauses * width + features)
        clause, feature = np.divmod(has, width)
        in_batch = np.zeros(width, dtype=bool)
        in_batch[feature] = True
        covered_rows = self._rows_covered(np.flatnonzero(in_batch), in_batch, allowed)
        pair, row = self._rows.take(feature)
        known = covered_rows[row]
        clause, row = np.divmod(np.unique(clause[pair[known]] * self._count + row[known]), max(self._count, 1))
        names = self._words.of(row)
        owner = names.text[names.word]
        keys = clause[owner] * width + names.feature
        at = np.minimum(np.searchsorted(has, keys), max(len(has) - 1, 0))
        covers = has[at] == keys if len(has) else np.zeros(len(keys), dtype=bool)
        used = self._whole(names, covers, len(row))[owner] & covers
        rows = clause[owner[used]], owner[used], names.word[used], names.feature[used], names.share[used]
        seen: set[tuple[int, tuple[tuple[int, ...], ...]]] = set()
        for at_clause, words in _group(*rows):
            key = at_clause, tuple([tuple([feature for feature, _ in word]) for word in words])
            if key not in seen:
                seen.add(key)
                yield at_clause, words

    def _rows_covered(
        self, features: NDArray[np.int64], in_batch: NDArray[np.bool_], allowed: NDArray[np.bool_] | None
    ) -> NDArray[np.bool_]:
        """Mark the names ``(rows,)`` that all clauses together cover; few are left to compare clause by clause."""
        rows = np.unique(self._rows.take(features)[1]).astype(np.int64)
        rows = rows if allowed is None else rows[allowed[rows]]
        names = self._words.of(rows)
        covered = np.zeros(self._count, dtype=bool)
        covered[rows[self._whole(names, in_batch[names.feature], len(rows))]] = True
        return covered

    @staticmethod
    def _whole(names: WordFeatures, covers: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
        """Mark the names ``(count,)`` that the features marked in ``covers (features,)`` cover completely."""
        covered = np.bincount(names.word, names.share * covers, len(names.text)) >= _COVERED
        whole: NDArray[np.bool_] = np.bincount(names.text, ~covered, count) == 0
        return whole


def _group(*columns: NDArray[np.generic]) -> Iterator[tuple[int, list[_Word]]]:
    """The words of each pair of clause and name, from columns: clause, pair, word, feature, share."""
    words: list[_Word] = []
    before = last_pair = last_word = -1
    for clause, pair, word, feature, share in zip(*(column.tolist() for column in columns), strict=True):
        if pair != last_pair and words:
            yield before, words
            words = []
        if word != last_word:
            words.append([])
        words[-1].append((feature, share))
        before, last_pair, last_word = clause, pair, word
    if words:
        yield before, words


def _find_spans(name: Sequence[_Word], places: dict[int, list[Place]], words: Sequence[ScannedWord]) -> Iterator[Place]:
    """Spans of a clause that cover a name: from each place of its rarest word to the nearest places of its other
    words."""
    pivots, *covered = sorted((_word_places(word, places) for word in name), key=len)
    for pivot in pivots:
        if not (chosen := _with_nearest(pivot, covered)):
            continue
        first, stop = min(place[0] for place in chosen), max(place[1] for place in chosen)
        own = {at for place in chosen for at in range(*place)}
        extra = sum(at not in own and not words[at].function for at in range(first, stop))
        if stop - first <= _WIDEST and extra <= _EXTRA:
            yield first, stop


def _word_places(word: _Word, places: dict[int, list[Place]]) -> list[Place]:
    """Places that cover a word of a name: words that cover it whole, else near words for its parts."""
    whole = [place for feature, share in word if share >= _COVERED for place in places[feature]]
    if whole:
        return sorted(set(whole))
    (first, _), *others = word
    return [
        (min(part[0] for part in parts), max(part[1] for part in parts))
        for place in places[first]
        if (parts := _with_nearest(place, [places[feature] for feature, _ in others]))
    ]


def _with_nearest(place: Place, lists: Iterable[Sequence[Place]]) -> list[Place]:
    """The place, and the nearest of each list of sorted places (the first of two); nothing if a list is empty."""
    chosen = [place]
    for places in lists:
        at = bisect_left(places, place)
        near = places[max(at - 1, 0) : at + 1]
        if not near:
            return []
        chosen.append(min(near, key=lambda other: (abs(other[0] - place[0]), other)))
    return chosen
