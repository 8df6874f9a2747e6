"""Which language a note has: given, named or found out, in bundles of regions and of untagged names."""

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


@pytest.mark.parametrize("tag", ["de-at", "de", ""])
def test_a_region_counts_as_its_language_and_untagged_names_as_any(tmp_path: Path, tag: str) -> None:
    """Such bundles were linked as English, and without other languages nothing was found."""
    folder = bundle(tmp_path, ("Fieber", tag), ("Gicht", tag))
    for other_languages in (True, False):
        pipeline = NotePipeline(folder, other_languages=other_languages)
        assert linked(pipeline, Note("n", GERMAN)) == [("de", ["Fieber", "Gicht"])]


def test_the_languages_of_a_run() -> None:
    assert NoteLanguages(["es-mx"]).candidates == ["es"]
    assert NoteLanguages(["de", "de-at", "fr"]).candidates == ["de", "fr"]
    assert NoteLanguages([""]).candidates == ["de", "en", "es"]
    assert NoteLanguages(["", "fr"]).candidates == ["de", "en", "es", "fr"]
    assert NoteLanguages(["fr", "es"]).of(Note("n", "Le patient se plaint de fièvre et de toux.")) == "fr"
    # lingua knows one of them alone
    assert NoteLanguages(["de", "xx"]).of(Note("n", GERMAN)) == "de"


def test_a_language_that_a_note_names_is_honoured(tmp_path: Path) -> None:
    """Names of that language, exact forms and untagged names; it was called another language."""
    folder = bundle(tmp_path, ("fièvre", "fr"), ("asthma", "en"), ("goutte", ""), ("Fieber", "de"))
    note = Note("n", "Fièvre, asthma, goutte.", "fr-CA")
    assert linked(NotePipeline(folder), note) == [("fr", ["Fièvre", "asthma", "goutte"])]
    assert linked(NotePipeline(folder, other_languages=False), note) == [("fr", ["Fièvre", "goutte"])]


def test_a_language_that_cannot_be_read_is_a_problem(demo_path: Path) -> None:
    problems = {"German": "unknown language 'German'", "ja": "not parted by blanks", "zh": "not parted by blanks"}
    *bad, good = NotePipeline(demo_path).link([Note("n", "fever", language) for language in (*problems, "en")])
    for note, message in zip(bad, problems.values(), strict=True):
        assert message in str(note.note.problem)
        assert note.mentions == ()
    assert len(good.mentions) == 1


def test_a_given_language_holds_for_all_notes(demo_path: Path) -> None:
    languages = NoteLanguages(["en"], "de_AT")
    assert languages.of(Note("n", "fever", "es")) == "de"
    with pytest.raises(ConfigError, match="unknown language 'Klingon'"):
        NotePipeline(demo_path, language="Klingon")
    with pytest.raises(ConfigError, match="'ja' are not parted by blanks"):
        NotePipeline(demo_path, language="ja")
    with pytest.raises(ConfigError, match="unknown language 'Klingon'"):
        NoteLanguages(["en"]).of(Note("n", "x", "Klingon"))


def test_glued_words_are_parted() -> None:
    assert [token.text for token in blank("en").tokenizer("pain.nan -cyst")] == ["pain", ".", "nan", "-", "cyst"]


GLUED = (
    "Fieber+Husten", '"Fieber","Husten"', 'Diagnose:"Fieber",Husten', "Fieber|Husten", "|Fieber|Husten|",
    "<b>Fieber</b><br/>Husten", "Fieber;Husten", "Fieber/Husten", "'Fieber','Husten'", "[Fieber][Husten]",
    "{Fieber}{Husten}", "Fieber_Husten", "*Fieber*Husten*", "Fieber\\Husten", "Fieber→Husten", "Fieber&Husten",
    "„Fieber“,„Husten“", "Fieber<38=Husten", "Fieber\u00a0+\tHusten", "Fieber\u200bHusten", "Fieber\u2060Husten",
    "Fieber\ufeffHusten",
)  # fmt: skip


def test_mentions_that_marks_glue(demo_path: Path) -> None:
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
"""Names of ions and of other things without their charge, and an identifier."""


def test_marks_around_a_mention(tmp_path: Path) -> None:
    findings, others = [*WORDS[::2], "Übelkeit"], [name.rstrip("+") for name in NONE[:-1]]
    pipeline = NotePipeline(bundle(tmp_path, *((name, "de") for name in findings + others)), language="de")
    wanted = {marks.format(word): [word] for word in WORDS for marks in MARKS} | {text: [] for text in NONE}
    for one in pipeline.link([Note(text, text) for text in wanted]):
        text = one.note.text
        assert [text[m.start : m.end] for m in one.mentions if m.link.status == "linked"] == wanted[text], text
        assert len(one.mentions) == len(wanted[text])


def test_a_name_that_ends_in_a_plus(tmp_path: Path) -> None:
    """It is found whole, and the word before it where no name has the plus."""
    folder = bundle(tmp_path, ("Rhesus+", "de"), ("Rhesus", "de"), ("Fieber", "de"))
    text = "Rhesus+ Fieber+ Rhesus"
    (note,) = NotePipeline(folder, language="de").link([Note("n", text)])
    assert [text[one.start : one.end] for one in note.mentions] == ["Rhesus+", "Fieber", "Rhesus"]


def test_marks_inside_a_word_part_nothing(tmp_path: Path) -> None:
    """What a terminology writes with a mark is found whole, and an apostrophe is of its word."""
    names = [("Crohn's disease", "en"), ("HER2/neu", "en"), ("Na+/K+-ATPase", "en")]
    text = "Crohn's disease, HER2/neu,Na+/K+-ATPase"
    (note,) = NotePipeline(bundle(tmp_path, *names), language="en").link([Note("n", text)])
    assert [text[one.start : one.end] for one in note.mentions] == [name for name, _ in names]
    assert [token.text for token in blank("en").tokenizer("Crohn's")] == ["Crohn", "'s"]
