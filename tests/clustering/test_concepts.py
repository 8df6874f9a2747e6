"""Assign concepts to terms, classify clusters, and propose parents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from medlink.clustering import concepts
from medlink.clustering.clusters import Cluster
from medlink.clustering.concepts import MIN_PARENT_SCORE, Parents, TermConcept, exact_concept_ids, resolve_term
from medlink.clustering.guards import separating_kinds
from medlink.language.guard_words import NEGATION
from medlink.records import Candidate, Link
from tests.tables import cases


def candidate(concept: str, score: float, name: str = "", route: str = "dense") -> Candidate:
    return Candidate(concept, name or concept, score, name or "pyrexia", "en", route)


def above(concept: str) -> list[tuple[str, str]]:
    """The same parent for every concept."""
    return [("P", "Parent")]


def classify(
    links: Sequence[Link], concept: str = "", known_at: float = 0.5, parents: Parents | None = None
) -> Cluster:
    return concepts.classify_cluster(links, resolve_term(links[0]), concept, known_at, parents)


def resolved_as(*best: tuple[str, float] | None) -> list[TermConcept]:
    """Resolved terms by concept and score."""
    return [TermConcept(candidate(*one)) if one else TermConcept() for one in best]


def grouped(group: list[int], resolved: list[TermConcept], known_at: float = 0.5) -> tuple[list[int], list[str]]:
    found, ids = concepts.group_by_concept(np.array(group, dtype=np.int64), resolved, known_at)
    return found.tolist(), ids


def test_resolve_a_term() -> None:
    near = candidate("C1", 0.9), candidate("C2", 0.95)
    assert resolve_term(Link("fever", near)) == TermConcept(near[0])
    assert resolve_term(Link("fever")) == TermConcept()
    for score, resolved in ((MIN_PARENT_SCORE, True), (MIN_PARENT_SCORE - 0.01, False)):
        assert (resolve_term(Link("fever", (candidate("C1", score),))).best is not None) == resolved
    # no other candidate replaces a contradicted one, but a name is a name
    near = candidate("C1", 0.9, "Chronic pain"), candidate("C2", 0.6, "Acute ache")
    assert resolve_term(Link("acute pain", near)) == TermConcept()
    assert resolve_term(Link("acute pain", (replace(near[0], route="exact"), near[1]))).best is not None


def test_parts_and_broader_names() -> None:
    def read(term: str, *names: str, route: str = "words") -> tuple[list[str], list[str]]:
        link = Link(term, tuple(replace(candidate(name, 0.8, name, route), language="") for name in names))
        ((kept, broader),) = concepts.read_parts([link], [""])
        assert resolve_term(kept, broader=broader).broader in (None, *kept.candidates)
        return [one.concept_id for one in kept.candidates], sorted(broader)

    assert read("left arm", "Left", "Arm") == (["Arm"], ["Arm"])
    assert read("arm pain", "Arm", "Pain") == (["Pain"], ["Pain"])
    assert read("renale Anämie", "Anaemia", "Renal failure") == (["Anaemia", "Renal failure"], ["Anaemia"])
    assert read("dolor torácico atípico", "Chest pain") == (["Chest pain"], ["Chest pain"])
    assert read("Belastungsdyspnoe", "Dyspnea") == (["Dyspnea"], ["Dyspnea"])
    # general words narrow nothing, and a name is a name
    assert read("patient with fever", "Fever") == (["Fever"], [])
    for route in ("exact", "inflected", "learned"):
        assert read("renal anaemia", "Anaemia", route=route) == (["Anaemia"], [])
    # neither the first nor the last word
    assert read("severe chest pain at night", "Chest pain")[1] == []
    assert concepts.read_parts([], []) == concepts.read_parts([Link("x")], [""])[1:] == []


def test_a_narrower_term_is_new_below_the_concept() -> None:
    anaemia = candidate("C1", 0.9, "anaemia", "words")
    for term in ("renal anaemia", "left anaemia"):
        resolved = resolve_term(Link(term, (anaemia,)), broader={"C1"})
        assert resolved == TermConcept(broader=anaemia)
        found = concepts.classify_cluster([Link(term, (anaemia,))], resolved, "", 0.5, None)
        assert (found.status, found.parent_id, found.score) == ("new", "C1", 0.9)
    # a guard for anything but sides and sexes
    assert resolve_term(Link("no anaemia", (anaemia,)), broader={"C1"}) == TermConcept()
    # a less likely candidate is the parent too
    near = candidate("C2", 0.31, "relieved by anaemia", "words")
    assert resolve_term(Link("renal anaemia", (near, replace(anaemia, score=0.1))), broader={"C1"}).broader is not None


def test_score_the_members_of_a_group() -> None:
    links = [Link("x", (candidate("C2", 0.9), candidate("C1", score))) for score in (0.9, 0.76, 0.74)]
    scores, weak = concepts.score_members([*links, Link("x")], np.array([0, 0, 0, 1]), ["C1", ""])
    np.testing.assert_equal(scores, [0.9, 0.76, 0.74, np.nan])
    assert weak.tolist() == [False, False, True, False]


def test_group_by_concept() -> None:
    terms = resolved_as(("C1", 0.9), ("C1", 0.5), ("C2", 0.8), None)
    assert grouped([0, 1, 1, 2], terms) == ([0, 0, 1, 2], ["C1", "C2", ""])
    # a less sure term follows a surer one of its group
    terms = resolved_as(("C1", 0.9), ("C1", 0.4), ("C1", 0.4))
    assert grouped([0, 0, 1], terms) == ([0, 0, 1], ["C1", ""])
    assert grouped([0, 0, 1], terms, known_at=0.4) == ([0, 0, 0], ["C1"])
    assert grouped([0, 0, 1], terms, known_at=0.95) == ([0, 0, 1], ["", ""])
    # two of five terms of a group are C1, the others stay together
    equal = candidate("C1", 0.9), candidate("C3", 0.9)
    terms = [*resolved_as(("C1", 0.9), ("C2", 0.4), None, ("C1", 0.6)), TermConcept(equal=equal)]
    assert grouped([0] * 5, terms) == ([0, 1, 1, 0, 1], ["C1", ""])
    assert grouped([], []) == ([], [])


def test_a_known_cluster() -> None:
    links = [
        Link("Fieber", (candidate("C2", 0.7), candidate("C1", 0.6))),
        Link("fever", (candidate("C1", 0.9),)),
        Link("fiebre"),
    ]
    found = classify(links, "C1")
    assert (found.status, found.concept_id, found.score, found.doubtful) == ("known", "C1", 0.9, False)
    assert [(c.concept_id, c.score) for c in found.nearest] == [("C1", 0.9), ("C2", 0.7)]
    assert (found.parent_id, found.parent_name) == (None, "")
    # the concept always comes first
    assert classify(links[:1], "C1").nearest[0].concept_id == "C1"


def test_doubtful_clusters() -> None:
    """A score within 0.15 of the threshold, or a rival within 0.15 of the best."""
    for score, doubtful in ((0.6, True), (0.64, True), (0.66, False)):
        assert classify([Link("fever", (candidate("C1", score),))], "C1").doubtful == doubtful
    for rival, doubtful in ((0.74, False), (0.76, True)):
        assert classify([Link("fever", (candidate("C1", 0.9), candidate("C2", rival)))], "C1").doubtful == doubtful
    for score, doubtful in ((0.34, False), (0.36, True), (0.49, True)):
        assert classify([Link("fever", (candidate("C1", score),))]).doubtful == doubtful


def test_a_new_cluster() -> None:
    links = [Link("dengue", (candidate("C2", 0.4), candidate("C1", 0.4)))]
    found = classify(links)
    assert (found.status, found.concept_id, found.score) == ("new", None, 0.4)
    assert [one.concept_id for one in found.nearest] == ["C1", "C2"]  # ties go to the lower id
    assert classify([Link("fever")]) == Cluster()
    for score, parent in ((MIN_PARENT_SCORE, "P"), (MIN_PARENT_SCORE - 0.01, None)):
        assert classify([Link("fever", (candidate("C1", score),))], parents=above).parent_id == parent


def test_parents() -> None:
    parents = {"C1": [("P1", "one")], "C2": [("P2", "two")], "C3": [("P2", "two")]}
    near, propose = [candidate("C1", 0.4), candidate("C2", 0.3), candidate("C3", 0.3)], concepts.propose_parent
    assert propose(["x"], near, lambda c: parents.get(c, [])) == ("P2", "two")
    assert propose(["x"], near[:1], lambda c: parents.get(c, [])) == ("P1", "one")
    assert propose(["x"], near[:1], lambda c: []) == ("C1", "C1")
    assert propose(["x"], [], lambda c: []) == ("", "")
    fever = candidate("C1", 0.4, "Fever")
    found = classify([Link("dengue fever", (fever,))], parents=lambda c: parents.get(c, []))
    assert (found.parent_id, found.parent_name) == ("C1", "Fever")


@pytest.mark.parametrize(("term", "name", "against"), cases(__file__, "contradictions.tsv"))
def test_a_guard_contradicts_a_concept(term: str, name: str, against: str) -> None:
    known = candidate("C1", 0.9, name)
    assert resolve_term(Link(term, (known,))) == TermConcept(None if against else known)
    # still near the concept, with the same parent unless it is negated
    found = classify([Link(term, (known,))], parents=above)
    assert (found.nearest[0].concept_id, found.score) == ("C1", 0.9)
    assert (found.parent_id is None) == (NEGATION in separating_kinds(term, name))


def test_the_language_of_the_term() -> None:
    known = Candidate("C1", "Pain", 0.9, "dolor leve", "es", "dense")
    link = Link("dolor grave", (known,))
    assert (resolve_term(link, "es").best, resolve_term(link).best) == (None, known)


def test_short_capitals_are_not_inflected() -> None:
    gout = candidate("C1", 0.9, "Gota", "inflected")
    assert concepts.plausible_candidates(Link("GOT", (gout,))) == ()
    assert resolve_term(Link("GOT", (gout,))) == TermConcept()
    assert exact_concept_ids(Link("GOTAS", (gout,))) == frozenset()
    assert exact_concept_ids(Link("Gotas", (gout,))) == exact_concept_ids(Link("ANEMIAS", (gout,))) == {"C1"}
    assert exact_concept_ids(Link("GOTA", (candidate("C1", 0.9, "Gota", "exact"), candidate("C2", 0.9)))) == {"C1"}


def test_an_ambiguous_name() -> None:
    stenosis, sclerosis = candidate("C2", 0.46, "MS", "exact"), candidate("C1", 0.46, "MS", "exact")
    near = candidate("C3", 0.46, "MS syndrome")
    link = Link("MS", (sclerosis, stenosis, near), "ambiguous")
    assert resolve_term(link) == TermConcept(equal=(sclerosis, stenosis))
    found = classify([link, Link("em es", (near,))], parents=above)
    assert (found.status, found.concept_id, found.parent_id) == ("ambiguous", None, None)
    assert [one.concept_id for one in found.candidates] == ["C1", "C2"]
    assert (found.score, found.doubtful) == (0.46, True)
    assert [one.concept_id for one in found.nearest] == ["C1", "C2", "C3"]
    # only the representative matters
    assert classify([Link("em es", (near,)), link]).status == "new"


def test_an_ambiguous_mention() -> None:
    """Without a name, the concepts with the highest score count, if there are several."""
    near = candidate("C1", 0.9), candidate("C2", 0.9), candidate("C3", 0.8)
    assert resolve_term(Link("calor", near, "ambiguous")).equal == near[:2]
    assert resolve_term(Link("calor", near[1:], "ambiguous")) == TermConcept(near[1])
    assert resolve_term(Link("calor", near)) == TermConcept(near[0])


def test_a_term_is_not_its_own_parent() -> None:
    near = (candidate("C1", 0.8, "Fever", "exact"), candidate("C2", 0.3, "Ache"))
    for parents, parent in (([("P", "Parent")], "P"), ([], "C2")):
        found = classify([Link("fever", near)], "", 0.95, lambda concept, parents=parents: parents)
        assert (found.status, found.parent_id) == ("new", parent)
    assert classify([Link("fever", near[:1])], "", 0.95, lambda concept: []).parent_id is None


def test_unify_ids() -> None:
    fever = replace(candidate("A:1", 0.9, "Fever", "exact"), same_as=("B:1",))
    links = [
        Link("fever", (fever,), "linked"),
        Link("pyrexia", (candidate("B:1", 0.8, "Pyrexia", "exact"), candidate("A:1", 0.4, "Fever")), "linked"),
        Link("febris", (replace(candidate("B:1", 0.7, "Febris", "exact"), same_as=("C:1",)),), "linked"),
        Link("calor", (candidate("C:1", 0.6, "Calor", "exact"), candidate("D:1", 0.5)), "linked"),
    ]
    one = concepts.unify_ids(links)
    assert [[(c.concept_id, c.score, c.name) for c in link.candidates] for link in one] == [
        [("A:1", 0.9, "Fever")],
        [("A:1", 0.8, "Pyrexia")],
        [("A:1", 0.7, "Febris")],
        [("A:1", 0.6, "Calor"), ("D:1", 0.5, "pyrexia")],
    ]
    assert {c.same_as for link in one for c in link.candidates[:1]} == {("B:1", "C:1")}
    found = classify(one, "A:1")
    assert (found.concept_id, found.concept_name, found.same_as) == ("A:1", "Fever", ("B:1", "C:1"))
    alone = [Link("fever", (candidate("A:1", 0.9),))]
    assert concepts.unify_ids(alone) == alone
