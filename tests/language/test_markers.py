"""Markers: what counts as one in the three languages."""

from __future__ import annotations

import pytest

from medlink.language.markers import markers
from medlink.language.text import normalise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("diabetes", []),
        ("type 2 diabetes 1", ["2", "1"]),
        ("Typ-2-Diabetes", ["2"]),
        ("diabetes tipo II", ["2"]),
        ("diabetes tipo 02", ["2"]),
        ("grade 0", ["0"]),
        ("stage IIb", ["2", "b"]),
        ("Stadium IIIA", ["3", "a"]),
        ("estadio 2b", ["2", "b"]),
        ("factor XIII", ["13"]),
        ("factor XX", ["20"]),
        ("vitamin B12", ["b", "12"]),
        ("vitamin B 12", ["b", "12"]),
        ("del(4q26)", ["4", "q", "26"]),
        ("CHMP2B gene", ["2", "b"]),
        ("T-cell lymphoma", ["t"]),
        # words, not letters
        ("fiebre y dolor a la presión", []),
        ("úlcera o erosión", []),
        ("Crohn's disease", []),
        ("via oral", []),
        ("hepatitis A", ["a"]),
        ("a fever", []),
        # letters of other alphabets are none
        ("ñ é", ["n"]),
        ("β 2", ["2"]),
    ],
)
def test_markers(text: str, expected: list[str]) -> None:
    assert markers(normalise(text)) == expected
