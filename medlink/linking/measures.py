"""The second stage: how alike a mention and each of its candidates are, as numbers.

Every pair gets every measure, whatever route found it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA

from medlink.index.arrays import row_products
from medlink.index.keys import Keys
from medlink.index.said import Overlap
from medlink.language.text import may_speak_of_numbers, numerals
from medlink.linking.candidates import EXACT, INFLECTED, Asked, candidates

# Share of letters from which on two strings may be one with a typing error (one error in five letters).
_ALIKE = 0.8

_WHOLE = 0.999  # share of a text from which on nothing is left of it
_RARE = 12.0  # weight of a very rare word

Column = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Pairs of mention and candidate name, one row each, measured.

    ``mention (p,)`` counts up; ``name (p,)`` is the key of the name; ``route (p,)`` says how it was found first.
    ``norms`` are the exact forms of the names, ``queries`` those of the mentions: a name in another inflection is that
    name, and its strings are compared as if it had been written so. ``overlap`` is what they say of each other by word
    families, ``features (p, len(FEATURES))`` are the measures.
    """

    mention: NDArray[np.int64]
    name: Keys
    route: NDArray[np.int64]
    norms: list[str]
    queries: list[str]
    overlap: Overlap
    features: NDArray[np.float32]

    @property
    def named(self) -> NDArray[np.bool_]:
        """Where the mention is the name, to the letter or in another inflection ``(p,)``."""
        return np.isin(self.route, (EXACT, INFLECTED))


Measure = Callable[[Asked, Evidence], Sequence[Column]]
"""Columns ``(p,)`` of the evidence, in the order of their names in :data:`MEASURES`."""


def _forms(asked: Asked, pairs: Evidence) -> Sequence[Column]:
    """Whether the forms are the same: to the letter, or in another inflection."""
    return pairs.route == EXACT, pairs.route == INFLECTED


def _embeddings(asked: Asked, pairs: Evidence) -> Sequence[Column]:
    """Likeness of the embeddings.

    ``cosine`` is that of the name, ``cosine_gap`` what it lacks to the best name of the mention, ``concept_cosine``
    that of the mean embedding of all names of the concept.
    """
    # Faiss rounds its scores differently for another number of queries; pair by pair they are always the same.
    names, name = np.unique(pairs.name, return_inverse=True)
    inflected = np.flatnonzero(pairs.route == INFLECTED)
    found, mention = asked.index.vectors(names), pairs.mention.copy()
    mention[inflected] = len(asked.vectors) + np.arange(len(inflected))
    mentions = np.concatenate([asked.vectors, found[name[inflected]]])
    cosine = row_products(found, name, mentions, mention)
    concept = asked.index.concept_cosines(pairs.name, mentions, mention, asked.selection)
    best = np.full(len(asked.texts), -1, dtype=np.float32)
    np.maximum.at(best, pairs.mention, cosine)
    gap = cosine - best[pairs.mention]
    return cosine, np.maximum(cosine, 0) ** 2, gap, concept, np.maximum(concept, 0) ** 2


def _spelling(asked: Asked, pairs: Evidence) -> Sequence[Column]:
    """Above 0 only where optimal string alignment leaves a typing error's distance."""
    alike = process.cpdist(pairs.queries, pairs.norms, scorer=OSA.normalized_similarity, dtype=np.float32)
    return (np.maximum(0, (alike - _ALIKE) / (1 - _ALIKE)),)


def _numbers(asked: Asked, pairs: Evidence) -> Sequence[Column]:
    """Whether the two speak of other numbers."""
    numbered = np.array([may_speak_of_numbers(norm) for norm in asked.norms], dtype=bool)
    maybe = (asked.index.numbered(pairs.name) | numbered[pairs.mention]) & (pairs.route != INFLECTED)
    differ = np.zeros(len(pairs.name), dtype=bool)
    known = lru_cache(maxsize=None)(numerals)  # of this call alone: it holds words of notes
    for i in np.flatnonzero(maybe).tolist():
        differ[i] = known(pairs.queries[i]) != known(pairs.norms[i])
    return (differ,)


def _lengths(asked: Asked, pairs: Evidence) -> Sequence[Column]:
    """Logarithms of ratios: ``length`` of the letters, without sign; ``more_words`` and ``fewer_words`` of the words
    where the name has more or fewer."""
    texts = (pairs.queries, pairs.norms)
    letters = np.maximum([list(map(len, part)) for part in texts], 1)
    blanks = {text: text.count(" ") for text in {*pairs.queries, *pairs.norms}}
    words = np.array([[blanks[text] for text in part] for part in texts]) + 1
    more = np.log(words[1] / words[0])
    return np.abs(np.log(letters[0] / letters[1])), np.maximum(more, 0), np.maximum(-more, 0)


def _words(asked: Asked, pairs: Evidence) -> Sequence[Column]:
    """What they say of each other by word families (:class:`medlink.index.said.Overlap`).

    ``said`` and ``says`` are the shares of the mention and of the name, ``same_words`` that both are whole,
    ``more`` and ``fewer`` the weight of the rarest word that the mention or the name does not say; ``lacks`` that the
    mention is of a finding and the name is not.
    """
    found, named = pairs.overlap, pairs.named
    said, says = (np.where(named, np.float32(1), share) for share in (found.mention, found.name))
    more, fewer = (np.where(named, np.float32(0), weight) / _RARE for weight in (found.more, found.fewer))
    same = (said > _WHOLE) & (says > _WHOLE)
    return said, says, same, said * says, more, fewer, found.opposed & ~named, found.lacks & ~named


MEASURES: dict[Measure, tuple[str, ...]] = {
    _forms: ("exact", "inflected"),
    _embeddings: (
        "cosine",
        "cosine_squared",
        "cosine_gap",
        "concept_cosine",
        "concept_cosine_squared",
    ),
    _spelling: ("spelling",),
    _numbers: ("numbers_differ",),
    _words: ("said", "says", "same_words", "both", "more", "fewer", "opposed", "lacks"),
    _lengths: ("length", "more_words", "fewer_words"),
}
"""What is measured, and the names of its columns."""
FEATURES = tuple(name for names in MEASURES.values() for name in names)
"""Names of the columns of :attr:`Evidence.features`, in order."""


def gather(asked: Asked) -> Evidence:
    """Find candidate names for distinct mentions and measure each pair."""
    mention, name, route = candidates(asked)
    distinct, which = np.unique(name, return_inverse=True)
    told = asked.index.norms(distinct)
    norms = [told[i] for i in which.tolist()]
    queries = [asked.norms[i] for i in mention.tolist()]
    for i in np.flatnonzero(route == INFLECTED).tolist():
        queries[i] = norms[i]
    features = np.zeros((len(name), len(FEATURES)), dtype=np.float32)
    overlap = asked.index.overlap(asked.said, mention, name)
    pairs = Evidence(mention, name, route, norms, queries, overlap, features)
    if len(name):
        for i, column in enumerate(column for measure in MEASURES for column in measure(asked, pairs)):
            features[:, i] = column
    return pairs
