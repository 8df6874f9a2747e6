"""AbbreviationTable: abbreviations and laconic words, and tables that cannot be read."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from medlink.language.languages import language_data, rows
from medlink.language.lexicon.abbreviation_table import ORGANS, AbbreviationTable, BodySiteContext
from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.name_analysis import shared_analyser
from medlink.language.scan import ScannedText, Scanner


def scan(text: str, language: str) -> ScannedText:
    return Scanner(language, shared_analyser(shipped_forms())).scan(text)


def test_the_likeliest_meaning_of_capitals_only() -> None:
    german = AbbreviationTable("de-AT")
    assert [getattr(german.abbreviation(word), "long", None) for word in ("KHK", "khk", "K.H.K.", "Leber")] == [
        "koronare Herzkrankheit", None, None, None
    ]  # fmt: skip
    assert AbbreviationTable("fr").abbreviation("KHK") is None


@pytest.mark.slow
@pytest.mark.parametrize(("language", "text", "wanted"), [
    ("de", "Bekannte Hypertonien.", [("Hypertonien", "arterielle Hypertonie")]),
    ("en", "He was afebrile and icteric.", [("afebrile", "fever"), ("icteric", "jaundice")]),
    ("en", "Keeled over, dropping sats, sleeps propped up, pulling at ears.", [
        ("Keeled over", "syncope"), ("dropping sats", "hypoxemia"), ("sleeps propped up", "orthopnea"),
        ("pulling at ears", "ear pain"),
    ]),
    ("es", "Paciente afebril.", [("afebril", "fiebre")]), ("fr", "Hypertonie", []),
    # each tense of a verb has its row, and so has the end of an expression of four words
    ("es", "Pierde peso, nubla la vista.", [("Pierde peso", "pérdida de peso"), ("nubla la vista", "visión borrosa")]),
    ("es", "Hiporexia, duermen las manos.", [("Hiporexia", "falta de apetito"), ("duermen las manos", "parestesias")]),
    # names and nouns have their capital, German adjectives no ending
    ("de", "wegen Fieber", []), ("de", "M. Wegener", [("Wegener", "Granulomatose mit Polyangiitis")]),
    ("en", "lying down", []),
    ("de", "Wirkt bedrückt, PS-Heilung.", [("bedrückt", "gedrückte Stimmung"), ("PS-Heilung", "Wundheilungsstörung")]),
    ("de", "Kardiale Dekompensation, nachts Erstickungsanfälle.", [
        ("Kardiale Dekompensation", "Herzinsuffizienz"), ("Dekompensation", "kardiale Dekompensation"),
        ("Erstickungsanfälle", "Episoden von Verschlucken"),
    ]),
])  # fmt: skip
def test_laconic_words(language: str, text: str, wanted: list[tuple[str, str]]) -> None:
    scanned = scan(text, language)
    found = AbbreviationTable(language).laconic(scanned)
    assert [(scanned.written(place), one.long) for place, one, _, _ in found] == wanted


@pytest.mark.parametrize(("language", "text", "wanted"), [
    ("de", "Bauchdecke beidseits deutlich hart.", [("Bauchdecke beidseits deutlich hart", "Abwehrspannung", True)]),
    ("de", "Harte Bauchdecke.", [("Harte Bauchdecke", "Abwehrspannung", True)]),
    ("en", "He lost 5 kg of weight.", [
        ("lost 5 kg", "weight loss", True), ("lost 5 kg of weight", "weight loss", True),
    ]),
    ("es", "Vientre no duro.", [("Vientre no duro", "rigidez abdominal", True)]),
    # its own negation denies nothing
    ("en", "Absent right ankle reflex.", [("Absent right ankle reflex", "absent ankle reflexes", False)]),
    # other words may not stand inside, nor may a clause end, and in Spanish the adjective follows its noun
    ("de", "Bauchdecke und Leber hart.", []), ("de", "Bauchdecke links, hart.", []),
    ("de", "Harte\nBauchdecke", []),
    ("es", "Reflujo con alta presión.", []),
])  # fmt: skip
def test_other_words_may_stand_inside_an_expression(
    language: str, text: str, wanted: list[tuple[str, str, bool]]
) -> None:
    scanned = scan(text, language)
    found = AbbreviationTable(language).laconic(scanned)
    assert [(scanned.written(place), one.long, apart) for place, one, _, apart in found if place[1] > 1] == wanted


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_the_tables(language: str) -> None:
    path = Path(str(resources.files("medlink"))) / f"resources/language/{language}/laconic.tsv"
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    assert rows[0] == ["word", "organ", "long", "english", "weight", "note"]
    assert len(rows) > 1400
    assert len({(row[0], row[1]) for row in rows[1:]}) == len(rows) - 1
    assert all(0.5 <= float(row[4]) <= 1 and {row[2], row[3]} != {row[0]} for row in rows[1:])
    assert {row[1] for row in rows[1:]} - {""} == ORGANS


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_words_beside_an_abbreviation_tell_its_meaning(language: str) -> None:
    table, scanner = AbbreviationTable(language), Scanner(language, shared_analyser(shipped_forms()))
    examples = list(rows(language_data(language).table("abbreviations"), "abbreviation", "long", "beside", "example"))
    for row in examples:
        before, short, behind = row["example"].replace(">", "<").split("<")
        text = scanner.scan(before + short + behind)
        told = {at: own.long for at, own, is_told in table.abbreviations(text) if is_told}
        assert short == row["abbreviation"]
        assert told.get(text.place(len(before), len(before) + len(short))[0]) == row["long"], row["example"]
    assert len(examples) > 30


def test_an_abbreviation_in_lower_case_is_no_word_of_the_language() -> None:
    text = scan("Known htn, copd, dm2; he gave a cup of tea, the map was sad, hearing aids, pt in ed", "en")
    found = AbbreviationTable("en", shipped_forms()).abbreviations(text)
    assert [text.written((at, at + 1)) for at, _, _ in found] == ["htn", "copd", "dm2"]
    assert not list(AbbreviationTable("en").abbreviations(text))


@pytest.mark.slow
@pytest.mark.parametrize(("language", "text", "word", "organ"), [
    ("de", "Abdomen: weich, kein DS, keine Resistenz", "Resistenz", "abdomen"),
    ("de", "Abdomen weich, kein DS. Resistenz", "DS", "abdomen"),
    ("de", "Abdomen weich. Resistenz", "Resistenz", None),
    ("de", "Keine Stauung der Leber, Lunge frei", "Stauung", "liver"),
    ("de", "Abdomen: weich. Labor: Resistenz", "Resistenz", None),
    ("de", "Lunge\nkein Erguss", "Erguss", "chest"),
    ("en", "NECK: Supple. No masses.", "masses", "neck"),
    ("es", "Abdomen: blando. No doloroso.", "doloroso", "abdomen"),
    ("fr", "Abdomen: masse", "masse", None),
])  # fmt: skip
def test_the_organ_that_is_spoken_of(language: str, text: str, word: str, organ: str | None) -> None:
    context, start = BodySiteContext(language, scan(text, language)), text.index(word)
    cue = context.cue_for(start, start + len(word))
    assert (None if cue is None else cue.organ) == organ
