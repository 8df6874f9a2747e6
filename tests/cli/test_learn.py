"""``medlink learn``: what goes in, what it says, and what it does not show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from medlink.cli.main import app
from medlink.errors import MedlinkError

FEVER, COUGH = "DEMO:0209", "DEMO:0226"
SECRET = "Quartermainitis"


def run(*args: object) -> Result:
    result = CliRunner().invoke(app, list(map(str, args)))
    if isinstance(result.exception, MedlinkError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    """Two notes as brat, one as PubTator, links of two that were looked through, and what is none of these."""
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
    house, note = tmp_path / "house.jsonl", tmp_path / "note.txt"
    told = run("learn", demo_path, gold, "-o", house, "--language", "de").stderr.splitlines()
    assert told == [
        "5 notes, 14 mentions: 6 counted, 2 in several pieces, 4 that are parts of words or have none, "
        "2 of 2 concepts that the bundle does not have (MESH:D005334, others)",
        f"1 learned: 1 with a concept: {house}",
        "1 not learned, which too few notes have (--least-seen)",
        "the file holds words of these notes: keep it as you keep them",
        "1 file left out: .png (1)",
        f"rows that cannot be used: 2 (other words stand at these offsets, the first at {gold / 'a.ann'}:5)",
        f"{gold / 'links.jsonl'}: 5 links without a decision, taken as right",
    ]
    assert SECRET.casefold() not in house.read_text("utf-8").casefold()
    note.write_text("Rumpfkrise", "utf-8")
    run("link", demo_path, note, "--language", "de", "--learned", house, "-o", tmp_path / "out.jsonl")
    (line,) = map(json.loads, (tmp_path / "out.jsonl").read_text("utf-8").splitlines())
    assert (line["concept_id"], line["candidates"][0]["route"]) == (FEVER, "learned")
    assert line["score"] == round(6 / 7, 6)


def test_options(demo_path: Path, gold: Path, tmp_path: Path) -> None:
    house = tmp_path / "house.jsonl"
    run("learn", demo_path, gold, "-o", house, "--least-seen", 1, "--least-share", 0.9)
    head, *rows = map(json.loads, house.read_text("utf-8").splitlines())
    assert (head["least_seen"], head["least_share"]) == (1, 0.9)
    assert SECRET.casefold() in {row["mention"] for row in rows}
    run("learn", demo_path, gold, "-o", house, "--language", "en")
    assert {json.loads(line)["language"] for line in house.read_text("utf-8").splitlines()[1:]} == {"en"}


def test_what_is_not_annotated_is_told_apart(demo_path: Path, tmp_path: Path) -> None:
    """Who annotates one mention of a note teaches that the others are none, and is told so."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("Rumpfkrise, Fieber. Husten.", "utf-8")
        marked = f"T1\tX 0 10\tRumpfkrise\nN1\tR T1 {FEVER}\nT2\tX 0 10\tRumpfkrise\nN2\tR T2 {FEVER}\n"
        (tmp_path / f"{name}.ann").write_text(marked, "utf-8")
    house = tmp_path / "house.jsonl"
    told = run("learn", demo_path, tmp_path / "a.ann", tmp_path / "b.ann", "-o", house, "--language", "de").stderr
    assert told.splitlines()[:3] == [
        "2 notes, 4 mentions: 2 counted, 2 at places that are annotated already",
        f"3 learned: 1 with a concept, 2 no mention: {house}",
        "no mention is what stands where nothing is annotated: annotate everything to be found",
    ]
