"""Tables of the documents are reports of ``make bench``, and not out of date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import medlink

ROOT = Path(medlink.__file__).parents[1]


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import reports

    yield reports
    del sys.modules["reports"]


def test_quoted_tables_are_the_stored_reports(reports: Any) -> None:
    quoted = set()
    for path in reports.documents():
        for name, content in reports.quotations(path.read_text("utf-8")):
            assert content == reports.read_report(name).quoted(), f"{path.name}: {name}; run benchmarks/reports.py fill"
            quoted.add(name)
    assert quoted == {path.stem for path in reports.REPORTS.glob("*.md")}


def test_no_report_is_more_than_one_edition_old(reports: Any) -> None:
    for component, names in reports.MEASURED_BY.items():
        newest = reports.editions(component)[-1]
        assert newest["sha256"] == reports.shipped_hash(component), f"benchmarks/reports.py edition {component}"
        for name in names:
            measured = reports.read_report(name).editions[component]
            assert measured >= int(newest["edition"]) - 1, f"{name}: {component} edition {measured}; run make bench"
    stored = {path.stem: reports.read_report(path.stem) for path in reports.REPORTS.glob("*.md")}
    for name, report in stored.items():
        assert set(report.editions) == {part for part, names in reports.MEASURED_BY.items() if name in names}, name
