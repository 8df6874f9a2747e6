"""Compare pairs of texts in memory: how much each covers the other."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medlink.index.word_coverage import UNKNOWN_WORD, TextCoverage, WordKinds
from medlink.index.word_features import (
    UNKNOWN,
    FeatureExtractor,
    WordFeatures,
    any_of_group,
    document_frequency,
    smooth_idf,
    with_weights,
)
from medlink.index.word_overlap import ARRAYS, FeatureStore
from medlink.language.lexicon.batch_analysis import BatchAnalyser
from medlink.language.lexicon.forms import LexiconForms
from medlink.language.lexicon.name_analysis import LexicalAnalyser

KINDS: dict[str, tuple[str, ...]] = {
    "finding": ("finding", "change"),
    "body": ("body", "function"),
    "substance": ("substance", "organism"),
    "quality": ("quality", "general"),
    "setting": ("measure", "circumstance", "person", "procedure"),
    UNKNOWN_WORD: (),
}
"""Kinds of words in :attr:`~medlink.index.word_coverage.TextCoverage.uncovered_kinds`."""
_BATCH = 1 << 15  # texts analysed at a time


class TextFeatures(FeatureStore):
    """The word features of n texts; ``languages`` are BCP 47 or ``None``.

    A feature weighs :func:`medlink.index.word_features.smooth_idf` of the texts that have it.

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
        kinds = self._kinds = WordKinds(forms, KINDS)
        is_unknown = kinds.of_words(features) == kinds.names.index(UNKNOWN_WORD)
        unknown = np.bincount(features.text[is_unknown], features.weight[is_unknown], len(texts))
        owner = features.text[features.word]
        self.is_finding, self.is_thing = (
            any_of_group(owner, kinds.of_features(features, wanted), len(texts))
            for wanted in (("finding",), ("finding", "body", "substance", UNKNOWN_WORD, ""))
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
        """Compute the coverage of both texts of each pair ``(p,)``, and whether they have words of opposite meaning."""
        firsts, first = np.unique(first_texts, return_inverse=True)
        seconds, second = np.unique(second_texts, return_inverse=True)
        left, right = self.of(firsts), self.of(seconds)
        return self._kinds.coverages(self, left, first, right, second)
