"""Features of pairs of terms, and the probabilities that they are one concept or that one is narrower.

A cosine alone cannot distinguish a synonym from a sibling. Shared words, the rarity and kind of the remaining words,
numbers, initials and the density of the neighbourhood together can. ``benchmarks/fit_clusters.py`` fitted the weights
on terms that people wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA, Postfix, Prefix

from medlink.clustering.abbreviations import MIN_EXPLAINED, AbbreviationPairs
from medlink.clustering.guards import Guards
from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.index.word_coverage import KINDS, TextCoverage, TextFeatures
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
"""Columns of :attr:`Pairs.shared`; they do not depend on the order of a pair."""
PER_TERM = ("covered", "left", "unknown", "first", "last", "words", "whole", *(f"left_{kind}" for kind in KINDS))
"""Columns of :attr:`Pairs.one` and :attr:`Pairs.other`, the features of one term of a pair."""
SAME = (*SHARED, *(f"{name}_least" for name in PER_TERM), *(f"{name}_most" for name in PER_TERM))
"""Features of :attr:`PairModel.same`."""
NARROWER = (*SHARED, *(f"narrow_{name}" for name in PER_TERM), "broad_unknown", "broad_words", "words_more")
"""Features of :attr:`PairModel.narrower`."""
_LEFT, _UNKNOWN, _WORDS, _WHOLE = (PER_TERM.index(name) for name in ("left", "unknown", "words", "whole"))
_DEFAULT_COSINE = 0.55  # of missing neighbours, as in a crowded list, so that short lists do not join more terms
_RANKS = slice(5, 25)  # ranks of neighbours that are mostly other concepts
_MIN_SPELLING = 0.8  # lowest share of common letters for a typing error
_COVERED = 0.999  # least share of a text that counts as covered
_MAX_CODE = 9  # characters of a term with a digit that is a code
_MAX_INITIALS = 5  # letters of an abbreviation that is hardly a coincidence
MIN_REFINED = 0.03
"""Lowest probability that trees refine: most pairs are far below, and trees take longer than weights."""


def crowding(cosines: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the mean cosine of the 6th to the 25th neighbour of each term ``(n,)``.

    This is the local scaling of Conneau et al. 2018 ("Word translation without parallel data") with later ranks,
    because the first neighbours are synonyms here. ``cosines (n, k)`` are those of the nearest terms, best first. A
    missing or negative one counts as 0.55.
    """
    width, later = _RANKS.stop - _RANKS.start, cosines[:, _RANKS]
    there = later >= 0
    total = np.where(there, later, 0).sum(axis=1, dtype=np.float64)
    return np.asarray((total + _DEFAULT_COSINE * (width - there.sum(axis=1))) / width)


class Pairs(NamedTuple):
    """Features of p pairs of terms: the columns :data:`SHARED`, and :data:`PER_TERM` of each.

    ``may_be_narrower (p, 2)`` tells whether a term contains all words of the other and more, and both are of the same
    kind. *Dolor lumbar* is not narrower than *lumbar*, because a finding is not a body site.
    """

    shared: NDArray[np.float32]
    one: NDArray[np.float32]
    other: NDArray[np.float32]
    may_be_narrower: NDArray[np.bool_]

    def swapped(self) -> Pairs:
        return Pairs(self.shared, self.other, self.one, self.may_be_narrower[:, ::-1])

    def select(self, pairs: NDArray[Any]) -> Pairs:
        return Pairs(*(values[pairs] for values in self))

    def same(self) -> NDArray[np.float32]:
        """Return the columns :data:`SAME`, ``(p, len(SAME))``."""
        return np.hstack([self.shared, np.minimum(self.one, self.other), np.maximum(self.one, self.other)])

    def narrower(self) -> NDArray[np.float32]:
        """Return the columns :data:`NARROWER` for ``one`` being narrower than ``other``, ``(p, len(NARROWER))``."""
        words = self.other[:, _WORDS, None]
        return np.hstack(
            [self.shared, self.one, self.other[:, _UNKNOWN, None], words, self.one[:, _WORDS, None] - words]
        )


class PairFeatures:
    """Compute features of pairs of n terms of one list.

    ``languages`` are BCP 47 or ``""``. :meth:`add_neighbours` gets ``cosines`` that are known already.
    """

    def __init__(
        self, texts: Sequence[str], languages: Sequence[str], cosines: NDArray[np.float32] | None = None
    ) -> None:
        self._norms = normalise_all(texts)
        self._overlap = TextFeatures(texts, [tag or None for tag in languages], shipped_forms())
        self.guards = Guards(texts, languages)
        numbers = {tag: number for number, tag in enumerate(dict.fromkeys(map(base, languages)))}
        self._language = np.array([numbers[base(tag)] if tag else -1 for tag in languages], dtype=np.int64)
        short = np.array([is_short(text) for text in texts], dtype=bool)
        is_code = [len(text) <= _MAX_CODE and any(map(str.isdigit, text)) for text in texts]
        self._short = short + 0.5 * (short | np.array(is_code, dtype=bool))
        self._compact = np.array([hash(norm.replace(" ", "")) for norm in self._norms], dtype=np.int64)
        self._letters = np.array([max(1, len(norm)) for norm in self._norms])
        self._words = np.log([max(1, norm.count(" ") + 1) for norm in self._norms])
        self._rarest = 1 + np.log((1 + len(texts)) / 2)
        self.abbreviations = AbbreviationPairs(texts, languages, self._norms)
        ends = np.concatenate([self.abbreviations.one, self.abbreviations.other])
        self._rivals = np.maximum(1, np.bincount(ends, minlength=len(texts)))
        if cosines is not None:
            self.add_neighbours(cosines)

    def add_neighbours(self, cosines: NDArray[np.float32]) -> None:
        """Add the cosines of the nearest terms ``(n, k)``, see :func:`medlink.index.knn_graph.nearest`."""
        self._around = crowding(cosines)
        self._best_partner = cosines.max(axis=1, initial=-1)

    def measure(self, one: NDArray[np.int64], other: NDArray[np.int64], cosines: NDArray[np.float32]) -> Pairs:
        """Compute the features of p pairs with their cosines.

        - ``gap``: the cosine minus that of each term with its nearest term; ``crowd``: the cosine minus the mean with
          later neighbours. ``least`` and ``most`` are the lower and the higher value of the two terms.
        - ``covered``: share of the words, weighted by rarity, that the other term has; ``whole``: it has all;
          ``first``, ``last``: it has this word; ``left``: weight of the rarest remaining word, in all and of each kind.
        - ``unknown``: share of the words that the lexicon lacks; ``known``: both terms have no such word.
        - ``alike``: share of letters in common; ``spelling``: positive only for a likely typing error; ``compact``:
          equal without spaces; ``beginning``, ``ending``: common letters at both ends.
        - ``numbers``: whether the terms share a number, and whether one has more numbers; ``initials``: share that an
          abbreviation explains, and whether it has a single long form in the list.
        - ``short``: whether each term is an abbreviation or a code; ``length``: logarithm of the ratio of their
          letters; ``words``: logarithm of their number; ``foreign``: the languages are known and differ.
        """
        cosine = cosines.astype(np.float64)
        first, second, opposed = self._overlap.compare_pairs(one, other)
        sides = self._per_term(one, first), self._per_term(other, second)
        left = np.minimum(sides[0][:, _LEFT], sides[1][:, _LEFT])
        gap = np.sort(np.stack([cosine - self._best_partner[one], cosine - self._best_partner[other]]), axis=0)
        crowd = np.sort(np.stack([cosine - self._around[one], cosine - self._around[other]]), axis=0)
        norms = [[self._norms[at] for at in ends.tolist()] for ends in (one, other)]
        alike = process.cpdist(*norms, scorer=OSA.normalized_similarity, dtype=np.float32)
        shortest = np.minimum(self._letters[one], self._letters[other])
        shared, most = self.guards.numbers(one, other)
        explained, letters, _ = self.abbreviations.lookup(one, other)
        explained = np.maximum(0, explained - MIN_EXPLAINED) / (1 - MIN_EXPLAINED)
        short = np.sort(np.stack([self._short[one], self._short[other]]), axis=0)
        rivals = np.maximum(self._rivals[one], self._rivals[other])
        tags = self._language[one], self._language[other]
        foreign = (tags[0] != tags[1]) & (np.minimum(*tags) >= 0)
        columns: tuple[NDArray[Any], ...] = (
            cosine, np.maximum(cosine, 0) ** 2, *gap, *crowd, left * cosine, opposed, alike,
            np.maximum(0, (alike - _MIN_SPELLING) / (1 - _MIN_SPELLING)), self._compact[one] == self._compact[other],
            process.cpdist(*norms, scorer=Prefix.similarity, dtype=np.int32) / shortest,
            process.cpdist(*norms, scorer=Postfix.similarity, dtype=np.int32) / shortest,
            shared > 0, most > shared,
            explained, explained * (np.clip(letters, 2, _MAX_INITIALS) - 2) / (_MAX_INITIALS - 2),
            (explained > 0) * (short[1] > 0) / rivals,
            np.abs(np.log(self._letters[one] / self._letters[other])), foreign, foreign * cosine, *short,
            sides[0][:, _UNKNOWN] + sides[1][:, _UNKNOWN] == 0,
            (sides[0][:, _WHOLE] > 0) & (sides[1][:, _WHOLE] > 0),
        )  # fmt: skip
        values = np.empty((len(one), len(SHARED)), dtype=np.float32)
        for number, column in enumerate(columns):
            values[:, number] = column
        is_finding, is_thing, narrower = self._overlap.is_finding, self._overlap.is_thing, []
        for (below, above), row, wider in ((sides, one, other), (sides[::-1], other, one)):
            covers = (above[:, _WHOLE] > 0) & (below[:, _WHOLE] == 0)
            narrower.append(covers & is_thing[wider] & (is_finding[wider] | ~is_finding[row]))
        return Pairs(values, *sides, np.stack(narrower, axis=1))

    def spelled(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tell whether ``one`` of each pair ``(p,)`` begins or ends with ``other``: 1, or 2 in one word."""
        texts = ([self._norms[at] for at in ends.tolist()] for ends in (one, other))
        found = ((a.startswith(b) or a.endswith(b)) * (1 + (" " not in a)) for a, b in zip(*texts, strict=True))
        return np.fromiter(found, np.int64)

    def _per_term(self, rows: NDArray[np.int64], side: TextCoverage) -> NDArray[np.float32]:
        ends = side.first_word, side.last_word, self._words[rows], side.covered > _COVERED
        columns = (side.covered, side.max_uncovered / self._rarest, self._overlap.unknown[rows], *ends)
        return np.hstack([np.stack(columns, axis=1), side.uncovered_kinds / self._rarest]).astype(np.float32)


@dataclass(frozen=True, slots=True)
class PairClassifier:
    """Logistic regression on named columns, refined by boosted trees.

    The trees (Friedman 2001, "Greedy function approximation: a gradient boosting machine") add to the log odds of pairs
    with a probability of at least :data:`MIN_REFINED`. A tree is a leaf, or the name of a column, the largest value of
    the left branch, and both branches. Without ``weights`` all pairs begin with the log odds ``offset``.
    """

    names: tuple[str, ...]
    offset: float
    weights: tuple[float, ...] = ()
    trees: tuple[Any, ...] = ()

    def probability(self, columns: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the probability of each row ``(p,)`` of ``columns (p, len(names))``."""
        total = np.full(len(columns), self.offset)
        # column by column: a matrix product may round differently with another number of rows
        for number, weight in enumerate(self.weights):
            total += weight * columns[:, number].astype(np.float64)
        if self.trees:
            rows = np.flatnonzero(total >= np.log(MIN_REFINED / (1 - MIN_REFINED)))
            by_name = dict(zip(self.names, np.ascontiguousarray(columns[rows].T), strict=True))
            for tree in self.trees:
                total[rows] += _evaluate(tree, by_name)
        return np.asarray(1 / (1 + np.exp(-np.clip(total, -50, 50))))

    def to_dict(self) -> dict[str, Any]:
        weights = dict(zip(self.names, self.weights, strict=False))
        return {"offset": self.offset, "weights": weights, "trees": list(self.trees)}

    @classmethod
    def from_dict(cls, names: Sequence[str], raw: Mapping[str, Any]) -> PairClassifier:
        weights = tuple(float(raw["weights"][name]) for name in names if raw["weights"])
        return cls(tuple(names), float(raw["offset"]), weights, tuple(raw["trees"]))


def _evaluate(tree: Any, by_name: Mapping[str, NDArray[np.float32]]) -> Any:
    if not isinstance(tree, Sequence):
        return tree
    name, value, *branches = tree
    left, right = (_evaluate(branch, by_name) for branch in branches)
    return left + (by_name[name] > value) * (right - left)  # several times faster than np.where


class PairModel(NamedTuple):
    """Classify pairs: the ``same`` concept, one ``narrower`` than the other, or neither."""

    same: PairClassifier
    narrower: PairClassifier

    def same_probability(self, pairs: Pairs) -> NDArray[np.float64]:
        """Return the probability that each pair ``(p,)`` is one concept."""
        return self.same.probability(pairs.same())

    def narrower_probability(self, pairs: Pairs) -> NDArray[np.float64]:
        """Return the probability that ``one`` of each pair ``(p,)`` is narrower; 0 where it cannot be."""
        probabilities = np.zeros(len(pairs.shared))
        possible = np.flatnonzero(pairs.may_be_narrower[:, 0])
        probabilities[possible] = self.narrower.probability(pairs.select(possible).narrower())
        return probabilities


@cache
def shipped_model() -> PairModel:
    raw = read_json(RESOURCES / "clustering" / "join.json")
    return PairModel(
        *(PairClassifier.from_dict(names, raw[key]) for key, names in (("same", SAME), ("narrower", NARROWER)))
    )
