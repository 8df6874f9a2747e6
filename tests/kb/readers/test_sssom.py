"""Mappings in SSSOM."""

from __future__ import annotations

import io
from pathlib import Path

from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.export.sssom import write_sssom
from medlink.records import Mapping, Source
from tests.kb.writers import opened_kb, read_all, read_sssom, write_lines

LINES = [
    "# curie_map:",
    "#   MONDO: http://purl.obolibrary.org/obo/MONDO_",
    "subject_id\tsubject_label\tpredicate_id\tpredicate_modifier\tobject_id\tmapping_justification",
    'MONDO:1\ta "cough\tskos:exactMatch\t\tDOID:0050890\tsemapv:ManualMappingCuration',
    "MONDO:1\ta\tskos:broadMatch\t\tORPHA:99\tsemapv:ManualMappingCuration",
    "MONDO:1\ta\towl:equivalentClass\t\tSNOMEDCT_US:49727002\tx",
    "MONDO:2\tb\toboInOwl:hasDbXref\t\tMESH:D003371\tx",
    "MONDO:2\tb\trdfs:subClassOf\t\tUMLS:C1\tx",
    "MONDO:2\tb\trdfs:seeAlso\t\tUMLS:C2\tx",
    "MONDO:2\tb\tskos:exactMatch\tNot\tUMLS:C3\tx",
    "MONDO:2\tb\tskos:exactMatch\t\tsssom:NoTermFound\tx",
    "MONDO:2\tb\tskos:exactMatch\t\tcough\tx",
    "\tb\tskos:exactMatch\t\tUMLS:C4\tx",
]


def test_everything(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "mondo.sssom.tsv", LINES)
    records, problems = read_all(read_sssom, path, share=1.0)
    name = "mondo.sssom"
    assert records == [
        Source(name, "", f"{name} (mappings)"),
        Mapping("MONDO:1", "DOID", "0050890", "exact", name),
        Mapping("MONDO:1", "Orphanet", "99", "broad", name),
        Mapping("MONDO:1", "SNOMEDCT", "49727002", "exact", name),
        Mapping("MONDO:2", "MESH", "D003371", "xref", name),
        Mapping("MONDO:2", "UMLS", "C1", "broad", name),
        Mapping("MONDO:2", "UMLS", "C2", "related", name),
    ]
    assert problems.skipped == {"comment line": 2, "mapping that is denied": 1, "no term found": 1}
    assert problems.bad == {"object without a prefix": 1, "empty id or name": 1}


def test_what_is_exported_is_read_again(tmp_path: Path) -> None:
    """Mappings to concepts that another input does not bring are left out."""
    table = write_lines(tmp_path / "t.csv", ["id,name", "MONDO:1,cough"])
    inputs = Input("table", table), Input("sssom", write_lines(tmp_path / "m.tsv", LINES[:8]))
    build_kb(tmp_path / "first", inputs)
    with KnowledgeBase(tmp_path / "first") as kb, io.StringIO() as file:
        assert write_sssom(kb, file) == 3
        before = kb.mappings("MONDO:1")
        (tmp_path / "again.tsv").write_text(file.getvalue(), "utf-8")
    with opened_kb(tmp_path / "second", Input("table", table), Input("sssom", tmp_path / "again.tsv")) as kb:
        found = {(one.system, one.code, one.type) for one in kb.mappings("MONDO:1")}
        assert found == {(one.system, one.code, one.type) for one in before}
        assert len(found) == 3
