"""Clusters to concepts: a known one with a score, a name of several, or NEW with the nearest and a proposed parent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Protocol

from medlink.clustering.clusters import Cluster
from medlink.clustering.guards import LATERALITY, parting_kinds
from medlink.language.guard_words import NEGATION, GuardReader
from medlink.language.text import normalise
from medlink.records import Candidate, Link

KNOWN_AT = 0.5
"""Score at and above which a cluster is a known concept."""
ASKED = 10
"""Members of a cluster that are linked, the most frequent first."""

UNPLACED = 0.3
"""Score of the nearest concept below which no parent is proposed: what clinicians read below it was noise."""

_DOUBT = 0.15  # a score as near to the border, or a rival as near to the best, asks for a reader
_NEAREST = 5
_NAMED = ("exact", "inflected")  # routes of a mention that is the name
_CAPITALS = 5  # characters of a word in capitals that is an abbreviation and no plural: GOT is not the stem of "gota"
# Votes of a near concept for itself as the parent, against 1 for each of its parents.
_ITSELF = 0.5
_BROADER = 1.5  # where its name is part of a term


class Linking(Protocol):
    """What the clusterer needs of a linker."""

    def link(self, mentions: Sequence[str]) -> list[Link]:
        """One link for each mention, candidates best first."""


Parents = Callable[[str], Sequence[tuple[str, str]]]
"""Id and name of each parent of a concept, by id."""


def as_one(links: Sequence[Link]) -> list[Link]:
    """Links in which a concept that several sources have goes by one id everywhere.

    A link says so only of the name that the sources share; another name, which one of them alone has, is a name of the
    same concept. The first link that has a concept under several ids says which of them is shown.

    >>> fever = Candidate("A:1", "Fever", 0.9, "fever", "en", "exact", same_as=("B:1",))
    >>> links = as_one([Link("fever", (fever,)), Link("hot", (Candidate("B:1", "Heat", 0.9, "hot", "en", "exact"),))])
    >>> links[1].candidates[0].concept_id, links[1].candidates[0].same_as
    ('A:1', ('B:1',))
    """
    shown: dict[str, Candidate] = {}

    def of(candidate: Candidate) -> Candidate:
        """What is shown for a candidate."""
        while candidate.concept_id in shown:
            candidate = shown[candidate.concept_id]
        return candidate

    for link in links:
        for candidate in link.candidates:
            for other in candidate.same_as:
                if other not in shown and of(candidate).concept_id != other:
                    shown[other] = of(candidate)
    others: dict[str, tuple[str, ...]] = {}
    for other, candidate in shown.items():
        whole = of(candidate).concept_id
        others[whole] = (*others.get(whole, ()), other)

    def renamed(link: Link) -> Link:
        """A link with each concept once, the best of its candidates."""
        found: dict[str, Candidate] = {}
        for candidate in link.candidates:
            concept_id, name = of(candidate).concept_id, of(candidate).preferred_name
            same = others.get(concept_id, ())
            shown_as = replace(candidate, concept_id=concept_id, preferred_name=name, same_as=same)
            found.setdefault(concept_id, shown_as if same else candidate)
        return replace(link, candidates=tuple(found.values()))

    concerned = shown.keys() | others.keys()
    return [link if concerned.isdisjoint(c.concept_id for c in link.candidates) else renamed(link) for link in links]


def believed(link: Link) -> tuple[Candidate, ...]:
    """Candidates of a link, but for those that a short word in capitals has by its stem alone.

    >>> gout = Candidate("HP:1", "Gout", 0.9, "Gota", "es", "inflected")
    >>> believed(Link("GOT", (gout,))), len(believed(Link("gotas", (gout,))))
    ((), 1)
    """
    if link.mention.isupper() and len(link.mention) <= _CAPITALS:
        return tuple(candidate for candidate in link.candidates if candidate.route != "inflected")
    return link.candidates


def concepts_named(link: Link) -> frozenset[str]:
    """Ids of the concepts that a mention is a name of, to the letter or in another inflection.

    >>> sorted(concepts_named(Link("fever", (Candidate("HP:1", "Fever", 0.9, "Fever", "en", "exact"),))))
    ['HP:1']
    """
    return frozenset(candidate.concept_id for candidate in believed(link) if candidate.route in _NAMED)


def contradicts(term: str, language: str, candidate: Candidate, reader: GuardReader | None = None) -> bool:
    """Whether a guard parts a term from the name of a concept: "no ataxia" is not Ataxia.

    A side that the term alone names is a detail of the concept, not another one. With a ``reader`` for many pairs each
    term is read once.

    >>> ataxia = Candidate("HP:1", "Ataxia", 0.8, "Ataxia", "en", "dense")
    >>> contradicts("no ataxia", "en", ataxia), contradicts("left ataxia", "en", ataxia)
    (True, False)
    """
    reader = reader or GuardReader()
    kinds = parting_kinds(term, candidate.name, language, candidate.language, reader)
    theirs = reader.read(candidate.name, candidate.language).values
    return bool(kinds if LATERALITY in theirs else kinds - {LATERALITY})


def judge(
    links: Sequence[Link],
    known_at: float = KNOWN_AT,
    parents: Parents | None = None,
    language: str = "",
    reader: GuardReader | None = None,
) -> Cluster:
    """Decide what a cluster is from the links of its members, at least one, the representative's first.

    A concept's score is what the members give it on average, 0 for those that do not have it among their candidates.
    Where a member is a name of it, to the letter or in another inflection, the best such member and the average of all
    others are two witnesses, and the score is the probability that one of them is right, were they independent.

    A concept that the representative names comes first, then the one that most members name, then the one of the
    highest score, then of the lowest id. A concept whose name a guard parts from the representative may be near, but is
    not the cluster's. One that neither the representative alone is linked to, with :data:`UNPLACED` or more, nor two
    members name, is doubtful. No parent is proposed where no near concept reaches :data:`UNPLACED`, nor for what the
    nearest concept negates.

    Where none has the score, and the representative is a name of several, or members are, the cluster is ambiguous.
    What the representative is a name of is not proposed as its own parent.

    Args:
        links: those of the members that were asked.
        known_at: score that a known concept needs, in [0, 1].
        parents: id and name of each parent of a concept.
        language: of the representative, BCP 47 or ``""``.
        reader: with one for many clusters each term is read once.

    Returns:
        A cluster without number and members.

    >>> fever = Candidate("HP:1", "Fever", 0.9, "Fever", "en", "exact")
    >>> verdict = judge([Link("fever", (fever,), "linked"), Link("Fieber", (fever,), False), Link("febris", ())])
    >>> verdict.concept_id, verdict.score, judge([Link("abc", ())]).concept_id
    ('HP:1', 0.945, None)
    """
    reader = reader or GuardReader()
    scores: dict[str, list[float]] = {}
    named: dict[str, float] = {}
    best: dict[str, Candidate] = {}
    for link in links:
        for candidate in believed(link):
            scores.setdefault(candidate.concept_id, []).append(candidate.score)
            if candidate.route in _NAMED:
                named[candidate.concept_id] = max(named.get(candidate.concept_id, 0.0), candidate.score)
            if candidate.concept_id not in best or candidate.score > best[candidate.concept_id].score:
                best[candidate.concept_id] = candidate
    if not scores:
        return Cluster()
    total = {c: round(_together(given, named.get(c), len(links)), 6) for c, given in scores.items()}
    rated = {c: replace(best[c], score=total[c]) for c in total}
    nearest = tuple(rated[c] for c in sorted(total, key=lambda c: (-total[c], c))[:_NEAREST])
    term, own = links[0].mention, concepts_named(links[0])
    votes = Counter(concept for link in links for concept in concepts_named(link))
    order = sorted(total, key=lambda c: (c not in own, -votes[c], -total[c], c))

    def may_be(concept: str) -> bool:
        """Whether nothing speaks against a concept; its own name does not, whatever language it is in."""
        return concept in own or not contradicts(term, language, best[concept], reader)

    fits = filter(may_be, order)
    first = next(fits, None)
    score = total[first] if first is not None else 0.0
    doubtful = abs(score - known_at) < _DOUBT or len(votes) > 1
    if first is not None and score >= known_at:
        rival = any(score - total[c] < _DOUBT for c in fits)
        told = max((c.score for c in believed(links[0]) if c.concept_id == first), default=0.0)
        # readers found most of these wrong: what one other member is a name of says little of the representative
        alone = told < UNPLACED and votes[first] < 2
        return Cluster(
            concept_id=first,
            concept_name=best[first].preferred_name,
            score=score,
            nearest=nearest,
            doubtful=doubtful or rival or alone,
        )
    names = tuple(rated[c] for c in order if c in (own or votes) and may_be(c))
    if len(names) > 1:
        return Cluster(score=names[0].score, nearest=nearest, candidates=names, doubtful=True)
    # "no ataxia" has no place below ataxia; a sister finding is near its parent all the same
    denied = NEGATION in parting_kinds(term, nearest[0].name, language, nearest[0].language, reader)
    placed = nearest[0].score >= UNPLACED and not denied
    terms = [link.mention for link in links]
    parent = propose_parent(terms, nearest, parents, own) if parents and placed else ("", "")
    return Cluster(
        score=nearest[0].score, nearest=nearest, parent_id=parent[0] or None, parent_name=parent[1], doubtful=doubtful
    )


def _together(given: Sequence[float], named: float | None, members: int) -> float:
    """A concept's score from those that members give it, ``named`` the best of a member that is a name of it."""
    if named is None:
        return sum(given) / members
    others = (sum(given) - named) / (members - 1) if members > 1 else 0.0
    return 1 - (1 - named) * (1 - others)


def propose_parent(
    terms: Sequence[str], nearest: Sequence[Candidate], parents: Parents, named: Collection[str] = ()
) -> tuple[str, str]:
    """Id and name of a likely parent of a new concept, ``("", "")`` where nothing speaks for one.

    Each near concept votes with its score for each of its parents, with half of it for itself, and with one and a half
    of it for itself where its name is part of one of the terms; not for itself where it is ``named``. Of what was tried
    this put most new concepts of HPO below their parent (``docs/clustering.md``).

    >>> near = [Candidate("HP:1", "Fever", 0.4, "fever", "en", "dense")]
    >>> propose_parent(["dengue fever"], near, lambda concept: [("HP:0", "Finding")])
    ('HP:1', 'Fever')
    """
    votes: dict[str, float] = {}
    names: dict[str, str] = {}
    words = [set(normalise(term).split()) for term in terms]
    for candidate in nearest:
        inside = set(normalise(candidate.name).split())
        itself = _BROADER if any(inside < term for term in words) else _ITSELF
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
