"""The evidence for each candidate name, gathered by all routes at once and written as numbers."""

from __future__ import annotations

import re
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
from medlink.models import Encoder
from medlink.text import normalise, numerals

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
``cosine_gap`` what it lacks to the best name of the mention, ``nearest`` that it is that best one,
``concept_cosine`` that of the mean embedding of all names of the concept; ``ratio``, ``token_sort``, ``token_set``
and ``prefix`` are rapidfuzz's and Jaro-Winkler's likeness of the strings, ``spelling`` is above 0 only where
optimal string alignment leaves a typing error's distance; ``compact`` that of the strings without blanks (German
compounds); ``numbers_differ`` that they speak of other numbers; ``length`` the logarithm of the ratio of their
lengths, without sign, ``more_words`` and ``fewer_words`` that of their numbers of words, where the name has more or
fewer.
"""

_WIDTH = 24  # names that the lexical and the dense route bring each
# Share of letters from which on two strings may be one with a typing error (one error in five letters).
_ALIKE = 0.8
_MAYBE_NUMBER = re.compile(r"\d|\b[ivx]+\b")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Candidate names of a batch of mentions, one row per pair of mention and name.

    ``mention (p,)`` counts up; ``row (p,)`` is the name; ``features (p, len(FEATURES))``; ``route (p,)`` says how the
    name was found first.
    """

    mention: NDArray[np.int64]
    row: NDArray[np.int64]
    features: NDArray[np.float32]
    route: list[str]


@lru_cache(maxsize=65_536)
def _numbers(norm: str) -> frozenset[str]:
    return numerals(norm) if _MAYBE_NUMBER.search(norm) else frozenset()


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
    measure, whatever route found it. A mention that is a name to the letter needs no other: for it a third of the
    dense names are enough to show what else there is.

    Args:
        index: the concept index.
        encoder: the encoder the index was built with.
        texts: n mentions.
        languages: their languages, ``None`` where not known.
        selection: names that may be candidates.
        width: names that the lexical and the dense route bring each.
    """
    norms = [normalise(text) for text in texts]
    forms = [
        {
            row: route
            for row, route in index.dictionary.lookup(text, language).items()
            if selection is None or selection.rows[row]
        }
        for text, language in zip(texts, languages, strict=True)
    ]
    # a mention that is a name has the embedding of that name, which the index holds already
    same = [next((row for row, route in sorted(found.items()) if route == "exact"), None) for found in forms]
    exact = [row is not None for row in same]
    known = np.array(exact, dtype=bool)
    vectors = np.empty((len(texts), index.dense.dimension), dtype=np.float32)
    vectors[known] = index.dense.vectors(np.array([row for row in same if row is not None], dtype=np.int64))
    vectors[~known] = encoder.encode([text for text, yes in zip(texts, exact, strict=True) if not yes])
    narrow = iter(index.dense.search(vectors[known], width // 3, selection)[0].tolist())
    wide = iter(index.dense.search(vectors[~known], width, selection)[0].tolist())
    lexical = iter(
        index.lexical.search([text for text, yes in zip(texts, exact, strict=True) if not yes], width, selection)
    )
    pairs: list[tuple[int, int, str]] = []  # mention, row, route
    for i, routes in enumerate(forms):
        if not exact[i]:
            for row in next(lexical)[0].tolist():
                routes.setdefault(row, "lexical")
        near = next(narrow if exact[i] else wide)
        if vectors[i].any():
            for row in near:
                if row >= 0:
                    routes.setdefault(row, "dense")
        pairs += ((i, row, routes[row]) for row in sorted(routes))
    mention = np.array([pair[0] for pair in pairs], dtype=np.int64)
    row = np.array([pair[1] for pair in pairs], dtype=np.int64)
    route = [pair[2] for pair in pairs]
    # Faiss rounds its scores differently for another number of queries; pair by pair they are always the same.
    found = index.dense.vectors(row)
    asked = vectors[mention]
    inflected = np.array([kind == "inflected" for kind in route], dtype=bool)
    asked[inflected] = found[inflected]
    cosine = np.einsum("ij,ij->i", found, asked)
    concept_cosine = index.concept_cosines(row, asked, selection)
    features = _measure(index, norms, mention, row, route, cosine, concept_cosine)
    return Evidence(mention, row, features, route)


def _measure(
    index: ConceptIndex,
    norms: Sequence[str],
    mention: NDArray[np.int64],
    row: NDArray[np.int64],
    route: Sequence[str],
    cosine: NDArray[np.float32],
    concept_cosine: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Columns of FEATURES for every pair."""
    names = [index.names.norms[i] for i in row.tolist()]
    # A name in another inflection is that name: its strings are compared as if it had been written so.
    queries = [
        name if found == "inflected" else norms[i]
        for i, name, found in zip(mention.tolist(), names, route, strict=True)
    ]
    out = np.zeros((len(queries), len(FEATURES)), dtype=np.float32)
    if not queries:
        return out
    column = {name: i for i, name in enumerate(FEATURES)}

    def paired(one: Sequence[str], other: Sequence[str], scorer: Any) -> NDArray[np.float32]:
        found: NDArray[np.float32] = process.cpdist(one, other, scorer=scorer, dtype=np.float32)
        return found

    out[:, column["exact"]] = [found == "exact" for found in route]
    out[:, column["inflected"]] = [found == "inflected" for found in route]
    out[:, column["cosine"]] = cosine
    out[:, column["cosine_squared"]] = np.maximum(cosine, 0) ** 2
    best = np.full(len(norms), -1, dtype=np.float32)
    np.maximum.at(best, mention, cosine)
    out[:, column["cosine_gap"]] = cosine - best[mention]
    out[:, column["nearest"]] = cosine == best[mention]
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
    wanted = [_numbers(norm) for norm in norms]
    out[:, column["numbers_differ"]] = [
        kind != "inflected" and wanted[i] != _numbers(name)
        for i, name, kind in zip(mention.tolist(), names, route, strict=True)
    ]
    letters, counts = (
        np.array([[max(1, measure(q)), max(1, measure(n))] for q, n in zip(queries, names, strict=True)])
        for measure in (len, lambda text: text.count(" ") + 1)
    )
    out[:, column["length"]] = np.abs(np.log(letters[:, 0] / letters[:, 1]))
    words = np.log(counts[:, 1] / counts[:, 0])
    out[:, column["more_words"]] = np.maximum(words, 0)
    out[:, column["fewer_words"]] = np.maximum(-words, 0)
    return out
