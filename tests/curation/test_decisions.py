"""The decisions file, and what it does to a clustering."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from medlink.clustering import Cluster, Clustering, Member, Neighbour, Summary
from medlink.curation.applied_decisions import DECIDED, apply
from medlink.curation.decisions import ACCEPT, Decision, Decisions, clean, read_decisions, term_hash
from medlink.errors import InputError
from medlink.kb.readers.delimited import read_table
from medlink.records import Name

from .pages import CLUSTERING, CLUSTERS

HEADER = "id\tname\tlanguage\ttype\tparent\tdecision\n"


class Letters:
    """An encoder whose embedding is the count of each letter."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def written(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "decisions.tsv"
    path.write_text(HEADER + "".join(row.replace("|", "\t") + "\n" for row in rows), "utf-8")
    return path


def decided(tmp_path: Path, *rows: str) -> Decisions:
    return read_decisions(written(tmp_path, *rows))


def terms(clusters: Sequence[Cluster]) -> list[list[str]]:
    return [[member.term for member in cluster.members] for cluster in clusters]


def test_a_cell_behind_an_apostrophe_is_the_cell(tmp_path: Path) -> None:
    """So the page writes what a spreadsheet would take for a formula."""
    rows = ("NEW:1|'=cmd()|de|preferred||accept", "NEW:2|'n Husten|de|preferred||accept", "NEW:3|+ Fieber|||H:1|reject")
    path = written(tmp_path, *rows)
    found = read_decisions(path)
    assert found.terms == {"=cmd()", "'n Husten", "+ Fieber"}
    assert {record.text for record in read_table(path) if isinstance(record, Name)} == {"=cmd()", "'n Husten"}


def test_read(tmp_path: Path) -> None:
    found = decided(
        tmp_path,
        "NEW:1|arm pain|EN|preferred|H:2|accept",
        "NEW:1|Armschmerz|de|synonym||accept",
        "NEW:1|Armschmerz|de|synonym||accept",
        "|n/a||||reject",
        "NEW:2|leg  pain||preferred|H:3|group",
    )
    assert found.of(" arm\tpain", "en") == Decision("NEW:1", "arm pain", "en", True, "H:2", "accept", 2)
    assert found.of("n/a", "de") == Decision("", "n/a", "", False, "", "reject", 5)
    assert found.of("Armschmerz", "") == found.of("Armschmerz", "de")
    assert found.of("other", "") is None
    assert (found.names["NEW:1"], found.parents["NEW:1"], found.names.get("H:9", ""), found.parents.get("H:9", "")) == (
        "arm pain", "H:2", "", "",
    )  # fmt: skip
    assert found.accepted == {"NEW:1"}
    assert found.terms == {"arm pain", "Armschmerz", "n/a", "leg pain"}


def test_a_term_of_two_languages(tmp_path: Path) -> None:
    found = decided(tmp_path, "H:1|Gift|de|synonym||accept", "H:2|Gift|en|synonym||accept")
    assert [row and row.concept_id for row in (found.of("Gift", "de"), found.of("Gift", "en"))] == ["H:1", "H:2"]
    assert found.of("Gift", "es") is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("H:1|a||synonym||acept", "unknown word in the column decision. Remedy: use accept, group or reject."),
        ("H:1|||synonym||accept", "there is no name. Remedy: write the term into the column name, or delete the row."),
        ("|a||synonym||group", "there is no id. Remedy: write the concept's id, or the decision reject."),
        ("H:1|a||lay||accept", "unknown word in the column type. Remedy: use preferred or synonym."),
        (
            "H:1|a|klingon|synonym||accept",
            "unknown language. Remedy: give a BCP 47 tag, such as de, or leave it empty.",
        ),
        ("H:2|first||synonym||accept", "this term is decided otherwise in line 2. Remedy: keep one of the two rows."),
        (
            "H:1|second||preferred||accept\nH:1|third||preferred||accept",
            "the preferred term of this id and language is in line 3. Remedy: make one of the two a synonym.",
        ),
        *(
            (
                f"{bad}|a||synonym||accept",
                "the id has a blank, | or an invisible character. "
                "Remedy: write an id without them; the columns may have changed places.",
            )
            for bad in ("A b", "A\u202eb", "A\x07b", "A\u200bb")
        ),
        ("NEW:1|a||synonym|H 1|accept", "the parent is no id. Remedy: write the id of one concept, or leave it empty."),
        ("|first||||reject", "this term is decided otherwise in line 2. Remedy: keep one of the two rows."),
    ],
)
def test_a_bad_row(row: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, "H:1|first||synonym||accept", row)
    with pytest.raises(InputError) as caught:
        read_decisions(path)
    assert str(caught.value) == f"{path}:{3 + row.count(chr(10))}: {message}"


def test_an_id_with_a_bar(tmp_path: Path) -> None:
    path = tmp_path / "decisions.tsv"
    path.write_text(HEADER + "A|b\tx\t\tsynonym\t\taccept\n")
    with pytest.raises(InputError, match=r"decisions\.tsv:2: the id has a blank, \|"):
        read_decisions(path)
    path.write_text(HEADER + "NEW:1\tx\t\tpreferred\tH:1 | H:2\taccept\n")
    assert read_decisions(path).parents["NEW:1"] == "H:1 | H:2"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "HP:9999|fever|en|synonym||accept",
            "the bundle has no concept with this id. "
            "Remedy: write the id of a concept that it has, or one that begins with NEW:.",
        ),
        (
            'NEW:1|"fever, high"|en|preferred||accept',
            "the name stands in quotes. Remedy: save the file as TSV without quotes, or take them off.",
        ),
        ('H:1|"a ""b"" c"|en|synonym||accept', "the name stands in quotes"),
    ],
)
def test_what_may_not_enter_a_bundle(row: str, message: str, tmp_path: Path) -> None:
    found = decided(tmp_path, "H:1|first||synonym||accept", row)
    with pytest.raises(InputError) as caught:
        found.check_accepted({"H:1"}.__contains__)
    assert str(caught.value).startswith(f"{tmp_path}/decisions.tsv:3: {message}")


def test_what_may_enter_a_bundle(tmp_path: Path) -> None:
    asked: list[str] = []
    found = decided(
        tmp_path,
        "H:1|first||synonym||accept",
        "H:1|second||synonym||accept",
        'NEW:1|"a" and "b"||synonym||accept',
        "H:9|third||synonym||group",
        '|"x"||||reject',
    )
    found.check_accepted(lambda concept_id: not asked.append(concept_id))
    assert asked == ["H:1"]


def test_a_bad_file(tmp_path: Path) -> None:
    path = tmp_path / "d.tsv"
    path.write_text("id\tname\nH:1\ta\n")
    with pytest.raises(InputError, match=r"d.tsv:1: looked for the columns id, .*; found 2 columns.*column language"):
        read_decisions(path)
    path.write_bytes(HEADER.encode() + "H:1\tNiño\tes\tsynonym\t\taccept\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"d.tsv:2: .*bad bytes.*Remedy: give the file as UTF-8"):
        read_decisions(path)
    path.write_text(HEADER + "H:1\ta\ten\tsynonym\taccept\n")
    with pytest.raises(InputError, match=r"d.tsv:2: .*5 columns, 6 expected"):
        read_decisions(path)
    with pytest.raises(InputError, match="no such file"):
        read_decisions(tmp_path / "none.tsv")
    for extra, message in (
        ("id", "the column id is there twice. Remedy: rename or delete one of them."),
        ("concept_id", "there are the columns id and concept_id. Remedy: leave id and take off the other."),
    ):
        path.write_text(f"{extra}\t{HEADER}")
        with pytest.raises(InputError) as caught:
            read_decisions(path)
        assert str(caught.value) == f"{path}:1: {message}"
    path.write_text(HEADER + "H:1\ta b\nsecret\tname\ten\tsynonym\t\taccept\n")
    with pytest.raises(InputError) as caught:
        read_decisions(path)
    assert "max_bad_share" not in str(caught.value)
    path.write_text(HEADER)
    assert read_decisions(path).terms == frozenset()


def test_term_hash() -> None:
    assert term_hash("Fieber") == term_hash(" FIEBER ") != term_hash("Fiebér")
    assert term_hash("ni\u00f1o") == term_hash("nin\u0303o")
    assert len(term_hash("")) == 16
    assert clean("a\t\u2028b\n") == "a b"


def test_together_whatever_the_clusterer_says(tmp_path: Path) -> None:
    rows = ("H:1|fever|en|synonym||accept", "H:1|pyrexia|en|synonym||accept")
    result = apply(CLUSTERING, decided(tmp_path, *rows), Letters())
    first, *others = result.clustering.clusters
    assert terms([first]) == [["fever", "Fieber", "FIEBER", "fiebre", "feverfew", "pyrexia", "Pyrexie"]]
    assert (first.number, first.concept_id, first.concept_name, first.score) == (1, "H:1", "fever", 0.93)
    assert [cluster.number for cluster in others] == [3, 4, 5, 6]
    assert (result.decided, result.rejected, result.absent) == (2, 0, 0)
    joined = {m.term: (m.joined_to, m.joined_by, m.joined_score) for m in first.members}
    assert joined["fever"] == ("", "", None)
    assert joined["Fieber"] == ("fever", "embedding", 0.88)
    assert joined["pyrexia"] == ("fever", DECIDED, None)
    assert joined["Pyrexie"] == ("pyrexia", "embedding", 0.91)
    # two members have no decision, so what made the cluster doubtful still stands
    assert first.doubtful
    cosines = Letters().encode(["fever", "pyrexia"])
    assert first.members[5].similarity == round(float(cosines[0] @ cosines[1]), 4)


def test_apart_whatever_the_clusterer_says(tmp_path: Path) -> None:
    rows = (
        "H:1|fever|en|synonym||accept",
        "NEW:7|Fieber|de|preferred|H:2|accept",
        "NEW:8|feverfew|en|preferred||group",
    )
    result = apply(CLUSTERING, decided(tmp_path, *rows), Letters())
    found = {cluster.representative: cluster for cluster in result.clustering.clusters}
    assert {name: [m.term for m in found[name].members] for name in ("fever", "Fieber", "feverfew")} == {
        "fever": ["fever"],
        # both joined Fieber, one by way of it
        "Fieber": ["Fieber", "FIEBER", "fiebre"],
        "feverfew": ["feverfew"],
    }
    assert (found["fever"].number, found["Fieber"].number, found["feverfew"].number) == (1, 7, 8)
    new = found["Fieber"]
    assert (new.concept_id, new.concept_name, new.parent_id, new.parent_name) == ("NEW:7", "Fieber", "H:2", "pain")
    assert (found["feverfew"].concept_id, found["feverfew"].score) == (None, 0.93)
    assert not found["fever"].doubtful
    assert result.clustering.clusters[-1] == found["feverfew"]


def test_rejected_terms_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = ("|k. A.|de|||reject", "|fever||||reject", "|not here||||reject", "|pain in the right arm|en|||reject")
    result = apply(CLUSTERING, decided(tmp_path, *rows), Letters())
    clusters = {cluster.number: cluster for cluster in result.clustering.clusters}
    assert sorted(clusters) == [1, 2, 3, 5, 6]
    assert (clusters[5].representative, clusters[5].members[0].similarity) == ("n/a", pytest.approx(1.0))
    assert clusters[5].members[0].joined_to == ""
    assert (clusters[1].representative, clusters[1].concept_id) == ("Fieber", "H:1")
    # of two that had joined the rejected term, the first begins the cluster
    assert {m.term: m.joined_to for m in clusters[1].members} == {
        "Fieber": "", "FIEBER": "Fieber", "fiebre": "Fieber", "feverfew": "Fieber",
    }  # fmt: skip
    assert [n.term for n in clusters[3].neighbours] == []
    assert (result.decided, result.rejected, result.absent) == (3, 3, 1)


def test_summary_is_counted_anew(tmp_path: Path) -> None:
    none = apply(CLUSTERING, Decisions("d.tsv", []), Letters())
    assert none.clustering.summary == CLUSTERING.summary
    assert list(none.clustering.clusters) == list(CLUSTERING.clusters)
    rows = ("NEW:1|niño con tos|es|preferred||accept", "|pain in the right arm||||reject")
    summary = apply(CLUSTERING, decided(tmp_path, *rows), Letters()).clustering.summary
    assert summary == replace(CLUSTERING.summary, terms=12, clusters=5, single=1, known=3, new=2)
    unlinked = replace(CLUSTERING, summary=replace(CLUSTERING.summary, known=0, new=0))
    summary = apply(unlinked, decided(tmp_path, *rows), Letters()).clustering.summary
    assert (summary.known, summary.new) == (3, 0)


def test_neighbours_follow(tmp_path: Path) -> None:
    rows = ("NEW:1|Fieber|de|preferred||accept", "NEW:2|fever|en|preferred||accept")
    clusters = {c.number: c for c in apply(CLUSTERING, decided(tmp_path, *rows), Letters()).clustering.clusters}
    fever = next(c for c in clusters.values() if c.representative == "fever")
    assert fever.number != 1
    assert [(n.term, n.cluster) for n in clusters[2].neighbours] == [("fever", fever.number)]
    assert [(n.term, n.cluster) for n in clusters[3].neighbours] == [
        ("pain in the right arm", 4),
        ("fever", fever.number),
    ]


def test_the_broader_term_follows(tmp_path: Path) -> None:
    first, second, *rest = CLUSTERS
    below = replace(second, broader=Neighbour("Fieber", 1, 0.8, member="pyrexia"))
    arm = replace(rest[0], broader=Neighbour("fever", 1, 0.6))
    clustering = replace(CLUSTERING, clusters=(first, below, arm, *rest[1:]))

    def found(*rows: str) -> dict[str, tuple[str, int] | None]:
        clusters = apply(clustering, decided(tmp_path, *rows), Letters()).clustering.clusters
        return {c.representative: c.broader and (c.broader.term, c.broader.cluster) for c in clusters}

    assert found() == {c.representative: None for c in CLUSTERS} | {
        "pyrexia": ("Fieber", 1), "pain in the left arm": ("fever", 1),
    }  # fmt: skip
    # the broader term was split off, and has another number
    parted = found("NEW:1|Fieber|de|preferred||accept", "NEW:2|fever|en|preferred||accept")
    assert sorted(one for one in parted.values() if one) == [("Fieber", 1), ("fever", 7)]
    assert found("|Fieber|de|||reject")["pyrexia"] is None
    assert found("|Fieber|de|||reject")["pain in the left arm"] == ("fever", 1)
    # nothing is narrower than itself
    merged = found("H:1|Fieber|de|synonym||accept", "H:1|pyrexia|en|synonym||accept")
    assert (merged["fever"], merged["pain in the left arm"]) == (None, ("fever", 1))
    # a made cluster is narrower than what the largest of its parts is narrower than
    made = found("H:1|pyrexia|en|synonym||accept", "H:1|Pyrexie|de|synonym||accept", "H:1|n/a|en|synonym||accept")
    assert made["pyrexia"] == ("Fieber", 1)


def test_a_wrong_join_cannot_turn_round(tmp_path: Path) -> None:
    members = (
        Member("a", joined_to="b", joined_by="embedding", joined_score=0.9),
        Member("b", joined_to="a", joined_by="embedding", joined_score=0.9),
        Member("c", joined_to="a", joined_by="embedding", joined_score=0.9),
        Member("d"),
    )
    clustering = Clustering((Cluster(1, "a", members),), Summary(terms=4, clusters=1))
    result = apply(clustering, decided(tmp_path, "X:2|c||synonym||accept", "X:1|d||synonym||accept"), Letters())
    # a and b lead nowhere, and two ids have one term each: the first by text gets them
    assert sorted(map(sorted, terms(result.clustering.clusters))) == [["a", "b", "d"], ["c"]]


def test_against_a_naive_oracle(tmp_path: Path) -> None:
    """For random lists and decisions: together, apart, rejected, and nothing lost."""
    for seed in range(40):
        pick = random.Random(seed)
        names = [f"{a}{b}" for a in "abcde" for b in "xyz"]
        pick.shuffle(names)
        clusters, at = [], 0
        while at < len(names):
            some = names[at : at + pick.randint(1, 4)]
            at += len(some)
            clusters.append(Cluster(len(clusters) + 1, some[0], tuple(
                Member(t, joined_to="" if i == 0 else pick.choice(some[:i])) for i, t in enumerate(some)
            )))  # fmt: skip
        given = {t: pick.choice(["NEW:1", "NEW:2", "H:1", "H:2", ""]) for t in names if pick.random() < 0.6}
        kinds = {i: pick.choice(["accept", "group"]) for i in ("NEW:1", "NEW:2", "H:1", "H:2")}
        rows = [f"{i}|{t}||synonym||{kinds[i] if i else 'reject'}" for t, i in given.items()]
        result = apply(Clustering(clusters, Summary(terms=len(names))), decided(tmp_path, *rows), Letters())
        where = {m.term: cluster for cluster in result.clustering.clusters for m in cluster.members}
        assert set(where) == {t for t in names if given.get(t, "x") != ""}
        numbers = [cluster.number for cluster in result.clustering.clusters]
        assert len(set(numbers)) == len(numbers) == result.clustering.summary.clusters
        for one, i in given.items():
            for other, j in given.items():
                if i and j:
                    assert (where[one].number == where[other].number) == (i == j)
            if i and (kinds[i] == ACCEPT or not i.startswith("NEW")):
                assert where[one].concept_id == i
        for cluster in clusters:
            # terms of a cluster without decisions stay where they are
            if not any(m.term in given for m in cluster.members):
                assert {where[m.term].number for m in cluster.members} == {cluster.number}
            for m in cluster.members:
                if m.term not in given and given.get(m.joined_to):
                    assert where[m.term].number == where[m.joined_to].number
        assert result.clustering.summary.terms == len(where)
        again = apply(Clustering(clusters, Summary(terms=len(names))), decided(tmp_path, *rows), Letters())
        assert list(again.clustering.clusters) == list(result.clustering.clusters)


def test_likeness_stays_within_its_bounds(tmp_path: Path) -> None:
    class Long:
        """An encoder whose vectors are a little too long, as rounding makes some."""

        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.array([[1.0001 if i % 2 == 0 else -1.0001] for i in range(len(texts))], dtype=np.float32)

    rows = ("NEW:1|fever|en|preferred||accept", "NEW:1|Fieber|de|synonym||accept", "NEW:1|fiebre|es|synonym||accept")
    clusters = apply(CLUSTERING, decided(tmp_path, *rows), Long()).clustering.clusters
    assert {member.similarity for member in clusters[0].members} == {1.0, -1.0}
