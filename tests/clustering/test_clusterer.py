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
from medlink.clustering import Cluster, Clustering, TermClusterer, Terms, read_terms
from medlink.clustering.clusters import COLUMNS
from medlink.errors import ConfigError
from medlink.files.escapes import from_cell
from medlink.index import Bundle
from medlink.kb import Input
from medlink.kb.readers.delimited import read_table
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


def cluster(terms: Sequence[str] = TERMS, **options: Any) -> Clustering:
    return TermClusterer(ENCODER, **options).cluster(terms)


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
    names = sorted({one.text for one in read_table(demo_folder() / "terminology.tsv") if isinstance(one, Name)})[::8]
    shuffled = random.Random(3).sample(names, len(names))
    one, other = (TermClusterer(ENCODER).cluster(terms) for terms in (names, shuffled))
    assert one.to_dict() == other.to_dict()


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


def test_neighbours_and_what_may_be_one() -> None:
    """At most five of each cluster, the likeliest first; those of 0.2 or more may be one."""
    names = sorted({one.text for one in read_table(demo_folder() / "terminology.tsv") if isinstance(one, Name)})[::6]
    found = cluster(names)
    number = {member.term: one.number for one in found.clusters for member in one.members}
    maybe: set[frozenset[int]] = set()
    for one in found.clusters:
        probabilities = [near.probability for near in one.neighbours]
        assert probabilities == sorted(probabilities, reverse=True)
        assert all(0.05 <= probability < 1 for probability in probabilities)
        for near in one.neighbours:
            assert (number[near.member], number[near.term]) == (one.number, near.cluster)
            assert near.maybe == (near.probability >= 0.2 and not near.apart)
            if near.maybe:
                maybe.add(frozenset((one.number, near.cluster)))
    assert max(len(one.neighbours) for one in found.clusters) == 5
    # those beyond the fifth are counted all the same
    assert 0 < len(maybe) <= found.summary.maybe
    assert found.summary.narrower == sum(one.broader is not None for one in found.clusters) > 0


def representative(*rows: tuple[str, int, str], prefer: str = "") -> str:
    """The representative of the only cluster of terms with their frequencies and languages."""
    terms = Terms.of((*row, "") for row in rows)
    (only,) = TermClusterer(ENCODER, prefer_language=prefer).cluster(terms).clusters
    assert len(only.members) == len(rows)
    return only.representative


def test_the_representative() -> None:
    """By frequency, then length, then text; an abbreviation only where it is alone."""
    rows = [("COPD", 99, "", "1"), ("chronic obstructive pulmonary disease", 1, "en", "2")]
    found = TermClusterer(ENCODER).cluster(Terms.of(rows))
    only = found.clusters[0]
    assert (only.representative, len(only.members)) == ("chronic obstructive pulmonary disease", 2)
    assert [(m.frequency, m.language, m.id) for m in only.members] == [(1, "en", "2"), (99, "", "1")]
    assert cluster(["Fieber", "fever"] * 2 + ["fever"]).clusters[0].representative == "fever"
    assert cluster(["COPD", "wrist"]).clusters[0].representative == "COPD"


def test_the_representative_is_in_the_language_of_the_list() -> None:
    """That of most terms by frequency, or the one that is preferred, where the cluster has a term in it."""
    rows = ("fever", 3, "en"), ("Fieber", 2, "de-CH"), ("fiebre", 2, "es")
    assert representative(*rows) == "fever"
    assert representative(*rows, prefer="de") == "Fieber"
    assert representative(*rows, prefer="es-MX") == "fiebre"
    assert representative(*rows, prefer="fr") == "fever"
    assert representative(("fever", 3, "en"), ("Fieber", 2, "de"), ("Fieber", 2, "de-CH")) == "Fieber"
    # a term without a language may be of any
    assert representative(("fever", 3, "en"), ("Fieber", 2, "de"), ("fiebre", 4, "")) == "fiebre"
    with pytest.raises(ConfigError, match="prefer_language is 'klingon', no BCP 47 tag"):
        TermClusterer(ENCODER, prefer_language="klingon")


def test_the_representative_is_the_most_frequent_form_with_its_accents() -> None:
    assert representative(("nausea", 9, "es"), ("náusea", 1, "es")) == "náusea"
    assert representative(("Fieber", 4, ""), ("fever", 3, ""), ("FEVER", 2, "")) == "fever"


def test_an_abbreviation_joins_by_its_initials() -> None:
    long = "autosomal dominant polycystic kidney disease"
    found = cluster(["ADPKD", long, "wrist"])
    assert groups(found) == {frozenset(["ADPKD", long]), frozenset(["wrist"])}
    member = found.clusters[0].members[1]
    assert (member.term, member.joined_to, member.joined_by) == ("ADPKD", long, "abbreviation")


def test_a_term_that_gives_both_forms_joins_an_abbreviation() -> None:
    alone = cluster(["KHK", "koronare Herzkrankheit (KHK)"]).clusters[0]
    assert (alone.members[1].term, alone.members[1].joined_by) == ("KHK", "abbreviation")
    assert len(cluster(["LE", "Lungenembolie (LE)", "Lupus erythematodes (LE)"]).clusters) == 3


def test_a_term_that_gives_both_forms_joins_words_that_the_encoder_does_not_know() -> None:
    terms = ["WXYZ", "wobbly xeric yellow zone", "wobbly xeric yellow zone (WXYZ)"]
    assert groups(cluster([*terms, "wrist"])) == {frozenset(terms), frozenset(["wrist"])}


def test_summary() -> None:
    found = cluster()
    summary = found.summary
    assert (summary.terms, summary.forms) == (20, 19)
    assert summary.clusters == len(found.clusters)
    assert summary.largest == 5
    assert (summary.known, summary.new, summary.encoder) == (0, 0, ENCODER.fingerprint)
    arms = cluster(["arm pain", "left arm pain", "wrist"])
    assert (arms.summary.single, arms.summary.guarded, arms.summary.maybe) == (3, 1, 0)
    assert "3 terms, 3 clusters (3 of one term, the largest of 1); 0 narrower" in arms.text()
    assert arms.text().endswith("1 near pair kept apart by guards")
    assert cluster(["asthma", "allergic asthma"]).summary.maybe == 1
    assert "1 pair of clusters may be one" in cluster(["asthma", "allergic asthma"]).text()


def test_options_change_the_output() -> None:
    copies = [f"{a}fever{b}" for a in ("", "high ", "low ", "mild ") for b in ("", " attack", " episode", " bout")]
    counts = [len(cluster(copies, threshold=at).clusters) for at in (0.99, 0.5, 0.22)]
    assert counts[0] > counts[1] > counts[2]
    assert len(cluster(copies).clusters) == counts[1]
    assert groups(cluster(copies, neighbours=1)) != groups(cluster(copies))
    steps: list[str] = []
    cluster(progress=lambda step, done, whole: steps.append(step) if done == whole else None)
    assert steps == ["forms", "embeddings", "neighbours", "pairs"]


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


class Knows:
    """A linker with a dictionary: concepts, scores and routes by text, for several concepts an ambiguous link."""

    def __init__(self, **known: str) -> None:
        """``known``: "C1 0.9" or "C1 0.9 exact" for a text, several joined by |, with _ for its spaces."""
        self.known = {text.replace("_", " "): told for text, told in known.items()}
        self.asked: list[str] = []

    def link(self, mentions: Sequence[str]) -> list[Link]:
        self.asked += mentions
        return [self._link(mention) for mention in mentions]

    def _link(self, mention: str) -> Link:
        found = []
        for told in filter(None, self.known.get(mention, "").split("|")):
            concept, score, route = (*told.split(), "dense")[:3]
            found.append(Candidate(concept, f"Name of {concept}", float(score), mention, "en", route))
        return Link(mention, tuple(found), ("nil", "linked", "ambiguous")[min(len(found), 2)])


def by_term(found: Clustering) -> dict[str, Cluster]:
    return {member.term: one for one in found.clusters for member in one.members}


def test_terms_of_one_known_concept_are_one_cluster_and_others_new() -> None:
    linker = Knows(Fever="C1 0.9", Fieber="C1 0.6", wrist="C1 0.5", fiebre="C2 0.8", left_leg_pain="C3 0.49")
    found = cluster([*TERMS, "wrist"], linker=linker, parents=lambda concept: [("P", "Parent")])
    known = by_term(found)["Fever"]
    assert (known.status, known.concept_id, known.concept_name, known.score) == ("known", "C1", "Name of C1", 0.9)
    members = {member.term: member for member in known.members}
    assert members.keys() == {"Fever", "fever", "Fieber", "wrist"}
    # each member has its own score, and a spelling that of its form
    assert {term: one.score for term, one in members.items()} == {
        "Fever": 0.9, "fever": 0.9, "Fieber": 0.6, "wrist": 0.5
    }  # fmt: skip
    assert members["Fieber"].joined_by == "embedding"
    assert (members["wrist"].joined_to, members["wrist"].joined_by, members["wrist"].joined_score) == (
        "Fever",
        "same concept",
        None,
    )
    assert by_term(found)["fiebre"].concept_id == "C2"
    # nothing known is carried over to a synonym
    assert (by_term(found)["pyrexia"].status, by_term(found)["pyrexia"].members[0].score) == ("new", None)
    new = by_term(found)["left leg pain"]
    assert (new.status, new.score, new.parent_id, new.parent_name) == ("new", 0.49, "P", "Parent")
    assert (new.nearest[0].concept_id, new.doubtful) == ("C3", True)
    assert (found.summary.known, found.summary.known + found.summary.new) == (2, len(found.clusters))
    assert sorted(linker.asked) == sorted({*TERMS, "wrist"} - {"fever"})  # each form once


def test_a_term_that_is_less_sure_goes_along_with_its_group() -> None:
    terms = ["fever", "Fieber", "fiebre", "pyrexia", "wrist"]
    linker = Knows(fever="C1 0.9", Fieber="C1 0.4", fiebre="C1 0.29", wrist="C1 0.4")
    assert groups(cluster(terms, linker=linker)) == {
        frozenset(["fever", "Fieber"]),
        frozenset(["fiebre", "pyrexia"]),
        frozenset(["wrist"]),
    }
    assert by_term(cluster(terms, linker=linker))["fiebre"].status == "new"
    # without a surer one the group is new, and stays whole
    strict = cluster(terms, linker=linker, known_at=0.95)
    assert groups(strict) == {frozenset(terms[:4]), frozenset(["wrist"])}
    assert strict.summary.known == 0


def test_a_cluster_whose_representative_is_a_name_of_several_concepts_is_ambiguous() -> None:
    linker = Knows(fever="C1 0.9 exact|C2 0.9 exact", wrist="C3 0.9")
    found = cluster(["fever", "Fieber", "fever", "wrist"], linker=linker)
    only = by_term(found)["fever"]
    assert {member.term for member in only.members} == {"fever", "Fieber"}
    assert (only.status, [one.concept_id for one in only.candidates]) == ("ambiguous", ["C1", "C2"])
    assert (found.summary.known, found.summary.ambiguous, found.summary.new) == (1, 1, 0)
    # another member says nothing of it
    assert by_term(cluster(["fever", "Fieber", "Fieber"], linker=linker))["fever"].status == "new"


def test_two_concepts_of_one_group_stand_apart() -> None:
    found = cluster(["fever", "Fieber"], linker=Knows(fever="C1 0.9 exact", Fieber="C2 0.9 exact"))
    one, other = found.clusters
    assert {one.concept_id, other.concept_id} == {"C1", "C2"}
    assert (one.neighbours[0].term, one.neighbours[0].apart) == (other.representative, "concept")
    assert (found.summary.maybe, found.summary.guarded) == (0, 0)
    assert len(cluster(["fever", "Fieber"], linker=Knows(fever="C1 0.9 exact")).clusters) == 2


def test_what_a_guard_denies_is_not_the_concept() -> None:
    named = Candidate("C1", "Fever", 0.8, "fever", "en", "dense")

    class Near:
        def link(self, mentions: Sequence[str]) -> list[Link]:
            return [Link(mention, (named,), "linked") for mention in mentions]

    found = cluster(["no fever", "fever"], linker=Near())
    assert [by_term(found)[term].status for term in ("no fever", "fever")] == ["new", "known"]


def test_with_a_bundle(demo: Bundle, linker: Linker) -> None:
    name = next(iter(demo.kb.iter_names()))
    found = medlink.TermClusterer(demo.encoder, linker=linker).cluster([name.text, "zzz unheard of qqq"])
    assert by_term(found)[name.text].concept_id == name.concept_id
    assert by_term(found)["zzz unheard of qqq"].status == "new"


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


def test_columns_that_hold_nothing_are_left_out() -> None:
    """Those of languages, ids, concepts and what may be one; the others are always there."""
    always = [
        "cluster", "term", "representative", "frequency", "similarity", "joined_to", "joined_by", "joined_score",
    ]  # fmt: skip

    def columns(found: Clustering) -> list[str]:
        return next(iter(found.lines())).rstrip("\n").split("\t")

    assert columns(cluster(["fever", "wrist"])) == columns(cluster([])) == always
    tagged = TermClusterer(ENCODER).cluster(Terms.of([("fever", 1, "en", ""), ("wrist", 1, "", "7")]))
    assert set(columns(tagged)) - set(always) == {"language", "id"}
    maybe = cluster(["asthma", "allergic asthma"])
    assert set(columns(maybe)) - set(always) == {"maybe"}
    linked = cluster(["fever", "wrist"], linker=Knows(fever="C1 0.9 exact"))
    assert set(columns(linked)) - set(always) == {"status", "concept_id", "concept_name", "score"}
    # in one order, whichever are there
    for found in (tagged, maybe, linked):
        assert columns(found) == [column for column in COLUMNS if column in columns(found)]
        assert {len(line.split("\t")) for line in found.lines()} == {len(columns(found))}


def test_what_may_be_one_is_written_beside_its_term() -> None:
    found = cluster(["asthma", "allergic asthma", "left leg pain", "right leg pain"])
    rows = list(csv.DictReader(found.lines(), delimiter="\t"))
    near = by_term(found)["asthma"].neighbours[0]
    written = {row["term"]: row["maybe"] for row in rows}
    assert written["asthma"] == f"{near.cluster}: allergic asthma ({near.probability:.2f})"
    assert written["left leg pain"] == written["right leg pain"] == ""  # a guard is sure


def test_groups_to_read() -> None:
    plain = cluster(["fever", "fever", "Fieber", "asthma", "allergic asthma"])
    near = by_term(plain)["asthma"].neighbours[0].probability
    assert "".join(plain.lines("groups")) == (
        "1  fever (2)\n"
        "    Fieber\n"
        "2  asthma\n"
        f"    maybe: 3  allergic asthma ({near:.2f} with asthma)\n"
        "3  allergic asthma\n"
        f"    maybe: 2  asthma ({near:.2f} with allergic asthma)\n"
        f"{plain.text()}\n"
    )
    linker = Knows(fever="C1 0.9", wrist="C2 0.9 exact|C3 0.9 exact", qqzz="C4 0.4")
    found = cluster(["fever", "wrist", "qqzz"], linker=linker, parents=lambda concept: [("P", "Parent")])
    heads = {line.split("  ")[1]: line.rstrip("\n").split("  ", 2)[2] for line in list(found.lines("groups"))[:-1]}
    assert heads == {"fever": "C1 Name of C1 0.90", "wrist": "one of C2, C3", "qqzz": "new, below P Parent"}


@pytest.mark.parametrize(
    "terms",
    [
        ("Vorhofflimmern", "Vorhofflattern"),
        ("Migräne", "Kopfschmerz"),
        ("Anämie", "Eisenmangelanämie"),
        ("Nierenversagen", "chronische Niereninsuffizienz"),
        ("Übelkeit", "Erbrechen"),
        ("erección", "impotencia"),
        ("amenaza de parto", "accidente laboral"),
        ("Luft", "Atemnot"),
        ("Medikamente", "Pharmakokinetik"),
        ("aplastische Anämie", "perniziöse Anämie"),
        ("fumador", "ex fumador", "fumador de marihuana"),
        ("HPC", "HPCL"),
        ("PAP", "APAP"),
        ("PAP", "paracetamol"),
        ("CM", "VCM"),
        ("clonidine", "guanethidine", "quinidine"),
        ("methylprednisolone", "prednisolone"),
        ("hepatitis crónicas", "virus A de la hepatitis"),
        ("infecciones respiratorias altas", "infecciones respiratorias bajas"),
        ("Magensäure", "Magenschleimhaut", "Erkrankung des Magens"),
    ],
    ids=" - ".join,
)
def test_different_things_are_not_one_cluster(terms: tuple[str, ...]) -> None:
    found = cluster(terms)
    assert sorted(one.representative for one in found.clusters) == sorted(terms)


@pytest.mark.parametrize(
    "terms",
    [
        ("fever", "Fieber", "fiebre", "pyrexia"),
        ("Herzinfarkt", "myocardial infarction", "infarto de miocardio"),
        ("COPD", "chronic obstructive pulmonary disease"),
        ("Hypertonie", "hypertension"),
        ("type 2 diabetes mellitus", "Diabetes mellitus Typ II", "diabetes mellitus tipo 2"),
        ("náusea", "nausea", "Náuseas"),
        ("KHK", "koronare Herzkrankheit (KHK)", "koronare Herzkrankheit"),
    ],
    ids=" - ".join,
)
def test_synonyms_are_one_cluster(terms: tuple[str, ...]) -> None:
    (only,) = cluster([*terms, "wrist"]).clusters[:-1]
    assert {member.term for member in only.members} == set(terms)


@pytest.mark.parametrize(
    "terms", [("Anämie", "Eisenmangelanämie"), ("Nierenversagen", "chronische Niereninsuffizienz")]
)
def test_what_is_near_asks_a_reader(terms: tuple[str, str]) -> None:
    """What may be one concept, or is narrower, is shown with the other."""
    one, other = cluster(terms).clusters
    assert [[near.term for near in each.neighbours if near.maybe] for each in (one, other)] == [
        [other.representative],
        [one.representative],
    ]
