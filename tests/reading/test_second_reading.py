"""Benchmarks of reading: sentences with bad mistakes (``benchmarks/gold/second_reading.tsv``), and qualifiers."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from medlink.index import Bundle
from tests.scripts import benchmark

pytestmark = pytest.mark.slow


def test_what_was_once_read_right_stays_so(hpo: Path) -> None:
    script = benchmark("second_reading")
    bundle, rows = Bundle(hpo), list(script.sentences())
    read = script.read(bundle, rows)
    right = [script.is_right(bundle, row, note) for row, note in zip(rows, read, strict=True)]
    assert [row.text for row, good in zip(rows, right, strict=True) if not good and not row.is_open] == []
    assert sum(right) >= 0.88 * len(rows)


def test_each_kind_has_ten_sentences_beside_the_examples() -> None:
    rows = list(benchmark("second_reading").sentences())
    for kind in {row.kind for row in rows}:
        assert sum(row.kind == kind for row in rows) >= 40, kind
    assert all(row.text[found.start : found.end] for row in rows for found in row.expected)


def test_recall_and_precision_of_qualifiers(shared: Path) -> None:
    result = CliRunner().invoke(benchmark("status").main, catch_exceptions=False)
    assert result.exit_code == 0
    cells = [line.strip("| ").split(" | ") for line in result.output.splitlines()]
    absent, written = ([float(cell.split()[4]) for cell in row[1:]] for row in cells if row[0] == "`absent`")
    historical, *_ = ([float(cell.split()[4]) for cell in row[1:]] for row in cells if row[0] == "`historical`")
    assert min(absent) >= 0.92
    assert min(written) >= 0.92
    assert all(value >= least for value, least in zip(historical, (0.70, 0.70, 0.55), strict=True))
