"""Laterality, severity and course: attributes, their findings and their concepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import spacy

from medlink.notes.link import link_notes
from medlink.notes.reading import Note
from tests.reading.bundles import bundle_of, mentions

pytestmark = pytest.mark.slow

FINDINGS = {
    "en": ["Edema", "Erythema", "Fever", "Headache", "Knee pain", "Pleural effusion", "Crackles", "Weakness", "Cough"],
    "de": ["Ödem", "Rötung", "Fieber", "Kopfschmerzen", "Knieschmerzen", "Pleuraerguss", "Rasselgeräusch", "Schwäche",
           "Husten"],
    "es": ["Edema", "Eritema", "Fiebre", "Cefalea", "Gonalgia", "Derrame pleural", "Crepitantes", "Debilidad", "Tos"],
}  # fmt: skip
# concept, name, parent, semantic type
MODIFIERS = [
    ("HP:0012831", "Laterality", "", ""), ("HP:0012824", "Severity", "", ""), ("HP:0031797", "Clinical course", "", ""),
    ("M:1", "Left", "HP:0012831", ""), ("M:2", "Right", "HP:0012831", ""), ("M:3", "Bilateral", "HP:0012831", ""),
    ("M:4", "Mild", "HP:0012824", ""), ("M:5", "Severe", "HP:0012824", ""), ("M:6", "Chronic", "HP:0031797", ""),
    ("M:7", "Recurrent", "HP:0031797", ""), ("M:8", "Distal", "", "qualifier value"),
]  # fmt: skip


def build(folder: Path, *, modifiers: bool) -> Path:
    rows = [
        f"F:{number}\t{name}\t{language}\t\tFinding"
        for language, names in FINDINGS.items()
        for number, name in enumerate(names)
    ]
    rows += [f"{id_}\t{name}\ten\t{parent}\t{kind}" for id_, name, parent, kind in MODIFIERS if modifiers]
    return bundle_of(folder, *rows, columns="concept_id\tname\tlanguage\tparent\tsemantic_type")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("attributes"), modifiers=True)


@pytest.fixture(scope="module")
def without_modifiers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("plain"), modifiers=False)


def found(bundle: Path, text: str, language: str, **options: object) -> dict[str, list[str] | None]:
    """The attributes of each mention, by their texts."""
    return {
        text[m.start : m.end]: None if m.attributes is None else [text[a.start : a.end] for a in m.attributes]
        for m in mentions(bundle, text, language, **options)
    }


def test_attributes_belong_to_a_finding(bundle: Path) -> None:
    for line in (Path(__file__).parent / "attributes.tsv").read_text("utf-8").splitlines()[1:]:
        language, text, wanted = line.split("\t")
        pairs = (pair.partition(":") for pair in wanted.split(";"))
        expected = {mention.strip(): words.strip().split(", ") if words else [] for mention, _, words in pairs}
        assert found(bundle, text, language) == expected, text


def described(bundle: Path, text: str, language: str) -> list[tuple[str, str, str | None, str | None]]:
    read = mentions(bundle, text, language)
    return [(a.text, a.kind, a.concept_id, a.name) for m in read for a in m.attributes or ()]


def test_kind_and_concept(bundle: Path, without_modifiers: Path) -> None:
    text = "Chronic distal severe left headache."
    assert described(bundle, text, "en") == [
        ("Chronic", "course", "M:6", "Chronic"),
        ("distal", "other", "M:8", "Distal"),
        ("severe", "severity", "M:5", "Severe"),
        ("left", "laterality", "M:1", "Left"),
    ]
    # without concepts the lexicon knows three of the words
    assert described(without_modifiers, text, "en") == [
        ("Chronic", "course", None, None),
        ("severe", "severity", None, None),
        ("left", "laterality", None, None),
    ]
    # the concept is found by word family, as it has no German name
    assert described(bundle, "Kopfschmerzen links.", "de") == [("links", "laterality", "M:1", "Left")]


def test_an_attribute_inside_a_mention(tmp_path: Path) -> None:
    rows = "X:1\tChronic cough", "X:2\tProlong", "X:3\tChronic", "X:4\tProlonged"
    bundle = bundle_of(tmp_path, *rows, columns="concept_id\tname")
    assert found(bundle, "Severe chronic cough.", "en") == {"chronic cough": ["Severe", "chronic"]}


def test_attributes_are_mentions_if_their_type_is_selected(bundle: Path) -> None:
    text = "Distal edema."
    assert found(bundle, text, "en") == {"edema": ["Distal"]}
    assert found(bundle, text, "en", semantic_types=["qualifier value"]) == {"Distal": []}
    assert found(bundle, text, "en", semantic_types=["Finding"]) == {"edema": []}


def test_verbatim_has_no_attributes(bundle: Path) -> None:
    assert found(bundle, "Mild fever.", "en", verbatim=True) == {"Mild": None, "fever": None}


def test_json_lines(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link_notes(bundle, [Note("n", "Mild fever.", "en")])
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["attributes"] == [
        {"start": 0, "end": 4, "text": "Mild", "kind": "severity", "concept_id": "M:4", "name": "Mild"}
    ]
    link_notes(bundle, [Note("n", "Fever.", "en")], verbatim=True)
    assert json.loads(capsys.readouterr().out)["attributes"] is None


def test_in_spacy(bundle: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("medlink_mentions", config={"bundle": str(bundle)})
    nlp.add_pipe("biolord_linker", config={"bundle": str(bundle)})
    texts = ["Mild fever and cough.", "Left-sided weakness."]
    for doc in nlp.pipe(texts, n_process=2):
        texts = {span.text: [a["text"] for a in span._.medlink["attributes"]] for span in doc.ents}
        assert texts in ({"fever": ["Mild"], "cough": []}, {"weakness": ["Left-sided"]})
    alone = spacy.blank("en")
    alone.add_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": "fever"}])
    alone.add_pipe("biolord_linker", config={"bundle": str(bundle)})
    (span,) = alone("Mild fever.").ents
    assert [a["text"] for a in span._.medlink["attributes"]] == ["Mild"]
