"""The language of a note: given, named or detected, for bundles with regions and untagged names; and word
boundaries.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import ConfigError
from medlink.index import build_bundle
from medlink.kb import Input, build_kb
from medlink.notes.language import NoteLanguages
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note
from medlink.notes.spacy_language import blank

GERMAN = "Der Patient klagt seit gestern über Fieber und Gicht."


def bundle(folder: Path, *names: tuple[str, str]) -> Path:
    """A bundle of names with their languages."""
    rows = [f"X:{i}\t{name}\t{language}" for i, (name, language) in enumerate(names)]
    (folder / "t.tsv").write_text("\n".join(["concept_id\tname\tlanguage", *rows]) + "\n", encoding="utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / "t.tsv")])
    build_bundle(folder / "b", kb=folder / "kb.sqlite")
    return folder / "b"


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
    assert NoteLanguages(["es-mx"]).candidates == ["es"]
    assert NoteLanguages(["de", "de-at", "fr"]).candidates == ["de", "fr"]
    assert NoteLanguages([""]).candidates == ["de", "en", "es"]
    assert NoteLanguages(["", "fr"]).candidates == ["de", "en", "es", "fr"]
    assert NoteLanguages(["fr", "es"]).detect(Note("n", "Le patient se plaint de fièvre et de toux.")) == "fr"
    # lingua knows only one of them
    assert NoteLanguages(["de", "xx"]).detect(Note("n", GERMAN)) == "de"


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
    names = [
        *((name, "de") for name in [*findings, *others, "Rhesus+", "Rhesus"]),
        *((one, "en") for one in with_marks),
    ]
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
