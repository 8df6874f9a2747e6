"""``medlink map``: options, formats, an earlier release."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result

from medlink.mapping.reading import OMOP, USAGI
from tests.cli import runner

CODES = "Nr;Text;Zahl;Maß;Tag\nK1;Fieber;3;;de\nK2;Hb;9;g/dl;de\n"
COLUMNS = ["--code-column", "Nr", "--name-column", "Text", "--frequency-column", "Zahl"]


@pytest.fixture
def codes(tmp_path: Path) -> Path:
    path = tmp_path / "codes.csv"
    path.write_text(CODES, encoding="latin-1")
    return path


def run(*words: str | Path) -> Result:
    return runner.run("map", *words, "--encoding", "latin-1")


def test_to_standard_output(demo_path: Path, codes: Path) -> None:
    done = run(demo_path, codes, *COLUMNS, "--unit-column", "Maß", "--language-column", "Tag")
    head, first, second = done.stdout.splitlines()
    assert [name for name in head.split(",") if not name.startswith("ADD_INFO:")] == list(USAGI)
    assert first.startswith("K2,Hb,9,,g/dl,de,linked,exact: Hb,")
    assert second.startswith("K1,Fieber,3,,,de,linked,exact: Fieber,")
    assert done.stderr.splitlines() == [
        "2 codes, 2 distinct descriptions linked",
        "2 proposed; 0 ambiguous, 0 without a proposal",
    ]


@pytest.mark.parametrize(
    ("name", "options", "begins"),
    [
        ("o.jsonl", [], '{"kind": "code"'),
        ("o.sssom.tsv", [], "# curie_map:"),
        ("o.csv", [], "sourceCode,"),
        ("o.jsonl", ["--format", "source-to-concept-map"], ",".join(OMOP)),
    ],
)
def test_formats(demo_path: Path, codes: Path, tmp_path: Path, name: str, options: list[str], begins: str) -> None:
    done = run(demo_path, codes, *COLUMNS, "-o", tmp_path / name, *options)
    assert done.stdout == ""
    assert (tmp_path / name).read_text("utf-8").startswith(begins)


def test_maps_of_an_earlier_release(demo_path: Path, codes: Path, tmp_path: Path) -> None:
    before, changes = tmp_path / "before.csv", tmp_path / "changes.tsv"
    run(demo_path, codes, *COLUMNS, "-o", before)
    before.write_text(before.read_text("utf-8").replace("UNCHECKED", "APPROVED"), encoding="utf-8")
    done = run(demo_path, codes, *COLUMNS, "-o", tmp_path / "o.csv", "--before", before, "--changes", changes)
    assert done.stderr.splitlines()[-1] == "  kept: 2"
    assert len(changes.read_text("utf-8").splitlines()) == 3


def test_decisions_in_the_output(
    demo_path: Path, codes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "work.csv"
    run(demo_path, codes, *COLUMNS, "-o", out)
    undecided = out.rename(tmp_path / "first.csv")
    out.write_text(undecided.read_text("utf-8").replace("UNCHECKED", "APPROVED", 1), "utf-8")
    words = ("map", demo_path, codes, *COLUMNS, "--encoding", "latin-1")
    error = runner.error_of(capsys, *words, "-o", out)
    assert error.endswith("Remedy: name another output, and give this file with --before.\n")
    done = runner.run(*words, "-o", tmp_path / "o.csv", "--before", out, "--before", undecided)
    assert "  kept: 1" in done.stderr.splitlines()


def test_no_word_of_a_list_is_printed(demo_path: Path, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("code,name\nK1,Geheimwort\n,Geheimwort\nK2\n", encoding="utf-8")
    done = run(demo_path, tmp_path / "codes.csv", "-o", tmp_path / "o.csv", "--max-bad-share", "0.9")
    assert "Geheim" not in done.stderr
