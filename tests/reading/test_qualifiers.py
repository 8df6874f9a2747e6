"""Qualifiers of mentions: the examples of the tables, further sentences, sections, layout, and odd input."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from medlink.errors import ConfigError, InputError
from medlink.language.cues import words
from medlink.language.languages import language_data, rows
from medlink.language.relatives import relatives
from medlink.reading.qualifiers import QualifierReader, qualifier_reader
from medlink.records import Qualifiers
from tests.reading.bundles import cases

LANGUAGES = ("de", "en", "es")
READERS = {language: QualifierReader(language) for language in LANGUAGES}
HERE = Path(__file__).parent
FIELD = {
    **dict.fromkeys(("absent", "uncertain", "sought", "present", "declined"), "presence"),
    **dict.fromkeys(
        ("historical", "hypothetical", "current", "past", "gone", "stopped", "planned", "avoided"), "temporality"
    ),
    **dict.fromkeys(("family", "other", "patient"), "experiencer"),
    **dict.fromkeys(("allergy", "taken"), "allergy"),
}
MEANING: dict[str, Any] = {
    **dict.fromkeys(("past", "gone", "stopped"), "historical"),
    **dict.fromkeys(("planned", "avoided"), "hypothetical"),
    "declined": "absent",
    "sought": "uncertain",
    "allergy": True,
    "taken": False,
}


def parsed(marked: str) -> tuple[str, list[tuple[int, int]], list[Qualifiers]]:
    """Text, mentions and their expected qualifiers, as marked by ``<fever|absent,family>``."""
    text, places, expected = "", [], []
    for between, mention, marks in re.findall(r"([^<>]*)(?:<([^<>|]+)\|?([^<>]*)>|$)", marked):
        text += between
        if mention:
            places.append((len(text), len(text) + len(mention)))
            values = [value for value in marks.split(",") if value not in ("", "act", "proc")]
            expected.append(Qualifiers(**{FIELD[value]: MEANING.get(value, value) for value in values}))
            text += mention
    return text, places, expected


def read(marked: str, language: str) -> list[Qualifiers]:
    """The qualifiers of marked mentions; those marked ``act`` are drugs, and those marked ``proc`` procedures."""
    text, places, _ = parsed(marked)
    marks = re.findall(r"<[^<>|]+\|?([^<>]*)>", marked)
    kinds = [(place, mark.split(",")) for place, mark in zip(places, marks, strict=True)]
    procedures = [place for place, values in kinds if "proc" in values]
    acts = procedures + [place for place, values in kinds if "act" in values]
    return READERS[language].read(text).qualifiers(places, acts=acts or None, procedures=procedures)


def qualifiers_of(marked: str, language: str) -> list[tuple[str, str, str]]:
    return [(q.presence, q.temporality, q.experiencer) for q in read(marked, language)]


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_examples_of_the_cues(language: str) -> None:
    path = language_data(language).table("cues")
    assert path is not None
    for row in rows(path):
        reads, (text, places, _) = row["reads"], parsed(row["example"] or "")
        assert places or not row["example"]
        for found in READERS[language].read(text).qualifiers(places, acts=places if reads == "declined" else None):
            if reads in FIELD:
                assert getattr(found, FIELD[reads]) == MEANING.get(reads, reads), row["example"]
            else:
                values = (found.presence, found.temporality, found.experiencer)
                assert values == ("present", "current", "patient"), row["example"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_held_out_sentences(language: str) -> None:
    """Some fifty sentences for each language, written before the rules were evaluated on them."""
    found, wanted = list[Qualifiers](), list[Qualifiers]()
    for line in (HERE / f"qualifiers_{language}.txt").read_text("utf-8").splitlines():
        text, places, expected = parsed(line)
        found += READERS[language].read(text).qualifiers(places)
        wanted += expected
    pairs = list(zip(found, wanted, strict=True))
    right = sum(replace(got, section="", relative="", onset_age=None) == expected for got, expected in pairs)
    hits = sum(got.presence == expected.presence == "absent" for got, expected in pairs)
    absent = sum(q.presence == "absent" for q in found + wanted)
    assert len(pairs) > 75
    assert right / len(pairs) >= 0.92
    assert 2 * hits / absent >= 0.92


def test_rules_hold() -> None:
    """Invented sentences for each rule."""
    lines = (HERE / "qualifiers_rules.txt").read_text("utf-8").splitlines()
    cells = [line.split("\t") for line in lines if not line.startswith("# ")]
    for language, written in [*cells, ["en", "No \u00ad <fever|absent>"]]:
        marked = written.replace("\\n", "\n").replace("\\t", "\t")
        _, _, expected = parsed(marked)
        assert qualifiers_of(marked, language) == [(q.presence, q.temporality, q.experiencer) for q in expected], marked
        assert [q.allergy for q in read(marked, language)] == [q.allergy for q in expected], marked


def sections(marked: str, language: str) -> list[str | None]:
    text, places, _ = parsed(marked)
    return [None if q is None else q.section for q in READERS[language].read(text).qualify(places)]


def test_sections_and_headings() -> None:
    assert sections("Labor vom 5.11.51:\n<Anämie>.\n\nBeurteilung:\n<Pneumonie>", "de") == ["results", "assessment"]
    # a part of the body under an open review belongs to it
    note = "REVIEW OF SYSTEMS:  HEENT: No <headache>.\nSkin: <Rash>.\nPHYSICAL EXAM:\nSkin: <Rash>"
    assert sections(note, "en") == ["review", "review", "examination"]
    # a heading is no mention; the same word in a sentence is one
    assert sections("<Allergies>: <penicillin>. Her <allergies> are old.", "en") == [None, "allergies", "allergies"]
    assert sections("Diagnosen\n1. <Asthma>\n2. <Gicht>", "de") == ["diagnoses", "diagnoses"]
    # headings that no table has end a section
    assert sections("FAMILY HISTORY: <Gout>\nLOREM IPSUM: <Asthma>", "en") == ["family_history", ""]
    assert sections("Familienanamnese:\n<Gicht>\nLorem ipsum:\n<Asthma>", "de") == ["family_history", ""]
    # an examination in a list is no heading, unless its result follows
    assert sections("Plan:\n- <Koloskopie>\n- <MRT>", "de") == ["plan", "plan"]
    assert sections("Befunde:\n- EKG: <Vorhofflimmern>", "de") == ["results"]
    # a heading inside a sentence is none
    assert sections("the family history: <gout> and <asthma>", "en") == ["", ""]


def test_a_section_that_begins_in_the_line_of_its_heading_ends_with_the_paragraph() -> None:
    note = "Family history: <Gout>.\n<Asthma>.\n\nThe patient has <fever>."
    text, places, _ = parsed(note)
    found = READERS["en"].read(text).qualifiers(places)
    assert [(q.experiencer, q.section) for q in found] == [("family", "family_history")] * 2 + [("patient", "")]
    past, absent = ("present", "historical", "patient"), ("absent", "current", "patient")
    assert qualifiers_of("Past medical history: <Pneumonia>, no <stroke>.", "en") == [past, absent]
    assert qualifiers_of("Risiken: <Blutung>", "de") == [("present", "hypothetical", "patient")]


def test_a_language_without_cues() -> None:
    assert qualifier_reader("fr") is None
    with pytest.raises(ConfigError, match="present_only cannot be had in the language 'fr', which has no cues"):
        qualifier_reader("fr", present_only=True)


@pytest.mark.parametrize("language", LANGUAGES)
def test_odd_texts(language: str) -> None:
    for text in ("", " \n\t", "...", "<", "-\n-\n- 1. 2) a)", "no", "Keine:", "?", ", , , :", "\ufeff"):
        places = [(0, 0), (0, len(text)), (max(0, len(text) - 1), len(text))]
        assert len(READERS[language].read(text).qualify(places)) == 3


PATTERNS = [
    "no fever, ", "no ", "fever, no. ", "fever and ", "no\nfever\n", "kann nicht ", "FEVER: ", "history of fever\t",
    "(no fever ", "[ ] fever ", "3.5.2021 1999 fever ", "no fever or ", "kein Fieber, ", "HWS ", "derzeit nicht ",
    "noch ", "1. x ", "Family history: fever ", "Family history: fever\n", "\n", "\n\nfever", "- x\n", "☐ ", "1,5 ",
    "no , ", "-.", "+ + - fever ", "mother fever, ", "fever\tyes\tno\nfever\tx\n", "fever: -\n", "fever\tx ",
    "fever | patient | father\nfever | yes | no\n", "fever | patient | father | ",
    *(mark + blank for mark in "-(?_*•….,:;)[" for blank in ("", " ")),
]  # fmt: skip


def steps(language: str, text: str) -> int:
    """Number of executed lines, with a mention at every tenth word."""
    found = words(text)
    places = [(word.start, word.end) for word in found[::10]]
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal count
        count += event == "line"
        return trace if "medlink" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        READERS[language].read(text, found).qualify(places)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
def test_time_is_linear(pattern: str) -> None:
    """A text four times as long takes about four times as many steps."""
    language = "en" if "fever" in pattern else "de"
    READERS[language].read(pattern).qualify([(0, 1)])  # fills caches
    assert steps(language, pattern * 800) < 5 * max(steps(language, pattern * 200), 400)


def test_mentions_may_overlap_and_come_in_any_order() -> None:
    text = "No chest pain or fever."
    found = READERS["en"].read(text).qualifiers([(17, 22), (3, 13), (9, 13), (3, 13)])
    assert [q.presence for q in found] == ["absent"] * 4


def test_words_may_be_given() -> None:
    text = "No fever."
    note = READERS["en"].read(text, words(text)[1:])
    assert [q.presence for q in note.qualifiers([(3, 8)])] == ["present"]


def test_a_very_long_number_before_a_dot() -> None:
    """Python parses no number of so many digits."""
    found = qualifiers_of("1. <COPD> 2. V. a. <Asthma> " + "7" * 5000 + ". Kein <Fieber>", "de")
    assert [presence for presence, _, _ in found] == ["present", "uncertain", "absent"]


@pytest.mark.parametrize(("language", "text", "wanted"), cases("a_negation_inside_a_discontinuous_mention"))
def test_a_negation_inside_a_discontinuous_mention(language: str, text: str, wanted: str) -> None:
    note, place = READERS[language].read(text), (0, len(text))
    assert [q.presence for q in note.qualifiers([place], [place])] == [wanted]
    assert [q.presence for q in note.qualifiers([place])] == ["present"]


@pytest.mark.parametrize(("language", "marked", "wanted"), cases("relatives_and_ages"))
def test_relatives_and_ages(language: str, marked: str, wanted: list[list[str | int | None]]) -> None:
    assert [[one.relative, one.onset_age] for one in read(marked, language)] == wanted


def test_an_unknown_relative_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "relatives.tsv").write_text("phrase\tcode\tsource\nmater\tMUM\tusage\n", "utf-8")
    monkeypatch.setenv("MEDLINK_LANGUAGES", str(tmp_path))
    with pytest.raises(InputError, match="'MUM' is not a code of a relative"):
        relatives("it")


@pytest.mark.parametrize("text", ["Lunge: eupn., VAG bds.", "Pat. eupn.", "Eupnoe."])
def test_a_mention_without_the_full_stop_of_its_word(text: str) -> None:
    end = text.index("eupn") + 4 if "eupn" in text else 6
    note = QualifierReader("de").read(text)
    assert [q.presence for q in note.qualifiers([(end - 4 if "eupn" in text else 0, end)])] == ["absent"]


@pytest.mark.parametrize(("language", "marked", "wanted"), cases("the_date_of_a_note"))
def test_the_date_of_a_note(language: str, marked: str, wanted: tuple[str | None, str]) -> None:
    (written, temporality), (text, places, _) = wanted, parsed(marked)
    day = date.fromisoformat(written) if written else None
    assert {q.temporality for q in READERS[language].read(text, day=day).qualifiers(places)} == {temporality}


def test_the_cue_of_each_field() -> None:
    text, places, _ = parsed("No <fever>, possible <sepsis>. <Rash>.")
    note = READERS["en"].read(text)
    assert note.cues(places) == [{"presence": "no"}, {"presence": "possible"}, {}]
    assert READERS["en"].read("").cues([]) == []
