"""How many of the words of one text another text covers, by the kinds of the words; pairs of texts in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.names import Positions
from medlink.index.word_features import (
    UNKNOWN,
    FeatureExtractor,
    WordFeatures,
    any_of_group,
    document_frequency,
    smooth_idf,
    with_weights,
)
from medlink.index.word_overlap import ARRAYS, FeatureStore, PairWords
from medlink.language.lexicon.batch_analysis import BatchAnalyser
from medlink.language.lexicon.forms import LexiconForms
from medlink.language.lexicon.name_analysis import LexicalAnalyser

UNKNOWN_WORD = "unknown"
"""The kind of words that the lexicon lacks."""
KINDS: dict[str, tuple[str, ...]] = {
    "finding": ("finding", "change"),
    "body": ("body", "function"),
    "substance": ("substance", "organism"),
    "quality": ("quality", "general"),
    "setting": ("measure", "circumstance", "person", "procedure"),
    UNKNOWN_WORD: (),
}
"""Kinds of words in :attr:`TextCoverage.uncovered_kinds` of :class:`TextFeatures`."""
_BATCH = 1 << 15  # texts analysed at a time


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

    ``kinds`` maps each kind to kinds of the lexicon or to :data:`UNKNOWN_WORD`. A word has the first kind that fits one
    of its features.
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

    def coverages(
        self, store: FeatureStore, mentions: WordFeatures, mention: Positions, names: WordFeatures, name: Positions
    ) -> tuple[TextCoverage, TextCoverage, NDArray[np.bool_]]:
        """Compute the coverage of both sides of p pairs, and mark the pairs with words of opposite meaning; arguments
        are those of :meth:`~medlink.index.word_overlap.FeatureStore.overlap`.
        """
        of_mentions, of_names, in_name, in_mention, opposed = store.compare(mentions, mention, names, name)
        of_mention = self._coverage(mentions, of_mentions, mention, in_name)
        return of_mention, self._coverage(names, of_names, name, in_mention), opposed

    def _coverage(
        self, features: WordFeatures, words: PairWords, text: Positions, shared: NDArray[np.bool_]
    ) -> TextCoverage:
        pairs, texts = len(text), np.arange(int(text.max(initial=-1)) + 1)
        covered = words.covered(features, shared)
        share, max_uncovered = words.coverage(features, text, covered)
        first, last = np.searchsorted(features.text, texts), np.searchsorted(features.text, texts, side="right") - 1
        heaviest = np.lexsort((np.arange(len(features.text)), -features.weight, features.text))
        rarest = np.append(heaviest, -1)[first]
        ends = [np.zeros(pairs, dtype=np.float32) for _ in range(3)]
        for end, word in zip(ends, (first, last, rarest), strict=True):
            here = words.word == word[text][words.owner]
            end[words.owner[here]] = covered[here]
        uncovered = features.weight[words.word] * (1 - covered)
        kinds = self._none + 1
        group = words.owner * kinds + self.of_words(features)[words.word]
        by_kind = np.bincount(group, uncovered, pairs * kinds).reshape(pairs, kinds)[:, : self._none]
        return TextCoverage(share, max_uncovered, ends[0], ends[1], ends[2], by_kind.astype(np.float32))


class TextFeatures(FeatureStore):
    """The word features of n texts; ``languages`` are BCP 47 or ``None``.

    A feature weighs :func:`medlink.index.word_features.smooth_idf` of the texts that have it. ``kinds`` are those of
    :class:`WordKinds`.

    Attributes:
        unknown: ``(n,)`` share of the words of each text, by weight, that the lexicon lacks.
        is_finding: ``(n,)`` whether a text has a word of a finding, or of a change that makes a finding.
        is_thing: ``(n,)`` whether a text has a word that is more than a quality, a measure or the like.
    """

    def __init__(
        self, texts: Sequence[str], languages: Sequence[str | None], forms: LexiconForms,
        kinds: Mapping[str, Sequence[str]] = KINDS,
    ) -> None:  # fmt: skip
        lexicon = len(forms.names)
        analyser, extractor = BatchAnalyser(LexicalAnalyser(forms)), FeatureExtractor(lexicon)
        parts, words = [], 0
        for start in range(0, len(texts) or 1, _BATCH):
            batch = slice(start, start + _BATCH)
            part = extractor.extract(analyser.read(texts[batch], languages[batch]))
            parts.append(part._replace(text=part.text + start, word=part.word + words))
            words += len(part.text)
        features = WordFeatures(*map(np.concatenate, zip(*parts, strict=True)))
        weights = smooth_idf(document_frequency(features, lexicon + UNKNOWN), len(texts))
        ends = np.searchsorted(features.text, np.arange(len(texts) + 1))
        feature_ends = np.searchsorted(features.word, np.arange(len(features.text) + 1))
        features = with_weights(features, weights)
        arrays = (ends, feature_ends, features.weight, features.feature.astype(np.int32), features.share, weights)
        super().__init__(dict(zip(ARRAYS, arrays, strict=True)))
        self.forms = forms
        self._kinds = WordKinds(forms, kinds)
        is_unknown = self._kinds.of_words(features) == self._kinds.names.index(UNKNOWN_WORD)
        unknown = np.bincount(features.text[is_unknown], features.weight[is_unknown], len(texts))
        owner = features.text[features.word]
        self.is_finding, self.is_thing = (
            any_of_group(owner, self._kinds.of_features(features, wanted), len(texts))
            for wanted in (("finding",), ("finding", "body", "substance", UNKNOWN_WORD, ""))
        )
        total = np.bincount(features.text, features.weight, len(texts))
        self.unknown: NDArray[np.float32] = (unknown / np.maximum(total, 1e-9)).astype(np.float32)

    def compare_pairs(
        self, first_texts: NDArray[np.int64], second_texts: NDArray[np.int64]
    ) -> tuple[TextCoverage, TextCoverage, NDArray[np.bool_]]:
        """Compute the coverage of both texts of each pair ``(p,)``, and whether they have words of opposite meaning."""
        firsts, first = np.unique(first_texts, return_inverse=True)
        seconds, second = np.unique(second_texts, return_inverse=True)
        left, right = self.of(firsts), self.of(seconds)
        return self._kinds.coverages(self, left, first, right, second)
