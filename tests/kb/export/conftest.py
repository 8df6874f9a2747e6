"""What the tests of several formats write."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.kb import Input, build_kb
from tests.kb.readers import test_claml
from tests.kb.writers import write_lines

OBO = [
    "[Term]", "id: X:1", "name: \"cyst\tsac", "xref: UMLS:C1", "xref: ICD-10: A 00.9", "",
    "[Term]", "id: X:2", "name: cough", "xref: SNOMEDCT_US:49727002",
]  # fmt: skip


@pytest.fixture
def mapped(tmp_path: Path) -> Path:
    """Concepts of an ontology, of a classification and of German terms, with mappings."""
    alpha = write_lines(tmp_path / "alpha.txt", ["1|I9|E10||B95.0!|||Zucker"])
    inputs = [
        Input("claml", test_claml.write(tmp_path / "icd.xml")),
        Input("obo", write_lines(tmp_path / "x.obo", OBO)),
        Input("alphaid", alpha),
    ]
    build_kb(tmp_path / "kb", inputs)
    return tmp_path / "kb"
