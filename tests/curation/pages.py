"""Clusters that the tests of the page and of the decisions share."""

from __future__ import annotations

from medlink.clustering import Cluster, Clustering, Member, Neighbour, Summary
from medlink.records import Candidate


def candidate(concept_id: str, name: str, score: float) -> Candidate:
    return Candidate(concept_id, name, score, name, "en", "dense")


FEVER = candidate("H:1", "fever", 0.93)
PAIN = candidate("H:2", "pain", 0.71)
CLUSTERS = (
    Cluster(
        1,
        "fever",
        (
            Member("fever", 90, "en"),
            Member("Fieber", 40, "de", "K7", 0.88, "fever", "embedding", 0.88),
            Member("FIEBER", 2, "de", "", 0.88, "Fieber", "same form", 1.0),
            Member("fiebre", 30, "es", "", 0.86, "Fieber", "embedding", 0.9),
            Member("feverfew", 1, "en", "", 0.66, "fever", "embedding", 0.66),
        ),
        "H:1",
        "fever",
        0.93,
        (FEVER, PAIN),
        doubtful=True,
        neighbours=(Neighbour("pyrexia", 2, 0.74, member="Fieber"),),
    ),
    Cluster(
        2,
        "pyrexia",
        (Member("pyrexia", 12, "en"), Member("Pyrexie", 3, "de", "", 0.91, "pyrexia", "embedding", 0.91)),
        "H:1",
        "fever",
        0.81,
        (FEVER,),
        neighbours=(Neighbour("fever", 1, 0.74, member="pyrexia"),),
    ),
    Cluster(
        3,
        "pain in the left arm",
        (
            Member("pain in the left arm", 9, "en"),
            Member("Schmerz im linken Arm", 4, "de", "", 0.83, "pain in the left arm", "embedding", 0.83),
        ),
        score=0.71,
        nearest=(PAIN,),
        parent_id="H:2",
        parent_name="pain",
        neighbours=(Neighbour("pain in the right arm", 4, 0.95, "laterality"), Neighbour("fever", 1, 0.19)),
    ),
    Cluster(
        4,
        "pain in the right arm",
        (Member("pain in the right arm", 7, "en"),),
        score=0.7,
        nearest=(PAIN,),
        parent_id="H:2",
        parent_name="pain",
        neighbours=(Neighbour("pain in the left arm", 3, 0.95, "laterality"),),
    ),
    Cluster(5, "k. A.", (Member("k. A.", 55, "de"), Member("n/a", 5, "", "", 0.5, "k. A.", "embedding", 0.5))),
    Cluster(6, "niño con tos", (Member("niño con tos", 1, "es"),), nearest=(PAIN,), score=0.2),
)
CLUSTERING = Clustering(
    CLUSTERS, Summary(terms=13, forms=12, clusters=6, single=2, largest=5, known=2, new=4, doubtful=1)
)
