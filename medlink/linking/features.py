"""The second stage: how alike a mention and each of its candidates are, as numbers.

Every pair gets every measure, whatever route found it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA

from medlink.index.arrays import Groups, row_products
from medlink.index.names import Entries, Keys
from medlink.index.word_overlap import Overlap
from medlink.language.text import may_speak_of_numbers, numerals
from medlink.linking.candidates import EXACT, INFLECTED, QueryBatch, candidates

# Share of letters from which on two strings may be one with a typing error (one error in five letters).
_ALIKE = 0.8
_CUT = 0.79  # below which likenesses need not be told apart: safely less, whatever rounding does

_WHOLE = 0.999  # share of a text from which on nothing is left of it
_RARE = 12.0  # weight of a very rare word

Column = NDArray[Any]

_numerals_of_name = lru_cache(maxsize=65_536)(numerals)  # of names alone, never of mentions


@dataclass(eq=False)
class Evidence:
    """Pairs of mention and candidate name, one row each, measured.

    Attributes:
        mention, name, route: ``(p,)`` number of the mention, which counts up, key of the name, how it was found first.
        distinct, which: ``(d,)`` the names, each once, and ``(p,)`` the number of the name among these.
        overlap: how much of each other they say by word families.
        features: ``(p, len(FEATURES))`` the measures.
    """

    batch: QueryBatch
    mention: NDArray[np.int64]
    name: Keys
    route: NDArray[np.int64]
    distinct: Keys
    which: NDArray[np.int64]
    overlap: Overlap
    features: NDArray[np.float32]

    @cached_property
    def named(self) -> NDArray[np.bool_]:
        """Where the mention is the name, to the letter or in another inflection ``(p,)``."""
        return np.asarray(self.route <= INFLECTED)

    @cached_property
    def norms(self) -> list[str]:
        """Exact forms of the names ``(p,)``."""
        return self.norms_of(np.arange(len(self.name)))

    @cached_property
    def queries(self) -> list[str]:
        """Exact forms of the mentions ``(p,)``."""
        return self.queries_of(np.arange(len(self.name)))

    def norms_of(self, pairs: NDArray[np.int64]) -> list[str]:
        """Exact forms of the names of some pairs."""
        wanted, place = np.unique(self.which[pairs], return_inverse=True)
        norms = self.batch.index.norms(self.distinct[wanted])
        return [norms[at] for at in place.tolist()]

    def queries_of(self, pairs: NDArray[np.int64]) -> list[str]:
        """Exact forms of the mentions of some pairs; one in another inflection counts as written like the name."""
        norms = self.batch.norms
        queries = [norms[at] for at in self.mention[pairs].tolist()]
        inflected = np.flatnonzero(self.route[pairs] == INFLECTED)
        for at, norm in zip(inflected.tolist(), self.norms_of(pairs[inflected]), strict=True):
            queries[at] = norm
        return queries

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Letters and blanks of the exact forms of mention and name ``(2, p, 2)``."""
        queries = np.array([(len(norm), norm.count(" ")) for norm in self.batch.norms], np.int64).reshape(-1, 2)
        sizes: NDArray[np.int64] = np.stack([queries[self.mention], self.batch.index.sizes(self.distinct)[self.which]])
        inflected = self.route == INFLECTED
        sizes[0, inflected] = sizes[1, inflected]
        return sizes

    @cached_property
    def entries(self) -> Entries:
        """The entries of the names ``distinct``."""
        return self.batch.index.entries(self.distinct, self.batch.selection)

    @cached_property
    def entry(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pair of each entry of each pair, and its number among the entries ``(e,)``."""
        return Groups(np.searchsorted(self.entries.position, np.arange(len(self.distinct) + 1))).many(self.which)


Measure = Callable[[Evidence], Sequence[Column]]
"""Columns ``(p,)`` of the evidence, in the order of their names in :data:`MEASURES`."""


def _forms(pairs: Evidence) -> Sequence[Column]:
    return pairs.route == EXACT, pairs.route == INFLECTED


def _embeddings(pairs: Evidence) -> Sequence[Column]:
    """Likeness of the embeddings.

    ``cosine`` is that of the name, ``cosine_gap`` what it lacks to the best name of the mention, ``concept_cosine``
    that of the mean embedding of all names of the concept; of several concepts the best one counts.
    """
    # Faiss rounds its scores differently for another number of queries; pair by pair they are always the same.
    batch, index = pairs.batch, pairs.batch.index
    inflected = np.flatnonzero(pairs.route == INFLECTED)
    found, mention = index.vectors(pairs.distinct), pairs.mention.copy()
    mention[inflected] = len(batch.vectors) + np.arange(len(inflected))
    mentions = np.concatenate([batch.vectors, found[pairs.which[inflected]]])
    cosine = row_products(found, pairs.which, mentions, mention)
    pair, entry = pairs.entry
    concepts, concept = np.unique(pairs.entries.concept, return_inverse=True)
    means = index.means(concepts).astype(np.float32)
    of_concept = np.full(len(mention), -1, dtype=np.float32)
    np.maximum.at(of_concept, pair, row_products(means, concept[entry], mentions, mention[pair]))
    best = np.full(len(batch.texts), -1, dtype=np.float32)
    np.maximum.at(best, pairs.mention, cosine)
    gap = cosine - best[pairs.mention]
    return cosine, np.maximum(cosine, 0) ** 2, gap, of_concept, np.maximum(of_concept, 0) ** 2


def _spelling(pairs: Evidence) -> Sequence[Column]:
    one, other = pairs.sizes[:, :, 0]
    # each letter that one has more is an error
    maybe = np.flatnonzero((np.abs(one - other) <= (1 - _CUT) * np.maximum(one, other)) & ~pairs.named)
    alike = pairs.named.astype(np.float32)
    alike[maybe] = process.cpdist(
        pairs.queries_of(maybe), pairs.norms_of(maybe), scorer=OSA.normalized_similarity, score_cutoff=_CUT,
        dtype=np.float32,
    )  # fmt: skip
    return (np.maximum(0, (alike - _ALIKE) / (1 - _ALIKE)),)


def _numbers(pairs: Evidence) -> Sequence[Column]:
    batch = pairs.batch
    spoken = {frozenset[str](): 0}
    of_mention = [numerals(norm) if may_speak_of_numbers(norm) else frozenset[str]() for norm in batch.norms]
    numbered = np.flatnonzero(batch.index.numbered(pairs.distinct))
    of_name = np.zeros(len(pairs.distinct), np.int64)
    norms = batch.index.norms(pairs.distinct[numbered])
    of_name[numbered] = [spoken.setdefault(_numerals_of_name(norm), len(spoken)) for norm in norms]
    own = np.array([spoken.setdefault(found, len(spoken)) for found in of_mention], np.int64)
    return ((own[pairs.mention] != of_name[pairs.which]) & (pairs.route != INFLECTED),)


def _lengths(pairs: Evidence) -> Sequence[Column]:
    """Logarithms of ratios: ``length`` of the letters, without sign; ``more_words`` and ``fewer_words`` of the words
    where the name has more or fewer."""
    letters, words = np.maximum(pairs.sizes[:, :, 0], 1), pairs.sizes[:, :, 1] + 1
    more = np.log(words[1] / words[0])
    return np.abs(np.log(letters[0] / letters[1])), np.maximum(more, 0), np.maximum(-more, 0)


def _words(pairs: Evidence) -> Sequence[Column]:
    """How much of each other they say by word families (:class:`medlink.index.word_overlap.Overlap`).

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
    _embeddings: ("cosine", "cosine_squared", "cosine_gap", "concept_cosine", "concept_cosine_squared"),
    _spelling: ("spelling",),
    _numbers: ("numbers_differ",),
    _words: ("said", "says", "same_words", "both", "more", "fewer", "opposed", "lacks"),
    _lengths: ("length", "more_words", "fewer_words"),
}
"""What is measured, and the names of its columns."""
FEATURES = tuple(name for names in MEASURES.values() for name in names)
"""Names of the columns of :attr:`Evidence.features`, in order."""


def compute_features(batch: QueryBatch) -> Evidence:
    """Find candidate names for distinct mentions and measure each pair."""
    mention, name, route = candidates(batch)
    distinct, which = np.unique(name, return_inverse=True)
    overlap = batch.index.overlap(batch.slots, mention, distinct, which)
    # a column lies in one piece
    features = np.zeros((len(FEATURES), len(name)), dtype=np.float32).T
    pairs = Evidence(batch, mention, name, route, distinct, which, overlap, features)
    if len(name):
        for i, column in enumerate(column for measure in MEASURES for column in measure(pairs)):
            features[:, i] = column
    return pairs
