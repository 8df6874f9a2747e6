"""Abbreviations: what looks like one, what explains it, and when it joins."""

from __future__ import annotations

import numpy as np
import pytest

from medlink.clustering.abbreviations import (
    both_forms,
    explains,
    initials,
    join_abbreviations,
    keep_concepts_apart,
)
from medlink.language.text import is_short


def joined(*texts: str, group: list[int] | None = None) -> list[tuple[str, str]]:
    pairs = join_abbreviations(texts, np.array(group if group is not None else range(len(texts)), dtype=np.int64))
    return [(texts[one], texts[other]) for one, other in pairs]


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
    assert both_forms("fever (FUO)") is None
    assert both_forms("fever") is None


def test_initials() -> None:
    assert initials("enfermedad de la piel") == {"edlp", "ep"}
    assert initials("Lungenembolie") == set()
    assert initials("of the") == {"ot", ""}


def test_joins_where_one_cluster_fits() -> None:
    long = "chronic obstructive pulmonary disease"
    assert joined("COPD", long, "asthma") == [("COPD", long)]
    assert joined(long, "COPD") == [("COPD", long)]
    # two clusters fit: left where it is
    assert joined("COPD", long, "cerebral organic psychotic disorder") == []
    # of one cluster two names fit: one join
    assert joined("COPD", long, "Chronic Obstructive Pulmonary Disorder", group=[0, 1, 1]) == [("COPD", long)]
    # three letters are not enough, and a term that stands with others stays
    assert joined("DMT", "diabetes mellitus type") == []
    assert joined("COPD", "lung trouble", long, group=[0, 0, 1]) == []
    assert joined() == []


def test_a_term_that_gives_both_is_evidence() -> None:
    assert joined("KHK", "koronare Herzkrankheit (KHK)", "koronare Herzkrankheit") == [
        ("koronare Herzkrankheit (KHK)", "koronare Herzkrankheit"),
        ("KHK", "koronare Herzkrankheit"),
    ]
    assert joined("KHK", "koronare Herzkrankheit (KHK)") == [("KHK", "koronare Herzkrankheit (KHK)")]
    assert joined("LE", "Lungenembolie (LE)", "Lupus erythematodes (LE)") == []


def test_concepts_are_kept_apart_in_chains_too() -> None:
    """Two abbreviations of two concepts fit one group: the second stays out."""
    none: frozenset[str] = frozenset()
    named = [frozenset(["C1"]), frozenset(["C2"]), none, frozenset(["C1", "C3"])]
    group = np.arange(4)
    assert keep_concepts_apart([(0, 2), (1, 2), (3, 2)], group, named) == [(0, 2), (3, 2)]
    assert keep_concepts_apart([(0, 2), (1, 2)], group, []) == [(0, 2), (1, 2)]
    assert keep_concepts_apart([(2, 0), (2, 0)], group, named) == [(2, 0), (2, 0)]
    assert keep_concepts_apart([], np.zeros(0, dtype=np.int64), []) == []
