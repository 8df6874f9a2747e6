"""Status of mentions: every example of the tables, sentences of our own, sections, layout, and bad input."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from medlink.errors import ConfigError
from medlink.language.cues.matcher import words
from medlink.language.cues.tables import cue_rows
from medlink.language.languages import language_data
from medlink.reading.status import StatusReader, status_reader
from medlink.records import Qualifiers

LANGUAGES = ("de", "en", "es")
READERS = {language: StatusReader(language) for language in LANGUAGES}
FIELD = {
    **dict.fromkeys(("absent", "uncertain", "present"), "presence"),
    **dict.fromkeys(("historical", "hypothetical", "current", "past"), "temporality"),
    **dict.fromkeys(("family", "other", "patient"), "experiencer"),
}


def parsed(marked: str) -> tuple[str, list[tuple[int, int]], list[Qualifiers]]:
    """Text, mentions and what is expected of them: ``<fever|absent,family>`` in a text."""
    text, places, expected = "", [], []
    for part in re.split(r"(<[^<>]+>)", marked):
        if re.fullmatch(r"<[^<>]+>", part):
            mention, _, values = part[1:-1].partition("|")
            places.append((len(text), len(text) + len(mention)))
            expected.append(Qualifiers(**{FIELD[value]: value for value in values.split(",") if value}))
            text += mention
        else:
            text += part
    return text, places, expected


def said(marked: str, language: str) -> list[tuple[str, str, str]]:
    text, places, _ = parsed(marked)
    return [(q.presence, q.temporality, q.experiencer) for q in READERS[language].read(text).qualifiers(places)]


def examples() -> list[tuple[str, str, str]]:
    found = []
    for language in LANGUAGES:
        path = language_data(language).table("cues")
        assert path is not None
        found += [(language, row["reads"], row["example"]) for _, row in cue_rows(path) if row["example"]]
    return found


@pytest.mark.parametrize(("language", "reads", "example"), examples())
def test_every_example_comes_out_as_its_row_says(language: str, reads: str, example: str) -> None:
    text, places, _ = parsed(example)
    assert places
    for found in READERS[language].read(text).qualifiers(places):
        if reads in FIELD:
            assert getattr(found, FIELD[reads]) == ("historical" if reads == "past" else reads)
        else:
            assert (found.presence, found.temporality, found.experiencer) == ("present", "current", "patient")


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_of_our_own(language: str) -> None:
    """Some fifty sentences a language, written before the rules were tried on them."""
    right = hits = false = missed = count = 0
    for line in (Path(__file__).parent / f"status_{language}.txt").read_text("utf-8").splitlines():
        text, places, expected = parsed(line)
        for found, wanted in zip(READERS[language].read(text).qualifiers(places), expected, strict=True):
            is_absent, should = found.presence == "absent", wanted.presence == "absent"
            hits, false, missed = (
                hits + (is_absent and should),
                false + (is_absent > should),
                missed + (is_absent < should),
            )
            count += 1
            right += (found.presence, found.temporality, found.experiencer) == (
                wanted.presence,
                wanted.temporality,
                wanted.experiencer,
            )
    assert count > 75
    assert right / count >= 0.92
    assert 2 * hits / (2 * hits + false + missed) >= 0.92


@pytest.mark.parametrize(
    ("language", "marked"),
    [
        # lists, with and without a joining word
        ("de", "Keine <Ödeme|absent>, <Zyanose|absent> oder <Dyspnoe|absent>. <Fieber>."),
        ("de", "Kein <Ikterus|absent>, keine <Zyanose|absent>, leichte <Ödeme>."),
        ("de", "<Husten|absent>, <Fieber|absent>, <Schnupfen|absent> verneint."),
        ("de", "Die Patientin hat <Husten>, <Fieber|absent> wird verneint."),
        ("de", "Z.n. <Herzinfarkt|historical> 2010, arterielle <Hypertonie>, <Diabetes>"),
        ("en", "No rales, Heart: <murmur>."),
        # a word that says that a finding is there ends a list
        ("de", "Kein Anhalt für <Pneumonie|absent>, weiterhin <Dyspnoe>."),
        ("de", "Keine <Dyspnoe|absent>, zuletzt <Husten>."),
        ("en", "No <fever|absent>, has <cough>."),
        ("es", "Sin <fiebre|absent>, persiste <tos>."),
        # an answer behind a colon
        ("en", "<Fever|absent>: no. <Cough>: yes."),
        ("en", "<Fever|absent>: no, <cough>: yes."),
        ("es", "<Fiebre|absent>: no. <Tos>: sí."),
        # the nearest cue counts, a longer one swallows its parts, one inside a mention is none
        ("en", "No <fever|absent>, possible <sepsis|uncertain>."),
        ("en", "No <fever|absent>, complains of <cough>, denies <chills|absent>."),
        ("en", "<Migraine without aura> since May."),
        ("de", "Eine <Fraktur|uncertain> konnte nicht sicher ausgeschlossen werden."),
        # abbreviations, ordinals, lines
        ("de", "Kein path. <Befund>, ca. 3 cm große <Zyste>."),
        ("de", "Kein Fieber am 3. Tag der <Infektion|absent>. <Husten>."),
        ("de", "v.a. <Schmerzen>, V. a. <Pneumonie|uncertain>."),
        ("de", "Keine\n<Nykturie|absent>"),
        ("de", "Keine Ödeme\n<Husten>\n- <Fieber>"),
        ("en", "No fever\n\n<Cough>"),
        ("en", "No surgeon was free to assist.<Hemorrhage> was seen"),
        ("en", "dose.,Denies <cough|absent>.,ASSESSMENT:,  <Asthma>"),
        ("en", "There was no <fever|absent>; <cough> persists! <Rash>"),
        # what is behind a colon speaks of what is before it where nothing follows
        ("de", "<Infektzeichen|absent>: keine\n<Husten>"),
        ("en", "<Complications|absent>: None."),
        ("en", "<Fever|absent>: no\n<Cough>: yes"),
        ("de", "Gezielt verneint werden:\n<Teerstuhl|absent>, <Fieber|absent>."),
        # question marks
        ("de", "<Karzinom|uncertain>? Kein <Fieber|absent>."),
        ("en", "Admitted with ? <sepsis|uncertain>."),
        # person and time stay what they are where presence is restored
        ("en", "Mother has no <asthma|absent,family>."),
        # the comma and the dot of a number are none of a list or a sentence
        ("de", "Kein <Fieber|absent>, Gewicht 5,5 kg, <Husten|absent> oder <Schnupfen|absent>."),
        ("de", "Keine <Ödeme|absent> bei Kreatinin 7,9. <Husten>"),
        ("de", "Ohne <Ödeme|absent> am 5.11. entlassen mit <Husten|absent>."),
        ("de", "Labor 7,5 mg. Keine <Ödeme|absent>, 2,5 cm große <Zyste>."),
        ("de", "Wien, 05.2021. <Pneumonie|historical> 03.2010, <Pneumonie> 03.2021"),
        ("en", "No <fever|absent>, 2.5 cm <nodule>."),
        ("en", "No <fever|absent> at 37.5. <Cough>."),
        ("de", "Kein <Husten|absent>\n1.2. <Fieber>"),
        # a line of marks ends a clause, a blank to fill in does not
        ("en", "No <fever|absent>\n__________\n<Cough>"),
        ("en", "No <fever|absent>\n---------- <Cough>"),
        ("en", "No <fever|absent> .......... <cough>"),
        ("en", "No ________ <fever|absent>"),
        # equal cues in a row act as the outer ones do
        ("en", "<fever> ? ? ? ? <cough|uncertain>"),
        ("de", "<Fieber|uncertain> ??? <Husten>"),
        # a mark of which nothing is left
        ("en", "No \u00ad <fever|absent>"),
    ],
)
def test_scopes(language: str, marked: str) -> None:
    _, _, expected = parsed(marked)
    assert said(marked, language) == [(q.presence, q.temporality, q.experiencer) for q in expected]


def sections(marked: str, language: str) -> list[str | None]:
    text, places, _ = parsed(marked)
    return [None if one is None else one.section for one in READERS[language].read(text).qualify(places)]


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
    # a heading inside a sentence is none
    assert sections("the family history: <gout> and <asthma>", "en") == ["", ""]


def test_what_sections_say_ends_with_the_paragraph_of_their_line() -> None:
    note = "Family history: <Gout>.\n<Asthma>.\n\nThe patient has <fever>."
    text, places, _ = parsed(note)
    found = READERS["en"].read(text).qualifiers(places)
    assert [(one.experiencer, one.section) for one in found] == [
        ("family", "family_history"),
        ("family", "family_history"),
        ("patient", ""),
    ]
    assert said("Past medical history: <Pneumonia>, no <stroke>.", "en") == [
        ("present", "historical", "patient"),
        ("absent", "current", "patient"),
    ]
    assert said("Risiken: <Blutung>", "de") == [("present", "hypothetical", "patient")]


def test_a_language_without_cues_is_not_read() -> None:
    assert status_reader("fr") is None
    with pytest.raises(ConfigError, match="present_only cannot be had in the language 'fr', which has no cues"):
        status_reader("fr", present_only=True)


@pytest.mark.parametrize(
    "text", ["", " \n\t", "...", "<", "-\n-\n- 1. 2) a)", "no", "Keine:", "?", ", , , :", "\ufeff"]
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_odd_texts_are_read(text: str, language: str) -> None:
    places = [(0, 0), (0, len(text)), (max(0, len(text) - 1), len(text))]
    assert len(READERS[language].read(text).qualify(places)) == 3


PATTERNS = [
    *("no fever, ", "no ", "fever, no. ", "fever and ", "no\nfever\n", "kann nicht ", "FEVER: ", "history of fever\t"),
    *(
        "(no fever ",
        "[ ] fever ",
        "3.5.2021 1999 fever ",
        "no fever or ",
        "kein Fieber, ",
        "HWS ",
        "derzeit nicht ",
        "noch ",
    ),
    *(
        "1. x ",
        "Family history: fever ",
        "Family history: fever\n",
        "\n",
        "\n\nfever",
        "- x\n",
        "☐ ",
        "1,5 ",
        "no , ",
        "-.",
    ),
    *(mark + blank for mark in "-(?_*•….,:;)[" for blank in ("", " ")),
]


def steps(language: str, text: str) -> int:
    """Lines that are run, each iteration of a loop for itself, with a mention at every tenth word."""
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


@pytest.mark.parametrize("language", ["de", "en"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_steps_grow_with_the_length(pattern: str, language: str) -> None:
    """A text four times as long takes some four times as many steps, whatever it is made of."""
    READERS[language].read(pattern).qualify([(0, 1)])  # what is read once in a process
    assert steps(language, pattern * 1600) < 5 * max(steps(language, pattern * 400), 400)


def test_mentions_may_overlap_and_come_in_any_order() -> None:
    text = "No chest pain or fever."
    found = READERS["en"].read(text).qualifiers([(17, 22), (3, 13), (9, 13), (3, 13)])
    assert [one.presence for one in found] == ["absent"] * 4


def test_words_may_be_given() -> None:
    text = "No fever."
    note = READERS["en"].read(text, words(text)[1:])
    assert [one.presence for one in note.qualifiers([(3, 8)])] == ["present"]


def test_a_number_of_any_length_may_stand_before_a_dot() -> None:
    """It is no item of a list, and Python reads no number of so many digits."""
    assert said("1. <COPD> 2. V. a. <Asthma> " + "7" * 5000 + ". Kein <Fieber>", "de") == [
        ("present", "current", "patient"),
        ("uncertain", "current", "patient"),
        ("absent", "current", "patient"),
    ]


@pytest.mark.parametrize(
    ("language", "text", "presence"),
    [
        ("es", "hígado no agrandado", "absent"),
        ("es", "hígado agrandado", "present"),
        ("de", "Milz nicht vergrößert", "absent"),
        ("en", "abdomen is soft and nontender", "absent"),
    ],
)
def test_a_denial_among_loose_words_is_the_notes(language: str, text: str, presence: str) -> None:
    note, place = READERS[language].read(text), (0, len(text))
    assert [one.presence for one in note.qualifiers([place], [place])] == [presence]
    assert [one.presence for one in note.qualifiers([place])] == ["present"]


@pytest.mark.parametrize("text", ["Lunge: eupn., VAG bds.", "Pat. eupn.", "Eupnoe."])
def test_a_mention_without_the_full_stop_of_a_word_that_denies(text: str) -> None:
    end = text.index("eupn") + 4 if "eupn" in text else 6
    note = StatusReader("de").read(text)
    assert [one.presence for one in note.qualifiers([(end - 4 if "eupn" in text else 0, end)])] == ["absent"]
