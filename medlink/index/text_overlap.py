"""Compare pairs of texts in memory: how much each covers the other."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.word_overlap import (
    ARRAYS,
    UNKNOWN,
    FeatureExtractor,
    FeatureStore,
    PairWords,
    WordFeatures,
    any_of_group,
    document_frequency,
    smooth_idf,
    with_weights,
)
from medlink.language.lexicon.batch_analysis import BatchAnalyser
from medlink.language.lexicon.forms import LexiconForms
from medlink.language.lexicon.name_analysis import LexicalAnalyser

KINDS: dict[str, tuple[str, ...]] = {
    "finding": ("finding", "change"),
    "body": ("body", "function"),
    "substance": ("substance", "organism"),
    "quality": ("quality", "general"),
    "setting": ("measure", "circumstance", "person", "procedure"),
    "unknown": (),
}
"""Kinds of words in :attr:`TextCoverage.uncovered_kinds`, each with the kinds of the lexicon that it stands for."""
_BATCH = 1 << 15  # texts analysed at a time
_NO_KIND = len(KINDS)  # kind of a word that is in the lexicon without a kind


class TextCoverage(NamedTuple):
    """How much of one text the other text covers, for each of p pairs.

    Attributes:
        covered: ``(p,)`` share of the words, by weight.
        max_uncovered: ``(p,)`` greatest weight of an uncovered word, 0 for none.
        first_word: ``(p,)`` share of the first word.
        last_word: ``(p,)`` share of the last word.
        uncovered_kinds: ``(p, len(KINDS))`` weight of the uncovered words of each kind.
    """

    covered: NDArray[np.float32]
    max_uncovered: NDArray[np.float32]
    first_word: NDArray[np.float32]
    last_word: NDArray[np.float32]
    uncovered_kinds: NDArray[np.float32]


class TextFeatures(FeatureStore):
    """The word features of n texts; ``languages`` are BCP 47 or ``None``.

    A feature weighs :func:`medlink.index.word_overlap.smooth_idf` of the texts that have it.

    Attributes:
        unknown: ``(n,)`` share of the words of each text, by weight, that the lexicon lacks.
        is_finding: ``(n,)`` whether a text has a word of a finding, or of a change that makes a finding.
        is_thing: ``(n,)`` whether a text has a word that is more than a quality, a measure or the like.
    """

    def __init__(self, texts: Sequence[str], languages: Sequence[str | None], forms: LexiconForms) -> None:
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
        super().__init__(lambda: forms, dict(zip(ARRAYS, arrays, strict=True)))
        kind = np.full(lexicon + UNKNOWN, _NO_KIND, dtype=np.int8)
        for number, lexicon_kinds in enumerate(KINDS.values()):
            kind[np.flatnonzero([own in lexicon_kinds for own in forms.kinds])] = number
        kind[lexicon:] = _NO_KIND - 1
        self._kind = kind
        is_unknown = self._kind_of(features) == _NO_KIND - 1
        unknown = np.bincount(features.text[is_unknown], features.weight[is_unknown], len(texts))
        names, owner = [*KINDS, ""], features.text[features.word]
        self.is_finding, self.is_thing = (
            any_of_group(owner, np.isin(kind[features.feature], [names.index(name) for name in wanted]), len(texts))
            for wanted in (("finding",), ("finding", "body", "substance", "unknown", ""))
        )
        total = np.bincount(features.text, features.weight, len(texts))
        self.unknown: NDArray[np.float32] = (unknown / np.maximum(total, 1e-9)).astype(np.float32)

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self) | {"forms": self.forms}
        return {name: state[name] for name in state.keys() - {"_lock", "_open_forms"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def compare_pairs(
        self, first_texts: NDArray[np.int64], second_texts: NDArray[np.int64]
    ) -> tuple[TextCoverage, TextCoverage, NDArray[np.bool_]]:
        """Compute the coverage of both texts of each pair ``(p,)``, and whether their words include opposites."""
        firsts, first = np.unique(first_texts, return_inverse=True)
        seconds, second = np.unique(second_texts, return_inverse=True)
        left, right = self.of(firsts), self.of(seconds)
        left_words, right_words, in_right, in_left, opposed = self.compare(left, first, right, second)
        coverages = (
            self._coverage(left, left_words, first, in_right),
            self._coverage(right, right_words, second, in_left),
        )
        return *coverages, opposed

    def _kind_of(self, features: WordFeatures) -> NDArray[np.int8]:
        """Kind ``(words,)`` of each word: the first of :data:`KINDS` that a feature of it has."""
        kind = np.full(len(features.text), _NO_KIND, dtype=np.int8)
        np.minimum.at(kind, features.word, self._kind[features.feature])
        return kind

    def _coverage(
        self, features: WordFeatures, words: PairWords, text: NDArray[np.int64], shared: NDArray[np.bool_]
    ) -> TextCoverage:
        pairs = len(text)
        covered = words.covered(features, shared)
        share, max_uncovered = words.coverage(features, text, covered)
        texts = np.arange(int(text.max(initial=-1)) + 1)
        ends = (np.searchsorted(features.text, texts), np.searchsorted(features.text, texts, side="right") - 1)
        first, last = (self._at(word[text], words, covered) for word in ends)
        kind = self._kind_of(features)[words.word]
        uncovered = features.weight[words.word] * (1 - covered)
        kinds = np.bincount(words.owner * (_NO_KIND + 1) + kind, uncovered, pairs * (_NO_KIND + 1))
        by_kind = kinds.reshape(pairs, _NO_KIND + 1)[:, :_NO_KIND].astype(np.float32)
        return TextCoverage(share, max_uncovered, first, last, by_kind)

    @staticmethod
    def _at(word: NDArray[np.int64], words: PairWords, covered: NDArray[np.float32]) -> NDArray[np.float32]:
        """Covered share of the ``word (p,)`` of each pair."""
        here = words.word == word[words.owner]
        share = np.zeros(len(word), dtype=np.float32)
        share[words.owner[here]] = covered[here]
        return share
