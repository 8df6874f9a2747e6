"""Abbreviations paired with the terms that write them out, or that state both forms."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.clustering.abbreviations import AbbreviationPairs, is_abbreviation_of, split_long_short, stated_pairs
from medlink.language.exact import normalise_all
from tests.tables import cases

RARE = [f"word{at} other{at} third{at}" for at in range(50)]  # so that common words weigh little


@pytest.mark.parametrize(
    ("short", "long", "is_one"),
    [
        ("COPD", "chronic obstructive pulmonary disease", True),
        ("EKG", "Elektrokardiogramm", True),
        ("EPOC", "enfermedad pulmonar obstructiva crónica", True),
        ("EPOC", "pulmonar enfermedad obstructiva crónica", False),
        ("COPD", "chronic obstructive disease of lungs", False),
        ("COPD", "cop", False),
        ("", "fever", False),
    ],
)
def test_a_term_with_both_forms(short: str, long: str, is_one: bool) -> None:
    assert is_abbreviation_of(short, long) == is_one
    for text in (f"{long} ({short})", f"{short} ({long})"):
        assert split_long_short(text) == ((long, short) if is_one else None)


def stated(*texts: str) -> set[frozenset[str]]:
    """The pairs of terms that a term of the list states to be the same."""
    pairs = stated_pairs(texts, normalise_all(texts))
    assert all(one < other for one, other in pairs)
    return {frozenset((texts[one], texts[other])) for one, other in pairs}


def test_stated_pairs() -> None:
    both, long = "koronare Herzkrankheit (KHK)", "koronare Herzkrankheit"
    assert stated("KHK", both, long) == {frozenset((both, long)), frozenset(("KHK", long)), frozenset(("KHK", both))}
    assert stated("KHK", both) == {frozenset(("KHK", both))}
    assert stated(both, long.upper()) == {frozenset((both, long.upper()))}
    assert stated("KHK", long) == stated(both) == stated() == set()


def test_an_abbreviation_with_two_long_forms() -> None:
    both = "Lungenembolie (LE)", "Lupus erythematodes (LE)"
    assert stated("LE", *both) == set()
    assert stated("LE", "Lungenembolie", *both) == {frozenset(("Lungenembolie", both[0]))}
    # "le" is not an abbreviation
    assert stated("le", both[0]) == set()


def explained(one: str, other: str) -> float:
    texts = [one, other, *RARE]
    there, back = (
        AbbreviationPairs(texts).lookup(*ends)[0]
        for ends in ((np.array([0]), np.array([1])), (np.array([1]), np.array([0])))
    )
    assert there.tolist() == back.tolist()
    return float(there[0])


@pytest.mark.parametrize(("one", "other", "share"), cases(__file__, "abbreviations.tsv"))
def test_explained(one: str, other: str, share: str) -> None:
    assert explained(one, other) == pytest.approx(float(share))


def test_the_share_explained_worked_by_hand() -> None:
    """Four words, each in one of two terms: all weigh 1 + log(3/2). ABC stands for three of four: 3/4."""
    found = AbbreviationPairs(["ABC", "alpha beta carotene excess"])
    assert (found.one.tolist(), found.other.tolist(), found.letters.tolist()) == ([0], [1], [3])
    assert found.explained.round(6).tolist() == [0.75]


def test_stated_pairs_are_explained() -> None:
    """All pairs of the abbreviation, the long form, and the term with both."""
    texts = ["EKG", "Elektrokardiogramm", "Elektrokardiogramm (EKG)"]
    found = AbbreviationPairs(texts)
    explained, letters, pairs = found.lookup(np.array([1, 1, 0]), np.array([0, 2, 2]))
    assert pairs.tolist() == [True, True, True]
    assert explained.tolist() == [1, 1, 1]
    assert letters.tolist() == [0, 0, 0]  # no initials of words in a row
    assert found.lookup(np.array([0]), np.array([0]))[2].tolist() == [False]


def test_a_frequent_abbreviation_is_ignored() -> None:
    many = ["alpha beta"] * 70
    assert len(AbbreviationPairs(["AB", *many]).one) == 70
    assert not len(AbbreviationPairs([*["AB"] * 70, *many]).one)


def test_no_terms() -> None:
    found = AbbreviationPairs([])
    assert [values.tolist() for values in found.lookup(np.zeros(0, np.int64), np.zeros(0, np.int64))] == [[], [], []]
