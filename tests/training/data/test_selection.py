"""Selection: languages, excluded concepts, and tables of definitions."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from medlink.errors import ConfigError, InputError
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.language.tags import wanted
from medlink.records import Definition
from medlink.training.data import selection
from medlink.training.data.selection import OTHER_LANGUAGE, UNKNOWN, Selection, definitions_by_code, read_definitions
from medlink.training.data.view import TrainingView
from tests.kb.writers import conso, write_lines

MORE = [
    Definition("H:3", "A seizure with fever.", "en"),
    Definition("H:9", "Nothing known.", "en"),
    Definition("H:3", "Ein Krampf bei Fieber.", "de-at"),
    Definition("H:1", "One without a language."),
]


def test_languages_by_hand(kb: KnowledgeBase) -> None:
    german = Selection(kb, languages=["GER"])
    assert german.languages == {"de"}
    # a region belongs to its language; a name without one is always in
    expected = ["Krankheit", "Krampfanfälle", "Fraisen", "Fieberkrampf", "Gefäßverschluß", "alfa"]
    assert [name.text for name in german.names()] == expected
    assert [one.text for one in german.definitions()] == ["Ein Zustand, der schadet."]


def test_fully_specified_names_are_not_trained_on(kb: KnowledgeBase, tmp_path: Path) -> None:
    shutil.copy(kb.path, tmp_path / "kb.sqlite")
    with closing(sqlite3.connect(tmp_path / "kb.sqlite")) as connection, connection:
        connection.execute("UPDATE name SET type = 'fsn' WHERE text = 'Fraisen'")
    with KnowledgeBase(tmp_path / "kb.sqlite") as changed:
        expected = [name.text for name in kb.iter_names() if name.text != "Fraisen"]
        assert [name.text for name in Selection(changed).names()] == expected
        view, full = TrainingView(changed), TrainingView(kb)
    assert len(view.names.values) == len(full.names.values) - 1
    assert "Fraisen" not in view.name_texts(view.names.values).values()


@pytest.mark.slow
@pytest.mark.parametrize("languages", [None, ["de", "es"], ["de-at"]])
@pytest.mark.parametrize("without", [[], ["H:1", "H:6", "no such id"]])
def test_selection_against_a_full_scan(kb: KnowledgeBase, languages: list[str] | None, without: list[str]) -> None:
    chosen = Selection(kb, languages=languages, without=without)
    tags = None if languages is None else frozenset(languages)
    for taken, everything in ((chosen.names(), kb.iter_names()), (chosen.definitions(), kb.iter_definitions())):
        assert list(taken) == [
            one for one in everything if one.concept_id not in without and wanted(one.language, tags)
        ]
    assert chosen.unmatched == without.count("no such id")
    assert chosen.excluded == set(without) - {"no such id"}


def test_unknown_languages_and_ids(kb: KnowledgeBase) -> None:
    with pytest.raises(ConfigError, match=r"no names in the language fr; it has names without a language, de, de-at"):
        Selection(kb, languages=["en", "fr"])
    with pytest.raises(ConfigError, match="unknown language 'deutsch'"):
        Selection(kb, languages=["deutsch"])
    with pytest.raises(ConfigError, match=r"none of the ids to leave out is a concept.*Remedy: give ids as"):
        Selection(kb, without=["HP:1", "HP:2"])


@pytest.mark.parametrize("part", [1, 10_000])
def test_added_definitions(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    monkeypatch.setattr(selection, "_PART", part)
    problems = Problems()
    assert list(Selection(kb).filter_definitions(MORE, problems)) == [MORE[0], MORE[2], MORE[3]]
    assert problems.skipped == {UNKNOWN: 1}
    problems = Problems()
    assert list(Selection(kb, languages=["de"]).filter_definitions(MORE, problems)) == [MORE[2], MORE[3]]
    assert problems.skipped == {OTHER_LANGUAGE: 2}
    # held out on purpose is neither
    problems = Problems()
    assert list(Selection(kb, without=["H:1", "H:3"]).filter_definitions(MORE, problems)) == []
    assert problems.skipped == {UNKNOWN: 1}
    assert list(Selection(kb).filter_definitions([])) == []


def test_useless_added_definitions(kb: KnowledgeBase) -> None:
    with pytest.raises(ConfigError, match=r"none of the added definitions belongs to a concept.*Remedy: give ids"):
        list(Selection(kb).filter_definitions([Definition("404684003", "A finding.", "en")]))
    with pytest.raises(ConfigError, match=r"none of the added definitions is in de, es\. Remedy: name their language"):
        list(Selection(kb, languages=["es", "de"]).filter_definitions(MORE[:2]))


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        ("agct.tsv", ["concept_id\tdefinition", 'H:1\tA  "state", that\u00a0harms.']),
        ("agct.csv", ["ID,text", 'H:1,"A ""state"", that harms."']),
        ("agct.txt", ["text;id;note", '"A ""state"", that\nharms.";H:1;x']),
    ],
)
def test_layouts(tmp_path: Path, file: str, lines: list[str]) -> None:
    problems = Problems()
    path = write_lines(tmp_path / file, lines)
    wanted = [Definition("H:1", 'A "state", that harms.', "en", "agct")]
    assert list(read_definitions(path, problems=problems)) == wanted
    assert len(problems.notes) == (file == "agct.txt")
    packed = path.with_name(f"{file}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert list(read_definitions(packed)) == wanted


def test_language(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.tsv", ["id\ttext\tlanguage", "1\tetwas\tGER", "2\talgo\t"])
    assert [record.language for record in read_definitions(path)] == ["de", "en"]


def test_bad_rows_are_counted(tmp_path: Path) -> None:
    rows = ["1\tgood\t", "2\t \t", "\tno id\t", "3\tbad\txx", "4\tshort", *["1\tgood\t"] * 3]
    path = write_lines(tmp_path / "t.tsv", ["id\ttext\tlanguage", *rows])
    problems = Problems()
    assert [record.text for record in read_definitions(path, problems=problems)] == ["good"] * 4
    assert problems.bad == {"empty id or definition": 2, "unknown language": 1, "column count": 1}
    assert str(problems.examples[0]) == f"{path}:3: empty id or definition"
    with pytest.raises(InputError, match=r"t.tsv:3: .*rows cannot be used.*Remedy: correct or fetch the file again"):
        list(read_definitions(path, problems=Problems(0)))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("id\tname", r"t.tsv:1: looked for .* found 2 columns: id, name\. Remedy: .*; definition must be there"),
        ("note", r"found 1 column\. Remedy: .*; concept_id and definition must be there"),
        ("id\tconcept_id\ttext", r"a column for the concept_id occurs twice\. Remedy: rename or delete one of them"),
    ],
)
def test_columns(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(read_definitions(write_lines(tmp_path / "t.tsv", [header, "1\t2\t3"])))


def test_codes_of_another_system(tmp_path: Path) -> None:
    rows = [("C1", "cold", "10"), ("C2", "common cold", "10"), ("C2", "coryza", "11"), ("C3", "pain", "12")]
    lines = [conso(cui, text, SAB="SNOMEDCT_US", CODE=code) for cui, text, code in rows]
    write_lines(tmp_path / "META" / "MRCONSO.RRF", lines)
    build_kb(tmp_path / "kb.sqlite", [Input("rrf", tmp_path / "META")])
    given = [Definition(code, f"text {code}", "en") for code in ("12", "10", "99")]
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        found = [(one.concept_id, one.text) for one in definitions_by_code(kb, given, "SNOMEDCT_US")]
        assert found == [("C3", "text 12"), ("C1", "text 10"), ("C2", "text 10"), ("99", "text 99")]
        with pytest.raises(ConfigError, match=r"no codes of the system 'SNOMED'.*Remedy: name the system as"):
            list(definitions_by_code(kb, given, "SNOMED"))
