"""Where running texts say names: in any order, in compounds, in other languages, and where they do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medlink.index.heard import Anchors, hear
from medlink.index.said import SaidNames
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.reading import FamilyReader

NAMES = ["edema of the legs", "renal insufficiency", "liver cyst", "heart attack", "fever", "chest pain"]


@pytest.fixture(scope="module")
def anchors(tmp_path_factory: pytest.TempPathFactory) -> Anchors:
    folder: Path = tmp_path_factory.mktemp("heard")
    said = SaidNames.build(folder, NAMES, ["en"] * len(NAMES), shipped_forms())
    return Anchors.build(folder, said, len(NAMES))


def said(anchors: Anchors, text: str, language: str, allowed: list[int] | None = None) -> list[str]:
    heard = hear(text, language, FamilyReader(shipped_forms()))
    kept = None if allowed is None else np.isin(np.arange(len(NAMES)), allowed)
    places = sorted(anchors.places_of_names(heard, kept))
    return [text[heard.words[first].start : heard.words[stop - 1].end] for first, stop in places]


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
def test_places_of_names(anchors: Anchors, text: str, language: str, wanted: list[str]) -> None:
    assert said(anchors, text, language) == wanted


def test_only_names_that_are_allowed(anchors: Anchors) -> None:
    text = "fever and chest pain"
    assert said(anchors, text, "en") == ["fever", "chest pain"]
    assert said(anchors, text, "en", [NAMES.index("fever")]) == ["fever"]
    assert said(anchors, text, "en", []) == []


def test_every_place_of_a_long_text_is_found(anchors: Anchors) -> None:
    """Names are looked up block by block; no block ends in a clause."""
    sentence = "The patient had fever on the day before. "
    assert said(anchors, sentence * 500, "en") == ["fever"] * 500
    no_stop = "fever and chill " * 700
    assert said(anchors, no_stop, "en") == ["fever"] * 700


def test_words_have_clauses_and_kinds() -> None:
    heard = hear("Kein Fieber, aber Husten der Lunge", "de", FamilyReader(shipped_forms()))
    assert [word.clause for word in heard.words] == [0, 0, 1, 1, 1, 1]
    fever, lung = heard.words[1], heard.words[-1]
    assert ("finding" in fever.kinds, "body" in lung.kinds, "finding" in lung.kinds) == (True, True, False)
    assert heard.words[-2].function
    assert (heard.starts[1], heard.ends[1]) == (5, 11)
