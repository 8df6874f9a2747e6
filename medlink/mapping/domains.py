"""Estimate the semantic types that a list of codes is about, from the codes whose concepts are certain.

In a list of drugs, *fomivirsen; ophthalmic* is a drug, not a procedure on the eye. The prior of a semantic type is its
share among the certain codes, divided by its share among the concepts of the bundle; with few certain codes it is close
to 1. A type with few concepts counts as one with more, because one or two codes prove little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import log

import numpy as np

from medlink.linking.arrays import Floats
from medlink.linking.candidates import Contexts, Mention
from medlink.linking.features import CandidateFeatures
from medlink.linking.ranking import Ranker
from medlink.records import LINKED, Link

SAMPLE = 2_000
"""Most descriptions that the domain of a list is estimated from."""
CERTAIN = 0.8
"""Score from which a concept is certain."""
_LEAST = 20  # certain codes, below which a list has no domain
_SMOOTHING = 5.0  # codes that are distributed as the concepts of the bundle
_LEAST_SHARE = 0.02  # of the concepts of the bundle that a type with fewer concepts counts as
_LOWEST = -5.0  # log odds of a type that the list does not have
_MAIN, _LEAST_MAIN = 0.05, 3  # share and number of the certain codes from which a type is a domain of the list
_SETTLED = 0.8  # share of the certain codes in the domains of a list from which it is about nothing else

Priors = Mapping[str, float]
"""Log odds of each semantic type, at most 0."""


def estimate_priors(links: Iterable[Link], concepts_by_type: Mapping[str, int]) -> tuple[Priors, list[str]]:
    """Estimate the priors of the semantic types of a list, and its domains; both are empty for few certain codes.

    ``concepts_by_type`` are the numbers of concepts of the bundle.
    """
    certain = _certain_types(links)
    if len(certain) < _LEAST or len(concepts_by_type) < 2:
        return {}, []
    counts = Counter(kind for kinds in certain for kind in kinds)
    total, codes = sum(concepts_by_type.values()), len(certain)
    odds = {}
    for kind, concepts in concepts_by_type.items():
        share = max(concepts / total, _LEAST_SHARE)
        odds[kind] = log((counts[kind] + _SMOOTHING * share) / (codes + _SMOOTHING) / share)
    ordered = sorted(counts, key=lambda kind: (-counts[kind], kind))
    priors = {kind: min(max(value - odds[ordered[0]], _LOWEST), 0.0) for kind, value in odds.items()}
    return priors, [kind for kind in ordered if counts[kind] >= max(_MAIN * codes, _LEAST_MAIN)]


def is_settled(links: Iterable[Link], domains: Collection[str]) -> bool:
    """Return whether nearly all certain codes of a list are of its domains."""
    inside = [not set(kinds).isdisjoint(domains) for kinds in _certain_types(links)]
    return bool(inside) and sum(inside) >= _SETTLED * len(inside)


def _certain_types(links: Iterable[Link]) -> list[tuple[str, ...]]:
    firsts = [link.candidates[0] for link in links if link.status == LINKED]
    return [first.semantic_types for first in firsts if first.score >= CERTAIN and first.semantic_types]


def priors_of(domains: Sequence[str], concepts_by_type: Mapping[str, int]) -> Priors:
    """Return the priors of a list whose domains are known."""
    wanted = {domain.casefold() for domain in domains}
    return {kind: 0.0 if kind.casefold() in wanted else _LOWEST for kind in concepts_by_type}


def prior_of(priors: Priors, kinds: Iterable[str]) -> float:
    """Return the highest prior of some semantic types, and none without a type."""
    return max((priors.get(kind, 0.0) for kind in kinds), default=0.0)


class DomainRanker:
    """Adds the priors of the semantic types of concepts to the rank scores of another ranker.

    Weights of a ranker are those of a conditional logit, so differences of rank scores are log odds.
    """

    def __init__(self, first: Ranker, priors: Priors) -> None:
        self._first, self._priors = first, priors
        self.uses_context = first.uses_context

    def rank(self, mentions: Sequence[Mention], contexts: Contexts, candidates: CandidateFeatures) -> Floats:
        """Return rank scores ``(p,)``; a name gets the highest prior of its types and concepts, and none without a
        type."""
        pair, entry = candidates.entry
        concepts, inverse = np.unique(candidates.entries.concept, return_inverse=True)
        types = candidates.batch.index.concept_types(concepts)
        priors = np.array([prior_of(self._priors, kinds) for kinds in types])
        highest = np.full(len(candidates.name), -np.inf)
        np.maximum.at(highest, pair, priors[inverse[entry]])
        return np.asarray(self._first.rank(mentions, contexts, candidates) + highest)
