"""The texts that were written with their findings can be read, and say what their signs say."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.scripts import BENCHMARKS, benchmark

GOLD = BENCHMARKS / "gold/written"
MARK = re.compile(r"\{([-?<>@]?)([^{}|]+)\|(~?)([^{}|]+)\}")


@pytest.fixture(scope="module")
def annotated() -> ModuleType:
    return benchmark("annotated")


@pytest.mark.parametrize(("language", "texts", "findings"), [("de", 143, 3221), ("es", 91, 2110), ("en", 65, 1795)])
def test_every_brace_is_a_finding(language: str, texts: int, findings: int) -> None:
    text = (GOLD / f"{language}.txt").read_text("utf-8")
    assert (len(re.findall("^=== .", text, re.MULTILINE)), len(MARK.findall(text))) == (texts, findings)
    assert not set("{}|") & set(MARK.sub("", text))


def test_places_and_signs(annotated: ModuleType, shared: Path) -> None:
    for language in ("de", "es", "en"):
        for text in annotated.written_texts(language):
            assert not set("{}|") & set(text.text)
            for one in text.findings:
                words = text.text[one.start : one.end]
                assert words == words.strip() != ""
                assert one.concepts <= annotated.phenotypes()
    first = next(iter(annotated.written_texts("de")))
    denied = [first.text[one.start : one.end] for one in first.findings if one.said.presence == "absent"]
    assert denied[:2] == ["AP-Beschwerden", "Synkopen"]
    assert first.concepts > first.affirmed
