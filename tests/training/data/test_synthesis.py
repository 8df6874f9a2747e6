"""Names made of English ones: numbers behind what they number, plurals, no Latin forms among native words."""

from __future__ import annotations

import pytest

from medlink.language.lexicon import Lexicon
from medlink.language.lexicon.forms import shipped_forms
from medlink.training.data.synthesis import Synthesiser

LEXICON, FORMS = Lexicon(), shipped_forms()


def made(text: str, language: str) -> set[str | None]:
    """What a hundred tries make of a name."""
    maker = Synthesiser(LEXICON, language, forms=FORMS)
    return {maker.make(text) for _ in range(100)}


@pytest.mark.parametrize(
    ("text", "language", "name"),
    [
        ("kidney cyst", "de", "Nierenzyste"),
        ("cyst of kidney", "de", "Zyste der Niere"),
        ("congenital heart disease", "es", "cardiopatía congénita"),
        ("chronic renal failure", "es", "insuficiencia renal crónica"),
    ],
)
def test_a_name(text: str, language: str, name: str) -> None:
    assert name in made(text, language)


def test_a_stage_stands_behind_the_name() -> None:
    assert all(
        name is not None and name.endswith("IIA") and "-IIA" not in name for name in made("lung cancer stage IIA", "de")
    )


def test_a_spanish_plural() -> None:
    assert not any("ciónes" in (name or "") for name in made("brain malformations", "es"))


def test_no_latin_forms() -> None:
    assert not any("cystic" in (name or "") for name in made("cyst of kidney", "de"))


def test_what_nobody_knows_is_refused() -> None:
    assert made("xyzzy qqqq", "de") == made("xyzzy qqqq", "es") == {None}


def test_one_seed_makes_the_same_names() -> None:
    one, other = (
        [Synthesiser(LEXICON, "de", 7, FORMS).make("bilateral kidney cysts") for _ in range(5)] for _ in range(2)
    )
    assert one == other
