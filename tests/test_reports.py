"""Figures of the documents: tables are reports of ``make bench`` and not out of date; others state their origin."""

from __future__ import annotations

import re
import shlex
import subprocess
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


@pytest.mark.slow
def test_commits_of_reports_and_editions_exist(reports: Any) -> None:
    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs the history of the repository")
    commits = {reports.read_report(path.stem).commit.split()[0] for path in reports.REPORTS.glob("*.md")}
    commits |= {row["commit"].split()[0] for part in reports.MEASURED_BY for row in reports.editions(part)}
    for path in reports.documents():
        commits |= set(re.findall(r"commits?\s+([0-9a-f]{7})\b", path.read_text("utf-8")))
    missing = [one for one in commits if git("merge-base", "--is-ancestor", one, "HEAD").returncode]
    assert not missing


def test_a_report_is_stored_and_filled_in(reports: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    monkeypatch.setattr(reports, "REPORTS", tmp_path)
    monkeypatch.setattr(reports, "MEASURED_BY", {"encoder": {"one"}, "lexicon": set()})
    monkeypatch.setattr(reports, "commit", lambda: "0123456 with changes")
    newest = len(reports.editions("encoder"))

    def run(*arguments: str, given: str = "") -> Any:
        return CliRunner().invoke(reports.main, list(arguments), input=given)

    done = run("write", "one", "--command", "python benchmarks/one.py", given="| 1 |\n")
    assert done.exit_code == 0, done.output
    assert run("write", "two", "--command", "x", given="\n").exit_code == 1
    report = reports.read_report("one")
    assert (report.table, report.commit, report.editions) == ("| 1 |", "0123456 with changes", {"encoder": newest})
    assert (tmp_path / "one.md").read_text("utf-8") == report.stored()
    (tmp_path / "README.md").write_text("<!-- report: one -->\nold\n<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(reports, "ROOT", tmp_path)
    assert run("fill").exit_code == 0
    text = (tmp_path / "README.md").read_text("utf-8")
    origin = f"measured {report.date}, commit 0123456 with changes, encoder edition {newest}; "
    assert text.startswith(f"<!-- report: one -->\n| 1 |\n\n`python benchmarks/one.py`; {origin}")


def test_an_edition_is_appended_once(reports: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    shipped = tmp_path / "families.marisa"
    shipped.write_bytes(b"new")
    editions = tmp_path / "editions.tsv"
    editions.write_text("component\tedition\tdate\tcommit\tsha256\nlexicon\t1\t2026-11-20\t0123456\tabc\n", "utf-8")
    monkeypatch.setattr(reports, "EDITIONS", editions)
    monkeypatch.setitem(reports.SHIPPED, "lexicon", shipped)
    monkeypatch.setattr(reports, "commit", lambda: "89abcde")
    for _ in range(2):
        assert CliRunner().invoke(reports.main, ["edition", "lexicon"]).exit_code == 0
    assert [(row["edition"], row["commit"]) for row in reports.editions("lexicon")] == [
        ("1", "0123456"),
        ("2", "89abcde"),
    ]
