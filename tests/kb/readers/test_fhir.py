"""FHIR CodeSystem, ValueSet and ConceptMap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.kb.readers.fhir import read_fhir
from medlink.records import Concept, Definition, Mapping, Name, Record, Relation, SemanticType, Source

FSN_USE = {"system": "http://snomed.info/sct", "code": "900000000000003001"}
CODE_SYSTEM: dict[str, Any] = {
    "resourceType": "CodeSystem",
    "url": "http://example.org/fhir/CodeSystem/ward",
    "name": "Ward",
    "title": "Codes of the ward",
    "version": "2",
    "language": "de",
    "status": "active",
    "content": "complete",
    "hierarchyMeaning": "is-a",
    "concept": [
        {
            "code": "1",
            "display": "Krankheit",
            "definition": "Ein Zustand.",
            "designation": [
                {"language": "en", "value": "Disease"},
                {"language": "en", "use": FSN_USE, "value": "Disease (disorder)"},
                {"language": "de", "value": "Krankheit"},
                {"language": "es", "use": {"code": "display"}, "value": "enfermedad"},
            ],
            "concept": [
                {"code": "2", "display": "Fieber", "property": [{"code": "semanticType", "valueString": "Symptom"}]},
                {
                    "code": "3",
                    "display": "alt",
                    "property": [{"code": "inactive", "valueBoolean": True}],
                    "concept": [{"code": "4", "display": "Husten"}],
                },
            ],
        },
        {"code": "5", "display": "Reizhusten", "property": [{"code": "parent", "valueCode": "4"}]},
        {"code": "6", "display": "Symptom", "property": [{"code": "child", "valueCode": "2"}]},
        {"code": "7", "display": "x", "property": [{"code": "status", "valueCode": "retired"}]},
    ],
}
VALUE_SET: dict[str, Any] = {
    "resourceType": "ValueSet",
    "status": "active",
    "language": "de",
    "compose": {
        "include": [
            {
                "system": "http://fhir.de/CodeSystem/bfarm/icd-10-gm",
                "version": "2024",
                "concept": [{"code": "A00.9", "display": "Cholera"}, {"code": "A01.0", "display": "Typhus"}],
            },
            {"system": "http://loinc.org", "filter": [{"property": "CLASS", "op": "=", "value": "CHEM"}]},
        ],
        "exclude": [{"system": "http://fhir.de/CodeSystem/bfarm/icd-10-gm", "concept": [{"code": "A01.0"}]}],
    },
}
CONCEPT_MAP: dict[str, Any] = {
    "resourceType": "ConceptMap",
    "name": "WardMap",
    "status": "active",
    "group": [
        {
            "source": "http://snomed.info/sct",
            "target": "http://fhir.de/CodeSystem/bfarm/icd-10-gm",
            "element": [
                {
                    "code": "22298006",
                    "target": [
                        {"code": "I21.9", "equivalence": "wider"},
                        {"code": "I21", "equivalence": "equivalent"},
                        {"code": "I22", "equivalence": "narrower"},
                        {"code": "I23", "equivalence": "relatedto"},
                        {"code": "I24", "relationship": "source-is-narrower-than-target"},
                        {"equivalence": "unmatched"},
                    ],
                },
                {"code": "2"},
            ],
        }
    ],
}


def write(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data), "utf-8")
    return path


def read(path: Path, data: Any, **options: Any) -> tuple[list[Record], Problems]:
    problems = Problems(1)
    return list(read_fhir(write(path, data), problems=problems, **options)), problems


def test_code_system(tmp_path: Path) -> None:
    records, problems = read(tmp_path / "x.json", CODE_SYSTEM)
    assert records[:8] == [
        Source("Ward", "2", "Codes of the ward"),
        Concept("Ward:1", "Ward"),
        Name("Ward:1", "Krankheit", "de", "preferred", "Ward", True),
        Name("Ward:1", "Disease", "en", "synonym", "Ward"),
        Name("Ward:1", "Disease (disorder)", "en", "fsn", "Ward"),
        Name("Ward:1", "enfermedad", "es", "preferred", "Ward", True),
        Definition("Ward:1", "Ein Zustand.", "de", "Ward"),
        Mapping("Ward:1", "Ward", "1", "code", "Ward"),
    ]
    assert {(one.head, one.type, one.tail) for one in records if isinstance(one, Relation)} == {
        ("Ward:2", "isa", "Ward:1"),
        ("Ward:4", "isa", "Ward:1"),
        ("Ward:5", "isa", "Ward:4"),
        ("Ward:2", "isa", "Ward:6"),
    }
    assert SemanticType("Ward:2", "Symptom", "", "Ward") in records
    assert (problems.rows, problems.bad, problems.skipped) == (7, {}, {"inactive concept": 2})


@pytest.mark.parametrize(("meaning", "kind"), [("part-of", "part_of"), ("grouped-by", "grouped_by"), (None, "isa")])
def test_meaning_of_a_hierarchy(meaning: str | None, kind: str, tmp_path: Path) -> None:
    records, _ = read(tmp_path / "x.json", {**CODE_SYSTEM, "hierarchyMeaning": meaning})
    assert {one.type for one in records if isinstance(one, Relation)} == {kind}


def test_value_set(tmp_path: Path) -> None:
    records, problems = read(tmp_path / "x.json", VALUE_SET)
    gm = "ICD-10-GM"
    assert records == [
        Source(gm, "2024", gm),
        Concept("ICD10GM:A00.9", gm),
        Name("ICD10GM:A00.9", "Cholera", "de", "preferred", gm, True),
        Mapping("ICD10GM:A00.9", gm, "A00.9", "code", gm),
    ]
    assert problems.skipped == {"concept that the value set excludes": 1}
    assert len(problems.notes) == 1
    assert "from http://loinc.org are not listed in it; expand it first" in problems.notes[0]


def test_expansion(tmp_path: Path) -> None:
    contains = [
        {"contains": [{"system": "http://snomed.info/sct", "code": "22298006", "display": "Heart attack"}]},
        {"system": "http://snomed.info/sct", "code": "1", "display": "Gone", "inactive": True},
        {"system": "http://snomed.info/sct", "code": "22298006", "display": "again"},
    ]
    records, problems = read(tmp_path / "x.json", {**VALUE_SET, "expansion": {"contains": contains}})
    assert [one.concept_id for one in records if isinstance(one, Concept)] == ["22298006"]
    assert problems.skipped == {"inactive concept": 1, "concept repeated, kept once": 1}


def test_exclusions_that_are_not_listed(tmp_path: Path) -> None:
    """What a filter excludes stays, and that is said."""
    without = [{"system": "http://fhir.de/CodeSystem/bfarm/icd-10-gm", "filter": [{"property": "x"}]}]
    data = {**VALUE_SET, "compose": {"include": VALUE_SET["compose"]["include"][:1], "exclude": without}}
    records, problems = read(tmp_path / "x.json", data)
    assert len([one for one in records if isinstance(one, Concept)]) == 2
    (note,) = problems.notes
    assert "that it excludes from http://fhir.de/CodeSystem/bfarm/icd-10-gm are not listed in it; expand it" in note


@pytest.mark.parametrize(("total", "notes"), [(3, 1), (1, 0), ("3", 0)])
def test_a_page_of_an_expansion(total: object, notes: int, tmp_path: Path) -> None:
    contains = [{"system": "http://loinc.org", "code": "1-8", "display": "x"}]
    expansion = {"total": total, "contains": contains}
    _, problems = read(tmp_path / "x.json", {**VALUE_SET, "expansion": expansion})
    assert [note.partition(": ")[2] for note in problems.notes] == [
        "the expansion has 1 of 3 concepts; fetch it without pages"
    ] * notes


def test_a_supplement(tmp_path: Path) -> None:
    """Its names are of the concepts of the system that it supplements."""
    data = {
        "resourceType": "CodeSystem",
        "url": "http://example.org/loinc-de",
        "name": "LoincDe",
        "version": "1",
        "language": "de",
        "content": "supplement",
        "supplements": "http://loinc.org|2.77",
        "concept": [{"code": "2345-7", "designation": [{"value": "Glukose"}]}],
    }
    assert read(tmp_path / "x.json", data)[0] == [
        Source("LOINC", "2.77", "LOINC"),
        Concept("LOINC:2345-7", "LOINC"),
        Name("LOINC:2345-7", "Glukose", "de", "synonym", "LOINC"),
        Mapping("LOINC:2345-7", "LOINC", "2345-7", "code", "LOINC"),
    ]


@pytest.mark.parametrize("first", [True, False])
def test_a_system_has_one_name_in_a_bundle(first: bool, tmp_path: Path) -> None:
    """Its name is that of its CodeSystem, wherever in the file that is."""
    url = CODE_SYSTEM["url"]
    named = {**CODE_SYSTEM, "name": "OurCodes"}
    chosen = {"resourceType": "ValueSet", "compose": {"include": [{"system": f"{url}|2", "concept": [{"code": "2"}]}]}}
    element = {"code": "2", "target": [{"code": "R05", "equivalence": "wider"}]}
    mapped = {
        "resourceType": "ConceptMap",
        "group": [{"source": url, "target": "http://hl7.org/fhir/sid/icd-10", "element": [element]}],
    }
    held = [named, chosen, mapped] if first else [chosen, mapped, named]
    records, _ = read(tmp_path / "x.json", {"resourceType": "Bundle", "entry": [{"resource": one} for one in held]})
    assert {one.concept_id.partition(":")[0] for one in records if isinstance(one, (Concept, Mapping))} == {"OurCodes"}


def test_concept_map(tmp_path: Path) -> None:
    records, problems = read(tmp_path / "x.json", CONCEPT_MAP)
    assert records == [
        Source("WardMap", "", "WardMap"),
        Mapping("22298006", "ICD-10-GM", "I21.9", "broad", "WardMap"),
        Mapping("22298006", "ICD-10-GM", "I21", "exact", "WardMap"),
        Mapping("22298006", "ICD-10-GM", "I22", "narrow", "WardMap"),
        Mapping("22298006", "ICD-10-GM", "I23", "related", "WardMap"),
        Mapping("22298006", "ICD-10-GM", "I24", "broad", "WardMap"),
    ]
    assert (problems.rows, problems.skipped) == (7, {"code without a target": 2})


def test_bundle(tmp_path: Path) -> None:
    others = [{"resourceType": "Patient"}, None]
    entries = [{"resource": one} for one in (CODE_SYSTEM, VALUE_SET, CONCEPT_MAP, *others)]
    records, problems = read(tmp_path / "x.json", {"resourceType": "Bundle", "entry": entries})
    alone = [one for data in (CODE_SYSTEM, VALUE_SET, CONCEPT_MAP) for one in read(tmp_path / "y.json", data)[0]]
    assert records == alone
    assert problems.skipped["resource of type Patient"] == problems.skipped["resource of type unknown"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON, or is cut off"),
        ('{"a": 1, "a": 2}', "cannot be used: a key occurs twice"),
        ("[]", "looked for a resource of CodeSystem, ValueSet, ConceptMap; found none"),
        ('{"resourceType": "Patient"}', "looked for a resource of CodeSystem, ValueSet, ConceptMap; found Patient"),
        ('{"resourceType": "Bundle"}', "looked for a resource of CodeSystem, ValueSet, ConceptMap; found Bundle"),
    ],
)
def test_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=message):
        list(read_fhir(tmp_path / "x.json"))


def test_bad_concepts(tmp_path: Path) -> None:
    concepts = [{"display": "x"}, {"code": "a b", "display": "x"}, 3, {"code": "1", "display": "y"}]
    _, problems = read(tmp_path / "x.json", {**CODE_SYSTEM, "concept": concepts, "content": "not-present"})
    assert problems.bad == {"concept without a code, or with a blank in it": 3}
    assert "says that its concepts are elsewhere" in problems.notes[0]
    with pytest.raises(InputError, match="3 of 4 rows cannot be used"):
        list(read_fhir(tmp_path / "x.json"))
