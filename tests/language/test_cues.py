"""Tables of cues and headings: phrases, rows, and the errors of rows that cannot be read."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.language.cues import (
    Phrases,
    Text,
    absences,
    cues,
    has_cues,
    headings,
    variants,
    words,
)
from medlink.language.languages import language_data, rows
from medlink.language.no_mentions import no_mentions
from medlink.language.scope_rules import scopes

HEADER = "cue\treads\tside\treach\tsource\texample\n"


def found(phrase: str, text: str) -> bool:
    """Whether a text is a phrase."""
    phrases: Phrases[int] = Phrases()
    phrases.add(phrase, 1)
    tokens = words(text)
    return (len(tokens), [1]) in phrases.at(tokens, 0)


@pytest.mark.parametrize(
    ("phrase", "text", "expected"),
    [
        ("kein[e|er|]", "KEINER", True),
        ("kein[e|er|]", "keinen", False),
        ("v.[ |]a.", "V. A.", True),
        ("V.[ |]a.", "V.A.", True),
        ("V.[ |]a.", "v.a.", False),
        ("Z.[ |]n.", "z.N.", False),
        ("doesn't have", "doesn’t have", True),
        ("möglich", unicodedata.normalize("NFD", "Möglich"), True),
        ("möglich", "mög\u00adlich", True),
        ("HIV[ |-]negativ", "HIV-negativ", True),
        ("nicht [|mehr ]da", "nicht da", True),
        ("r/o", "R/O", True),
    ],
)
def test_phrases(phrase: str, text: str, expected: bool) -> None:
    assert found(phrase, text) is expected


def test_words_keep_their_offsets() -> None:
    text = "V.a. Sepsis (?), ha\u0308tte_x"
    assert "".join(text[word.start : word.end] for word in words(text)) == text.replace(" ", "")
    assert [word.is_mark for word in words("a, 1.")] == [False, True, False, True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7,9 1.5mg -2.5", ["7,9", "1.5", "mg", "-", "2.5"]),
        ("12.03.2010, 5.11. 1.500,0", ["12", ".", "03", ".", "2010", ",", "5.11", ".", "1", ".", "500", ",", "0"]),
        ("a1.5 1,x .5", ["a1", ".", "5", "1", ",", "x", ".", "5"]),
        ("-" * 7, ["-"] * 7),
        ("-" * 8 + "." * 9 + "!", ["-" * 8, "." * 9, "!"]),
        ("a" + "_" * 8 + "b…", ["a", "_" * 8, "b", "…"]),
        ("don´t \u00ad", ["don't", "\u00ad"]),
        ("-.-.-.-.", list("-.-.-.-.")),
    ],
)
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


@pytest.mark.slow
@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_no_cue_stands_twice(language: str) -> None:
    """Rows are in order, have a source, and share no phrase."""
    path = language_data(language).table("cues")
    assert path is not None
    seen: dict[tuple[str, ...], str] = {}
    listed = list(rows(path))
    assert [row["cue"] for row in listed] == sorted(row["cue"] for row in listed)
    assert all(row["source"] for row in listed)
    for row in listed:
        for variant in variants(row["cue"]):
            key = tuple(word.text for word in words(variant))
            assert seen.setdefault(key, row["cue"]) == row["cue"]


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


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("kein\tlost\tbefore\t\ts\t", "reads is 'lost', one of absent, "),
        ("kein\t\tbefore\t\ts\t", "reads is empty"),
        ("kein\tabsent\tleft\t\ts\t", "side is 'left', one of before, after, both, around, beside expected"),
        ("aber\tend\tbefore\t\ts\t", "side is 'before', one of nothing expected"),
        ("kein\tabsent\tbefore\tfew\ts\t", "the reach is 'few', a number of words or nothing expected"),
        ("kein\tabsent\taround\t\ts\t", "'kein' is not a cue of that side"),
        ("a … b … c\tabsent\taround\t\ts\t", "'a … b … c' is not a cue of that side"),
        ("\tabsent\tbefore\t\ts\t", "'' is not a cue of that side"),
    ],
)
def test_a_wrong_row_is_named(row: str, message: str, italian: Path) -> None:
    (italian / "cues.tsv").write_text(f"{HEADER}non\tabsent\tbefore\t\tuso\t\n{row}\n", "utf-8")
    with pytest.raises(InputError) as error:
        cues("it")
    assert message in str(error.value)
    assert "cues.tsv" in str(error.value)
    assert "3" in str(error.value)


def test_a_language_without_tables_has_none() -> None:
    assert not has_cues("fr")
    assert list(cues("fr").whole.at(words("pas de fièvre"), 0)) == []
    assert list(headings("fr").at(words("Diagnostic"), 0)) == []
    assert scopes("fr").joins == frozenset()


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("de", "Afebril, Skleren anikterisch.", {"Afebril": "Fieber", "anikterisch": "Ikterus"}),
        ("de", "Drei tumorfreie Lymphknoten, febril", {"tumorfreie": "Tumor"}),
        ("en", "FEVER-FREE, non-tender; tender later", {"FEVER-FREE": "fever", "non-tender": "tenderness"}),
        ("es", "Eupneica y apirética, disneica", {"Eupneica": "disnea", "apirética": "fiebre"}),
        ("de", "beschwerdefrei, unauffällig, o. B.", {"beschwerdefrei": "beschwerde"}),
        ("en", "", {}),
        ("fr", "apyrétique", {}),
    ],
)
def test_absences(language: str, text: str, expected: dict[str, str]) -> None:
    assert {text[start:end]: term for start, end, term in absences(language).find(Text(words(text)))} == expected


def test_the_longest_word_counts_and_each_of_its_findings_is_given() -> None:
    assert absences("en").find(Text(words("Has no n/v/d."))) == [
        (4, 12, "nausea"),
        (4, 12, "vomiting"),
        (4, 12, "diarrhea"),
    ]
    assert absences("en-GB") is absences("en")


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_absences_are_in_order_and_stand_once(language: str) -> None:
    path = language_data(language).table("absences")
    assert path is not None
    lines = path.read_text("utf-8").splitlines()[1:]
    assert lines == sorted(lines)
    cells = [variant for line in lines for word in line.split("\t")[0].split(" | ") for variant in variants(word)]
    assert len(cells) == len(set(cells))
    assert all(line.split("\t")[2] in ("", "place") and line.split("\t")[3] for line in lines)


@pytest.mark.parametrize("row", ["\tfebbre\t\tuso", "afebbrile\t\t\tuso"])
def test_a_wrong_absence_is_named(row: str, italian: Path) -> None:
    (italian / "absences.tsv").write_text(f"word\tfinding\tbefore\tsource\n{row}\n", "utf-8")
    with pytest.raises(InputError, match=r"absences\.tsv:2: a word and a finding expected"):
        absences("it")


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_examples_of_no_mentions(language: str) -> None:
    path = language_data(language).table("no_mentions")
    assert path is not None
    phrases = [row["phrase"] for row in rows(path)]
    assert phrases == sorted(set(phrases))
    for row in rows(path):
        before, marked, behind = row["example"].replace(">", "<").split("<")
        text = before + marked + behind
        is_none = no_mentions(language).inside(Text(words(text)))
        assert is_none(len(before), len(before) + len(marked)), row
        assert not is_none(0, len(text)), row


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Das Becken ist klein, HRST bekannt, schlechter Ernährungszustand"),
        ("en", "She was flushed, the patient aspirated, pain"),
        ("es", "Encarnación ungueal y pica"),
        ("fr", "Buenos Aires"),
        ("de", ""),
    ],
)
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


@pytest.mark.parametrize("row", ["\tuso\tx", "parola\t\tx"])
def test_a_wrong_row_without_mentions_is_named(row: str, italian: Path) -> None:
    (italian / "no_mentions.tsv").write_text(f"phrase\tsource\texample\n{row}\n", "utf-8")
    with pytest.raises(InputError, match=r"no_mentions\.tsv:2: a phrase and its source expected"):
        no_mentions("it")
