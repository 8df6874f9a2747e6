"""Suspect translations are found, reported and left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink import KnowledgeBase
from medlink.index import Bundle, build_bundle
from medlink.index.suspect_translations import NEARER, find_suspect_translations
from medlink.kb import Input, build_kb
from medlink.language.lexicon.forms import shipped_forms

pytestmark = pytest.mark.slow

_ROWS = (
    ("X:1", "pachygyria", "en"),
    ("X:1", "Pachygyrie", "de"),
    ("X:1", "Tachykardie", "de"),  # the error
    ("X:2", "tachycardia", "en"),
    ("X:2", "Herzjagen", "de"),
    ("X:3", "tachycardic", "en"),  # similar enough to stay
    ("X:3", "Tachykardie", "de"),
    ("X:4", "Apathie", "de"),  # no English name to compare with
    ("X:5", "cold skin", "en"),
    ("X:5", "Apathie", "de"),  # no other concept is called apathy
    ("X:6", "dyspnoea", "en"),
    ("X:6", "Atemnot", "de"),
    ("X:7", "dyspnea on exertion", "en"),
    ("X:7", "Belastungsdyspnoe", "de"),
)


def _kb(folder: Path, rows: tuple[tuple[str, str, str], ...]) -> Path:
    table = folder / "names.tsv"
    table.write_text("concept_id\tname\tlanguage\n" + "".join("\t".join(row) + "\n" for row in rows), "utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", table)])
    return folder / "kb.sqlite"


def _suspects(kb: Path) -> list[tuple[str, str, str]]:
    with KnowledgeBase(kb) as store:
        return [(one.concept_id, one.text, says) for one, says in find_suspect_translations(store, shipped_forms())]


def test_the_only_error_is_found(tmp_path: Path) -> None:
    assert _suspects(_kb(tmp_path, _ROWS)) == [("X:1", "Tachykardie", "tachycardia")]


@pytest.mark.parametrize("gone", ["tachycardia", "pachygyria"], ids=["no such concept", "nothing beside it"])
def test_without_names_to_compare_nothing_is_suspects(tmp_path: Path, gone: str) -> None:
    assert _suspects(_kb(tmp_path, tuple(row for row in _ROWS if row[1] != gone))) == []


def test_the_margin_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = _kb(tmp_path, _ROWS)
    assert 0 < NEARER < 1
    monkeypatch.setattr("medlink.index.suspect_translations.NEARER", 1.0)
    assert _suspects(kb) == []


def test_a_bundle_leaves_them_out(tmp_path: Path) -> None:
    messages = list[str]()
    build_bundle(tmp_path / "b", kb=_kb(tmp_path, _ROWS), on_message=messages.append)
    (message,) = messages
    for part in ("1 name left out", "'Tachykardie'", "X:1", "'tachycardia'", f"Bundle({tmp_path / 'b'})"):
        assert part in message
    bundle = Bundle(tmp_path / "b")
    assert bundle.manifest["doubted"] == [
        {"concept_id": "X:1", "language": "de", "name": "Tachykardie", "says": "tachycardia"}
    ]
    rows = bundle.index.lookup("Tachykardie", "de")
    assert {entry.concept_id for row in rows for entry in bundle.index.entries_of(row)} == {"X:3"}
    assert [name.text for name in bundle.kb.names("X:1")] == ["Pachygyrie", "Tachykardie", "pachygyria"]
