"""What a terminal or a spreadsheet would take for something else than text."""

from __future__ import annotations

import csv
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medlink.files.escapes import escape_cell, escape_controls, unescape_cell

pytestmark = pytest.mark.slow

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30)
CELLS = st.text(alphabet="=+-@'\"a b|(", max_size=6)
BIDI = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@given(TEXTS)
def test_nothing_commands_a_terminal_and_json_holds_the_same(text: str) -> None:
    shown = escape_controls(text)
    assert not any(unicodedata.category(mark) == "Cc" or unicodedata.bidirectional(mark) in BIDI for mark in shown)
    assert json.loads(escape_controls(json.dumps(text, ensure_ascii=False))) == text


@given(st.lists(CELLS.map(lambda text: " ".join(text.split())), min_size=2, max_size=4))
def test_cells_read_back_the_same_whoever_reads_them(texts: list[str]) -> None:
    line = "\t".join(map(escape_cell, texts))
    for cells in (line.split("\t"), next(csv.reader([line], "excel-tab"))):
        assert [unescape_cell(cell) for cell in cells] == texts
        assert not any(cell.startswith(("=", "+", "-", "@", '"')) for cell in cells)
