"""SSSOM tables as they are written.

The reference reader, sssom-py, needs other versions of many libraries than medlink pins. So what is written is read by
pandas and PyYAML and held against the required slots and the form of the ids in the specification of SSSOM 1.0.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import pandas as pd
import yaml

from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.export.sssom import COLUMNS, write_sssom

REQUIRED = ("subject_id", "predicate_id", "object_id", "mapping_justification")
CURIE = re.compile(r"[A-Za-z][\w.-]*:[^\s|]+")


def written(path: Path) -> tuple[dict[str, object], pd.DataFrame, int]:
    file = io.StringIO()
    with KnowledgeBase(path) as kb:
        count = write_sssom(kb, file)
    lines = file.getvalue().splitlines(keepends=True)
    head = "".join(line[2:] for line in lines if line.startswith("# "))
    body = "".join(line for line in lines if not line.startswith("#"))
    table = pd.read_csv(io.StringIO(body), sep="\t", dtype=str, keep_default_na=False)
    return yaml.safe_load(head), table, count


def test_rows(mapped: Path) -> None:
    _, table, count = written(mapped)
    assert tuple(table.columns) == COLUMNS
    assert count == len(table)
    rows = {tuple(row) for row in table.itertuples(index=False)}
    justified = "semapv:UnspecifiedMatching"
    assert rows == {
        ("X:1", '"cyst sac', "oboInOwl:hasDbXref", "UMLS:C1", justified, "X", "UMLS", ""),
        ("X:1", '"cyst sac', "oboInOwl:hasDbXref", "ICD10:A%2000.9", justified, "X", "ICD-10", ""),
        ("X:2", "cough", "oboInOwl:hasDbXref", "SNOMEDCT:49727002", justified, "X", "SNOMEDCT_US", ""),
        ("ALPHAID:I9", "Zucker", "skos:broadMatch", "ICD10GM:E10", justified, "Alpha-ID", "ICD-10-GM", ""),
        ("ALPHAID:I9", "Zucker", "skos:relatedMatch", "ICD10GM:B95.0", justified, "Alpha-ID", "ICD-10-GM", ""),
    }


def test_types_without_a_predicate(tmp_path: Path) -> None:
    from tests.kb.readers import test_omop

    build_kb(tmp_path / "kb", [Input("omop", test_omop.write(tmp_path / "v"))])
    _, table, _ = written(tmp_path / "kb")
    kinds = {row.object_id: (row.predicate_id, row.comment) for row in table.itertuples()}
    assert kinds["ICD10GM:code3"] == ("skos:relatedMatch", "type maps_to")
    assert kinds["SNOMEDCT:code2"] == ("skos:exactMatch", "")


def test_as_the_specification_says(mapped: Path) -> None:
    head, table, _ = written(mapped)
    prefixes = head["curie_map"]
    assert isinstance(prefixes, dict)
    assert isinstance(head["mapping_set_id"], str)
    assert isinstance(head["license"], str)
    for column in REQUIRED:
        for curie in table[column]:
            assert CURIE.fullmatch(curie)
            assert curie.partition(":")[0] in prefixes
    assert prefixes["ICD10GM"] == "http://fhir.de/CodeSystem/bfarm/icd-10-gm/"
    assert prefixes["SNOMEDCT"] == "http://snomed.info/id/"
    assert prefixes["X"] == "urn:medlink:X:"


def test_no_mappings(house_kb: Path) -> None:
    _, table, count = written(house_kb)
    assert (len(table), count) == (0, 0)
