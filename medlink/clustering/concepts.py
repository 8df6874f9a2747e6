"""Clusters to concepts: a known one with a score, or NEW with the nearest ones and a proposed parent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from medlink.records import Candidate, Link
from medlink.text import normalise

KNOWN_AT = 0.5
"""Score at and above which a cluster is a known concept."""
ASKED = 10
"""Members of a cluster that are linked, the most frequent first."""

_DOUBT = 0.15  # a score as near to the border, or a rival as near to the best, asks for a reader
_NEAREST = 5
_NAMED = ("exact", "inflected")  # routes of a mention that is the name
# Votes of a near concept for itself as the parent, against 1 for each of its parents.
_ITSELF = 0.5
_BROADER = 1.5  # where its name is part of a term


class Linking(Protocol):
    """What the clusterer needs of a linker."""

    def link(self, mentions: Sequence[str]) -> list[Link]:
        """One link for each mention, candidates best first."""


Parents = Callable[[str], Sequence[tuple[str, str]]]
"""Id and name of each parent of a concept, by id."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a cluster is: a known concept, or a new one below a parent."""

    concept_id: str | None
    concept_name: str
    score: float | None
    nearest: tuple[Candidate, ...]
    parent_id: str | None
    parent_name: str
    doubtful: bool


def judge(links: Sequence[Link], known_at: float = KNOWN_AT, parents: Parents | None = None) -> Verdict:
    """Decide what a cluster is from the links of its members.

    A concept's score is what the members give it on average, 0 for those that do not have it among their candidates.
    Where a member is a name of it, to the letter or in another inflection, the best such member and the average of all
    others are two witnesses, and the score is the probability that one of them is right, were they independent.

    Args:
        links: those of the members that were asked, at least one.
        known_at: score that a known concept needs, in [0, 1].
        parents: id and name of each parent of a concept.

    Returns:
        The verdict; ties go to the lower concept id.

    >>> fever = Candidate("HP:1", "Fever", 0.9, "Fever", "en", "exact")
    >>> verdict = judge([Link("fever", (fever,), False), Link("Fieber", (fever,), False), Link("febris", ())])
    >>> verdict.concept_id, verdict.score, judge([Link("abc", ())]).concept_id
    ('HP:1', 0.945, None)
    """
    scores: dict[str, list[float]] = {}
    named: dict[str, float] = {}
    best: dict[str, Candidate] = {}
    for link in links:
        for candidate in link.candidates:
            scores.setdefault(candidate.concept_id, []).append(candidate.score)
            if candidate.route in _NAMED:
                named[candidate.concept_id] = max(named.get(candidate.concept_id, 0.0), candidate.score)
            if candidate.concept_id not in best or candidate.score > best[candidate.concept_id].score:
                best[candidate.concept_id] = candidate
    total = {concept: _together(given, named.get(concept), len(links)) for concept, given in scores.items()}
    ranked = sorted(total, key=lambda concept: (-total[concept], concept))[:_NEAREST]
    if not ranked:
        return Verdict(None, "", None, (), None, "", False)
    first = ranked[0]
    score = round(total[first], 6)
    close = abs(score - known_at) < _DOUBT
    rival = len(ranked) > 1 and total[first] - total[ranked[1]] < _DOUBT
    nearest = tuple(
        Candidate(c, best[c].preferred_name, round(total[c], 6), best[c].name, best[c].language, best[c].route)
        for c in ranked
    )
    if score >= known_at:
        return Verdict(first, best[first].preferred_name, score, nearest, None, "", close or rival)
    parent = propose_parent([link.mention for link in links], nearest, parents) if parents else ("", "")
    return Verdict(None, "", score, nearest, parent[0] or None, parent[1], close)


def _together(given: Sequence[float], named: float | None, members: int) -> float:
    """A concept's score from those that members give it, ``named`` the best of a member that is a name of it."""
    if named is None:
        return sum(given) / members
    others = (sum(given) - named) / (members - 1) if members > 1 else 0.0
    return 1 - (1 - named) * (1 - others)


def propose_parent(terms: Sequence[str], nearest: Sequence[Candidate], parents: Parents) -> tuple[str, str]:
    """Id and name of a likely parent of a new concept, ``("", "")`` where nothing speaks for one.

    Each near concept votes with its score for each of its parents, with half of it for itself, and with one and a half
    of it for itself where its name is part of a term. Of what was tried this put most new concepts of HPO below their
    parent (``docs/clustering.md``).

    Args:
        terms: names of the new concept.
        nearest: near concepts, best first.
        parents: id and name of each parent of a concept.

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
        for concept, name, vote in [(candidate.concept_id, candidate.preferred_name, itself), *above]:
            votes[concept] = votes.get(concept, 0.0) + vote * candidate.score
            names[concept] = name
    if not votes:
        return "", ""
    winner = min(votes, key=lambda concept: (-votes[concept], concept))
    return winner, names[winner]
