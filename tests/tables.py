"""Tables of cases, one row a line, in files beside their tests."""

from __future__ import annotations

from pathlib import Path

from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb


def cases(test: str, name: str) -> list[tuple[str, ...]]:
    """The rows of a table beside the file of a test, below its header."""
    text = Path(test).with_name(name).read_text("utf-8")
    return [tuple(line.split("\t")) for line in text.splitlines()[1:]]


def bundle_of_table(folder: Path, test: str, name: str) -> Bundle:
    """A bundle of the names in a table beside the file of a test."""
    build_kb(folder / "kb.sqlite", [Input("table", Path(test).with_name(name))])
    return Bundle(build_bundle(folder / "bundle", kb=folder / "kb.sqlite", encoder="builtin").folder)
