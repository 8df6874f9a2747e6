"""Rows that formats with a description cannot use, and files of another format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import InputError
from tests.kb.readers import test_alphaid, test_atc, test_icd_metadata
from tests.kb.writers import (
    read_all,
    read_alphaid,
    read_atc,
    read_babelon,
    read_cie10,
    read_icd_metadata,
    read_sssom,
    write_lines,
)

ALPHA_ID = ["2|I5|I21.9|||||x", "1||I21.9|||||x", "1|I6|I21.9|||||", "1|I7|I 21|||||x", "1|I8|I21.9"]
ATC = ["A\t\ta\t\t", "A\t\tb\t\t", "A1\t\tc\t\t", "A01\t\t\t\t", "B\t\td"]
CIE10 = ["codigo\tdescripcion", "I21\tx", "I21\ty", "21\tx", "I22\t"]
REPEATED = {"code repeated, kept once": 1}


@pytest.mark.parametrize(
    ("reader", "lines", "bad", "skipped"),
    [
        (
            read_alphaid,
            [*test_alphaid.ALPHA_ID_SE, *ALPHA_ID],
            {"no term with a number and codes": 4, "column count": 1},
            {"term that is no longer valid": 1},
        ),
        (read_atc, [test_atc.HEADER, *ATC], {"no ATC code, or no name": 2, "column count": 1}, REPEATED),
        (read_cie10, CIE10, {"no code of CIE-10-ES, or no description": 2}, REPEATED),
    ],
)
def test_bad_rows(
    reader: Callable[..., Any], lines: list[str], bad: dict[str, int], skipped: dict[str, int], tmp_path: Path
) -> None:
    _, problems = read_all(reader, write_lines(tmp_path / "x.tsv", lines), share=1)
    assert (problems.bad, problems.skipped) == (bad, skipped)


def test_bad_rows_of_icd_metadata(tmp_path: Path) -> None:
    bad = ["4;N;S;04;E10;x;E10;E100;title", "3;N;X;04;E10;x;E11;E11;", "3;N;X", test_icd_metadata.KODES[0]]
    folder = test_icd_metadata.write(tmp_path / "m", [*test_icd_metadata.KODES, *bad])
    _, problems = read_all(read_icd_metadata, folder, share=1)
    assert problems.bad == {"column count": 1, "level that is not that of the code": 1, "no code, or no title": 1}
    assert problems.skipped == REPEATED


@pytest.mark.parametrize(
    ("reader", "lines", "message"),
    [
        (read_alphaid, ["a,b,c"], r"x\.tsv:1: looked for 7 or 8 columns, parted by | or by semicolons; found 1"),
        (read_atc, ["a"], "looked for the columns ATC-Code and ATC-Bedeutung; found 1 column"),
        (read_babelon, ["id\tname", "1\tone"], "the columns subject_id and translation_value; found 2 columns"),
        (read_cie10, ["código\tx"], r"the columns código \(or codigo or code\) and descripción"),
        (read_sssom, ["# x", "subject_id\tobject_id"], "the columns subject_id, predicate_id and object_id; found"),
    ],
)
def test_another_format(reader: Callable[..., Any], lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        list(reader(write_lines(tmp_path / "x.tsv", lines)))
