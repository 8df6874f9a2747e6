"""Real notes and mentions linked to HPO, end to end; skipped without the data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from medlink.cli.main import app
from medlink.index import Bundle
from medlink.linking import Linker

LANGUAGES = ("de", "en", "es")
pytestmark = pytest.mark.slow


def test_one_bundle_in_three_languages(hpo: Path) -> None:
    bundle = Bundle(hpo)
    assert bundle.kb.counts()["names"] > 15_000
    assert set(bundle.index.languages) == set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_note_is_linked(shared: Path, hpo: Path, language: str, tmp_path: Path) -> None:
    files = sorted((shared / "data" / "notes" / language).glob("*.txt"))[:25]
    out = tmp_path / "links.jsonl"
    result = CliRunner().invoke(app, ["link", str(hpo), *map(str, files), "-o", str(out)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "could not be read" not in result.stderr
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    linked = {row["note"] for row in rows}
    assert len(linked) > 0.85 * len(files)
    # detected, not given
    assert sum(row["language"] == language for row in rows) > 0.97 * len(rows)
    texts = {str(path): path.read_bytes().decode("utf-8-sig") for path in files}
    for row in rows:
        assert texts[row["note"]][row["start"] : row["end"]] == row["text"]


@pytest.mark.parametrize(
    ("text", "language", "concept_id"),
    [
        ("Pleuraergüssen", "de", "HP:0002202"),
        ("Diabetes mellitus Typ II", "de", "HP:0005978"),
        ("Dyspnö", "de", "HP:0002094"),
        ("diabetes mellitus tipo 2", "es", "HP:0005978"),
        ("vómitos", "es", "HP:0002013"),
        ("hipercolesterolemia", "es", "HP:0003124"),
        ("lymphadenopathies", "en", "HP:0002716"),
        ("hypokalemmia", "en", "HP:0002900"),
    ],
)
def test_links_that_a_reader_expects(hpo: Path, text: str, language: str, concept_id: str) -> None:
    assert Linker(hpo, language=language).link([text])[0].concept_id == concept_id
