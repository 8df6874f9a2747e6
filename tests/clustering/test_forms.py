"""Forms: what is one node from the start, and who speaks for it."""

from __future__ import annotations

import pytest

from medlink.clustering.forms import find_forms
from medlink.clustering.terms import Terms


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


def test_who_speaks_for_a_node() -> None:
    """By frequency, then length, then text."""
    terms = Terms.of(
        [("fevers", 5, "", ""), ("fever", 5, "", ""), ("FEVER", 5, "", ""), ("b", 9, "", ""), ("a", 1, "", "")]
    )
    forms = find_forms(terms)
    assert [terms.texts[row] for row in forms.row] == ["FEVER", "b", "a"]
    assert forms.rank.tolist() == [3, 2, 1, 0, 4]
    more = Terms.of([("fevers", 6, "", ""), ("fever", 5, "", "")])
    assert more.texts[int(find_forms(more).row[0])] == "fevers"


def test_none_and_progress() -> None:
    assert len(find_forms(Terms.of([]))) == 0
    seen: list[int] = []
    find_forms(Terms.of((f"term {i}", 1, "", "") for i in range(5000)), seen.append)
    assert seen == [4096]
