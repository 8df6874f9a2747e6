"""The two forms under which names and mentions meet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medlink.language.languages import languages
from medlink.language.text import Inflector, is_inflection, normalise, numerals, same_letters, variants


def match_form(text: str, language: str) -> str:
    return Inflector(language).form(text)


@pytest.mark.parametrize(("one", "other"), [
    ("Crohn’s disease", "Crohn's Disease"), ("Gefäßverschluß", "GEFÄSSVERSCHLUSS"),
    ("Sjögren-Syndrom", "Sjogren Syndrom"), ("α-thalassemia", "alpha thalassemia"), ("β‑Blocker", "beta-blocker"),
    ("λ light chain", "lambda light chain"), ("ﬁbrosis", "fibrosis"), ("Graves' disease", "Graves disease"),
    ("1,25 (OH)2", "1.25 (oh)2"), ("infección", "infeccio\u0301n"),
])  # fmt: skip
def test_typography_does_not_count(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(("one", "other"), [
    ("type 1", "type 2"), ("CD4", "CD4+"), ("vitamin B1", "vitamin B12"), ("hypertension", "hypotension"),
    ("1.5", "15"),
])  # fmt: skip
def test_meaning_counts(one: str, other: str) -> None:
    for language in languages():
        assert normalise(one) != normalise(other)
        assert match_form(one, language) != match_form(other, language)


@pytest.mark.parametrize(("one", "other", "language"), [
    ("metastases", "metastasis", "en"), ("stenoses", "stenosis", "en"), ("fractures", "fracture", "en"),
    ("type II diabetes", "type 2 diabetes", "en"), ("stage I", "stage 1", "en"),
    ("Nierenzysten", "Nierenzyste", "de"), ("Pleuraergüsse", "Pleuraerguß", "de"), ("Ödeme", "Oedem", "de"),
    ("Beinödeme", "Beinödem", "de"), ("Exantheme", "Exanthem", "de"), ("Lungenemphyseme", "Lungenemphysem", "de"),
    ("interne", "intern", "de"), ("Stadium IV", "Stadium 4", "de"), ("Cholecystitis", "Cholezystitis", "de"),
    ("Encephalopathien", "Enzefalopathie", "de"), ("infecciones", "infección", "es"),
    ("operacion", "operaciones", "es"), ("lesiones óseas", "lesion osea", "es"),
    ("enfermedades pulmonares", "enfermedad pulmonar", "es"), ("los ojos", "los ojo", "es"),
    ("veloces", "veloz", "es"), ("tipo I", "tipo 1", "es"),
])  # fmt: skip
def test_inflection_does_not_count(one: str, other: str, language: str) -> None:
    assert match_form(one, language) == match_form(other, language)
    assert is_inflection(one, other, language)
    assert is_inflection(other, one, language)


@pytest.mark.parametrize(("one", "other", "language"), [
    ("painful", "pain", "en"), ("generalized", "general", "en"), ("progress", "progressive", "en"),
    ("negativ", "Negativismus", "de"), ("doloroso", "dolor", "es"), ("focalmente", "focal", "es"),
    ("left kidney", "left", "en"),
])  # fmt: skip
def test_derivation_is_no_inflection(one: str, other: str, language: str) -> None:
    assert not is_inflection(one, other, language)


def test_roman_numerals_of_one_letter_need_a_cue() -> None:
    assert match_form("factor V Leiden", "en") == "factor 5 leiden"
    assert match_form("vitamin C", "en") == "vitamin c"
    assert match_form("Vitamin I", "de") == "vitamin i"


@pytest.mark.parametrize("language", ["en", "de", "es", ""])
def test_the_forms_of_many_texts_are_those_of_each(language: str) -> None:
    texts = ["Factor V Leiden", "factor X1", "t(3;3)(q21;q26.2)", "2',5-diol", "Typ-II-Diabetes", "Crohn’s disease"]
    texts += ["Grösse 3,5 cm", "CD4+ cells", "TGFα", "Ödeme der Beine", "grade iv", "riñones", "", "---"]
    inflector = Inflector(language)
    assert inflector.forms(texts, [normalise(text) for text in texts]) == [inflector.form(text) for text in texts]


def test_numerals() -> None:
    assert numerals("Diabetes mellitus Typ II", "de") == {"2"}
    assert numerals("T2N1", "en") == {"2", "1"}
    assert numerals("kidney", "en") == frozenset()


def test_letters_that_are_no_accents() -> None:
    assert not same_letters("una pequeña", "uña pequeña", "es")
    assert same_letters("infeccion", "infección", "es")
    assert same_letters("pequen\u0303a", "pequeña", "es")
    assert same_letters("una", "uña", "en")


def test_umlauts_written_out() -> None:
    assert "krampfanfalle" in variants("Krampfanfaelle", "de")
    assert variants("Krampfanfaelle", "en") == ["krampfanfaelle"]
    assert variants("LAE", "de") == ["lae"]
    assert match_form("LAE", "de") != match_form("LA", "de")
    assert match_form("Oesophagusvarizen", "de") == match_form("Ösophagusvarizen", "de")


def test_a_language_without_a_folder_has_the_common_rules() -> None:
    assert match_form("Fractures du fémur", "it") == "fractures du femur"


@pytest.mark.slow
@given(st.text(max_size=80), st.sampled_from([*languages(), "fr", ""]))
def test_any_text_has_forms(text: str, language: str) -> None:
    norm = normalise(text)
    assert norm == norm.strip()
    assert "  " not in norm
    assert match_form(text, language) == " ".join(t.text for t in Inflector(language).tokens(text))
    assert is_inflection(text, text, language)


@given(st.text(alphabet=st.characters(categories=("Ll", "Lu", "Nd", "Zs"), max_codepoint=0x24F), max_size=60))
def test_normalise_is_stable(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)
