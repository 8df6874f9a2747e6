"""Which concept a name means where several have it, before anything is known of the text around it.

A conditional logit model (McFadden 1974, section 2): the share of each concept is ``softmax(weights @ features)`` over
the concepts that have the name. ``benchmarks/fit_prior.py`` fits the weights on mentions that people linked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.linking.measures import Evidence
from medlink.linking.mention import Mention
from medlink.linking.profiles import ConceptProfile, ConceptProfiles
from medlink.linking.ranking import Ranker

_REACH = 1.0  # rank scores by which a name may be lower than the best one and still be moved before it
_SHARE = 0.3  # of the log odds of a concept that count beside the likeness of its name


class PriorFeatures(NamedTuple):
    """What speaks for a concept; each is higher for the likelier one.

    Attributes:
        preferred: whether the name is a preferred one.
        spelt: whether it is written with the letters of the mention, accents and marks included.
        name_sources: logarithm of how many sources name the concept so.
        names: logarithm of how many names it has.
        sources: logarithm of how many sources it has.
        languages: logarithm of how many languages it has names in.
        relations: logarithm of how many relations it has.
        likeness: cosine of the name and the mean of all names of the concept.
        kind: what its kind of thing counts among others of the name (:attr:`Prior.kinds`).
    """

    preferred: float = 0.0
    spelt: float = 0.0
    name_sources: float = 0.0
    names: float = 0.0
    sources: float = 0.0
    languages: float = 0.0
    relations: float = 0.0
    likeness: float = 0.0
    kind: float = 0.0

    def of_the_name(self) -> PriorFeatures:
        """Without what says how well known the concept is."""
        return PriorFeatures(preferred=self.preferred, spelt=self.spelt, kind=self.kind)


@dataclass(frozen=True, slots=True)
class Prior:
    """Weights of the features."""

    weights: PriorFeatures
    kinds: dict[str, float]

    def features(
        self,
        concept: ConceptProfile,
        form: str = "",
        *,
        preferred: bool = False,
        spelt: bool = False,
        likeness: float = 0.0,
    ) -> PriorFeatures:
        """The features of a concept and the exact form of a name; of the concept alone without one."""
        return PriorFeatures(
            float(preferred),
            float(spelt),
            math.log(max(len(concept.says.get(form, ())), 1)),
            math.log(max(len(concept.says), 1)),
            math.log(max(len(concept.sources), 1)),
            math.log(max(len({language for language, _ in concept.names}), 1)),
            math.log1p(concept.relations),
            likeness,
            max((self.kinds.get(kind, 0.0) for kind in concept.kinds), default=0.0),
        )

    def tells_senses(self, concepts: Iterable[ConceptProfile]) -> bool:
        """Whether concepts of one name are different kinds of thing, none of which counts less than the others."""
        plain = [kinds for concept in concepts if (kinds := {k for k in concept.kinds if not self.kinds.get(k)})]
        return len(plain) > 1 and not set.intersection(*plain)

    def standing(self, concept: ConceptProfile) -> float:
        """The log odds of a concept, whatever its name."""
        return self.log_odds(self.features(concept))

    def log_odds(self, features: PriorFeatures) -> float:
        """The weighted sum of the features."""
        return sum(weight * value for weight, value in zip(self.weights, features, strict=True))


@cache
def default_prior() -> Prior:
    """The weights that ship with medlink."""
    raw = json.loads(resources.files("medlink").joinpath("resources/linking/prior.json").read_text("utf-8"))
    return Prior(PriorFeatures(**raw["weights"]), raw["kinds"])


class PriorRanker:
    """Ranks names by another ranker and by how well known their concepts are.

    Where a bundle has several sources, a name of one of them may be a little more like a mention than that of the
    concept which everybody means. Ranks are moved so that the best name of a mention keeps its rank score, and the
    calibration what it means.

    Args:
        first: the ranker by likeness.
        profiles: of the concepts of the bundle.
        prior: what makes a concept better known than others.
    """

    def __init__(self, first: Ranker, profiles: ConceptProfiles, prior: Prior) -> None:
        self._first, self._profiles, self._prior = first, profiles, prior
        self.uses_context = first.uses_context

    def rank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, candidates: Evidence
    ) -> NDArray[np.float64]:
        """Rank scores ``(p,)``: those of the first ranker and the share of the prior, for names near the best one."""
        ranks, mention = np.array(self._first.rank(mentions, contexts, candidates)), candidates.mention
        if not len(ranks):
            return ranks
        _, starts, run = np.unique(mention, return_index=True, return_inverse=True)
        near = ranks >= np.maximum.reduceat(ranks, starts)[run] - _REACH
        pair, entry = candidates.entry
        chosen = near[pair]
        pair, concept = pair[chosen], candidates.entries.concept[entry[chosen]]
        distinct, which = np.unique(concept, return_inverse=True)
        profiles = self._profiles.of(distinct.tolist())
        odds = np.array([self._prior.standing(profiles[key]) for key in distinct.tolist()])
        moved = np.full(len(ranks), -np.inf)
        np.maximum.at(moved, pair, ranks[pair] + _SHARE * odds[which])
        best = np.lexsort((-moved, mention))[starts]
        return np.where(near, moved - (moved - ranks)[best][run], ranks)
