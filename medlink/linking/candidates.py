"""The first stage: for each mention the names that it may stand for, and how they were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from medlink.index import ConceptIndex
from medlink.index.keys import Keys
from medlink.index.names import Selections
from medlink.index.slots import Slots
from medlink.language.lexicon.reading import FamilyReader
from medlink.language.text import Inflector, normalise
from medlink.models import Encoder

ROUTES = ("exact", "inflected", "words", "dense", "learned")
"""How a name was found, in the order in which the routes are told apart: the first that found it is named. What was
taught is found by no name."""
EXACT, INFLECTED, WORDS, DENSE, LEARNED = range(len(ROUTES))
WIDTH = 24
"""Names that the words and the dense route bring each, at least."""

Found = tuple[NDArray[np.int64], Keys, NDArray[np.int64]]
"""Pairs of mention and name: number of the mention ``(p,)``, name ``(p,)``, route ``(p,)`` as a number in ROUTES."""


@dataclass(eq=False)
class Asked:
    """A batch of distinct mentions ``texts``, with all that the routes need to answer.

    ``languages`` are ``None`` where not known; ``selection`` are the names that may be candidates, of which the words
    and the dense route bring ``width`` each. ``found`` gives the names that a mention is, with their routes, where the
    caller has them, ``reader`` is one of the index that met the words of the mentions before.
    """

    index: ConceptIndex
    encoder: Encoder
    texts: Sequence[str]
    languages: Sequence[str | None]
    selection: Selections | None = None
    width: int = WIDTH
    found: Sequence[Mapping[float, str] | None] | None = None
    reader: FamilyReader | None = None

    @cached_property
    def norms(self) -> list[str]:
        """Exact forms of the mentions."""
        return [normalise(text) for text in self.texts]

    @cached_property
    def named(self) -> list[Mapping[float, str]]:
        """For each mention the names that it is, to the letter or in another inflection, with their routes."""
        named: list[Mapping[float, str]] = []
        inflector = lru_cache(Inflector)  # of this batch alone: they remember words of notes
        for i, (text, language, norm) in enumerate(zip(self.texts, self.languages, self.norms, strict=True)):
            known = None if self.found is None else self.found[i]
            if known is None:
                known = self.index.lookup(text, language, self.selection, norm=norm, inflector=inflector)
            elif self.selection is not None:
                known = {name: route for name, route in known.items() if self.index.selected(name, self.selection)}
            named.append(known)
        return named

    @cached_property
    def names(self) -> Keys:
        """For each mention ``(n,)`` the name that it is, NaN for none.

        What is one name to the letter and another in another inflection is the first.
        """
        return np.array([min(found, key=lambda at: (found[at] != "exact", at), default=np.nan) for found in self.named])

    @cached_property
    def unnamed(self) -> NDArray[np.int64]:
        """Numbers of the mentions that are no name."""
        return np.flatnonzero(np.isnan(self.names))

    @cached_property
    def said(self) -> Slots:
        """What the mentions say, word by word."""
        return self.index.read(self.texts, self.languages, self.reader)

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """Embeddings ``(n, dimension)`` of the mentions: that of the name that a mention is, which needs no encoder."""
        vectors = np.empty((len(self.texts), self.encoder.dimension), dtype=np.float32)
        is_name = ~np.isnan(self.names)
        vectors[is_name] = self.index.vectors(self.names[is_name])
        vectors[self.unnamed] = self.encoder.encode([self.texts[i] for i in self.unnamed.tolist()])
        return vectors

    @cached_property
    def nearest(self) -> tuple[NDArray[np.int64], Keys]:
        """The mentions that are no name and have an embedding, and the names nearest to each ``(m, width)``."""
        embedded = self.unnamed[self.vectors[self.unnamed].any(axis=1)]  # what has no letter has none
        return embedded, self.index.search(self.vectors[embedded], self.width, self.selection)[0]


def forms(asked: Asked) -> Found:
    """The names that a mention is, to the letter or in another inflection."""
    pairs = [(i, name, ROUTES.index(route)) for i, found in enumerate(asked.named) for name, route in found.items()]
    mention, name, route = zip(*pairs, strict=True) if pairs else ((), (), ())
    return np.array(mention, np.int64), np.array(name, np.float64), np.array(route, np.int64)


def words(asked: Asked) -> Found:
    """The names that share most words by their families, for mentions that are no name."""
    position, name = asked.index.by_words(asked.said, asked.unnamed, asked.width, asked.selection)
    return asked.unnamed[position], name, np.full(len(name), WORDS)


def dense(asked: Asked) -> Found:
    """The nearest names by embedding; of a mention that is a name those that the index keeps as nearest to it."""
    embedded, found = asked.nearest
    position, column = np.nonzero(~np.isnan(found))
    named = np.flatnonzero(~np.isnan(asked.names))
    place, near = asked.index.near(asked.names[named], asked.width // 3, asked.selection)
    mention = np.concatenate([embedded[position], named[place]])
    return mention, np.concatenate([found[position, column], near]), np.full(len(mention), DENSE)


def candidates(asked: Asked) -> Found:
    """What all routes bring, by mention and name; each pair once, by its first route."""
    with ThreadPoolExecutor(1) as beside:
        _ = asked.vectors
        # Faiss needs no Python: meanwhile the words are read
        searched = beside.submit(lambda: asked.nearest)
        named, sharing = forms(asked), words(asked)
        searched.result()
    columns = zip(named, sharing, dense(asked), strict=True)
    mention, name, route = (np.concatenate(column) for column in columns)
    order = np.lexsort((route, name, mention))
    mention, name, route = mention[order], name[order], route[order]
    first = np.ones(len(name), dtype=bool)
    first[1:] = (np.diff(mention) != 0) | (np.diff(name) != 0)
    return mention[first], name[first], route[first]
