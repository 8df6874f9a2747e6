"""Abbreviations that a note defines: medlink's detector, that of scispaCy, and results of a pipeline."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import spacy

from medlink.errors import ConfigError
from medlink.reading.abbreviations import make_detector
from tests.reading.bundles import cases

WHY = "scispaCy is an extra: medlink[scispacy]"


def pairs(language: str, text: str, choice: str = "builtin") -> dict[str, str]:
    find = make_detector(choice, language)
    assert find is not None
    return {text[start:end]: long for (start, end), long in find(text).items()}


@pytest.mark.parametrize(("language", "text", "wanted"), cases("definitions_of_abbreviations"))
def test_definitions_of_abbreviations(language: str, text: str, wanted: dict[str, str]) -> None:
    assert pairs(language, text) == wanted


def test_every_occurrence_has_the_first_definition() -> None:
    find = make_detector("builtin", "en")
    assert find is not None
    text = "MS? Mitral stenosis (MS). MSX, MS. multiple sclerosis (MS)"
    found = find(text)
    assert [text[start:end] for start, end in found] == ["MS"] * 4
    assert set(found.values()) == {"Mitral stenosis"}


@pytest.mark.slow
def test_many_brackets_take_linear_time() -> None:
    assert pairs("en", "( " * 20_000 + "fever" + " )" * 20_000) == {}
    assert pairs("en", "(AB) " * 20_000) == {}


def test_the_detector_of_scispacy() -> None:
    pytest.importorskip("scispacy", reason=WHY)
    text = "Mitral stenosis (MS) was known. The MS is severe."
    assert pairs("en", text, "scispacy") == pairs("en", text) == {"MS": "Mitral stenosis"}


def test_scispacy_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scispacy", None)
    monkeypatch.setitem(sys.modules, "scispacy.abbreviation", None)
    with pytest.raises(ConfigError, match=r"scispaCy's abbreviation detector needs .*medlink\[scispacy\]"):
        make_detector("scispacy", "en")
    assert make_detector("none", "en") is None


@pytest.mark.slow
@pytest.mark.parametrize("serializable", [False, True])
def test_abbreviations_of_a_pipeline_are_used(demo_path: Path, *, serializable: bool) -> None:
    pytest.importorskip("scispacy.abbreviation", reason=WHY)  # registers its factory
    nlp = spacy.blank("en")
    nlp.add_pipe("abbreviation_detector", config={"make_serializable": serializable})
    nlp.add_pipe("medlink_mentions", config={"bundle": str(demo_path)})
    nlp.add_pipe("biolord_linker", config={"bundle": str(demo_path)})
    doc = nlp("Mitral stenosis (MS) was known. The MS is severe.")
    assert [s._.medlink["expanded"] for s in doc.ents] == [None, "Mitral stenosis", "Mitral stenosis"]
