"""What each name says, word by word, and how much of a mention and of a name the other one says.

What slots are is said in :mod:`medlink.index.slots`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Array, ArrayWriter, Groups, open_array, save_array
from medlink.index.slots import UNKNOWN, Slots, WordFeatures, weighed
from medlink.language.lexicon.bulk import BulkReader
from medlink.language.lexicon.forms import Forms
from medlink.language.lexicon.reading import FamilyReader, shared_reader

ARRAYS = {
    "slot_ends": np.int64,
    "said_ends": np.int64,
    "slot_weight": np.float16,
    "said_feature": np.int32,
    "said_share": np.float16,
    "said_weight": np.float32,
}  # what lies in an index, with its type
_READ = ("slot_ends", "said_ends", "said_feature", "said_share")
"""Those that need no weights."""
_TOGETHER = 1 << 15  # names that are read at a time
_WORDS = 1 << 15  # words of mentions that are remembered


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


class Told:
    """What texts say, and how much others say of it.

    Args:
        forms: opens the forms of the lexicon by which texts are read.
        arrays: those of :data:`ARRAYS`.
    """

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
        """Which features say a finding, or what makes one."""
        return self._of_kinds(("finding", "change"))

    @cached_property
    def _may_find(self) -> NDArray[np.bool_]:
        """Which features say a finding, or are of no known kind."""
        return self._finds | self._of_kinds(("",))

    @cached_property
    def _things(self) -> NDArray[np.bool_]:
        """Which features are no finding, nor part of a name of one without a word that says so (*short of breath*)."""
        return self._of_kinds(
            ("body", "function", "substance", "organism", "procedure", "person", "circumstance", "measure")
        )

    @cached_property
    def _is_thing(self) -> NDArray[np.bool_]:
        """Which features are more than what another word is of: its quality, time, measure."""
        return ~self._of_kinds(("quality", "general", "measure", "circumstance"))

    def attributes(self, named: Slots, words: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some names ``(n,)``, of so many ``words (n,)`` each, have none for a thing, and none that says
        nothing: *uña* looks like an article."""
        every: NDArray[np.bool_] = np.bincount(named.owner, minlength=len(words)) == words
        return every & ~marked(named.owner[named.slot], self._is_thing[named.feature], len(words))

    def _of_kinds(self, kinds: Collection[str]) -> NDArray[np.bool_]:
        found = np.array([kind in kinds for kind in self.forms.kinds], dtype=bool)
        return np.append(found, np.full(UNKNOWN, "" in kinds))

    @cached_property
    def _opposites(self) -> Groups:
        return _opposites(self.forms)

    @cached_property
    def _has_opposite(self) -> NDArray[np.bool_]:
        """Which features have an opposite: few."""
        return np.diff(self._opposites.ends) > 0

    def read(self, texts: Sequence[str], languages: Sequence[str | None]) -> Slots:
        """The slots of mentions."""
        with self._lock:
            read = self._bulk.read(texts, languages)
            slots = self._table.slots(read, self._weights)
            if len(read.words) > _WORDS:
                del self._bulk, self._table
        return slots

    @cached_property
    def _bulk(self) -> BulkReader:
        """What reads mentions; it remembers their words, no more than :data:`_WORDS`."""
        return BulkReader(shared_reader(self.forms))

    @cached_property
    def _table(self) -> WordFeatures:
        return WordFeatures(len(self.forms.names))

    def of(self, rows: NDArray[np.int64]) -> Slots:
        """What names say, by their numbers."""
        owner, slot = self._ends.many(rows)
        which, at = self._feature_ends.many(slot)
        return Slots(
            owner, self._weight[slot].astype(np.float32), which, self._feature[at].astype(np.int64),
            self._share[at].astype(np.float32),
        )  # fmt: skip

    def weights(self, slots: Slots) -> NDArray[np.float32]:
        """What each feature of some texts weighs ``(features,)``, by its share."""
        return np.asarray(self._weights[slots.feature] * slots.share, dtype=np.float32)

    @property
    def width(self) -> int:
        """Numbers of features."""
        return len(self._weights)

    def compare(
        self, mentions: Slots, mention: NDArray[np.int64], names: Slots, name: NDArray[np.int64]
    ) -> tuple[Expanded, Expanded, NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """The slots of both sides of p pairs, which of their features the other side has, and which pairs are opposed.

        Arguments are those of :meth:`overlap`.
        """
        own, other = Expanded.of(mentions, mention), Expanded.of(names, name)
        shared, feature = Shared(mentions, mention, self.width), names.feature[other.feature]
        place = shared.own(own.pair, own.feature)
        in_name, in_mention = shared.said(place, other.pair, feature)
        few = np.flatnonzero(self._has_opposite[feature])
        which, opposite = self._opposites.many(feature[few])
        is_opposed, _ = shared.said(place, other.pair[few][which], opposite)
        return own, other, in_name, in_mention, marked(own.pair, is_opposed & ~in_name, len(mention))

    def overlap(
        self, mentions: Slots, mention: NDArray[np.int64], names: Slots, name: NDArray[np.int64] | None = None
    ) -> Overlap:
        """How much mentions and names have of each other, for pairs.

        Args:
            mentions: what the mentions say.
            mention: ``(p,)`` number of the mention of each pair.
            names: what the names say.
            name: ``(p,)`` number of the name of each pair; pair i has name i when left out.
        """
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


class Shared:
    """Which features the mention and the name of a pair share.

    The features of all mentions are sorted once, and those of names are looked up among them.

    Args:
        mentions: what they say.
        mention: ``(p,)`` number of the mention of each pair.
        width: numbers of features.
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


class SaidNames(Told):
    """What the names of an index say, memory-mapped.

    Args:
        folder: folder that :meth:`build` filled.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(partial(Forms.load, folder), {name: open_array(folder, name) for name in ARRAYS})

    @classmethod
    def build(
        cls, folder: Path, texts: Iterable[str], languages: Sequence[str], forms: Forms, main: SaidNames | None = None
    ) -> SaidNames:
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


def _opposites(forms: Forms) -> Groups:
    """Opposites of each feature."""
    both = np.array([*forms.opposites, *((b, a) for a, b in forms.opposites)], dtype=np.int64).reshape(-1, 2)
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    return Groups(np.searchsorted(both[:, 0], np.arange(len(forms.names) + UNKNOWN + 1)), both[:, 1])


def _grouped(owner: NDArray[np.int64], count: int) -> Groups:
    """The places of each of so many owners, which count up."""
    return Groups(np.searchsorted(owner, np.arange(count + 1)))


def marked(pair: NDArray[np.int64], those: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """Which of so many pairs have one of those."""
    found = np.zeros(count, dtype=bool)
    found[pair[those]] = True
    return found


def _having(slots: Slots, those: NDArray[np.bool_], text: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which texts, given by number ``(p,)``, have one of those features."""
    count = int(max(text.max(initial=-1), slots.owner.max(initial=-1))) + 1
    return np.asarray(marked(slots.owner[slots.slot], those, count)[text])
