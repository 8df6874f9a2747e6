"""JSON files and JSON lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.files.json import json_line, parse_json, read_json, read_json_lines, write_json
from medlink.files.problems import Problems
from medlink.files.streams import LineFile


def test_round_trip(tmp_path: Path) -> None:
    data = {"b": ["ä", 1], "a": None}
    write_json(tmp_path / "x.json", data)
    assert read_json(tmp_path / "x.json") == data
    (tmp_path / "x.jsonl").write_text(json_line(data) + "\n" + json_line({"c": "\u2028"}), "utf-8")
    found = read_json_lines(LineFile(tmp_path / "x.jsonl", Problems()))
    assert list(found) == [(1, data), (3, {"c": "\u2028"})]


def test_invalid_lines(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"a": 1}\n[1]\n{"a"\n' + "[" * 100_000 + '\n{"a": 2}\n')
    problems = Problems(1)
    assert [line for line, _ in read_json_lines(LineFile(tmp_path / "x", problems))] == [1, 5]
    assert problems.bad == {"no JSON object": 3}


def test_truncated_last_line(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"a": 1}\n{"a"')
    with pytest.raises(
        InputError, match=r"x:2: the last line is cut off\. Remedy: fetch, unpack or export the file again"
    ):
        list(read_json_lines(LineFile(tmp_path / "x", Problems())))
    (tmp_path / "x").write_text('{"a": 1}\n{"a": 2}')
    assert len(list(read_json_lines(LineFile(tmp_path / "x", Problems())))) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 200_000, "it is nested too deeply"),
        ('{"a": {"b": 1, "b": 1}}', "a key occurs twice"),
        (r'["\ud83d"]', "half a surrogate pair"),
        (r'{"\uDC00": 1}', "half a surrogate pair"),
        ("9" * 5_000, "Exceeds the limit"),
        ("{", "Expecting"),
    ],
)
def test_invalid_json(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)
    (tmp_path / "x").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_json(tmp_path / "x")
    (tmp_path / "x").write_text('{"a": 1}\n' * 500 + text + '\n\n{"a": 2}\n')
    problems = Problems()
    assert len(list(read_json_lines(LineFile(tmp_path / "x", problems)))) == 501
    assert (problems.bad, problems.rows) == ({"no JSON object": 1}, 502)
    # the detail must not quote the text, which may be confidential
    assert message in problems.examples[0].detail or text == "{"


def test_surrogate_pair() -> None:
    assert parse_json(r'["\ud83d\ude00", "\\ud83d"]') == ["😀", "\\ud83d"]
