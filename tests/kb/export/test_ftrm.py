"""FTRM export: mappings, equal output each time, and outputs that cannot be written."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import ConfigError
from medlink.kb import KnowledgeBase
from medlink.kb.export.ftrm import write_ftrm


def written(kb_path: Path, out: Path) -> sqlite3.Connection:
    with KnowledgeBase(kb_path) as kb:
        write_ftrm(kb, out)
    return sqlite3.connect(f"file:{out}?mode=ro", uri=True)


def rows(file: sqlite3.Connection, statement: str, *given: str) -> list[Any]:
    return file.execute(statement, given).fetchall()


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
