"""Figures of the documents: tables are reports of ``make bench`` and not out of date; others state their origin."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import medlink

ROOT = Path(medlink.__file__).parents[1]
# States the origin of figures that are no report's.
SOURCE = re.compile(
    r"measured\W+(?:once|with)|by hand|computed|extrapolated|measured(?:-\w+)?\.md|`(?:python )?benchmarks/",
    re.IGNORECASE,
)
# A decimal of three places, a share with a decimal, a speed, a time or a size: measured rather than chosen.
MEASURED = re.compile(
    r"(?<![\d.])0?\.\d{3}\b|\d\.\d+ %|\d(?:,\d{3})? [a-z ]{0,20}a second|\b\d+(?:\.\d+)? (?:seconds|minutes|MB|GB)\b"
)

# Date and commit of a single experiment; the other two are a rule and the head of a table with a column for them.
DATED = re.compile(
    r"once, by hand(?:,? on \d{4}-\d\d-\d\d(?: to [\d-]+)?, commits? [0-9a-f]{7}|\*\.|, on the dates and commits)"
)


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


def test_other_figures_state_how_they_were_measured(reports: Any) -> None:
    without = []
    for path in reports.documents():
        text = re.sub(r"<!-- report: .*?<!-- end -->", "(table)", path.read_text("utf-8"), flags=re.DOTALL)
        text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        for section in re.split(r"^(?=##+ )", text, flags=re.MULTILINE):
            found = MEASURED.findall(section)
            if found and not SOURCE.search(section):
                without.append(f"{path.name}, {section.splitlines()[0]}: {found[:3]}")
        flat = " ".join(text.split())
        without += [
            f"{path.name}: {hand[0]}" for hand in re.finditer(r"once, by hand.{60}", flat) if not DATED.match(hand[0])
        ]
    assert not without


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
