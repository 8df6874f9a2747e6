"""FTRM export, checked against the rules of its specification, version 1.

The server Hades is a Clojure program, which is not available here.
"""

from __future__ import annotations

import io
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import ConfigError
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.export.fhir import write_fhir
from medlink.kb.export.ftrm import write_ftrm


def written(kb_path: Path, out: Path) -> sqlite3.Connection:
    with KnowledgeBase(kb_path) as kb:
        write_ftrm(kb, out)
    return sqlite3.connect(f"file:{out}?mode=ro", uri=True)


def rows(file: sqlite3.Connection, statement: str, *given: str) -> list[Any]:
    return file.execute(statement, given).fetchall()


def test_header_and_integrity(house_kb: Path, mapped: Path, tmp_path: Path) -> None:
    for path in (house_kb, mapped):
        file = written(path, tmp_path / "out.ftrm")
        assert rows(file, "PRAGMA application_id") == [(int.from_bytes(b"FTRM", "big"),)]
        assert rows(file, "PRAGMA user_version") == [(1,)]
        assert rows(file, "PRAGMA integrity_check") == [("ok",)]
        assert rows(file, "PRAGMA foreign_key_check") == []
        file.close()


def test_the_same_concepts_as_in_fhir(mapped: Path, tmp_path: Path) -> None:
    file, text = written(mapped, tmp_path / "out.ftrm"), io.StringIO()
    with KnowledgeBase(mapped) as kb:
        count = write_fhir(kb, text)
    systems = [entry["resource"] for entry in json.loads(text.getvalue())["entry"]]
    registered = "SELECT url, version, concept_count FROM tx_resource WHERE resource_type = 'CodeSystem'"
    assert {row[:2]: row[2] for row in rows(file, registered)} == {
        (one["url"], one.get("version", "")): one["count"] for one in systems
    }
    assert rows(file, "SELECT count(*) FROM concept") == [(count,)]
    for one in systems:
        address = one["url"], one.get("version", "")
        assert {
            row[0]: row[1:]
            for row in rows(
                file, "SELECT code, display, definition FROM concept WHERE cs_url = ? AND cs_version = ?", *address
            )
        } == {each["code"]: (each.get("display"), each.get("definition")) for each in one["concept"]}
        designations = rows(
            file,
            "SELECT code, language, use_code, value FROM concept_designation WHERE cs_url = ? AND cs_version = ?",
            *address,
        )
        uses = {"preferredForLanguage": "display", "900000000000013009": "synonym", "exact": "synonym"}
        assert set(designations) == {
            (each["code"], named.get("language"), uses.get(named["use"]["code"], named["use"]["code"]), named["value"])
            for each in one["concept"]
            for named in each.get("designation", ())
        } | {
            (each["code"], one["language"], "display", each["display"]) for each in one["concept"] if "display" in each
        }
        assert set(
            rows(file, "SELECT code, parent_code FROM concept_parent WHERE cs_url = ? AND cs_version = ?", *address)
        ) == {
            (each["code"], value["valueCode"])
            for each in one["concept"]
            for value in each.get("property", ())
            if value["code"] == "parent"
        }
    file.close()


def test_ancestors_are_the_closure_with_the_shortest_ways(tmp_path: Path) -> None:
    table = "concept_id,name,parent\nA:1,top,\nA:2,left,A:1\nA:3,right,A:1\nA:4,low,A:2|A:3\nA:5,lowest,A:4|A:1\n"
    (tmp_path / "t.csv").write_text(table, "utf-8")
    build_kb(tmp_path / "kb", [Input("table", tmp_path / "t.csv")])
    file = written(tmp_path / "kb", tmp_path / "out.ftrm")
    found = rows(file, "SELECT descendent_code, ancestor_code, depth FROM concept_ancestor ORDER BY 1, 2")
    assert found == [
        ("A:2", "A:1", 1), ("A:3", "A:1", 1), ("A:4", "A:1", 2), ("A:4", "A:2", 1), ("A:4", "A:3", 1),
        ("A:5", "A:1", 1), ("A:5", "A:2", 2), ("A:5", "A:3", 2), ("A:5", "A:4", 1),
    ]  # fmt: skip
    file.close()


def test_search_as_the_specification_asks(house_kb: Path, tmp_path: Path) -> None:
    file = written(house_kb, tmp_path / "out.ftrm")
    search = (
        "SELECT c.code FROM concept c JOIN concept_fts f ON f.rowid = c.rowid WHERE c.cs_url = ? AND c.cs_version = ? "
        "AND f.concept_fts MATCH ? ORDER BY f.rank LIMIT 5"
    )
    assert ("H:1",) in rows(file, search, "urn:medlink:house", "", "diséase")  # accents do not count
    by_name = (
        "SELECT d.value, d.language FROM concept_designation d JOIN designation_fts f ON f.rowid = d.rowid "
        "WHERE f.designation_fts MATCH ?"
    )
    assert ("Krankheit", "de") in rows(file, by_name, "krankheit")
    file.close()


def test_mappings_are_a_concept_map(mapped: Path, tmp_path: Path) -> None:
    file = written(mapped, tmp_path / "out.ftrm")
    assert rows(file, "SELECT url, version FROM conceptmap") == [("urn:medlink:mappings", "")]
    found = rows(
        file,
        "SELECT source_code, target_system, target_code, equivalence FROM conceptmap_element "
        "WHERE source_code LIKE 'X:%' ORDER BY 1, 2",
    )
    assert found == [
        ("X:1", "http://hl7.org/fhir/sid/icd-10", "A 00.9", "relatedto"),
        ("X:1", "http://www.nlm.nih.gov/research/umls", "C1", "relatedto"),
        ("X:2", "http://snomed.info/sct", "49727002", "relatedto"),
    ]
    groups = rows(file, "SELECT DISTINCT group_idx, source_system, target_system FROM conceptmap_element")
    assert len(groups) == len({group for group, *_ in groups})  # a group for each pair of systems
    file.close()


def test_the_same_content_each_time(house_kb: Path, tmp_path: Path) -> None:
    dumps = []
    for name in ("one", "two"):
        file = written(house_kb, tmp_path / name)
        dumps.append([line for line in file.iterdump() if "tx_resource" not in line])
        file.close()
    assert dumps[0] == dumps[1]


def test_what_was_there_stays_where_it_cannot_be_written(house_kb: Path, tmp_path: Path) -> None:
    with KnowledgeBase(house_kb) as kb:
        with pytest.raises(ConfigError, match="a container is a file"):
            write_ftrm(kb, "/dev/null")
        (tmp_path / "out").write_text("old")
        kb_iter, kb.iter_names = kb.iter_names, lambda: 1 / 0  # type: ignore[method-assign,assignment,misc,return-value]
        with pytest.raises(ZeroDivisionError):
            write_ftrm(kb, tmp_path / "out")
        kb.iter_names = kb_iter  # type: ignore[method-assign]
    assert (tmp_path / "out").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
