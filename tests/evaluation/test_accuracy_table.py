"""``benchmarks/accuracy.py`` on a dictionary of four names, and the abbreviations of its English mentions."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

Table = Callable[..., list[list[str]]]
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = [("A:1", "fever", "en"), ("A:2", "fever", "en"), ("A:3", "cough", "en"), ("A:4", "heart attack", "en")]


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """The script and what it reads the sets with."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("accuracy"), importlib.import_module("open_data")


@pytest.fixture
def table(scripts: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """What a run prints, as lists of cells."""
    accuracy, data = scripts
    asked = [("cough", "A:3"), ("cough", "A:3"), ("fever", "A:2"), ("HA", "A:4"), ("unknown", "B:1")]
    queries = [
        data.Query(text, frozenset({gold}), "en", "heart attack" if text == "HA" else None) for text, gold in asked
    ]
    monkeypatch.setattr(accuracy, "DICTIONARIES", {"small": lambda: NAMES})
    sets = {"first set": ("small", lambda: queries), "second": ("small", lambda: queries[:2])}
    monkeypatch.setattr(accuracy, "SETS", sets)

    def run(*options: str) -> list[list[str]]:
        result = CliRunner().invoke(accuracy.main, options, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return [line.strip("| ").split(" | ") for line in result.output.splitlines() if not line.startswith("|--")]

    return run


def test_all_columns_by_hand(table: Table, tmp_path: Path) -> None:
    header, first, second = table("--work", str(tmp_path / "work"))
    assert header[:6] == ["set", "language", "names", "mentions", "exact", "TF-IDF"]
    assert header[6:] == ["dense", "dense @5", "joined", "joined @5"]
    # three of four mentions and two of three texts are right: of two with the name "fever" the smaller id is first
    one, five = "0.750 (0.667)", "1.000 (1.000)"
    assert first == ["first set", "en", "4", "4", one, one, one, five, one, five]
    assert second[:4] == ["second", "en", "4", "2"]
    assert table("--dense-only", "--only", "FIRST") == [
        ["set", "language", "names", "mentions", "dense", "dense @5"],
        ["first set", "en", "4", "4", one, five],
    ]


def test_scores_by_hand(table: Table, tmp_path: Path) -> None:
    header, first, _ = table("--work", str(tmp_path / "work"), "--scores")
    assert header[4:] == ["calibration error", "linked", "precision of linked", "linked at precision 0.95"]
    # "fever" is ambiguous with half the score; the two others are linked and right
    assert first[5:] == ["0.667", "1.000", "0.667"]
    assert 0 < float(first[4]) < 0.5


def test_abbreviations_of_the_abstract(
    scripts: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = scripts[1]
    title, abstract = "On heart failure (HF).", "Late HF and HF, but no GF."
    text = f"{title} {abstract}"
    lines = [f"1|t|{title}", f"1|a|{abstract}"]
    for mention in ("HF", "Late HF", "heart failure (HF)", "GF"):
        start = text.rindex(mention)
        lines.append(f"1\t{start}\t{start + len(mention)}\t{mention}\tDisease\tD1|D2")
    other = ["2|t|HF again.", "2|a|Nothing.", "2\t0\t2\tHF\tDisease\tD1"]
    (tmp_path / "ncbi_disease").mkdir()
    path = tmp_path / "ncbi_disease/NCBIdevelopset_corpus.txt"
    path.write_text("\n".join([*lines, "", *other]) + "\n", encoding="utf-8")
    monkeypatch.setattr(data, "BENCHMARKS", tmp_path)
    found = [query.expanded for query in data.ncbi("develop", expand=True)]
    assert found == ["heart failure", "Late heart failure", None, None, None]
    assert [query.asked for query in data.ncbi("develop")] == ["HF", "Late HF", "heart failure (HF)", "GF", "HF"]


def test_alpha_id_terms_are_right_for_all_their_codes(
    scripts: tuple[ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = scripts[1]
    terms = [("ORPHANET:1", "Primose", "de"), ("ORPHANET:2", "Primose", "de"), ("ORPHANET:2", "Zweitose", "de")]
    monkeypatch.setattr(data, "alpha_id", lambda _: terms)
    monkeypatch.setattr(data, "held_out_orpha", lambda concept: concept == "ORPHANET:1")
    wanted = [data.Query("Primose", frozenset({"ORPHANET:1", "ORPHANET:2"}), "de")]
    # of one half, and of the other nothing
    assert data.alpha_id_held_out() + data.alpha_id_held_out(fitted=True) == wanted
