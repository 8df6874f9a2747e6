"""``docs/reference/gpu.md`` names every file with code for GPUs, and lines of these files."""

from __future__ import annotations

import re
from pathlib import Path

import medlink

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(medlink.__file__).parent
ROWS = re.findall(
    r"^\| `(medlink/[\w/]+\.py)` \| `(.+?)` \|", (ROOT / "docs" / "reference" / "gpu.md").read_text("utf-8"), re.M
)


def test_every_file_with_code_for_gpus_is_named() -> None:
    pattern = re.compile(r"torch\.cuda|gpu_copy\(|\"cuda\"|all_gather\(|GpuClonerOptions|PartialState\(")
    found = {str(p.relative_to(PACKAGE.parent)) for p in PACKAGE.rglob("*.py") if pattern.search(p.read_text("utf-8"))}
    assert found
    assert found <= {file for file, _ in ROWS}


def test_the_lines_exist() -> None:
    for file, line in ROWS:
        assert line in (PACKAGE.parent / file).read_text("utf-8"), (file, line)
