"""SNOMED CT RF2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.readers.rf2 import read_rf2
from medlink.records import Concept, Definition, Mapping, Name, Relation, SemanticType, Source
from tests.kb import writers
from tests.kb.writers import (
    ACCEPTABLE,
    DESCRIPTION,
    FSN,
    INFERRED,
    LANGUAGE,
    PREFERRED,
    RELATIONSHIP,
    STATED,
    SYNONYM,
    TEXT,
    opened_kb,
    read_all,
    rf2,
    row,
)  # fmt: skip

US, GB, DE = "900000000000509007", "900000000000508004", "722130004"
SIMPLE = "refsetId referencedComponentId mapTarget"
EXTENDED = SIMPLE.replace("mapTarget", "mapGroup mapPriority mapRule mapAdvice mapTarget correlationId mapCategoryId")


def edition(folder: Path) -> Path:
    """Write an international edition with all kinds of files."""

    def write(part: str, name: str, header: str, *rows: list[str]) -> None:
        rf2(folder / part, f"{name}_INT_20260901.txt", header, list(rows))

    concepts = [row(number, "0", active="01"[number != 3]) for number in (1, 2, 3, 363698007, 777)]
    write("Terminology", "sct2_Concept_Snapshot", "definitionStatusId", *concepts)
    write(
        "Terminology", "sct2_Description_Snapshot-en", DESCRIPTION,
        row(11, "1", "en", FSN, "Oedema (of leg) (finding)", "0"),
        row(12, "1", "en", SYNONYM, "Edema", "0"),
        row(13, "1", "en", SYNONYM, "Oedema", "0"),
        row(14, "1", "en", SYNONYM, "Dropsy", "0", active="0"),
        row(15, "2", "en", FSN, "Leg (body structure)", "0"),
        row(16, "2", "en", SYNONYM, "Leg", "0"),
        row(17, "3", "en", FSN, "Old (finding)", "0"),
        row(18, "363698007", "en", FSN, "Finding site (attribute)", "0"),
        row(19, "777", "en", FSN, "House map (foundation metadata concept)", "0"),
    )  # fmt: skip
    write("Terminology", "sct2_Description_Snapshot-de", DESCRIPTION, row(21, "1", "de", SYNONYM, "Ödem", "0"))
    definitions = [row(31, "1", "en", TEXT, "Swelling.", "0"), row(32, "3", "en", TEXT, "Old.", "0")]
    write("Terminology", "sct2_TextDefinition_Snapshot-en", DESCRIPTION, *definitions)
    write(
        "Terminology", "sct2_Relationship_Snapshot", RELATIONSHIP,
        row(41, "1", "777", "0", "116680003", INFERRED, "0"),
        row(42, "1", "2", "1", "363698007", INFERRED, "0"),
        row(43, "1", "2", "1", "999", INFERRED, "0"),
        row(44, "1", "2", "1", "363698007", STATED, "0"),
        row(45, "1", "3", "0", "116680003", INFERRED, "0"),
        row(46, "2", "777", "0", "116680003", INFERRED, "0", active="0"),
    )  # fmt: skip
    write(
        "Refset", "der2_cRefset_LanguageSnapshot-en", LANGUAGE,
        row("a", GB, "13", PREFERRED), row("b", US, "12", PREFERRED), row("c", US, "13", ACCEPTABLE),
        row("d", US, "11", PREFERRED), row("e", US, "16", PREFERRED),
    )  # fmt: skip
    simple = [row("a", "446608001", "1", "T-1"), row("b", "777", "1", "h1"), row("c", "888", "3", "x")]
    write("Refset", "der2_sRefset_SimpleMapSnapshot", SIMPLE, *simple)
    write(
        "Refset", "der2_iisssccRefset_ExtendedMapSnapshot", EXTENDED,
        row("a", "447562003", "1", "1", "1", "TRUE", "ALWAYS R60.0", "R60.0", "0", "0"),
        row("b", "447562003", "1", "1", "2", "TRUE", "none", "", "0", "0"),
        row("c", "447562003", "1", "2", "1", "IFA 3", "IF", "R60.9", "0", "0", active="0"),
    )  # fmt: skip
    complex_map = row("a", "6011000124106", "2", "1", "1", "TRUE", "x", "S88", "0")
    write("Refset", "der2_iissscRefset_ComplexMapSnapshot", EXTENDED.rsplit(" ", 1)[0], complex_map)
    # neither of these belongs to the snapshot
    writers.write_lines(folder / "Terminology" / "sct2_StatedRelationship_Snapshot_INT_20260901.txt", ["rubbish"])
    writers.write_lines(folder / "Full" / "sct2_Concept_Full_INT_20260901.txt", ["rubbish"])
    return folder


def test_every_file(tmp_path: Path) -> None:
    records, problems = read_all(read_rf2, edition(tmp_path))

    def of(kind: type[Any]) -> list[Any]:
        return [record for record in records if isinstance(record, kind)]

    assert records[0] == Source("SNOMEDCT", "20260901", "SNOMED CT")
    assert of(Concept) == [Concept(number, "SNOMEDCT") for number in ("1", "2", "363698007", "777")]
    assert [(n.concept_id, n.text, n.language, n.type, n.preferred) for n in of(Name)] == [
        ("1", "Ödem", "de", "synonym", False),
        ("1", "Oedema (of leg) (finding)", "en", "fsn", False),
        ("1", "Edema", "en", "synonym", True),
        ("1", "Oedema", "en", "synonym", True),
        ("2", "Leg (body structure)", "en", "fsn", False),
        ("2", "Leg", "en", "synonym", True),
        ("363698007", "Finding site (attribute)", "en", "fsn", False),
        ("777", "House map (foundation metadata concept)", "en", "fsn", False),
    ]
    assert [(s.concept_id, s.semantic_type) for s in of(SemanticType)] == [
        ("1", "finding"), ("2", "body structure"), ("363698007", "attribute"), ("777", "foundation metadata concept"),
    ]  # fmt: skip
    assert of(Definition) == [Definition("1", "Swelling.", "en", "SNOMEDCT")]
    assert [(r.head, r.type, r.tail) for r in of(Relation)] == [
        ("1", "isa", "777"), ("1", "finding site", "2"), ("1", "999", "2"),
    ]  # fmt: skip
    assert [(m.concept_id, m.system, m.code, m.type) for m in of(Mapping)] == [
        ("1", "ICD-O", "T-1", "simple_map"),
        ("1", "House map", "h1", "simple_map"),
        ("2", "ICD-10-CM", "S88", "complex_map"),
        ("1", "ICD-10", "R60.0", "extended_map"),
    ]
    assert not problems.bad
    assert problems.skipped == {
        "inactive Concept row": 1,
        "inactive Description row": 1,
        "Description of an inactive concept": 1,
        "TextDefinition of an inactive concept": 1,
        "relationship that is not inferred": 1,
        "relationship of an inactive concept": 1,
        "inactive Relationship row": 1,
        "map of an inactive concept": 1,
        "map without a target": 1,
        "inactive ExtendedMap row": 1,
    }


@pytest.mark.parametrize(("refsets", "preferred"), [((), "Edema"), ((GB,), "Oedema"), ((US, GB), "Edema")])
def test_language_refset_decides(refsets: tuple[str, ...], preferred: str, tmp_path: Path) -> None:
    report = build_kb(tmp_path / "kb", [Input("rf2", edition(tmp_path / "x"), {"language_refsets": refsets})])
    with KnowledgeBase(tmp_path / "kb") as kb:
        assert kb.preferred_name("1") == preferred
        assert kb.preferred_name("1", "de") == "Ödem"  # the only one
        assert kb.preferred_name("777") == "House map (foundation metadata concept)"
    assert report.sources[0].names == {"de": 1, "en": 7}


def test_unranked_refsets_go_by_number(tmp_path: Path) -> None:
    folder = edition(tmp_path)
    rows = [row("x", "1000", "13", PREFERRED), row("y", "999", "12", PREFERRED)]
    rf2(folder, "der2_cRefset_LanguageSnapshot-en_XX_20260901.txt", LANGUAGE, rows)
    (folder / "Refset" / "der2_cRefset_LanguageSnapshot-en_INT_20260901.txt").unlink()
    with opened_kb(tmp_path / "kb", Input("rf2", folder)) as kb:
        assert kb.preferred_name("1") == "Edema"


@pytest.mark.slow
def test_national_extension(tmp_path: Path) -> None:
    """An extension adds names, and a later inactive row of it withdraws what the edition has."""
    edition(tmp_path / "international")
    national = tmp_path / "national"
    end = "DE1000274_20261115.txt"
    concepts = [row(2, "0", active="0", time="20261115"), row(900, "0"), row(3, "0", time="20261115")]
    rf2(national, f"sct2_Concept_GermanyExtensionSnapshot_{end}", "definitionStatusId", concepts)
    descriptions = [
        row(51, "1", "de", SYNONYM, "Wassereinlagerung", "0"),
        row(52, "900", "de", SYNONYM, "Neues", "0"),
        row(21, "1", "de", SYNONYM, "Ödem", "0", active="0", time="20261115"),
        row(12, "1", "en", SYNONYM, "Edema", "0", active="0", time="20250101"),
    ]
    rf2(national, f"sct2_Description_GermanyExtensionSnapshot-de_{end}", DESCRIPTION, descriptions)
    language = [row("g", DE, "51", PREFERRED)]
    rf2(national, f"der2_cRefset_LanguageGermanyExtensionSnapshot-de_{end}", LANGUAGE, language)
    for given in (
        Input("rf2", tmp_path / "international", {"extensions": [national]}),
        Input("rf2", tmp_path / "international", {"extensions": [tmp_path / "international", national]}),
        Input("rf2", national, {"extensions": [tmp_path / "international"]}),
        Input("rf2", tmp_path),
    ):
        report = build_kb(tmp_path / "kb", [given])
        assert report.sources[0].source.version == "20261115"
        with KnowledgeBase(tmp_path / "kb") as kb:
            assert [name.text for name in kb.names("1") if name.language == "de"] == ["Wassereinlagerung"]
            assert "Edema" in [name.text for name in kb.names("1")]  # withdrawn earlier than it is active
            assert kb.get("2") is None
            assert kb.preferred_name("900") == "Neues"
            assert kb.preferred_name("3") == "Old (finding)"  # active again


def test_the_latest_of_two_editions_is_preferred(tmp_path: Path) -> None:
    """In any order of the folders; another spelling of a description replaces the earlier one."""
    for name, preferred, other, term, time in (
        ("older", "13", "14", "Oedema of leg", "20250901"),
        ("newer", "14", "13", "Oedema of the leg", "20260901"),
    ):
        end = f"INT_{time}.txt"
        rf2(tmp_path / name, f"sct2_Concept_Snapshot_{end}", "definitionStatusId", [row(1, "0")])
        terms = [
            row(12, "1", "en", FSN, "Oedema (finding)", "0"),
            row(13, "1", "en", SYNONYM, "Oedema", "0"),
            row(14, "1", "en", SYNONYM, "Swelling", "0"),
            row(15, "1", "en", SYNONYM, term, "0", time=time),
        ]
        rf2(tmp_path / name, f"sct2_Description_Snapshot-en_{end}", DESCRIPTION, terms)
        members = [
            row(f"m{preferred}", US, preferred, PREFERRED, time=time),
            row(f"m{other}", US, other, ACCEPTABLE, time=time),
        ]
        rf2(tmp_path / name, f"der2_cRefset_LanguageSnapshot-en_{end}", LANGUAGE, members)
    for first, second in (("older", "newer"), ("newer", "older")):
        build_kb(tmp_path / "kb", [Input("rf2", tmp_path / first, {"extensions": [tmp_path / second]})])
        with KnowledgeBase(tmp_path / "kb") as kb:
            assert kb.preferred_name("1", "en") == "Swelling"
            assert {name.text for name in kb.names("1")} == {
                "Oedema (finding)", "Oedema", "Swelling", "Oedema of the leg",
            }  # fmt: skip


def test_languages(tmp_path: Path) -> None:
    records, problems = read_all(read_rf2, edition(tmp_path), languages=["de"])
    assert [record.text for record in records if isinstance(record, Name)] == ["Ödem"]
    assert not [record for record in records if isinstance(record, Definition)]
    # What the English terms tell of types stays.
    assert [record.type for record in records if isinstance(record, Relation)] == ["isa", "finding site", "999"]
    assert SemanticType("1", "finding", "", "SNOMEDCT") in records
    assert problems.skipped["name in another language"] == 7
    assert problems.skipped["definition in another language"] == 1


def test_bad_rows(tmp_path: Path) -> None:
    path = edition(tmp_path) / "Terminology" / "sct2_Description_Snapshot-de_INT_20260901.txt"
    with open(path, "a", encoding="utf-8") as handle:
        handle.write("\t".join(row(22, "1", "xx", SYNONYM, "?", "0")) + "\n23\t20260101\t1\n")
    _, problems = read_all(read_rf2, tmp_path, share=1)
    assert problems.bad == {"unknown language": 1, "column count": 1}
    assert [problem.line for problem in problems.examples] == [3, 4]


def test_wrong_folder(tmp_path: Path) -> None:
    edition(tmp_path / "x")
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "some.txt").touch()
    for first, extensions in ((tmp_path / "y", []), (tmp_path / "x", [tmp_path / "y"])):
        with pytest.raises(InputError, match=r"looked for sct2_Concept_\*Snapshot\*.txt.*found some.txt"):
            list(read_rf2(first, extensions=extensions))
    for path in (tmp_path / "x" / "Terminology").glob("sct2_Description*"):
        path.unlink()
    with pytest.raises(InputError, match=r"looked for sct2_Description_\*Snapshot\*.txt; found der2_"):
        list(read_rf2(tmp_path / "x"))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("id\teffectiveTime\tactive\tmodu", 1),
        ("id\teffectiveTime\tactive\tmoduleId\tdefinitionStatusId", 1),
        ("id\teffectiveTime\tactive\tmoduleId\tdefinitionStatusId\r\n1\t20260101\t1\t900\t9", 2),
    ],
)
def test_a_file_that_is_cut_off(content: str, line: int, tmp_path: Path) -> None:
    path = edition(tmp_path) / "Terminology" / "sct2_Concept_Snapshot_INT_20260901.txt"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        list(read_rf2(tmp_path))
    assert str(caught.value) == (
        f"{path}:{line}: the last line is cut off: it has no line end. Remedy: fetch, unpack or export the file again."
    )
    list(read_rf2(tmp_path, problems=Problems(1.0)))


def test_comments_are_left_out_and_counted(tmp_path: Path) -> None:
    path = edition(tmp_path) / "Terminology" / "sct2_Concept_Snapshot_INT_20260901.txt"
    before, plain = list(read_rf2(tmp_path)), path.read_text()
    header, rows = plain.split("\n", 1)
    path.write_text(f"# exported\n{header}\n#\ta\tb\n{rows}# end\n")
    problems = Problems()
    assert list(read_rf2(tmp_path, problems=problems)) == before
    assert problems.skipped["comment line"] == 3
    assert problems.bad == {}


def test_a_state_that_is_none(tmp_path: Path) -> None:
    path = edition(tmp_path) / "Terminology" / "sct2_Concept_Snapshot_INT_20260901.txt"
    path.write_text(path.read_text().replace("\n2\t20260101\t1\t", "\n2\t20260101\ttrue\t"))
    problems = Problems()
    assert Concept("2", "SNOMEDCT") not in list(read_rf2(tmp_path, problems=problems))
    assert problems.bad == {"active is neither 0 nor 1": 1}


def test_what_is_missing_or_empty_is_reported(tmp_path: Path) -> None:
    terms = edition(tmp_path) / "Terminology"
    relationships = terms / "sct2_Relationship_Snapshot_INT_20260901.txt"
    relationships.write_text(relationships.read_text().split("\n")[0] + "\n")
    (terms / "sct2_TextDefinition_Snapshot-en_INT_20260901.txt").unlink()
    _, problems = read_all(read_rf2, tmp_path)
    assert problems.notes == ["there is no TextDefinition file", f"{relationships}: has no rows"]


@pytest.mark.parametrize("below", [".", "Snapshot"])
def test_package_information(below: str, tmp_path: Path) -> None:
    edition(tmp_path / "release" / "Snapshot")
    path = tmp_path / "release" / "release_package_information.json"
    information = {"effectiveTime": "2026-09-01", "languageRefsets": [{"id": US, "term": "US"}, {"id": int(GB)}]}

    def notes(content: str) -> list[str]:
        path.write_text(content)
        _, problems = read_all(read_rf2, tmp_path / "release" / below)
        return problems.notes

    assert notes(json.dumps(information)) == []
    assert notes(json.dumps({"effectiveTime": "20260301", "languageRefsets": [{"id": "448879004"}, 3, {}]})) == [
        f"{path}: is of 20260301, the Concept files are of 20260901",
        f"{path}: lists the language refset 448879004, which has no active row",
    ]
    assert notes("{}") == []
    for broken in ("[" * 100_000, "[]", "", "{"):
        assert notes(broken) == [f"{path}: cannot be read, nothing is checked against it"]
