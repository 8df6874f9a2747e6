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


@pytest.mark.parametrize("other_languages", [True, False])
@pytest.mark.parametrize("tag", ["de-at", "de", ""])
def test_a_region_counts_as_its_language_and_untagged_names_as_any(
    tmp_path: Path, tag: str, *, other_languages: bool
) -> None:
    """Such bundles were linked as English, and without other languages nothing was found."""
    pipeline = NotePipeline(bundle(tmp_path, ("Fieber", tag), ("Gicht", tag)), other_languages=other_languages)
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


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("German", "unknown language 'German'"),
        ("ja", "not parted by blanks"),
        ("zh", "not parted by blanks"),
    ],
)
def test_a_language_that_cannot_be_read_is_a_problem(demo_path: Path, language: str, message: str) -> None:
    pipeline = NotePipeline(demo_path)
    note, good = pipeline.link([Note("n", "fever", language), Note("m", "fever", "en")])
    assert message in str(note.note.problem)
    assert (note.mentions, len(good.mentions)) == ((), 1)


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


@pytest.mark.parametrize(
    "text",
    [
        "Fieber+Husten", '"Fieber","Husten"', 'Diagnose:"Fieber",Husten', "Fieber|Husten", "|Fieber|Husten|",
        "<b>Fieber</b><br/>Husten", "Fieber;Husten", "Fieber/Husten", "'Fieber','Husten'", "[Fieber][Husten]",
        "{Fieber}{Husten}", "Fieber_Husten", "*Fieber*Husten*", "Fieber\\Husten", "Fieber→Husten", "Fieber&Husten",
        "„Fieber“,„Husten“", "Fieber<38=Husten", "Fieber\u00a0+\tHusten",
    ],
)  # fmt: skip
def test_mentions_that_marks_glue(text: str, demo_path: Path) -> None:
    (note,) = NotePipeline(demo_path, language="de").link([Note("n", text)])
    assert [text[one.start : one.end] for one in note.mentions] == ["Fieber", "Husten"]
    assert [one.link.concept_id for one in note.mentions] == ["DEMO:0209", "DEMO:0226"]
    assert [one.link.mention for one in note.mentions] == ["Fieber", "Husten"]


@pytest.fixture(scope="module")
def signs(tmp_path_factory: pytest.TempPathFactory) -> NotePipeline:
    """A pipeline whose bundle has names of findings, of ions and of other things without their charge."""
    findings = ["Fieber", "Diabetes mellitus Typ zwei", "Übelkeit"]
    others = ["Na", "K", "NAD", "NADPH", "NH4", "Ca2", "CD4", "Iodo4"]
    folder = bundle(tmp_path_factory.mktemp("signs"), *((name, "de") for name in [*findings, *others]))
    return NotePipeline(folder, language="de")


@pytest.mark.parametrize("word", ["Fieber", "FIEBER", "Diabetes mellitus Typ zwei", "U\u0308belkeit"])
@pytest.mark.parametrize(
    "marks",
    [
        "{}+", "+{}+", "{}++", "{}+++", "{}(+)", "({}+)", "[{}+]", "{}+.", "(+){}", "{}-", "-{}-", "{}--", "{}(-)",
        "{}±", "{}+/-", "{}(+/-)", "{}:+", "{}=+", "/{}/-", "*{}*", "**{}**", "#{}#", ">{}", ">>{}<<", '"{}"', "'{}'",
        "»{}«", "„{}“", "•{}", "‣{}", "▪{}", "—{}—", "↑{}↑", "≥{}", "@{}", "{}%", "_{}_", "\uf0b7{}", "1.{}",
    ],
)  # fmt: skip
def test_marks_around_a_mention(word: str, marks: str, signs: NotePipeline) -> None:
    text = marks.format(word)
    (note,) = signs.link([Note("n", text)])
    assert [text[one.start : one.end] for one in note.mentions] == [word]
    assert [one.link.status for one in note.mentions] == ["linked"]


@pytest.mark.parametrize("text", ["Na+", "K+", "NAD+", "NADPH+", "NH4+", "Ca2+", "CD4+", "Iodo4+", "x7Fieber+"])
def test_a_plus_of_a_chemical_name_or_an_identifier(text: str, signs: NotePipeline) -> None:
    (note,) = signs.link([Note("n", text)])
    assert [text[one.start : one.end] for one in note.mentions] == []


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
