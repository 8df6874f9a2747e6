"""Known or new, and below which parent."""

from __future__ import annotations

from medlink.clustering.concepts import judge, propose_parent
from medlink.records import Candidate, Link


def candidate(concept: str, score: float, name: str = "", route: str = "dense") -> Candidate:
    return Candidate(concept, name or concept, score, name or concept, "en", route)


def test_score_worked_by_hand() -> None:
    """Three members give 0.9, 0.6 and nothing: 0.5."""
    links = [Link("a", (candidate("C1", 0.9),)), Link("b", (candidate("C1", 0.6), candidate("C2", 0.5))), Link("c")]
    verdict = judge(links, 0.5)
    assert (verdict.concept_id, verdict.score, verdict.doubtful) == ("C1", 0.5, True)
    assert [(c.concept_id, c.score) for c in verdict.nearest] == [("C1", 0.5), ("C2", round(0.5 / 3, 6))]
    assert (verdict.parent_id, verdict.parent_name) == (None, "")


def test_all_members_count() -> None:
    alone = judge([Link("a", (candidate("C1", 0.9), candidate("C2", 0.8)))])
    others = [Link("b", (candidate("C2", 0.8),)) for _ in range(2)]
    assert alone.concept_id == "C1"
    assert judge([Link("a", (candidate("C1", 0.9), candidate("C2", 0.8))), *others]).concept_id == "C2"


def test_a_member_that_is_a_name_is_a_witness_of_its_own() -> None:
    """One of four members is a name with 0.9, one other gives 0.6: 1 - (1 - 0.9)(1 - 0.6 / 3)."""
    for route in ("exact", "inflected"):
        links = [
            Link("a", (candidate("C1", 0.9, route=route),)),
            Link("b", (candidate("C1", 0.6),)),
            Link("c"),
            Link("d"),
        ]
        assert judge(links).score == 0.92
        assert judge(links[:1]).score == 0.9
    assert judge([Link("a", (candidate("C1", 0.9),)), *links[1:]]).score == 0.375
    # two names of two concepts: a reader is asked
    both = [Link("a", (candidate("C1", 0.9, route="exact"),)), Link("b", (candidate("C2", 0.85, route="exact"),))]
    assert judge(both).concept_id == "C1"
    assert judge(both).doubtful


def test_the_border() -> None:
    links = [Link("a", (candidate("C1", 0.6),))]
    assert judge(links, 0.6).concept_id == "C1"
    verdict = judge(links, 0.61)
    assert (verdict.concept_id, verdict.score, verdict.doubtful) == (None, 0.6, True)
    assert not judge(links, 0.9).doubtful
    assert judge([Link("a", (candidate("C1", 0.9), candidate("C2", 0.85)))]).doubtful
    assert judge([Link("a")]).nearest == ()


def test_ties_go_to_the_lower_id() -> None:
    assert judge([Link("a", (candidate("C2", 0.9), candidate("C1", 0.9)))]).concept_id == "C1"


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
