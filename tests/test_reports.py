"""Numbers of the documents: tables are stored reports that ``make bench`` makes, others say how they were measured."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import medlink

ROOT = Path(medlink.__file__).parents[1]
# What says where the numbers of a section come from when they are not a report's.
SOURCE = re.compile(
    r"measured\W+(?:once|with)|by hand|computed|extrapolated|measured(?:-\w+)?\.md|`(?:python )?benchmarks/",
    re.IGNORECASE,
)
# A decimal of three places, a share with a decimal, a speed, a time or a size: what is measured rather than chosen.
MEASURED = re.compile(
    r"(?<![\d.])0?\.\d{3}\b|\d\.\d+ %|\d(?:,\d{3})? [a-z ]{0,20}a second|\b\d+(?:\.\d+)? (?:seconds|minutes|MB|GB)\b"
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


def test_every_report_is_made_by_make_bench(reports: Any) -> None:
    script = (ROOT / "benchmarks" / "run.sh").read_text("utf-8")
    made = dict(re.findall(r"^report (\S+) (.+)$", script, re.MULTILINE))
    stored = {path.stem for path in reports.REPORTS.glob("*.md")}
    assert stored <= set(made)
    for name, line in made.items():
        # a report that no run has made yet cannot be quoted, so each is stored
        assert name in stored, name
        # a variable of the caller is any word
        pattern = re.sub(r"\\\$\\\{.*?\\\}", r"\\S+", " ".join(map(re.escape, _words(line))))
        command = reports.read_report(name).command
        assert re.fullmatch(f"python benchmarks/{pattern}", command), f"{name}: {command}"
        assert (ROOT / "benchmarks" / command.split()[1].removeprefix("benchmarks/")).exists()
    assert "benchmarks/run.sh" in (ROOT / "Makefile").read_text("utf-8")


def _words(line: str) -> list[str]:
    variables = {"$names": "$work/names.tsv", "$base": "${BASE}", "$work": "out/bench"}
    for name, value in variables.items():
        line = line.replace(name, value)
    return shlex.split(line)


def test_other_numbers_say_how_they_were_measured(reports: Any) -> None:
    unsaid = []
    for path in reports.documents():
        text = re.sub(r"<!-- report: .*?<!-- end -->", "(table)", path.read_text("utf-8"), flags=re.DOTALL)
        text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        for section in re.split(r"^(?=##+ )", text, flags=re.MULTILINE):
            found = MEASURED.findall(section)
            if found and not SOURCE.search(section):
                unsaid.append(f"{path.name}, {section.splitlines()[0]}: {found[:3]}")
    assert not unsaid


def test_a_report_is_stored_and_filled_in(reports: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    monkeypatch.setattr(reports, "REPORTS", tmp_path)
    monkeypatch.setattr(reports, "ROOT", tmp_path)
    (tmp_path / "README.md").write_text("<!-- report: one -->\nold\n<!-- end -->\n", encoding="utf-8")
    done = CliRunner().invoke(reports.main, ["write", "one", "--command", "python benchmarks/one.py"], input="| 1 |\n")
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(reports.main, ["write", "two", "--command", "x"], input="\n").exit_code == 1
    assert reports.read_report("one").table == "| 1 |"
    assert CliRunner().invoke(reports.main, ["fill"]).exit_code == 0
    text = (tmp_path / "README.md").read_text("utf-8")
    assert text.startswith("<!-- report: one -->\n| 1 |\n\n`python benchmarks/one.py`; measured ")
