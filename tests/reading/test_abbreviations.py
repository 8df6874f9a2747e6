"""Abbreviations that a note defines: medlink's detector, that of scispaCy, and results of a pipeline."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import spacy

from medlink.errors import ConfigError
from medlink.reading.abbreviations import make_detector

WHY = "scispaCy is an extra: medlink[scispacy]"


def pairs(language: str, text: str, choice: str = "builtin") -> dict[str, str]:
    find = make_detector(choice, language)
    assert find is not None
    return {text[start:end]: long for (start, end), long in find(text).items()}


@pytest.mark.parametrize(
    ("language", "text", "found"),
    [
        ("de", "Bekannte Mitralklappenstenose (MKS), die MKS ist stabil.", {"MKS": "Mitralklappenstenose"}),
        (
            "de",
            "chronisch obstruktive Lungenerkrankung (COLE, seit 2010)",
            {"COLE": "chronisch obstruktive Lungenerkrankung"},
        ),
        ("de", "CT (Computertomographie) ohne Befund", {"CT": "Computertomographie"}),
        ("de", "COPD (chronisch obstruktive pulmonale Dyspnoe)", {"COPD": "chronisch obstruktive pulmonale Dyspnoe"}),
        ("es", "frecuencia cardíaca (FC): 80", {"FC": "frecuencia cardíaca"}),
        ("es", "Ácido úrico (AU) normal", {"AU": "Ácido úrico"}),
        ("es", "enfermedad pulmonar obstructiva crónica (EPOC)", {"EPOC": "enfermedad pulmonar obstructiva crónica"}),
        ("en", "1. Dilation and curettage (D&C).,2. Lap", {"D&C": "Dilation and curettage"}),
        ("en", "the heart rate, heat shock factor (HSF)", {"HSF": "heat shock factor"}),
        # no abbreviation at all
        ("de", "weight (kg) und Größe (links) sowie AST (37 U/l)", {}),
        ("es", "en la cara inferior (II, III y aVF)", {}),
        ("en", "He left. Mitral stenosis was known\n\n(MS)", {}),
        ("en", "PSA (PSA serum assay)", {}),
        ("en", "()( ) (A) (((MS)", {}),
    ],
)
def test_definitions_of_abbreviations(language: str, text: str, found: dict[str, str]) -> None:
    assert pairs(language, text) == found


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
