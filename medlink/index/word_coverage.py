"""How many of the words of one text another text covers, by the kinds of the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.word_features import UNKNOWN, WordFeatures
from medlink.index.word_overlap import PairWords
from medlink.language.lexicon.forms import LexiconForms

UNKNOWN_WORD = "unknown"
"""The kind of words that the lexicon lacks."""


class TextCoverage(NamedTuple):
    """How much of one text the other text covers, for each of p pairs.

    Attributes:
        covered: ``(p,)`` share of the words, by weight.
        max_uncovered: ``(p,)`` greatest weight of an uncovered word, 0 for none.
        first_word: ``(p,)`` share of the first word.
        last_word: ``(p,)`` share of the last word.
        rarest_word: ``(p,)`` share of the word with the greatest weight.
        uncovered_kinds: ``(p, kinds)`` weight of the uncovered words of each kind.
    """

    covered: NDArray[np.float32]
    max_uncovered: NDArray[np.float32]
    first_word: NDArray[np.float32]
    last_word: NDArray[np.float32]
    rarest_word: NDArray[np.float32]
    uncovered_kinds: NDArray[np.float32]


class WordKinds:
    """The kinds of words in the features of texts.

    ``kinds`` has, for each kind, the kinds of the lexicon for which it stands; :data:`UNKNOWN_WORD` is one of them. A
    word has the first kind that one of its features has.
    """

    def __init__(self, forms: LexiconForms, kinds: Mapping[str, Sequence[str]]) -> None:
        self.names, self._none = tuple(kinds), len(kinds)
        self._kind = np.full(len(forms.names) + UNKNOWN, self._none, dtype=np.int8)
        for number, lexicon_kinds in enumerate(kinds.values()):
            self._kind[np.flatnonzero([own in lexicon_kinds for own in forms.kinds])] = number
        self._kind[len(forms.names) :] = self.names.index(UNKNOWN_WORD)

    def of_features(self, features: WordFeatures, kinds: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the features ``(features,)`` of these kinds; ``""`` is any other kind."""
        numbers = [(*self.names, "").index(kind) for kind in kinds]
        return np.isin(self._kind[features.feature], numbers)

    def of_words(self, features: WordFeatures) -> NDArray[np.int8]:
        """Return the number of the kind of each word ``(words,)``, the number of kinds for any other kind."""
        kind = np.full(len(features.text), self._none, dtype=np.int8)
        np.minimum.at(kind, features.word, self._kind[features.feature])
        return kind

    def coverage(
        self, features: WordFeatures, words: PairWords, text: NDArray[np.int64], shared: NDArray[np.bool_]
    ) -> TextCoverage:
        """Compute, for each of p pairs, how much of ``text (p,)`` the ``shared`` features of its ``words`` cover."""
        pairs, texts = len(text), np.arange(int(text.max(initial=-1)) + 1)
        covered = words.covered(features, shared)
        share, max_uncovered = words.coverage(features, text, covered)
        first, last = np.searchsorted(features.text, texts), np.searchsorted(features.text, texts, side="right") - 1
        heaviest = np.lexsort((np.arange(len(features.text)), -features.weight, features.text))
        rarest = np.append(heaviest, -1)[first]
        ends = [_covered_at(word[text], words, covered) for word in (first, last, rarest)]
        uncovered = features.weight[words.word] * (1 - covered)
        slots = words.owner * (self._none + 1) + self.of_words(features)[words.word]
        by_kind = np.bincount(slots, uncovered, pairs * (self._none + 1)).reshape(pairs, self._none + 1)[
            :, : self._none
        ]
        return TextCoverage(share, max_uncovered, ends[0], ends[1], ends[2], by_kind.astype(np.float32))


def _covered_at(word: NDArray[np.int64], words: PairWords, covered: NDArray[np.float32]) -> NDArray[np.float32]:
    """Covered share of the ``word (p,)`` of each pair."""
    here = words.word == word[words.owner]
    share = np.zeros(len(word), dtype=np.float32)
    share[words.owner[here]] = covered[here]
    return share
