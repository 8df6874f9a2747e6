"""Known or new, and below which parent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medlink.clustering.concepts import (
    UNPLACED,
    as_one,
    believed,
    concepts_named,
    contradicts,
    judge,
    propose_parent,
)
from medlink.clustering.guards import parting_kinds
from medlink.language.guard_words import NEGATION
from medlink.records import Candidate, Link


def candidate(concept: str, score: float, name: str = "", route: str = "dense") -> Candidate:
    return Candidate(concept, name or concept, score, name or "pyrexia", "en", route)


def test_score_worked_by_hand() -> None:
    """Three members give 0.9, 0.6 and nothing: 0.5."""
    links = [
        Link("fever", (candidate("C1", 0.9),)),
        Link("Fieber", (candidate("C1", 0.6), candidate("C2", 0.5))),
        Link("fiebre"),
    ]
    verdict = judge(links, 0.5)
    assert (verdict.concept_id, verdict.score, verdict.doubtful) == ("C1", 0.5, True)
    assert [(c.concept_id, c.score) for c in verdict.nearest] == [("C1", 0.5), ("C2", round(0.5 / 3, 6))]
    assert (verdict.parent_id, verdict.parent_name) == (None, "")


def test_all_members_count() -> None:
    alone = judge([Link("fever", (candidate("C1", 0.9), candidate("C2", 0.8)))])
    others = [Link("Fieber", (candidate("C2", 0.8),)) for _ in range(2)]
    assert alone.concept_id == "C1"
    assert judge([Link("fever", (candidate("C1", 0.9), candidate("C2", 0.8))), *others]).concept_id == "C2"


def test_a_member_that_is_a_name_is_a_witness_of_its_own() -> None:
    """One of four members is a name with 0.9, one other gives 0.6: 1 - (1 - 0.9)(1 - 0.6 / 3)."""
    for route in ("exact", "inflected"):
        links = [
            Link("fever", (candidate("C1", 0.9, route=route),)),
            Link("Fieber", (candidate("C1", 0.6),)),
            Link("fiebre"),
            Link("febris"),
        ]
        assert judge(links).score == 0.92
        assert judge(links[:1]).score == 0.9
    assert judge([Link("fever", (candidate("C1", 0.9),)), *links[1:]]).score == 0.375
    # two names of two concepts: a reader is asked
    both = [
        Link("fever", (candidate("C1", 0.9, route="exact"),)),
        Link("Fieber", (candidate("C2", 0.85, route="exact"),)),
    ]
    assert judge(both).concept_id == "C1"
    assert judge(both).doubtful


def test_the_border() -> None:
    links = [Link("fever", (candidate("C1", 0.6),))]
    assert judge(links, 0.6).concept_id == "C1"
    verdict = judge(links, 0.61)
    assert (verdict.concept_id, verdict.score, verdict.doubtful) == (None, 0.6, True)
    assert not judge(links, 0.9).doubtful
    assert judge([Link("fever", (candidate("C1", 0.9), candidate("C2", 0.85)))]).doubtful
    assert judge([Link("fever")]).nearest == ()


def test_ties_go_to_the_lower_id() -> None:
    assert judge([Link("fever", (candidate("C2", 0.9), candidate("C1", 0.9)))]).concept_id == "C1"


def test_parents() -> None:
    above = {"C1": [("P1", "one")], "C2": [("P2", "two")], "C3": [("P2", "two")]}
    near = [candidate("C1", 0.4), candidate("C2", 0.3), candidate("C3", 0.3)]
    assert propose_parent(["x"], near, lambda c: above.get(c, [])) == ("P2", "two")
    assert propose_parent(["x"], near[:1], lambda c: above.get(c, [])) == ("P1", "one")
    assert propose_parent(["x"], near[:1], lambda c: []) == ("C1", "C1")
    assert propose_parent(["x"], [], lambda c: []) == ("", "")
    fever = [candidate("C1", 0.4, "Fever")]
    assert propose_parent(["dengue fever"], fever, lambda c: above.get(c, [])) == ("C1", "Fever")
    verdict = judge([Link("dengue fever", tuple(fever))], 0.5, lambda c: above.get(c, []))
    assert (verdict.parent_id, verdict.parent_name) == ("C1", "Fever")


def test_the_concept_that_the_representative_names_comes_first() -> None:
    """Edema is named by one member of three, papilledema by two with higher scores."""
    edema, papilledema = candidate("C1", 0.8, "Edema", "exact"), candidate("C2", 0.95, "Papilledema", "exact")
    links = [Link("edema", (edema, candidate("C2", 0.6, "Papilledema"))), *[Link("papilledema", (papilledema,))] * 2]
    assert (judge(links).concept_id, judge(links).doubtful) == ("C1", True)
    assert judge(links[1:]).concept_id == "C2"
    # no name among them: the higher score
    assert (
        judge([Link("oedema", (candidate("C1", 0.8, "Edema"), candidate("C2", 0.9, "Papilledema")))]).concept_id == "C2"
    )


def test_a_concept_that_one_other_member_alone_names_is_doubtful() -> None:
    """A name of it beside "fracture of the sacrum" does not make that a broken tibia."""
    named = candidate("C1", 0.98, "Broken tibia", "exact")
    for score, expected in ((0.0, True), (0.29, True), (0.3, False), (0.6, False)):
        own = (candidate("C1", score, "Broken tibia", "dense"),) if score else ()
        verdict = judge([Link("sacrum fracture", own), Link("broken tibia", (named,))])
        assert (verdict.concept_id, verdict.doubtful) == ("C1", expected)
    both = [Link("sacrum fracture", ()), Link("broken tibia", (named,)), Link("Broken Tibias", (named,))]
    assert not judge(both).doubtful


def test_without_a_named_representative_most_members_decide() -> None:
    one, two = candidate("C1", 0.99, "Fever", "exact"), candidate("C2", 0.9, "Pyrexia", "exact")
    links = [Link("hot", ()), Link("fever", (one,)), Link("pyrexia", (two,)), Link("pyrexias", (two,))]
    assert judge(links).concept_id == "C2"
    assert judge(links[:3]).concept_id == "C1"
    assert judge(links).doubtful


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
    verdict = judge([Link(term, (known,))], 0.5, lambda concept: [("P", "Parent")])
    assert verdict.concept_id == (None if against else "C1")
    assert (verdict.nearest[0].concept_id, verdict.score) == ("C1", 0.9)
    denied = NEGATION in parting_kinds(term, name)
    assert (verdict.parent_id is None) == (denied or not against)


def test_the_next_concept_is_taken_where_a_guard_speaks_against_the_first() -> None:
    links = [Link("acute pain", (candidate("C1", 0.9, "Chronic pain"), candidate("C2", 0.6, "Acute ache")))]
    assert judge(links, 0.5).concept_id == "C2"
    assert judge(links, 0.7).concept_id is None


def test_the_language_of_the_representative_counts() -> None:
    known = Candidate("C1", "Pain", 0.9, "dolor leve", "es", "dense")
    assert judge([Link("dolor grave", (known,))], language="es").concept_id is None
    assert judge([Link("dolor grave", (known,))]).concept_id == "C1"


def test_short_capitals_are_no_inflection() -> None:
    gout = candidate("C1", 0.9, "Gota", "inflected")
    assert believed(Link("GOT", (gout,))) == ()
    assert judge([Link("GOT", (gout,))]).concept_id is None
    assert concepts_named(Link("GOTAS", (gout,))) == frozenset()
    assert concepts_named(Link("Gotas", (gout,))) == concepts_named(Link("ANEMIAS", (gout,))) == {"C1"}
    assert concepts_named(Link("GOTA", (candidate("C1", 0.9, "Gota", "exact"), candidate("C2", 0.9)))) == {"C1"}


def test_no_parent_far_from_every_concept() -> None:
    def parent(score: float) -> str | None:
        return judge([Link("fever", (candidate("C1", score),))], 0.5, lambda concept: [("P", "Parent")]).parent_id

    assert (parent(UNPLACED), parent(UNPLACED - 0.01)) == ("P", None)


def test_a_name_of_several_concepts_is_ambiguous_and_no_new_concept() -> None:
    stenosis, sclerosis = candidate("C2", 0.46, "MS", "exact"), candidate("C1", 0.46, "MS", "exact")
    near = candidate("C3", 0.3, "MS syndrome")
    verdict = judge([Link("MS", (sclerosis, stenosis, near))], parents=lambda concept: [("P", "Parent")])
    assert (verdict.status, verdict.concept_id, verdict.parent_id) == ("ambiguous", None, None)
    assert [one.concept_id for one in verdict.candidates] == ["C1", "C2"]
    assert (verdict.score, verdict.doubtful) == (0.46, True)
    assert [one.concept_id for one in verdict.nearest] == ["C1", "C2", "C3"]
    # a member says which is meant
    told = judge([Link("MS", (sclerosis, stenosis)), Link("disseminated", (candidate("C2", 0.9, route="exact"),))])
    assert (told.status, told.concept_id, told.candidates) == ("known", "C2", ())
    # another member alone is such a name
    assert judge([Link("em es"), Link("MS", (sclerosis, stenosis))]).status == "ambiguous"


def test_a_term_is_not_below_the_concept_that_it_names() -> None:
    near = (candidate("C1", 0.8, "Fever", "exact"), candidate("C2", 0.3, "Ache"))
    for above, parent in (([("P", "Parent")], "P"), ([], "C2")):
        verdict = judge([Link("fever", near)], 0.95, lambda concept, above=above: above)
        assert (verdict.status, verdict.parent_id) == ("new", parent)
    assert judge([Link("fever", near[:1])], 0.95, lambda concept: []).parent_id is None


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
    verdict = judge(one)
    assert (verdict.concept_id, verdict.concept_name, verdict.same_as) == ("A:1", "Fever", ("B:1", "C:1"))
    alone = [Link("fever", (candidate("A:1", 0.9),))]
    assert as_one(alone) == alone
