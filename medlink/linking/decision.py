"""Last stage: share a score among concepts with the same name, and decide between linked, ambiguous and NIL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from medlink.index import Bundle
from medlink.index.names import Keys
from medlink.language.text import is_short, spelling
from medlink.linking.candidates import LEARNED, Contexts, Mention
from medlink.linking.concept_equivalence import ConceptEquivalence, ConceptGroup
from medlink.linking.drugs import codes_of_route, phrases_behind
from medlink.linking.profiles import ConceptProfiles, PriorFeatures, default_prior
from medlink.linking.ranking import Ranked, Rankings
from medlink.records import AMBIGUOUS, LINKED, NIL, Candidate, Status

# divides cosines of context and concept; those of the senses of an abbreviation usually differ by 0.1 to 0.3
_CONTEXT_TEMPERATURE = 0.05
_COMPARED = 6  # concepts of a mention that are tested for equivalence if a bundle has several sources
_PREFERENCE = 8.0  # log odds between consecutive preferences of the user
_MAX_LOG_ODDS = 40.0  # keeps every share above 0


class ConceptShare(NamedTuple):
    """A concept, or a group of equivalent concepts, with its share of the score of the best name."""

    representative: float  # key of the concept to show
    share: float  # 1 if it does not have the best name, or no other concept has that name
    members: tuple[float, ...]  # keys of all concepts of the group, including the representative
    presumed: frozenset[float] = frozenset()  # members that are equivalent only by their names, without a mapping
    has_best_name: bool = True  # whether it has the best name of the mention


Shares = tuple[ConceptShare, ...]
"""The concepts of a mention; those with the best name first, by descending share."""


class DecisionPolicy(Protocol):
    """Decides between linked, ambiguous and NIL for mentions with ranked and scored candidates."""

    def shares(self, mentions: Sequence[Mention], contexts: Contexts, ranked: Rankings) -> list[Shares]:
        """Return, for each of n mentions, the share of each concept in the score of the best name.

        Args:
            mentions: linked by their ``text``.
            contexts: n texts around them.
            ranked: concepts of each mention, best first.
        """

    def status(self, candidates: Sequence[Candidate], best: float, shares: Shares, threshold: float) -> Status:
        """Decide whether to link the first candidate; ``best`` is the score of the best name before sharing."""


class SharedNamePolicy:
    """Share the score of the best name among the concepts that have it; equivalent concepts count once.

    A share is the prior (:mod:`medlink.linking.profiles`) times the similarity of the preferred name to the context.
    Preferences (``prefer``) outrank everything else. A mention is linked if one concept reaches the threshold and has a
    larger share than any other. It is ambiguous if the name reaches the threshold and only sharing keeps its concepts
    below. Otherwise it is NIL.

    ``prefer`` and ``presume`` are those of :class:`~medlink.linking.concept_equivalence.ConceptEquivalence`.
    """

    def __init__(self, bundle: Bundle, prefer: Sequence[str] = (), *, presume: bool = True) -> None:
        self.bundle, self.prior = bundle, default_prior()
        self.profiles = ConceptProfiles(bundle, self.prior)
        self._has_preferences = bool(prefer)
        self._has_atc = "ATC" in bundle.index.sources
        self.equivalence = ConceptEquivalence(self.profiles, prefer, presume=presume)

    def status(self, candidates: Sequence[Candidate], best: float, shares: Shares, threshold: float) -> Status:
        """Return NIL without a good name, AMBIGUOUS if no concept of the name stands out, and LINKED otherwise."""
        if not candidates or best < threshold:
            return NIL
        first = [concept.share for concept in shares if concept.has_best_name][:2]
        tied = len(first) > 1 and first[0] == first[1]
        return AMBIGUOUS if tied or candidates[0].score < threshold else LINKED

    def shares(self, mentions: Sequence[Mention], contexts: Contexts, ranked: Rankings) -> list[Shares]:
        grouped = self.group_concepts(ranked)
        features = self.prior_features(mentions, [concepts for concepts, _ in grouped], ranked)
        shares = list[Shares]()
        for (concepts, groups), own, candidates in zip(grouped, features, ranked, strict=True):
            weights = self._weights(own, candidates) if own else dict.fromkeys(concepts, 1.0)
            shares.append(self._share(weights, groups, candidates) if groups else ())
        tied = [i for i, own in enumerate(shares) if len(own) > 1 and own[1].has_best_name]
        if contexts is not None and tied and self._has_atc:
            tied = self._weigh_by_route(shares, tied, mentions, contexts)
        if contexts is not None and tied:
            self._weigh_by_context(shares, tied, mentions, contexts)
        return shares

    def _weigh_by_route(
        self, shares: list[Shares], tied: Sequence[int], mentions: Sequence[Mention], contexts: Sequence[str]
    ) -> list[int]:
        """Leave the name to the ATC codes of the route behind the mention; return the numbers of the other mentions."""
        left = []
        for i in tied:
            own = [concept for concept in shares[i] if concept.has_best_name]
            ids = self.bundle.index.concept_ids(np.array([concept.representative for concept in own]))
            routes = [codes_of_route(phrase, ids)[0] for phrase in phrases_behind(mentions[i].text, contexts[i])]
            meant = routes[0]
            if not 0 < len(meant) < len(own) or any(route != meant for route in routes):
                left.append(i)
                continue
            parts = [1 / len(meant) if one in meant else 0.0 for one in ids]
            weighed = [concept._replace(share=part) for concept, part in zip(own, parts, strict=True)]
            weighed.sort(key=lambda concept: (-concept.share, concept.representative))
            shares[i] = (*weighed, *shares[i][len(own) :])
        return left

    def group_concepts(self, ranked: Rankings) -> list[tuple[dict[float, bool], Sequence[ConceptGroup]]]:
        """Return for each mention the concepts with its best name (true for a preferred name), and the groups of
        equivalent concepts. A single concept has no group.
        """
        named = [_concepts_of_best_name(candidates) for candidates in ranked]
        compared = _COMPARED if self.profiles.has_several_sources else 0
        competing = [
            tuple(sorted({*concepts, *(candidate.concept for candidate in candidates[:compared])}))
            for concepts, candidates in zip(named, ranked, strict=True)
        ]
        groups = self.equivalence.groups({keys for keys in competing if len(keys) > 1})
        return [(concepts, groups.get(keys, ())) for concepts, keys in zip(named, competing, strict=True)]

    def _share(self, weights: Mapping[float, float], groups: Sequence[ConceptGroup], candidates: Ranked) -> Shares:
        learned = candidates[0].concept if candidates[0].route == LEARNED else None
        tied, others = list[ConceptShare](), list[ConceptShare]()
        for members, presumed in groups:
            representative = learned if learned in members else members[0]
            weight = max((weights[key] for key in members if key in weights), default=0.0)
            if weight:
                tied.append(ConceptShare(representative, weight, members, presumed))
            elif len(members) > 1:
                others.append(ConceptShare(representative, 1.0, members, presumed, has_best_name=False))
        total = sum(own.share for own in tied)
        profiles = self.profiles.get([own.representative for own in tied]) if len(tied) > 1 else {}

        def order(own: ConceptShare) -> tuple[float, int, float]:
            return -own.share, -len(profiles[own.representative].forms) if profiles else 0, own.representative

        return (*(own._replace(share=own.share / total) for own in sorted(tied, key=order)), *others)

    def _weights(self, features: Mapping[float, PriorFeatures], candidates: Ranked) -> dict[float, float]:
        ranked: dict[float, float] = {candidate.concept: candidate.weight for candidate in candidates}
        log_odds = dict[float, float]()
        for concept, own in features.items():
            log_odds[concept] = self.prior.log_odds(own) + math.log(max(ranked[concept], 1e-9))
            if self._has_preferences:
                log_odds[concept] -= _PREFERENCE * self.equivalence.preference(self.profiles.get([concept])[concept])
        highest = max(log_odds.values())
        return {concept: math.exp(max(value - highest, -_MAX_LOG_ODDS)) for concept, value in log_odds.items()}

    def prior_features(
        self, mentions: Sequence[Mention], named: Sequence[Mapping[float, bool]], ranked: Rankings
    ) -> list[dict[float, PriorFeatures]]:
        """Return the prior features of the concepts ``named`` by each best name, if these are several."""
        features_of: list[dict[float, PriorFeatures]] = [{} for _ in mentions]
        tied = [i for i, concepts in enumerate(named) if len(concepts) > 1]
        if not tied:
            return features_of
        index, names = self.bundle.index, np.array([ranked[i][0].name for i in tied])
        forms, same_spelling = index.norms(names), self._same_spelling([mentions[i].text for i in tied], names)
        keys = sorted({concept for i in tied for concept in named[i]})
        profiles, rows = self.profiles.get(keys), {concept: row for row, concept in enumerate(keys)}
        vectors, means = index.vectors(names), index.means(np.array(keys)).astype(np.float32)
        for at, i in enumerate(tied):
            own = {concept: profiles[concept] for concept in sorted(named[i])}
            cosines = (means[[rows[concept] for concept in own]] * vectors[at]).sum(axis=1).round(4).tolist()
            # popularity decides between similar things, not between senses
            name_only = is_short(mentions[i].text) or self.prior.has_several_senses(own.values())
            for (concept, profile), cosine in zip(own.items(), cosines, strict=True):
                features = profile.features._replace(
                    preferred=float(named[i][concept]),
                    spelt=float((at, concept) in same_spelling),
                    name_sources=math.log(max(profile.count_sources(forms[at]), 1)),
                    likeness=cosine,
                )
                features_of[i][concept] = features.without_popularity() if name_only else features
        return features_of

    def _same_spelling(self, mentions: Sequence[str], names: Keys) -> set[tuple[int, float]]:
        """Pairs of mention number and concept with a name of exactly the letters of the mention."""
        entries, spellings = self.bundle.index.entries(names), [spelling(mention) for mention in mentions]
        texts = self.bundle.index.describe(entries.address)[0]
        rows = zip(entries.position.tolist(), entries.concept.tolist(), texts, strict=True)
        return {(at, concept) for at, concept, text in rows if spelling(text) == spellings[at]}

    def _weigh_by_context(
        self, shares: list[Shares], tied: Sequence[int], mentions: Sequence[Mention], contexts: Sequence[str]
    ) -> None:
        encoder = self.bundle.encoder
        # without the mention, which is equally similar to all of its concepts
        around = encoder.encode([contexts[i].replace(mentions[i].text, " ") for i in tied])
        concepts = sorted({concept.representative for i in tied for concept in shares[i]})
        ids = self.bundle.index.concept_ids(np.array(concepts))
        languages = sorted({mentions[i].language or "" for i in tied})
        labels: list[str] = []
        for language in languages:
            preferred = self.bundle.kb.preferred_names(ids, language or None)
            labels += [preferred.get(concept_id, concept_id) for concept_id in ids]
        keys = [(language, concept) for language in languages for concept in concepts]
        vectors = dict(zip(keys, encoder.encode(labels), strict=True))
        for vector, i in zip(around, tied, strict=True):
            own, language = [concept for concept in shares[i] if concept.has_best_name], mentions[i].language or ""
            logits = np.array([float(vectors[language, concept.representative] @ vector) for concept in own])
            logits /= _CONTEXT_TEMPERATURE
            weight = np.exp(logits - logits.max()) * np.array([concept.share for concept in own])
            parts = (weight / weight.sum()).tolist()
            weighed = [concept._replace(share=part) for concept, part in zip(own, parts, strict=True)]
            weighed.sort(key=lambda concept: (-concept.share, concept.representative))
            shares[i] = (*weighed, *shares[i][len(own) :])


def _concepts_of_best_name(candidates: Ranked) -> dict[float, bool]:
    # concepts of one name have one rank, and most best names are alone at their rank
    first = candidates[:2]
    if len(first) < 2 or first[1].rank != first[0].rank:
        return {candidate.concept: candidate.preferred for candidate in first[:1]}
    return {candidate.concept: candidate.preferred for candidate in candidates if candidate.name == first[0].name}
