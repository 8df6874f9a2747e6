"""Options that several readers share: source, version and language."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medlink.kb.readers.claml import read_claml
from medlink.kb.readers.fhir import read_fhir
from medlink.kb.readers.obo import read_obo
from medlink.kb.readers.obograph import read_obograph
from medlink.records import Name, Source
from tests.kb.readers import test_claml, test_fhir, test_obo, test_obograph
from tests.kb.writers import write_lines

INFO = [{"pred": "http://www.w3.org/2002/07/owl#versionInfo", "val": "7.1"}]
NODES = [test_obograph.node("X_1")]
WITHOUT_LANGUAGE = test_claml.CLASSES.replace(' xml:lang="de"', "")
FHIR = {key: value for key, value in test_fhir.CODE_SYSTEM.items() if key != "language"}


@pytest.mark.parametrize(
    ("reader", "write", "version", "title"),
    [
        (read_obo, lambda path: write_lines(path, test_obo.FILE.splitlines()), "2026-07-31", 'Demo "Ontology"'),
        (read_obograph, lambda path: test_obograph.write(path, NODES, basicPropertyValues=INFO), "7.1", "S"),
        (read_fhir, lambda path: test_fhir.write(path, FHIR), "2", "Codes of the ward"),
        (read_claml, lambda path: test_claml.write(path, WITHOUT_LANGUAGE), "2024", "ICD der Tests"),
    ],
)
def test_options(
    reader: Callable[..., Any], write: Callable[[Path], Path], version: str, title: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "x")
    assert next(reader(path)).version == version
    records = list(reader(path, source="S", version="9", language="fr"))
    assert records[0] == Source("S", "9", title)
    assert {record.source for record in records if hasattr(record, "source")} == {"S"}
    assert next(record for record in records if isinstance(record, Name)).language == "fr"
