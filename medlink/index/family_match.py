"""Match names in running text by word families, in any order and with gaps.

A name matches in a clause whose words cover each word of the name (:mod:`medlink.index.word_overlap`); several words
may cover the parts of a compound. A span begins and ends with a covering word and has at most one other word inside.
The index lists each name under its rarest word, and compares it only with the clauses that cover that word. Texts are
matched together, by columns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
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

    def of_clauses(self, first: int, stop: int) -> FeatureColumns:
        rows = slice(*np.searchsorted(self.clause, [first, stop]))
        return FeatureColumns(self.feature[rows], self.clause[rows], self.first[rows], self.stop[rows], self.owner)


def entry_features(entry: WordEntry, unknown: int) -> tuple[int, ...]:
    """Return the features of a distinct word, computed once; ``unknown`` is the first feature of words outside the
    lexicon.
    """
    features: tuple[int, ...] | None = entry.memo.get("features")
    if features is None:
        word = entry.word
        features = () if word.function else tuple([feature for feature, _ in features_of_word(word, unknown)])
        entry.memo["features"] = features
    return features


def feature_columns(texts: Sequence[ScannedText], unknown: int) -> FeatureColumns:
    """Return the feature columns of texts that were scanned together."""
    owner = np.concatenate([np.zeros(0, np.int64), *(np.full(_clauses(text), n) for n, text in enumerate(texts))])
    if not len(owner):
        none = np.zeros(0, np.int64)
        return FeatureColumns(none, none, none, none, none)
    before = np.cumsum([0, *map(_clauses, texts)]).tolist()
    numbers = np.concatenate([text.numbers for text in texts])
    clauses = np.fromiter(
        (base + word.clause for base, text in zip(before, texts, strict=False) for word in text.words), np.int64
    )
    positions = np.concatenate([np.arange(len(text.words)) for text in texts])
    lists = RaggedArray(*texts[0].table.lists("features", lambda entry: entry_features(entry, unknown)))
    word, features = lists.take(numbers)
    phrases = [
        (meaning, base + text.words[place[0]].clause, *place)
        for base, text in zip(before, texts, strict=False)
        for place, meanings in text.phrases.items()
        for meaning in meanings
    ]
    more = np.array(phrases, np.int64).reshape(-1, 4).T
    feature, clause = (np.concatenate([features, more[0]]), np.concatenate([clauses[word], more[1]]))
    first, stop = (np.concatenate([positions[word], more[2]]), np.concatenate([positions[word] + 1, more[3]]))
    order = np.argsort(clause, kind="stable")
    return FeatureColumns(feature[order], clause[order], first[order], stop[order], owner)


def _clauses(text: ScannedText) -> int:
    return text.words[-1].clause + 1 if text.words else 0


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
        places, before, at = _FeaturePlaces(columns), -1, dict[int, list[Place]]()
        for start in range(0, len(columns.owner), _CLAUSES):
            for clause, name in self._covered(columns.of_clauses(start, start + _CLAUSES), allowed):
                if clause != before:
                    at, before = places.of(clause), clause
                text = places.owner[clause]
                spans[text].update(_find_spans(name, at, texts[text].words))
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

    def _covered(self, columns: FeatureColumns, allowed: NDArray[np.bool_] | None) -> Iterator[tuple[int, list[_Word]]]:
        """Pairs of a clause and a name that it covers; names with equal words count once."""
        width = self._words.width
        has = np.unique(columns.clause * width + columns.feature)
        clause, feature = np.divmod(has, width)
        in_batch = np.zeros(width, dtype=bool)
        in_batch[feature] = True
        covered_rows = self._rows_covered(np.flatnonzero(in_batch), in_batch, allowed)
        pair, row = self._rows.take(feature)
        known = covered_rows[row]
        clause, row = np.divmod(
            np.unique(clause[pair[known]] * len(covered_rows) + row[known]), max(len(covered_rows), 1)
        )
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


class _FeaturePlaces:
    def __init__(self, columns: FeatureColumns) -> None:
        self.owner: list[int] = columns.owner.tolist()
        self._ends: list[int] = np.searchsorted(columns.clause, np.arange(len(self.owner) + 1)).tolist()
        self._rows = list(zip(columns.feature.tolist(), columns.first.tolist(), columns.stop.tolist(), strict=True))

    def of(self, clause: int) -> dict[int, list[Place]]:
        """The places of each feature of a clause, in order."""
        places = defaultdict[int, list[Place]](list)
        for feature, first, stop in self._rows[self._ends[clause] : self._ends[clause + 1]]:
            places[feature].append((first, stop))
        for of_feature in places.values():
            if len(of_feature) > 1:
                of_feature.sort()
        return places


def _find_spans(name: Sequence[_Word], places: dict[int, list[Place]], words: Sequence[ScannedWord]) -> Iterator[Place]:
    """Spans of a clause that cover a name: from each place of its rarest word to the nearest places of its other
    words."""
    covered = sorted((_word_places(word, places) for word in name), key=len)
    for pivot in covered[0]:
        chosen = [pivot]
        for others in covered[1:]:
            near = _nearest(pivot, others)
            if near is None:
                break
            chosen.append(near)
        first, stop = (min(place[0] for place in chosen), max(place[1] for place in chosen))
        if len(chosen) < len(covered) or stop - first > _WIDEST:
            continue
        own = {at for place in chosen for at in range(*place)}
        if sum(at not in own and not words[at].function for at in range(first, stop)) <= _EXTRA:
            yield first, stop


def _word_places(word: _Word, places: dict[int, list[Place]]) -> list[Place]:
    """Places that cover a word of a name: words that cover it whole, else near words for its parts."""
    whole = [place for feature, share in word if share >= _COVERED for place in places[feature]]
    if whole:
        return sorted(set(whole))
    (first, _), *others = word
    spans = []
    for place in places[first]:
        parts = [place, *(_nearest(place, places[feature]) for feature, _ in others)]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            spans.append((min(part[0] for part in known), max(part[1] for part in known)))
    return spans


def _nearest(place: Place, others: Sequence[Place]) -> Place | None:
    """The nearest of sorted places; the first of two at the same distance."""
    at = bisect_left(others, place)
    near = others[max(at - 1, 0) : at + 1]
    return min(near, key=lambda other: (abs(other[0] - place[0]), other), default=None)
