"""Mentions with their right concepts, as tables and as the lines of ``medlink link``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.linking.fit import Example
from medlink.training.ranker.gold import read_gold


def test_a_table(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    path.write_text(
        'language,concept_id,mention,context\nger,A:1|A:2,"Fieber, hohes","seit  Tagen"\nen,,none here,\n,B:1,fever,\n',
        encoding="utf-8",
    )
    problems = Problems()
    assert read_gold(path, problems) == [
        Example("Fieber, hohes", "de", frozenset({"A:1", "A:2"}), "seit Tagen"),
        Example("fever", "", frozenset({"B:1"})),
    ]
    assert problems.skipped == {"no concept": 1}


def test_lines_of_links(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"note": "n", "text": "fever", "language": "en", "concept_id": "A:1", "candidates": []},
        {"text": "MS", "language": "en", "concept_id": None, "nil": True},
        {"mention": "Fieber", "text": "a whole note", "concept_id": ["A:1", "A:2"], "context": "x"},
    ]
    path = tmp_path / "links.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = read_gold(path, Problems())
    assert [(one.text, one.language, one.context) for one in found] == [("fever", "en", ""), ("Fieber", "", "x")]


def test_the_expansion_of_an_abbreviation_has_precedence(tmp_path: Path) -> None:
    row = {"text": "Hb 7,9", "expanded": "Anämie", "language": "de", "concept_id": "A:1"}
    (tmp_path / "links.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({**row, "expanded": None}), "utf-8")
    assert [one.text for one in read_gold(tmp_path / "links.jsonl", Problems())] == ["Anämie", "Hb 7,9"]


def test_a_table_of_decisions(tmp_path: Path) -> None:
    columns = "id\tname\tlanguage\ttype\tparent\tdecision\tkind\titem\tstart\tend\tsection\tproposed\n"
    rows = [
        "A:1\tFieber\tde\tsynonym\t\taccept\tmention\tn\t3\t9\t\tA:2\n",
        "\tGips\tde\tsynonym\t\tnone\tmention\tn\t12\t16\t\t\n",
        "A:3\t'=MI\ten\tsynonym\t\taccept\tcode\tL1\t\t\t\t\n",
    ]
    path = tmp_path / "decisions.tsv"
    path.write_text(columns + "".join(rows), "utf-8")
    assert read_gold(path, Problems()) == [
        Example("Fieber", "de", frozenset({"A:1"})),
        Example("=MI", "en", frozenset({"A:3"})),
    ]
    path.write_text(columns + rows[0].replace("accept", "maybe"), "utf-8")
    with pytest.raises(InputError, match="unknown word in the column decision"):
        read_gold(path, Problems())
    path.write_text(columns + rows[1], "utf-8")
    with pytest.raises(InputError, match="it has no mention with a concept"):
        read_gold(path, Problems())


def test_bad_rows_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "gold.tsv"
    good = "fever\tA:1\ten\n" * 6
    path.write_text(f"mention\tconcept_id\tlanguage\n{good}\tA:1\ten\nfever\tA:1\tGerman\nfever\n", encoding="utf-8")
    problems = Problems()
    assert len(read_gold(path, problems)) == 6
    assert sum(problems.bad.values()) == 3
    assert {"empty mention", "unknown language"} <= set(problems.bad)
    path = tmp_path / "gold.jsonl"
    lines = ['{"text": 3, "concept_id": "A:1"}', '{"text": "a", "concept_id": "A:1", "language": 3}', "no"]
    path.write_text("\n".join(['{"text": "a", "concept_id": "A:1"}'] * 6 + lines) + "\n", encoding="utf-8")
    problems = Problems()
    assert len(read_gold(path, problems)) == 6
    assert sum(problems.bad.values()) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mention\tlanguage\nfever\ten\n", "looked for the columns mention, concept_id, language"),
        ("mention\tconcept_id\tlanguage\nfever\t\ten\n", "it has no mention with a concept. Remedy: give a file"),
        ("", "is empty"),
    ],
)
def test_refusals(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "gold.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(message)):
        read_gold(tmp_path / "gold.tsv", Problems())
