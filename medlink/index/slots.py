"""Slots: what texts say, word by word, as arrays.

A text is a row of *slots*, one for each word that is no article or the like. A slot has a weight, which is high for a
rare word, and *features*: the meanings of its word, of the parts of a compound, of a phrase that it belongs to, or the
word itself where the lexicon lacks it. A feature has a share: what of the slot is covered where the other side has it.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Array
from medlink.language.lexicon.reading import Said, Word
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


def slots_of(said: Iterable[Said], unknown: int, weights: Array | None) -> Slots:
    """Slots of texts; without ``weights`` of the features all slots weigh nothing."""
    owner, slots, told = array("q"), array("q"), array("q")
    shares = array("d")
    for number, one in enumerate(said):
        place: dict[int, int] = {}
        for at, word in enumerate(one.words):
            if not word.function and len(place) < _MOST:
                place[at] = len(owner)
                for one_feature, one_share in features_of(word, unknown):
                    slots.append(len(owner))
                    told.append(one_feature)
                    shares.append(one_share)
                owner.append(number)
        for start, stop, meanings in one.phrases:
            for at in range(start, stop):
                if at in place:
                    slots.extend([place[at]] * len(meanings))
                    told.extend(meanings)
                    shares.extend([1.0] * len(meanings))
    order = np.argsort(np.array(slots, dtype=np.int64), kind="stable")
    slot, feature = np.array(slots, np.int64)[order], np.array(told, np.int64)[order]
    share = np.array(shares, np.float32)[order]
    found = Slots(np.array(owner, np.int64), np.zeros(len(owner), np.float32), slot, feature, share)
    return found if weights is None else weighed(found, weights)


def weighed(slots: Slots, weights: Array) -> Slots:
    """Slots with the weight of their heaviest feature; that of a part of a word counts less."""
    weight = np.zeros(len(slots.owner), dtype=np.float32)
    np.maximum.at(weight, slots.slot, weights[slots.feature] * np.where(slots.share < 1, _PART, np.float32(1)))
    return slots._replace(weight=weight)
