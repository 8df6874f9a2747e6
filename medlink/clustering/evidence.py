"""What speaks for and against two terms being one concept, or one being narrower, as numbers, and the probabilities.

One cosine does not tell a synonym from a sibling: what both say by their words, what is left over and of what kind it
is, numbers, initials and how near other terms are do so together. The weights were fitted by
``benchmarks/fit_clusters.py`` on terms that people wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA, Postfix, Prefix

from medlink.clustering.guards import Guards
from medlink.clustering.initials import ENOUGH, Initials
from medlink.index.text_overlap import KINDS, SaidTexts, Side
from medlink.language.exact import normalise_all
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.tags import base
from medlink.language.text import is_short

SHARED = (
    "cosine", "cosine_squared", "gap_least", "gap_most", "crowd_least", "crowd_most", "left_cosine", "opposed",
    "alike", "spelling", "compact", "beginning", "ending", "numbers_same", "numbers_more", "initials",
    "initials_long", "initials_only", "length", "foreign", "foreign_cosine", "short_least", "short_most", "known",
    "same_words",
)  # fmt: skip
"""Names of the columns of :attr:`Pairs.shared`, which are the same for both orders of a pair."""
SIDED = ("said", "left", "unknown", "first", "last", "words", "whole", *(f"left_{kind}" for kind in KINDS))
"""Names of the columns of :attr:`Pairs.one` and :attr:`Pairs.other`, which are of one term of a pair."""
SAME = (*SHARED, *(f"{name}_least" for name in SIDED), *(f"{name}_most" for name in SIDED))
"""Names of what :attr:`Model.same` weighs."""
NARROWER = (*SHARED, *(f"narrow_{name}" for name in SIDED), "broad_unknown", "broad_words", "words_more")
"""Names of what :attr:`Model.narrower` weighs."""
_LEFT, _UNKNOWN, _WORDS, _WHOLE = (SIDED.index(name) for name in ("left", "unknown", "words", "whole"))
_USUAL = 0.55  # cosine at the ranks below in a crowded list: a short one, which has no such neighbours, joins no more
_RANKS = slice(5, 25)  # ranks of neighbours that are mostly other concepts
_ALIKE = 0.8  # share of letters from which on two strings may be one with a typing error
_ALL = 0.999  # share of a text from which on nothing is left of it
_CODE = 9  # characters of the longest term with a digit that is a code
_LONG = 5  # letters of an abbreviation that is hardly there by accident

Numbers = NDArray[Any]


def crowding(cosines: NDArray[np.float32]) -> NDArray[np.float64]:
    """``(n,)`` how near the sixth to the twenty-fifth neighbour of each term are, on average.

    The local scaling of Conneau et al. 2018 ("Word translation without parallel data") with later ranks, since the
    first are synonyms here. ``cosines (n, k)`` are those to the nearest terms, best first, below 0 where there is none;
    neighbours that are missing count as those of a crowded neighbourhood, 0.55.

    >>> crowding(np.full((1, 30), 0.6, dtype=np.float32)).round(3).tolist()
    [0.6]
    >>> crowding(np.full((1, 3), 0.6, dtype=np.float32)).round(3).tolist()
    [0.55]
    """
    width = _RANKS.stop - _RANKS.start
    found = cosines[:, _RANKS]
    there = found >= 0
    total = np.where(there, found, 0).sum(axis=1, dtype=np.float64)
    return np.asarray((total + _USUAL * (width - there.sum(axis=1))) / width)


class Pairs(NamedTuple):
    """Measures of p pairs of terms.

    Attributes:
        shared: ``(p, len(SHARED))``.
        one, other: ``(p, len(SIDED))`` of each of the two.
        may_be_narrower: ``(p, 2)`` whether each of the two says all that the other says, and more, and the other names
            a thing of its kind: *dolor lumbar* is no kind of *lumbar*, as a finding is none of a place.
    """

    shared: NDArray[np.float32]
    one: NDArray[np.float32]
    other: NDArray[np.float32]
    may_be_narrower: NDArray[np.bool_]

    def swapped(self) -> Pairs:
        """The same pairs in the other order."""
        return Pairs(self.shared, self.other, self.one, self.may_be_narrower[:, ::-1])

    def of(self, which: NDArray[Any]) -> Pairs:
        """Some of the pairs."""
        return Pairs(*(values[which] for values in self))

    def same(self) -> NDArray[np.float32]:
        """``(p, len(SAME))``."""
        return np.hstack([self.shared, np.minimum(self.one, self.other), np.maximum(self.one, self.other)])

    def narrower(self) -> NDArray[np.float32]:
        """``(p, len(NARROWER))`` of ``one`` being narrower than ``other``."""
        words = self.other[:, _WORDS, None]
        return np.hstack(
            [self.shared, self.one, self.other[:, _UNKNOWN, None], words, self.one[:, _WORDS, None] - words]
        )


class Evidence:
    """Measures pairs of n terms of one list.

    Args:
        texts, languages: n terms with their languages, BCP 47 or ``""``.
        guards: their guard values.
        cosines: ``(n, k)`` those to the nearest terms of each, as :func:`medlink.index.knn_graph.nearest` gives them.

    Attributes:
        initials: pairs of which one is an abbreviation of the other, or has one.
    """

    def __init__(
        self, texts: Sequence[str], languages: Sequence[str], guards: Guards, cosines: NDArray[np.float32]
    ) -> None:
        self._norms = normalise_all(texts)
        self._said = SaidTexts(texts, [tag or None for tag in languages], shipped_forms())
        self._guards = guards
        self._around = crowding(cosines)
        self._best = cosines.max(axis=1, initial=-1)
        tongues = {tag: place for place, tag in enumerate(dict.fromkeys(map(base, languages)))}
        self._tongue = np.array([tongues[base(tag)] if tag else -1 for tag in languages], dtype=np.int64)
        self._short = np.array([is_short(text) + 0.5 * _is_code(text) for text in texts])
        self._letters = np.array([max(1, len(norm)) for norm in self._norms])
        self._words = np.log([max(1, norm.count(" ") + 1) for norm in self._norms])
        self._rarest = 1 + np.log((1 + len(texts)) / 2)
        self.initials = Initials(texts, languages, self._norms)
        ends = np.concatenate([self.initials.one, self.initials.other])
        self._rivals = np.maximum(1, np.bincount(ends, minlength=len(texts)))

    def measure(self, one: NDArray[np.int64], other: NDArray[np.int64], cosines: NDArray[np.float32]) -> Pairs:
        """Measures of p pairs of terms with their cosines.

        - ``gap``: what the cosine lacks to that of the nearest term of each; ``crowd``: by how much it is above that of
          each one's later neighbours. ``least`` and ``most`` are of the two terms.
        - ``said``: share of the words, by rarity, that the other says; ``whole``: it says all; ``first`` and ``last``
          are of these words; ``left``: weight of the rarest word that is left over, and of those of each kind.
        - ``unknown``: share of the words that the lexicon lacks; ``known``: it lacks none of both terms.
        - ``alike``: share of letters in common; ``spelling``: above 0 only where a typing error is between them;
          ``compact``: the same letters without spaces; ``beginning``, ``ending``: letters in common at both ends.
        - ``numbers``: whether they share one, and whether one has a number more.
        - ``initials``: how much an abbreviation explains (:class:`medlink.clustering.initials.Initials`), and whether
          nothing else in the list may be meant by it.
        - ``short``: whether each is an abbreviation or a code; ``length``: logarithm of the ratio of their letters;
          ``words``: logarithm of their number; ``foreign``: the languages are known and differ.
        """
        cosine = cosines.astype(np.float64)
        first, second, opposed = self._said.sides(one, other)
        sides = self._sided(one, first), self._sided(other, second)
        left = np.minimum(sides[0][:, _LEFT], sides[1][:, _LEFT])
        gap = np.sort(np.stack([cosine - self._best[one], cosine - self._best[other]]), axis=0)
        crowd = np.sort(np.stack([cosine - self._around[one], cosine - self._around[other]]), axis=0)
        norms = [[self._norms[at] for at in ends.tolist()] for ends in (one, other)]
        alike = process.cpdist(*norms, scorer=OSA.normalized_similarity, dtype=np.float32)
        shortest = np.minimum(self._letters[one], self._letters[other])
        compact = [a.replace(" ", "") == b.replace(" ", "") for a, b in zip(*norms, strict=True)]
        shared, most = self._guards.numbers(one, other)
        explained, letters, _ = self.initials.of(one, other)
        explained = np.maximum(0, explained - ENOUGH) / (1 - ENOUGH)
        short = np.sort(np.stack([self._short[one], self._short[other]]), axis=0)
        rivals = np.maximum(self._rivals[one], self._rivals[other])
        tongues = self._tongue[one], self._tongue[other]
        foreign = (tongues[0] != tongues[1]) & (np.minimum(*tongues) >= 0)
        columns: tuple[Numbers, ...] = (
            cosine,
            np.maximum(cosine, 0) ** 2,
            *gap,
            *crowd,
            left * cosine,
            opposed,
            alike,
            np.maximum(0, (alike - _ALIKE) / (1 - _ALIKE)),
            np.array(compact, dtype=bool),
            process.cpdist(*norms, scorer=Prefix.similarity, dtype=np.int32) / shortest,
            process.cpdist(*norms, scorer=Postfix.similarity, dtype=np.int32) / shortest,
            shared > 0,
            most > shared,
            explained,
            explained * (np.clip(letters, 2, _LONG) - 2) / (_LONG - 2),
            (explained > 0) * (short[1] > 0) / rivals,
            np.abs(np.log(self._letters[one] / self._letters[other])),
            foreign,
            foreign * cosine,
            *short,
            sides[0][:, _UNKNOWN] + sides[1][:, _UNKNOWN] == 0,
            (sides[0][:, _WHOLE] > 0) & (sides[1][:, _WHOLE] > 0),
        )
        found = np.empty((len(one), len(SHARED)), dtype=np.float32)
        for place, column in enumerate(columns):
            found[:, place] = column
        asked = [self._may_be_narrower(*ends) for ends in ((sides, one, other), (sides[::-1], other, one))]
        return Pairs(found, *sides, np.stack(asked, axis=1))

    def _may_be_narrower(
        self, sides: Sequence[NDArray[np.float32]], one: NDArray[np.int64], other: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """``(p,)`` see :attr:`Pairs.may_be_narrower`."""
        says = (sides[1][:, _WHOLE] > 0) & (sides[0][:, _WHOLE] == 0)
        is_finding, is_thing = self._said.is_finding, self._said.is_thing
        return np.asarray(says & is_thing[other] & (is_finding[other] | ~is_finding[one]))

    def _sided(self, rows: NDArray[np.int64], side: Side) -> NDArray[np.float32]:
        """``(p, len(SIDED))``."""
        ends = side.first, side.last, self._words[rows], side.said > _ALL
        columns = (side.said, side.left / self._rarest, self._said.unknown[rows], *ends)
        return np.hstack([np.stack(columns, axis=1), side.left_kinds / self._rarest]).astype(np.float32)


def _is_code(text: str) -> bool:
    """Whether a term is an abbreviation or a code.

    >>> [_is_code(text) for text in ("COPD", "RP67", "p53", "asthma", "type 2 diabetes")]
    [True, True, True, False, False]
    """
    return is_short(text) or (len(text) <= _CODE and any(letter.isdigit() for letter in text))


@dataclass(frozen=True, slots=True)
class Logistic:
    """Logistic regression: a weight for each named column, and an offset."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    offset: float

    def probability(self, columns: NDArray[np.float32]) -> NDArray[np.float64]:
        """``(p,)`` probability of each of p rows of columns ``(p, len(names))``.

        >>> Logistic(("cosine",), (2.0,), -1.0).probability(np.array([[0.5]], dtype=np.float32)).tolist()
        [0.5]
        """
        total = np.full(len(columns), self.offset)
        # column by column: a matrix product may round differently with another number of rows
        for place, weight in enumerate(self.weights):
            total += weight * columns[:, place].astype(np.float64)
        return np.asarray(1 / (1 + np.exp(-np.clip(total, -50, 50))))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"offset": self.offset, "weights": dict(zip(self.names, self.weights, strict=True))}

    @classmethod
    def from_dict(cls, names: Sequence[str], raw: Mapping[str, Any]) -> Logistic:
        """Read what :meth:`to_dict` gave."""
        return cls(tuple(names), tuple(float(raw["weights"][name]) for name in names), float(raw["offset"]))


@dataclass(frozen=True, slots=True)
class Model:
    """What two terms are to each other: the ``same`` concept, one ``narrower`` than the other, or neither."""

    same: Logistic
    narrower: Logistic

    def is_same(self, pairs: Pairs) -> NDArray[np.float64]:
        """``(p,)`` probability that the two terms of each pair are one concept."""
        return self.same.probability(pairs.same())

    def is_narrower(self, pairs: Pairs) -> NDArray[np.float64]:
        """``(p,)`` probability that ``one`` of each pair is narrower, 0 where it does not say all of the other."""
        found = np.zeros(len(pairs.shared))
        asked = np.flatnonzero(pairs.may_be_narrower[:, 0])
        found[asked] = self.narrower.probability(pairs.of(asked).narrower())
        return found


@cache
def shipped_model() -> Model:
    """The model that ships with medlink."""
    raw = json.loads(resources.files("medlink").joinpath("resources/clustering/join.json").read_text("utf-8"))
    return Model(Logistic.from_dict(SAME, raw["same"]), Logistic.from_dict(NARROWER, raw["narrower"]))
