"""Start folders, the size of the run, and its table, which a later run completes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from .fault_runner import FaultRunner, Tally
from .faults import FULL

_DONE = os.environ.get("MEDLINK_FAULTS_DONE")
COLUMNS = ("old", "new", "refused", "unnoticed", "other")


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

    def __init__(self, node: pytest.Item) -> None:
        self._node = node

    def add(self, fault: str, writer: str, tally: Tally) -> None:
        """Add a row; fail if a run had a problem."""
        counts = [tally.runs, *(tally.found[column] for column in COLUMNS)]
        self._node.user_properties.append(("row", [fault, writer, *counts]))
        assert tally.runs
        assert not tally.problems, f"{len(tally.problems)} of {tally.runs}:\n" + "\n".join(tally.problems[:5])


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Table:
    return Table(request.node)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what an earlier run has done."""
    if _DONE and Path(_DONE).exists():
        done = {json.loads(line)["test"] for line in Path(_DONE).read_text("utf-8").splitlines()}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
        items[:] = [item for item in items if item.nodeid not in done]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down a test that passed, with its rows, at once."""
    if _DONE and report.when == "call" and report.passed:
        rows = [row for name, row in report.user_properties if name == "row"]
        with open(_DONE, "a", encoding="utf-8") as file:
            file.write(json.dumps({"test": report.nodeid, "rows": rows}) + "\n")
