"""``medlink train map`` and ``train grounding``: what is held out is what ``medlink evaluate synonyms`` asks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from medlink.cli.main import app
from medlink.errors import ConfigError
from medlink.models import load_encoder


def run(*args: object) -> str:
    done = CliRunner().invoke(app, list(map(str, args)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def counts(text: str, *names: str) -> list[int]:
    return [int(found[1].replace(",", "")) for name in names if (found := re.search(name, text))]


def test_the_map_holds_out_what_is_measured(demo_path: Path, tmp_path: Path) -> None:
    split = ("--rounds", 2, "--zero-shot", 0.3, "--languages", "en,de")
    said = run("train", "map", demo_path, "-o", tmp_path / "map", "--hold-out", *split)
    card = (tmp_path / "map" / "README.md").read_text("utf-8")
    measured = run("evaluate", "synonyms", demo_path, "--encoder", tmp_path / "map", "--sample", 20, *split)
    assert counts(card, r"- names: ([\d,]+)", r"- concepts: ([\d,]+)") == counts(
        measured, r"(\d+) names of", r"of (\d+) concepts"
    )
    assert said.startswith(f"{tmp_path / 'map'}: encoder {load_encoder(tmp_path / 'map').fingerprint}, trained on ")
    assert [line.split()[0] for line in measured.splitlines()[1:]] == ["kind", "test", "zero-shot"]
    run("train", "map", demo_path, "-o", tmp_path / "whole", "--languages", "en,de")
    whole = (tmp_path / "whole" / "README.md").read_text("utf-8")
    assert counts(whole, r"- names: ([\d,]+)") > counts(card, r"- names: ([\d,]+)")


def test_an_option_of_the_split_needs_one(demo_path: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rounds is given and nothing is held out\. Remedy: add --hold-out"):
        run("train", "map", demo_path, "-o", tmp_path / "map", "--rounds", 2)
    assert not (tmp_path / "map").exists()


def test_grounding(demo_path: Path, tmp_path: Path) -> None:
    options = ("--hidden", 8, "--epochs", 1, "--languages", "de", "--no-cca", "--checkpoint-steps", 5)
    said = run("train", "grounding", demo_path, "-o", tmp_path / "out", *options)
    assert ", trained on " in said
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert '"hidden": 8' in card
    assert '"cca": false' in card
    assert load_encoder(tmp_path / "out").encode(["Fieber"]).shape == (1, 256)
