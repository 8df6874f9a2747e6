"""Guards: pairs of terms that must, and must not, be separated."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from medlink.clustering.guards import COMPARED, KINDS, NESTED, OVERLAP, SAME, Guards, separating_kinds
from medlink.language.guard_words import GuardReader
from tests.tables import cases

with (Path(__file__).parents[1] / "language" / "guard_cases.tsv").open(encoding="utf-8", newline="") as file:
    CASES = [tuple(row.values()) for row in csv.DictReader(file, delimiter="\t")]

READER = GuardReader()


def separated(one: str, other: str, language: str = "", second: str | None = None) -> str:
    guards = Guards([one, other], [language, language if second is None else second])
    there, back = guards.apart(np.array([0, 1]), np.array([1, 0]))
    assert there == back
    assert (KINDS[there] in separating_kinds(one, other, language, language if second is None else second, READER)) == (
        there > 0
    )
    return KINDS[there]


@pytest.mark.slow
@pytest.mark.parametrize(("language", "one", "other", "kind"), CASES)
def test_cases_of_reviewers(language: str, one: str, other: str, kind: str) -> None:
    """Pairs that speakers of the three languages found wrong."""
    assert separated(one, other, language) == kind


@pytest.mark.parametrize(("kind", "one", "other", "language"), cases(__file__, "guard_pairs.tsv"))
def test_separated(kind: str, one: str, other: str, language: str) -> None:
    """Without a language all rules apply."""
    assert separated(one, other, language) == separated(one, other) == kind


def test_ways_to_compare() -> None:
    """``same`` separates {a, b} from {a}, ``nested`` only {1, 2} from {2, 3}, ``overlap`` neither; ``equal`` also
    counts a missing value.
    """
    assert (COMPARED["number"], COMPARED["letter"], COMPARED["course"]) == (NESTED, SAME, OVERLAP)
    assert separated("vitamin c and d", "vitamin d") == "letter"
    assert separated("grade 1 stage 2", "stage 2") == ""
    assert separated("grade 1 stage 2", "grade 1 stage 3") == "number"
    assert separated("stage 1", "stage 2") == "number"
    assert separated("type 1 diabetes", "diabetes") == ""
    assert separated("acute and chronic pain", "chronic cough") == ""
    assert separated("right arm", "arm") == "laterality"
    assert separated("TVP MID", "TVP MII") == separated("LLE pain", "RLE pain") == "laterality"


@pytest.mark.slow
def test_words_and_whole_terms_say_the_same() -> None:
    """Terms read together, by their words, are separated as two terms that are read one by one."""
    terms = [(text, tag) for language, one, other, _ in CASES for text in (one, other) for tag in (language, "")]
    terms += [
        (text, "") for text in ("liver", "liver biopsy", "CT of the liver", "liver function", "no fever", "fever")
    ]
    guards = Guards(*zip(*terms, strict=True))
    rows, cols = np.arange(len(terms)).repeat(6), np.random.default_rng(1).integers(0, len(terms), 6 * len(terms))
    rows, cols = np.append(rows, np.arange(len(terms) - 2)), np.append(cols, np.arange(2, len(terms)))
    found = guards.kinds(rows, cols)
    assert found.any(axis=0)[1:].sum() > 15
    assert Guards([], []).apart(rows[:0], cols[:0]).tolist() == []
    for separated_by, row, col in zip(found, rows.tolist(), cols.tolist(), strict=True):
        (one, language), (other, second) = terms[row], terms[col]
        kinds = {KINDS[number] for number in np.flatnonzero(separated_by)}
        assert kinds == separating_kinds(one, other, language, second, READER)


def test_a_subtype_follows_a_type_or_an_abbreviation() -> None:
    """*Is* and *If* at the beginning are words."""
    assert separated("CDG type IIg", "CDG2G", "en") == separated("Is febrile", "If febrile", "en") == ""


def test_numbers_of_pairs() -> None:
    guards = Guards(["type 1 of 3", "type III", "type"], ["en"] * 3)
    shared, most = guards.numbers(np.array([0, 1, 0]), np.array([1, 2, 2]))
    assert (shared.tolist(), most.tolist()) == ([1, 0, 0], [2, 1, 2])


@pytest.mark.parametrize("term", ["kein Sturz", "no cough", "sin tos", "keine Hinweise auf Sepsis", "without rash"])
def test_a_term_that_denies(term: str) -> None:
    others = ["Kopfschmerz ohne Aura", "non small cell carcinoma", "Unruhe", "afebrile"]
    assert Guards([term, *others], [""] * 5).denied.tolist() == [True, False, False, False, False]
