"""Slots: what texts say, word by word, as arrays.

A text is a row of *slots*, one for each word that is no article or the like. A slot has a weight, which is high for a
rare word, and *features*: the meanings of its word, of the parts of a compound, of a phrase that it belongs to, or the
word itself where the lexicon lacks it. A feature has a share: what of the slot is covered where the other side has it.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Array
from medlink.language.lexicon.bulk import Read, WordValues
from medlink.language.lexicon.reading import Word
from medlink.language.text import ROMAN

UNKNOWN = 1 << 18
"""Numbers of words that the lexicon lacks."""
_MOST = 250  # slots of the longest name that count
_PART = np.float32(0.8)  # weight of a part of a word beside that of a word as rare


class Slots(NamedTuple):
    """What n texts say.

    Attributes:
        owner: ``(slots,)`` number of the text of each slot, counting up.
        weight: ``(slots,)``.
        slot: ``(features,)`` number of the slot of each feature, counting up.
        feature: ``(features,)``.
        share: ``(features,)``.
    """

    owner: NDArray[np.int64]
    weight: NDArray[np.float32]
    slot: NDArray[np.int64]
    feature: NDArray[np.int64]
    share: NDArray[np.float32]


def features_of(word: Word, unknown: int) -> list[tuple[int, float]]:
    """The features of a word with their shares."""
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
    """The features of the words of a reader, each worked out once.

    Args:
        unknown: the number of the first feature of words that the lexicon lacks.
    """

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
