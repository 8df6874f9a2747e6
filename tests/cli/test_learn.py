"""``medlink learn``: inputs, the report, and words that must not be printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .runner import run

pytestmark = pytest.mark.slow

FEVER, COUGH = "DEMO:0209", "DEMO:0226"
SECRET = "Quartermainitis"


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    """Two notes in brat, one in PubTator, reviewed links of two more, and a picture."""
    folder = tmp_path / "gold"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text("Rumpfkrise, Mecker- und Schnarrkrise.", "utf-8")
        marked = [
            f"T1\tX 0 10\tRumpfkrise\nN1\tR T1 {FEVER}", "T2\tX 12 19;24 36\tMecker- Schnarrkrise",
            f"T3\tX 31 36\tkrise\nT4\tX 24 36\tSchnarrkris\nT5\tX 0 5\tRumpf\n#1\tAnnotatorNotes T5\t{SECRET}",
        ]  # fmt: skip
        (folder / f"{name}.ann").write_text("\n".join(marked) + "\n", "utf-8")
    (folder / "c.pubtator").write_text(f"1|t|Rumpfkrise.\n1|a|\n1\t0\t10\tRumpfkrise\tD\t{FEVER}\n", "utf-8")
    links = [
        {"note": note, "text": text, "language": "de", "concept_id": concept}
        for note in ("d", "e")
        for text, concept in (("Rumpfkrise", FEVER), (SECRET, COUGH if note == "d" else "MESH:D005334"))
    ]
    links.append({"note": "e", "text": "Krise", "language": "de", "concept_id": SECRET})
    (folder / "links.jsonl").write_text("".join(json.dumps(one) + "\n" for one in links), "utf-8")
    (folder / "image.png").write_bytes(b"")
    return folder


def test_learn_and_link(demo_path: Path, gold: Path, tmp_path: Path) -> None:
    learned, note = tmp_path / "learned.jsonl", tmp_path / "note.txt"
    printed = run("learn", demo_path, gold, "-o", learned, "--language", "de").stderr.splitlines()
    assert printed == [
        "5 notes, 14 mentions: 6 counted, 2 in several pieces, 4 that are parts of words or have none, "
        "2 of 2 concepts that the bundle does not have (MESH:D005334, others)",
        f"1 learned: 1 with a concept: {learned}",
        "1 not learned, which too few notes have (--least-seen)",
        "the file holds words of these notes: keep it as you keep them",
        "1 file left out: .png (1)",
        f"rows that cannot be used: 2 (the words at these offsets differ, the first at {gold / 'a.ann'}:5)",
        f"{gold / 'links.jsonl'}: 5 links without a decision, taken as accepted",
    ]
    assert SECRET.casefold() not in learned.read_text("utf-8").casefold()
    note.write_text("Rumpfkrise", "utf-8")
    run("link", demo_path, note, "--language", "de", "--learned", learned, "-o", tmp_path / "out.jsonl")
    (line,) = map(json.loads, (tmp_path / "out.jsonl").read_text("utf-8").splitlines())
    assert (line["concept_id"], line["candidates"][0]["route"]) == (FEVER, "learned")
    assert line["score"] == round(6 / 7, 6)


def test_options(demo_path: Path, gold: Path, tmp_path: Path) -> None:
    learned = tmp_path / "learned.jsonl"
    run("learn", demo_path, gold, "-o", learned, "--least-seen", 1, "--least-share", 0.9)
    head, *rows = map(json.loads, learned.read_text("utf-8").splitlines())
    assert (head["least_seen"], head["least_share"]) == (1, 0.9)
    assert SECRET.casefold() in {row["mention"] for row in rows}
    run("learn", demo_path, gold, "-o", learned, "--language", "en")
    assert {json.loads(line)["language"] for line in learned.read_text("utf-8").splitlines()[1:]} == {"en"}


def test_unannotated_mentions_are_learned_as_none(demo_path: Path, tmp_path: Path) -> None:
    """The report warns of that."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("Rumpfkrise, Fieber. Husten.", "utf-8")
        marked = f"T1\tX 0 10\tRumpfkrise\nN1\tR T1 {FEVER}\nT2\tX 0 10\tRumpfkrise\nN2\tR T2 {FEVER}\n"
        (tmp_path / f"{name}.ann").write_text(marked, "utf-8")
    learned = tmp_path / "learned.jsonl"
    printed = run("learn", demo_path, tmp_path / "a.ann", tmp_path / "b.ann", "-o", learned, "--language", "de").stderr
    assert printed.splitlines()[:3] == [
        "2 notes, 4 mentions: 2 counted, 2 at places that are annotated already",
        f"3 learned: 1 with a concept, 2 no mention: {learned}",
        "words that are not annotated count as no mention: annotate every finding",
    ]
