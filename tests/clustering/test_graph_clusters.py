"""Clusters of hand-written graphs."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.clustering import graph_clusters
from medlink.clustering.clusters import AMBIGUOUS, KNOWN, NEW, Cluster
from medlink.clustering.concepts import Parents, TermConcept
from medlink.clustering.graph import Graph
from medlink.clustering.graph_clusters import GraphClusters
from medlink.clustering.guards import KINDS, LATERALITY, Guards
from medlink.clustering.terms import Terms, find_forms
from medlink.records import Candidate, Link

Edge = tuple[int, int, float, float] | tuple[int, int, float, float, str]
"""Ends, probability of one concept, probability of the first being narrower (negative: broader), kind of guard."""
# of equal length, so that the first represents a cluster
NAMES = ("arms", "bone", "chin", "diet", "eyes", "foot", "gums", "hand")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_clusters, "_PART", 2)


def make(group: list[int], *edges: Edge) -> GraphClusters:
    """Clusters of the first of :data:`NAMES`, all of one frequency."""
    terms = Terms.from_rows((name, 1, "", "") for name in NAMES[: len(group)])
    columns = [(*edge, "")[:5] for edge in edges]
    one, other, same, narrower, apart = (list(column) for column in zip(*columns, strict=True)) if edges else [[]] * 5
    graph = Graph(
        np.array(one, dtype=np.int64), np.array(other, dtype=np.int64), np.array(same, dtype=np.float64),
        np.array([KINDS.index(kind) for kind in apart], dtype=np.uint8),
        np.zeros(len(one), dtype=bool), np.array(narrower, dtype=np.float64),
    )  # fmt: skip
    vectors = np.eye(len(group), dtype=np.float32)
    groups = np.array(group, dtype=np.int64)
    return GraphClusters(terms, find_forms(terms), groups, vectors, *graph.split(groups))


def test_a_denied_term_represents_no_cluster_with_an_affirmed_one() -> None:
    texts = ["no ague", "malaria", "keine Ruhr", "sin gota", "kein Gicht", "gouty arthritis", "ohne Scharlach"]
    terms = Terms.from_rows((text, 9 if text.startswith(("no", "k", "s")) else 1, "", "") for text in texts)
    group = np.array([0, 0, 1, 2, 2, 2, 3])[[texts.index(text) for text in terms.texts]]
    denied = Guards(terms.texts, [""] * len(texts)).denied
    none = np.array([], dtype=np.int64)
    graph = Graph(none, none, none.astype(float), none.astype(np.uint8), none.astype(bool), none.astype(float))
    vectors = np.eye(len(texts), dtype=np.float32)
    found = GraphClusters(terms, find_forms(terms), group, vectors, *graph.split(group), unfit=denied)
    assert {one.representative for one in found} == {"malaria", "keine Ruhr", "gouty arthritis", "ohne Scharlach"}


def broader(found: GraphClusters) -> dict[str, str]:
    """The broader term of each cluster that has one, by its representative."""
    return {one.representative: one.broader.term for one in found if one.broader}


def near(found: GraphClusters) -> dict[str, list[str]]:
    return {one.representative: [other.term for other in one.neighbours] for one in found}


def test_the_surest_broader_cluster() -> None:
    found = make([0, 1, 2], (0, 1, 0.3, 0.7), (0, 2, 0.3, 0.8), (1, 2, 0.1, -0.6))
    assert broader(found) == {"arms": "chin", "chin": "bone"}
    above = {one.representative: one for one in found}["arms"].broader
    assert above is not None
    assert (above.term, above.cluster, above.probability, above.member) == ("chin", 3, 0.8, "arms")


@pytest.mark.parametrize("size", [2, 3, 5])
def test_broader_clusters_have_no_cycle(size: int) -> None:
    """Each is below the next, and the last, with the lowest probability, below the first."""
    edges: list[Edge] = [(at, at + 1, 0.1, 0.9 - at / 100) for at in range(size - 1)]
    found = make(list(range(size)), *edges, (0, size - 1, 0.1, -0.7))
    assert broader(found) == {NAMES[at]: NAMES[at + 1] for at in range(size - 1)}


def test_two_clusters_have_no_cycle() -> None:
    """{arms, bone} is below {chin, diet} by one pair, and above it by another."""
    found = make([0, 0, 1, 1], (0, 2, 0.1, 0.7), (1, 3, 0.1, -0.8))
    assert broader(found) == {"chin": "bone"}


def test_narrower_terms_of_one_cluster() -> None:
    assert broader(make([0, 0, 1], (0, 1, 0.9, 0.9))) == {}


def test_the_five_likeliest_neighbours() -> None:
    """Each cluster once with its likeliest pair, from 0.05, and with the guard that separates it."""
    edges: list[Edge] = [(0, at, 0.1 * at, 0) for at in range(1, 7)]
    found = make(list(range(8)), *edges, (0, 7, 0.049, 0), (1, 7, 0.05, 0))
    assert near(found)["arms"] == ["gums", "foot", "eyes", "diet", "chin"]
    assert near(found)["bone"] == ["arms", "hand"]
    assert near(found)["hand"] == ["bone"]
    two = make([0, 0, 1, 1], (0, 2, 0.3, 0), (1, 3, 0.6, 0, LATERALITY), (0, 1, 0.9, 0))
    (only,) = two[0].neighbours
    assert (only.term, only.member, only.probability) == ("diet", "bone", 0.6)
    assert (only.apart, only.maybe) == (LATERALITY, False)


def test_maybe_and_guarded_pairs() -> None:
    edges: tuple[Edge, ...] = ((0, 2, 0.3, 0), (1, 2, 0.2, 0), (0, 3, 0.19, 0), (1, 3, 0.8, 0, LATERALITY))
    found = make([0, 0, 1, 2], *edges)
    assert found.maybe_pairs == 1
    assert (found.guarded_pairs(0.5), found.guarded_pairs(0.9)) == (1, 0)
    assert make([0, 1]).maybe_pairs == make([]).maybe_pairs == 0


def test_members_form_a_maximum_spanning_tree() -> None:
    """Pairs with a guard do not join, even within a cluster."""
    (found,) = make([0] * 4, (0, 1, 0.6, 0), (0, 2, 0.9, 0), (1, 2, 0.8, 0), (0, 3, 0.9, 0, LATERALITY), (1, 3, 0.5, 0))
    assert {member.term: (member.joined_to, member.joined_score) for member in found.members} == {
        "arms": ("", None), "bone": ("chin", 0.8), "chin": ("arms", 0.9), "diet": ("bone", 0.5),
    }  # fmt: skip


def classified(found: GraphClusters, parents: Parents | None, concepts: list[str], **linked: str) -> dict[str, Cluster]:
    """Clusters by representative; ``linked`` has the concepts of terms with score 0.8, several separated by |."""
    links, resolved = [], []
    for name in NAMES[: len(found.forms)]:
        near = tuple(
            Candidate(concept, f"Name of {concept}", 0.8, name, "en", "exact")
            for concept in filter(None, linked.get(name, "").split("|"))
        )
        links.append(Link(name, near))
        resolved.append(TermConcept(equal=near) if len(near) > 1 else TermConcept(*near))
    scores = np.array([0.8 if link.candidates else np.nan for link in links])
    found.classify(links, resolved, concepts, scores, 0.5, parents)
    return {one.representative: one for one in found}


def test_the_parent_is_the_concept_of_the_broader_cluster() -> None:
    edges: tuple[Edge, ...] = ((0, 3, 0.3, 0.8), (1, 3, 0.3, 0.8), (2, 3, 0.3, 0.8), (4, 5, 0.3, 0.8))
    found = make(list(range(6)), *edges)
    linked = {"bone": "C2", "chin": "C3|C4", "diet": "C1", "arms": "C9"}
    clusters = classified(found, lambda concept: [("P", "Parent")], ["", "C2", "", "C1", "", ""], **linked)
    assert {name: (one.status, one.parent_id, one.parent_name) for name, one in clusters.items()} == {
        "arms": (NEW, "C1", "Name of C1"),
        "bone": (KNOWN, None, ""),
        "chin": (AMBIGUOUS, None, ""),
        "diet": (KNOWN, None, ""),
        "eyes": (NEW, None, ""),
        "foot": (NEW, None, ""),
    }
    plain = classified(make([0]), lambda concept: [("P", "Parent")], [""], arms="C9")
    assert plain["arms"].parent_id == "P"


def test_a_member_without_edge_has_the_same_concept() -> None:
    found = classified(make([0, 0, 0], (0, 1, 0.9, 0)), None, ["C1"], arms="C1", bone="C1", chin="C1")
    assert [(m.term, m.joined_to, m.joined_by, m.joined_score) for m in found["arms"].members] == [
        ("arms", "", "", None),
        ("bone", "arms", "embedding", 0.9),
        ("chin", "arms", "same concept", None),
    ]
