"""Forms: what is one node from the start, and who speaks for it."""

from __future__ import annotations

import pytest

from medlink.clustering.terms import Terms, find_forms


def nodes(*rows: tuple[str, str], frequency: int = 1) -> list[int]:
    return find_forms(Terms.of((text, frequency, language, "") for text, language in rows)).node.tolist()


@pytest.mark.parametrize(
    ("one", "other", "language", "same"),
    [
        ("Crohn’s disease", "CROHN DISEASE", "en", True),
        ("Nierenzyste", "Nierenzysten", "de", True),
        ("riñón derecho", "Riñones derechos", "es", True),
        ("uña", "unas", "es", False),
        ("pain", "painful", "en", False),
        ("Typ I", "Typ 1", "de", True),
        ("type 1", "type 2", "en", False),
        ("kidney", "Niere", "", False),
    ],
)
def test_same_form(one: str, other: str, language: str, same: bool) -> None:
    assert (nodes((one, language), (other, language)) == [0, 0]) == same


def test_inflection_needs_one_language() -> None:
    assert nodes(("Nierenzyste", "de"), ("Nierenzysten", "")) == [0, 0]
    assert nodes(("Nierenzyste", "en"), ("Nierenzysten", "en")) == [0, 1]


def test_terms_without_letters_are_the_same_to_the_letter_only() -> None:
    assert nodes(("---", ""), ("...", ""), ("--- ", "")) == [0, 1, 2]
    assert nodes(("---", ""), ("---", "en")) == [0, 0]


def speaks(*rows: tuple[str, int]) -> list[str]:
    """The terms that speak for the nodes of a list of terms with their frequencies."""
    terms = Terms.of((text, frequency, "", "") for text, frequency in rows)
    return [terms.texts[row] for row in find_forms(terms).row]


def test_who_speaks_for_a_node() -> None:
    """By the frequency of the exact form, then by accents, frequency, length and text."""
    terms = Terms.of(
        [("fevers", 5, "", ""), ("fever", 5, "", ""), ("FEVER", 5, "", ""), ("b", 9, "", ""), ("a", 1, "", "")]
    )
    forms = find_forms(terms)
    assert [terms.texts[row] for row in forms.row] == ["FEVER", "b", "a"]
    assert forms.rank.tolist() == [3, 1, 0, 2, 4]  # fever and FEVER are one form of 10
    assert speaks(("fevers", 11), ("fever", 5), ("FEVER", 5)) == ["fevers"]
    assert speaks(("fever", 5), ("FEVER", 4), ("fevers", 8)) == ["fever"]


def test_the_spelling_with_accents_speaks() -> None:
    assert speaks(("nausea", 9), ("náusea", 1)) == ["náusea"]
    assert speaks(("nausea", 9), ("náusea", 1), ("NÁUSEA", 2)) == ["NÁUSEA"]
    # of two forms the more frequent one, whatever their accents
    assert speaks(("riñon", 1), ("riñones", 2)) == ["riñones"]


def test_none_and_progress() -> None:
    assert len(find_forms(Terms.of([]))) == 0
    seen: list[int] = []
    find_forms(Terms.of((f"term {i}", 1, "", "") for i in range(5000)), seen.append)
    assert seen == [4096]
