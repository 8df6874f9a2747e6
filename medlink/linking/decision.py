"""The last stage: what of a score each concept gets, and what is linked, ambiguous or NIL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from medlink.index import Bundle
from medlink.index.names import Keys
from medlink.language.text import is_short, spelling
from medlink.linking.candidates import LEARNED, Mention
from medlink.linking.concept_equivalence import ConceptEquivalence, Same
from medlink.linking.profiles import ConceptProfiles, PriorFeatures, default_prior
from medlink.linking.ranking import Ranked
from medlink.records import AMBIGUOUS, LINKED, NIL, Candidate, Status

# How much the context decides between concepts that share a name (divisor of cosines; an abbreviation's senses
# usually differ by 0.1 to 0.3).
_CONTEXT_TEMPERATURE = 0.05
_NEAR = 6  # concepts of a mention that are compared where a bundle has several sources
_PREFERENCE = 8.0  # log odds of what the user prefers to what is preferred less
_WIDEST = 40.0  # log odds are cut to this, so that no share becomes 0


class Holder(NamedTuple):
    """A concept, or several that are one, and its share of the score of the name that it has.

    ``shown`` is the key of the concept to show, ``members`` of all that are one with it, itself included, ``presumed``
    of those that only their names say so of. The share is 1 for what has the best name alone, or does not have it
    (``holds``).
    """

    shown: float
    share: float
    members: tuple[float, ...]
    presumed: frozenset[float] = frozenset()
    holds: bool = True


Shares = tuple[Holder, ...]
"""The concepts of a mention; those that share the best name first, the largest share first."""


class Decision(Protocol):
    """What decides on a mention whose candidates have their ranks and scores."""

    def shares(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, ranked: Sequence[Sequence[Ranked]]
    ) -> list[Shares]:
        """How the concepts of each of n mentions, ``ranked`` best first, share the score of its best name.

        ``text`` of a mention is what is linked; ``contexts`` are n texts around them.
        """

    def status(self, candidates: Sequence[Candidate], best: float, shares: Shares, threshold: float) -> Status:
        """Whether the first of the candidates is the link, or why there is none.

        ``best`` is the score of the best name before it is shared.
        """


class SharedNames:
    """Concepts that have the best name in common share its score; those that are one count once.

    The shares are those of a prior (:mod:`medlink.linking.profiles`), times how likely each concept is in the context:
    the likeness of its preferred name to the text around the mention. What ``prefer`` names goes before all others. A
    mention is linked where one concept has the threshold, and more than any other that has the name. It is ambiguous
    where the name has the threshold, and only sharing it keeps its concepts below; else NIL.

    ``prefer`` and ``presume`` are those of :class:`~medlink.linking.concept_equivalence.ConceptEquivalence`.

    Raises:
        ConfigError: nothing in the bundle has a source, type or kind of ``prefer``.
    """

    def __init__(self, bundle: Bundle, prefer: Sequence[str] = (), *, presume: bool = True) -> None:
        self.bundle, self.prior = bundle, default_prior()
        self.profiles = ConceptProfiles(bundle, self.prior)
        self._preferring = bool(prefer)
        self.equivalence = ConceptEquivalence(self.profiles, prefer, presume=presume)

    def status(self, candidates: Sequence[Candidate], best: float, shares: Shares, threshold: float) -> Status:
        """Ambiguous where the first two share alike or sharing keeps them below the threshold; else linked or NIL."""
        if not candidates or best < threshold:
            return NIL
        holders = [one.share for one in shares if one.holds][:2]
        undecided = len(holders) > 1 and holders[0] == holders[1]
        return AMBIGUOUS if undecided or candidates[0].score < threshold else LINKED

    def shares(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, ranked: Sequence[Sequence[Ranked]]
    ) -> list[Shares]:
        """Shares of the concepts that have the best name, and which of the first concepts are one."""
        grouped = self.grouped(ranked)
        features = self.features(mentions, [holders for holders, _ in grouped], ranked)
        shares: list[Shares] = []
        for (holders, groups), own, candidates in zip(grouped, features, ranked, strict=True):
            shares.append(self._shared(holders, own, groups, candidates) if groups else ())
        wanted = [i for i, same in enumerate(shares) if len(same) > 1 and same[1].holds]
        if contexts is not None and wanted:
            self._weigh(shares, wanted, mentions, contexts)
        return shares

    def grouped(self, ranked: Sequence[Sequence[Ranked]]) -> list[tuple[dict[float, bool], Sequence[Same]]]:
        """The concepts that have the best name of each mention, and the groups of its first concepts; none for one."""
        holders = [_holders(candidates) for candidates in ranked]
        near = _NEAR if self.profiles.several else 0
        rivals = [
            tuple(sorted({*same, *(one.concept for one in candidates[:near])}))
            for same, candidates in zip(holders, ranked, strict=True)
        ]
        groups = self.equivalence.groups({each for each in rivals if len(each) > 1})
        return [(same, groups.get(each, ())) for same, each in zip(holders, rivals, strict=True)]

    def _shared(
        self,
        holders: Mapping[float, bool],
        features: Mapping[float, PriorFeatures],
        groups: Sequence[Same],
        candidates: Sequence[Ranked],
    ) -> Shares:
        weights = self._weights(features, candidates) if features else dict.fromkeys(holders, 1.0)
        learned = candidates[0].concept if candidates[0].route == LEARNED else None
        tied: list[tuple[float, Holder]] = []
        others: list[Holder] = []
        for concepts, presumed in groups:
            shown = learned if learned in concepts else concepts[0]
            weight = max((weights[concept] for concept in concepts if concept in weights), default=0.0)
            if weight:
                tied.append((weight, Holder(shown, weight, concepts, presumed)))
            elif len(concepts) > 1:
                others.append(Holder(shown, 1.0, concepts, presumed, holds=False))
        total = sum(weight for weight, _ in tied)
        known = self.profiles.of([holder.shown for _, holder in tied]) if len(tied) > 1 else {}
        tied.sort(key=lambda one: (-one[0], -len(known[one[1].shown].forms) if known else 0, one[1].shown))
        return (*(holder._replace(share=weight / total) for weight, holder in tied), *others)

    def _weights(self, features: Mapping[float, PriorFeatures], candidates: Sequence[Ranked]) -> dict[float, float]:
        ranked: dict[float, float] = {one.concept: one.weight for one in candidates}
        odds: dict[float, float] = {}
        for concept, own in features.items():
            odds[concept] = self.prior.log_odds(own) + math.log(max(ranked[concept], 1e-9))
            if self._preferring:
                odds[concept] -= _PREFERENCE * self.equivalence.preference(self.profiles.of([concept])[concept])
        most = max(odds.values())
        return {concept: math.exp(max(odd - most, -_WIDEST)) for concept, odd in odds.items()}

    def features(
        self, mentions: Sequence[Mention], holders: Sequence[Mapping[float, bool]], ranked: Sequence[Sequence[Ranked]]
    ) -> list[dict[float, PriorFeatures]]:
        """What speaks for each concept of the best name of each mention; nothing where one concept alone has it."""
        found: list[dict[float, PriorFeatures]] = [{} for _ in mentions]
        tied = [i for i, same in enumerate(holders) if len(same) > 1]
        if not tied:
            return found
        index, names = self.bundle.index, np.array([ranked[i][0].name for i in tied])
        forms, spelt = index.norms(names), self._spelt([mentions[i].text for i in tied], names)
        concepts = sorted({concept for i in tied for concept in holders[i]})
        profiles, places = self.profiles.of(concepts), {concept: place for place, concept in enumerate(concepts)}
        vectors, means = index.vectors(names), index.means(np.array(concepts)).astype(np.float32)
        for at, i in enumerate(tied):
            own = {concept: profiles[concept] for concept in sorted(holders[i])}
            alike = (means[[places[concept] for concept in own]] * vectors[at]).sum(axis=1).round(4).tolist()
            of_the_name = is_short(mentions[i].text) or self.prior.tells_senses(own.values())
            for (concept, profile), likeness in zip(own.items(), alike, strict=True):
                preferred, same = holders[i][concept], (at, concept) in spelt
                said = math.log(max(profile.says(forms[at]), 1))
                one = profile.known._replace(
                    preferred=float(preferred), spelt=float(same), name_sources=said, likeness=likeness
                )
                # how well known a concept is says which of two like things is meant, and nothing about senses
                found[i][concept] = one.of_the_name() if of_the_name else one
        return found

    def _spelt(self, mentions: Sequence[str], names: Keys) -> set[tuple[int, float]]:
        """The places of mentions, each with a concept that has a name with the letters of the mention."""
        entries, wanted = self.bundle.index.entries(names), [spelling(mention) for mention in mentions]
        texts = self.bundle.index.describe(entries.address)[0]
        found = zip(entries.position.tolist(), entries.concept.tolist(), texts, strict=True)
        return {(at, concept) for at, concept, text in found if spelling(text) == wanted[at]}

    def _weigh(
        self, shares: list[Shares], wanted: Sequence[int], mentions: Sequence[Mention], contexts: Sequence[str]
    ) -> None:
        encoder = self.bundle.encoder
        # the mention itself says nothing about which of its concepts is meant
        around = encoder.encode([contexts[i].replace(mentions[i].text, " ") for i in wanted])
        concepts = sorted({holder.shown for i in wanted for holder in shares[i]})
        ids = self.bundle.index.concept_ids(np.array(concepts))
        languages = sorted({mentions[i].language or "" for i in wanted})
        labels: list[str] = []
        for language in languages:
            named = self.bundle.kb.preferred_names(ids, language or None)
            labels += [named.get(concept_id, concept_id) for concept_id in ids]
        places = [(language, concept) for language in languages for concept in concepts]
        vectors = dict(zip(places, encoder.encode(labels), strict=True))
        for vector, i in zip(around, wanted, strict=True):
            same = [one for one in shares[i] if one.holds]
            likeness = np.array([float(vectors[mentions[i].language or "", one.shown] @ vector) for one in same])
            likeness /= _CONTEXT_TEMPERATURE
            weight = np.exp(likeness - likeness.max()) * np.array([one.share for one in same])
            parts = (weight / weight.sum()).tolist()
            tied = [one._replace(share=part) for one, part in zip(same, parts, strict=True)]
            tied.sort(key=lambda one: (-one.share, one.shown))
            shares[i] = (*tied, *shares[i][len(same) :])


def _holders(candidates: Sequence[Ranked]) -> dict[float, bool]:
    # who has one name has one rank, and most best names are the only ones of their rank
    first = candidates[:2]
    if len(first) < 2 or first[1].rank != first[0].rank:
        return {one.concept: one.preferred for one in first[:1]}
    return {one.concept: one.preferred for one in candidates if one.name == first[0].name}
