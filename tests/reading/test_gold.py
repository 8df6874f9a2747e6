"""Qualifiers against annotated notes, by the benchmark of the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.scripts import benchmark


@pytest.mark.slow
def test_recall_and_precision_of_qualifiers(shared: Path) -> None:
    result = CliRunner().invoke(benchmark("status").main, catch_exceptions=False)
    assert result.exit_code == 0
    cells = [line.strip("| ").split(" | ") for line in result.output.splitlines()]
    absent, written = ([float(cell.split()[4]) for cell in row[1:]] for row in cells if row[0] == "`absent`")
    historical, *_ = ([float(cell.split()[4]) for cell in row[1:]] for row in cells if row[0] == "`historical`")
    assert min(absent) >= 0.92
    assert min(written) >= 0.92
    assert all(value >= least for value, least in zip(historical, (0.70, 0.70, 0.55), strict=True))
