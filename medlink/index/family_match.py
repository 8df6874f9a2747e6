"""Match names by the word families of running text: in any order, with other words between.

A name is matched in a clause where each of its slots (:mod:`medlink.index.word_overlap`) is covered by a word of the
clause, or by words that are parts of what a compound means. The words of no name stand at the ends of such a span, and
at most one inside. Texts are matched together, by columns: only names whose rarest slot a clause covers are compared
with it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Groups, save_array
from medlink.index.word_overlap import NameWords, features_of
from medlink.language.scan import Place, ScannedText, ScannedWord, WordEntry

_BUILT = 1 << 16  # names that are looked at together when an index is built
_CLAUSES = 1 << 12  # clauses that are compared with names together
_EXTRA = 1  # words inside a span that cover no slot of the name
_WIDEST = 12  # words of one span, those of the grammar included
_COVERED = 0.999  # share of a slot from which on it is covered

_Slot = list[tuple[int, float]]
"""The features of a slot that a clause has, with their shares."""


class FeatureColumns(NamedTuple):
    """The features ``(m,)`` of the words and phrases of n texts, each with its clause, counted over all texts,
    ascending, and the words of its text from ``first`` up to ``stop``; ``owner (clauses,)`` is the text of a clause."""

    feature: NDArray[np.int64]
    clause: NDArray[np.int64]
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    owner: NDArray[np.int64]

    def part(self, first: int, stop: int) -> FeatureColumns:
        """The rows of some clauses."""
        rows = slice(*np.searchsorted(self.clause, [first, stop]))
        return FeatureColumns(self.feature[rows], self.clause[rows], self.first[rows], self.stop[rows], self.owner)


def entry_features(entry: WordEntry, unknown: int) -> tuple[int, ...]:
    """The features of a word, worked out once; ``unknown`` is the first of words that the lexicon lacks."""
    found: tuple[int, ...] | None = entry.memo.get("features")
    if found is None:
        word = entry.word
        found = () if word.function else tuple([feature for feature, _ in features_of(word, unknown)])
        entry.memo["features"] = found
    return found


def feature_columns(texts: Sequence[ScannedText], unknown: int) -> FeatureColumns:
    """The columns of texts that were scanned together."""
    owner = np.concatenate([np.zeros(0, np.int64), *(np.full(_clauses(text), n) for n, text in enumerate(texts))])
    if not len(owner):
        none = np.zeros(0, np.int64)
        return FeatureColumns(none, none, none, none, none)
    before = np.cumsum([0, *map(_clauses, texts)]).tolist()
    numbers = np.concatenate([text.numbers for text in texts])
    clauses = np.fromiter(
        (base + word.clause for base, text in zip(before, texts, strict=False) for word in text.words), np.int64
    )
    places = np.concatenate([np.arange(len(text.words)) for text in texts])
    lists = Groups(*texts[0].table.lists("features", lambda entry: entry_features(entry, unknown)))
    word, features = lists.many(numbers)
    phrases = [
        (meaning, base + text.words[place[0]].clause, *place)
        for base, text in zip(before, texts, strict=False)
        for place, meanings in text.phrases.items()
        for meaning in meanings
    ]
    more = np.array(phrases, np.int64).reshape(-1, 4).T
    feature, clause = (np.concatenate([features, more[0]]), np.concatenate([clauses[word], more[1]]))
    first, stop = (np.concatenate([places[word], more[2]]), np.concatenate([places[word] + 1, more[3]]))
    order = np.argsort(clause, kind="stable")
    return FeatureColumns(feature[order], clause[order], first[order], stop[order], owner)


def _clauses(text: ScannedText) -> int:
    return text.words[-1].clause + 1 if text.words else 0


class FamilyMatcher:
    """So many names under the features of their rarest slots, memory-mapped from a folder that :meth:`build` filled."""

    def __init__(self, folder: Path, words: NameWords, count: int) -> None:
        self._words, self._count, self._rows = words, count, Groups.open(folder, "anchor")

    @classmethod
    def build(cls, folder: Path, words: NameWords, count: int) -> FamilyMatcher:
        """Fill a folder from the slots of so many names."""
        found = [np.zeros(0, np.int64)]
        for start in range(0, count, _BUILT):
            slots = words.of(np.arange(start, min(start + _BUILT, count)))
            order = np.lexsort((-slots.weight, slots.owner))
            heaviest = np.zeros(len(order), dtype=bool)
            heaviest[order[np.diff(slots.owner[order], prepend=-1) != 0]] = True
            held = heaviest[slots.slot]
            found.append(slots.feature[held] * count + slots.owner[slots.slot[held]] + start)
        features, rows = np.divmod(np.unique(np.concatenate(found)), max(count, 1))
        save_array(folder, "anchor.ends", np.searchsorted(features, np.arange(words.width + 1)))
        save_array(folder, "anchor.values", rows.astype(np.int32))
        return cls(folder, words, count)

    def match(
        self, texts: Sequence[ScannedText], columns: FeatureColumns, allowed: NDArray[np.bool_] | None = None
    ) -> list[set[Place]]:
        """The spans of each of n texts that are names by their families; of the names that are ``allowed (rows,)``."""
        found: list[set[Place]] = [set() for _ in texts]
        places, before, at = _Places(columns), -1, dict[int, list[Place]]()
        for start in range(0, len(columns.owner), _CLAUSES):
            for clause, slots in self._coverable(columns.part(start, start + _CLAUSES), allowed):
                if clause != before:
                    at, before = places.of(clause), clause
                number = places.owner[clause]
                found[number].update(_spans(slots, at, texts[number].words))
        return found

    def _coverable(
        self, columns: FeatureColumns, allowed: NDArray[np.bool_] | None
    ) -> Iterator[tuple[int, list[_Slot]]]:
        """Clauses, each with the slots of a name all of which its features cover; equal slots of a clause once."""
        width = self._words.width
        has = np.unique(columns.clause * width + columns.feature)
        clause, feature = np.divmod(has, width)
        there = np.zeros(width, dtype=bool)
        there[feature] = True
        kept = self._rows_covered(np.flatnonzero(there), there, allowed)
        pair, row = self._rows.many(feature)
        known = kept[row]
        clause, row = np.divmod(np.unique(clause[pair[known]] * len(kept) + row[known]), max(len(kept), 1))
        named = self._words.of(row)
        owner = named.owner[named.slot]
        keys = clause[owner] * width + named.feature
        at = np.minimum(np.searchsorted(has, keys), max(len(has) - 1, 0))
        covers = has[at] == keys if len(has) else np.zeros(len(keys), dtype=bool)
        covered = np.bincount(named.slot, named.share * covers, len(named.owner)) >= _COVERED
        whole = np.bincount(named.owner, ~covered, len(row)) == 0
        told = whole[owner] & covers
        yield from _grouped(clause[owner[told]], owner[told], named.slot[told], named.feature[told], named.share[told])

    def _rows_covered(
        self, features: NDArray[np.int64], there: NDArray[np.bool_], allowed: NDArray[np.bool_] | None
    ) -> NDArray[np.bool_]:
        """Which names ``(rows,)`` some features cover, wherever they stand: far fewer are compared clause by clause."""
        rows = np.unique(self._rows.many(features)[1]).astype(np.int64)
        rows = rows if allowed is None else rows[allowed[rows]]
        named = self._words.of(rows)
        covered = np.bincount(named.slot, named.share * there[named.feature], len(named.owner)) >= _COVERED
        kept = np.zeros(self._count, dtype=bool)
        kept[rows[np.bincount(named.owner, ~covered, len(rows)) == 0]] = True
        return kept


def _grouped(*columns: NDArray[np.generic]) -> Iterator[tuple[int, list[_Slot]]]:
    """The slots of each pair of clause and name, from columns: clause, pair, slot, feature, share."""
    seen: set[tuple[int, tuple[tuple[int, ...], ...]]] = set()
    slots: list[_Slot] = []
    at = pair_before = slot_before = -1
    for clause, pair, slot, feature, share in zip(*(column.tolist() for column in columns), strict=True):
        if pair != pair_before and slots:
            yield from _once(at, slots, seen)
            slots = []
        if slot != slot_before:
            slots.append([])
        slots[-1].append((feature, share))
        at, pair_before, slot_before = clause, pair, slot
    if slots:
        yield from _once(at, slots, seen)


def _once(
    clause: int, slots: list[_Slot], seen: set[tuple[int, tuple[tuple[int, ...], ...]]]
) -> Iterator[tuple[int, list[_Slot]]]:
    key = clause, tuple([tuple([feature for feature, _ in slot]) for slot in slots])
    if key not in seen:
        seen.add(key)
        yield clause, slots


class _Places:
    def __init__(self, columns: FeatureColumns) -> None:
        self.owner: list[int] = columns.owner.tolist()
        self._ends: list[int] = np.searchsorted(columns.clause, np.arange(len(self.owner) + 1)).tolist()
        self._rows = list(zip(columns.feature.tolist(), columns.first.tolist(), columns.stop.tolist(), strict=True))

    def of(self, clause: int) -> dict[int, list[Place]]:
        found = defaultdict[int, list[Place]](list)
        for feature, first, stop in self._rows[self._ends[clause] : self._ends[clause + 1]]:
            found[feature].append((first, stop))
        for places in found.values():
            if len(places) > 1:
                places.sort()
        return found


def _spans(slots: list[_Slot], places: dict[int, list[Place]], words: Sequence[ScannedWord]) -> Iterator[Place]:
    """Where a clause covers all slots of a name, each by the place nearest to the rarest of them."""
    covered = sorted((_slot_places(slot, places) for slot in slots), key=len)
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


def _slot_places(slot: _Slot, places: dict[int, list[Place]]) -> list[Place]:
    """Where a slot is covered: by a word that covers all of it, or by words that cover its parts, side by side."""
    whole = [place for feature, share in slot if share >= _COVERED for place in places[feature]]
    if whole:
        return sorted(set(whole))
    (first, _), *others = slot
    found = []
    for place in places[first]:
        near = [place, *(_nearest(place, places[feature]) for feature, _ in others)]
        held = [one for one in near if one is not None]
        if len(held) == len(near):
            found.append((min(one[0] for one in held), max(one[1] for one in held)))
    return found


def _nearest(place: Place, others: Sequence[Place]) -> Place | None:
    """Of some places in order the nearest to another; of two as near the first."""
    at = bisect_left(others, place)
    near = others[max(at - 1, 0) : at + 1]
    return min(near, key=lambda one: (abs(one[0] - place[0]), one), default=None)
