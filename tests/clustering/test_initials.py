"""Initials: abbreviations found in what others write out."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.clustering.initials import ENOUGH, Initials

RARE = [f"word{at} other{at} third{at}" for at in range(50)]  # so that common words weigh little


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


def test_an_abbreviation_that_fits_too_much_says_nothing() -> None:
    many = ["alpha beta"] * 70
    assert len(Initials(["AB", *many]).one) == 70
    assert not len(Initials([*["AB"] * 70, *many]).one)


def test_no_terms() -> None:
    found = Initials([])
    assert found.of(np.zeros(0, np.int64), np.zeros(0, np.int64))[0].tolist() == []
