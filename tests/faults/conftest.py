"""What the tests of faults share: the folders they start from, the size of the run, and the table it makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .faults import FULL
from .workshop import Tally, Workshop

_TABLE = "MEDLINK_FAULTS_TABLE"


@pytest.fixture(scope="session")
def full() -> bool:
    """Whether every point is run, not a sample."""
    return FULL


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Start folders, each made once."""
    return Workshop(tmp_path_factory.mktemp("faults"))


class Table:
    """Rows of the table: what was done, to what, and what came of it."""

    COLUMNS = ("old", "new", "refused", "unnoticed", "other")

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, Tally]] = []

    def take(self, fault: str, writer: str, tally: Tally) -> None:
        """Add a row, and fail where a run came to what may not be."""
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
    """The table; written in the end where the environment says so."""
    table = Table()
    yield table
    if _TABLE in os.environ:
        Path(os.environ[_TABLE]).write_text(table.text(), encoding="utf-8")
