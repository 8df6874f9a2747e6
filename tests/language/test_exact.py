"""The exact forms of many names at once are those of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medlink.language.exact import markers, normalise_all
from medlink.language.text import normalise

# what the rules look at, and letters that have more than one form or change what stands beside them
_ODD = (
    "aAsSzZ019'’`´ .,+-_()/\t\r\n\u00a0\u200b\u00ad\u0301\u0308ßüñśš"
    "\u0160µ²½™·ﬁŉİǅйαςΐ٣５＇｀病か\u3099ﾞ한\u1100\u1161\u11a8\ue000\ue001\ue002\u2028\x1c\0"
)
_TEXT = st.text(st.one_of(st.sampled_from(_ODD), st.characters(exclude_categories=("Cs",))), max_size=12)


@given(st.lists(_TEXT, max_size=6))
def test_many_as_each(texts: list[str]) -> None:
    assert normalise_all(texts) == [normalise(text) for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize("around", ["a%sb", "'%s", "1,%s5", "s%s'x", "%s+"])
def test_every_letter(around: str) -> None:
    texts = [around % chr(code) for code in range(0x3200) if chr(code) != "\n"]
    assert normalise_all(texts) == [normalise(text) for text in texts]


def test_worked_by_hand() -> None:
    names = [
        "Crohn's  disease ", "CD4+ T-cells", "1,25-(OH)2", "Graves' type", "", " - ", "Gefäßverschluß", "two\nlines",
    ]  # fmt: skip
    forms = ["crohn disease", "cd4+ t cells", "1.25 oh 2", "graves type", "", "", "gefassverschluss", "two lines"]
    assert normalise_all(names) == forms
    assert normalise_all([]) == []
    assert normalise_all([""]) == [""]
    # a quote of another shape counts as one only where a name has more than plain letters
    assert normalise_all(["rock`n", "röck`n"]) == ["rock n", "rockn"]


@pytest.mark.parametrize(("text", "expected"), [
    ("", []), ("diabetes", []), ("type 2 diabetes 1", ["2", "1"]), ("Typ-2-Diabetes", ["2"]),
    ("diabetes tipo II", ["2"]), ("diabetes tipo 02", ["2"]), ("grade 0", ["0"]), ("stage IIb", ["2", "b"]),
    ("Stadium IIIA", ["3", "a"]), ("estadio 2b", ["2", "b"]), ("factor XIII", ["13"]), ("factor XX", ["20"]),
    ("vitamin B12", ["b", "12"]), ("vitamin B 12", ["b", "12"]), ("del(4q26)", ["4", "q", "26"]),
    ("CHMP2B gene", ["2", "b"]), ("T-cell lymphoma", ["t"]),
    # words, not letters
    ("fiebre y dolor a la presión", []), ("úlcera o erosión", []), ("Crohn's disease", []), ("via oral", []),
    ("hepatitis A", ["a"]), ("a fever", []),
    # letters of other alphabets are none
    ("ñ é", ["n"]), ("β 2", ["2"]),
])  # fmt: skip
def test_markers(text: str, expected: list[str]) -> None:
    assert markers(normalise(text)) == expected
