"""Guard words and acts of a term; more pairs are in ``guard_cases.tsv``."""

from __future__ import annotations

import pytest

from medlink.clustering.guards import COMPARED
from medlink.language.guard_words import GuardReader
from medlink.language.languages import Persons, language_data, languages

guard_values, negated_words, acts_of = GuardReader().values, GuardReader().negated, GuardReader().acts


def test_negated_words_worked_by_hand() -> None:
    negated, asserted = negated_words("carcinoma sin metástasis", "es")
    assert (sorted(negated), sorted(asserted)) == (["metastasis"], ["carcinom", "carcinoma"])
    assert negated_words("", "en") == (frozenset(), frozenset())


def test_a_word_between_that_ends_the_term_is_negated() -> None:
    assert negated_words("no history", "en")[0] == {"histori", "history"}
    assert negated_words("no history of pain", "en")[0] == {"pain"}


def test_without_a_language_the_words_between_are_those_of_all() -> None:
    assert negated_words("no significant pain")[0] == {"pain"}
    assert negated_words("no significant pain", "es")[0] == {"significant"}


def test_what_is_not_read() -> None:
    assert guard_values("Länge 3 cm", "de") == {("number", "3")}
    assert guard_values("lange Finger", "de") == {("size", "large")}
    assert guard_values("Z. n. Sepsis", "de") == guard_values("V.a. Sepsis", "de") == frozenset()
    assert guard_values("li. Arm", "de") == guard_values("li Arm", "de") == {("laterality", "left")}
    assert guard_values("li. Arm") == frozenset()


def test_a_kind_that_needs_the_company_of_a_word() -> None:
    assert guard_values("local anaesthesia", "en") == guard_values("Lokalanästhesie") == {("anaesthesia", "local")}
    assert guard_values("local pain", "en") == frozenset()
    # a word of any language that a term is read by serves
    assert ("anaesthesia", "general") in guard_values("Narkose general")
    assert guard_values("acute pain, spinal anesthesia", "en") == {("course", "acute"), ("anaesthesia", "spinal")}


def test_what_negates_nothing() -> None:
    assert "tumor" in negated_words("pseudotumor", "en")[0]
    assert negated_words("pseudoexfoliation", "en")[0] == frozenset()
    assert guard_values("non-acquired deficiency", "en") == frozenset()


def test_every_language_has_the_same_kinds_and_values() -> None:
    english = language_data("en")
    assert english.guards.kinds.keys() == COMPARED.keys() - {"letter"}
    for language in languages():
        data = language_data(language)
        assert data.guards.kinds.keys() == english.guards.kinds.keys()
        for kind, patterns in data.guards.kinds.items():
            assert patterns.keys() == english.guards.kinds[kind].keys()
        assert data.acts.acts.keys() == english.acts.acts.keys()
        assert data.guards.company.keys() == {"anaesthesia"}
        assert data.articles.small_words
        assert data.read("persons", Persons).words


@pytest.mark.parametrize(("term", "language", "named", "rests"), [
    ("Biopsy of the liver", "en", {"biopsy"}, {"en liver"}), ("Chest X-rays", "en", {"xray"}, {"en chest"}),
    ("blood tests", "en", set(), {"en blood"}),
    ("CT-guided liver biopsy", "en", {"ct", "biopsy"}, {"en guid liver"}),
    ("Nierenbiopsie", "de", {"biopsy"}, {"de nier"}), ("Röntgen-Thorax", "de", {"xray"}, {"de thorax"}),
    ("Blinddarm-OP", "de", set(), {"de blinddarm"}), ("trasplante de riñón", "es", {"transplant"}, {"es riñon"}),
    ("anatomy", "en", set(), {"en anatomi"}), ("CT", "en", {"ct"}, set()), ("", "en", set(), set()),
    ("microscopy", "en", set(), {"en microscopi"}),
    ("Molar tooth sign on MRI", "en", set(), {"en molar sign tooth"}),
    ("Raumforderung im MRT", "de", set(), {"de raumforder"}), ("nódulo en la ecografía", "es", set(), {"es nodul"}),
])  # fmt: skip
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
