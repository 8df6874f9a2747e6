"""What texts say word by word, and how much of a mention and of a name the other one says.

A text is a row of *slots*, one for each word that is no article or the like. A slot has a weight, which is high for a
rare word, and *features*: the meanings of its word, of the parts of a compound, of a phrase that it belongs to, or the
word itself where the lexicon lacks it. A feature has a share: what of the slot is covered where the other side has it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Array, ArrayWriter, Groups, open_array, save_array
from medlink.language.lexicon.batch_analysis import BulkReader, Read, WordValues
from medlink.language.lexicon.forms import Forms
from medlink.language.lexicon.reading import FamilyReader, Word, shared_reader
from medlink.language.text import ROMAN

UNKNOWN = 1 << 18
"""Numbers of words that the lexicon lacks."""
ARRAYS = {
    "slot_ends": np.int64,
    "said_ends": np.int64,
    "slot_weight": np.float16,
    "said_feature": np.int32,
    "said_share": np.float16,
    "said_weight": np.float32,
}  # what lies in an index, with its type
_READ = ("slot_ends", "said_ends", "said_feature", "said_share")  # those that need no weights
_TOGETHER = 1 << 15  # names that are read at a time
_WORDS = 1 << 15  # words of mentions that are remembered
_MOST = 250  # slots of the longest name that count
_PART = np.float32(0.8)  # weight of a part of a word beside that of a word as rare


class Slots(NamedTuple):
    """What n texts say: ``owner (slots,)``, number of the text of each slot, counting up, and its ``weight``;
    ``slot (features,)``, number of the slot of each ``feature``, counting up, and its ``share``."""

    owner: NDArray[np.int64]
    weight: NDArray[np.float32]
    slot: NDArray[np.int64]
    feature: NDArray[np.int64]
    share: NDArray[np.float32]


def features_of(word: Word, unknown: int) -> list[tuple[int, float]]:
    """The features of a word with their shares; ``unknown`` is the first of words that the lexicon lacks."""
    found = dict.fromkeys(word.meanings, 1.0)
    for part in word.parts:
        for meaning in part:
            found.setdefault(meaning, 1.0 / len(word.parts))
    if not word.known:
        text = ROMAN.get(word.text, word.text)
        share = 1.0 / len(word.parts) if word.parts else 1.0
        found[unknown + zlib.crc32(text.encode()) % UNKNOWN] = share
    return list(found.items())


class WordFeatures:
    """The features of the words of a reader, each worked out once."""

    def __init__(self, unknown: int) -> None:
        # each word has some, but for articles and the like
        self._values = WordValues(lambda word: () if word.function else features_of(word, unknown))

    def slots(self, read: Read, weights: Array | None) -> Slots:
        """Slots of names that were read; without ``weights`` of the features all slots weigh nothing."""
        place, feature, share = self._values.of(read)
        words = np.unique(place)
        owner = read.owner[words]
        kept = np.arange(len(words)) - np.searchsorted(owner, owner) < _MOST
        slot_of = np.full(len(read.word), -1, np.int64)
        slot_of[words[kept]] = np.arange(np.count_nonzero(kept))
        more = [
            (int(read.ends[name]) + at, meaning)
            for name, start, stop, meanings in read.phrases
            for at in range(start, stop)
            for meaning in meanings
        ]
        more_place, more_feature = np.array(more, np.int64).reshape(-1, 2).T
        slot = slot_of[np.concatenate([place, more_place])]
        feature = np.concatenate([feature, more_feature])
        share = np.concatenate([share, np.ones(len(more), np.float32)])
        order = np.argsort(slot, kind="stable")
        order = order[np.searchsorted(slot[order], 0) :]
        slots = np.zeros(np.count_nonzero(kept), np.float32)
        found = Slots(owner[kept], slots, slot[order], feature[order], share[order])
        return found if weights is None else weighed(found, weights)


def weighed(slots: Slots, weights: Array) -> Slots:
    """Slots with the weight of their heaviest feature; that of a part of a word counts less."""
    weight = np.zeros(len(slots.owner), dtype=np.float32)
    np.maximum.at(weight, slots.slot, weights[slots.feature] * np.where(slots.share < 1, _PART, np.float32(1)))
    return slots._replace(weight=weight)


class Overlap(NamedTuple):
    """How much of each other p pairs of mention and name say, all ``(p,)``.

    Attributes:
        mention: share of the mention, by weight, that the name says.
        name: share of the name that the mention says.
        more: the greatest weight of a word of the name that the mention does not say, 0 for none.
        fewer: the same of the mention.
        opposed: whether a word of the one is the opposite of one of the other.
        lacks: whether the mention says a finding, or what makes one, and the name none (*loss of neurons*, *neuron*).
        adds: whether the name says one and the mention nothing but other things (*abnormal ECG*, *ECG*).
    """

    mention: NDArray[np.float32]
    name: NDArray[np.float32]
    more: NDArray[np.float32]
    fewer: NDArray[np.float32]
    opposed: NDArray[np.bool_]
    lacks: NDArray[np.bool_]
    adds: NDArray[np.bool_]


class Words:
    """What texts say, and how much others say of it; ``forms`` opens the forms of the lexicon by which texts are read,
    ``arrays`` are those of :data:`ARRAYS`."""

    def __init__(self, forms: Callable[[], Forms], arrays: Mapping[str, Array]) -> None:
        self._open = forms
        ends, feature_ends, self._weight, self._feature, self._share, self._weights = (arrays[n] for n in ARRAYS)
        self._ends, self._feature_ends, self._lock = Groups(ends), Groups(feature_ends), Lock()

    @cached_property
    def forms(self) -> Forms:
        """The forms of the lexicon by which texts are read; names that came later have none."""
        return self._open()

    @cached_property
    def _finds(self) -> NDArray[np.bool_]:
        return self._of_kinds("finding", "change")

    @cached_property
    def _may_find(self) -> NDArray[np.bool_]:
        return self._finds | self._of_kinds("")

    @cached_property
    def _things(self) -> NDArray[np.bool_]:
        """Which features are no finding, nor part of a name of one without a word that says so (*short of breath*)."""
        return self._of_kinds(
            "body", "function", "substance", "organism", "procedure", "person", "circumstance", "measure"
        )

    @cached_property
    def _is_thing(self) -> NDArray[np.bool_]:
        return ~self._of_kinds("quality", "general", "measure", "circumstance")

    def _of_kinds(self, *kinds: str) -> NDArray[np.bool_]:
        found = np.array([kind in kinds for kind in self.forms.kinds], dtype=bool)
        return np.append(found, np.full(UNKNOWN, "" in kinds))

    @cached_property
    def _opposites(self) -> Groups:
        forms = self.forms
        both = np.array([*forms.opposites, *((b, a) for a, b in forms.opposites)], dtype=np.int64).reshape(-1, 2)
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        return Groups(np.searchsorted(both[:, 0], np.arange(len(forms.names) + UNKNOWN + 1)), both[:, 1])

    @cached_property
    def _has_opposite(self) -> NDArray[np.bool_]:
        return np.diff(self._opposites.ends) > 0

    @cached_property
    def _bulk(self) -> BulkReader:
        return BulkReader(shared_reader(self.forms))

    @cached_property
    def _table(self) -> WordFeatures:
        return WordFeatures(len(self.forms.names))

    @property
    def width(self) -> int:
        """Numbers of features."""
        return len(self._weights)

    def read(self, texts: Sequence[str], languages: Sequence[str | None]) -> Slots:
        """The slots of mentions."""
        with self._lock:
            read = self._bulk.read(texts, languages)
            slots = self._table.slots(read, self._weights)
            if len(read.words) > _WORDS:
                del self._bulk, self._table
        return slots

    def of(self, rows: NDArray[np.int64]) -> Slots:
        """What names say, by their numbers."""
        owner, slot = self._ends.many(rows)
        which, at = self._feature_ends.many(slot)
        weight, share = self._weight[slot].astype(np.float32), self._share[at].astype(np.float32)
        return Slots(owner, weight, which, self._feature[at].astype(np.int64), share)

    def weights(self, slots: Slots) -> NDArray[np.float32]:
        """What each feature of some texts weighs ``(features,)``, by its share."""
        return np.asarray(self._weights[slots.feature] * slots.share, dtype=np.float32)

    def attributes(self, named: Slots, words: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some names ``(n,)``, of so many ``words (n,)`` each, have none for a thing, and none that says
        nothing: *uña* looks like an article."""
        every: NDArray[np.bool_] = np.bincount(named.owner, minlength=len(words)) == words
        return every & ~marked(named.owner[named.slot], self._is_thing[named.feature], len(words))

    def compare(
        self, mentions: Slots, mention: NDArray[np.int64], names: Slots, name: NDArray[np.int64]
    ) -> tuple[Expanded, Expanded, NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """The slots of both sides of p pairs, which of their features the other side has, and which pairs are opposed.

        Arguments are those of :meth:`overlap`.
        """
        own, other = Expanded.of(mentions, mention), Expanded.of(names, name)
        shared, feature = _Shared(mentions, mention, self.width), names.feature[other.feature]
        place = shared.own(own.pair, own.feature)
        in_name, in_mention = shared.said(place, other.pair, feature)
        few = np.flatnonzero(self._has_opposite[feature])
        which, opposite = self._opposites.many(feature[few])
        is_opposed, _ = shared.said(place, other.pair[few][which], opposite)
        return own, other, in_name, in_mention, marked(own.pair, is_opposed & ~in_name, len(mention))

    def overlap(
        self, mentions: Slots, mention: NDArray[np.int64], names: Slots, name: NDArray[np.int64] | None = None
    ) -> Overlap:
        """How much mentions and names have of each other, for p pairs of the mentions and names of these numbers
        ``(p,)``; pair i has name i when left out."""
        name = np.arange(len(mention)) if name is None else name
        own, other, in_name, in_mention, opposed = self.compare(mentions, mention, names, name)
        covered, covers = own.covered(mentions, in_name), other.covered(names, in_mention)
        share, fewer = own.weighed(mentions, mention, covered)
        name_share, more = other.weighed(names, name, covers)
        # what a word means counts, not what its parts do
        whole = mentions.share == 1
        meant = whole | ~marked(mentions.slot, whole, len(mentions.owner))[mentions.slot]
        finds = _having(mentions, self._finds[mentions.feature], mention)
        may_find = _having(mentions, meant & ~self._things[mentions.feature], mention)
        name_finds = _having(names, self._finds[names.feature], name)
        name_may_find = _having(names, self._may_find[names.feature], name)
        return Overlap(share, name_share, more, fewer, opposed, finds & ~name_may_find, name_finds & ~may_find)


class Expanded(NamedTuple):
    """The slots of one side of pairs, repeated for each pair, and their features.

    Attributes:
        owner: ``(s,)`` pair of each slot.
        slot: ``(s,)`` number of each slot among those of the texts.
        place: ``(f,)`` place of the slot of each feature among these slots.
        feature: ``(f,)`` number of each feature among those of the texts.
        pair: ``(f,)`` pair of each feature.
    """

    owner: NDArray[np.int64]
    slot: NDArray[np.int64]
    place: NDArray[np.int64]
    feature: NDArray[np.int64]
    pair: NDArray[np.int64]

    @classmethod
    def of(cls, slots: Slots, text: NDArray[np.int64]) -> Expanded:
        """The slots of the text ``(p,)`` of each pair."""
        owner, slot = _grouped(slots.owner, int(text.max(initial=-1)) + 1).many(text)
        place, feature = _grouped(slots.slot, len(slots.owner)).many(slot)
        return cls(owner, slot, place, feature, owner[place])

    def covered(self, slots: Slots, shared: NDArray[np.bool_]) -> NDArray[np.float32]:
        """How much of each slot ``(s,)`` the features cover that the other side of the pair has."""
        covered = np.bincount(self.place[shared], slots.share[self.feature[shared]], len(self.slot))
        return np.asarray(np.minimum(covered, 1), dtype=np.float32)

    def weighed(
        self, slots: Slots, text: NDArray[np.int64], covered: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Share, by weight, of the text ``(p,)`` of each pair that is covered, and the greatest weight that is not."""
        total = np.bincount(slots.owner, slots.weight, int(text.max(initial=-1)) + 1)[text]
        weight, left = slots.weight[self.slot], np.zeros(len(text), dtype=np.float32)
        share = np.bincount(self.owner, weight * covered, len(text)) / np.maximum(total, 1e-9)
        np.maximum.at(left, self.owner, weight * (1 - covered))
        return share.astype(np.float32), left


class _Shared:
    """Which features the mention and the name of a pair share.

    The features of all mentions are sorted once, and those of names are looked up among them.
    """

    def __init__(self, mentions: Slots, mention: NDArray[np.int64], width: int) -> None:
        self._width, self._mention = width, mention
        # each feature of each mention once
        self._keys, self._number = np.unique(
            mentions.owner[mentions.slot] * width + mentions.feature, return_inverse=True
        )
        firsts = np.searchsorted(self._keys, np.arange(mention.max(initial=-1) + 2) * width)
        counts = np.diff(firsts)[mention]
        # where the features of the mention of each pair lie, less their numbers
        self._begin = np.cumsum(counts) - counts - firsts[mention]
        self._count = int(counts.sum())
        self._known = np.zeros(width, dtype=bool)
        self._known[mentions.feature] = True

    def own(self, pair: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where features of mentions lie, which are given by their pairs and their places among all features."""
        return np.asarray(self._begin[pair] + self._number[at])

    def said(
        self, own: NDArray[np.int64], pair: NDArray[np.int64], feature: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which features of mentions are among some of their pairs, and which of these some the mention has."""
        found = np.flatnonzero(self._known[feature])
        keys = self._mention[pair[found]] * self._width + feature[found]
        at = np.searchsorted(self._keys, keys)
        at[at == len(self._keys)] = 0
        same = self._keys[at] == keys if len(self._keys) else np.zeros(0, dtype=bool)
        found, at = found[same], at[same]
        flags, has = np.zeros(self._count, dtype=bool), np.zeros(len(feature), dtype=bool)
        flags[self._begin[pair[found]] + at] = True
        has[found] = True
        return flags[own], has


class NameWords(Words):
    """What the names of an index say, memory-mapped from a folder that :meth:`build` filled."""

    def __init__(self, folder: Path) -> None:
        super().__init__(partial(Forms.load, folder), {name: open_array(folder, name) for name in ARRAYS})

    @classmethod
    def build(
        cls, folder: Path, texts: Iterable[str], languages: Sequence[str], forms: Forms, main: NameWords | None = None
    ) -> NameWords:
        """Fill a folder from names with their languages; names that come later have the weights and the forms of the
        ``main`` ones."""
        if main is None:
            forms.save(folder)
        reader, table = BulkReader(FamilyReader(forms)), WordFeatures(len(forms.names))
        width = len(forms.names) + UNKNOWN
        df, begin, slot_begin = np.zeros(width, np.int64), 0, 0
        left = iter(texts)
        with ExitStack() as files:
            ends, feature_ends, feature, share = (
                files.enter_context(ArrayWriter(folder, name, ARRAYS[name])) for name in _READ
            )
            for start in range(0, len(languages), _TOGETHER):
                tags = languages[start : start + _TOGETHER]
                slots = table.slots(reader.read(list(islice(left, len(tags))), tags), None)
                df += frequency(slots, width)
                ends.append(begin + np.searchsorted(slots.owner, np.arange(len(tags))))
                feature_ends.append(slot_begin + np.searchsorted(slots.slot, np.arange(len(slots.owner))))
                feature.append(slots.feature)
                share.append(slots.share)
                begin, slot_begin = begin + len(slots.owner), slot_begin + len(slots.slot)
            ends.append(np.array([begin]))
            feature_ends.append(np.array([slot_begin]))
        weights = rarity(df, len(languages)) if main is None else main._weights
        save_array(folder, "said_weight", weights.astype(ARRAYS["said_weight"]))
        written = {name: open_array(folder, name) for name in _READ}
        of_slot, of_feature = Groups(written["slot_ends"]), Groups(written["said_ends"])
        with ArrayWriter(folder, "slot_weight", ARRAYS["slot_weight"]) as weight:
            for start in range(0, len(languages), _TOGETHER):
                owner, slot = of_slot.many(np.arange(start, min(start + _TOGETHER, len(languages))))
                which, at = of_feature.many(slot)
                nothing = np.zeros(len(owner), np.float32)
                told = Slots(owner, nothing, which, written["said_feature"][at], written["said_share"][at])
                weight.append(weighed(told, weights).weight)
        return cls(folder)


def frequency(slots: Slots, width: int) -> NDArray[np.int64]:
    """How many of some texts have each feature ``(width,)``."""
    return np.bincount(np.unique(slots.owner[slots.slot] * width + slots.feature) % width, minlength=width)


def rarity(df: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    """What a feature weighs that so many of ``count`` texts have."""
    return np.asarray(1 + np.log((1 + count) / (1 + df)), dtype=np.float32)


def _grouped(owner: NDArray[np.int64], count: int) -> Groups:
    return Groups(np.searchsorted(owner, np.arange(count + 1)))


def marked(pair: NDArray[np.int64], those: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """Which of so many pairs have one of those."""
    found = np.zeros(count, dtype=bool)
    found[pair[those]] = True
    return found


def _having(slots: Slots, those: NDArray[np.bool_], text: NDArray[np.int64]) -> NDArray[np.bool_]:
    count = int(max(text.max(initial=-1), slots.owner.max(initial=-1))) + 1
    return np.asarray(marked(slots.owner[slots.slot], those, count)[text])
