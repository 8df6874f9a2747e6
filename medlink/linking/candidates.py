"""First stage: find the names that each mention may mean, and record the route that found each name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index import ConceptIndex
from medlink.index.dictionary import Match
from medlink.index.names import Keys, Selections
from medlink.index.word_features import WordFeatures
from medlink.language.exact import normalise_all
from medlink.linking.arrays import Ints
from medlink.models import Encoder

Contexts = Sequence[str] | None
"""Texts around n mentions; ``None`` without contexts."""
ROUTES = ("exact", "inflected", "words", "dense", "learned")
"""Routes by which a name is found; a name found by several routes has the first of these."""
EXACT, INFLECTED, WORDS, DENSE, LEARNED = range(len(ROUTES))
MIN_K = 24
"""Minimum number of names that word overlap and dense search each return."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A span of text to link.

    Attributes:
        text: the words of the mention.
        language: BCP 47 tag, ``None`` if unknown.
        expanded: long form of an abbreviation, linked in place of ``text``.
        match: names that equal ``text``, if already looked up.
        confidence: probability that the best concept is right, given the text around the mention; it becomes the score
            of the concept.
        learned_id: id of the concept that was learned for the mention. It becomes the first candidate, unless the
            options exclude it.
    """

    text: str
    language: str | None = None
    expanded: str | None = None
    match: Match | None = None
    confidence: float | None = None
    learned_id: str | None = None


class CandidatePairs(NamedTuple):
    """Pairs ``(p,)`` of mention number and name key, with the number of the route in :data:`ROUTES`."""

    mention: Ints
    name: Keys
    route: Ints


@dataclass(eq=False)
class QueryBatch:
    """A batch of n distinct mentions."""

    index: ConceptIndex
    encoder: Encoder
    texts: Sequence[str]
    languages: Sequence[str | None]
    selection: Selections | None = None  # names that may be candidates
    k: int = MIN_K  # names that word overlap and dense search each return
    matches: Sequence[Mapping[int, str] | None] | None = None  # names equal to each mention, ``None`` to look them up

    @cached_property
    def norms(self) -> list[str]:
        return normalise_all(self.texts)

    @cached_property
    def equal_names(self) -> list[Mapping[int, str]]:
        """The names equal to each mention, exactly or in another inflection, with their routes."""
        equal = []
        for at, text in enumerate(self.texts):
            names = None if self.matches is None else self.matches[at]
            if names is None:
                names = self.index.lookup(text, self.languages[at], self.selection, norm=self.norms[at])
            elif self.selection is not None:
                names = {name: route for name, route in names.items() if self.index.selected(name, self.selection)}
            equal.append(names)
        return equal

    @cached_property
    def first_names(self) -> Keys:
        """The first name equal to each mention ``(n,)``, exact before inflected, -1 for none."""
        return np.array(
            [min(names, key=lambda name: (names[name] != "exact", name), default=-1) for names in self.equal_names],
            np.int64,
        )

    @cached_property
    def unnamed(self) -> Ints:
        """Numbers of the mentions that equal no name."""
        return np.flatnonzero(self.first_names < 0)

    @cached_property
    def word_features(self) -> WordFeatures:
        return self.index.read(self.texts, self.languages)

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """Embeddings ``(n, dimension)``; a mention equal to a name has the stored vector of that name."""
        vectors = np.empty((len(self.texts), self.encoder.dimension), dtype=np.float32)
        is_name = self.first_names >= 0
        vectors[is_name] = self.index.vectors(self.first_names[is_name])
        if len(self.unnamed):
            vectors[self.unnamed] = self.encoder.encode([self.texts[i] for i in self.unnamed.tolist()])
        return vectors

    def equal_pairs(self) -> CandidatePairs:
        """Pair the mentions with the names equal to them, exactly or in another inflection."""
        pairs = [
            (i, name, ROUTES.index(route)) for i, names in enumerate(self.equal_names) for name, route in names.items()
        ]
        mention, name, route = zip(*pairs, strict=True) if pairs else ((), (), ())
        return CandidatePairs(np.array(mention, np.int64), np.array(name, np.int64), np.array(route, np.int64))

    def word_pairs(self) -> CandidatePairs:
        """Pair the mentions that equal no name with the names that share the most of their word families."""
        position, name = self.index.by_words(self.word_features, self.unnamed, self.k, self.selection)
        return _pairs(self.unnamed[position], name, WORDS)

    def neighbour_pairs(self) -> CandidatePairs:
        """Pair the mentions equal to a name with the stored nearest neighbours of that name."""
        named = np.flatnonzero(self.first_names >= 0)
        position, near = self.index.near(self.first_names[named], self.k // 3, self.selection)
        return _pairs(named[position], near, DENSE)

    def dense_pairs(self) -> CandidatePairs:
        """Pair the mentions that equal no name with the names nearest by embedding."""
        embedded = self.unnamed[self.vectors[self.unnamed].any(axis=1)]  # a text without a letter has no embedding
        names = self.index.search(self.vectors[embedded], self.k, self.selection)[0]
        position, column = np.nonzero(names >= 0)
        return _pairs(embedded[position], names[position, column], DENSE)


def _pairs(mention: Ints, name: Keys, route: int) -> CandidatePairs:
    return CandidatePairs(mention, name, np.full(len(name), route))


def find_candidates(batch: QueryBatch) -> CandidatePairs:
    """Find the pairs of all routes, sorted by mention and name; each pair occurs once, with its first route."""
    with ThreadPoolExecutor(1) as pool:
        _ = batch.vectors
        # Faiss releases the GIL: search by embedding runs while words are compared
        dense = pool.submit(batch.dense_pairs)
        routes = [batch.equal_pairs(), batch.word_pairs(), batch.neighbour_pairs()]
        routes.append(dense.result())
    mention, name, route = (np.concatenate(column) for column in zip(*routes, strict=True))
    order = np.lexsort((route, name, mention))
    mention, name, route = mention[order], name[order], route[order]
    first = np.ones(len(name), dtype=bool)
    first[1:] = (np.diff(mention) != 0) | (np.diff(name) != 0)
    return CandidatePairs(mention[first], name[first], route[first])
