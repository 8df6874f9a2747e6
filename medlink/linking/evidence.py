"""The evidence for each candidate name, gathered by all routes at once and written as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA, JaroWinkler

from medlink.index import ConceptIndex
from medlink.index.names import Selection
from medlink.language.text import may_speak_of_numbers, normalise, numerals
from medlink.models import Encoder

FEATURES = (
    "exact",
    "inflected",
    "cosine",
    "cosine_squared",
    "cosine_gap",
    "nearest",
    "concept_cosine",
    "concept_cosine_squared",
    "ratio",
    "token_sort",
    "token_set",
    "compact",
    "prefix",
    "spelling",
    "numbers_differ",
    "length",
    "more_words",
    "fewer_words",
)
"""Names of the columns of :attr:`Evidence.features`, in order.

``exact`` and ``inflected`` say that the forms are the same; ``cosine`` is that of the name's embedding,
``cosine_gap`` what it lacks to the best name of the mention, ``nearest`` that this is next to nothing,
``concept_cosine`` that of the mean embedding of all names of the concept; ``ratio``, ``token_sort``, ``token_set``
and ``prefix`` are rapidfuzz's and Jaro-Winkler's likeness of the strings, ``spelling`` is above 0 only where
optimal string alignment leaves a typing error's distance; ``compact`` that of the strings without blanks (German
compounds); ``numbers_differ`` that they speak of other numbers; ``length`` the logarithm of the ratio of their
lengths, without sign, ``more_words`` and ``fewer_words`` that of their numbers of words, where the name has more or
fewer.
"""

ROUTES = ("exact", "inflected", "lexical", "dense")
"""How a name was found, in the order in which the routes are told apart: the first that found it is named."""

_EXACT, _INFLECTED, _LEXICAL, _DENSE = range(len(ROUTES))
_WIDTH = 24  # names that the lexical and the dense route bring each
# Share of letters from which on two strings may be one with a typing error (one error in five letters).
_ALIKE = 0.8
# Cosines that differ by less are one: 16 bits for each weight leave unit vectors of length 0.9998 to 1.0002, so that
# of a name and its plural, which are both the mention, chance would say which is the nearest.
_SAME = 4e-4


@dataclass(frozen=True, slots=True)
class Evidence:
    """Candidate names of a batch of mentions, one row per pair of mention and name.

    ``mention (p,)`` counts up; ``row (p,)`` is the name; ``features (p, len(FEATURES))``; ``route (p,)`` says how the
    name was found first, as a number in :data:`ROUTES`.
    """

    mention: NDArray[np.int64]
    row: NDArray[np.int64]
    features: NDArray[np.float32]
    route: NDArray[np.int64]


_numbers = lru_cache(maxsize=65_536)(numerals)


def gather(
    index: ConceptIndex,
    encoder: Encoder,
    texts: Sequence[str],
    languages: Sequence[str | None],
    selection: Selection | None = None,
    *,
    width: int = _WIDTH,
) -> Evidence:
    """Find candidate names for distinct mentions and measure each pair.

    Routes: exact and inflected lookup, ``width`` names by n-grams, ``width`` by embedding. Every pair gets every
    measure, whatever route found it. A mention that is a name, to the letter or in another inflection, needs no
    search: the index keeps the nearest names of every name, which show what else there is.

    Args:
        index: the concept index.
        encoder: the encoder the index was built with.
        texts: n mentions.
        languages: their languages, ``None`` where not known.
        selection: names that may be candidates.
        width: names that the lexical and the dense route bring each.
    """
    norms = [normalise(text) for text in texts]
    mention: list[int] = []
    row: list[int] = []
    route: list[int] = []
    same = np.full(len(texts), -1, dtype=np.int64)
    for i, (text, language, norm) in enumerate(zip(texts, languages, norms, strict=True)):
        found = index.dictionary.lookup(text, language, norm=norm)
        if selection is not None:
            found = {at: kind for at, kind in found.items() if selection.rows[at]}
        if found:
            # what is one name to the letter and another in another inflection is the first
            same[i] = min(found, key=lambda at: (found[at] != "exact", at))
            mention += [i] * len(found)
            row += found
            route += [_EXACT if kind == "exact" else _INFLECTED for kind in found.values()]
    named, unnamed = np.flatnonzero(same >= 0), np.flatnonzero(same < 0)
    vectors = np.empty((len(texts), index.dense.dimension), dtype=np.float32)
    vectors[named] = index.dense.vectors(same[named])
    others = [texts[i] for i in unnamed.tolist()]
    vectors[unnamed] = encoder.encode(others)
    parts = [(np.array(mention, np.int64), np.array(row, np.int64), np.array(route, np.int64))]
    for place, (rows, _) in zip(unnamed.tolist(), index.lexical.search(others, width, selection), strict=True):
        parts.append((np.full(len(rows), place), rows, np.full(len(rows), _LEXICAL)))
    embedded = unnamed[vectors[unnamed].any(axis=1)]  # what has no letter has no embedding
    for places, rows in (
        (embedded, index.dense.search(vectors[embedded], width, selection)[0]),
        (named, index.nearest(same[named], width // 3, selection)),
    ):
        at = np.repeat(places, rows.shape[1])
        kept = rows.ravel() >= 0
        parts.append((at[kept], rows.ravel()[kept].astype(np.int64), np.full(int(kept.sum()), _DENSE)))
    pairs = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return _measured(index, norms, vectors, pairs[0], pairs[1], pairs[2], selection)


def _measured(
    index: ConceptIndex,
    norms: Sequence[str],
    vectors: NDArray[np.float32],
    mention: NDArray[np.int64],
    row: NDArray[np.int64],
    route: NDArray[np.int64],
    selection: Selection | None,
) -> Evidence:
    """The pairs in order, each once by its first route, with their measures."""
    order = np.lexsort((route, row, mention))
    mention, row, route = mention[order], row[order], route[order]
    first = np.ones(len(row), dtype=bool)
    first[1:] = (np.diff(mention) != 0) | (np.diff(row) != 0)
    mention, row, route = mention[first], row[first], route[first]
    # Faiss rounds its scores differently for another number of queries; pair by pair they are always the same.
    found = index.dense.vectors(row)
    asked = vectors[mention]
    inflected = route == _INFLECTED
    asked[inflected] = found[inflected]
    cosine = np.einsum("ij,ij->i", found, asked)
    concept_cosine = index.concept_cosines(row, asked, selection)
    return Evidence(mention, row, _measure(index, norms, mention, row, route, cosine, concept_cosine), route)


def _measure(
    index: ConceptIndex,
    norms: Sequence[str],
    mention: NDArray[np.int64],
    row: NDArray[np.int64],
    route: NDArray[np.int64],
    cosine: NDArray[np.float32],
    concept_cosine: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Columns of FEATURES for every pair."""
    names = index.names.norms.many(row)
    queries = [norms[i] for i in mention.tolist()]
    # A name in another inflection is that name: its strings are compared as if it had been written so.
    for i in np.flatnonzero(route == _INFLECTED).tolist():
        queries[i] = names[i]
    out = np.zeros((len(queries), len(FEATURES)), dtype=np.float32)
    if not queries:
        return out
    column = {name: i for i, name in enumerate(FEATURES)}

    def paired(one: Sequence[str], other: Sequence[str], scorer: Any) -> NDArray[np.float32]:
        """A measure of rapidfuzz for each pair."""
        found: NDArray[np.float32] = process.cpdist(one, other, scorer=scorer, dtype=np.float32)
        return found

    out[:, column["exact"]] = route == _EXACT
    out[:, column["inflected"]] = route == _INFLECTED
    out[:, column["cosine"]] = cosine
    out[:, column["cosine_squared"]] = np.maximum(cosine, 0) ** 2
    best = np.full(len(norms), -1, dtype=np.float32)
    np.maximum.at(best, mention, cosine)
    out[:, column["cosine_gap"]] = cosine - best[mention]
    out[:, column["nearest"]] = cosine > best[mention] - _SAME
    out[:, column["concept_cosine"]] = concept_cosine
    out[:, column["concept_cosine_squared"]] = np.maximum(concept_cosine, 0) ** 2
    out[:, column["ratio"]] = paired(queries, names, fuzz.ratio) / 100
    out[:, column["token_sort"]] = paired(queries, names, fuzz.token_sort_ratio) / 100
    out[:, column["token_set"]] = paired(queries, names, fuzz.token_set_ratio) / 100
    out[:, column["compact"]] = (
        paired([q.replace(" ", "") for q in queries], [n.replace(" ", "") for n in names], fuzz.ratio) / 100
    )
    out[:, column["prefix"]] = paired(queries, names, JaroWinkler.normalized_similarity)
    alike = paired(queries, names, OSA.normalized_similarity)
    out[:, column["spelling"]] = np.maximum(0, (alike - _ALIKE) / (1 - _ALIKE))
    mention_numbered = np.array([may_speak_of_numbers(norm) for norm in norms], dtype=bool)
    maybe = (index.names.numbered[row] | mention_numbered[mention]) & (route != _INFLECTED)
    for i in np.flatnonzero(maybe).tolist():
        out[i, column["numbers_differ"]] = _numbers(queries[i]) != _numbers(names[i])
    letters, counts = (
        np.array([[max(1, measure(text)) for text in texts] for texts in (queries, names)])
        for measure in (len, lambda text: text.count(" ") + 1)
    )
    out[:, column["length"]] = np.abs(np.log(letters[0] / letters[1]))
    words = np.log(counts[1] / counts[0])
    out[:, column["more_words"]] = np.maximum(words, 0)
    out[:, column["fewer_words"]] = np.maximum(-words, 0)
    return out
