"""Wider concepts: residual classes, and the nearest certain parent, in all outputs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from medlink.index import Bundle
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.mapping import Mapper, SourceCode, map_codes
from medlink.mapping.broader import class_above, nearest_parent
from medlink.records import Candidate
from tests.tables import bundle_of_table, cases


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8"))))


@pytest.mark.parametrize(("language", "description", "above"), cases(__file__, "classes_above.tsv"))
def test_the_class_above(language: str, description: str, above: str) -> None:
    assert class_above(description, language) == above


def test_a_residual_class_maps_to_the_concept_above(demo: Bundle) -> None:
    names = ["Pneumonia, unspecified", "Pneumonie o.n.A.", "Otras neumonías", "Pneumonia"]
    found = Mapper(demo).propose([SourceCode(str(at), name) for at, name in enumerate(names)])
    assert {one.targets[0].concept_id for one in found} == {"DEMO:0039"}
    assert [one.equivalence for one in found] == ["WIDER", "WIDER", "WIDER", "UNREVIEWED"]
    assert [one.evidence.endswith("; broader") for one in found] == [True, True, True, False]


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle of narrow concepts, and of a body part, an effect and an operation."""
    return bundle_of_table(tmp_path_factory.mktemp("narrow"), __file__, "narrow.tsv")


def test_a_residual_class_does_not_map_to_a_narrower_concept(narrow: Bundle) -> None:
    classes = {
        "de": ["Sonstige Anämien", "Bronchitis o.n.A.", "Sonstige Hernien"],
        "en": ["Other anemias", "Bronchitis, unspecified", "Other infarctions"],
        "es": ["Otras anemias", "Bronquitis, no especificada", "Otras diabetes mellitus"],
    }
    same = {
        "de": ["Sonstige Eisenmangelanämien", "Sonstige Nierenkrankheiten"],
        "en": ["Iron deficiency anemia, unspecified", "Other disorders of kidney"],
        "es": ["Otras anemias ferropénicas", "Otras bronquitis crónicas"],
    }
    for expected, names in ((("nil", "UNREVIEWED"), classes), (("linked", "WIDER"), same)):
        codes = [SourceCode(text, text, language=tag) for tag, texts in names.items() for text in texts]
        found = Mapper(narrow).propose(codes)
        assert {one.source.code: (one.link, one.equivalence) for one in found} == {
            code.code: expected for code in codes
        }


@pytest.mark.parametrize("broader", [False, True])
@pytest.mark.parametrize(
    ("language", "descriptions"),
    [
        ("de", ["Tracheostomie", "Lumbalpunktion", "Partielle Nephrektomie", "Hiatushernie", "Spina bifida"]),
        ("en", ["Tracheostomy", "Lumbar puncture", "Partial nephrectomy", "Hiatal hernia", "Spina bifida"]),
        ("es", ["Traqueostomía", "Punción lumbar", "Nefrectomía parcial", "Hernia de hiato", "Espina bífida"]),
    ],
)
def test_a_concept_of_another_kind_is_not_proposed(
    narrow: Bundle, language: str, descriptions: list[str], broader: bool
) -> None:
    codes = [SourceCode(text, text, language=language) for text in descriptions]
    assert {one.source.code: one.link for one in Mapper(narrow, broader=broader).propose(codes)} == dict.fromkeys(
        descriptions, "nil"
    )


@pytest.mark.parametrize(
    ("name", "parent", "evidence"),
    [
        # the first candidate is above the others
        ("Hepatitis X", "DEMO:0069", "broader: viral hepatitis, above hepatitis vírica"),
        ("fracture of a rib and hip", "DEMO:0165", "broader: fracture, above fractured rib"),
        ("Gartenzaun", "", "dense"),
        ("MS", "", "exact"),  # no parent in common
    ],
)
def test_the_nearest_certain_parent(demo: Bundle, name: str, parent: str, evidence: str) -> None:
    plain, wide = (Mapper(demo, broader=broader).propose([SourceCode("1", name)])[0] for broader in (False, True))
    assert (plain.targets, plain.equivalence) == ((), "UNREVIEWED")
    assert [target.concept_id for target in wide.targets] == [parent] * bool(parent)
    assert wide.equivalence == ("WIDER" if parent else "UNREVIEWED")
    assert wide.evidence.startswith(evidence)
    if parent:
        scores = [candidate.score for candidate in wide.candidates]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] >= 0.5 > plain.score
    else:
        assert wide.candidates == plain.candidates
    # filters hold for parents, too
    none = Mapper(demo, broader=True, not_under=[parent or "DEMO:0165"]).propose([SourceCode("1", name)])
    assert parent not in [target.concept_id for target in none[0].targets] or not parent


def test_broader_in_all_outputs(demo: Bundle, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("code,name\nK1,Asthma NOS\nK2,fracture of a rib and hip\nK3,MS\n", "utf-8")
    for name, shape in (
        ("o.csv", None),
        ("o.jsonl", None),
        ("o.sssom.tsv", None),
        ("omop.csv", "source-to-concept-map"),
    ):
        report = map_codes(
            demo, tmp_path / "list.csv", out=tmp_path / name, shape=shape, language="en", broader=True, unreviewed=True
        )  # fmt: skip
        assert "2 proposed, 2 broader; 1 ambiguous, 0 without a proposal" in list(report.lines())
    usagi = rows(tmp_path / "o.csv")
    assert [(row["equivalence"], row["mappingStatus"]) for row in usagi] == [
        ("WIDER", "UNCHECKED"),
        ("WIDER", "UNCHECKED"),
        ("UNREVIEWED", "UNCHECKED"),
    ]
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text("utf-8").splitlines()]
    assert [line["equivalence"] for line in lines] == ["WIDER", "WIDER", "UNREVIEWED"]
    assert [line["candidates"][0]["route"] for line in lines] == ["words", "broader", "exact"]
    text = [line.split("\t") for line in (tmp_path / "o.sssom.tsv").read_text("utf-8").splitlines() if line[0] != "#"]
    predicate, justified = (text[0].index(name) for name in ("predicate_id", "mapping_justification"))
    assert [(row[predicate], row[justified]) for row in text[1:]] == [
        ("skos:broadMatch", "semapv:LexicalSimilarityThresholdMatching"),
        ("skos:broadMatch", "semapv:BackgroundKnowledgeBasedMatching"),
    ]
    # OMOP's table has no column for the relation
    table = rows(tmp_path / "omop.csv")
    assert [row["target_concept_id"] for row in table] == [row["conceptId"] for row in usagi[:2]]
    # Usagi's file keeps what a person approves
    approved = (tmp_path / "o.csv").read_text("utf-8").replace("UNCHECKED", "APPROVED")
    (tmp_path / "approved.csv").write_text(approved, "utf-8")
    map_codes(demo, tmp_path / "approved.csv", out=tmp_path / "again.csv", language="en")
    again = rows(tmp_path / "again.csv")
    assert [(row["equivalence"], row["mappingStatus"]) for row in again[:2]] == [("WIDER", "APPROVED")] * 2


def test_a_parent_without_parents_is_certain_as_a_candidate(tmp_path: Path) -> None:
    lines = ["H:1\thip replacement\ten\t", "H:2\tleft hip replacement\ten\tH:1", "H:3\tright hip replacement\ten\tH:1"]
    table = tmp_path / "hips.tsv"
    table.write_text("\n".join(["concept_id\tname\tlanguage\tparent", *lines]) + "\n", "utf-8")
    build_kb(tmp_path / "kb.sqlite", [Input("table", table)])
    kb = KnowledgeBase(tmp_path / "kb.sqlite")
    below = [
        Candidate(concept, concept, score, concept, "en", "words") for concept, score in (("H:2", 0.4), ("H:3", 0.3))
    ]
    assert nearest_parent(kb, below, 0.5, None) is None
    named = Candidate("H:1", "H:1", 0.2, "H:1", "en", "words")
    assert nearest_parent(kb, [*below, named], 0.5, None) == ("H:1", pytest.approx(0.9))
