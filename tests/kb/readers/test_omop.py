"""OMOP vocabularies of Athena."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.kb import Input
from medlink.kb.format_detection import DetectedInput, detect_formats
from medlink.kb.readers.omop import read_omop
from medlink.records import NOT_STANDARD, Concept, Mapping, Name, Relation, Retired, SemanticType, Source
from tests.kb.writers import names_of, opened_kb, read_all

DATES = "19700101\t20991231"
HEADS = {
    "CONCEPT": "concept_id\tconcept_name\tdomain_id\tvocabulary_id\tconcept_class_id\tstandard_concept\tconcept_code"
    "\tvalid_start_date\tvalid_end_date\tinvalid_reason",
    "CONCEPT_SYNONYM": "concept_id\tconcept_synonym_name\tlanguage_concept_id",
    "CONCEPT_RELATIONSHIP": "concept_id_1\tconcept_id_2\trelationship_id\tvalid_start_date\tvalid_end_date"
    "\tinvalid_reason",
    "CONCEPT_ANCESTOR": "ancestor_concept_id\tdescendant_concept_id\tmin_levels_of_separation"
    "\tmax_levels_of_separation",
    "VOCABULARY": "vocabulary_id\tvocabulary_name\tvocabulary_reference\tvocabulary_version\tvocabulary_concept_id",
}


def concept(number: int, name: str, *, of: str = "SNOMED", standard: str = "S", reason: str = "") -> str:
    return f"{number}\t{name}\tCondition\t{of}\tx\t{standard}\tcode{number}\t{DATES}\t{reason}"


ROWS = {
    "CONCEPT": [
        concept(1, "Disease"),
        concept(2, 'Heart "attack"'),
        concept(3, "Herzinfarkt", of="ICD10GM", standard=""),
        concept(4, "Two things", of="ICD10GM", standard=""),
        concept(5, "Old attack", standard="", reason="U"),
        concept(6, "Gone", standard="", reason="D"),
        concept(7, "Of a ward", of="Ward", standard=""),
        concept(8, "A class", of="ATC", standard="C"),
    ],
    "CONCEPT_SYNONYM": [
        "2\tHeart attack (disorder)\t4180186",
        "2\tMyokardinfarkt\t4182504",
        "2\tinfarto\t4182511",
        "2\tinfarctus\t4180190",
        "2\tMI\t0",
        "3\tHerzattacke\t4182504",
        "6\tGone too\t4180186",
    ],
    "CONCEPT_RELATIONSHIP": [
        f"2\t1\tIs a\t{DATES}\t",
        f"1\t2\tSubsumes\t{DATES}\t",
        f"2\t2\tMaps to\t{DATES}\t",
        f"3\t2\tMaps to\t{DATES}\t",
        f"4\t1\tMaps to\t{DATES}\t",
        f"4\t2\tMaps to\t{DATES}\t",
        f"5\t2\tMaps to\t{DATES}\t",
        f"6\t2\tMaps to\t{DATES}\tD",
        f"3\t1\tIs a\t{DATES}\t",
    ],
    "CONCEPT_ANCESTOR": ["1\t2\t1\t1", "8\t2\t1\t1", "8\t1\t2\t2", "2\t2\t0\t0"],
    "VOCABULARY": ["None\tOMOP Standardized Vocabularies\tx\tv5.0 31-AUG-23\t44819096", "SNOMED\tx\tx\t2023\t1"],
}


def write(folder: Path, **changed: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, rows in {**ROWS, **changed}.items():
        (folder / f"{name}.csv").write_text("".join(f"{line}\n" for line in [HEADS[name], *rows]), "utf-8")
    return folder


def test_everything(tmp_path: Path) -> None:
    records, problems = read_all(read_omop, write(tmp_path / "v"))
    assert records[:5] == [
        Source("OMOP", "v5.0 31-AUG-23", "OMOP standardised vocabularies"),
        Concept("OMOP:1", "OMOP"),
        Name("OMOP:1", "Disease", "en", "preferred", "SNOMED", True),
        SemanticType("OMOP:1", "Condition", "", "OMOP"),
        Mapping("OMOP:1", "SNOMED", "code1", "code", "SNOMED"),
    ]
    assert names_of(records) == {
        "OMOP:1": [("Disease", "en", "preferred")],
        "OMOP:2": [
            ('Heart "attack"', "en", "preferred"),
            ("Herzinfarkt", "en", "maps_to"),
            ("Old attack", "en", "maps_to"),
            ("Heart attack (disorder)", "en", "fsn"),
            ("Myokardinfarkt", "de", "synonym"),
            ("infarto", "es", "synonym"),
            ("MI", "", "synonym"),
            ("Herzattacke", "de", "maps_to"),
        ],
        "OMOP:7": [("Of a ward", "en", "preferred")],
        "OMOP:8": [("A class", "en", "preferred")],
    }
    assert Mapping("OMOP:2", "ICD10GM", "code3", "maps_to", "ICD10GM") in records
    # which concepts may be targets of a map stands in the type of their own code
    assert Mapping("OMOP:7", "Ward", "code7", "source code", "Ward") in records
    assert Mapping("OMOP:8", "ATC", "code8", "classification code", "ATC") in records
    assert [one for one in records if isinstance(one, Retired)] == [Retired("OMOP:5", "replaced_by", "OMOP:2", "OMOP")]
    assert [one for one in records if isinstance(one, Relation)] == [
        Relation("OMOP:2", "isa", "OMOP:1", "OMOP"),
        Relation("OMOP:2", "isa", "OMOP:1", "OMOP"),
        Relation("OMOP:2", "isa", "OMOP:8", "OMOP"),
    ]
    assert (problems.rows, problems.bad, problems.notes) == (30, {}, [])
    assert problems.skipped == {
        "ancestor that is not a parent": 2,
        "concept that maps to several": 1,
        "invalid concept": 1,
        "invalid relationship": 1,
        "map of a concept with itself": 1,
        "map, which adds names": 4,
        "relationship of a concept that is left out": 1,
        "relationship of another kind": 1,
        "synonym in another language": 1,
        "synonym of a concept that is left out": 1,
        "version of a vocabulary": 2,
    }


def test_bad_rows(tmp_path: Path) -> None:
    bad = [
        concept(0, "no number"),
        concept(9, ""),
        concept(10, "x", standard="X"),
        concept(11, "x", reason="?"),
        concept(12, "x").replace("19700101", "soon"),
        "13\tshort",
    ]
    folder = write(tmp_path / "v", CONCEPT=[*ROWS["CONCEPT"], *bad, concept(1, "again")])
    _, problems = read_all(read_omop, folder)
    assert problems.bad == {
        "column count": 1,
        "invalid_reason is neither D nor U, or a date is invalid": 2,
        "no number, no name, or standard_concept is neither S nor C": 3,
    }
    assert problems.skipped["concept repeated, kept once"] == 1
    changed = {
        "CONCEPT_SYNONYM": ["x\ty\t0", "1\t\t0"],
        "CONCEPT_RELATIONSHIP": [f"x\t1\tIs a\t{DATES}\t"],
        "CONCEPT_ANCESTOR": ["1\t2\tone\t1"],
    }
    _, problems = read_all(read_omop, write(tmp_path / "v", **changed), share=1)
    assert problems.bad == {"no number, or no name": 2, "no number": 2}


def test_files_that_are_not_there(tmp_path: Path) -> None:
    folder = write(tmp_path / "v")
    for name in ("CONCEPT_SYNONYM", "CONCEPT_RELATIONSHIP", "CONCEPT_ANCESTOR", "VOCABULARY"):
        (folder / f"{name}.csv").unlink()
    (folder / "CONCEPT.csv.gz").write_bytes(gzip.compress((folder / "CONCEPT.csv").read_bytes()))
    (folder / "CONCEPT.csv").unlink()
    records, problems = read_all(read_omop, folder)
    assert [one.concept_id for one in records if isinstance(one, Concept)] == [f"OMOP:{n}" for n in (1, 2, 3, 4, 7, 8)]
    assert sorted(note.rpartition("/")[2] for note in problems.notes) == [
        "CONCEPT_ANCESTOR.csv: is not there",
        "CONCEPT_RELATIONSHIP.csv: is not there",
        "CONCEPT_SYNONYM.csv: is not there",
        "VOCABULARY.csv: is not there",
    ]
    (folder / "CONCEPT.csv.gz").unlink()
    (folder / "other.txt").touch()
    with pytest.raises(InputError, match=r"looked for CONCEPT\.csv; found other\.txt"):
        list(read_omop(folder))
    with pytest.raises(InputError, match="no such folder"):
        list(read_omop(tmp_path / "missing"))
    (folder / "CONCEPT.csv").write_text("concept_id\tname\n1\tx\n")
    with pytest.raises(InputError, match="looked for the columns concept_id, concept_name"):
        list(read_omop(folder))


def test_capitals_of_file_names_do_not_count(tmp_path: Path) -> None:
    """A folder that is recognised is read."""
    records = list(read_omop(write(tmp_path / "v")))
    for path in (tmp_path / "v").iterdir():
        path.rename(path.with_name(path.name.capitalize()))
    assert detect_formats(tmp_path / "v")[0] == [DetectedInput("omop", tmp_path / "v")]
    problems = Problems()
    assert list(read_omop(tmp_path / "v", problems=problems)) == records
    assert problems.notes == []


def test_codes_of_many_concepts_and_of_one_kind(tmp_path: Path) -> None:
    with opened_kb(tmp_path / "kb", Input("omop", write(tmp_path / "v"))) as kb:
        found = kb.mappings_of(["OMOP:2", "OMOP:7", "OMOP:2", "no such id"])
        assert found == {one: kb.mappings(one) for one in ("OMOP:2", "OMOP:7")}
        assert [one.concept_id for one in kb.iter_mappings(types=NOT_STANDARD)] == ["OMOP:7", "OMOP:8"]
