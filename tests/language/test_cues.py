"""Tables of cues and headings: phrases, rows, and the errors of rows that cannot be read."""

from __future__ import annotations

import unicodedata

import pytest

from medlink.language.cues import Phrases, Text, absences, cues, has_cues, headings, words
from medlink.language.languages import language_data, rows
from medlink.language.no_mentions import no_mentions
from medlink.language.scope_rules import scopes


@pytest.mark.parametrize(("phrase", "text", "expected"), [
    ("kein[e|er|]", "KEINER", True), ("kein[e|er|]", "keinen", False), ("v.[ |]a.", "V. A.", True),
    ("V.[ |]a.", "V.A.", True), ("V.[ |]a.", "v.a.", False), ("Z.[ |]n.", "z.N.", False),
    ("doesn't have", "doesn’t have", True), ("möglich", unicodedata.normalize("NFD", "Möglich"), True),
    ("möglich", "mög\u00adlich", True), ("HIV[ |-]negativ", "HIV-negativ", True),
    ("nicht [|mehr ]da", "nicht da", True), ("r/o", "R/O", True),
])  # fmt: skip
def test_phrases(phrase: str, text: str, expected: bool) -> None:
    phrases, tokens = Phrases[int](), words(text)
    phrases.add(phrase, 1)
    assert ((len(tokens), [1]) in phrases.at(tokens, 0)) is expected


def test_words_keep_their_offsets() -> None:
    text = "V.a. Sepsis (?), ha\u0308tte_x"
    assert "".join(text[word.start : word.end] for word in words(text)) == text.replace(" ", "")
    assert [word.is_mark for word in words("a, 1.")] == [False, True, False, True]


@pytest.mark.parametrize(("text", "expected"), [
    ("7,9 1.5mg -2.5", ["7,9", "1.5", "mg", "-", "2.5"]),
    ("12.03.2010, 5.11. 1.500,0", ["12", ".", "03", ".", "2010", ",", "5.11", ".", "1", ".", "500", ",", "0"]),
    ("a1.5 1,x .5", ["a1", ".", "5", "1", ",", "x", ".", "5"]), ("-" * 7, ["-"] * 7),
    ("-" * 8 + "." * 9 + "!", ["-" * 8, "." * 9, "!"]), ("a" + "_" * 8 + "b…", ["a", "_" * 8, "b", "…"]),
    ("don´t \u00ad", ["don't", "\u00ad"]), ("-.-.-.-.", list("-.-.-.-.")),
])  # fmt: skip
def test_words(text: str, expected: list[str]) -> None:
    assert [word.text for word in words(text)] == expected


def test_phrases_may_be_added_after_a_search() -> None:
    phrases: Phrases[int] = Phrases()
    text = Text(words("No known fever, no V.a."))
    assert phrases.found(text) == []
    phrases.add("no known", 1)
    assert phrases.found(text) == [(0, 2, [1])]
    phrases.add("no", 2)
    phrases.add("V.a.", 3)
    assert phrases.found(text) == [(0, 1, [2]), (0, 2, [1]), (4, 5, [2]), (5, 9, [3])]
    assert text.places_of(["no", "fever", "cough"]) == [0, 2, 4]


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_shipped_tables(language: str) -> None:
    assert has_cues(language)
    assert cues(f"{language}-XX") is cues(language)
    assert headings(language) is headings(language)
    assert scopes(language).joins > scopes(language).either - {"y/o", "and/or", "either"}
    table = language_data(language).table("cues")
    assert table is not None
    examples = [row for row in rows(table) if row["example"]]
    assert len(examples) > 300


def test_a_language_without_tables_has_none() -> None:
    assert not has_cues("fr")
    assert list(cues("fr").whole.at(words("pas de fièvre"), 0)) == []
    assert list(headings("fr").at(words("Diagnostic"), 0)) == []
    assert scopes("fr").joins == frozenset()


@pytest.mark.parametrize(("language", "text", "expected"), [
    ("de", "Afebril, Skleren anikterisch.", {"Afebril": "Fieber", "anikterisch": "Ikterus"}),
    ("de", "Drei tumorfreie Lymphknoten, febril", {"tumorfreie": "Tumor"}),
    ("en", "FEVER-FREE, non-tender; tender later", {"FEVER-FREE": "fever", "non-tender": "tenderness"}),
    ("es", "Eupneica y apirética, disneica", {"Eupneica": "disnea", "apirética": "fiebre"}),
    ("de", "beschwerdefrei, unauffällig, o. B.", {"beschwerdefrei": "beschwerde"}),
    ("de", "Bei Tumorverdacht, Verdacht", {"Tumorverdacht": "tumor"}),
    ("en", "", {}),
    ("fr", "apyrétique", {}),
])  # fmt: skip
def test_absences(language: str, text: str, expected: dict[str, str]) -> None:
    assert {text[start:end]: term for start, end, term in absences(language).find(Text(words(text)))} == expected


def test_the_longest_word_counts_and_each_of_its_findings_is_given() -> None:
    found = absences("en").find(Text(words("Has no n/v/d.")))
    assert found == [(4, 12, "nausea"), (4, 12, "vomiting"), (4, 12, "diarrhea")]
    assert absences("en-GB") is absences("en")


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_examples_of_no_mentions(language: str) -> None:
    path = language_data(language).table("no_mentions")
    assert path is not None
    for row in rows(path):
        before, marked, behind = row["example"].replace(">", "<").split("<")
        text = before + marked + behind
        is_none = no_mentions(language).inside(Text(words(text)))
        assert is_none(len(before), len(before) + len(marked)), row
        assert not is_none(0, len(text)), row


@pytest.mark.parametrize(("language", "text"), [
    ("de", "Das Becken ist klein, HRST bekannt, schlechter Ernährungszustand"),
    ("en", "She was flushed, the patient aspirated, pain"), ("es", "Encarnación ungueal y pica"),
    ("fr", "Buenos Aires"), ("de", ""),
])  # fmt: skip
def test_other_texts(language: str, text: str) -> None:
    found = words(text)
    is_none = no_mentions(language).inside(Text(found))
    assert not any(is_none(word.start, word.end) for word in found)


def test_a_phrase_inside_a_longer_one() -> None:
    text = "It was irrigated and aspirated from the bag"
    is_none = no_mentions("en").inside(Text(words(text)))
    assert [is_none(*place) for place in ((21, 30), (0, 6), (31, 43), (7, 30), (7, 43))] == [
        True, False, False, True, False
    ]  # fmt: skip
