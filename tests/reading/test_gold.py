"""Status on the gold of notes, by the benchmark that its report is made with."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tests.scripts import benchmark


def test_absent_findings_are_read_as_absent(shared: Path) -> None:
    result = CliRunner().invoke(benchmark("status").main, catch_exceptions=False)
    assert result.exit_code == 0
    cells = [line.strip("| ").split(" | ") for line in result.output.splitlines()]
    absent, written = ([float(cell.split()[4]) for cell in row[1:]] for row in cells if row[0] == "`absent`")
    historical, *_ = ([float(cell.split()[4]) for cell in row[1:]] for row in cells if row[0] == "`historical`")
    assert min(absent) >= 0.92
    assert min(written) >= 0.92
    assert all(one >= least for one, least in zip(historical, (0.70, 0.70, 0.55), strict=True))
