"""Readers of annotated notes: annotations, and bad rows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.notes.gold import AnnotatedNote, Annotation, find_gold, read_gold
from medlink.notes.link import link_notes
from medlink.notes.reading import Note

SECRET = "Quartermainitis"
TEXT = "😀 Fieber und\nHusten, Leber- und Niereninsuffizienz."
ANN = (
    "T1\tFinding 2 8\tFieber\n"
    "N1\tReference T1 HPO:HP:0001945\tFever\n"
    "T2\tFinding 13 19\tHusten\n"
    "#1\tAnnotatorNotes T2\tHP:0012735\n"
    "#2\tAnnotatorNotes T1\tnot sure about it\n"
    "T3\tFinding 21 27;32 50\tLeber- Niereninsuffizienz\n"
    "T4\tFinding 9 12;13 19\tund Husten\n"
    "A1\tNegated T1\nR1\tCause Arg1:T1 Arg2:T2\nE1\tX:T1\n*\tEquiv T1 T2\n\n"
)


def brat(folder: Path, text: str = TEXT, annotations: str = ANN) -> Path:
    (folder / "n.txt").write_bytes(text.encode())
    (folder / "n.ann").write_text(annotations, "utf-8")
    return folder / "n.ann"


def read(path: Path, problems: Problems | None = None) -> list[AnnotatedNote]:
    return list(read_gold(path, problems or Problems()))


def test_brat(tmp_path: Path) -> None:
    problems = Problems()
    (note,) = read(brat(tmp_path), problems)
    assert (note.note_id, note.text, note.language) == (str(tmp_path / "n.txt"), TEXT, None)
    assert [(one.pieces, one.text, one.concepts) for one in note.annotations] == [
        (((2, 8),), "Fieber", ("HPO:HP:0001945",)),
        (((13, 19),), "Husten", ("HP:0012735",)),
        (((21, 27), (32, 50)), "Leber- Niereninsuffizienz", ()),
        (((9, 19),), "und\nHusten", ()),  # only a line end separates its pieces
    ]
    assert not problems.bad


def test_line_ends_of_one_or_two_characters(tmp_path: Path) -> None:
    text = "Fieber\r\nHusten\r\n"
    (one,) = read(brat(tmp_path, text, "T1\tX 7 13\tHusten\n"))[0].annotations
    (two,) = read(brat(tmp_path, text, "T1\tX 8 14\tHusten\n"))[0].annotations
    assert (one.text, one.pieces, two.text, two.pieces) == ("Husten", ((7, 13),), "Husten", ((8, 14),))


@pytest.mark.parametrize("text", ["\ufeffFieber, Husten", "\ufeffFieber,\r\nHusten", "\ufeff Fieber; Husten\n"])
def test_a_note_that_begins_with_the_mark_of_byte_order(text: str, demo_path: Path, tmp_path: Path) -> None:
    """What brat's writer wrote is read back with its offsets; another program may not count the mark."""
    link_notes(demo_path, [Note("n", text, "de")], out=tmp_path / "out", format="brat")
    (note,) = read(next((tmp_path / "out").glob("*.ann")))
    assert note.text == text
    assert [one.text for one in note.annotations] == ["Fieber", "Husten"]
    at = text.index("Fieber") - 1
    (note,) = read(brat(tmp_path, text, f"T1\tX {at} {at + 6}\tFieber\n"))
    assert (note.text, note.annotations[0].pieces) == (text[1:], ((at, at + 6),))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"T9\tX 0 6\t{SECRET}", "the words at these offsets differ"),
        ("T9\tX 900 906\tFieber", "the words at these offsets differ"),
        (f"T9 X 0 6 {SECRET}", "not a line of brat standoff"),
        (f"T1\tX 2 8\t{SECRET}", "duplicate mention"),
        (SECRET, "not a line of brat standoff"),
    ],
)
def test_a_bad_line_of_brat(line: str, message: str, tmp_path: Path) -> None:
    problems = Problems()
    (note,) = read(brat(tmp_path, annotations=f"{ANN}{line}\n"), problems)
    assert len(note.annotations) == 4
    assert [str(one) for one in problems.examples] == [f"{tmp_path / 'n.ann'}:13: {message}"]
    with pytest.raises(InputError, match=r"n\.ann:[23]: 2 of 3 rows cannot be used .* Remedy: ") as caught:
        read(brat(tmp_path, annotations=f"T1\tX 2 8\tFieber\n{line}\n{SECRET}\n"))
    assert SECRET not in str(caught.value)


def test_the_text_of_brat_is_missing(tmp_path: Path) -> None:
    path = brat(tmp_path)
    (tmp_path / "n.txt").unlink()
    with pytest.raises(InputError, match=r"n\.txt: the text of these annotations is missing"):
        read(path)


PUBTATOR = (
    "12|t|Fever in adults.\n12|a|A 😀 case of yellow fever.\n"
    "12\t0\t5\tFever\tDisease\tMESH:D005334\n"
    "12\t29\t41\tyellow fever\tDisease\tD015004|D005334\n"
    "12\t17\t18\tA\tDisease\t-\n"
    "12\tCID\tD005334\tD015004\n\n"
    "13|t|Nothing.\n13|a|\n"
)


def test_pubtator(tmp_path: Path) -> None:
    path = tmp_path / "some.txt"
    path.write_text(PUBTATOR, "utf-8")
    one, two = read(path)
    assert (one.note_id, one.text) == (f"{path}:12", "Fever in adults. A 😀 case of yellow fever.")
    assert one.annotations == (
        Annotation(((0, 5),), "Fever", ("MESH:D005334",)),
        Annotation(((29, 41),), "yellow fever", ("D015004", "D005334")),
        Annotation(((17, 18),), "A"),
    )
    assert (two.text, two.annotations) == ("Nothing. ", ())


def test_a_bad_line_of_pubtator(tmp_path: Path) -> None:
    path = tmp_path / "some.pubtator"
    path.write_text(f"{PUBTATOR}13\t0\t4\t{SECRET}\tDisease\tX:1\n{SECRET}\n13\t0\t7\tNothing\tX\tX:1\n", "utf-8")
    problems = Problems(1)
    assert [len(one.annotations) for one in read(path, problems)] == [3, 1]
    assert dict(problems.bad) == {"the words at these offsets differ": 1, "not a line of PubTator": 1}
    assert SECRET not in "".join(map(str, problems.examples))


def link(**changes: object) -> str:
    row = {"note": "a", "start": 0, "end": 6, "text": "Fieber", "language": "de", "concept_id": "X:1", "section": "s"}
    return json.dumps(row | changes) + "\n"


def test_links(tmp_path: Path) -> None:
    path = tmp_path / "links.jsonl.gz"
    rows = [
        link(), link(concept_id="X:2", decision="accept"), link(concept_id=None, section=None),
        link(decision="reject", note=7),
    ]  # fmt: skip
    path.write_bytes(gzip.compress("".join(rows).encode()))
    problems = Problems()
    one, two = read(path, problems)
    assert (one.note_id, one.text, one.language, two.note_id) == ("a", None, "de", "7")
    assert one.annotations == (
        Annotation((), "Fieber", ("X:1",), section="s"),
        Annotation((), "Fieber", ("X:2",), section="s"),
        Annotation((), "Fieber"),
    )
    assert two.annotations == (Annotation((), "Fieber", rejected=True, section="s"),)
    assert problems.notes == [f"{path}: 2 links without a decision, taken as accepted"]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (link(note=None), "note"),
        (link(text=" "), "text"),
        (link(concept_id=3), "concept_id"),
        ('{"note": "a", "text": "b"}\n', "concept_id"),
        (link(decision=SECRET), "decision"),
        (link(language=["de"]), "language"),
        (link(language="Deutsch, glaube ich"), "language"),
        (link(section=3), "section"),
        (f"{SECRET}\n", ""),
    ],
)
def test_a_bad_link(line: str, field: str, tmp_path: Path) -> None:
    path = tmp_path / "links.jsonl"
    path.write_text(link() * 2 + line, "utf-8")
    problems = Problems()
    assert sum(len(one.annotations) for one in read(path, problems)) == 2
    (problem,) = map(str, problems.examples)
    assert problem.startswith(f"{path}:3: ")
    assert not field or f"field {field!r}" in problem
    assert SECRET not in problem


def test_find_gold(tmp_path: Path) -> None:
    for name in ("deep", "empty"):
        (tmp_path / name).mkdir()
    ann = brat(tmp_path / "deep")
    (tmp_path / "links.jsonl").write_text(link(), "utf-8")
    (tmp_path / "other.txt").write_text(SECRET, "utf-8")
    (tmp_path / "image.png").write_bytes(b"")
    (tmp_path / ".hidden.ann").write_text(ANN, "utf-8")
    found, left_out = find_gold([tmp_path, ann, ann.with_suffix(".txt")])
    assert (found, dict(left_out)) == ([ann, tmp_path / "links.jsonl"], {".txt": 1, ".png": 1})
    for name, message in (
        ("no", "no such file or folder"), ("empty", "no annotations: looked for .ann, .jsonl"),
        ("other.txt", "not annotated notes: neither brat"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=" Remedy: ") as caught:
            find_gold([tmp_path / name])
        assert str(caught.value).startswith(f"{tmp_path / name}: {message}")
