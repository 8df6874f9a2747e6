"""The last stage: what of a score each concept gets, and what is NIL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from medlink.index import Bundle
from medlink.linking.mention import Mention
from medlink.linking.ranking import Ranked
from medlink.records import Candidate

# How much likelier a shared name means the concept that prefers it than one that has it as a synonym.
_PREFERRED = 3.0
# How much the context decides between concepts that share a name (divisor of cosines; an abbreviation's senses
# usually differ by 0.1 to 0.3).
_CONTEXT_TEMPERATURE = 0.05

Shares = dict[float, float]
"""For each concept, by key, its share of the score of the name; concepts that are not in it have all of theirs."""


class Decision(Protocol):
    """What decides on a mention whose candidates have their ranks and scores."""

    def shares(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, ranked: Sequence[Sequence[Ranked]]
    ) -> list[Shares]:
        """How the concepts of each of n mentions, ``ranked`` best first, share the score of its best name.

        ``text`` of a mention is what is linked; ``contexts`` are n texts around them.
        """

    def is_nil(self, candidates: Sequence[Candidate], threshold: float) -> bool:
        """Whether no candidate is the link."""


@dataclass(frozen=True, slots=True)
class SharedNames:
    """Concepts that have the best name in common share its score; a score below the threshold is NIL.

    A name is first of all the name of the concept that prefers it. A context counts by the likeness of each concept's
    preferred name to it.

    Args:
        bundle: where the concepts are from.
    """

    bundle: Bundle

    def is_nil(self, candidates: Sequence[Candidate], threshold: float) -> bool:
        return not candidates or candidates[0].score < threshold

    def shares(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, ranked: Sequence[Sequence[Ranked]]
    ) -> list[Shares]:
        shares = [_tied(candidates) for candidates in ranked]
        wanted = [i for i, same in enumerate(shares) if same]
        if contexts is None or not wanted:
            return shares
        encoder = self.bundle.encoder
        # the mention itself says nothing about which of its concepts is meant
        around = encoder.encode([contexts[i].replace(mentions[i].text, " ") for i in wanted])
        concepts = sorted({concept for i in wanted for concept in shares[i]})
        ids = self.bundle.index.concept_ids(np.array(concepts))
        languages = sorted({mentions[i].language or "" for i in wanted})
        labels: list[str] = []
        for language in languages:
            named = self.bundle.kb.preferred_names(ids, language or None)
            labels += [named.get(concept_id, concept_id) for concept_id in ids]
        places = [(language, concept) for language in languages for concept in concepts]
        vectors = dict(zip(places, encoder.encode(labels), strict=True))
        for vector, i in zip(around, wanted, strict=True):
            same = shares[i]
            likeness = np.array([float(vectors[mentions[i].language or "", c] @ vector) for c in same])
            likeness /= _CONTEXT_TEMPERATURE
            weight = np.exp(likeness - likeness.max()) * np.array(list(same.values()))
            shares[i] = dict(zip(same, (weight / weight.sum()).tolist(), strict=True))
        return shares


def _tied(candidates: Sequence[Ranked]) -> Shares:
    """Shares of the concepts that have the best name, empty for one alone."""
    holders = [c for c in candidates if c.name == candidates[0].name]
    if len(holders) < 2:
        return {}
    weights = {c.concept: _PREFERRED if c.preferred else 1.0 for c in holders}
    return {concept: weight / sum(weights.values()) for concept, weight in weights.items()}
