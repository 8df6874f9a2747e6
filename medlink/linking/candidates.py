"""The first stage: for each mention the names that it may stand for, and how they were found."""

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
from medlink.index.word_overlap import Slots
from medlink.language.exact import normalise_all
from medlink.models import Encoder

ROUTES = ("exact", "inflected", "words", "dense", "learned")
"""How a name was found, in the order in which the routes are told apart: the first that found it is named. What was
taught is found by no name."""
EXACT, INFLECTED, WORDS, DENSE, LEARNED = range(len(ROUTES))
WIDTH = 24
"""Names that the words and the dense route bring each, at least."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A stretch of text to link.

    ``expanded`` is the long form of an abbreviation where the text gives one: it is linked in place of ``text``.
    ``found`` is what :meth:`medlink.index.ConceptIndex.find` found there: ``text`` is not looked up again. ``likely``
    is how likely its best concept is right where that was judged by the text around it: the score of that concept.
    ``taught`` is the id of the concept that it is known to be: the first candidate, unless it may be none.
    """

    text: str
    language: str | None = None
    expanded: str | None = None
    found: Match | None = None
    likely: float | None = None
    taught: str | None = None


class Pairs(NamedTuple):
    """Pairs ``(p,)`` of the number of a mention and the key of a name, with the number of the route that found it."""

    mention: NDArray[np.int64]
    name: Keys
    route: NDArray[np.int64]


@dataclass(eq=False)
class QueryBatch:
    """A batch of distinct mentions ``texts``, with all that the routes need.

    ``languages`` are ``None`` where not known; ``selection`` are the names that may be candidates, of which the words
    and the dense route bring ``width`` each. ``found`` gives the names that a mention is, with their routes, where the
    caller has them.
    """

    index: ConceptIndex
    encoder: Encoder
    texts: Sequence[str]
    languages: Sequence[str | None]
    selection: Selections | None = None
    width: int = WIDTH
    found: Sequence[Mapping[int, str] | None] | None = None

    @cached_property
    def norms(self) -> list[str]:
        """Exact forms of the mentions."""
        return normalise_all(self.texts)

    @cached_property
    def named(self) -> list[Mapping[int, str]]:
        """For each mention the names that it is, to the letter or in another inflection, with their routes."""
        named = []
        for at, text in enumerate(self.texts):
            found = None if self.found is None else self.found[at]
            if found is None:
                found = self.index.lookup(text, self.languages[at], self.selection, norm=self.norms[at])
            elif self.selection is not None:
                found = {name: route for name, route in found.items() if self.index.selected(name, self.selection)}
            named.append(found)
        return named

    @cached_property
    def names(self) -> Keys:
        """For each mention ``(n,)`` the name that it is, -1 for none.

        What is one name to the letter and another in another inflection is the first.
        """
        return np.array(
            [min(found, key=lambda at: (found[at] != "exact", at), default=-1) for found in self.named], np.int64
        )

    @cached_property
    def unnamed(self) -> NDArray[np.int64]:
        """Numbers of the mentions that are no name."""
        return np.flatnonzero(self.names < 0)

    @cached_property
    def slots(self) -> Slots:
        """The mentions word by word."""
        return self.index.read(self.texts, self.languages)

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """Embeddings ``(n, dimension)`` of the mentions: that of the name that a mention is, which needs no encoder."""
        vectors = np.empty((len(self.texts), self.encoder.dimension), dtype=np.float32)
        is_name = self.names >= 0
        vectors[is_name] = self.index.vectors(self.names[is_name])
        if len(self.unnamed):
            vectors[self.unnamed] = self.encoder.encode([self.texts[i] for i in self.unnamed.tolist()])
        return vectors

    def by_form(self) -> Pairs:
        """The names that a mention is, to the letter or in another inflection."""
        pairs = [(i, name, ROUTES.index(route)) for i, found in enumerate(self.named) for name, route in found.items()]
        mention, name, route = zip(*pairs, strict=True) if pairs else ((), (), ())
        return Pairs(np.array(mention, np.int64), np.array(name, np.int64), np.array(route, np.int64))

    def by_words(self) -> Pairs:
        """The names that share most words by their families, for mentions that are no name."""
        position, name = self.index.by_words(self.slots, self.unnamed, self.width, self.selection)
        return _found(self.unnamed[position], name, WORDS)

    def near_names(self) -> Pairs:
        """The names that the index keeps as nearest to the name that a mention is."""
        named = np.flatnonzero(self.names >= 0)
        place, near = self.index.near(self.names[named], self.width // 3, self.selection)
        return _found(named[place], near, DENSE)

    def nearest(self) -> Pairs:
        """The nearest names by embedding to each mention that is no name and has an embedding."""
        embedded = self.unnamed[self.vectors[self.unnamed].any(axis=1)]  # what has no letter has none
        names = self.index.search(self.vectors[embedded], self.width, self.selection)[0]
        position, column = np.nonzero(names >= 0)
        return _found(embedded[position], names[position, column], DENSE)


def _found(mention: NDArray[np.int64], name: Keys, route: int) -> Pairs:
    return Pairs(mention, name, np.full(len(name), route))


def candidates(batch: QueryBatch) -> Pairs:
    """What all routes bring, by mention and name; each pair once, by its first route."""
    with ThreadPoolExecutor(1) as beside:
        _ = batch.vectors
        # Faiss needs no Python: meanwhile the words are read
        nearest = beside.submit(batch.nearest)
        routes = [batch.by_form(), batch.by_words(), batch.near_names()]
        routes.append(nearest.result())
    mention, name, route = (np.concatenate(column) for column in zip(*routes, strict=True))
    order = np.lexsort((route, name, mention))
    mention, name, route = mention[order], name[order], route[order]
    first = np.ones(len(name), dtype=bool)
    first[1:] = (np.diff(mention) != 0) | (np.diff(name) != 0)
    return Pairs(mention[first], name[first], route[first])
