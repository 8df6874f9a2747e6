"""Clusters for the tests of the page and of decisions."""

from __future__ import annotations

import random

from medlink.clustering import Cluster, Clustering, Member, Neighbour, Summary
from medlink.records import Candidate

HEADER = "id\tname\tlanguage\ttype\tparent\tdecision\n"
FEVER = Candidate("H:1", "fever", 0.93, "fever", "en", "dense")
PAIN = Candidate("H:2", "pain", 0.71, "pain", "en", "dense")
_ARM = {"score": 0.71, "nearest": (PAIN,), "parent_id": "H:2", "parent_name": "pain"}
CLUSTERS = (
    Cluster(
        1, "fever",
        (
            Member("fever", 90, "en"),
            Member("Fieber", 40, "de", "K7", 0.88, "fever", "embedding", 0.88),
            Member("FIEBER", 2, "de", "", 0.88, "Fieber", "same form", 1.0),
            Member("fiebre", 30, "es", "", 0.86, "Fieber", "embedding", 0.9),
            Member("feverfew", 1, "en", "", 0.66, "fever", "embedding", 0.66),
        ),
        "H:1", "fever", 0.93, (FEVER, PAIN), doubtful=True,
        neighbours=(Neighbour("pyrexia", 2, 0.74, member="Fieber"),),
    ),
    Cluster(
        2, "pyrexia",
        (Member("pyrexia", 12, "en"), Member("Pyrexie", 3, "de", "", 0.91, "pyrexia", "embedding", 0.91)),
        "H:1", "fever", 0.81, (FEVER,), neighbours=(Neighbour("fever", 1, 0.74, member="pyrexia"),),
    ),
    Cluster(
        3, "pain in the left arm",
        (
            Member("pain in the left arm", 9, "en"),
            Member("Schmerz im linken Arm", 4, "de", "", 0.83, "pain in the left arm", "embedding", 0.83),
        ),
        **_ARM,
        neighbours=(Neighbour("pain in the right arm", 4, 0.95, "laterality"), Neighbour("fever", 1, 0.19)),
    ),
    Cluster(
        4, "pain in the right arm", (Member("pain in the right arm", 7, "en"),), **{**_ARM, "score": 0.7},
        neighbours=(Neighbour("pain in the left arm", 3, 0.95, "laterality"),),
    ),
    Cluster(5, "k. A.", (Member("k. A.", 55, "de"), Member("n/a", 5, "", "", 0.5, "k. A.", "embedding", 0.5))),
    Cluster(6, "niño con tos", (Member("niño con tos", 1, "es"),), nearest=(PAIN,), score=0.2),
)  # fmt: skip
CLUSTERING = Clustering(
    CLUSTERS, Summary(terms=13, forms=12, clusters=6, single=2, largest=5, known=2, new=4, doubtful=1)
)


def random_case(seed: int) -> tuple[Clustering, str]:
    """A list and a decisions file with some terms that are not in the list."""
    pick = random.Random(seed)
    names = [f"{a}{b}" for a in "abcdef" for b in "xyz"]
    pick.shuffle(names)
    clusters: list[Cluster] = []
    rest = list(names)
    while rest:
        some = [rest.pop() for _ in range(min(len(rest), pick.randint(1, 5)))]
        members = tuple(
            Member(t, pick.randint(1, 3), pick.choice(["", "en"]), "", 1.0, "" if not i else pick.choice(some[:i]))
            for i, t in enumerate(some)
        )
        near = (Neighbour(pick.choice(names), 1, 0.5),)
        clusters.append(Cluster(len(clusters) + 1, some[0], members, pick.choice([None, "H:1"]), neighbours=near))
    ids = {i: pick.choice(["accept", "group"]) for i in ("NEW:1", "NEW:2", "H:1", "H:2")}
    rows = []
    for term in (*names, "absent"):
        given = pick.choice(["", "reject", *ids])
        if given == "reject":
            rows.append(f"\t{term}\t\tsynonym\t\treject\n")
        elif given:
            rows.append(f"{given}\t{term}\t\tsynonym\t\t{ids[given]}\n")
    return Clustering(clusters, Summary(terms=len(names))), HEADER + "".join(rows)
