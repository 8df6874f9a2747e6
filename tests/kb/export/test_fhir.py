"""FHIR CodeSystem as it is written."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.export.fhir import write_fhir
from tests.kb.readers import test_claml
from tests.kb.writers import conso, write_lines


def written(path: Path) -> tuple[Any, int]:
    file = io.StringIO()
    with KnowledgeBase(path) as kb:
        count = write_fhir(kb, file)
    return json.loads(file.getvalue()), count


def content(path: Path) -> dict[str, set[Any]]:
    """What is to survive, of all concepts."""
    with KnowledgeBase(path) as kb:
        return {
            "concepts": {one.concept_id for one in kb.iter_concepts()},
            # a name that is preferred has no other type in FHIR
            "names": {
                (n.concept_id, n.text, n.language, "preferred" if n.preferred else n.type) for n in kb.iter_names()
            },
            "parents": {(r.head, r.tail) for r in kb.iter_relations(types=["isa"])},
            "types": {(t.concept_id, t.semantic_type) for t in kb.iter_semantic_types()},
        }


def test_a_terminology(house_kb: Path) -> None:
    data, count = written(house_kb)
    assert count == data["count"] == 6
    head = {key: value for key, value in data.items() if key not in ("concept", "property")}
    assert head == {
        "resourceType": "CodeSystem",
        "url": "urn:medlink:house",
        "name": "House",
        "title": "house",
        "status": "active",
        "caseSensitive": True,
        "hierarchyMeaning": "is-a",
        "content": "fragment",
        "count": 6,
        "language": "en",
    }
    concepts = {one["code"]: one for one in data["concept"]}
    preferred = {"system": "http://terminology.hl7.org/CodeSystem/hl7TermMaintInfra", "code": "preferredForLanguage"}
    assert concepts["H:1"] == {
        "code": "H:1",
        "display": "disease",
        "definition": "A state that harms.",
        "designation": [{"language": "de", "use": preferred, "value": "Krankheit"}],
        "property": [{"code": "semanticType", "valueString": "Disease"}],
    }
    assert {"code": "parent", "valueCode": "H:1"} in concepts["H:5"]["property"]
    assert "display" not in concepts["H:6"]
    assert concepts["H:6"]["designation"] == [{"language": "und", "use": preferred, "value": "alfa"}]


def test_round_trip(house_kb: Path, tmp_path: Path) -> None:
    data, _ = written(house_kb)
    (tmp_path / "x.json").write_text(json.dumps(data))
    build_kb(tmp_path / "kb", [Input("fhir", tmp_path / "x.json")])
    assert content(tmp_path / "kb") == content(house_kb)


def test_several_sources_with_known_addresses(tmp_path: Path) -> None:
    """Codes are bare, and the ids are the same when they are read again; types of names are kept."""
    claml = test_claml.write(tmp_path / "icd.xml")
    table = write_lines(tmp_path / "ward list.csv", ["id,name,type,parent", "W:1,a,lay,ICD10GM:E10", "W:2,b,broad,W:1"])
    build_kb(tmp_path / "kb", [Input("claml", claml), Input("table", table)])
    data, count = written(tmp_path / "kb")
    icd, ward = (entry["resource"] for entry in data["entry"])
    assert (data["resourceType"], data["type"], count) == ("Bundle", "collection", icd["count"] + ward["count"])
    assert (icd["url"], icd["name"], icd["version"]) == (
        "http://fhir.de/CodeSystem/bfarm/icd-10-gm",
        "ICD_10_GM",
        "2024",
    )
    assert ward["url"] == "urn:medlink:ward%20list"
    assert {one["code"] for one in icd["concept"]} >= {"IV", "E10-E14", "E10.75"}
    (tmp_path / "x.json").write_text(json.dumps(data))
    build_kb(tmp_path / "again", [Input("fhir", tmp_path / "x.json")])
    before, after = content(tmp_path / "kb"), content(tmp_path / "again")
    # the parent in another code system has no place
    assert before.pop("parents") - after.pop("parents") == {("W:1", "ICD10GM:E10")}
    assert after == before
    with KnowledgeBase(tmp_path / "again") as kb:
        assert [source.name for source in kb.sources()] == ["ICD-10-GM", "ward list"]
        assert {name.type for name in kb.names("ICD10GM:E11")} == {"preferred", "narrow"}


def test_names_of_other_sources_than_the_concept(tmp_path: Path) -> None:
    """In the UMLS no name is of the source of its concept; the language is that of the names all the same."""
    lines = [conso("C1", "cough", SAB="MSH"), conso("C1", "Husten", SAB="MSHGER", LAT="GER")]
    write_lines(tmp_path / "MRCONSO.RRF", [*lines, conso("C2", "fever", SAB="MSH")])
    build_kb(tmp_path / "kb", [Input("rrf", tmp_path)])
    data, _ = written(tmp_path / "kb")
    assert data["language"] == "en"
    assert {one["code"]: one["display"] for one in data["concept"]} == {"C1": "cough", "C2": "fever"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "concept_id"), [("loinc", "2345-7"), ("hp", "W:1"), ("ops", "OPS:1")])
def test_a_table_that_is_called_like_a_known_system(name: str, concept_id: str, tmp_path: Path) -> None:
    table = write_lines(tmp_path / f"{name}.csv", ["id,name,parent", f"{concept_id},a,", f"X,b,{concept_id}"])
    build_kb(tmp_path / "kb", [Input("table", table)])
    data, _ = written(tmp_path / "kb")
    (tmp_path / "x.json").write_text(json.dumps(data))
    build_kb(tmp_path / "again", [Input("fhir", tmp_path / "x.json")])
    assert content(tmp_path / "again") == content(tmp_path / "kb")


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True])
def test_another_library_takes_it(several: bool, house_kb: Path, tmp_path: Path) -> None:
    """It is valid to fhir.resources, whose CodeSystem of R4B is that of R4."""
    code_systems = pytest.importorskip("fhir.resources.R4B.codesystem")
    bundles = pytest.importorskip("fhir.resources.R4B.bundle")
    if several:
        table = write_lines(tmp_path / "a.csv", ["id,name", "A:1,a"])
        other = write_lines(tmp_path / "b.csv", ["id,name", "B:1,b"])
        build_kb(tmp_path / "kb", [Input("table", table), Input("table", other)])
        bundle = bundles.Bundle.model_validate(written(tmp_path / "kb")[0])
        assert [entry.resource.concept[0].display for entry in bundle.entry] == ["a", "b"]
    else:
        system = code_systems.CodeSystem.model_validate(written(house_kb)[0])
        assert {one.code: one.display for one in system.concept}["H:2"] == "seizure"
        assert [one.code for one in system.property] == ["parent", "semanticType"]
