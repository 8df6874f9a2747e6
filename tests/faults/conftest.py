"""Start folders, the size of the run, and its table."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .fault_runner import FaultRunner, Tally
from .faults import FULL

_TABLE = "MEDLINK_FAULTS_TABLE"


@pytest.fixture(scope="session")
def full() -> bool:
    """Whether every point is run, not a sample."""
    return FULL


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> FaultRunner:
    """Start folders, each made once."""
    return FaultRunner(tmp_path_factory.mktemp("faults"))


class Table:
    """Rows of the table: fault, writer, and how the runs ended."""

    COLUMNS = ("old", "new", "refused", "unnoticed", "other")

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, Tally]] = []

    def add(self, fault: str, writer: str, tally: Tally) -> None:
        """Add a row; fail if a run had a problem."""
        self.rows.append((fault, writer, tally))
        assert tally.runs
        assert not tally.problems, f"{len(tally.problems)} of {tally.runs}:\n" + "\n".join(tally.problems[:5])

    def text(self) -> str:
        """The table as Markdown."""
        lines = [f"| fault | of | runs | {' | '.join(self.COLUMNS)} |", "|---|---|" + "---:|" * 6]
        for fault, writer, tally in self.rows:
            counts = " | ".join(str(tally.found[column]) for column in self.COLUMNS)
            lines.append(f"| {fault} | {writer} | {tally.runs} | {counts} |")
        return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def table() -> Iterator[Table]:
    """The table, written at the end into the file that the environment names."""
    table = Table()
    yield table
    if _TABLE in os.environ:
        Path(os.environ[_TABLE]).write_text(table.text(), encoding="utf-8")
