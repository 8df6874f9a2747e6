"""Formats of maps, read by other libraries."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from medlink.index import Bundle
from medlink.mapping import map_codes
from medlink.mapping.options import Shape
from medlink.mapping.reading import OMOP, USAGI

LIST = (
    "code,name,frequency,ward\n"
    "K1,Hb g/dl,5,A\n"
    'K2,"=Fieber ""hoch""",9,"B, C"\n'
    "K3,MS,,A\n"
    "-4,Herzanfall,7,-1\n"
    "K5,HIV-Test negativ,1,A\n"
)


def run(bundle: Bundle, tmp_path: Path, shape: Shape, text: str = LIST, **options: object) -> str:
    (tmp_path / "codes.csv").write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    map_codes(bundle, tmp_path / "codes.csv", out=out, shape=shape, language="de", **options)  # type: ignore[arg-type]
    return out.read_text("utf-8")


def table(text: str, separator: str = ",") -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), sep=separator, dtype=str, keep_default_na=False)


def test_usagi(omop: Bundle, tmp_path: Path) -> None:
    rows = table(run(omop, tmp_path, "usagi"))
    assert [name for name in rows.columns if not name.startswith("ADD_INFO:")] == list(USAGI)
    assert list(rows["sourceCode"]) == ["K2", "-4", "K1", "K1", "K5", "K5", "K3"]  # by frequency
    assert list(rows["sourceFrequency"]) == ["9", "7", "5", "5", "1", "1", "-1"]
    first = rows.iloc[0]
    assert first["sourceName"] == '\'=Fieber "hoch"'
    assert (first["conceptId"], first["conceptName"], first["domainId"]) == ("9", "Fever", "Condition")
    assert list(first[["mappingStatus", "equivalence", "mappingType"]]) == ["UNCHECKED", "UNREVIEWED", "MAPS_TO"]
    assert first["ADD_INFO:ward"] == "B, C"
    assert 0.5 < float(first["matchScore"]) <= 1
    assert list(rows[rows["sourceCode"] == "K1"]["mappingType"]) == ["MAPS_TO", "MAPS_TO_UNIT"]
    assert list(rows[rows["sourceCode"] == "K5"]["conceptId"]) == ["11", "21"]
    nothing = rows.iloc[-1]
    assert (nothing["conceptId"], nothing["conceptName"], nothing["ADD_INFO:medlink status"]) == ("0", "", "ambiguous")
    # what Usagi reads as numbers
    for column in ("sourceFrequency", "statusSetOn", "createdOn", "conceptId"):
        assert rows[column].map(int).notna().all()


def test_decisions_in_usagi_come_back_byte_for_byte(omop: Bundle, tmp_path: Path) -> None:
    text = run(omop, tmp_path, "usagi")
    decided = text.replace("UNCHECKED,UNREVIEWED,,0", "APPROVED,EQUAL,ana,1700000000000")
    decided = decided.replace("9,Fever", "2,Heart attack")
    again = run(omop, tmp_path, "usagi", decided)
    columns = [name for name in table(text).columns if "medlink" not in name]
    assert table(again)[columns].equals(table(decided)[columns])
    assert run(omop, tmp_path, "usagi", again) == again


def test_decisions_are_not_changed(omop: Bundle, tmp_path: Path) -> None:
    head = ",".join(USAGI)
    rows = [
        "K1,Fieber,3,,0.2,IGNORED,UNMATCHED,ana,5,0,,,MAPS_TO,not needed,,0,ben",
        "K2,Fieber,2,,0.3,FLAGGED,WIDER,ana,6,1,Disease,Condition,MAPS_TO,too wide?,eva,7,ben",
        "K3,Fieber,1,,0.4,APPROVED,EQUAL,ana,8,12,Called otherwise,Condition,MAPS_TO,,eva,9,",
        "K4,Fieber,0,,0.4,UNCHECKED,UNREVIEWED,,0,1,Disease,Condition,MAPS_TO,ask Eva,,0,ben",
    ]
    text = run(omop, tmp_path, "usagi", "\n".join([head, *rows, ""]))
    found = table(text)[list(USAGI)]
    assert [",".join(row) for row in found.itertuples(index=False)][:3] == rows[:3]
    last = found.iloc[3]
    assert (last["conceptId"], last["comment"], last["assignedReviewer"]) == ("9", "ask Eva", "ben")


def test_source_to_concept_map(omop: Bundle, tmp_path: Path) -> None:
    assert table(run(omop, tmp_path, "source-to-concept-map")).empty
    rows = table(run(omop, tmp_path, "source-to-concept-map", unreviewed=True, vocabulary="KIS", date="2026-11-23"))
    assert list(rows.columns) == list(OMOP)
    assert [tuple(row) for row in rows.itertuples(index=False)][1] == (
        "-4", "0", "KIS", "Herzanfall", "2", "SNOMED", "2026-11-23", "2099-12-31", "",
    )  # fmt: skip
    # the table has no column for values and units
    assert list(rows["target_concept_id"]) == ["9", "2", "10", "11"]
    approved = run(omop, tmp_path, "usagi").replace("UNCHECKED", "APPROVED")
    assert len(table(run(omop, tmp_path, "source-to-concept-map", approved))) == 4


def test_the_concept_of_the_source_is_in_every_output(omop: Bundle, tmp_path: Path) -> None:
    text = "code,name,source_concept_id,auto concept id\nK1,Fieber,2000000001,\nK2,Herzanfall,0,3;2\n"
    usagi, again = run(omop, tmp_path, "usagi", text), ""
    rows = table(usagi)
    assert list(rows["ADD_INFO:source_concept_id"]) == ["2000000001", "0"]
    assert list(rows["sourceAutoAssignedConceptIds"]) == ["", "3;2"]
    assert list(rows["mappingStatus"]) == ["UNCHECKED", "AUTO_MAPPED_TO_1"]
    again = run(omop, tmp_path, "usagi", usagi)
    assert again == usagi
    omop_table = run(omop, tmp_path, "source-to-concept-map", text, unreviewed=True)
    assert [tuple(row) for row in table(omop_table).itertuples(index=False)] == [
        ("K1", "2000000001", "LOCAL", "Fieber", "9", "SNOMED", "1970-01-01", "2099-12-31", ""),
        ("K2", "0", "LOCAL", "Herzanfall", "2", "SNOMED", "1970-01-01", "2099-12-31", ""),
    ]
    assert run(omop, tmp_path, "source-to-concept-map", omop_table) == omop_table
    sssom = [line.split("\t") for line in run(omop, tmp_path, "sssom", text).splitlines() if line[0] != "#"]
    assert [row[sssom[0].index("other")] for row in sssom[1:]] == ["source_concept_id=2000000001", ""]
    lines = [json.loads(line) for line in run(omop, tmp_path, "jsonl", text).splitlines()]
    assert [line["added"] for line in lines] == [{"source_concept_id": "2000000001"}, {"source_concept_id": "0"}]


def test_sssom(omop: Bundle, tmp_path: Path) -> None:
    text = run(omop, tmp_path, "sssom", vocabulary="KIS")
    lines = text.splitlines(keepends=True)
    head = yaml.safe_load("".join(line[2:] for line in lines if line.startswith("# ")))
    rows = table("".join(line for line in lines if not line.startswith("#")), "\t")
    assert set(head["curie_map"]) >= {"KIS", "OMOP", "skos", "semapv"}
    assert isinstance(head["mapping_set_id"], str)
    for row in rows.itertuples():
        assert row.subject_id.startswith("KIS:")
        assert row.object_id.startswith("OMOP:")
        assert row.predicate_id == "skos:closeMatch"
        assert 0.5 < float(row.confidence) <= 1
    assert list(rows["object_label"]) == ["Fever", "Heart attack", "Haemoglobin", "HIV test"]
    approved = run(omop, tmp_path, "usagi").replace("UNCHECKED,UNREVIEWED,,", "APPROVED,WIDER,ana,")
    text = run(omop, tmp_path, "sssom", approved)
    assert text.count("\tsemapv:ManualMappingCuration\t") == text.count("\tskos:broadMatch\t") == 4


def test_jsonl(omop: Bundle, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in run(omop, tmp_path, "jsonl").splitlines()]
    first = rows[0]
    assert list(first)[:10] == [
        "kind", "id", "text", "language", "frequency", "concept_id", "preferred_name", "score", "status", "candidates",
    ]  # fmt: skip
    assert (first["kind"], first["id"], first["text"]) == ("code", "K2", '=Fieber "hoch"')
    assert [first[name] for name in ("concept_id", "status", "language", "frequency")] == ["OMOP:9", "linked", "de", 9]
    assert first["candidates"][0]["concept_id"] == "OMOP:9"
    assert set(first["candidates"][0]) >= {"preferred_name", "score", "name", "route"}
    assert (rows[-1]["concept_id"], rows[-1]["status"], rows[-1]["frequency"]) == (None, "ambiguous", None)


@pytest.mark.parametrize("shape", ["usagi", "source-to-concept-map", "sssom", "jsonl"])
def test_odd_texts(omop: Bundle, tmp_path: Path, shape: Shape) -> None:
    odd = ["🫀 Infarkt", "a\u202eb", "x\x1b[2J", "é", "'quoted'", '"', "tab\there", "@SUM(A1)", "+49", "line\nend"]
    file = io.StringIO()
    csv.writer(file).writerows([["code", "name"], *([f"K{i}", name] for i, name in enumerate(odd))])
    text = run(omop, tmp_path, shape, file.getvalue(), unreviewed=True)
    assert "\x1b" not in text
    assert "\u202e" not in text
    if shape == "usagi":
        assert len(table(text)) >= len(odd)
        assert not any(name.startswith(("=", "@")) for name in table(text)["sourceName"])
    if shape == "jsonl":
        assert {json.loads(line)["text"] for line in text.splitlines()} >= {"🫀 Infarkt", "tab here", "line end"}
