"""The first stage: for each mention the names that it may stand for, and how they were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from medlink.index import ConceptIndex
from medlink.index.keys import Keys
from medlink.index.names import Selections
from medlink.language.text import normalise
from medlink.models import Encoder

ROUTES = ("exact", "inflected", "lexical", "dense")
"""How a name was found, in the order in which the routes are told apart: the first that found it is named."""
EXACT, INFLECTED, LEXICAL, DENSE = range(len(ROUTES))
WIDTH = 24
"""Names that the lexical and the dense route bring each, at least."""

Found = tuple[NDArray[np.int64], Keys, NDArray[np.int64]]
"""Pairs of mention and name: number of the mention ``(p,)``, name ``(p,)``, route ``(p,)`` as a number in ROUTES."""


class Asked:
    """A batch of distinct mentions, with all that the routes need to answer.

    Args:
        index: the concept index.
        encoder: the encoder the index was built with.
        texts: n mentions.
        languages: their languages, ``None`` where not known.
        selection: names that may be candidates.
        width: names that the lexical and the dense route bring each.
        found: for each mention the names that it is, with their routes, where the caller has them.
    """

    def __init__(
        self,
        index: ConceptIndex,
        encoder: Encoder,
        texts: Sequence[str],
        languages: Sequence[str | None],
        selection: Selections | None = None,
        *,
        width: int = WIDTH,
        found: Sequence[Mapping[float, str] | None] | None = None,
    ) -> None:
        self.index, self.encoder, self.selection, self.width = index, encoder, selection, width
        self.texts, self.languages = texts, languages
        self.norms = [normalise(text) for text in texts]
        self._found = found

    @cached_property
    def named(self) -> list[Mapping[float, str]]:
        """For each mention the names that it is, to the letter or in another inflection, with their routes."""
        named: list[Mapping[float, str]] = []
        for i, (text, language, norm) in enumerate(zip(self.texts, self.languages, self.norms, strict=True)):
            known = None if self._found is None else self._found[i]
            if known is None:
                known = self.index.lookup(text, language, self.selection, norm=norm)
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
    def vectors(self) -> NDArray[np.float32]:
        """Embeddings ``(n, dimension)`` of the mentions: that of the name that a mention is, which needs no encoder."""
        vectors = np.empty((len(self.texts), self.encoder.dimension), dtype=np.float32)
        is_name = ~np.isnan(self.names)
        vectors[is_name] = self.index.vectors(self.names[is_name])
        vectors[self.unnamed] = self.encoder.encode([self.texts[i] for i in self.unnamed.tolist()])
        return vectors


class Route(Protocol):
    """A way from mentions to names."""

    def candidates(self, asked: Asked) -> Found:
        """Names for the mentions, in any order."""


class Forms:
    """The names that a mention is, to the letter or in another inflection."""

    def candidates(self, asked: Asked) -> Found:
        """See :class:`Route`."""
        pairs = [(i, name, ROUTES.index(route)) for i, found in enumerate(asked.named) for name, route in found.items()]
        mention, name, route = zip(*pairs, strict=True) if pairs else ((), (), ())
        return np.array(mention, np.int64), np.array(name, np.float64), np.array(route, np.int64)


class Lexical:
    """The names most alike by their n-grams, for mentions that are no name."""

    def candidates(self, asked: Asked) -> Found:
        """See :class:`Route`."""
        texts = [asked.texts[i] for i in asked.unnamed.tolist()]
        position, name = asked.index.lexical(texts, asked.width, asked.selection)
        return asked.unnamed[position], name, np.full(len(name), LEXICAL)


class Dense:
    """The nearest names by embedding; of a mention that is a name those that the index keeps as nearest to it."""

    def candidates(self, asked: Asked) -> Found:
        """See :class:`Route`."""
        embedded = asked.unnamed[asked.vectors[asked.unnamed].any(axis=1)]  # what has no letter has no embedding
        found = asked.index.search(asked.vectors[embedded], asked.width, asked.selection)[0]
        position, column = np.nonzero(~np.isnan(found))
        named = np.flatnonzero(~np.isnan(asked.names))
        place, near = asked.index.near(asked.names[named], asked.width // 3, asked.selection)
        mention = np.concatenate([embedded[position], named[place]])
        return mention, np.concatenate([found[position, column], near]), np.full(len(mention), DENSE)


DEFAULT_ROUTES: tuple[Route, ...] = (Forms(), Lexical(), Dense())


def candidates(asked: Asked, routes: Sequence[Route] = DEFAULT_ROUTES) -> Found:
    """What all routes bring, by mention and name; each pair once, by its first route."""
    found = [route.candidates(asked) for route in routes]
    mention, name, route = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((route, name, mention))
    mention, name, route = mention[order], name[order], route[order]
    first = np.ones(len(name), dtype=bool)
    first[1:] = (np.diff(mention) != 0) | (np.diff(name) != 0)
    return mention[first], name[first], route[first]
