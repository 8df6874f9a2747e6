"""The language of a note: given, named or detected; warnings on a wrong language or encoding; and word boundaries."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import ConfigError
from medlink.files.problems import is_utf8, likely_encoding
from medlink.notes.language import InputChecks, NoteLanguages
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note
from medlink.notes.spacy_language import blank
from tests.reading.bundles import bundle_of

GERMAN = "Der Patient klagt seit gestern über Fieber und Gicht."
TEXTS = {
    "de": "Der Patient hat seit gestern Fieber und keine Dyspnoe, aber eine Rötung über dem rechten Knöchel.",
    "en": "The patient has had a fever since yesterday and there is no rash, but she was given a naïve dose.",
    "es": "El paciente presenta fiebre desde ayer y no tiene disnea, pero sí una lesión en la región lumbar.",
}


def bundle(folder: Path, *names: tuple[str, str]) -> Path:
    return bundle_of(folder, *(f"X:{i}\t{name}\t{language}" for i, (name, language) in enumerate(names)))


def linked(pipeline: NotePipeline, *notes: Note) -> list[tuple[str, list[str]]]:
    """Language and linked mentions of each note."""
    return [
        (one.language, [m.link.mention for m in one.mentions if not m.link.nil]) for one in pipeline.link(list(notes))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["de-at", ""])
def test_names_with_a_region_or_without_a_language(tmp_path: Path, tag: str) -> None:
    folder = bundle(tmp_path, ("Fieber", tag), ("Gicht", tag))
    for other_languages in (True, False):
        pipeline = NotePipeline(folder, other_languages=other_languages)
        assert linked(pipeline, Note("n", GERMAN)) == [("de", ["Fieber", "Gicht"])]


@pytest.mark.slow
def test_languages_to_detect() -> None:
    assert NoteLanguages(["es-mx"]).candidates == ["de", "en", "es"]
    assert NoteLanguages(["", "fr"]).candidates == ["de", "en", "es", "fr"]
    assert NoteLanguages(["fr", "es"]).detect(Note("n", "Le patient se plaint de fièvre et de toux.")) == "fr"
    # lingua knows only one of them
    assert NoteLanguages(["de", "xx"]).detect(Note("n", GERMAN)) == "de"
    # it could not tell the language of the names from others
    assert NoteLanguages(["xx"]).detect(Note("n", GERMAN)) == "xx"


@pytest.mark.slow
@pytest.mark.parametrize("names", ["de", "en", "es", "fr"])
def test_the_language_of_a_note_does_not_follow_from_that_of_the_names(names: str) -> None:
    detect = NoteLanguages([names]).detect
    assert {tag: detect(Note("n", text)) for tag, text in TEXTS.items()} == {tag: tag for tag in TEXTS}
    for text in ("", "120/80", "EF 55 %", "Diabetes mellitus", "Carcinoma in situ", "Ibuprofen 600 mg"):
        assert detect(Note("n", text)) == names


STOPPED = {
    "de": "Warfarin wurde abgesetzt. Der ältere Bruder hat Fibrose. Die Patientin verneint Asthma.",
    "en": "Warfarin was stopped last week. Her older brother has fibrosis. She denies asthma.",
    "es": "Se suspendió la warfarina. Su hermano mayor tiene fibrosis. La paciente niega asma.",
}


@pytest.mark.slow
@pytest.mark.parametrize("names", STOPPED)
def test_qualifiers_of_notes_in_another_language_than_the_names(tmp_path: Path, names: str) -> None:
    words = {"de": ("Warfarin", "Fibrose"), "en": ("warfarin", "fibrosis"), "es": ("warfarina", "fibrosis")}[names]
    pipeline = NotePipeline(
        bundle(tmp_path, *((name, names) for name in (*words, "asthma" if names != "es" else "asma")))
    )
    for one in pipeline.link([Note(tag, text) for tag, text in STOPPED.items()]):
        read = [q and (q.presence, q.temporality, q.experiencer) for q in (m.qualifiers for m in one.mentions)]
        assert read == [
            ("present", "historical", "patient"), ("present", "current", "family"), ("absent", "current", "patient")
        ]  # fmt: skip


@pytest.mark.slow
def test_the_language_of_the_note(tmp_path: Path) -> None:
    folder = bundle(tmp_path, ("fièvre", "fr"), ("asthma", "en"), ("goutte", ""), ("Fieber", "de"))
    note = Note("n", "Fièvre, asthma, goutte.", "fr-CA")
    assert linked(NotePipeline(folder), note) == [("fr", ["Fièvre", "asthma", "goutte"])]
    assert linked(NotePipeline(folder, other_languages=False), note) == [("fr", ["Fièvre", "goutte"])]


@pytest.mark.slow
def test_an_unsupported_language_is_a_problem(demo_path: Path) -> None:
    problems = {"German": "unknown language 'German'", "ja": "does not separate words", "zh": "does not separate words"}
    *bad, good = NotePipeline(demo_path).link([Note("n", "fever", language) for language in (*problems, "en")])
    for note, message in zip(bad, problems.values(), strict=True):
        assert message in str(note.note.problem)
        assert note.mentions == ()
    assert len(good.mentions) == 1


def test_the_language_of_all_notes(demo_path: Path) -> None:
    languages = NoteLanguages(["en"], "de_AT")
    assert languages.detect(Note("n", "fever", "es")) == "de"
    with pytest.raises(ConfigError, match="unknown language 'Klingon'"):
        NotePipeline(demo_path, language="Klingon")
    with pytest.raises(ConfigError, match="'ja' does not separate words by blanks"):
        NotePipeline(demo_path, language="ja")
    with pytest.raises(ConfigError, match="unknown language 'Klingon'"):
        NoteLanguages(["en"]).detect(Note("n", "x", "Klingon"))


@pytest.mark.slow
def test_tokens() -> None:
    tokenizer = blank("en").tokenizer
    assert [token.text for token in tokenizer("pain.nan -cyst")] == ["pain", ".", "nan", "-", "cyst"]
    assert [token.text for token in tokenizer("Crohn's")] == ["Crohn", "'s"]


GLUED = (
    "Fieber+Husten", '"Fieber","Husten"', 'Diagnose:"Fieber",Husten', "Fieber|Husten", "|Fieber|Husten|",
    "<b>Fieber</b><br/>Husten", "Fieber;Husten", "Fieber/Husten", "'Fieber','Husten'", "[Fieber][Husten]",
    "{Fieber}{Husten}", "Fieber_Husten", "*Fieber*Husten*", "Fieber\\Husten", "Fieber→Husten", "Fieber&Husten",
    "„Fieber“,„Husten“", "Fieber<38=Husten", "Fieber\u00a0+\tHusten", "Fieber\u200bHusten", "Fieber\u2060Husten",
    "Fieber\ufeffHusten",
)  # fmt: skip


@pytest.mark.slow
def test_marks_between_mentions(demo_path: Path) -> None:
    for one in NotePipeline(demo_path, language="de").link([Note(text, text) for text in GLUED]):
        read = [(m.link.mention, one.note.text[m.start : m.end], m.link.concept_id) for m in one.mentions]
        assert read == [("Fieber", "Fieber", "DEMO:0209"), ("Husten", "Husten", "DEMO:0226")], one.note.text


WORDS = ("Fieber", "FIEBER", "Diabetes mellitus Typ zwei", "U\u0308belkeit")
MARKS = (
    "{}+", "+{}+", "{}++", "{}+++", "{}(+)", "({}+)", "[{}+]", "{}+.", "(+){}", "{}-", "-{}-", "{}--", "{}(-)", "{}±",
    "{}+/-", "{}(+/-)", "{}:+", "{}=+", "/{}/-", "*{}*", "**{}**", "#{}#", ">{}", ">>{}<<", '"{}"', "'{}'", "»{}«",
    "„{}“", "•{}", "‣{}", "▪{}", "—{}—", "↑{}↑", "≥{}", "@{}", "{}%", "_{}_", "\uf0b7{}", "1.{}",
)  # fmt: skip
NONE = ("Na+", "K+", "NAD+", "NADPH+", "NH4+", "Ca2+", "CD4+", "Iodo4+", "x7Fieber+")
"""Ions and markers, whose names here lack the charge, and an identifier."""


@pytest.mark.slow
def test_marks_around_a_mention(tmp_path: Path) -> None:
    """A name that ends in a plus, or contains marks, is found as a whole."""
    findings, others = [*WORDS[::2], "Übelkeit"], [name.rstrip("+") for name in NONE[:-1]]
    with_marks = ["Crohn's disease", "HER2/neu", "Na+/K+-ATPase"]
    names = [(name, "de") for name in [*findings, *others, "Rhesus+", "Rhesus"]] + [(one, "en") for one in with_marks]
    folder = bundle(tmp_path, *names)
    expected = {marks.format(word): [word] for word in WORDS for marks in MARKS} | {text: [] for text in NONE}
    expected["Rhesus+ Fieber+ Rhesus"] = ["Rhesus+", "Fieber", "Rhesus"]
    for one in NotePipeline(folder, language="de").link([Note(text, text) for text in expected]):
        text = one.note.text
        assert [text[m.start : m.end] for m in one.mentions if m.link.status == "linked"] == expected[text], text
        assert len(one.mentions) == len(expected[text])
    text = "Crohn's disease, HER2/neu,Na+/K+-ATPase"
    (note,) = NotePipeline(folder, language="en").link([Note("n", text)])
    assert [text[one.start : one.end] for one in note.mentions] == with_marks


def warnings(texts: list[str], encoding: str = "utf-8", language: str | None = None) -> list[str]:
    checks = InputChecks(encoding, language)
    for text in texts:
        checks.add(text)
    return list(checks.warnings())


@pytest.mark.parametrize("written", TEXTS)
@pytest.mark.parametrize("given", [*TEXTS, "de-AT", "fr", None])
def test_a_language_that_most_notes_are_not_in(written: str, given: str | None) -> None:
    found = warnings([TEXTS[written]] * 2 + ["EF 55 %"], language=given)
    is_right = given is None or given == "fr" or given.startswith(written)
    tag = (given or "")[:2]
    sentence = f'2 of 3 notes probably in {written!r}, not in {tag!r}: give language="{written}"'
    assert found == ([] if is_right else [sentence])
    assert warnings([TEXTS[written], TEXTS["de"], "Husten"], language="de") == []  # not most of them


@pytest.mark.parametrize("encoding", ["cp1252", "iso8859-1", "cp850", "iso8859-15", "mac-roman"])
def test_an_encoding_that_most_notes_are_not_in(encoding: str) -> None:
    garbled = [text.encode().decode(encoding, "ignore") for text in TEXTS.values()]
    assert warnings([*garbled, "fever"], encoding) == [
        f'3 notes read as {encoding.upper()}, but probably UTF-8: give encoding="utf-8"'
    ]
    assert warnings([*TEXTS.values(), "fever", "→ ↓"], encoding) == []
    assert warnings(garbled, "utf-8") == []


@pytest.mark.parametrize("text", ["Menü", "Müdigkeit", "año ñ", "fiebre", ""])
def test_likely_encodings(text: str) -> None:
    assert is_utf8(text.encode("latin-1")) is False
    assert likely_encoding(text.encode("latin-1") + b" ") == "cp1252"
    assert is_utf8(text.encode() + "Ödem Ö".encode()[:-1])
