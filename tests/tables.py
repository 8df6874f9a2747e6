"""Tables of cases, one row a line, in files beside their tests."""

from __future__ import annotations

from pathlib import Path


def cases(test: str, name: str) -> list[tuple[str, ...]]:
    """The rows of a table beside the file of a test, below its header."""
    text = Path(test).with_name(name).read_text("utf-8")
    return [tuple(line.split("\t")) for line in text.splitlines()[1:]]
