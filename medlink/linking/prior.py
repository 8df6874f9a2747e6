"""Which concept a name means where several have it, before anything is known of the text around it.

A conditional logit model (McFadden 1974, section 2): the share of each concept is ``softmax(weights @ features)`` over
the concepts that have the name. ``benchmarks/fit_prior.py`` fits the weights on mentions that people linked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

from medlink.linking.profiles import ConceptProfile


class PriorFeatures(NamedTuple):
    """What speaks for a concept; each is higher for the likelier one.

    Attributes:
        preferred: whether the name is a preferred one.
        spelt: whether a name has the letters of the mention, accents and marks included.
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

    def log_odds(self, features: PriorFeatures) -> float:
        """The weighted sum of the features."""
        return sum(weight * value for weight, value in zip(self.weights, features, strict=True))


@cache
def default_prior() -> Prior:
    """The weights that ship with medlink."""
    raw = json.loads(resources.files("medlink").joinpath("resources/linking/prior.json").read_text("utf-8"))
    return Prior(PriorFeatures(**raw["weights"]), raw["kinds"])
