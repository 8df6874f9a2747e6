"""Assign known concepts to terms, and classify clusters as known, ambiguous or new."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.clusters import Cluster
from medlink.clustering.guards import NARROWING, separating_kinds
from medlink.index.word_coverage import UNKNOWN_WORD, TextFeatures
from medlink.language.guard_words import NEGATION, GuardReader
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.text import normalise
from medlink.records import AMBIGUOUS, Candidate, Link

MIN_PARENT_SCORE = 0.3
"""Lowest score of the nearest concept for a proposed parent; clinicians found only noise below it."""
_DOUBT = 0.15  # a score this close to the threshold, or a rival this close to the best, asks for a review
_NEAREST = 5
_BATCH = 4096  # links
_NAME_ROUTES = ("exact", "inflected")  # the mention is a name of the concept
_STATED_ROUTES = (*_NAME_ROUTES, "learned")
_KINDS = {
    "finding": ("finding", "change"), "body": ("body", "function"), "substance": ("substance", "organism"),
    "modifier": ("quality", "circumstance", "procedure"), UNKNOWN_WORD: (),
    "general": ("general", "measure", "person"),  # these narrow no term
}  # fmt: skip
_COVERED = 0.999  # least share of a name that counts as covered
_MAX_ABBREVIATION = 5  # characters; a short word in capitals has no stem: GOT is not a form of "gota"
# votes of a near concept for itself as the parent, and if its name is part of a term; each of its parents gets 1
_SELF_VOTE, _PART_VOTE = 0.5, 1.5
Parents = Callable[[str], Sequence[tuple[str, str]]]
"""Id and name of each parent of a concept, by id."""


class TermLinker(Protocol):
    """The part of a linker that the clusterer needs."""

    def link(self, mentions: Sequence[str]) -> list[Link]:
        """Return one link for each mention, candidates best first."""


def unify_ids(links: Sequence[Link]) -> list[Link]:
    """Give a concept of several sources one id in all links: that of the first link that lists several ids of it.

    A link lists the other ids (``same_as``) only for a name that the sources share; the other links get them here.
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
            concept_id, name, same = best.concept_id, best.preferred_name, others.get(best.concept_id, ())
            unified = replace(candidate, concept_id=concept_id, preferred_name=name, same_as=same)
            by_id.setdefault(concept_id, unified if same else candidate)
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
    return frozenset(c.concept_id for c in plausible_candidates(link) if c.route in _NAME_ROUTES)


class TermConcept(NamedTuple):
    """The concept of a term by its own link: the best candidate, if it reaches :data:`MIN_PARENT_SCORE`, no guard
    contradicts it and it is not broader, or the ``equal`` concepts that share the term as a name. The term is narrower
    than ``broader``."""

    best: Candidate | None = None
    equal: tuple[Candidate, ...] = ()
    broader: Candidate | None = None


def read_parts(links: Sequence[Link], languages: Sequence[str]) -> list[tuple[Link, frozenset[str]]]:
    """Return each link without candidates that name only a part of the term, and the ids of its broader concepts.

    The term has all words of such a name in any language, and a word that the lexicon does not call general. The name
    is a part if it names no finding or thing (*left* of *left arm*), or a thing inside a finding. It is broader if it
    has the first or the last word of the term.
    """
    pairs = [
        (row, candidate)
        for row, link in enumerate(links)
        for candidate in plausible_candidates(link)
        if candidate.route not in _STATED_ROUTES
    ]
    texts = [*(link.mention for link in links), *(candidate.name for _, candidate in pairs)]
    tags = [*(tag or None for tag in languages), *(candidate.language or None for _, candidate in pairs)]
    words = TextFeatures(texts, tags, shipped_forms(), _KINDS)
    term, name = np.array([row for row, _ in pairs], np.int64), np.arange(len(links), len(texts))
    of_term, of_name, _ = words.compare_pairs(term, name)
    more = of_term.uncovered_kinds[:, : len(_KINDS) - 1].max(axis=1, initial=0) > 0
    inside = (of_name.covered > _COVERED) & more
    is_finding = words.is_finding | (words.unknown > 0)  # as a name with an unknown word may be
    is_kind = words.is_thing[name] & (is_finding[name] | ~words.is_finding[term])
    is_broader = inside & is_kind & (np.maximum(of_term.first_word, of_term.last_word) > 0)
    parts, broader = [set[str]() for _ in links], [set[str]() for _ in links]
    for at in np.flatnonzero(inside).tolist():
        row, candidate = pairs[at]
        (broader if is_broader[at] else parts)[row].add(candidate.concept_id)
    return [
        (replace(link, candidates=tuple(c for c in link.candidates if c.concept_id not in left)), frozenset(above))
        for link, left, above in zip(links, parts, broader, strict=True)
    ]


def resolve_term(
    link: Link, language: str = "", reader: GuardReader | None = None, broader: Collection[str] = ()
) -> TermConcept:
    """Choose the concept of a term from its link; ``language`` is that of the term, BCP 47 or ``""``.

    "no ataxia" is not Ataxia: a guard separates the term from the name. *Renal anaemia* is not Anaemia, but narrower:
    ``broader`` has the ids of such concepts. A shared ``reader`` reads each term once.
    """
    candidates = plausible_candidates(link)
    if link.status == AMBIGUOUS:
        top = max((candidate.score for candidate in candidates), default=0.0)
        named = exact_concept_ids(link)
        equal = tuple(c for c in candidates if (c.concept_id in named if named else c.score == top))
        if len(equal) > 1:
            return TermConcept(equal=equal)

    def kinds(name: Candidate) -> frozenset[str]:
        return separating_kinds(link.mention, name.name, language, name.language, reader)

    above = (c for c in candidates if c.concept_id in broader and kinds(c) <= NARROWING)
    parent, best = next(above, None), candidates[0] if candidates else None
    if best is None or best.score < MIN_PARENT_SCORE or best.concept_id in broader:
        return TermConcept(broader=parent)
    contradicted = best.route not in _NAME_ROUTES and kinds(best)
    return TermConcept(None if contradicted else best, broader=parent)


def resolve_terms(
    links: Sequence[Link], languages: Sequence[str], reader: GuardReader
) -> tuple[list[Link], list[TermConcept]]:
    """Return the links without parts of the terms (:func:`read_parts`), and the concept of each term."""
    read = list[tuple[Link, frozenset[str]]]()
    for start in range(0, len(links), _BATCH):
        read += read_parts(links[start : start + _BATCH], languages[start : start + _BATCH])
    terms = zip(read, languages, strict=True)
    return [link for link, _ in read], [resolve_term(link, tag, reader, above) for (link, above), tag in terms]


def is_name(concept: TermConcept) -> bool:
    """Return whether a term is a name of its concept, or was learned as one."""
    return bool(concept.equal) or (concept.best is not None and concept.best.route in _STATED_ROUTES)


def group_by_concept(
    group: NDArray[np.int64], resolved: Sequence[TermConcept], known_at: float
) -> tuple[NDArray[np.int64], list[str]]:
    """Move all terms of a known concept into one group.

    A term belongs to its best concept if that scores at least ``known_at`` for this term or another term of its group.
    All other terms stay together. Returns the group of each term ``(n,)``, and the concept of each group or ``""``.
    """
    sure = [concept.best.concept_id if concept.best and concept.best.score >= known_at else "" for concept in resolved]
    named = set(zip(group.tolist(), sure, strict=True))
    numbers: dict[tuple[int, str], int] = {}
    new_group = np.empty(len(group), dtype=np.int64)
    for node, of in enumerate(group.tolist()):
        best = resolved[node].best
        concept = sure[node] or (best.concept_id if best and (of, best.concept_id) in named else "")
        new_group[node] = numbers.setdefault((-1, concept) if concept else (of, ""), len(numbers))
    return new_group, [concept for _, concept in numbers]


def score_members(
    links: Sequence[Link], group: NDArray[np.int64], concepts: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Score each term ``(n,)`` for the concept of its group, or for its nearest one, NaN without a candidate.

    The second result marks terms of known concepts that score clearly less than the best of their group.
    """
    scores = np.full(len(links), np.nan)
    for node, link in enumerate(links):
        concept = concepts[group[node]]
        fits = (near.score for near in plausible_candidates(link) if concept in ("", near.concept_id))
        scores[node] = next(fits, np.nan)
    best = np.zeros(len(concepts))
    np.fmax.at(best, group, scores)
    known = np.array([bool(concept) for concept in concepts], dtype=bool)
    return scores, known[group] & ~(scores > best[group] - _DOUBT)


def classify_cluster(
    links: Sequence[Link], term: TermConcept, concept: str, known_at: float, parents: Parents | None,
    language: str = "", reader: GuardReader | None = None,
) -> Cluster:  # fmt: skip
    """Classify a cluster by the links of some of its members, the representative's first.

    A cluster with a ``concept`` is known, with the best score of a member. Otherwise it is ambiguous if its
    representative, a ``term``, is a name of several concepts, else new. The parent of a new cluster is a broader
    concept of the term. Without one it gets a parent if the nearest concept reaches :data:`MIN_PARENT_SCORE` and the
    representative does not negate it. The result has no number and no members.
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
        name, score = best[concept].preferred_name, best[concept].score
        doubtful = score - known_at < _DOUBT or any(candidate.score > score - _DOUBT for candidate in nearest[1:])
        return Cluster(concept_id=concept, concept_name=name, score=score, nearest=nearest, doubtful=doubtful)
    if equal := term.equal:
        return Cluster(score=max(c.score for c in equal), nearest=nearest, candidates=equal, doubtful=True)
    top, parent = nearest[0], ("", "")
    # "no ataxia" does not belong below ataxia; a sibling of the nearest concept still shares its parents
    if term.broader:
        parent = term.broader.concept_id, term.broader.preferred_name
    elif parents and top.score >= MIN_PARENT_SCORE:
        kinds = separating_kinds(links[0].mention, top.name, language, top.language, reader)
        if NEGATION not in kinds:
            parent = propose_parent([link.mention for link in links], nearest, parents, exact_concept_ids(links[0]))
    doubtful = abs(top.score - known_at) < _DOUBT
    return Cluster(
        score=top.score, nearest=nearest, parent_id=parent[0] or None, parent_name=parent[1], doubtful=doubtful
    )


def propose_parent(
    terms: Sequence[str], nearest: Sequence[Candidate], parents: Parents, named: Collection[str] = ()
) -> tuple[str, str]:
    """Return id and name of a likely parent of a new concept, ``("", "")`` for none.

    Each near concept votes with its score for each of its parents. Unless its id is in ``named``, it also votes for
    itself: with half its score, or with 1.5 times its score if its name is part of a term. Of the rules tried, this one
    placed most new concepts of HPO below their parent (``docs/explanation/clustering.md``).
    """
    votes, names = defaultdict[str, float](float), {"": ""}
    words = [set(normalise(term).split()) for term in terms]
    for candidate in nearest:
        inside = set(normalise(candidate.name).split())
        itself = _PART_VOTE if any(inside < term for term in words) else _SELF_VOTE
        above = [(concept, name, 1.0) for concept, name in parents(candidate.concept_id)]
        if candidate.concept_id not in named:
            above.insert(0, (candidate.concept_id, candidate.preferred_name, itself))
        for concept, name, vote in above:
            votes[concept] += vote * candidate.score
            names[concept] = name
    winner = min(votes, key=lambda concept: (-votes[concept], concept), default="")
    return winner, names[winner]
