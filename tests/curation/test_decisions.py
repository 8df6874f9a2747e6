"""The decisions file, and its effect on a clustering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from medlink.clustering import Cluster, Clustering, Member, Neighbour, Summary
from medlink.curation.applied_decisions import DECISION, apply_decisions
from medlink.curation.decisions import Decisions, read_decisions, term_hash
from medlink.errors import InputError
from medlink.kb.decision_table import ACCEPT, REJECT, Decision
from medlink.kb.readers.delimited import read_table
from medlink.records import Name

from .pages import CLUSTERING, CLUSTERS, HEADER, random_case


class LetterEncoder:
    """An encoder whose embeddings count letters."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def write(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "decisions.tsv"
    path.write_text(HEADER + "".join(row.replace("|", "\t") + "\n" for row in rows), "utf-8")
    return path


def decisions(tmp_path: Path, *rows: str) -> Decisions:
    return read_decisions(write(tmp_path, *rows))


def terms(clusters: Sequence[Cluster]) -> list[list[str]]:
    return [[member.term for member in cluster.members] for cluster in clusters]


def test_an_apostrophe_protects_a_formula(tmp_path: Path) -> None:
    rows = ("NEW:1|'=cmd()|de|preferred||accept", "NEW:2|'n Husten|de|preferred||accept", "NEW:3|+ Fieber|||H:1|reject")
    path = write(tmp_path, *rows)
    assert read_decisions(path).terms == {"=cmd()", "'n Husten", "+ Fieber"}
    assert {record.text for record in read_table(path) if isinstance(record, Name)} == {"=cmd()", "'n Husten"}


def test_read(tmp_path: Path) -> None:
    found = decisions(
        tmp_path, "NEW:1|arm pain|EN|preferred|H:2|accept", "NEW:1|Armschmerz|de|synonym||accept",
        "NEW:1|Armschmerz|de|synonym||accept", "|n/a||||reject", "NEW:2|leg  pain||preferred|H:3|group",
    )  # fmt: skip
    assert found.find(" arm\tpain", "en") == Decision("NEW:1", "arm pain", "en", True, "H:2", "accept", 2)
    assert found.find("n/a", "de") == Decision("", "n/a", "", False, "", "reject", 5)
    assert found.find("Armschmerz", "") == found.find("Armschmerz", "de")
    assert found.find("other", "") is None
    assert (found.names["NEW:1"], found.parents["NEW:1"], found.names.get("H:9")) == ("arm pain", "H:2", None)
    assert found.accepted == {"NEW:1"}
    assert found.terms == {"arm pain", "Armschmerz", "n/a", "leg pain"}
    found = decisions(tmp_path, "H:1|Gift|de|synonym||accept", "H:2|Gift|en|synonym||accept")
    assert [row and row.concept_id for row in (found.find("Gift", "de"), found.find("Gift", "en"))] == ["H:1", "H:2"]
    assert found.find("Gift", "es") is None
    assert decisions(tmp_path).terms == frozenset()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("H:1|a||synonym||acept", "column decision"),
        ("H:1|||synonym||accept", "no name"),
        ("|a||synonym||group", "no id"),
        ("H:1|a||lay||accept", "column type"),
        ("H:1|a|klingon|synonym||accept", "language"),
        ("H:2|first||synonym||accept", "line 2"),
        ("|first||||reject", "line 2"),
        ("H:1|second||preferred||accept\nH:1|third||preferred||accept", "preferred term of this id .* line 3"),
        *((f"{bad}|a||synonym||accept", "the id has") for bad in ("A b", "A\u202eb", "A\x07b", "A\u200bb")),
        ("NEW:1|a||synonym|H 1|accept", "parent"),
        ("H:1|a|en|synonym|accept", "5 columns, 6 expected"),
        ("H:1|a b", "2 columns, 6 expected"),
    ],
)
def test_a_bad_row(row: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, "H:1|first||synonym||accept", row)
    with pytest.raises(InputError, match=message) as caught:
        read_decisions(path)
    assert str(caught.value).startswith(f"{path}:{3 + row.count(chr(10))}: ")
    assert caught.value.remedy
    assert "max_bad_share" not in str(caught.value)


def test_a_bad_file(tmp_path: Path) -> None:
    path = tmp_path / "d.tsv"
    for content, message in (
        (b"id\tname\nH:1\ta\n", r"d.tsv:1: .*column language"),
        (HEADER.encode() + "H:1\tNiño\tes\tsynonym\t\taccept\n".encode("latin-1"), r"d.tsv:2: .*not UTF-8"),
        (b"id\t" + HEADER.encode(), r"d.tsv:1: .*column id"),
        (b"concept_id\t" + HEADER.encode(), r"d.tsv:1: .*concept_id"),
        (HEADER.encode() + b"A|b\tx\t\tsynonym\t\taccept\n", r"d.tsv:2: the id has"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_decisions(path)
    with pytest.raises(InputError, match="no such file"):
        read_decisions(tmp_path / "none.tsv")
    path.write_text(HEADER + "NEW:1\tx\t\tpreferred\tH:1 | H:2\taccept\n")
    assert read_decisions(path).parents["NEW:1"] == "H:1 | H:2"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("HP:9999|fever|en|synonym||accept", "no concept with this id"),
        ('NEW:1|"fever, high"|en|preferred||accept', "in quotes"),
        ('H:1|"a ""b"" c"|en|synonym||accept', "in quotes"),
    ],
)
def test_decisions_that_a_bundle_rejects(row: str, message: str, tmp_path: Path) -> None:
    found = decisions(tmp_path, "H:1|first||synonym||accept", row)
    with pytest.raises(InputError, match=rf"decisions.tsv:3: .*{message}"):
        found.check_accepted({"H:1"}.__contains__)


def test_decisions_that_a_bundle_accepts(tmp_path: Path) -> None:
    checked: list[str] = []
    rows = ("H:1|first||synonym||accept", "H:1|second||synonym||accept", 'NEW:1|"a" and "b"||synonym||accept')
    found = decisions(tmp_path, *rows, "H:9|third||synonym||group", '|"x"||||reject')
    found.check_accepted(lambda concept_id: not checked.append(concept_id))
    assert checked == ["H:1"]


def test_term_hash() -> None:
    assert term_hash("Fieber") == term_hash(" FIEBER ") != term_hash("Fiebér")
    assert term_hash("ni\u00f1o") == term_hash("nin\u0303o")
    assert len(term_hash("")) == 16


def test_terms_of_one_id_form_one_cluster(tmp_path: Path) -> None:
    rows = ("H:1|fever|en|synonym||accept", "H:1|pyrexia|en|synonym||accept")
    result = apply_decisions(CLUSTERING, decisions(tmp_path, *rows), LetterEncoder())
    first, *others = result.clustering.clusters
    assert terms([first]) == [["fever", "Fieber", "FIEBER", "fiebre", "feverfew", "pyrexia", "Pyrexie"]]
    assert (first.number, first.concept_id, first.concept_name, first.score) == (1, "H:1", "fever", 0.93)
    assert [cluster.number for cluster in others] == [3, 4, 5, 6]
    assert (result.decided, result.rejected, result.absent) == (2, 0, 0)
    joined = {m.term: (m.joined_to, m.joined_by, m.joined_score) for m in first.members}
    assert joined["fever"] == ("", "", None)
    assert joined["Fieber"] == ("fever", "embedding", 0.88)
    assert joined["pyrexia"] == ("fever", DECISION, None)
    assert joined["Pyrexie"] == ("pyrexia", "embedding", 0.91)
    # two members have no decision, so the cluster stays doubtful
    assert first.doubtful
    cosines = LetterEncoder().encode(["fever", "pyrexia"])
    assert first.members[5].similarity == round(float(cosines[0] @ cosines[1]), 4)


def test_terms_of_two_ids_are_in_two_clusters(tmp_path: Path) -> None:
    rows = (
        "H:1|fever|en|synonym||accept",
        "NEW:7|Fieber|de|preferred|H:2|accept",
        "NEW:8|feverfew|en|preferred||group",
    )
    result = apply_decisions(CLUSTERING, decisions(tmp_path, *rows), LetterEncoder())
    found = {cluster.representative: cluster for cluster in result.clustering.clusters}
    assert {name: [m.term for m in found[name].members] for name in ("fever", "Fieber", "feverfew")} == {
        "fever": ["fever"],
        # both joined Fieber, one of them indirectly
        "Fieber": ["Fieber", "FIEBER", "fiebre"],
        "feverfew": ["feverfew"],
    }
    assert (found["fever"].number, found["Fieber"].number, found["feverfew"].number) == (1, 7, 8)
    new = found["Fieber"]
    assert (new.concept_id, new.concept_name, new.parent_id, new.parent_name) == ("NEW:7", "Fieber", "H:2", "pain")
    assert (found["feverfew"].concept_id, found["feverfew"].score) == (None, 0.93)
    assert not found["fever"].doubtful
    assert result.clustering.clusters[-1] == found["feverfew"]


def test_rejected_terms_are_left_out(tmp_path: Path) -> None:
    rows = ("|k. A.|de|||reject", "|fever||||reject", "|not here||||reject", "|pain in the right arm|en|||reject")
    result = apply_decisions(CLUSTERING, decisions(tmp_path, *rows), LetterEncoder())
    clusters = {cluster.number: cluster for cluster in result.clustering.clusters}
    assert sorted(clusters) == [1, 2, 3, 5, 6]
    assert (clusters[5].representative, clusters[5].members[0].similarity) == ("n/a", pytest.approx(1.0))
    assert clusters[5].members[0].joined_to == ""
    assert (clusters[1].representative, clusters[1].concept_id) == ("Fieber", "H:1")
    # the first of two terms that joined the rejected one begins the cluster
    assert {m.term: m.joined_to for m in clusters[1].members} == {
        "Fieber": "", "FIEBER": "Fieber", "fiebre": "Fieber", "feverfew": "Fieber",
    }  # fmt: skip
    assert [n.term for n in clusters[3].neighbours] == []
    assert (result.decided, result.rejected, result.absent) == (3, 3, 1)


def test_summary_is_recomputed(tmp_path: Path) -> None:
    none = apply_decisions(CLUSTERING, Decisions("d.tsv", []), LetterEncoder())
    assert none.clustering.summary == CLUSTERING.summary
    assert list(none.clustering.clusters) == list(CLUSTERING.clusters)
    rows = ("NEW:1|niño con tos|es|preferred||accept", "|pain in the right arm||||reject")
    summary = apply_decisions(CLUSTERING, decisions(tmp_path, *rows), LetterEncoder()).clustering.summary
    assert summary == replace(CLUSTERING.summary, terms=12, clusters=5, single=1, known=3, new=2)
    unlinked = replace(CLUSTERING, summary=replace(CLUSTERING.summary, known=0, new=0))
    summary = apply_decisions(unlinked, decisions(tmp_path, *rows), LetterEncoder()).clustering.summary
    assert (summary.known, summary.new) == (3, 0)


def test_neighbours_follow(tmp_path: Path) -> None:
    rows = ("NEW:1|Fieber|de|preferred||accept", "NEW:2|fever|en|preferred||accept")
    clusters = {
        c.number: c
        for c in apply_decisions(CLUSTERING, decisions(tmp_path, *rows), LetterEncoder()).clustering.clusters
    }
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
        clusters = apply_decisions(clustering, decisions(tmp_path, *rows), LetterEncoder()).clustering.clusters
        return {c.representative: c.broader and (c.broader.term, c.broader.cluster) for c in clusters}

    assert found() == {c.representative: None for c in CLUSTERS} | {
        "pyrexia": ("Fieber", 1), "pain in the left arm": ("fever", 1),
    }  # fmt: skip
    # the broader term was split off and has another number
    split = found("NEW:1|Fieber|de|preferred||accept", "NEW:2|fever|en|preferred||accept")
    assert sorted(one for one in split.values() if one) == [("Fieber", 1), ("fever", 7)]
    assert found("|Fieber|de|||reject")["pyrexia"] is None
    assert found("|Fieber|de|||reject")["pain in the left arm"] == ("fever", 1)
    # no cluster is narrower than itself
    merged = found("H:1|Fieber|de|synonym||accept", "H:1|pyrexia|en|synonym||accept")
    assert (merged["fever"], merged["pain in the left arm"]) == (None, ("fever", 1))
    # the largest part determines the broader cluster
    combined = found("H:1|pyrexia|en|synonym||accept", "H:1|Pyrexie|de|synonym||accept", "H:1|n/a|en|synonym||accept")
    assert combined["pyrexia"] == ("Fieber", 1)


def test_a_cycle_of_joins_ends(tmp_path: Path) -> None:
    members = (
        Member("a", joined_to="b", joined_by="embedding", joined_score=0.9),
        Member("b", joined_to="a", joined_by="embedding", joined_score=0.9),
        Member("c", joined_to="a", joined_by="embedding", joined_score=0.9),
        Member("d"),
    )
    clustering = Clustering((Cluster(1, "a", members),), Summary(terms=4, clusters=1))
    result = apply_decisions(
        clustering, decisions(tmp_path, "X:2|c||synonym||accept", "X:1|d||synonym||accept"), LetterEncoder()
    )
    # a and b lead nowhere, and two ids have one term each: the first by text gets them
    assert sorted(map(sorted, terms(result.clustering.clusters))) == [["a", "b", "d"], ["c"]]


@pytest.mark.slow
def test_against_a_naive_oracle(tmp_path: Path) -> None:
    """Random lists and decisions: together, apart, rejected, and nothing lost."""
    for seed in range(25):
        clustering, text = random_case(seed)
        (tmp_path / "decisions.tsv").write_text(text, "utf-8")
        table = read_decisions(tmp_path / "decisions.tsv")
        members = [member for cluster in clustering.clusters for member in cluster.members]
        given = {m.term: row for m in members if (row := table.find(m.term, m.language))}
        result = apply_decisions(clustering, table, LetterEncoder()).clustering
        where = {m.term: cluster for cluster in result.clusters for m in cluster.members}
        assert set(where) == {m.term for m in members if m.term not in given or given[m.term].decision != REJECT}
        numbers = [cluster.number for cluster in result.clusters]
        assert len(set(numbers)) == len(numbers) == result.summary.clusters
        assert result.summary.terms == len(where)
        decided = {term: row for term, row in given.items() if row.decision != REJECT}
        for one, row in decided.items():
            for other, second in decided.items():
                assert (where[one].number == where[other].number) == (row.concept_id == second.concept_id)
            if row.decision == ACCEPT or not row.concept_id.startswith("NEW"):
                assert where[one].concept_id == row.concept_id
        for cluster in clustering.clusters:
            # terms of a cluster without decisions stay together
            if not any(m.term in given for m in cluster.members):
                assert {where[m.term].number for m in cluster.members} == {cluster.number}
            for m in cluster.members:
                if m.term not in given and m.joined_to in decided:
                    assert where[m.term].number == where[m.joined_to].number
        assert list(apply_decisions(clustering, table, LetterEncoder()).clustering.clusters) == list(result.clusters)


def test_similarity_is_clipped(tmp_path: Path) -> None:
    class Long:
        """An encoder whose vectors are slightly too long, as after rounding."""

        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.array([[1.0001 if i % 2 == 0 else -1.0001] for i in range(len(texts))], dtype=np.float32)

    rows = ("NEW:1|fever|en|preferred||accept", "NEW:1|Fieber|de|synonym||accept", "NEW:1|fiebre|es|synonym||accept")
    clusters = apply_decisions(CLUSTERING, decisions(tmp_path, *rows), Long()).clustering.clusters
    assert {member.similarity for member in clusters[0].members} == {1.0, -1.0}
