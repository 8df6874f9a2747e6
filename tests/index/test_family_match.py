"""Names by word families in running text: in any order, in compounds, in other languages, and where there are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medlink.index.family_match import FamilyMatcher, feature_columns
from medlink.index.word_overlap import NameFeatures
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.name_analysis import shared_analyser
from medlink.language.scan import Scanner

NAMES = ["edema of the legs", "renal insufficiency", "liver cyst", "heart attack", "fever", "chest pain"]


@pytest.fixture(scope="module")
def matcher(tmp_path_factory: pytest.TempPathFactory) -> FamilyMatcher:
    folder: Path = tmp_path_factory.mktemp("families")
    names = NameFeatures.build(folder, NAMES, ["en"] * len(NAMES), shipped_forms())
    return FamilyMatcher.build(folder, names, len(NAMES))


def matched(matcher: FamilyMatcher, text: str, language: str, allowed: list[int] | None = None) -> list[str]:
    scanned = Scanner(language, shared_analyser(shipped_forms())).scan(text)
    kept = None if allowed is None else np.isin(np.arange(len(NAMES)), allowed)
    columns = feature_columns([scanned], len(shipped_forms().names))
    return [scanned.written(place) for place in sorted(matcher.match([scanned], columns, kept)[0])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "language", "wanted"),
    [
        ("Beidseits Beinödeme und Fieber.", "de", ["Beinödeme", "Fieber"]),
        ("a cyst in the left liver lobe", "en", ["cyst in the left liver"]),
        ("Quiste en el hígado", "es", ["Quiste en el hígado"]),
        ("Insuffizienz der Niere", "de", ["Insuffizienz der Niere"]),
        ("Z. n. Herzinfarkt", "de", ["Herzinfarkt"]),
        ("had a heart attack.", "en", ["heart attack"]),
        ("pain, chest clear", "en", []),
        ("pain. Chest clear", "en", []),
        ("liver and kidney cysts", "en", ["liver and kidney cysts"]),
        ("cyst of the small and the left and the upper liver", "en", []),
        ("", "en", []),
        ("...", "de", []),
    ],
)
def test_spans_of_names(matcher: FamilyMatcher, text: str, language: str, wanted: list[str]) -> None:
    assert matched(matcher, text, language) == wanted


def test_only_names_that_are_allowed(matcher: FamilyMatcher) -> None:
    text = "fever and chest pain"
    assert matched(matcher, text, "en") == ["fever", "chest pain"]
    assert matched(matcher, text, "en", [NAMES.index("fever")]) == ["fever"]
    assert matched(matcher, text, "en", []) == []


def test_every_span_of_a_long_text_is_found(matcher: FamilyMatcher) -> None:
    sentence = "The patient had fever on the day before. "
    assert matched(matcher, sentence * 500, "en") == ["fever"] * 500
    no_stop = "fever and chill " * 700
    assert matched(matcher, no_stop, "en") == ["fever"] * 700


@pytest.mark.slow
def test_texts_matched_together_are_matched_as_each_alone(matcher: FamilyMatcher) -> None:
    texts = ["Beinödeme und Fieber", "", "Insuffizienz der Niere. Fieber"]
    scanner = Scanner("de", shared_analyser(shipped_forms()))
    scanned = [scanner.scan(text) for text in texts]
    together = matcher.match(scanned, feature_columns(scanned, len(shipped_forms().names)))
    read = [[one.written(place) for place in sorted(spans)] for one, spans in zip(scanned, together, strict=True)]
    assert read == [matched(matcher, text, "de") for text in texts]
    assert read[0] == ["Beinödeme", "Fieber"]
