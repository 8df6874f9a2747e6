"""The analysis of names: compounds, inflected words, senses of ambiguous words, phrases, typing errors."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest

from medlink.language.lexicon.forms import shipped_forms
from medlink.language.lexicon.name_analysis import AnalysedName, AnalysedWord, LexicalAnalyser, with_own_words
from medlink.language.text import normalise

READER = LexicalAnalyser(shipped_forms())


def named(meanings: tuple[int, ...]) -> set[str]:
    return {READER.forms.names[meaning] for meaning in meanings}


def read(text: str, language: str | None = "de") -> AnalysedName:
    return READER.read(text, language)


def word(text: str, language: str | None = "de") -> AnalysedWord:
    (found,) = read(text, language).words
    return found


@pytest.mark.parametrize(("compound", "language", "parts"), [
    ("Nierenzysten", "de", "nieren cyst"), ("Unterschenkelödeme", "de", "unterschenkel edema"),
    ("Stuhlfrequenz", "de", "stuhl rate"), ("Gefäßverschluß", "de", "gefass closure"),
    ("Herzklappenersatz", "de", "herzklappen replacement"),
    ("Schulterblattfrakturen", "de", "schulterblatt fracture"), ("hepatosplenic", "en", "hepato spleen"),
    ("gastroesofágico", "es", "gastro esophagus"),
    # split before the last word, not behind the first
    ("Bauchspeicheldrüsenentzündung", "de", "bauchspeicheldrusen inflammation"),
    ("Nebenhodenentzündung", "de", "nebenhoden inflammation"),
    ("Bindehautentzündung", "de", "bindehaut inflammation"),
])  # fmt: skip
def test_compounds(compound: str, language: str, parts: str) -> None:
    found = word(compound, language)
    first, last = parts.split()
    assert found.pieces[0] == first
    assert "".join(found.pieces) == found.text
    assert last in named(found.parts[-1])
    assert len(found.parts) == len(found.pieces) == 2
    assert found.known


@pytest.mark.parametrize(
    "text",
    ["Tablette", "Patientin", "Infektion", "Station", "Genese", "Thrombosen", "Stenosen", "Rezeptoren", "Gartenzaun"],
)
def test_no_compounds(text: str) -> None:
    found = word(text)
    assert found.parts == ()
    assert found.pieces == [found.text]


def test_a_known_compound_has_its_meaning_and_those_of_its_parts() -> None:
    found = word("Lungenödem")
    assert [named(found.meanings), *map(named, found.parts)] == [{"pulmonary oedema"}, {"lung"}, {"edema"}]


def test_known_end_of_an_unknown_word() -> None:
    found = word("Xyzabcfrakturen")
    assert found.pieces == ["xyzabc", "frakturen"]
    assert found.parts[0] == ()
    assert named(found.parts[1]) == {"fracture"}
    assert not found.known
    # "-uent" is no form of "unten": an end of four letters may be an accident
    assert word("stuhlfrequent").parts == ()


@pytest.mark.parametrize(("text", "language", "meaning"), [
    ("Lebern", "de", "liver"), ("hepatischen", "de", "liver"), ("hepáticas", "es", "liver"),
    ("kidneys", "en", "kidney"), ("feet", "en", "foot"), ("KHK", "de", "coronary heart disease"),
    ("EPOC", "es", "COPD"),
    # a region does not count, and an English word is known in a German text
    ("Leber", "de-AT", "liver"), ("Kidneys", "de", "kidney"),
])  # fmt: skip
def test_words_in_every_form(text: str, language: str, meaning: str) -> None:
    assert named(word(text, language).meanings) == {meaning}


def test_unknown_words_and_function_words() -> None:
    assert not word("Gartenzaun").known
    # German words are unknown in English texts
    assert not word("Leber", "en").known
    der, leber = read("der Leber").words
    assert (der.function, der.known, leber.function) == (True, True, False)
    ohne, _ = read("ohne Fieber").words
    assert not ohne.function
    assert named(ohne.meanings) == {"without"}
    assert read("").words == read(" - ").words == ()


@pytest.mark.parametrize(("text", "language", "meaning"), [
    ("heart attack", "en", "myocardial infarction"), ("acute heart attacks", "en", "myocardial infarction"),
    ("chronic obstructive pulmonary disease", "en", "COPD"),
    ("insuficiencia cardíaca", "es", "heart failure"), ("insuficiencias cardiacas", "es", "heart failure"),
])  # fmt: skip
def test_phrases_in_every_form(text: str, language: str, meaning: str) -> None:
    name = read(text, language)
    ((start, stop, meanings),) = name.phrases
    assert named(meanings) == {meaning}
    assert (start, stop) == (int(text.startswith("acute")), len(name.words))


@pytest.mark.parametrize(("text", "language", "sense"), [
    ("cervical", "en", "neck"), ("cervical pain", "en", "neck"), ("cervical cancer", "en", "cervix (uterus)"),
    # both in another form than the table has
    ("cervical cancers", "en", "cervix (uterus)"), ("Ambulanz", "de", "outpatient"),
    ("Ambulanz Notfälle", "de", "emergency department"), ("insuficiencias cardiacas", "es", "failure (organ)"),
])  # fmt: skip
def test_senses(text: str, language: str, sense: str) -> None:
    assert named(read(text, language).words[0].meanings) == {sense}


def test_word_without_its_meanings() -> None:
    found = word("Aufnahme")
    assert found.meanings == ()
    assert not found.known


def test_a_language_is_guessed() -> None:
    assert named(word("Niere", None).meanings) == named(word("riñón", None).meanings) == {"kidney"}
    fraktur, des, oberschenkel = read("Fraktur des Oberschenkels", None).words
    assert des.function
    assert named(fraktur.meanings) == {"fracture"}
    assert named(oberschenkel.meanings) == {"thigh"}
    # one that the lexicon lacks is guessed as well
    assert read("Nierenzyste", "fr").words == read("Nierenzyste", None).words


def test_compounds_split_by_hand() -> None:
    with (Path(__file__).parent / "compounds_de.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == 750
    alike = sum(word(row["word"]).pieces == [normalise(part) for part in row["parts"].split("|")] for row in rows)
    # docs/explanation/lexicon.md has the figure, of compounds and other words apart
    assert alike / len(rows) >= 0.84 - 0.03


@pytest.mark.parametrize(("wrong", "right", "language"), [
    ("hypokalemmia", "hypokalemia", "en"), ("hpyokalemia", "hypokalemia", "en"), ("Pneumnoie", "Pneumonie", "de"),
    ("Herzinfrakt", "Herzinfarkt", "de"), ("neumnia", "neumonia", "es"),
])  # fmt: skip
def test_a_word_with_one_typing_error_is_the_word(wrong: str, right: str, language: str) -> None:
    assert word(wrong, language).meanings == word(right, language).meanings != ()
    assert LexicalAnalyser(READER.forms, mend=False).read(wrong, language).words[0].meanings == ()


@pytest.mark.slow
def test_own_words() -> None:
    """Own words are not corrected, and other words are corrected to them."""
    forms = with_own_words(READER.forms, ["Pneumnoie syndrome", "Qwarzel disease"])
    reader = LexicalAnalyser(forms)
    assert reader.read("Pneumnoie", "de").words[0] == AnalysedWord("pneumnoie")
    assert reader.read("Qwarzell", "de").words[0].text == "qwarzel"
    assert not forms.is_own("syndrome")
    assert forms.digest != READER.forms.digest


def test_time_grows_with_the_length() -> None:
    reader = LexicalAnalyser(shipped_forms())
    reader.read("x" * 400, "de")
    seconds = []
    for length in (20_000, 200_000):
        start = time.process_time()
        (word,) = reader.read("x" * length, "de").words
        seconds.append(time.process_time() - start)
        assert not word.known
    assert seconds[1] < 100 * max(seconds[0], 0.01)
