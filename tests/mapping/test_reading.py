"""Lists of codes: tables, and files of Usagi and OMOP."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.index import Bundle
from medlink.mapping import Columns, SourceCode
from medlink.mapping.reading import CodeList, read_codes
from medlink.mapping.targets import Targets

HEAD = "sourceCode,sourceName,sourceFrequency,matchScore,mappingStatus,conceptId,conceptName"


def read(bundle: Bundle, tmp_path: Path, text: str | bytes, name: str = "codes.csv", **given: object) -> CodeList:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_codes(path, Targets(bundle.kb), **given)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_list(omop: Bundle, tmp_path: Path) -> None:
    found = read(omop, tmp_path, "Code;Description;Count;Unit;Language;Ward\nK1;Hb;12;g/dl;ger;A 1\n")
    assert [one.source for one in found.maps] == [SourceCode("K1", "Hb", 12, "g/dl", "de", (("Ward", "A 1"),))]
    assert (found.added, found.notes) == (("Ward",), ())


def test_concepts_that_a_list_assigns(omop: Bundle, tmp_path: Path) -> None:
    text = "code,name,Auto concept ID,source_concept_id\nK1,x,2;9,2000000001\nK2,y,0,0\n"
    found = read(omop, tmp_path, text)
    assert [one.source.assigned for one in found.maps] == [("2", "9"), ()]
    assert [one.source.added for one in found.maps] == [
        (("source_concept_id", "2000000001"),),
        (("source_concept_id", "0"),),
    ]
    named = read(omop, tmp_path, "code,name,vorher\nK1,x,2\n", columns=Columns(concept="vorher"))
    assert named.maps[0].source.assigned == ("2",)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ('code,name\n"=""007""",x\n', ["007"]),
        ('code,name\n="007",x\n', ["007"]),
        ("code,name\n'=1+1,x\n", ["=1+1"]),
        ('\ufeffcode\tname\nK1\t"x\n', ["K1"]),
        ("code,name\r\nK1,x\r\n", ["K1"]),
        ('code,name\nK1,"two\nlines"\n', ["K1"]),
        ("code,name\nK1,\n", ["K1"]),
        ("code,name\nK1,x", ["K1"]),
        ("code,name\n,\nK2,y\n , \n", ["K2"]),
    ],
)
def test_cells(omop: Bundle, tmp_path: Path, text: str, codes: list[str]) -> None:
    assert [one.source.code for one in read(omop, tmp_path, text).maps] == codes


def test_columns_by_name_and_another_encoding(omop: Bundle, tmp_path: Path) -> None:
    columns = Columns("Nr", "Bezeichnung", "Anzahl", "Einheit", "Sprache")
    text = "Nr;Bezeichnung;Anzahl;Einheit;Sprache\n1;Müdigkeit;3;;de\n".encode("latin-1")
    found = read(omop, tmp_path, text, columns=columns, encoding="latin-1")
    assert found.maps[0].source == SourceCode("1", "Müdigkeit", 3, "", "de")


def test_columns_of_one_name_are_all_kept(omop: Bundle, tmp_path: Path) -> None:
    found = read(omop, tmp_path, "code,name,ward,ward,unit,U\nK1,x,1,2,3,g\n", columns=Columns(unit="U"))
    assert found.maps[0].source.added == (("ward", "1"), ("ward 2", "2"), ("unit 2", "3"))


def test_rows_left_out_are_noted(omop: Bundle, tmp_path: Path) -> None:
    rows = ["K1,x,1,de", "K1,x,1.200,de", "K1,y,1e3,de", "K2,x,1,deutsch!", ",x,1,de", f"K3,{'x' * 2001},1,de", "short"]
    found = read(omop, tmp_path, "\n".join(["code,name,frequency,language", *rows, ""]), max_bad_share=0.5)
    assert [(one.source.code, one.source.name, one.source.frequency) for one in found.maps] == [
        ("K1", "x", 1201),
        ("K1", "y", None),
        ("K2", "x", 1),
    ]
    notes = "\n".join(found.notes)
    for part in (
        "1 (no code, the first at",
        "1 (a description of more than 2,000 characters",
        "1 (column count",
        "1 (the same code and name again",
        f"frequencies that are not whole numbers from 0 on: 1, the first at {tmp_path}",
        "languages that are no BCP 47 tag: 1, the first at",
        "codes with several descriptions: 1",
    ):
        assert part in notes
    assert "xxx" not in notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column code"),
        ("code,name\n", "no usable row"),
        ("a,b\n1,2\n", "no column code, source code, id or the like; found 2 columns: a, b"),
        ("code,b\n1,2\n", "no column name, description, source name or the like; found 2 columns: code, b"),
        ("a,b\n1,2\n", "code_column=...; if the header is in a later line, delete the lines above the header"),
        *(
            (f"{title}\ncode;name;unit\n1;x;\n", "Remedy: the header may be in a later line: delete the lines above")
            for title in ("Catálogo 2026", "Leistungskatalog 2026;;", ";Test catalogue;")
        ),
        ("code,code,name\n1,2,3\n", "the column code occurs twice"),
        ('code,name\nK1,"x\n', "a quoted cell does not end"),
        (f"{HEAD}\nK1,x,1,0.5,DONE,2,y\n", "mappingStatus is none of APPROVED"),
        (f"{HEAD}\nK1,x,1,high,APPROVED,2,y\n", "matchScore is not a number"),
        (f"{HEAD},mappingType\nK1,x,1,1,APPROVED,2,y,IS\n", "mappingType is none of"),
        (f"{HEAD},equivalence\nK1,x,1,1,APPROVED,2,y,SAME\n", "equivalence is none of"),
        (f"{HEAD},statusSetOn\nK1,x,1,1,APPROVED,2,y,monday\n", "is not a time in milliseconds"),
        (f"{HEAD}\n,x,1,1,APPROVED,2,y\n", "no sourceCode"),
        (f"{HEAD}\nK1,x,1,1,APPROVED\nK2,x,1,1,APPROVED,2,y\n", "column count"),
        (b"code,name\nK1,x\x00\xff\nK2,\xfc\n", "no usable row"),
    ],
)
def test_files_that_are_refused(omop: Bundle, tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(omop, tmp_path, text)
    assert "Remedy: " in str(caught.value)


def test_a_file_of_an_older_usagi(omop: Bundle, tmp_path: Path) -> None:
    rows = ["K1,x,-1,0.5,APPROVED,2,Heart attack,EVENT", "K1,x,-1,0.5,APPROVED,21,Negative,VALUE"]
    found = read(omop, tmp_path, "\n".join([f"{HEAD},mappingType", *rows, ""]))
    (one,) = found.maps
    assert [(t.concept_id, t.kind) for t in one.targets] == [("OMOP:2", "MAPS_TO"), ("OMOP:21", "MAPS_TO_VALUE")]
    assert (one.decided, one.source.frequency, one.equivalence) == (True, None, "UNREVIEWED")


def test_a_source_to_concept_map(omop: Bundle, tmp_path: Path) -> None:
    text = (
        "source_code,source_concept_id,source_vocabulary_id,source_code_description,target_concept_id,"
        "target_vocabulary_id,valid_start_date,valid_end_date,invalid_reason\n"
        "K1,0,LOCAL,Infarkt,2,SNOMED,1970-01-01,2099-12-31,\n"
        "K1,0,LOCAL,Infarkt,9,SNOMED,1970-01-01,2000-12-31,D\n"
        "K2,0,LOCAL,Nichts,0,None,1970-01-01,2099-12-31,\n"
    )
    found = read(omop, tmp_path, text)
    assert [(one.source.code, one.status, len(one.targets)) for one in found.maps] == [
        ("K1", "APPROVED", 1),
        ("K2", "UNCHECKED", 0),
    ]
    assert "1 (map that is no longer valid)" in found.notes[0]
