"""Where a running text says what names say: their word families, in any order, with other words between.

A text is heard clause by clause. A name is said where each of its slots (:mod:`medlink.index.said`) is said by a word
of one clause, or by two that are parts of what a compound says. The words of no name stand at the ends of such a place,
and few between.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Groups, save_array
from medlink.index.said import SaidNames
from medlink.index.slots import features_of
from medlink.language.lexicon.forms import SHORT, WORD
from medlink.language.lexicon.reading import FamilyReader, Word
from medlink.language.text import exact_words

# What ends a clause between two words: stops, brackets, bars, an empty line, a new item of a list, a dash.
_BREAK = re.compile(r'[.;:!?()\[\]{},|•*"“”„<>=\t]|\n\s*\n|\n\s*[-•]|\s[-–]\s')
_BLOCK = 400  # words that are looked through together, at least: names are looked up once for all of them
_BUILT = 1 << 16  # names that are looked at together when an index is built
_EXTRA = 1  # words between those of a name that are not said by it
_WIDEST = 12  # words of one place, those of the grammar included
_SHORT = 3  # letters of a word whose kind is that of the words of its language, not of abbreviations
_SAID = 0.999  # share of a slot from which on it is said

FINDS = frozenset(("finding", "change"))
"""Kinds of the words of findings."""
Place = tuple[int, int]
"""The first word and the word behind the last."""
_Slot = list[tuple[int, float]]  # features with their shares


class HeardWord(NamedTuple):
    """A word of a running text.

    Attributes:
        start: its first character.
        end: the character behind its last.
        clause: number of its clause, counting up.
        function: whether it is an article, preposition or the like.
        kinds: of all its meanings and of its parts; none where it is not known.
        features: with which it speaks of slots; those of phrases are kept with the text.
        meanings: that it has as a whole, not as the parts of a compound.
    """

    start: int
    end: int
    clause: int
    function: bool
    kinds: frozenset[str]
    features: tuple[int, ...]
    meanings: tuple[int, ...] = ()

    @property
    def finds(self) -> bool:
        """Whether it may name a finding, or make one of what it is said of."""
        return not FINDS.isdisjoint(self.kinds)


@dataclass(frozen=True)
class Heard:
    """A running text, word by word, with the phrases in it and the features of each."""

    words: list[HeardWord]
    phrases: list[tuple[Place, tuple[int, ...]]]

    @cached_property
    def starts(self) -> list[int]:
        """The first character of each word."""
        return [word.start for word in self.words]

    @cached_property
    def ends(self) -> list[int]:
        """The character behind the last of each word."""
        return [word.end for word in self.words]

    def place(self, start: int, end: int) -> Place:
        """The words of a stretch of characters."""
        first = bisect_right(self.ends, start)
        return first, max(bisect_left(self.starts, end), first)

    def meanings(self, place: Place) -> tuple[int, ...]:
        """What some words mean as a whole: a word by itself, or a phrase."""
        return self.words[place[0]].meanings if place[1] - place[0] == 1 else self._phrases.get(place, ())

    @cached_property
    def _phrases(self) -> dict[Place, tuple[int, ...]]:
        return dict(self.phrases)

    def blocks(self) -> Iterator[dict[int, list[Place]]]:
        """For each run of whole clauses the places that have a feature, in order, by each feature."""
        phrase, first = 0, 0
        while first < len(self.words):
            stop = min(first + _BLOCK, len(self.words))
            while stop < len(self.words) and self.words[stop].clause == self.words[stop - 1].clause:
                stop += 1
            places = defaultdict[int, list[Place]](list)
            for at in range(first, stop):
                for feature in self.words[at].features:
                    places[feature].append((at, at + 1))
            while phrase < len(self.phrases) and self.phrases[phrase][0][0] < stop:
                place, meanings = self.phrases[phrase]
                for meaning in meanings:
                    places[meaning].append(place)
                phrase += 1
            for found in places.values():
                found.sort()
            yield places
            first = stop


def hear(text: str, language: str, reader: FamilyReader) -> Heard:
    """Read a running text; the reader remembers its words."""
    unknown, kinds = len(reader.forms.names), reader.forms.kinds
    tokens = exact_words(text, language)
    words: list[HeardWord] = []
    phrases: list[tuple[Place, tuple[int, ...]]] = []
    known: dict[str, tuple[Word, frozenset[str], tuple[int, ...]]] = {}
    start = clause = 0
    while start < len(tokens):
        stop = start + 1
        while stop < len(tokens) and not _BREAK.search(text[tokens[stop - 1].end : tokens[stop].start]):
            stop += 1
        said = reader.read_words([token.text for token in tokens[start:stop]], language, senses=False)
        for token, word in zip(tokens[start:stop], said.words, strict=True):
            of_word = known.get(token.text)
            # in a clause of another language it is another word
            if of_word is None or of_word[0] is not word:
                meant = {*word.meanings, *(meaning for part in word.parts for meaning in part)}
                features = () if word.function else tuple([feature for feature, _ in features_of(word, unknown)])
                if len(token.text) <= _SHORT:
                    # "ms" is not MS
                    plain = reader.forms.find(WORD, language.partition("-")[0], token.text)
                    meant = {form.meaning for form in plain if not form.marks & SHORT}
                of_word = known[token.text] = word, frozenset([kinds[meaning] for meaning in meant]), features
            words.append(HeardWord(token.start, token.end, clause, word.function, *of_word[1:], word.meanings))
        phrases += [((start + first, start + end), meanings) for first, end, meanings in said.phrases]
        start, clause = stop, clause + 1
    return Heard(words, phrases)


class Anchors:
    """Which names a feature may be of the heaviest slot of, memory-mapped: who does not say it does not say the name.

    Args:
        folder: folder that :meth:`build` filled.
        said: what the names say.
    """

    def __init__(self, folder: Path, said: SaidNames) -> None:
        self._said, self._rows = said, Groups.open(folder, "anchor")

    @classmethod
    def build(cls, folder: Path, said: SaidNames, count: int) -> Anchors:
        """Fill a folder from what so many names say."""
        found = [np.zeros(0, np.int64)]
        for start in range(0, count, _BUILT):
            slots = said.of(np.arange(start, min(start + _BUILT, count)))
            order = np.lexsort((-slots.weight, slots.owner))
            heaviest = np.zeros(len(order), dtype=bool)
            heaviest[order[np.diff(slots.owner[order], prepend=-1) != 0]] = True
            held = heaviest[slots.slot]
            found.append(slots.feature[held] * count + slots.owner[slots.slot[held]] + start)
        features, rows = np.divmod(np.unique(np.concatenate(found)), max(count, 1))
        save_array(folder, "anchor.ends", np.searchsorted(features, np.arange(said.width + 1)))
        save_array(folder, "anchor.values", rows.astype(np.int32))
        return cls(folder, said)

    def places_of_names(self, heard: Heard, allowed: NDArray[np.bool_] | None = None) -> set[Place]:
        """Every place of a text that says a name; of the names that are ``allowed (rows,)``."""
        found: set[Place] = set()
        for places in heard.blocks():
            features = np.array(sorted(places), dtype=np.int64)
            rows = np.unique(self._rows.many(features)[1]).astype(np.int64)
            rows = rows if allowed is None else rows[allowed[rows]]
            for slots in _sayable(self._said, rows, features):
                found.update(_places(slots, places, heard.words))
        return found


def _sayable(said: SaidNames, rows: NDArray[np.int64], features: NDArray[np.int64]) -> Iterator[list[_Slot]]:
    """The slots of each of some names that could be said, by the features there are; those of equal names once."""
    named = said.of(rows)
    there = np.zeros(said.width, dtype=bool)
    there[features] = True
    there = there[named.feature]
    covered = np.bincount(named.slot, named.share * there, len(named.owner)) >= _SAID
    whole = np.bincount(named.owner, ~covered, len(rows)) == 0
    kept = whole[named.owner[named.slot]] & there
    slots: list[_Slot] = []
    seen: set[tuple[tuple[int, ...], ...]] = set()
    owner = before = -1
    columns = (named.owner[named.slot[kept]], named.slot[kept], named.feature[kept], named.share[kept])
    for name, slot, feature, share in zip(*(column.tolist() for column in columns), strict=True):
        if name != owner and slots:
            yield from _once(slots, seen)
            slots = []
        if slot != before or name != owner:
            slots.append([])
        slots[-1].append((feature, share))
        owner, before = name, slot
    if slots:
        yield from _once(slots, seen)


def _once(slots: list[_Slot], seen: set[tuple[tuple[int, ...], ...]]) -> Iterator[list[_Slot]]:
    key = tuple(tuple(feature for feature, _ in slot) for slot in slots)
    if key not in seen:
        seen.add(key)
        yield slots


def _places(slots: list[_Slot], places: dict[int, list[Place]], words: Sequence[HeardWord]) -> Iterator[Place]:
    """Where all slots of a name are said in one clause, each by the place nearest to the rarest of them."""
    said = [_slot_places(slot, places, words) for slot in slots]
    if not all(said):
        return
    said.sort(key=len)
    for pivot in said[0]:
        chosen = [pivot, *(_nearest(pivot, others, words) for others in said[1:])]
        held = [place for place in chosen if place is not None]
        if len(held) < len(chosen):
            continue
        first, stop = min(place[0] for place in held), max(place[1] for place in held)
        if stop - first > _WIDEST:
            continue
        own = {at for place in held for at in range(*place)}
        if sum(at not in own and not words[at].function for at in range(first, stop)) <= _EXTRA:
            yield first, stop


def _slot_places(slot: _Slot, places: dict[int, list[Place]], words: Sequence[HeardWord]) -> list[Place]:
    """Where a slot is said: by a word that says all of it, or by words that say its parts, side by side."""
    whole = [place for feature, share in slot if share >= _SAID for place in places[feature]]
    if whole:
        return sorted(set(whole))
    (first, _), *others = slot
    found = []
    for place in places[first]:
        near = [place, *(_nearest(place, places[feature], words) for feature, _ in others)]
        held = [one for one in near if one is not None]
        if len(held) == len(near):
            found.append((min(one[0] for one in held), max(one[1] for one in held)))
    return found


def _nearest(place: Place, others: Sequence[Place], words: Sequence[HeardWord]) -> Place | None:
    """Of some places in order the one nearest to a place of the same clause; of two as near the first."""
    at = bisect_left(others, place)
    clause = words[place[0]].clause
    near = [one for one in others[max(at - 1, 0) : at + 1] if words[one[0]].clause == clause]
    return min(near, key=lambda one: (abs(one[0] - place[0]), one), default=None)
