"""``benchmarks/notes.py``: which notes are timed, that every way of medlink finds the same, and the table."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medlink.evaluation.findings import GoldText
from tests.scripts import BENCHMARKS, benchmark

TEXTS = {"en": "No fever, but hypertension.", "de": "Kein Fieber, aber Diabetes mellitus.", "es": "Fiebre y diabetes."}
SHARED = "these are the eight words that both share"


@pytest.fixture
def script() -> Any:
    return benchmark("notes")


def write(folder: Path, **texts: str) -> None:
    """Files of notes in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, "utf-8")


def test_no_case_is_taken_twice(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "notes/de", letter="Ein Brief.")
    write(tmp_path / "notes/en", transcription=f"One of English: {SHARED}.")
    write(tmp_path / "notes/es", case0="Un caso corregido.")
    names = [f"case{number}" for number in range(12)]
    for folder, language in (("text_files", "es"), ("text_files_en", "en")):
        texts = {name: f"{language} {name} {SHARED if name == 'case1' else ''}" for name in names}
        write(tmp_path / "codiesp/train" / folder, **texts)
    write(tmp_path / "codiesp/dev/text_files")
    written = [GoldText(f"de-{number}", "de", f"Text {number}", (), frozenset(), frozenset()) for number in range(4)]
    for name, value in {
        "DATA": tmp_path,
        "BENCHMARKS": tmp_path,
        "NUMBER": 6,
        "_WARM": 2,
        "written_texts": lambda _: iter(written),
    }.items():
        monkeypatch.setattr(script, name, value)
    notes = script.chosen(6)
    assert notes == script.chosen(6)
    assert len({note.id for note in notes}) == len(notes)
    timed = [note for note in notes if not note.warm]
    assert {note.id for note in timed} > {"letter", "transcription", "case0"}
    assert sorted(note.language for note in timed) == ["de", "en", "en", "es", "es", "es"]
    warm = [note for note in notes if note.warm]
    assert sorted(note.language for note in warm) == ["de", "de", "en", "en", "es", "es"]
    # what shares a run of words with a note that is timed is not read before
    assert "case1" not in {note.id for note in warm}
    assert "none stands in one of the 6 notes" in " ".join(script.described(notes))


def test_every_way_finds_the_same(demo_path: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.symlink_to(demo_path)
    notes = [
        {"id": f"{language}{number}", "language": language, "text": text * (number + 1), "warm": number == 0}
        for language, text in TEXTS.items()
        for number in range(3)
    ]
    path = tmp_path / "all.jsonl"
    path.write_text("".join(json.dumps(note) + "\n" for note in notes), "utf-8")
    program, found = BENCHMARKS / "peers/time_notes.py", {}
    for finder in ("medlink", "link_notes", "link_notes-two", "spacy"):
        command = [sys.executable, program, finder, bundle, path]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=BENCHMARKS.parent)
        found[finder] = json.loads(done.stdout)
    assert len({(one["mentions"], one["linked"]) for one in found.values()}) == 1
    assert found["medlink"]["mentions"] >= found["medlink"]["linked"] >= 8
    assert all(one["wall"] > 0 and one["processor"] > 0 and one["memory"] > 10 for one in found.values())
    assert [name for name, one in found.items() if one["workers"]] == ["link_notes-two"]


def test_a_rival_is_timed(tmp_path: Path) -> None:
    shutil.copy(BENCHMARKS / "peers/time_notes.py", tmp_path)
    fake = "def opened(folder, language):\n    print('chatter')\n    return lambda text: [None] * len(text)"
    (tmp_path / "find_fake.py").write_text(fake)
    notes = [("a", "en", "x", False), ("b", "en", "warm", True), ("c", "de", "xx", False)]
    rows = [dict(zip(("id", "language", "text", "warm"), note, strict=True)) for note in notes]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "time_notes.py", "fake", "index", "all.jsonl"]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=tmp_path).stdout)
    assert (answer["mentions"], answer["linked"], answer["workers"]) == (3, 3, 0)


def test_ratios_are_to_medlink_with_the_same_notes(script: Any, tmp_path: Path) -> None:
    notes = [
        script.Timed("a", "de", "x" * 2000),
        script.Timed("b", "en", "y" * 1000),
        script.Timed("c", "en", "z", True),
    ]
    rows = [script.Row(title, "", tmp_path, on) for title, on in (("medlink", "all"), ("other", "all"), ("m", "en"))]
    runs = [script.Measure(wall, wall, 100, workers, 5, 4) for wall, workers in ((2.0, 0), (1.0, 50), (0.5, 0))]
    lines = list(script.table(dict(zip(rows, runs, strict=True)), {"all": notes, "en": notes[1:]}))
    assert lines[1:] == [
        "| medlink | 2 | 3 | 2.0 | 2.0 | 1.0 | 1.5 | 1.00 | 5 | 4 | 100 |",
        "| other | 2 | 3 | 1.0 | 1.0 | 2.0 | 3.0 | 2.00 | 5 | 4 | 100 + 50 |",
        "| m | 1 | 1 | 0.5 | 0.5 | 2.0 | 2.0 | 1.00 | 5 | 4 | 100 |",
    ]
    assert script.middle([runs[1], runs[0], runs[2]]) == runs[1]
