"""ATC with German names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medlink.files.problems import Problems
from medlink.records import Concept, Mapping, Name, Relation, SemanticType, Source
from tests.kb.writers import read_all, read_atc, write_lines

HEADER = "ATC-Code\t\tATC-Bedeutung\t\tDDD-Info"


def test_everything(tmp_path: Path) -> None:
    lines = [
        HEADER,
        "\t\t\t\t",
        "A      \t\tALIMENTÄRES SYSTEM\t\t",
        "A01    \t\tSTOMATOLOGIKA\t\t",
        "A01A   \t\tSTOMATOLOGIKA\t\t",
        "A01AA  \t\tGegen  Karies\t\t",
        "A01AA01\t\tNatriumfluorid\t\t1,1 mg O; ",
        "0,5 mg Fluorid ",
        "A01AA02\t\tImpfstoff (A,B), ",
        "gereinigt, ",
        "und Bindung\t\t",
        "A01AA03\t\tOlaflur\t\t28 Tabletten; ",
        "21 Tabletten O A01AA04\t\tZinnfluorid\t\t",
    ]
    records, problems = read_all(read_atc, write_lines(tmp_path / "ATC_2026.csv", lines))
    assert records[0] == Source("ATC", "2026", "Anatomical Therapeutic Chemical")
    assert {one.concept_id: one.text for one in records if isinstance(one, Name)} == {
        "ATC:A": "ALIMENTÄRES SYSTEM",
        "ATC:A01": "STOMATOLOGIKA",
        "ATC:A01A": "STOMATOLOGIKA",
        "ATC:A01AA": "Gegen Karies",
        "ATC:A01AA01": "Natriumfluorid",
        "ATC:A01AA02": "Impfstoff (A,B), gereinigt, und Bindung",
        "ATC:A01AA03": "Olaflur",
        "ATC:A01AA04": "Zinnfluorid",
    }
    assert [one for one in records if "ATC:A01AA04" in (getattr(one, "concept_id", ""), getattr(one, "head", ""))] == [
        Concept("ATC:A01AA04", "ATC"),
        Name("ATC:A01AA04", "Zinnfluorid", "de", "preferred", "ATC", True),
        Mapping("ATC:A01AA04", "ATC", "A01AA04", "code", "ATC"),
        SemanticType("ATC:A01AA04", "ALIMENTÄRES SYSTEM", "A", "ATC"),
        Relation("ATC:A01AA04", "isa", "ATC:A01AA", "ATC"),
    ]
    assert (problems.rows, problems.bad, problems.skipped) == (8, {}, {})


@pytest.mark.slow
def test_german_edition(shared: Path) -> None:
    """Codes are those that a pattern finds in the text, also where a line runs into the next."""
    path = shared / "data" / "terminologies" / "atc_de" / "ATC_2026.csv"
    text = path.read_text("utf-8")
    found = re.findall(r"(?m)(?:^(?=\S{1,7} *\t\t)|[ )](?=\S{7}\t\t))([A-Z](?:\d\d\w*)?) *\t\t", text)
    problems = Problems(0)
    codes = [
        one.concept_id.removeprefix("ATC:") for one in read_atc(path, problems=problems) if isinstance(one, Concept)
    ]
    assert sorted(codes) == sorted(found)
    assert len(codes) == 9_148
    assert sum(len(code) == 7 for code in codes) > 7_500


def test_lines_that_belong_to_no_row(tmp_path: Path) -> None:
    """A table that lost its tabs is no cell of thousands of lines: each hundred of them is a bad row."""
    path = write_lines(tmp_path / "x.txt", [HEADER, *["A01AA01 Natriumfluorid 1,1 mg"] * 20_000])
    problems = Problems(1)
    assert len(list(read_atc(path, problems=problems))) == 1
    assert problems.bad == {"column count": 200}
