"""Acts: what a term names, what is left of it, and which pairs are apart; more pairs stand in ``guard_cases.tsv``."""

from __future__ import annotations

import pytest

from medlink.language.guard_words import GuardReader
from medlink.language.languages import languages

acts_of = GuardReader().acts


@pytest.mark.parametrize(
    ("term", "language", "named", "rests"),
    [
        ("Biopsy of the liver", "en", {"biopsy"}, {"en liver"}),
        ("Chest X-rays", "en", {"xray"}, {"en chest"}),
        ("blood tests", "en", set(), {"en blood"}),
        ("CT-guided liver biopsy", "en", {"ct", "biopsy"}, {"en guid liver"}),
        ("Nierenbiopsie", "de", {"biopsy"}, {"de nier"}),
        ("Röntgen-Thorax", "de", {"xray"}, {"de thorax"}),
        ("Blinddarm-OP", "de", set(), {"de blinddarm"}),
        ("trasplante de riñón", "es", {"transplant"}, {"es riñon"}),
        ("anatomy", "en", set(), {"en anatomi"}),
        ("CT", "en", {"ct"}, set()),
        ("", "en", set(), set()),
        ("microscopy", "en", set(), {"en microscopi"}),
        ("Molar tooth sign on MRI", "en", set(), {"en molar sign tooth"}),
        ("Raumforderung im MRT", "de", set(), {"de raumforder"}),
        ("nódulo en la ecografía", "es", set(), {"es nodul"}),
    ],
)
def test_what_a_term_says(term: str, language: str, named: set[str], rests: set[str]) -> None:
    acts = acts_of(term, language)
    assert (acts.named, acts.rests) == (named, {rest.replace("ñ", "n") for rest in rests})
    assert acts.any == (bool(named) or term in ("blood tests", "Blinddarm-OP"))


def test_without_a_language_the_rules_of_all_are_read() -> None:
    assert acts_of("Nierenbiopsie").named == acts_of("biopsia renal").named == {"biopsy"}
    assert {rest.partition(" ")[0] for rest in acts_of("liver").rests} == {*languages()}
    # the rest of a term in another language is another word
    assert not acts_of("liver", "en").differ(acts_of("Leberbiopsie", "de"))


def test_general_acts_may_be_any_other() -> None:
    removal, surgery, biopsy, plain = (
        acts_of(f"{act} gallbladder".strip()) for act in ("removal", "surgery", "biopsy", "")
    )
    assert not removal.differ(surgery)
    assert not surgery.differ(biopsy)
    assert removal.differ(biopsy)
    assert surgery.differ(plain)
    assert plain.differ(surgery)
    assert not plain.differ(plain)
