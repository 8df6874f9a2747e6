"""``TermClusterer``: whole lists in, clusters out."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import medlink
from medlink.clustering import Clustering, TermClusterer, Terms, read_terms
from medlink.errors import ConfigError
from medlink.files.escapes import from_cell
from medlink.index import Bundle
from medlink.kb import Input
from medlink.kb.readers.table import read_table
from medlink.linking import Linker
from medlink.linking.demo import demo_folder
from medlink.models import load_encoder
from medlink.records import Candidate, Link, Name

ENCODER = load_encoder()
TERMS = (
    "fever", "Fieber", "fiebre", "pyrexia", "Fever", "myocardial infarction", "Herzinfarkt", "infarto de miocardio",
    "left leg pain", "right leg pain", "type 1 diabetes mellitus", "type 2 diabetes mellitus",
    "Diabetes mellitus Typ II", "diabetes mellitus tipo 2", "Hypertonie", "Hypotonie", "hypertension", "hypotension",
    "chronic obstructive pulmonary disease", "COPD",
)  # fmt: skip


def groups(found: Clustering) -> set[frozenset[str]]:
    return {frozenset(member.term for member in cluster.members) for cluster in found.clusters}


def cluster(terms: Sequence[str] = TERMS, near: int = 0, **options: Any) -> Clustering:
    return TermClusterer(ENCODER, **options).cluster(terms, near=near)


def test_three_languages_and_guards() -> None:
    found = groups(cluster())
    assert frozenset(["fever", "Fieber", "fiebre", "pyrexia", "Fever"]) in found
    assert frozenset(["type 2 diabetes mellitus", "Diabetes mellitus Typ II", "diabetes mellitus tipo 2"]) in found
    assert frozenset(["chronic obstructive pulmonary disease", "COPD"]) in found
    for apart in (("left leg pain", "right leg pain"), ("Hypertonie", "Hypotonie"), ("hypertension", "hypotension")):
        assert not any(set(apart) <= group for group in found)


def test_every_term_is_in_one_cluster_and_the_order_of_the_list_does_not_matter() -> None:
    one, other = cluster(), cluster(TERMS[::-1])
    members = [member.term for found in one.clusters for member in found.members]
    assert sorted(members) == sorted(TERMS)
    assert json.dumps([c.to_dict()["members"][0] for c in one.clusters]) == json.dumps(
        [c.to_dict()["members"][0] for c in other.clusters]
    )
    assert groups(one) == groups(other)
    assert json.dumps(one.to_dict()) == json.dumps(cluster().to_dict())


def test_ties_do_not_go_by_the_order_of_the_list() -> None:
    names = sorted({one.text for one in read_table(demo_folder() / "terminology.tsv") if isinstance(one, Name)})[::3]
    shuffled = random.Random(3).sample(names, len(names))
    one, other = (TermClusterer(ENCODER).cluster(terms) for terms in (names, shuffled))
    assert one.to_dict() == other.to_dict()


def test_records() -> None:
    found = cluster(near=3)
    assert [c.number for c in found.clusters] == list(range(1, len(found.clusters) + 1))
    first = found.clusters[0]
    assert first.to_dict()["members"][0]["term"] == first.representative == "Fever"
    why = {member.term: (member.joined_to, member.joined_by, member.joined_score) for member in first.members}
    assert why["Fever"] == ("", "", None)
    assert why["fever"] == ("Fever", "same form", 1.0)
    assert why["Fieber"][1] == "embedding"
    for one in found.clusters:
        terms = {member.term for member in one.members}
        assert all(member.joined_to in terms for member in one.members[1:])
        assert one.members[0].similarity == 1.0
        assert all(neighbour.term not in terms for neighbour in one.neighbours)
        assert all(neighbour.cluster != one.number for neighbour in one.neighbours)
        assert len({neighbour.cluster for neighbour in one.neighbours}) == len(one.neighbours) <= 3
    left = next(c for c in found.clusters if c.representative == "left leg pain")
    assert (left.neighbours[0].term, left.neighbours[0].apart) == ("right leg pain", "laterality")
    assert not any(c.neighbours for c in cluster().clusters)
    assert found.clusters[-1] == found.clusters[len(found.clusters) - 1]
    assert found.clusters[:2] == [found.clusters[0], found.clusters[1]]
    with pytest.raises(IndexError):
        found.clusters[999]


def test_the_representative() -> None:
    """By frequency, then length, then text; an abbreviation only where it is alone."""
    rows = [("COPD", 99, "", "1"), ("chronic obstructive pulmonary disease", 1, "en", "2")]
    found = TermClusterer(ENCODER).cluster(Terms.of(rows))
    only = found.clusters[0]
    assert (only.representative, len(only.members)) == ("chronic obstructive pulmonary disease", 2)
    assert [(m.frequency, m.language, m.id) for m in only.members] == [(1, "en", "2"), (99, "", "1")]
    assert cluster(["Fieber", "fever"] * 2 + ["fever"]).clusters[0].representative == "fever"


def test_an_abbreviation_joins_by_its_initials() -> None:
    found = cluster(["WXYZ", "wobbly xeric yellow zone", "wrist"])
    assert groups(found) == {frozenset(["WXYZ", "wobbly xeric yellow zone"]), frozenset(["wrist"])}
    assert found.summary.abbreviations == 1
    member = found.clusters[0].members[1]
    assert (member.term, member.joined_to, member.joined_by) == ("WXYZ", "wobbly xeric yellow zone", "abbreviation")


def test_summary() -> None:
    summary = cluster().summary
    assert (summary.terms, summary.forms) == (20, 19)
    assert summary.clusters == len(cluster().clusters)
    assert summary.largest == 5
    assert summary.guarded > 0
    assert (summary.known, summary.new, summary.encoder) == (0, 0, ENCODER.fingerprint)


def test_options_change_the_output() -> None:
    copies = [f"{a}fever{b}" for a in ("", "high ", "low ", "mild ") for b in ("", " attack", " episode", " bout")]
    counts = [len(cluster(copies, threshold=at).clusters) for at in (0.99, 0.5, 0.22)]
    assert counts[0] > counts[1] > counts[2]
    assert len(cluster(copies).clusters) == counts[2]
    assert groups(cluster(copies, neighbours=1)) != groups(cluster(copies))
    steps: list[str] = []
    cluster(progress=lambda step, done, whole: steps.append(step) if done == whole else None)
    assert steps == ["embeddings", "neighbours"]


def test_small_and_odd_lists() -> None:
    assert len(cluster([]).clusters) == 0
    assert cluster([]).summary.largest == 0
    assert groups(cluster(["a"])) == {frozenset("a")}
    assert groups(cluster(["a", "b", "7", "-", "?", "ß"])) == {frozenset(x) for x in ("a", "b", "7", "-", "?", "ß")}
    long = "x " * 999
    assert len(cluster([long + "a", long + "b", "x"]).clusters) == 3
    assert cluster(["fever"] * 5).clusters[0].members[0].frequency == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.0}, "threshold is 0.0, above 0 and below 1 expected"),
        ({"threshold": 1.0}, "threshold is 1.0, above 0"),
        ({"known_at": 1.1}, "known_at is 1.1, at least 0 and at most 1 expected"),
        ({"neighbours": 0}, "neighbours is 0, at least 1 expected"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TermClusterer(ENCODER, **options)


def test_one_string_is_no_list() -> None:
    with pytest.raises(ConfigError, match="a list of terms is expected, not one string"):
        cluster("fever")


class Known:
    """A linker that knows fever, and asks back what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def link(self, mentions: Sequence[str]) -> list[Link]:
        self.asked += mentions
        fever = Candidate("C1", "Fever", 0.9, "fever", "en", "dense")
        return [Link(m, (fever,), "linked") if m.lower().startswith("f") else Link(m) for m in mentions]


def test_known_and_new() -> None:
    linker = Known()
    found = cluster(linker=linker, parents=lambda concept: [("P", "Parent")])
    first = found.clusters[0]
    assert (first.concept_id, first.concept_name, first.status) == ("C1", "Fever", "known")
    assert first.score == 0.675  # three of four forms
    assert "Fever" in linker.asked
    assert "fever" not in linker.asked  # the same form is asked once
    assert (found.summary.known, found.summary.known + found.summary.new) == (1, len(found.clusters))
    new = cluster(linker=linker, known_at=0.7, parents=lambda concept: [("P", "Parent")]).clusters[0]
    assert (new.status, new.concept_id, new.score, new.parent_id, new.parent_name) == (
        "new",
        None,
        0.675,
        "P",
        "Parent",
    )
    assert new.nearest[0].concept_id == "C1"
    assert new.doubtful


def test_with_a_bundle(demo: Bundle, linker: Linker) -> None:
    name = next(iter(demo.kb.iter_names()))
    found = medlink.TermClusterer(demo.encoder, linker=linker).cluster([name.text, "zzz unheard of qqq"])
    by_term = {c.representative: c for c in found.clusters}
    assert by_term[name.text].concept_id == name.concept_id
    assert by_term["zzz unheard of qqq"].status == "new"


@pytest.fixture
def two_sources(tmp_path: Path) -> Linker:
    """Two tables: a concept that both have, each with a name that the other lacks, and a true homonym."""
    head = "concept_id\tname\tlanguage\ttype\n"
    rows = {
        "a": ["1\tHypothyreose", "1\tSchilddrüsenunterfunktion", "2\tMultiple Sklerose", "2\tMS"],
        "b": ["1\tHypothyreose", "1\tHypothyreoidismus", "2\tMitralstenose", "2\tMS"],
    }
    for source, lines in rows.items():
        table = "".join(f"{source}:{line}\tde\t\n" for line in lines)
        (tmp_path / f"{source}.tsv").write_text(head + table, encoding="utf-8")
    medlink.build_kb(tmp_path / "kb.sqlite", [Input("table", tmp_path / f"{source}.tsv") for source in rows])
    return Linker(medlink.build_bundle(tmp_path / "bundle", kb=tmp_path / "kb.sqlite"))


def test_a_concept_of_two_sources_is_known_and_a_homonym_ambiguous(two_sources: Linker) -> None:
    terms = ["Hypothyreose", "Schilddrüsenunterfunktion", "Hypothyreoidismus", "MS", "MS", "unerhört"]
    found = cluster(terms, linker=two_sources, parents=lambda concept: [("P", "Parent")], near=5)
    by_term = {member.term: one for one in found.clusters for member in one.members}
    for term in terms[:3]:
        assert (by_term[term].status, by_term[term].concept_id, by_term[term].same_as) == ("known", "a:1", ("b:1",))
    # names of one concept, which only the sources have apart
    apart = {near.term: near.apart for term in terms[:3] for near in by_term[term].neighbours}
    assert "concept" not in {apart.get(term) for term in terms[:3]}
    ambiguous = by_term["MS"]
    assert (ambiguous.status, ambiguous.concept_id, ambiguous.parent_id) == ("ambiguous", None, None)
    assert [one.concept_id for one in ambiguous.candidates] == ["a:2", "b:2"]
    counts = found.summary
    assert (counts.ambiguous, counts.known + counts.ambiguous + counts.new) == (1, counts.clusters)
    assert "known, 1 ambiguous, 1 new" in found.text()
    assert "ambiguous" not in cluster(terms[:3], linker=two_sources).text()


def test_both_ids_and_the_candidates_are_written(two_sources: Linker) -> None:
    found = cluster(["Hypothyreose", "MS"], linker=two_sources)
    rows = list(csv.DictReader(found.lines(), delimiter="\t"))
    written = {row["term"]: (row["status"], row["concept_id"], row["same_as"], row["candidates"]) for row in rows}
    assert written == {"Hypothyreose": ("known", "a:1", "b:1", ""), "MS": ("ambiguous", "", "", "a:2|b:2")}
    objects = {one["representative"]: one for one in map(json.loads, found.lines("jsonl"))}
    assert objects["Hypothyreose"]["same_as"] == objects["Hypothyreose"]["nearest"][0]["same_as"] == ["b:1"]
    assert [(c["concept_id"], c["source"]) for c in objects["MS"]["candidates"]] == [("a:2", "a"), ("b:2", "b")]


def test_a_table_of_clusters_is_text_to_a_spreadsheet_and_reads_back(tmp_path: Path) -> None:
    terms = ['=HYPERLINK("http://x","y")', "+ Fieber", "-Blutung", "@here", '"quoted', "'n Husten", "fine"]
    found = cluster(terms)
    (tmp_path / "clusters.tsv").write_text("".join(found.lines()), encoding="utf-8")
    with (tmp_path / "clusters.tsv").open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file, dialect="excel-tab"))
    assert {from_cell(row["term"]) for row in read} == set(terms)
    assert not any(row["term"].startswith(("=", "+", "-", "@", '"')) for row in read)
    # numbers are numbers
    assert all(-1 <= float(row["similarity"]) <= 1 for row in read)
    assert set(read_terms(tmp_path / "clusters.tsv").texts) == set(terms)
    # a table of somebody else is taken as it is
    (tmp_path / "terms.tsv").write_text("term\n'-itis'\n", encoding="utf-8")
    assert list(read_terms(tmp_path / "terms.tsv").texts) == ["'-itis'"]


class Names:
    """A linker with a dictionary: a text is a name to the letter, and near to nothing else."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names, self.calls = names, 0

    def link(self, mentions: Sequence[str]) -> list[Link]:
        self.calls += len(mentions)
        known = [self.names.get(mention) for mention in mentions]
        return [
            Link(mention, (Candidate(concept, concept, 0.9, mention, "en", "exact"),), "linked")
            if concept
            else Link(mention)
            for mention, concept in zip(mentions, known, strict=True)
        ]


def test_names_of_two_concepts_stand_apart() -> None:
    same = Names(dict.fromkeys(TERMS[:5], "C1"))
    assert groups(cluster(linker=same)) == groups(cluster())
    assert same.calls == 19  # each form once
    linker = Names({"fever": "C1", "Fever": "C1", "Fieber": "C2"})
    found = cluster(linker=linker, near=3)
    for group in groups(found):
        assert not {"fever", "Fieber"} <= group
    by_term = {member.term: one for one in found.clusters for member in one.members}
    assert (by_term["fever"].concept_id, by_term["Fieber"].concept_id) == ("C1", "C2")
    two = cluster(["fever", "Fieber"], linker=linker, near=3)
    assert [[neighbour.apart for neighbour in one.neighbours] for one in two.clusters] == [["concept"], ["concept"]]
    assert two.summary.guarded == 1


def test_an_abbreviation_does_not_join_two_concepts() -> None:
    terms = ["WXYZ", "wobbly xeric yellow zone", "wrist"]
    linker = Names({"WXYZ": "C1", "wobbly xeric yellow zone": "C2"})
    assert len(cluster(terms, linker=linker).clusters) == 3
    assert len(cluster(terms, linker=Names({"WXYZ": "C1"})).clusters) == 2
