"""A knowledge base of two names."""

from __future__ import annotations

from pathlib import Path

from medlink.kb import Input, build_kb


def small_kb(path: Path, name: str = "fever") -> Path:
    """Build it, from a table beside it; returns its path."""
    table = path.with_suffix(".tsv")
    table.write_text(f"concept_id\tname\tlanguage\nX:1\t{name}\ten\nX:2\tcough\ten\n", encoding="utf-8")
    build_kb(path, [Input("table", table)])
    return path
