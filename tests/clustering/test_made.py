"""Clusters made of a graph that is written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.clustering.clusterer import MadeClusters
from medlink.clustering.clusters import AMBIGUOUS, KNOWN, NEW, Cluster
from medlink.clustering.concepts import Answer, Parents
from medlink.clustering.graph import Graph
from medlink.clustering.guards import KINDS, LATERALITY
from medlink.clustering.terms import Terms, find_forms
from medlink.records import Candidate, Link

Edge = tuple[int, int, float, float] | tuple[int, int, float, float, str]
"""Ends, probability of one concept, and of the first being narrower, below 0 of its being broader; kind of guard."""
# of one length, so that the first of equal ones stands for a cluster
NAMES = ("arms", "bone", "chin", "diet", "eyes", "foot", "gums", "hand")


def make(group: list[int], *edges: Edge) -> MadeClusters:
    """Clusters of the first of :data:`NAMES`, all of one frequency."""
    terms = Terms.of((name, 1, "", "") for name in NAMES[: len(group)])
    columns = [(*edge, "")[:5] for edge in edges]
    one, other, same, narrower, apart = (list(column) for column in zip(*columns, strict=True)) if edges else [[]] * 5
    graph = Graph(
        np.array(one, dtype=np.int64), np.array(other, dtype=np.int64), np.array(same, dtype=np.float64),
        np.array([KINDS.index(kind) for kind in apart], dtype=np.uint8),
        np.zeros(len(one), dtype=bool), np.array(narrower, dtype=np.float64),
    )  # fmt: skip
    vectors = np.eye(len(group), dtype=np.float32)
    return MadeClusters(terms, find_forms(terms), np.array(group, dtype=np.int64), vectors, graph)


def broader(found: MadeClusters) -> dict[str, str]:
    """The broader term of each cluster that has one, by its representative."""
    return {one.representative: one.broader.term for one in found if one.broader}


def near(found: MadeClusters) -> dict[str, list[str]]:
    return {one.representative: [other.term for other in one.neighbours] for one in found}


def test_a_cluster_is_below_the_surest_broader_one() -> None:
    found = make([0, 1, 2], (0, 1, 0.3, 0.7), (0, 2, 0.3, 0.8), (1, 2, 0.1, -0.6))
    assert broader(found) == {"arms": "chin", "chin": "bone"}
    above = {one.representative: one for one in found}["arms"].broader
    assert above is not None
    assert (above.term, above.cluster, above.probability, above.member) == ("chin", 3, 0.8, "arms")


@pytest.mark.parametrize("size", [2, 3, 5])
def test_no_circle_of_broader_clusters(size: int) -> None:
    """Each is below the next one, and the last, which is the least sure of it, below the first."""
    edges: list[Edge] = [(at, at + 1, 0.1, 0.9 - at / 100) for at in range(size - 1)]
    found = make(list(range(size)), *edges, (0, size - 1, 0.1, -0.7))
    assert broader(found) == {NAMES[at]: NAMES[at + 1] for at in range(size - 1)}


def test_edges_of_two_clusters_make_no_circle_either() -> None:
    """{arms, bone} is below {chin, diet} by one pair, and above it by another."""
    found = make([0, 0, 1, 1], (0, 2, 0.1, 0.7), (1, 3, 0.1, -0.8))
    assert broader(found) == {"chin": "bone"}


def test_what_is_narrower_within_a_cluster_is_not_said() -> None:
    assert broader(make([0, 0, 1], (0, 1, 0.9, 0.9))) == {}


def test_neighbours_are_the_five_likeliest_clusters() -> None:
    """Below 0.05 none is shown, each cluster once by its likeliest pair, and the guard that kept it apart."""
    edges: list[Edge] = [(0, at, 0.1 * at, 0) for at in range(1, 7)]
    found = make(list(range(8)), *edges, (0, 7, 0.049, 0), (1, 7, 0.05, 0))
    assert near(found)["arms"] == ["gums", "foot", "eyes", "diet", "chin"]
    assert near(found)["bone"] == ["arms", "hand"]
    assert near(found)["hand"] == ["bone"]
    two = make([0, 0, 1, 1], (0, 2, 0.3, 0), (1, 3, 0.6, 0, LATERALITY), (0, 1, 0.9, 0))
    (only,) = two[0].neighbours
    assert (only.term, only.member, only.probability, only.apart, only.maybe) == (
        "diet",
        "bone",
        0.6,
        LATERALITY,
        False,
    )


def test_pairs_of_clusters_that_may_be_one_are_counted_once() -> None:
    edges: tuple[Edge, ...] = ((0, 2, 0.3, 0), (1, 2, 0.2, 0), (0, 3, 0.19, 0), (1, 3, 0.8, 0, LATERALITY))
    found = make([0, 0, 1, 2], *edges)
    assert found.maybe == 1
    assert (found.guarded(0.5), found.guarded(0.9)) == (1, 0)
    assert make([0, 1]).maybe == make([]).maybe == 0


def test_members_hang_on_the_strongest_tree() -> None:
    """What a guard parts joins nobody, though both stand in one cluster."""
    edges: tuple[Edge, ...] = (
        (0, 1, 0.6, 0),
        (0, 2, 0.9, 0),
        (1, 2, 0.8, 0),
        (0, 3, 0.9, 0, LATERALITY),
        (1, 3, 0.5, 0),
    )
    (found,) = make([0] * 4, *edges)
    assert {member.term: (member.joined_to, member.joined_score) for member in found.members} == {
        "arms": ("", None),
        "bone": ("chin", 0.8),
        "chin": ("arms", 0.9),
        "diet": ("bone", 0.5),
    }


def judged(found: MadeClusters, parents: Parents | None, concepts: list[str], **told: str) -> dict[str, Cluster]:
    """Clusters by representative; ``told`` has the concepts of terms, each with 0.8, and several joined by |."""
    links, answers = [], []
    for name in NAMES[: len(found.forms)]:
        near = tuple(
            Candidate(concept, f"Name of {concept}", 0.8, name, "en", "exact")
            for concept in filter(None, told.get(name, "").split("|"))
        )
        links.append(Link(name, near))
        answers.append(Answer(equal=near) if len(near) > 1 else Answer(*near))
    found.judge(links, answers, concepts, 0.5, parents)
    return {one.representative: one for one in found}


def test_a_new_cluster_below_a_known_one_has_its_concept_as_parent() -> None:
    edges: tuple[Edge, ...] = ((0, 3, 0.3, 0.8), (1, 3, 0.3, 0.8), (2, 3, 0.3, 0.8), (4, 5, 0.3, 0.8))
    found = make(list(range(6)), *edges)
    told = {"bone": "C2", "chin": "C3|C4", "diet": "C1", "arms": "C9"}
    clusters = judged(found, lambda concept: [("P", "Parent")], ["", "C2", "", "C1", "", ""], **told)
    assert {name: (one.status, one.parent_id, one.parent_name) for name, one in clusters.items()} == {
        "arms": (NEW, "C1", "Name of C1"),
        "bone": (KNOWN, None, ""),
        "chin": (AMBIGUOUS, None, ""),
        "diet": (KNOWN, None, ""),
        "eyes": (NEW, None, ""),
        "foot": (NEW, None, ""),
    }
    plain = judged(make([0]), lambda concept: [("P", "Parent")], [""], arms="C9")
    assert plain["arms"].parent_id == "P"


def test_a_member_that_no_edge_joins_is_the_same_concept() -> None:
    found = judged(make([0, 0, 0], (0, 1, 0.9, 0)), None, ["C1"], arms="C1", bone="C1", chin="C1")
    assert [(m.term, m.joined_to, m.joined_by, m.joined_score) for m in found["arms"].members] == [
        ("arms", "", "", None),
        ("bone", "arms", "embedding", 0.9),
        ("chin", "arms", "same concept", None),
    ]
