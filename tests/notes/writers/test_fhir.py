"""FHIR resources follow from semantic types in any words; what others have is no value of the patient."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medlink import Note, link_notes
from medlink.index import build_bundle
from medlink.kb import Input, build_kb
from tests.kb.writers import write_lines
from tests.reading.bundles import bundle_of

TEXT = {
    "de": "Der Vater hat Fibrose. Warfarin wurde abgesetzt. Ehefrau nimmt Sertralin. Bruder ohne Fibrose.",
    "en": "Her father has fibrosis. Warfarin was stopped. His wife takes sertraline. Her brother has no fibrosis.",
    "es": "Su padre tiene fibrosis. Se suspendió la warfarina. Su esposa toma sertralina. Hermano sin fibrosis.",
}
NAMES = {
    "de": ("Fibrose", "Warfarin", "Sertralin"),
    "en": ("fibrosis", "warfarin", "sertraline"),
    "es": ("fibrosis", "warfarina", "sertralina"),
}


def written(bundle: Path, text: str, language: str) -> list[dict[str, Any]]:
    link_notes(bundle, [Note("1", text, language)], out=(out := bundle.parent / "o.fhir.ndjson"))
    return [entry["resource"] for entry in json.loads(out.read_text("utf-8"))["entry"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "disorder", "drug"),
    [
        ("de", "Erbkrankheiten", "Wirkstoff"), ("de", "Enfermedad", "Medicamento"), ("en", "Disease", "Drug"),
        ("es", "Enfermedad genética", "Fármaco"), ("es", "Trastorno", "Medicamentos"), ("de", "", ""),
        ("en", "Zebra", "Zebra"),
    ],
)  # fmt: skip
def test_what_is_not_the_patients(tmp_path: Path, language: str, disorder: str, drug: str) -> None:
    types = (disorder, drug, drug)
    rows = (f"X:{i}\t{name}\t{language}\t{types[i]}" for i, name in enumerate(NAMES[language]))
    folder = bundle_of(tmp_path, *rows, columns="concept_id\tname\tlanguage\tsemantic_type")
    of_father, stopped, of_wife, of_brother = written(folder, TEXT[language], language)
    is_typed = disorder not in ("", "Zebra")
    assert of_father["resourceType"] == "FamilyMemberHistory"
    assert stopped["resourceType"] == ("MedicationStatement" if is_typed else "Observation")
    assert not is_typed or stopped["status"] == "stopped"
    # a wife is no relative, and her husband is not denied what his brother lacks
    assert {of_wife["resourceType"], of_brother["resourceType"]} == {"Observation"}
    assert "valueBoolean" not in of_wife | of_brother


@pytest.mark.slow
def test_a_code_of_atc_is_a_drug(tmp_path: Path) -> None:
    lines = ["ATC-Code\t\tATC-Bedeutung\t\tDDD-Info", "B\t\tBLUT\t\t", "B01AA03\t\tWarfarin\t\t"]
    build_kb(tmp_path / "kb.sqlite", [Input("atc", write_lines(tmp_path / "ATC_2026.csv", lines))])
    build_bundle(tmp_path / "bundle", kb=tmp_path / "kb.sqlite")
    (stopped,) = written(tmp_path / "bundle", "Warfarin wurde abgesetzt.", "de")
    assert (stopped["resourceType"], stopped["status"]) == ("MedicationStatement", "stopped")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("semantic_type", "code"),
    [("Disease", "resolved"), ("Finding", "resolved"), ("", "resolved"), ("Procedure", ""), ("Medikament", "")],
)
def test_what_is_gone_is_a_resolved_condition(tmp_path: Path, semantic_type: str, code: str) -> None:
    row = f"X:1\tPleuraerguss\tde\t{semantic_type}"
    folder = bundle_of(tmp_path, row, columns="concept_id\tname\tlanguage\tsemantic_type")
    (resource,) = written(folder, "Der Pleuraerguss ist vollständig verschwunden.", "de")
    if not code:
        assert resource["resourceType"] != "Condition"
        return
    assert (resource["resourceType"], resource["clinicalStatus"]["coding"][0]["code"]) == ("Condition", code)
    assert resource["verificationStatus"]["coding"][0]["code"] == "confirmed"
