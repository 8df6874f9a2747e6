"""Which known concept a term is, what a cluster is by its members, and below which parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from medlink.clustering.clusters import Cluster
from medlink.clustering.concepts import (
    KNOWN_AT,
    UNPLACED,
    Answer,
    Parents,
    answer,
    as_one,
    believed,
    concepts_named,
    contradicts,
    judge,
    known_groups,
    propose_parent,
)
from medlink.clustering.guards import parting_kinds
from medlink.language.guard_words import NEGATION
from medlink.records import Candidate, Link


def candidate(concept: str, score: float, name: str = "", route: str = "dense") -> Candidate:
    return Candidate(concept, name or concept, score, name or "pyrexia", "en", route)


def above(concept: str) -> list[tuple[str, str]]:
    """One parent for every concept."""
    return [("P", "Parent")]


def judged(
    links: Sequence[Link], concept: str = "", known_at: float = KNOWN_AT, parents: Parents | None = None
) -> Cluster:
    return judge(links, answer(links[0]).equal, concept, known_at, parents)


def told(*best: tuple[str, float] | None) -> list[Answer]:
    """Answers by concept and score."""
    return [Answer(candidate(*one)) if one else Answer() for one in best]


def grouped(group: list[int], answers: list[Answer], known_at: float = KNOWN_AT) -> tuple[list[int], list[str]]:
    found, concepts = known_groups(np.array(group, dtype=np.int64), answers, known_at)
    return found.tolist(), concepts


def test_the_answer_of_a_term_is_its_own_best_candidate() -> None:
    near = candidate("C1", 0.9), candidate("C2", 0.95)
    assert answer(Link("fever", near)) == Answer(near[0])
    assert answer(Link("fever")) == Answer()
    for score, placed in ((UNPLACED, True), (UNPLACED - 0.01, False)):
        assert (answer(Link("fever", (candidate("C1", score),))).best is not None) == placed


def test_no_other_concept_is_taken_where_a_guard_speaks_against_the_best() -> None:
    near = candidate("C1", 0.9, "Chronic pain"), candidate("C2", 0.6, "Acute ache")
    assert answer(Link("acute pain", near)) == Answer()
    # a name is a name
    assert answer(Link("acute pain", (replace(near[0], route="exact"), near[1]))).best is not None


def test_terms_of_one_concept_are_one_group_wherever_they_stood() -> None:
    assert grouped([0, 1, 1, 2], told(("C1", 0.9), ("C1", 0.5), ("C2", 0.8), None)) == ([0, 0, 1, 2], ["C1", "C2", ""])


def test_a_term_that_is_less_sure_goes_along_with_a_surer_one_of_its_group() -> None:
    answers = told(("C1", 0.9), ("C1", 0.4), ("C1", 0.4))
    assert grouped([0, 0, 1], answers) == ([0, 0, 1], ["C1", ""])
    assert grouped([0, 0, 1], answers, known_at=0.4) == ([0, 0, 0], ["C1"])
    assert grouped([0, 0, 1], answers, known_at=0.95) == ([0, 0, 1], ["", ""])


def test_members_that_say_another_concept_or_none_are_not_carried_along() -> None:
    """Of five terms of one group two are C1; the three others stay together."""
    equal = candidate("C1", 0.9), candidate("C3", 0.9)
    answers = [*told(("C1", 0.9), ("C2", 0.4), None, ("C1", 0.6)), Answer(equal=equal)]
    assert grouped([0] * 5, answers) == ([0, 1, 1, 0, 1], ["C1", ""])
    assert grouped([], []) == ([], [])


def test_a_known_cluster_has_the_best_score_of_a_member() -> None:
    links = [
        Link("Fieber", (candidate("C2", 0.7), candidate("C1", 0.6))),
        Link("fever", (candidate("C1", 0.9),)),
        Link("fiebre"),
    ]
    verdict = judged(links, "C1")
    assert (verdict.status, verdict.concept_id, verdict.score, verdict.doubtful) == ("known", "C1", 0.9, False)
    assert [(c.concept_id, c.score) for c in verdict.nearest] == [("C1", 0.9), ("C2", 0.7)]
    assert (verdict.parent_id, verdict.parent_name) == (None, "")
    # the concept comes first in any case
    assert judged(links[:1], "C1").nearest[0].concept_id == "C1"


def test_what_is_doubtful() -> None:
    """A score within 0.15 of the border, or a rival within 0.15 of the best."""
    for score, doubtful in ((0.6, True), (0.64, True), (0.66, False)):
        assert judged([Link("fever", (candidate("C1", score),))], "C1").doubtful == doubtful
    for rival, doubtful in ((0.74, False), (0.76, True)):
        assert judged([Link("fever", (candidate("C1", 0.9), candidate("C2", rival)))], "C1").doubtful == doubtful
    for score, doubtful in ((0.34, False), (0.36, True), (0.49, True)):
        assert judged([Link("fever", (candidate("C1", score),))]).doubtful == doubtful


def test_a_cluster_without_a_concept_is_new() -> None:
    links = [Link("dengue", (candidate("C2", 0.4), candidate("C1", 0.4)))]
    verdict = judged(links)
    assert (verdict.status, verdict.concept_id, verdict.score) == ("new", None, 0.4)
    assert [one.concept_id for one in verdict.nearest] == ["C1", "C2"]  # ties go to the lower id
    assert judged([Link("fever")]) == Cluster()


def test_parents() -> None:
    parents = {"C1": [("P1", "one")], "C2": [("P2", "two")], "C3": [("P2", "two")]}
    near = [candidate("C1", 0.4), candidate("C2", 0.3), candidate("C3", 0.3)]
    assert propose_parent(["x"], near, lambda c: parents.get(c, [])) == ("P2", "two")
    assert propose_parent(["x"], near[:1], lambda c: parents.get(c, [])) == ("P1", "one")
    assert propose_parent(["x"], near[:1], lambda c: []) == ("C1", "C1")
    assert propose_parent(["x"], [], lambda c: []) == ("", "")
    fever = [candidate("C1", 0.4, "Fever")]
    assert propose_parent(["dengue fever"], fever, lambda c: parents.get(c, [])) == ("C1", "Fever")
    verdict = judged([Link("dengue fever", tuple(fever))], parents=lambda c: parents.get(c, []))
    assert (verdict.parent_id, verdict.parent_name) == ("C1", "Fever")


@pytest.mark.parametrize(
    ("term", "name", "against"),
    [
        ("sin hematuria", "Hematuria", True),
        ("no hydrocephalus", "Hydrocephalus", True),
        ("no atrial fibrillation", "Atrial fibrillation", True),
        ("denied alcohol", "Alcohol", True),
        ("leucocitosis", "Decreased leukocytes", True),
        ("truncal ataxia", "no truncal ataxia", True),
        ("left arm pain", "Arm pain", False),
        ("arm pain", "Left arm pain", True),
        ("left arm pain", "Right arm pain", True),
        ("left acute pain", "Chronic pain", True),
        ("male infertility", "Infertility", True),
        ("fever", "Pyrexia", False),
    ],
)
def test_a_guard_speaks_against_a_concept(term: str, name: str, against: bool) -> None:
    known = candidate("C1", 0.9, name)
    assert contradicts(term, "", known) == against
    assert answer(Link(term, (known,))) == Answer(None if against else known)
    # near it all the same: below the same parent, but for what is denied
    verdict = judged([Link(term, (known,))], parents=above)
    assert (verdict.nearest[0].concept_id, verdict.score) == ("C1", 0.9)
    assert (verdict.parent_id is None) == (NEGATION in parting_kinds(term, name))


def test_the_language_of_the_term_counts() -> None:
    known = Candidate("C1", "Pain", 0.9, "dolor leve", "es", "dense")
    link = Link("dolor grave", (known,))
    assert (answer(link, "es").best, answer(link).best) == (None, known)


def test_short_capitals_are_no_inflection() -> None:
    gout = candidate("C1", 0.9, "Gota", "inflected")
    assert believed(Link("GOT", (gout,))) == ()
    assert answer(Link("GOT", (gout,))) == Answer()
    assert concepts_named(Link("GOTAS", (gout,))) == frozenset()
    assert concepts_named(Link("Gotas", (gout,))) == concepts_named(Link("ANEMIAS", (gout,))) == {"C1"}
    assert concepts_named(Link("GOTA", (candidate("C1", 0.9, "Gota", "exact"), candidate("C2", 0.9)))) == {"C1"}


def test_no_parent_far_from_every_concept() -> None:
    def parent(score: float) -> str | None:
        return judged([Link("fever", (candidate("C1", score),))], parents=above).parent_id

    assert (parent(UNPLACED), parent(UNPLACED - 0.01)) == ("P", None)


def test_a_name_of_several_concepts_is_ambiguous_and_no_new_concept() -> None:
    stenosis, sclerosis = candidate("C2", 0.46, "MS", "exact"), candidate("C1", 0.46, "MS", "exact")
    near = candidate("C3", 0.46, "MS syndrome")
    link = Link("MS", (sclerosis, stenosis, near), "ambiguous")
    assert answer(link) == Answer(equal=(sclerosis, stenosis))
    verdict = judged([link, Link("em es", (near,))], parents=above)
    assert (verdict.status, verdict.concept_id, verdict.parent_id) == ("ambiguous", None, None)
    assert [one.concept_id for one in verdict.candidates] == ["C1", "C2"]
    assert (verdict.score, verdict.doubtful) == (0.46, True)
    assert [one.concept_id for one in verdict.nearest] == ["C1", "C2", "C3"]
    # another member alone is such a name
    assert judged([Link("em es", (near,)), link]).status == "new"


def test_a_mention_that_is_as_good_as_a_name_of_several_concepts() -> None:
    """Without a name the concepts of the highest score are meant; a single one is no choice."""
    near = candidate("C1", 0.9), candidate("C2", 0.9), candidate("C3", 0.8)
    assert answer(Link("calor", near, "ambiguous")).equal == near[:2]
    assert answer(Link("calor", near[1:], "ambiguous")) == Answer(near[1])
    assert answer(Link("calor", near)) == Answer(near[0])


def test_a_term_is_not_below_the_concept_that_it_names() -> None:
    near = (candidate("C1", 0.8, "Fever", "exact"), candidate("C2", 0.3, "Ache"))
    for parents, parent in (([("P", "Parent")], "P"), ([], "C2")):
        verdict = judged([Link("fever", near)], "", 0.95, lambda concept, parents=parents: parents)
        assert (verdict.status, verdict.parent_id) == ("new", parent)
    assert judged([Link("fever", near[:1])], "", 0.95, lambda concept: []).parent_id is None


def test_what_several_sources_have_goes_by_one_id() -> None:
    fever = replace(candidate("A:1", 0.9, "Fever", "exact"), same_as=("B:1",))
    links = [
        Link("fever", (fever,), "linked"),
        Link("pyrexia", (candidate("B:1", 0.8, "Pyrexia", "exact"), candidate("A:1", 0.4, "Fever")), "linked"),
        Link("febris", (replace(candidate("B:1", 0.7, "Febris", "exact"), same_as=("C:1",)),), "linked"),
        Link("calor", (candidate("C:1", 0.6, "Calor", "exact"), candidate("D:1", 0.5)), "linked"),
    ]
    one = as_one(links)
    assert [[(c.concept_id, c.score, c.name) for c in link.candidates] for link in one] == [
        [("A:1", 0.9, "Fever")],
        [("A:1", 0.8, "Pyrexia")],
        [("A:1", 0.7, "Febris")],
        [("A:1", 0.6, "Calor"), ("D:1", 0.5, "pyrexia")],
    ]
    assert {c.same_as for link in one for c in link.candidates[:1]} == {("B:1", "C:1")}
    verdict = judged(one, "A:1")
    assert (verdict.concept_id, verdict.concept_name, verdict.same_as) == ("A:1", "Fever", ("B:1", "C:1"))
    alone = [Link("fever", (candidate("A:1", 0.9),))]
    assert as_one(alone) == alone
