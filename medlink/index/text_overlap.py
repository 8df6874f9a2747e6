"""What the texts of a list say, in memory, and what each of two texts leaves unsaid of the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.word_overlap import (
    ARRAYS,
    UNKNOWN,
    Expanded,
    Slots,
    WordFeatures,
    Words,
    frequency,
    marked,
    rarity,
    weighed,
)  # fmt: skip
from medlink.language.lexicon.batch_analysis import BulkReader
from medlink.language.lexicon.forms import Forms
from medlink.language.lexicon.reading import FamilyReader

KINDS: dict[str, tuple[str, ...]] = {
    "finding": ("finding", "change"),
    "body": ("body", "function"),
    "substance": ("substance", "organism"),
    "quality": ("quality", "general"),
    "setting": ("measure", "circumstance", "person", "procedure"),
    "unknown": (),
}
"""Kinds of words that :attr:`Side.left_kinds` tells apart, with the kinds of the lexicon that each stands for."""
_NONE = len(KINDS)  # kind of a word that the lexicon has without a kind


class Side(NamedTuple):
    """How much of one text of each of p pairs the other text says.

    ``said (p,)`` is the share of the words, by weight, that the other says, and ``first`` and ``last`` those of the
    first and the last word; ``left`` is the greatest weight of a word that it does not say, 0 for none, and
    ``left_kinds (p, len(KINDS))`` the weight of such words of each kind.
    """

    said: NDArray[np.float32]
    left: NDArray[np.float32]
    first: NDArray[np.float32]
    last: NDArray[np.float32]
    left_kinds: NDArray[np.float32]


class SaidTexts(Words):
    """What n texts say; ``languages`` are BCP 47 or ``None``.

    A feature weighs ``1 + log((1 + n) / (1 + df))``, with df the texts that have it, as in scikit-learn's
    ``TfidfTransformer``.

    Attributes:
        unknown: ``(n,)`` share of the words of each text, by weight, that the lexicon lacks.
        is_finding: ``(n,)`` whether a word of each text is of a finding, or of what makes one.
        is_thing: ``(n,)`` whether a word of each text is more than a quality, a measure or the like.
    """

    def __init__(self, texts: Sequence[str], languages: Sequence[str | None], forms: Forms) -> None:
        lacking = len(forms.names)
        slots = WordFeatures(lacking).slots(BulkReader(FamilyReader(forms)).read(texts, languages), None)
        weights = rarity(frequency(slots, lacking + UNKNOWN), len(texts))
        ends = np.searchsorted(slots.owner, np.arange(len(texts) + 1))
        feature_ends = np.searchsorted(slots.slot, np.arange(len(slots.owner) + 1))
        slots = weighed(slots, weights)
        arrays = (ends, feature_ends, slots.weight, slots.feature, slots.share, weights)
        super().__init__(lambda: forms, dict(zip(ARRAYS, arrays, strict=True)))
        kind = np.full(lacking + UNKNOWN, _NONE, dtype=np.int8)
        for place, some_kinds in enumerate(KINDS.values()):
            kind[np.flatnonzero([one in some_kinds for one in forms.kinds])] = place
        kind[lacking:] = _NONE - 1
        self._kind = kind
        lacking_too = self._kind_of(slots) == _NONE - 1
        lacked = np.bincount(slots.owner[lacking_too], slots.weight[lacking_too], len(texts))
        every, owner = [*KINDS, ""], slots.owner[slots.slot]
        self.is_finding, self.is_thing = (
            marked(owner, np.isin(kind[slots.feature], [every.index(one) for one in some]), len(texts))
            for some in (("finding",), ("finding", "body", "substance", "unknown", ""))
        )
        total = np.bincount(slots.owner, slots.weight, len(texts))
        self.unknown: NDArray[np.float32] = (lacked / np.maximum(total, 1e-9)).astype(np.float32)

    def sides(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> tuple[Side, Side, NDArray[np.bool_]]:
        """Both sides of pairs of texts ``(p,)``, and whether a word of the one is the opposite of one of the other."""
        (firsts, first), (seconds, second) = (np.unique(ends, return_inverse=True) for ends in (one, other))
        mine, theirs = self.of(firsts), self.of(seconds)
        own, far, in_other, in_one, opposed = self.compare(mine, first, theirs, second)
        return self._side(mine, own, first, in_other), self._side(theirs, far, second, in_one), opposed

    def _kind_of(self, slots: Slots) -> NDArray[np.int8]:
        """``(slots,)`` kind of each slot: the first of :data:`KINDS` that a feature of it has."""
        found = np.full(len(slots.owner), _NONE, dtype=np.int8)
        np.minimum.at(found, slots.slot, self._kind[slots.feature])
        return found

    def _side(self, slots: Slots, expanded: Expanded, text: NDArray[np.int64], shared: NDArray[np.bool_]) -> Side:
        pairs = len(text)
        covered = expanded.covered(slots, shared)
        said, left = expanded.weighed(slots, text, covered)
        texts = np.arange(int(text.max(initial=-1)) + 1)
        first = self._at(np.searchsorted(slots.owner, texts), expanded, text, covered)
        last = self._at(np.searchsorted(slots.owner, texts, side="right") - 1, expanded, text, covered)
        kind = self._kind_of(slots)[expanded.slot]
        lost = slots.weight[expanded.slot] * (1 - covered)
        kinds = np.bincount(expanded.owner * (_NONE + 1) + kind, lost, pairs * (_NONE + 1))
        return Side(said, left, first, last, kinds.reshape(pairs, _NONE + 1)[:, :_NONE].astype(np.float32))

    @staticmethod
    def _at(
        slot: NDArray[np.int64], expanded: Expanded, text: NDArray[np.int64], covered: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """``(p,)`` how much is covered of one slot of the text of each pair."""
        here = expanded.slot == slot[text][expanded.owner]
        found = np.zeros(len(text), dtype=np.float32)
        found[expanded.owner[here]] = covered[here]
        return found
