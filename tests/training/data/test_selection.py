"""What of a knowledge base is trained on: languages, concepts held out, further definitions."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from medlink.errors import ConfigError
from medlink.files.problems import Problems
from medlink.kb import KnowledgeBase
from medlink.language.tags import wanted
from medlink.records import Definition
from medlink.training.data import selection
from medlink.training.data.selection import OTHER_LANGUAGE, UNKNOWN, Selection
from medlink.training.data.view import TrainingView

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
    assert [name.text for name in german.names()] == [
        "Krankheit",
        "Krampfanfälle",
        "Fraisen",
        "Fieberkrampf",
        "Gefäßverschluß",
        "alfa",
    ]
    assert [one.text for one in german.definitions()] == ["Ein Zustand, der schadet."]


def test_fully_specified_names_are_not_trained_on(kb: KnowledgeBase, tmp_path: Path) -> None:
    shutil.copy(kb.path, tmp_path / "kb.sqlite")
    with closing(sqlite3.connect(tmp_path / "kb.sqlite")) as connection, connection:
        connection.execute("UPDATE name SET type = 'fsn' WHERE text = 'Fraisen'")
    with KnowledgeBase(tmp_path / "kb.sqlite") as changed:
        expected = [name.text for name in kb.iter_names() if name.text != "Fraisen"]
        assert [name.text for name in Selection(changed).names()] == expected
        view, whole = TrainingView(changed), TrainingView(kb)
    assert len(view.names[1]) == len(whole.names[1]) - 1
    assert "Fraisen" not in {text for text, _ in view.name_texts(view.names[1]).values()}


@pytest.mark.parametrize("languages", [None, ["en"], ["de", "es"], ["de-at"]])
@pytest.mark.parametrize("without", [[], ["H:2"], ["H:1", "H:6", "no such id"]])
def test_against_a_walk_through_everything(kb: KnowledgeBase, languages: list[str] | None, without: list[str]) -> None:
    chosen = Selection(kb, languages=languages, without=without)
    tags = None if languages is None else frozenset(languages)
    for taken, everything in ((chosen.names(), kb.iter_names()), (chosen.definitions(), kb.iter_definitions())):
        assert list(taken) == [
            one for one in everything if one.concept_id not in without and wanted(one.language, tags)
        ]
    assert chosen.unmatched == without.count("no such id")
    assert chosen.left_out == set(without) - {"no such id"}


def test_what_is_not_there(kb: KnowledgeBase) -> None:
    with pytest.raises(ConfigError, match=r"no names in the language fr; it has names without a language, de, de-at"):
        Selection(kb, languages=["en", "fr"])
    with pytest.raises(ConfigError, match="unknown language 'deutsch'"):
        Selection(kb, languages=["deutsch"])
    with pytest.raises(ConfigError, match=r"none of the ids to leave out is a concept.*Remedy: give ids as"):
        Selection(kb, without=["HP:1", "HP:2"])


@pytest.mark.parametrize("part", [1, 2, 10_000])
def test_added_definitions(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    monkeypatch.setattr(selection, "_PART", part)
    problems = Problems()
    assert list(Selection(kb).added(MORE, problems)) == [MORE[0], MORE[2], MORE[3]]
    assert problems.skipped == {UNKNOWN: 1}
    problems = Problems()
    assert list(Selection(kb, languages=["de"]).added(MORE, problems)) == [MORE[2], MORE[3]]
    assert problems.skipped == {OTHER_LANGUAGE: 2}
    # held out on purpose is neither
    problems = Problems()
    assert list(Selection(kb, without=["H:1", "H:3"]).added(MORE, problems)) == []
    assert problems.skipped == {UNKNOWN: 1}
    assert list(Selection(kb).added([])) == []


def test_added_definitions_that_are_of_no_use(kb: KnowledgeBase) -> None:
    with pytest.raises(ConfigError, match=r"none of the added definitions belongs to a concept.*Remedy: give ids"):
        list(Selection(kb).added([Definition("404684003", "A finding.", "en")]))
    with pytest.raises(ConfigError, match=r"none of the added definitions is in de, es\. Remedy: name their language"):
        list(Selection(kb, languages=["es", "de"]).added(MORE[:2]))
