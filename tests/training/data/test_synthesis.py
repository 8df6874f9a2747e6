"""Synthetic names: numbers after what they number, plurals, no Latin forms among native words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medlink.language.lexicon import Lexicon
from medlink.language.lexicon.forms import shipped_forms
from medlink.training.data.synthesis import Synthesiser

Make = Callable[[str, str], set[str | None]]


@pytest.fixture(scope="module")
def make(lexicon: Lexicon) -> Make:
    """The results of sixty attempts at a name in a language."""
    makers = {language: Synthesiser(lexicon, language, forms=shipped_forms()) for language in ("de", "es")}
    return lambda text, language: {makers[language].make(text) for _ in range(60)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "language", "name"),
    [
        ("kidney cyst", "de", "Nierenzyste"),
        ("cyst of kidney", "de", "Zyste der Niere"),
        ("congenital heart disease", "es", "cardiopatía congénita"),
        ("chronic renal failure", "es", "insuficiencia renal crónica"),
    ],
)
def test_a_name(text: str, language: str, name: str, make: Make) -> None:
    assert name in make(text, language)


def test_word_forms(make: Make) -> None:
    stages = make("lung cancer stage IIA", "de")
    assert all(name is not None and name.endswith("IIA") and "-IIA" not in name for name in stages)
    assert not any("ciónes" in (name or "") for name in make("brain malformations", "es"))
    assert not any("cystic" in (name or "") for name in make("cyst of kidney", "de"))
    assert make("xyzzy qqqq", "de") == make("xyzzy qqqq", "es") == {None}


@pytest.mark.slow
def test_the_same_seed_gives_the_same_names(lexicon: Lexicon) -> None:
    makers = [Synthesiser(lexicon, "de", 7, shipped_forms()) for _ in range(2)]
    first, second = ([maker.make("bilateral kidney cysts") for _ in range(5)] for maker in makers)
    assert first == second
