"""Second stage: features of each pair of mention and candidate name, independent of the route that found it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA

from medlink.index.arrays import RaggedArray, row_products
from medlink.index.names import Keys, NameEntries
from medlink.index.word_overlap import Overlap
from medlink.language.text import has_number, numerals
from medlink.linking.arrays import Bools, Ints
from medlink.linking.candidates import EXACT, INFLECTED, QueryBatch, find_candidates

_MIN_SIMILARITY = 0.8  # strings below it are not typing errors of each other (one error in five letters)
_CUTOFF = 0.79  # similarities below it are not computed: less than the minimum by more than rounding
_WHOLE = 0.999  # share of a text that counts as all of it
_RARE = 12.0  # weight of a very rare word

Column = NDArray[Any]

_numerals_of_name = lru_cache(maxsize=65_536)(numerals)  # for names only: no text of a note stays in memory


@dataclass(eq=False)
class CandidateFeatures:
    """Features of p pairs of mention and candidate name."""

    batch: QueryBatch
    mention: Ints  # number of the mention, ascending (p,)
    name: Keys  # key of the name (p,)
    route: Ints  # first route that found the name (p,)
    distinct_names: Keys  # the names, each once (d,)
    name_index: Ints  # position of each name among distinct_names (p,)
    overlap: Overlap  # word overlap of each pair
    features: NDArray[np.float32]  # columns FEATURES (p, f)

    @cached_property
    def is_equal(self) -> Bools:
        """Whether the mention equals the name, exactly or in another inflection ``(p,)``."""
        return np.asarray(self.route <= INFLECTED)

    @cached_property
    def norms(self) -> list[str]:
        """Exact forms of the names ``(p,)``."""
        return self.norms_of(np.arange(len(self.name)))

    def norms_of(self, pairs: Ints) -> list[str]:
        """Return the exact forms of the names of some pairs."""
        names, inverse = np.unique(self.name_index[pairs], return_inverse=True)
        norms = self.batch.index.norms(self.distinct_names[names])
        return [norms[at] for at in inverse.tolist()]

    def queries_of(self, pairs: Ints) -> list[str]:
        """Return the exact forms of the mentions of some pairs; an inflected mention has the exact form of the name."""
        norms = self.batch.norms
        queries = [norms[at] for at in self.mention[pairs].tolist()]
        inflected = np.flatnonzero(self.route[pairs] == INFLECTED)
        for at, norm in zip(inflected.tolist(), self.norms_of(pairs[inflected]), strict=True):
            queries[at] = norm
        return queries

    @cached_property
    def sizes(self) -> Ints:
        """Numbers of letters and of blanks in the exact forms of mention and name ``(2, p, 2)``."""
        queries = np.array([(len(norm), norm.count(" ")) for norm in self.batch.norms], np.int64).reshape(-1, 2)
        names = self.batch.index.sizes(self.distinct_names)[self.name_index]
        sizes: Ints = np.stack([queries[self.mention], names])
        inflected = self.route == INFLECTED
        sizes[0, inflected] = sizes[1, inflected]
        return sizes

    @cached_property
    def entries(self) -> NameEntries:
        """The entries of ``distinct_names``."""
        return self.batch.index.entries(self.distinct_names, self.batch.selection)

    @cached_property
    def entry(self) -> tuple[Ints, Ints]:
        """For each entry of each pair, the number of the pair and the number of the entry ``(e,)``."""
        starts = np.searchsorted(self.entries.position, np.arange(len(self.distinct_names) + 1))
        return RaggedArray(starts).take(self.name_index)


FeatureGroup = Callable[[CandidateFeatures], Sequence[Column]]
"""Computes columns ``(p,)``, in the order of their names in :data:`FEATURE_GROUPS`."""


def _forms(pairs: CandidateFeatures) -> Sequence[Column]:
    return pairs.route == EXACT, pairs.route == INFLECTED


def _embeddings(pairs: CandidateFeatures) -> Sequence[Column]:
    """Cosines: ``cosine`` of the name; ``cosine_gap``, its difference from the best name of the mention;
    ``concept_cosine`` of the mean of all names of the concept, the highest if a name has several concepts.
    """
    # Faiss rounds differently for another number of queries; products by pair do not depend on the batch
    batch, index = pairs.batch, pairs.batch.index
    inflected = np.flatnonzero(pairs.route == INFLECTED)
    names, mention = index.vectors(pairs.distinct_names), pairs.mention.copy()
    mention[inflected] = len(batch.vectors) + np.arange(len(inflected))
    mentions = np.concatenate([batch.vectors, names[pairs.name_index[inflected]]])
    cosine = row_products(names, pairs.name_index, mentions, mention)
    pair, entry = pairs.entry
    concepts, concept = np.unique(pairs.entries.concept, return_inverse=True)
    means = index.means(concepts).astype(np.float32)
    of_concept = np.full(len(mention), -1, dtype=np.float32)
    np.maximum.at(of_concept, pair, row_products(means, concept[entry], mentions, mention[pair]))
    best = np.full(len(batch.texts), -1, dtype=np.float32)
    np.maximum.at(best, pairs.mention, cosine)
    gap = cosine - best[pairs.mention]
    return cosine, np.maximum(cosine, 0) ** 2, gap, of_concept, np.maximum(of_concept, 0) ** 2


def _spelling(pairs: CandidateFeatures) -> Sequence[Column]:
    query, name = pairs.sizes[:, :, 0]
    # a difference in length is a lower bound of the number of errors
    possible = np.flatnonzero((np.abs(query - name) <= (1 - _CUTOFF) * np.maximum(query, name)) & ~pairs.is_equal)
    similarity = pairs.is_equal.astype(np.float32)
    similarity[possible] = process.cpdist(
        pairs.queries_of(possible), pairs.norms_of(possible), scorer=OSA.normalized_similarity, score_cutoff=_CUTOFF,
        dtype=np.float32,
    )  # fmt: skip
    return (np.maximum(0, (similarity - _MIN_SIMILARITY) / (1 - _MIN_SIMILARITY)),)


def _numbers(pairs: CandidateFeatures) -> Sequence[Column]:
    batch = pairs.batch
    ids = {frozenset[str](): 0}  # of sets of numerals
    of_mention = [numerals(norm) if has_number(norm) else frozenset[str]() for norm in batch.norms]
    numbered = np.flatnonzero(batch.index.numbered(pairs.distinct_names))
    of_name = np.zeros(len(pairs.distinct_names), np.int64)
    norms = batch.index.norms(pairs.distinct_names[numbered])
    of_name[numbered] = [ids.setdefault(_numerals_of_name(norm), len(ids)) for norm in norms]
    own = np.array([ids.setdefault(numbers, len(ids)) for numbers in of_mention], np.int64)
    return ((own[pairs.mention] != of_name[pairs.name_index]) & (pairs.route != INFLECTED),)


def _lengths(pairs: CandidateFeatures) -> Sequence[Column]:
    """Log ratios: ``length`` of the letters, unsigned; ``more_words`` and ``fewer_words`` that the name has."""
    letters, words = np.maximum(pairs.sizes[:, :, 0], 1), pairs.sizes[:, :, 1] + 1
    more = np.log(words[1] / words[0])
    return np.abs(np.log(letters[0] / letters[1])), np.maximum(more, 0), np.maximum(-more, 0)


def _words(pairs: CandidateFeatures) -> Sequence[Column]:
    """Overlap of word families: ``mention_covered`` and ``name_covered``, covered share of each; ``same_words``, both
    are covered completely; ``more`` and ``fewer``, weight of the rarest uncovered word of name and mention; ``lacks``,
    only the mention is about a finding.
    """
    overlap, equal = pairs.overlap, pairs.is_equal
    mention, name = (np.where(equal, np.float32(1), share) for share in (overlap.mention, overlap.name))
    more, fewer = (np.where(equal, np.float32(0), weight) / _RARE for weight in (overlap.more, overlap.fewer))
    same = (mention > _WHOLE) & (name > _WHOLE)
    return mention, name, same, mention * name, more, fewer, overlap.opposed & ~equal, overlap.lacks_finding & ~equal


FEATURE_GROUPS: dict[FeatureGroup, tuple[str, ...]] = {
    _forms: ("exact", "inflected"),
    _embeddings: ("cosine", "cosine_squared", "cosine_gap", "concept_cosine", "concept_cosine_squared"),
    _spelling: ("spelling",),
    _numbers: ("numbers_differ",),
    _words: ("mention_covered", "name_covered", "same_words", "both", "more", "fewer", "opposed", "lacks"),
    _lengths: ("length", "more_words", "fewer_words"),
}
"""Functions that compute features, and the names of their columns."""
FEATURES = tuple(name for names in FEATURE_GROUPS.values() for name in names)
"""Names of the columns of :attr:`CandidateFeatures.features`, in order."""


def compute_features(batch: QueryBatch) -> CandidateFeatures:
    """Find candidate names for distinct mentions, and compute the features of each pair."""
    mention, name, route = find_candidates(batch)
    distinct_names, name_index = np.unique(name, return_inverse=True)
    overlap = batch.index.overlap(batch.word_features, mention, distinct_names, name_index)
    # transposed: each column is contiguous
    features = np.zeros((len(FEATURES), len(name)), dtype=np.float32).T
    pairs = CandidateFeatures(batch, mention, name, route, distinct_names, name_index, overlap, features)
    if len(name):
        for i, column in enumerate(column for compute in FEATURE_GROUPS for column in compute(pairs)):
            features[:, i] = column
    return pairs
