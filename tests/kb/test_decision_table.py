"""Tables of decisions: what is read of them, and what is refused."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb.decision_table import COLUMNS, LOCATION_COLUMNS, Decision, format_cells, iter_decisions

HEADER = "\t".join((*COLUMNS, *LOCATION_COLUMNS)) + "\n"
GOOD = (
    "H:1|fever|EN|synonym||accept|mention|'-|4|9|plan|H:2",
    "|rash|en|||none|mention|a.txt|0|4||",
    "|and|en|||reject|mention|a.txt|5|8||H:3",
    "H:1|'=fever()|de|synonym||accept|code|'=7|||| H:1 ",
    "|||||done|note|a.txt||||",
    "NEW:1|arm pain|en|preferred|H:2|group||||||",
)


def written(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "decisions.tsv"
    path.write_text(HEADER + "".join(row.replace("|", "\t") + "\n" for row in rows), "utf-8")
    return path


def test_each_kind_of_row(tmp_path: Path) -> None:
    assert list(iter_decisions(written(tmp_path, *GOOD))) == [
        Decision("H:1", "fever", "en", False, "", "accept", 2, "mention", "-", 4, 9, "plan", "H:2"),
        Decision("", "rash", "en", False, "", "none", 3, "mention", "a.txt", 0, 4),
        Decision("", "and", "en", False, "", "reject", 4, "mention", "a.txt", 5, 8, "", "H:3"),
        Decision("H:1", "=fever()", "de", False, "", "accept", 5, "code", "=7", proposed="H:1"),
        Decision("", "", "", False, "", "done", 6, "note", "a.txt"),
        Decision("NEW:1", "arm pain", "en", True, "H:2", "group", 7),
    ]


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=9).map(str.strip)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXT.filter(bool), TEXT.filter(bool), st.integers(0, 99), st.integers(1, 99))
def test_cells_are_read_as_they_were(term: str, item: str, at: int, length: int) -> None:
    term = " ".join(term.split())
    row = Decision("H:1", term, "de", False, "", "accept", 2, "mention", item, at, at + length, "plan", "H:2")
    table = BytesIO((HEADER + "\t".join(format_cells(row)) + "\n").encode())
    assert list(iter_decisions(LineFile("d.tsv", Problems(), stream=table))) == [row]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "H:1|a|en|synonym||accept|word|x||||",
            "unknown word in the column kind. Remedy: use mention, code or note, or ",
        ),
        ("|a|en|||done|mention|x|0|1||", "unknown word in the column decision. Remedy: use accept, none or reject."),
        ("|a|en|||none||||||", "unknown word in the column decision. Remedy: use accept, group or reject."),
        ("|||||reject|note|x||||", "unknown word in the column decision. Remedy: use done."),
        ("H:1|a|en|synonym||accept|code|||||", "there is no item. Remedy: write the id of the note, or the code."),
        (
            "|a|en|||reject|mention|x|4|4||",
            "start and end are not a place in the note. Remedy: write the offsets of the first ",
        ),
        ("|a|en|||reject|mention|x|-1|4||", "start and end are not a place in the note."),
        ("|a|en|||reject|mention|x|٣|9||", "start and end are not a place in the note."),
        (
            "|rash|en|||reject|mention|a.txt|0|4||",
            "another decision about this place is in line 2. Remedy: keep one of the ",
        ),
    ],
)
def test_a_bad_row(row: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, GOOD[1], row)
    with pytest.raises(InputError) as caught:
        list(iter_decisions(path))
    assert str(caught.value).startswith(f"{path}:3: {message}")


def test_a_column_of_the_place_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "d.tsv"
    path.write_text(HEADER.replace("\tend", ""), "utf-8")
    with pytest.raises(InputError, match=r"d.tsv:1: looked for the columns kind, item, start, end, "):
        list(iter_decisions(path))
