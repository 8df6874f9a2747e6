"""History, suspicion and family in the descriptions of codes."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from medlink.index import Bundle
from medlink.mapping import Mapper, SourceCode, map_codes, qualifiers
from medlink.mapping.qualifiers import describe_finding
from tests.tables import cases


@pytest.mark.parametrize(("text", "name", "language", "expected"), cases(__file__, "qualifiers.tsv"))
def test_descriptions(text: str, name: str, language: str, expected: str) -> None:
    found = describe_finding(text, name, language)
    assert ", ".join(found.unusual if found else []) == expected


@pytest.mark.slow
@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_the_quick_look_misses_nothing(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts without a cue are not read; reading all of them gives the same."""
    rules = Path(__file__).parents[1] / "reading" / "qualifiers_rules.txt"
    rows = [row.split("\t") for row in rules.read_text("utf-8").splitlines() if row.startswith(f"{language}\t")]
    texts = [re.sub(r"<([^|>]*)[^>]*>", r"\1", row[1].replace("\\n", " ")) for row in rows]
    texts += [part for text in texts for part in re.split(r"[.,;] ", text)]
    named = [(text, text.split()[-1]) for text in texts if text.split()]
    quick = [describe_finding(*pair, language) for pair in named]
    assert 0.05 < sum(found is not None for found in quick) / len(named) < 0.95
    monkeypatch.setattr(qualifiers, "_readers_for", lambda tag, _: qualifiers._readers(tag))
    for pair, found in zip(named, quick, strict=True):
        assert describe_finding(*pair, language) == found, pair


def test_a_column_says_so(omop: Bundle, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("code,name\n1,Z.n. Herzanfall\n2,Herzanfall\n3,V.a. Fieber\n", "utf-8")
    map_codes(omop, tmp_path / "codes.csv", out=tmp_path / "o.csv", language="de")
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["ADD_INFO:medlink qualifiers"] for row in rows] == ["historical", "", "uncertain"]
    map_codes(omop, tmp_path / "codes.csv", out=tmp_path / "o.jsonl", language="de")
    lines = map(json.loads, (tmp_path / "o.jsonl").read_text("utf-8").splitlines())
    assert [(line["temporality"], line["presence"]) for line in lines] == [
        ("historical", "present"), (None, None), ("current", "uncertain"),
    ]  # fmt: skip
    # a decision does not hide it, and the column is made anew
    text = (tmp_path / "o.csv").read_text("utf-8").replace("UNCHECKED", "APPROVED").replace("historical", "x")
    (tmp_path / "approved.csv").write_text(text, "utf-8")
    map_codes(omop, tmp_path / "approved.csv", out=tmp_path / "again.csv", language="de")
    with (tmp_path / "again.csv").open(encoding="utf-8", newline="") as file:
        assert [row["ADD_INFO:medlink qualifiers"] for row in csv.DictReader(file)] == ["historical", "", "uncertain"]


def test_a_suspicion_is_compared_without_its_cue(demo: Bundle) -> None:
    codes = [SourceCode(name, name, language="de") for name in ("V.a. Herzinfarkt", "Herzinfarkt")]
    suspected, plain = Mapper(demo).propose(codes)
    assert suspected.candidates == plain.candidates
    assert suspected.qualifiers is not None
    assert suspected.qualifiers.presence == "uncertain"
