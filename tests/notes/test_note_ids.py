"""Ids of notes that are text files: names that are numbers, and a table of the user."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import InputError
from medlink.notes.link import Report, link_notes
from tests.cli import runner

NLP: dict[str, Any] = {"format": "note_nlp", "date": "2026-11-30", "language": "en"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Notes in text files whose names are numbers."""
    (tmp_path / "notes" / "ward").mkdir(parents=True)
    for name in ("1.txt", "002.text", "ward/17.TXT", "ward/900000000000000001.txt"):
        (tmp_path / "notes" / name).write_text("No fever.", "utf-8")
    (tmp_path / "notes" / "5.txt.gz").write_bytes(gzip.compress(b"Cough."))
    (tmp_path / "notes" / "rows.jsonl").write_text('{"id": 31, "text": "fever"}\n', "utf-8")
    return tmp_path


def link(folder: Path, bundle: Path, **options: Any) -> tuple[Report, list[str]]:
    report = link_notes(bundle, folder / "notes", out=folder / "o.csv", **{**NLP, **options})
    with (folder / "o.csv").open(encoding="utf-8", newline="") as file:
        return report, sorted({row["note_id"] for row in csv.DictReader(file)}, key=int)


def test_a_name_that_is_a_number_is_the_id(folder: Path, demo_path: Path) -> None:
    report, ids = link(folder, demo_path)
    assert (report.problems, ids) == ([], ["1", "2", "5", "17", "31", "900000000000000001"])
    (folder / "notes" / "ward" / "1.txt").write_text("Cough.", "utf-8")
    report, _ = link(folder, demo_path)
    assert report.first_duplicate is not None
    assert (report.duplicate_ids, report.first_duplicate.note_id) == (1, "1")
    assert report.first_duplicate.location == str(folder / "notes" / "ward" / "1.txt")
    # other formats keep the names
    link_notes(demo_path, folder / "notes", out=folder / "o.jsonl", language="en")
    assert str(folder / "notes" / "1.txt") in (folder / "o.jsonl").read_text("utf-8")


def test_a_table_of_ids(folder: Path, demo_path: Path) -> None:
    (folder / "notes" / "ward" / "1.txt").write_text("Cough.", "utf-8")
    rows = [f"{folder}/notes/1.txt,71", f"{folder}/notes/ward/1.txt,72", "002.text,73", "17.TXT,74", "5.txt.gz,75"]
    (folder / "ids.csv").write_text("\n".join(["name,note_id", *rows, ""]), "utf-8")
    report, ids = link(folder, demo_path, ids=str(folder / "ids.csv"))
    assert ids == ["31", "71", "72", "73", "74", "75"]
    assert [(Path(note.note_id).name, note.problem) for note in report.problems] == [
        ("900000000000000001.txt", "no id in the table of ids")
    ]
    (folder / "ids.csv").write_text("name,note_id\n1.txt,71\n002.text,73\n17.TXT,74\n5.txt.gz,75\n", "utf-8")
    report, ids = link(folder, demo_path, ids=str(folder / "ids.csv"))
    assert "its name in the table of ids is also that of another file" in [note.problem for note in report.problems]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("name,id\n1.txt,1\n", "looked for the columns name, note_id"),
        ("name,note_id\n1.txt,1\n1.txt,2\n", "ids.csv:3: a name has another id in an earlier row"),
        ("name,note_id\n1.txt,\n", "ids.csv:2: a row without name or note_id"),
        ("name,note_id\n1.txt\n", "column count"),
        ("", "the file is empty"),
    ],
)
def test_tables_that_are_refused(table: str, message: str, folder: Path, demo_path: Path) -> None:
    (folder / "ids.csv").write_text(table, "utf-8")
    with pytest.raises(InputError, match=message):
        link(folder, demo_path, ids=str(folder / "ids.csv"))
    assert not list(folder.glob("o.csv*"))


@pytest.mark.parametrize("count", [1, 70, 200])
def test_a_refused_run_leaves_nothing(
    count: int, tmp_path: Path, demo_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").mkdir()
    for number in range(count):
        (tmp_path / "notes" / f"note {number}.txt").write_text("fever", "utf-8")
    words = ["link", demo_path, tmp_path / "notes", "-o", tmp_path / "o.csv", "--format", "note_nlp"]
    printed = runner.error_of(capsys, *words, "--date", "2026-11-30", "--language", "en")
    assert "name each file by OMOP's note_id, such as 17.txt, or give --ids, a table with the columns" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.slow
@pytest.mark.parametrize("end", [70, 170])
def test_an_interrupted_run_repeats_a_hundred_notes_at_most(end: int, tmp_path: Path, demo_path: Path) -> None:
    rows = [f'{{"id": {number}, "text": "fever {number}"}}\n' for number in range(200)]
    (tmp_path / "n.jsonl").write_text("".join(rows), "utf-8")

    def interrupt(done: int, total: int) -> None:
        if done >= end:
            raise KeyboardInterrupt

    options: dict[str, Any] = {"out": tmp_path / "o.jsonl", "language": "en"}
    with pytest.raises(KeyboardInterrupt):
        link_notes(demo_path, tmp_path / "n.jsonl", progress=interrupt, **options)
    report = link_notes(demo_path, tmp_path / "n.jsonl", resume=True, on_message=str, **options)
    assert end - 100 <= report.already_done <= end + 32
    assert report.notes + report.already_done == 200
    assert (tmp_path / "o.jsonl").read_text("utf-8").count('"text": "fever"') == 200
