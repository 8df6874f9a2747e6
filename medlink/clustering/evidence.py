"""What speaks for and against two terms being one concept, as numbers, and the probability that they are.

One cosine does not tell a synonym from a sibling: what both say by their words, what is left over, numbers, initials
and how near other terms are do so together. The weights were fitted by ``benchmarks/fit_clusters.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA

from medlink.clustering.guards import Guards
from medlink.clustering.initials import ENOUGH, Initials
from medlink.index.said import SaidTexts
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.tags import base
from medlink.language.text import is_short, normalise

FEATURES = (
    "cosine",
    "cosine_squared",
    "gap_least",
    "gap_most",
    "crowd_least",
    "crowd_most",
    "said",
    "said_cosine",
    "same_words",
    "left_least",
    "left_most",
    "left_cosine",
    "lacks",
    "spelling",
    "compact",
    "numbers_same",
    "numbers_more",
    "initials",
    "initials_long",
    "short",
    "short_cosine",
    "length",
    "foreign",
    "foreign_cosine",
)
"""Names of the columns of :meth:`Evidence.measure`, in order."""
_USUAL = 0.45  # cosine at the ranks below where a term's neighbourhood is neither crowded nor empty
_RANKS = slice(5, 25)  # ranks of neighbours that are mostly other concepts
_ALIKE = 0.8  # share of letters from which on two strings may be one with a typing error
_WHOLE = 0.999  # share of a text from which on nothing is left of it
_CODE = 9  # characters of the longest term with a digit that is a code
_LONG = 5  # letters of an abbreviation that is hardly there by accident

Numbers = NDArray[Any]


def crowding(cosines: NDArray[np.float32]) -> NDArray[np.float64]:
    """``(n,)`` how near the sixth to the twenty-fifth neighbour of each term are, on average.

    The local scaling of Conneau et al. 2018 ("Word translation without parallel data") with later ranks, since the
    first are synonyms here. ``cosines (n, k)`` are those to the nearest terms, best first, below 0 where there is none;
    neighbours that are missing count as a usual neighbourhood, 0.45.

    >>> crowding(np.full((1, 30), 0.6, dtype=np.float32)).round(3).tolist()
    [0.6]
    >>> crowding(np.full((1, 3), 0.6, dtype=np.float32)).tolist()
    [0.45]
    """
    width = _RANKS.stop - _RANKS.start
    found = cosines[:, _RANKS]
    there = found >= 0
    total = np.where(there, found, 0).sum(axis=1, dtype=np.float64)
    return np.asarray((total + _USUAL * (width - there.sum(axis=1))) / width)


class Evidence:
    """Measures pairs of n terms of one list.

    Args:
        texts, languages: n terms with their languages, BCP 47 or ``""``.
        guards: their guard values.
        cosines: ``(n, k)`` those to the nearest terms of each, as :func:`medlink.index.selfjoin.nearest` gives them.

    Attributes:
        initials: pairs of which one is an abbreviation of the other, or has one.
    """

    def __init__(
        self, texts: Sequence[str], languages: Sequence[str], guards: Guards, cosines: NDArray[np.float32]
    ) -> None:
        self._norms = [normalise(text) for text in texts]
        self._said = SaidTexts(texts, [tag or None for tag in languages], shipped_forms())
        self._guards = guards
        self._around = crowding(cosines)
        self._best = cosines.max(axis=1, initial=-1)
        tongues = {tag: place for place, tag in enumerate(dict.fromkeys(map(base, languages)))}
        self._tongue = np.array([tongues[base(tag)] if tag else -1 for tag in languages], dtype=np.int64)
        self._short = np.array([_is_code(text) for text in texts], dtype=np.int8)
        self._letters = np.array([max(1, len(norm)) for norm in self._norms])
        self._rarest = 1 + np.log((1 + len(texts)) / 2)
        self.initials = Initials(texts)

    def measure(
        self, one: NDArray[np.int64], other: NDArray[np.int64], cosines: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """``(p, len(FEATURES))`` measures of pairs of terms with their cosines; the same for both orders of a pair.

        - ``gap``: what the cosine lacks to that of the nearest term of each; ``crowd``: by how much it is above that of
          each one's later neighbours. ``least`` and ``most`` are of the two terms.
        - ``said``: share, by rarity, of the words of one that the other says, the lower one; ``same_words`` that both
          say all; ``left``: weight of the rarest word that is left over in one; ``lacks``: one alone is of a finding.
        - ``spelling``: above 0 only where a typing error is between them; ``compact``: the same letters without spaces.
        - ``numbers``: whether they share one, and whether one has a number more.
        - ``initials``: how much an abbreviation explains (:class:`medlink.clustering.initials.Initials`).
        - ``short``: how many of them are codes; ``length``: logarithm of the ratio of their letters; ``foreign``: their
          languages are known and differ.
        """
        cosine = cosines.astype(np.float64)
        said = self._said.between(one, other)
        share = np.minimum(said.mention, said.name).astype(np.float64)
        left = np.sort(np.stack([said.more, said.fewer]), axis=0) / self._rarest
        gap = np.sort(np.stack([cosine - self._best[one], cosine - self._best[other]]), axis=0)
        crowd = np.sort(np.stack([cosine - self._around[one], cosine - self._around[other]]), axis=0)
        norms = [[self._norms[at] for at in ends.tolist()] for ends in (one, other)]
        alike = process.cpdist(*norms, scorer=OSA.normalized_similarity, dtype=np.float32)
        compact = [a.replace(" ", "") == b.replace(" ", "") for a, b in zip(*norms, strict=True)]
        shared, most = self._guards.numbers(one, other)
        explained, letters = self.initials.of(one, other)
        explained = np.maximum(0, explained - ENOUGH) / (1 - ENOUGH)
        short = self._short[one] + self._short[other]
        tongues = self._tongue[one], self._tongue[other]
        foreign = (tongues[0] != tongues[1]) & (np.minimum(*tongues) >= 0)
        columns: tuple[Numbers, ...] = (
            cosine,
            np.maximum(cosine, 0) ** 2,
            *gap,
            *crowd,
            share,
            share * cosine,
            share > _WHOLE,
            *left,
            left[0] * cosine,
            said.lacks | said.adds,
            np.maximum(0, (alike - _ALIKE) / (1 - _ALIKE)),
            np.array(compact, dtype=bool),
            shared > 0,
            most > shared,
            explained,
            explained * (np.clip(letters, 2, _LONG) - 2) / (_LONG - 2),
            short,
            (short > 0) * cosine,
            np.abs(np.log(self._letters[one] / self._letters[other])),
            foreign,
            foreign * cosine,
        )
        found = np.empty((len(one), len(FEATURES)), dtype=np.float32)
        for place, column in enumerate(columns):
            found[:, place] = column
        return found


def _is_code(text: str) -> bool:
    """Whether a term is an abbreviation or a code.

    >>> [_is_code(text) for text in ("COPD", "RP67", "p53", "asthma", "type 2 diabetes")]
    [True, True, True, False, False]
    """
    return is_short(text) or (len(text) <= _CODE and any(letter.isdigit() for letter in text))


@dataclass(frozen=True, slots=True)
class Join:
    """Logistic regression over :data:`FEATURES`: a weight for each, and an offset."""

    weights: tuple[float, ...]
    offset: float

    def probability(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """``(p,)`` probability that each pair is one concept.

        >>> found = Join((2.0, *[0.0] * (len(FEATURES) - 1)), -1.0).probability(np.full((1, len(FEATURES)), 0.5))
        >>> found.tolist()
        [0.5]
        """
        total = np.full(len(features), self.offset)
        # feature by feature: a matrix product may round differently with another number of pairs
        for place, weight in enumerate(self.weights):
            total += weight * features[:, place].astype(np.float64)
        return np.asarray(1 / (1 + np.exp(-np.clip(total, -50, 50))))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"offset": self.offset, "weights": dict(zip(FEATURES, self.weights, strict=True))}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Join:
        """Read what :meth:`to_dict` gave."""
        return cls(tuple(float(raw["weights"][name]) for name in FEATURES), float(raw["offset"]))


@cache
def shipped_join() -> Join:
    """The weights that ship with medlink."""
    text = resources.files("medlink").joinpath("resources/clustering/join.json").read_text("utf-8")
    return Join.from_dict(json.loads(text))
