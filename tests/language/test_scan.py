"""The one tokeniser of running text: tokens, words, clauses, phrases."""

from __future__ import annotations

import sys

import pytest

from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.name_analysis import shared_analyser
from medlink.language.scan import ScannedText, Scanner
from medlink.language.text import exact_words, normalise

TEXT = "Kein Fieber, aber Husten der Lunge"


def scan(text: str, language: str = "de") -> ScannedText:
    return Scanner(language, shared_analyser(shipped_forms())).scan(text)


def test_words_have_clauses_and_kinds() -> None:
    found = scan(TEXT)
    assert [word.clause for word in found.words] == [0, 0, 1, 1, 1, 1]
    fever, lung = found.words[1], found.words[-1]
    assert ("finding" in fever.kinds, "body" in lung.kinds, "finding" in lung.kinds) == (True, True, False)
    assert found.words[-2].function
    assert (found.starts[1], found.ends[1]) == (5, 11)
    assert found.place(5, 11) == (1, 2)
    assert found.span((1, 2)) == (5, 11)
    assert found.written((3, 4)) == "Husten"


@pytest.mark.parametrize(("text", "tokens"), [
    ("Hb 7,9 am 12.03.2010.", ["Hb", "7,9", "am", "12", ".", "03", ".", "2010", "."]),
    ("Typ-2-Diabetes/Crohn's", ["Typ", "-", "2", "-", "Diabetes", "/", "Crohn's"]),
    ("a ---------- b --- c", ["a", "----------", "b", "-", "-", "-", "c"]),
    ("CD4+ Fieber+ NADPH+", ["CD4", "+", "Fieber", "+", "NADPH", "+"]),
])  # fmt: skip
def test_tokens(text: str, tokens: list[str]) -> None:
    found = scan(text)
    assert [token.text for token in found.tokens] == tokens
    assert [text[token.start : token.end] for token in found.tokens] == tokens


def test_a_plus_belongs_to_a_formula_and_to_no_word() -> None:
    found = scan("CD4+ Fieber+ NADPH+ a+b")
    assert [found.written((at, at + 1)) for at in range(len(found.words))] == ["CD4+", "Fieber", "NADPH+", "a", "b"]
    assert [word.entry.exact for word in found.words] == ["cd4+", "fieber", "nadph+", "a", "b"]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "language"), [
    ("Crohn's Typ-2, Ödem. Größe ½ m², 3.5 mg", "de"),
    ("El niño no tiene fiebre; «tos» (seca)", "es"),
    ("Pa\u0308tient wi\u00adth T2DM", "en"),
])  # fmt: skip
def test_words_are_those_of_names(text: str, language: str) -> None:
    found = scan(text, language)
    assert [(word.start, word.end, word.entry.exact) for word in found.words] == [
        tuple(token) for token in exact_words(text, language)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("hidden", ["\u200b", "\u2060", "\ufeff", "\u200b\ufeff"])
@pytest.mark.parametrize(("language", "text", "words"), [
    ("de", "Kein Fieber~Husten, Lungen~ödem, Leber~zyste", ["Kein", "Fieber", "Husten", "Lungen~ödem", "Leber~zyste"]),
    ("en", "fever~cough and head~ache, neph~ritis", ["fever", "cough", "and", "head~ache", "neph~ritis"]),
    ("es", "fiebre~tos; neu~monía, fie~bre", ["fiebre", "tos", "neu~monía", "fie~bre"]),
])  # fmt: skip
def test_what_is_not_seen_parts_two_words_and_not_one(language: str, text: str, words: list[str], hidden: str) -> None:
    found = scan(text.replace("~", hidden), language)
    assert [found.written((at, at + 1)) for at in range(len(found.words))] == [
        word.replace("~", hidden) for word in words
    ]
    assert [word.entry.exact for word in found.words] == [normalise(word.replace("~", "")) for word in words]


def test_phrases_are_the_longest_from_left_to_right() -> None:
    found = scan("Patient with shortness of breath. Shortness of. Breath", "en")
    assert {found.written(place) for place in found.phrases} == {"shortness of breath"}
    place = next(iter(found.phrases))
    assert found.meanings(place) == found.phrases[place] != ()


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["Der Patient hat Fieber. ", "-", "(", "?", "_ ", "*", "•", "…", "HWS ", "a"])
def test_work_grows_with_the_length_of_a_text(unit: str) -> None:
    """Four times the text makes at most five times the calls."""
    scanner = Scanner("de", shared_analyser(shipped_forms()))
    scanner.scan(unit * 5000)  # parts of words are kept

    def calls(count: int) -> int:
        made = 0

        def count_call(*_: object) -> None:
            nonlocal made
            made += 1

        text = unit * count
        sys.setprofile(count_call)
        try:
            scanner.scan(text)
        finally:
            sys.setprofile(None)
        return made

    assert calls(4000) < 5 * calls(1000) + 200
