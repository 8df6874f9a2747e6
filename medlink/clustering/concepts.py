"""Terms to known concepts, each by itself, and clusters to what their members say: known, ambiguous, or NEW."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.clusters import Cluster
from medlink.clustering.guards import LATERALITY, parting_kinds
from medlink.language.guard_words import NEGATION, GuardReader
from medlink.language.text import normalise
from medlink.records import AMBIGUOUS, Candidate, Link

KNOWN_AT = 0.5
"""Score at and above which a term is a known concept."""
ASKED = 10
"""Members of a cluster whose near concepts are looked at, the representative first."""

UNPLACED = 0.3
"""Score of the nearest concept below which no parent is proposed: what clinicians read below it was noise."""

_DOUBT = 0.15  # a score as near to the border, or a rival as near to the best, asks for a reader
_NEAREST = 5
_NAMED = ("exact", "inflected")  # routes of a mention that is the name
_CAPITALS = 5  # characters of a word in capitals that is an abbreviation and no plural: GOT is not the stem of "gota"
# Votes of a near concept for itself as the parent, against 1 for each of its parents.
_ITSELF = 0.5
_BROADER = 1.5  # where its name is part of a term
Parents = Callable[[str], Sequence[tuple[str, str]]]
"""Id and name of each parent of a concept, by id."""


class Linking(Protocol):
    """What the clusterer needs of a linker."""

    def link(self, mentions: Sequence[str]) -> list[Link]:
        """One link for each mention, candidates best first."""


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


class Answer(NamedTuple):
    """What a term is by its link alone.

    Attributes:
        best: the candidate that fits best and that nothing contradicts, if any reaches :data:`UNPLACED`.
        equal: where the term is a name of several concepts, these; none is its own then.
    """

    best: Candidate | None = None
    equal: tuple[Candidate, ...] = ()


def answer(link: Link, language: str = "", reader: GuardReader | None = None) -> Answer:
    """What a term is by its link alone; ``language`` is the term's, BCP 47 or ``""``.

    >>> fever = Candidate("HP:1", "Fever", 0.9, "Fever", "en", "dense")
    >>> answer(Link("fever", (fever,), "linked")).best.concept_id, answer(Link("no fever", (fever,), "linked")).best
    ('HP:1', None)
    """
    candidates = believed(link)
    if link.status == AMBIGUOUS:
        top = max((one.score for one in candidates), default=0.0)
        named = {one.concept_id for one in candidates if one.route in _NAMED}
        equal = tuple(one for one in candidates if (one.concept_id in named if named else one.score == top))
        if len(equal) > 1:
            return Answer(equal=equal)
    if not candidates or candidates[0].score < UNPLACED:
        return Answer()
    best = candidates[0]
    if best.route not in _NAMED and contradicts(link.mention, language, best, reader):
        return Answer()
    return Answer(best)


def known_groups(
    group: NDArray[np.int64], answers: Sequence[Answer], known_at: float
) -> tuple[NDArray[np.int64], list[str]]:
    """Groups in which a known concept has those terms that say so by themselves, wherever they stood.

    A term is of a concept that is its own best with ``known_at`` or more. One whose best is below that goes with a term
    of its group that is surer of the same concept. All others stay together: nothing known is carried over to them.
    Gives the group of each term ``(n,)``, and the id of the concept of each group, ``""`` for none.
    """
    sure = [one.best.concept_id if one.best and one.best.score >= known_at else "" for one in answers]
    named: dict[int, set[str]] = {}
    for of, concept in zip(group.tolist(), sure, strict=True):
        if concept:
            named.setdefault(of, set()).add(concept)
    places: dict[tuple[int, str], int] = {}
    found = np.empty(len(group), dtype=np.int64)
    for node, of in enumerate(group.tolist()):
        best = answers[node].best
        concept = sure[node] or (best.concept_id if best and best.concept_id in named.get(of, ()) else "")
        found[node] = places.setdefault((-1, concept) if concept else (of, ""), len(places))
    return found, [concept for _, concept in places]


def judge(
    links: Sequence[Link], equal: Sequence[Candidate], concept: str, known_at: float = KNOWN_AT,
    parents: Parents | None = None, language: str = "", reader: GuardReader | None = None,
) -> Cluster:  # fmt: skip
    """Decide what a cluster is from the links of some of its members, the representative's first.

    One with a ``concept`` is known, with the best score of a member. One whose representative is a name of several
    concepts, ``equal``, is ambiguous. Any other is new, and its near concepts propose a parent, where one reaches
    :data:`UNPLACED`, none for what the representative negates, nor the concept that it is a name of. Gives a cluster
    without number and members; with one ``reader`` for many clusters each term is read once.
    """
    best: dict[str, Candidate] = {}
    for link in links:
        for candidate in believed(link):
            if candidate.concept_id not in best or candidate.score > best[candidate.concept_id].score:
                best[candidate.concept_id] = candidate
    if not best:
        return Cluster()
    order = sorted(best, key=lambda one: (one != concept, -best[one].score, one))
    nearest = tuple(best[one] for one in order[:_NEAREST])
    if concept and concept in best:
        score = best[concept].score
        rival = any(candidate.score > score - _DOUBT for candidate in nearest[1:])
        known = best[concept]
        return Cluster(
            concept_id=concept, concept_name=known.preferred_name, score=score, nearest=nearest,
            doubtful=score - known_at < _DOUBT or rival,
        )  # fmt: skip
    if equal:
        return Cluster(score=max(one.score for one in equal), nearest=nearest, candidates=tuple(equal), doubtful=True)
    term, top, parent = links[0].mention, nearest[0], ("", "")
    # "no ataxia" has no place below ataxia; a sister finding is near its parent all the same
    if (
        parents
        and top.score >= UNPLACED
        and NEGATION not in parting_kinds(term, top.name, language, top.language, reader)
    ):
        parent = propose_parent([link.mention for link in links], nearest, parents, concepts_named(links[0]))
    return Cluster(
        score=top.score, nearest=nearest, parent_id=parent[0] or None, parent_name=parent[1],
        doubtful=abs(top.score - known_at) < _DOUBT,
    )  # fmt: skip


def propose_parent(
    terms: Sequence[str], nearest: Sequence[Candidate], parents: Parents, named: Collection[str] = ()
) -> tuple[str, str]:
    """Id and name of a likely parent of a new concept, ``("", "")`` where nothing speaks for one.

    Each near concept votes with its score for each of its parents, with half of it for itself, and with one and a half
    of it for itself where its name is part of one of the terms; not for itself where it is ``named``. Of what was tried
    this put most new concepts of HPO below their parent (``docs/explanation/clustering.md``).

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
