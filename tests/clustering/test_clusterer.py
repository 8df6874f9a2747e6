"""``TermClusterer``: from lists to clusters, and how they are written."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import medlink
from medlink.clustering import Cluster, Clustering, TermClusterer, Terms, read_terms
from medlink.clustering.clusters import COLUMNS
from medlink.errors import ConfigError
from medlink.files.escapes import unescape_cell
from medlink.kb import Input
from medlink.kb.readers.delimited import read_table
from medlink.linking import Linker
from medlink.linking.demo import demo_folder
from medlink.models import load_encoder
from medlink.records import Candidate, Link, Name
from tests.tables import cases

ENCODER = load_encoder()
TERMS = (
    "fever", "Fieber", "fiebre", "pyrexia", "Fever", "myocardial infarction", "Herzinfarkt", "infarto de miocardio",
    "left leg pain", "right leg pain", "type 1 diabetes mellitus", "type 2 diabetes mellitus",
    "Diabetes mellitus Typ II", "diabetes mellitus tipo 2", "Hypertonie", "Hypotonie", "hypertension", "hypotension",
    "chronic obstructive pulmonary disease", "COPD",
)  # fmt: skip


def groups(found: Clustering) -> set[frozenset[str]]:
    return {frozenset(member.term for member in cluster.members) for cluster in found.clusters}


def cluster(terms: Sequence[str] = TERMS, **options: Any) -> Clustering:
    return TermClusterer(ENCODER, **options).cluster(terms)


@pytest.mark.slow
def test_the_order_of_the_list_does_not_matter() -> None:
    names = sorted({one.text for one in read_table(demo_folder() / "terminology.tsv") if isinstance(one, Name)})[::16]
    for terms in (TERMS, names):
        one, other = cluster(terms), cluster(random.Random(3).sample(terms, len(terms)))
        assert sorted(member.term for found in one.clusters for member in found.members) == sorted(terms)
        assert one.to_dict() == other.to_dict()
    assert one.summary.narrower == sum(found.broader is not None for found in one.clusters) > 0


def test_two_processes_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TERMS, "Niere", "Nieren", "kidney stones", "kidney stone", "riñón", "riñones"]
    one = list(cluster(texts).lines())
    for module in ("terms", "clusterer", "graph", "graph_clusters", "clusters"):
        monkeypatch.setattr(f"medlink.clustering.{module}.MIN_FORKED", 1)
    monkeypatch.setattr("medlink.processes._processors", lambda: 2)
    assert list(cluster(texts).lines()) == one


def test_records() -> None:
    found = cluster()
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
        assert len({neighbour.cluster for neighbour in one.neighbours}) == len(one.neighbours) <= 5
        assert all(neighbour.member in terms for neighbour in one.neighbours)
    left = next(c for c in found.clusters if c.representative == "left leg pain")
    near = left.neighbours[0]
    assert (near.term, near.member, near.apart, near.maybe) == ("right leg pain", "left leg pain", "laterality", False)
    assert near.probability > 0.2
    assert found.clusters[-1] == found.clusters[len(found.clusters) - 1]
    assert found.clusters[:2] == [found.clusters[0], found.clusters[1]]
    with pytest.raises(IndexError):
        found.clusters[999]


def representative(*rows: tuple[str, int, str], prefer: str = "") -> str:
    """The representative of the only cluster of terms with their frequencies and languages."""
    terms = Terms.from_rows((*row, "") for row in rows)
    (only,) = TermClusterer(ENCODER, prefer_language=prefer).cluster(terms).clusters
    assert len(only.members) == len(rows)
    return only.representative


@pytest.mark.slow
def test_the_representative() -> None:
    """The most frequent term in the main or preferred language, then the shortest; an abbreviation only if alone."""
    terms = Terms.from_rows([("COPD", 99, "", "1"), ("chronic obstructive pulmonary disease", 1, "en", "2")])
    only = TermClusterer(ENCODER).cluster(terms).clusters[0]
    assert (only.representative, len(only.members)) == ("chronic obstructive pulmonary disease", 2)
    assert [(m.frequency, m.language, m.id) for m in only.members] == [(1, "en", "2"), (99, "", "1")]
    assert cluster(["Fieber", "fever"] * 2 + ["fever"]).clusters[0].representative == "fever"
    assert cluster(["COPD", "wrist"]).clusters[0].representative == "COPD"
    rows = ("fever", 3, "en"), ("Fieber", 2, "de-CH"), ("fiebre", 2, "es")
    for language, expected in (("", "fever"), ("de", "Fieber"), ("es-MX", "fiebre"), ("fr", "fever")):
        assert representative(*rows, prefer=language) == expected
    assert representative(("fever", 3, "en"), ("Fieber", 2, "de"), ("Fieber", 2, "de-CH")) == "Fieber"
    # a term without a language may be of any
    assert representative(("fever", 3, "en"), ("Fieber", 2, "de"), ("fiebre", 4, "")) == "fiebre"
    # the form with accents
    assert representative(("nausea", 9, "es"), ("náusea", 1, "es")) == "náusea"
    assert representative(("Fieber", 4, ""), ("fever", 3, ""), ("FEVER", 2, "")) == "fever"
    with pytest.raises(ConfigError, match="prefer_language is 'klingon', no BCP 47 tag"):
        TermClusterer(ENCODER, prefer_language="klingon")


@pytest.mark.slow
def test_abbreviations() -> None:
    long = "autosomal dominant polycystic kidney disease"
    found = cluster(["ADPKD", long, "wrist"])
    assert groups(found) == {frozenset(["ADPKD", long]), frozenset(["wrist"])}
    member = found.clusters[0].members[1]
    assert (member.term, member.joined_to, member.joined_by) == ("ADPKD", long, "abbreviation")
    # a term with both forms joins them, even if the encoder does not know the words
    only = cluster(["KHK", "koronare Herzkrankheit (KHK)"]).clusters[0]
    assert (only.members[1].term, only.members[1].joined_by) == ("KHK", "abbreviation")
    assert len(cluster(["LE", "Lungenembolie (LE)", "Lupus erythematodes (LE)"]).clusters) == 3
    terms = ["WXYZ", "wobbly xeric yellow zone", "wobbly xeric yellow zone (WXYZ)"]
    assert groups(cluster([*terms, "wrist"])) == {frozenset(terms), frozenset(["wrist"])}


@pytest.mark.slow
def test_summary() -> None:
    found = cluster()
    summary = found.summary
    assert (summary.terms, summary.forms, summary.clusters, summary.largest) == (20, 19, len(found.clusters), 5)
    assert (summary.known, summary.new, summary.encoder) == (0, 0, ENCODER.fingerprint)
    arms = cluster(["arm pain", "left arm pain", "wrist"])
    assert (arms.summary.single, arms.summary.guarded, arms.summary.maybe) == (3, 1, 0)
    assert "3 terms, 3 clusters (3 of one term, the largest of 1); 1 narrower" in arms.text()
    assert arms.text().endswith("1 near pair kept apart by guards")
    assert cluster(["asthma", "allergic asthma"]).summary.maybe == 1
    assert "1 pair of clusters may be one" in cluster(["asthma", "allergic asthma"]).text()


@pytest.mark.slow
def test_options_change_the_output() -> None:
    copies = [f"{a}fever{b}" for a in ("", "high ", "low ", "mild ") for b in ("", " attack", " episode", " bout")]
    counts = [len(cluster(copies, threshold=at).clusters) for at in (0.99, 0.8, 0.1)]
    assert counts[0] > counts[1] > counts[2]
    steps: list[str] = []
    cluster(progress=lambda step, done, whole: steps.append(step) if done == whole else None)
    assert steps == ["forms", "embeddings", "neighbours", "pairs"]


@pytest.mark.slow
def test_small_and_odd_lists() -> None:
    assert len(cluster([]).clusters) == 0
    assert cluster([]).summary.largest == 0
    assert groups(cluster(["a"])) == {frozenset("a")}
    assert groups(cluster(["a", "b", "7", "-", "?", "ß"])) == {frozenset(x) for x in ("a", "b", "7", "-", "?", "ß")}
    long = "x " * 999
    assert len(cluster([long + "a", long + "b", "x"]).clusters) == 3
    assert cluster(["fever"] * 5).clusters[0].members[0].frequency == 5


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"threshold": 1.0}, {"known_at": 1.1}, {"neighbours": 0}])
def test_invalid_options(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=rf"{name} is {options[name]}, .* expected"):
        TermClusterer(ENCODER, **options)


def test_one_string_is_not_a_list() -> None:
    with pytest.raises(ConfigError, match="a list of terms is expected, not one string"):
        cluster("fever")


class DictionaryLinker:
    """A linker with a dictionary of concepts, scores and routes; several concepts make an ambiguous link."""

    def __init__(self, **known: str) -> None:
        """``known``: "C1 0.9" or "C1 0.9 exact" by text, with _ for spaces; several are separated by |."""
        self.known = {text.replace("_", " "): concepts for text, concepts in known.items()}
        self.linked: list[str] = []

    def link(self, mentions: Sequence[str]) -> list[Link]:
        self.linked += mentions
        return [self._link(mention) for mention in mentions]

    def _link(self, mention: str) -> Link:
        found = []
        for one in filter(None, self.known.get(mention, "").split("|")):
            concept, score, route = (*one.split(), "dense")[:3]
            found.append(Candidate(concept, f"Name of {concept}", float(score), mention, "en", route))
        return Link(mention, tuple(found), ("nil", "linked", "ambiguous")[min(len(found), 2)])


def by_term(found: Clustering) -> dict[str, Cluster]:
    return {member.term: one for one in found.clusters for member in one.members}


def test_known_and_new_clusters() -> None:
    linker = DictionaryLinker(Fever="C1 0.9", Fieber="C1 0.6", wrist="C1 0.5", fiebre="C2 0.8", left_leg_pain="C3 0.49")
    found = cluster([*TERMS, "wrist"], linker=linker, parents=lambda concept: [("P", "Parent")])
    known = by_term(found)["Fever"]
    assert (known.status, known.concept_id, known.concept_name, known.score) == ("known", "C1", "Name of C1", 0.9)
    members = {member.term: member for member in known.members}
    assert members.keys() == {"Fever", "fever", "Fieber", "wrist"}
    # each member has its own score, a spelling that of its form
    assert {term: one.score for term, one in members.items()} == {
        "Fever": 0.9, "fever": 0.9, "Fieber": 0.6, "wrist": 0.5
    }  # fmt: skip
    assert members["Fieber"].joined_by == "embedding"
    wrist = members["wrist"]
    assert (wrist.joined_to, wrist.joined_by, wrist.joined_score) == ("Fever", "same concept", None)
    assert by_term(found)["fiebre"].concept_id == "C2"
    # a synonym does not inherit the concept
    assert (by_term(found)["pyrexia"].status, by_term(found)["pyrexia"].members[0].score) == ("new", None)
    new = by_term(found)["left leg pain"]
    assert (new.status, new.score, new.parent_id, new.parent_name) == ("new", 0.49, "P", "Parent")
    assert (new.nearest[0].concept_id, new.doubtful) == ("C3", True)
    assert (found.summary.known, found.summary.known + found.summary.new) == (2, len(found.clusters))
    assert sorted(linker.linked) == sorted({*TERMS, "wrist"} - {"fever"})  # each form once


def test_a_less_sure_term_follows_its_group() -> None:
    terms = ["fever", "Fieber", "fiebre", "pyrexia", "wrist"]
    linker = DictionaryLinker(fever="C1 0.9", Fieber="C1 0.4", fiebre="C1 0.29", wrist="C1 0.4")
    found = cluster(terms, linker=linker)
    assert groups(found) == {frozenset(one) for one in (["fever", "Fieber"], ["fiebre", "pyrexia"], ["wrist"])}
    assert by_term(found)["fiebre"].status == "new"
    # without a surer term the whole group is new
    strict = cluster(terms, linker=linker, known_at=0.95)
    assert groups(strict) == {frozenset(terms[:4]), frozenset(["wrist"])}
    assert strict.summary.known == 0


def test_an_ambiguous_representative() -> None:
    linker = DictionaryLinker(fever="C1 0.9 exact|C2 0.9 exact", wrist="C3 0.9")
    found = cluster(["fever", "Fieber", "fever", "wrist"], linker=linker)
    only = by_term(found)["fever"]
    assert {member.term for member in only.members} == {"fever", "Fieber"}
    assert (only.status, [one.concept_id for one in only.candidates]) == ("ambiguous", ["C1", "C2"])
    assert (found.summary.known, found.summary.ambiguous, found.summary.new) == (1, 1, 0)
    # other members do not matter
    assert by_term(cluster(["fever", "Fieber", "Fieber"], linker=linker))["fever"].status == "new"


@pytest.mark.slow
def test_an_abbreviation_follows_its_long_form() -> None:
    terms = ["AKI", "acute kidney injury", "AKI"]
    for own in ("", "C2 0.9", "C1 0.2"):
        (only,) = cluster(terms, linker=DictionaryLinker(acute_kidney_injury="C1 0.9", AKI=own)).clusters
        assert (only.concept_id, only.representative) == ("C1", "acute kidney injury")
        assert [member.joined_by for member in only.members] == ["", "abbreviation"]
    named = cluster(terms, linker=DictionaryLinker(acute_kidney_injury="C1 0.9", AKI="C2 0.9 exact"))
    assert [one.concept_id for one in named.clusters] == ["C2", "C1"]


def test_the_representative_of_a_known_cluster() -> None:
    """A frequent term that scores clearly less does not represent it."""
    linker = DictionaryLinker(wrist="C1 0.6", fever="C1 0.9", Fieber="C1 0.9")
    found = cluster(["wrist", "wrist", "fever", "Fieber"], linker=linker).clusters[0]
    assert [(m.term, m.joined_by) for m in found.members[1:]] == [("Fieber", "embedding"), ("wrist", "same concept")]


def test_two_concepts_split_a_group() -> None:
    found = cluster(["fever", "Fieber"], linker=DictionaryLinker(fever="C1 0.9 exact", Fieber="C2 0.9 exact"))
    one, other = found.clusters
    assert {one.concept_id, other.concept_id} == {"C1", "C2"}
    assert (one.neighbours[0].term, one.neighbours[0].apart) == (other.representative, "concept")
    assert (found.summary.maybe, found.summary.guarded) == (0, 0)
    assert len(cluster(["fever", "Fieber"], linker=DictionaryLinker(fever="C1 0.9 exact")).clusters) == 2


@pytest.fixture(scope="module")
def two_sources(tmp_path_factory: pytest.TempPathFactory) -> Linker:
    """Two tables with a common concept, whose other names differ, and a homonym."""
    folder, head = tmp_path_factory.mktemp("sources"), "concept_id\tname\tlanguage\ttype\n"
    rows = {
        "a": ["1\tHypothyreose", "1\tSchilddrüsenunterfunktion", "2\tMultiple Sklerose", "2\tMS"],
        "b": ["1\tHypothyreose", "1\tHypothyreoidismus", "2\tMitralstenose", "2\tMS"],
    }
    for source, lines in rows.items():
        table = "".join(f"{source}:{line}\tde\t\n" for line in lines)
        (folder / f"{source}.tsv").write_text(head + table, encoding="utf-8")
    medlink.build_kb(folder / "kb.sqlite", [Input("table", folder / f"{source}.tsv") for source in rows])
    return Linker(medlink.build_bundle(folder / "bundle", kb=folder / "kb.sqlite"))


@pytest.mark.slow
def test_two_sources(two_sources: Linker) -> None:
    terms = ["Hypothyreose", "Schilddrüsenunterfunktion", "Hypothyreoidismus", "MS", "MS", "unerhört"]
    found = cluster(terms, linker=two_sources, parents=lambda concept: [("P", "Parent")])
    known = by_term(found)["Hypothyreose"]
    assert (known.status, known.concept_id, known.same_as) == ("known", "a:1", ("b:1",))
    assert {member.term for member in known.members} == set(terms[:3])
    ambiguous = by_term(found)["MS"]
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


@pytest.mark.slow
def test_formulas_are_text(tmp_path: Path) -> None:
    terms = ['=HYPERLINK("http://x","y")', "+ Fieber", "-Blutung", "@here", '"quoted', "'n Husten", "fine"]
    found = cluster(terms)
    (tmp_path / "clusters.tsv").write_text("".join(found.lines()), encoding="utf-8")
    with (tmp_path / "clusters.tsv").open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file, dialect="excel-tab"))
    assert {unescape_cell(row["term"]) for row in read} == set(terms)
    assert not any(row["term"].startswith(("=", "+", "-", "@", '"')) for row in read)
    assert all(-1 <= float(row["similarity"]) <= 1 for row in read)
    assert set(read_terms(tmp_path / "clusters.tsv").texts) == set(terms)
    # other tables are not unescaped
    (tmp_path / "terms.tsv").write_text("term\n'-itis'\n", encoding="utf-8")
    assert list(read_terms(tmp_path / "terms.tsv").texts) == ["'-itis'"]


@pytest.mark.slow
def test_empty_columns_are_left_out() -> None:
    always = [
        "cluster", "term", "representative", "frequency", "similarity", "joined_to", "joined_by", "joined_score",
    ]  # fmt: skip

    def columns(found: Clustering) -> list[str]:
        return next(iter(found.lines())).rstrip("\n").split("\t")

    assert columns(cluster(["fever", "wrist"])) == columns(cluster([])) == always
    tagged = TermClusterer(ENCODER).cluster(Terms.from_rows([("fever", 1, "en", ""), ("wrist", 1, "", "7")]))
    assert set(columns(tagged)) - set(always) == {"language", "id"}
    maybe = cluster(["stroke", "cerebral infarction"])
    assert set(columns(maybe)) - set(always) == {"maybe"}
    narrower = cluster(["Anämie", "Eisenmangelanämie"])
    assert set(columns(narrower)) - set(always) == {"broader"}
    linked = cluster(["fever", "wrist"], linker=DictionaryLinker(fever="C1 0.9 exact"))
    assert set(columns(linked)) - set(always) == {"status", "concept_id", "concept_name", "score"}
    # always in the same order
    for found in (tagged, maybe, narrower, linked):
        assert columns(found) == [column for column in COLUMNS if column in columns(found)]
        assert {len(line.split("\t")) for line in found.lines()} == {len(columns(found))}


def test_the_column_maybe() -> None:
    found = cluster(["asthma", "allergic asthma", "left leg pain", "right leg pain"])
    rows = list(csv.DictReader(found.lines(), delimiter="\t"))
    near = by_term(found)["asthma"].neighbours[0]
    written = {row["term"]: row["maybe"] for row in rows}
    assert written["asthma"] == f"{near.cluster}: allergic asthma ({near.probability:.2f})"
    assert written["left leg pain"] == written["right leg pain"] == ""  # separated by a guard


@pytest.mark.slow
def test_groups_to_read() -> None:
    plain = cluster(["fever", "fever", "Fieber", "asthma", "allergic asthma"])
    near = by_term(plain)["asthma"].neighbours[0].probability
    assert "".join(plain.lines("groups")) == (
        "1  fever (2)\n"
        "    Fieber\n"
        "2  asthma\n"
        f"    maybe: 3  allergic asthma ({near:.2f} with asthma)\n"
        "3  allergic asthma\n"
        "    broader: 2  asthma\n"
        f"    maybe: 2  asthma ({near:.2f} with allergic asthma)\n"
        f"{plain.text()}\n"
    )
    linker = DictionaryLinker(fever="C1 0.9", wrist="C2 0.9 exact|C3 0.9 exact", qqzz="C4 0.4")
    found = cluster(["fever", "wrist", "qqzz"], linker=linker, parents=lambda concept: [("P", "Parent")])
    heads = {line.split("  ")[1]: line.rstrip("\n").split("  ", 2)[2] for line in list(found.lines("groups"))[:-1]}
    assert heads == {"fever": "C1 Name of C1 0.90", "wrist": "one of C2, C3", "qqzz": "new, below P Parent"}


@pytest.mark.slow
@pytest.mark.parametrize("terms", cases(__file__, "different.tsv"), ids=" - ".join)
def test_different_concepts(terms: tuple[str, ...]) -> None:
    found = cluster(terms)
    assert sorted(one.representative for one in found.clusters) == sorted(terms)


@pytest.mark.slow
@pytest.mark.parametrize("terms", cases(__file__, "synonyms.tsv"), ids=" - ".join)
def test_synonyms(terms: tuple[str, ...]) -> None:
    (only,) = cluster([*terms, "wrist"]).clusters[:-1]
    assert {member.term for member in only.members} == set(terms)


@pytest.mark.slow
@pytest.mark.parametrize(
    "terms", [("stroke", "cerebral infarction"), ("Nierenversagen", "chronische Niereninsuffizienz")]
)
def test_similar_clusters_may_be_one(terms: tuple[str, str]) -> None:
    one, other = cluster(terms).clusters
    names = [[near.term for near in each.neighbours if near.maybe] for each in (one, other)]
    assert names == [[other.representative], [one.representative]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("narrow", "broad"),
    [
        ("Eisenmangelanämie", "Anämie"), ("rheumatoide Arthritis", "Arthritis"), ("allergic asthma", "asthma"),
        ("left arm pain", "arm pain"), ("type 2 diabetes mellitus", "diabetes mellitus"),
    ],
)  # fmt: skip
def test_narrower_terms(narrow: str, broad: str) -> None:
    found = by_term(cluster([narrow, broad, "wrist"]))
    assert found[narrow].broader is not None
    assert found[narrow].broader.term == broad
    assert found[broad].broader is None
