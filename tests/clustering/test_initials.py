"""Initials: abbreviations found in what others write out, and what a term says of itself."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.clustering.initials import ENOUGH, Initials, both_forms, explains, stated
from medlink.language.exact import normalise_all
from medlink.language.text import is_short

RARE = [f"word{at} other{at} third{at}" for at in range(50)]  # so that common words weigh little


@pytest.mark.parametrize("text", ["COPD", "HbA1c", "EPOC", "KHK", "TNF-alpha-R"])
def test_short(text: str) -> None:
    assert is_short(text) == (len(text) <= 10)


@pytest.mark.parametrize("text", ["Asthma", "copd", "T4", "A", "", "DM II", "4711"])
def test_not_short(text: str) -> None:
    assert not is_short(text)


def test_explains_worked_by_hand() -> None:
    assert explains("COPD", "chronic obstructive pulmonary disease")
    assert explains("EKG", "Elektrokardiogramm")
    assert explains("EPOC", "enfermedad pulmonar obstructiva crónica")
    assert not explains("EPOC", "pulmonar enfermedad obstructiva crónica")
    assert not explains("COPD", "chronic obstructive disease of lungs")
    assert not explains("COPD", "cop")
    assert not explains("", "fever")


def test_both_forms() -> None:
    assert both_forms("Lungenembolie (LE)") == ("Lungenembolie", "LE")
    assert both_forms("LE (Lungenembolie)") == ("Lungenembolie", "LE")
    assert both_forms("fever (FUO)") is None
    assert both_forms("fever") is None


def said(*texts: str) -> set[frozenset[str]]:
    """The pairs of terms that a term of the list says to be the same."""
    pairs = stated(texts, normalise_all(texts))
    assert all(one < other for one, other in pairs)
    return {frozenset((texts[one], texts[other])) for one, other in pairs}


def test_a_term_that_gives_both_says_that_they_are_the_same() -> None:
    both, long = "koronare Herzkrankheit (KHK)", "koronare Herzkrankheit"
    assert said("KHK", both, long) == {frozenset((both, long)), frozenset(("KHK", long)), frozenset(("KHK", both))}
    assert said("KHK", both) == {frozenset(("KHK", both))}
    assert said(both, long.upper()) == {frozenset((both, long.upper()))}
    assert said("KHK", long) == said(both) == said() == set()


def test_an_abbreviation_with_two_long_forms_is_of_none() -> None:
    both = "Lungenembolie (LE)", "Lupus erythematodes (LE)"
    assert said("LE", *both) == set()
    assert said("LE", "Lungenembolie", *both) == {frozenset(("Lungenembolie", both[0]))}
    # a word that is no abbreviation is not meant
    assert said("le", both[0]) == set()


def explained(one: str, other: str) -> float:
    texts = [one, other, *RARE]
    there, back = (
        Initials(texts).of(*ends)[0] for ends in ((np.array([0]), np.array([1])), (np.array([1]), np.array([0])))
    )
    assert there.tolist() == back.tolist()
    return float(there[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CMT4D", "Charcot-Marie-Tooth type 4D"),
        ("COPD", "chronic obstructive pulmonary disease"),
        ("GSD due to hepatic enzyme deficiency", "Glycogen storage disease due to hepatic enzyme deficiency"),
        ("CDG2G", "Congenital disorder of glycosylation type IIg"),
        ("síndrome de TBC", "síndrome de tos bronquial crónica"),
    ],
)
def test_what_is_written_out_is_explained_whole(one: str, other: str) -> None:
    assert explained(one, other) == pytest.approx(1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CMT", "Tooth-Marie-Charcot"),  # another order
        ("CMT4D", "arthritis of the knee"),
        ("COPD", "COPD"),  # nothing is left to explain
        ("Cmt", "Charcot-Marie-Tooth"),  # no capitals
        ("GSD", "Glycogen storage disease due to hepatic enzyme deficiency of several organs"),  # most is left over
    ],
)
def test_what_is_no_abbreviation_is_not_explained(one: str, other: str) -> None:
    assert explained(one, other) == 0


def test_the_share_explained_worked_by_hand() -> None:
    """Four words, each in one of two terms: all weigh 1 + log(3/2). ABC stands for three of four: 3/4."""
    found = Initials(["ABC", "alpha beta carotene excess"])
    assert (found.one.tolist(), found.other.tolist(), found.letters.tolist()) == ([0], [1], [3])
    assert found.explained.round(6).tolist() == [0.75]
    assert ENOUGH < 0.75


def test_what_is_stated_is_explained_whole() -> None:
    """All pairs of an abbreviation, the long form and the term that gives both are stated."""
    texts = ["EKG", "Elektrokardiogramm", "Elektrokardiogramm (EKG)"]
    found = Initials(texts)
    explained, letters, told = found.of(np.array([1, 1, 0]), np.array([0, 2, 2]))
    assert told.tolist() == [True, True, True]
    assert explained.tolist() == [1, 1, 1]
    assert letters.tolist() == [0, 0, 0]  # no initials of words in a row
    assert found.of(np.array([0]), np.array([0]))[2].tolist() == [False]


def test_an_abbreviation_that_fits_too_much_says_nothing() -> None:
    many = ["alpha beta"] * 70
    assert len(Initials(["AB", *many]).one) == 70
    assert not len(Initials([*["AB"] * 70, *many]).one)


def test_no_terms() -> None:
    found = Initials([])
    assert [values.tolist() for values in found.of(np.zeros(0, np.int64), np.zeros(0, np.int64))] == [[], [], []]
