"""Assign known concepts to terms, and classify clusters as known, ambiguous or new."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.clusters import Cluster
from medlink.clustering.guards import separating_kinds
from medlink.language.guard_words import NEGATION, GuardReader
from medlink.language.text import normalise
from medlink.records import AMBIGUOUS, Candidate, Link

DEFAULT_KNOWN_AT = 0.5
"""Default of the option ``known_at``: the lowest score of a known concept."""
MAX_CLASSIFIED_MEMBERS = 10
"""Members whose links classify their cluster, the representative first."""

MIN_PARENT_SCORE = 0.3
"""Lowest score of the nearest concept for a proposed parent; clinicians found only noise below it."""

_DOUBT = 0.15  # a score this close to the threshold, or a rival this close to the best, asks for a review
_NEAREST = 5
_NAME_ROUTES = ("exact", "inflected")  # the mention is a name of the concept
_MAX_ABBREVIATION = 5  # characters; a short word in capitals has no stem: GOT is no form of "gota"
# votes of a near concept for itself as the parent; each of its parents gets 1
_SELF_VOTE = 0.5
_PART_VOTE = 1.5  # if its name is part of a term
Parents = Callable[[str], Sequence[tuple[str, str]]]
"""Id and name of each parent of a concept, by id."""


class TermLinker(Protocol):
    """The part of a linker that the clusterer needs."""

    def link(self, mentions: Sequence[str]) -> list[Link]:
        """Return one link for each mention, candidates best first."""


def unify_ids(links: Sequence[Link]) -> list[Link]:
    """Give a concept of several sources the same id in all links.

    A link lists the other ids (``same_as``) only for a name that the sources share; other links get them here. The
    first link that lists several ids of a concept determines the id that all use.
    """
    canonical: dict[str, Candidate] = {}

    def resolve(candidate: Candidate) -> Candidate:
        while candidate.concept_id in canonical:
            candidate = canonical[candidate.concept_id]
        return candidate

    for link in links:
        for candidate in link.candidates:
            for twin in candidate.same_as:
                if twin not in canonical and resolve(candidate).concept_id != twin:
                    canonical[twin] = resolve(candidate)
    others: dict[str, tuple[str, ...]] = {}
    for twin, candidate in canonical.items():
        concept_id = resolve(candidate).concept_id
        others[concept_id] = (*others.get(concept_id, ()), twin)

    def unify(link: Link) -> Link:
        by_id: dict[str, Candidate] = {}
        for candidate in link.candidates:
            best = resolve(candidate)
            same = others.get(best.concept_id, ())
            name = best.preferred_name
            unified = replace(candidate, concept_id=best.concept_id, preferred_name=name, same_as=same)
            by_id.setdefault(best.concept_id, unified if same else candidate)
        return replace(link, candidates=tuple(by_id.values()))

    affected = canonical.keys() | others.keys()
    return [link if affected.isdisjoint(c.concept_id for c in link.candidates) else unify(link) for link in links]


def plausible_candidates(link: Link) -> tuple[Candidate, ...]:
    """Return the candidates of a link, without those that match a short word in capitals by its stem only."""
    if link.mention.isupper() and len(link.mention) <= _MAX_ABBREVIATION:
        return tuple(candidate for candidate in link.candidates if candidate.route != "inflected")
    return link.candidates


def exact_concept_ids(link: Link) -> frozenset[str]:
    """Return the ids of concepts that have the mention as a name, exactly or inflected."""
    return frozenset(
        candidate.concept_id for candidate in plausible_candidates(link) if candidate.route in _NAME_ROUTES
    )


def is_contradicted(term: str, language: str, candidate: Candidate, reader: GuardReader | None = None) -> bool:
    """Tell whether a guard separates a term from the name of a concept: "no ataxia" is not Ataxia.

    A shared ``reader`` reads each term once.
    """
    return bool(separating_kinds(term, candidate.name, language, candidate.language, reader))


class TermConcept(NamedTuple):
    """The concept of a term by its own link.

    Attributes:
        best: the best candidate, if it reaches :data:`MIN_PARENT_SCORE` and no guard contradicts it.
        equal: the concepts that share the term as a name; ``best`` is ``None`` then.
    """

    best: Candidate | None = None
    equal: tuple[Candidate, ...] = ()


def resolve_term(link: Link, language: str = "", reader: GuardReader | None = None) -> TermConcept:
    """Choose the concept of a term from its link; ``language`` is the term's, BCP 47 or ``""``."""
    candidates = plausible_candidates(link)
    if link.status == AMBIGUOUS:
        top = max((candidate.score for candidate in candidates), default=0.0)
        named = {candidate.concept_id for candidate in candidates if candidate.route in _NAME_ROUTES}
        equal = tuple(c for c in candidates if (c.concept_id in named if named else c.score == top))
        if len(equal) > 1:
            return TermConcept(equal=equal)
    if not candidates or candidates[0].score < MIN_PARENT_SCORE:
        return TermConcept()
    best = candidates[0]
    if best.route not in _NAME_ROUTES and is_contradicted(link.mention, language, best, reader):
        return TermConcept()
    return TermConcept(best)


def group_by_concept(
    group: NDArray[np.int64], resolved: Sequence[TermConcept], known_at: float
) -> tuple[NDArray[np.int64], list[str]]:
    """Move all terms of a known concept into one group.

    A term belongs to its best concept if that scores at least ``known_at`` for this term or another term of its group.
    All other terms stay together. Returns the group of each term ``(n,)``, and the concept of each group or ``""``.
    """
    sure = [concept.best.concept_id if concept.best and concept.best.score >= known_at else "" for concept in resolved]
    named: dict[int, set[str]] = {}
    for of, concept in zip(group.tolist(), sure, strict=True):
        if concept:
            named.setdefault(of, set()).add(concept)
    numbers: dict[tuple[int, str], int] = {}
    new_group = np.empty(len(group), dtype=np.int64)
    for node, of in enumerate(group.tolist()):
        best = resolved[node].best
        concept = sure[node] or (best.concept_id if best and best.concept_id in named.get(of, ()) else "")
        new_group[node] = numbers.setdefault((-1, concept) if concept else (of, ""), len(numbers))
    return new_group, [concept for _, concept in numbers]


def classify_cluster(
    links: Sequence[Link], equal: Sequence[Candidate], concept: str, known_at: float = DEFAULT_KNOWN_AT,
    parents: Parents | None = None, language: str = "", reader: GuardReader | None = None,
) -> Cluster:  # fmt: skip
    """Classify a cluster by the links of some of its members, the representative's first.

    A cluster with a ``concept`` is known, with the best score of a member. Without one it is ambiguous if its
    representative is a name of several concepts (``equal``), else new. A new cluster gets a parent if the nearest
    concept reaches :data:`MIN_PARENT_SCORE` and the representative does not negate it. The result has no number and no
    members. A shared ``reader`` reads each term once.
    """
    best: dict[str, Candidate] = {}
    for link in links:
        for candidate in plausible_candidates(link):
            if candidate.concept_id not in best or candidate.score > best[candidate.concept_id].score:
                best[candidate.concept_id] = candidate
    if not best:
        return Cluster()
    order = sorted(best, key=lambda concept_id: (concept_id != concept, -best[concept_id].score, concept_id))
    nearest = tuple(best[concept_id] for concept_id in order[:_NEAREST])
    if concept and concept in best:
        score = best[concept].score
        rival = any(candidate.score > score - _DOUBT for candidate in nearest[1:])
        known = best[concept]
        return Cluster(
            concept_id=concept, concept_name=known.preferred_name, score=score, nearest=nearest,
            doubtful=score - known_at < _DOUBT or rival,
        )  # fmt: skip
    if equal:
        return Cluster(score=max(c.score for c in equal), nearest=nearest, candidates=tuple(equal), doubtful=True)
    term, top, parent = links[0].mention, nearest[0], ("", "")
    # "no ataxia" does not belong below ataxia; a sibling of the nearest concept still shares its parents
    if (parents and top.score >= MIN_PARENT_SCORE) and NEGATION not in separating_kinds(
        term, top.name, language, top.language, reader
    ):
        parent = propose_parent([link.mention for link in links], nearest, parents, exact_concept_ids(links[0]))
    return Cluster(
        score=top.score, nearest=nearest, parent_id=parent[0] or None, parent_name=parent[1],
        doubtful=abs(top.score - known_at) < _DOUBT,
    )  # fmt: skip


def propose_parent(
    terms: Sequence[str], nearest: Sequence[Candidate], parents: Parents, named: Collection[str] = ()
) -> tuple[str, str]:
    """Return id and name of a likely parent of a new concept, ``("", "")`` if there is none.

    Each near concept votes with its score for each of its parents. Unless its id is in ``named``, it also votes for
    itself: with half its score, or with 1.5 times its score if its name is part of a term. Of the rules tried, this one
    placed most new concepts of HPO below their parent (``docs/explanation/clustering.md``).
    """
    votes: dict[str, float] = {}
    names: dict[str, str] = {}
    words = [set(normalise(term).split()) for term in terms]
    for candidate in nearest:
        inside = set(normalise(candidate.name).split())
        itself = _PART_VOTE if any(inside < term for term in words) else _SELF_VOTE
        above = [(concept, name, 1.0) for concept, name in parents(candidate.concept_id)]
        if candidate.concept_id not in named:
            above.insert(0, (candidate.concept_id, candidate.preferred_name, itself))
        for concept, name, vote in above:
            votes[concept] = votes.get(concept, 0.0) + vote * candidate.score
            names[concept] = name
    if not votes:
        return "", ""
    winner = min(votes, key=lambda concept: (-votes[concept], concept))
    return winner, names[winner]
