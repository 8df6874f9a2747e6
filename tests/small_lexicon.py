"""A lexicon of some dozen rows of the shipped tables: reading and compiling all of them takes ten seconds."""

from __future__ import annotations

from pathlib import Path

from medlink.files.resources import RESOURCES
from medlink.language.lexicon.lexicon import SHIPPED
from medlink.language.lexicon.tables import shortened

_FAMILIES = frozenset(
    ("liver", "kidney", "chronic", "failure", "pain", "ear", "left (side)", "right (side)", "myocardial infarction")
)
_SHORT = frozenset(("COPD", "KHK", "MS"))


def _told() -> set[str]:
    """Abbreviations whose meaning words beside them tell: the tables of the languages expect them in the lexicon."""
    tables = (RESOURCES / "language").glob("*/abbreviations.tsv")
    return {shortened(row.partition("\t")[0]) for path in tables for row in path.read_text("utf-8").splitlines()[1:]}


def write_small_lexicon(folder: Path) -> Path:
    """Write the rows into a folder; returns it."""
    folder.mkdir()
    short = _SHORT | _told()
    for path in SHIPPED.glob("*.tsv"):
        header, *rows = path.read_text("utf-8").splitlines(keepends=True)
        cells = [row.split("\t") for row in rows]
        if path.stem in ("families", "terms"):
            rows = [row for row, (name, *_) in zip(rows, cells, strict=True) if name in _FAMILIES]
        elif path.stem == "opposites":
            rows = [row for row, (_, *both, _) in zip(rows, cells, strict=True) if {*both} <= _FAMILIES]
        elif path.stem.startswith("abbreviations"):
            rows = [row for row, (name, *_) in zip(rows, cells, strict=True) if shortened(name) in short]
        elif path.stem not in ("affixes", "function_words", "inflected"):
            rows = []
        (folder / path.name).write_text(header + "".join(rows), "utf-8")
    return folder
