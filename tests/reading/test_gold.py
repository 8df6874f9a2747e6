"""Status on the gold of notes, by the benchmark that its report is made with."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from tests.scripts import BENCHMARKS, benchmark

MARK = re.compile(r"\{([-?<>@]?)([^{}|]+)\|(~?)([^{}|]+)\}")


@pytest.fixture(scope="module")
def status() -> ModuleType:
    return benchmark("status")


def test_absent_findings_are_read_as_absent(status: ModuleType, shared: Path) -> None:
    result = CliRunner().invoke(status.main, catch_exceptions=False)
    assert result.exit_code == 0
    cells = [line.strip("| ").split(" | ") for line in result.output.splitlines()]
    absent, written = ([float(cell.split()[4]) for cell in row[1:]] for row in cells if row[0] == "`absent`")
    historical, *_ = ([float(cell.split()[4]) for cell in row[1:]] for row in cells if row[0] == "`historical`")
    assert min(absent) >= 0.92
    assert min(written) >= 0.92
    assert all(one >= least for one, least in zip(historical, (0.70, 0.70, 0.55), strict=True))


def test_without_the_notes_it_says_so(status: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "DATA", tmp_path)
    result = CliRunner().invoke(status.main)
    assert result.exit_code == 1
    assert "the notes of the gold are not here" in result.output


def test_quotes_are_found_as_the_guidelines_count_them() -> None:
    places = benchmark("annotated").places
    text = "DS im ADS, DS. Leber- und\nNiereninsuffizienz"
    assert places(text, "DS", "2") == [(11, 13)]
    assert places(text, "ADS", "1") == [(6, 9)]
    assert places(text, "Leber- ... insuffizienz", "1") == [(15, 21), (32, 44)]
    assert places(text, "und Niereninsuffizienz", "1") == [(22, 44)]
    assert places(text, "DS", "@7") == [(7, 9)]


@pytest.mark.parametrize(("language", "texts", "findings"), [("de", 143, 3221), ("es", 91, 2110), ("en", 65, 1795)])
def test_every_brace_is_a_finding(language: str, texts: int, findings: int) -> None:
    text = (BENCHMARKS / f"gold/written/{language}.txt").read_text("utf-8")
    assert (len(re.findall("^=== .", text, re.MULTILINE)), len(MARK.findall(text))) == (texts, findings)
    assert not set("{}|") & set(MARK.sub("", text))


def test_places_and_signs(shared: Path) -> None:
    annotated = benchmark("annotated")
    for language in ("de", "es", "en"):
        for text in annotated.written_texts(language):
            assert not set("{}|") & set(text.text)
            for one in text.findings:
                ((start, end),) = one.pieces
                words = text.text[start:end]
                assert words == words.strip() != ""
                assert one.concepts <= annotated.phenotypes()
    first = next(iter(annotated.written_texts("de")))
    denied = [first.text[slice(*one.pieces[0])] for one in first.findings if one.said.presence == "absent"]
    assert denied[:2] == ["AP-Beschwerden", "Synkopen"]
    assert first.concepts > first.affirmed
