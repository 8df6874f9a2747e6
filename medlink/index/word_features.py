"""The features of the words of texts.

Each content word of a text has a weight, high for a rare word, and *features*: the meanings of the word, of the parts
of a compound, of a phrase that it belongs to, or the word itself where the lexicon lacks it. The share of a feature is
the part of its word that it covers if the other text also has the feature.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index.arrays import Array
from medlink.language.lexicon.batch_analysis import AnalysedBatch, WordValues
from medlink.language.lexicon.name_analysis import AnalysedWord
from medlink.language.text import ROMAN

UNKNOWN = 1 << 18
"""Number of features of words that the lexicon lacks: their checksums modulo this."""
_MAX_WORDS = 250  # words of the longest name that count
_PART = np.float32(0.8)  # weight of a part of a word, relative to a word as rare


class WordFeatures(NamedTuple):
    """The words of n texts and their features.

    Attributes:
        text: ``(words,)`` text of each word, ascending.
        weight: ``(words,)``.
        word: ``(features,)`` word of each feature, ascending.
        feature: ``(features,)``.
        share: ``(features,)``.
    """

    text: NDArray[np.int64]
    weight: NDArray[np.float32]
    word: NDArray[np.int64]
    feature: NDArray[np.int64]
    share: NDArray[np.float32]


def features_of_word(word: AnalysedWord, unknown: int) -> list[tuple[int, float]]:
    """Return the features of a word and their shares; ``unknown`` is the first feature of words outside the lexicon."""
    shares = dict.fromkeys(word.meanings, 1.0)
    for part in word.parts:
        for meaning in part:
            shares.setdefault(meaning, 1.0 / len(word.parts))
    if not word.known:
        text = ROMAN.get(word.text, word.text)
        share = 1.0 / len(word.parts) if word.parts else 1.0
        shares[unknown + zlib.crc32(text.encode()) % UNKNOWN] = share
    return list(shares.items())


class FeatureExtractor:
    """Extracts the features of analysed texts; computes the features of each distinct word once."""

    def __init__(self, unknown: int) -> None:
        self._values = WordValues(lambda word: () if word.function else features_of_word(word, unknown))

    def extract(self, batch: AnalysedBatch, weights: Array | None = None) -> WordFeatures:
        """Return the features of a batch of texts; without the ``weights`` of the features all words weigh 0."""
        position, feature, share = self._values.of(batch)
        words = np.unique(position)  # all but function words have features
        text = batch.owner[words]
        within_limit = np.arange(len(words)) - np.searchsorted(text, text) < _MAX_WORDS
        word_at = np.full(len(batch.word), -1, np.int64)
        word_at[words[within_limit]] = np.arange(np.count_nonzero(within_limit))
        phrases = [
            (int(batch.ends[name]) + at, meaning)
            for name, start, stop, meanings in batch.phrases
            for at in range(start, stop)
            for meaning in meanings
        ]
        phrase_position, phrase_feature = np.array(phrases, np.int64).reshape(-1, 2).T
        word = word_at[np.concatenate([position, phrase_position])]
        feature = np.concatenate([feature, phrase_feature])
        share = np.concatenate([share, np.ones(len(phrases), np.float32)])
        order = np.argsort(word, kind="stable")
        order = order[np.searchsorted(word[order], 0) :]
        weight = np.zeros(np.count_nonzero(within_limit), np.float32)
        features = WordFeatures(text[within_limit], weight, word[order], feature[order], share[order])
        return features if weights is None else with_weights(features, weights)


def with_weights(features: WordFeatures, weights: Array) -> WordFeatures:
    """Give each word the weight of its rarest feature; the feature of a part counts less."""
    weight = np.zeros(len(features.text), dtype=np.float32)
    of_feature = weights[features.feature] * np.where(features.share < 1, _PART, np.float32(1))
    np.maximum.at(weight, features.word, of_feature)
    return features._replace(weight=weight)


def document_frequency(features: WordFeatures, width: int) -> NDArray[np.int64]:
    """Count the texts with each feature ``(width,)``."""
    return np.bincount(np.unique(features.text[features.word] * width + features.feature) % width, minlength=width)


def smooth_idf(df: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    """Compute ``1 + log((1 + n) / (1 + df))`` for ``count`` texts, as in scikit-learn's ``TfidfTransformer``."""
    return np.asarray(1 + np.log((1 + count) / (1 + df)), dtype=np.float32)


def any_of_group(group: NDArray[np.int64], values: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """Mark the groups ``(count,)`` in which a value is true; ``group`` has the group of each value."""
    marked = np.zeros(count, dtype=bool)
    marked[group[values]] = True
    return marked
