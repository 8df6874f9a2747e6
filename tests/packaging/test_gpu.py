"""``docs/reference/gpu.md`` names every file that speaks of GPUs, and lines that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import medlink

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(medlink.__file__).parent
ROWS = re.findall(
    r"^\| `(medlink/[\w/]+\.py)` \| `(.+?)` \|", (ROOT / "docs" / "reference" / "gpu.md").read_text("utf-8"), re.M
)


def test_every_file_that_speaks_of_gpus_is_named() -> None:
    speaks = re.compile(r"torch\.cuda|gpu_copy\(|\"cuda\"|all_gather\(|GpuClonerOptions|PartialState\(")
    found = {str(p.relative_to(PACKAGE.parent)) for p in PACKAGE.rglob("*.py") if speaks.search(p.read_text("utf-8"))}
    assert found
    assert found <= {file for file, _ in ROWS}


@pytest.mark.parametrize(("file", "line"), ROWS)
def test_the_lines_are_there(file: str, line: str) -> None:
    assert line in (PACKAGE.parent / file).read_text("utf-8")
