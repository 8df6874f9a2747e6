"""``medlink evaluate notes``: documents, mentions and status by hand, against scikit-learn, on the demo."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from medlink.errors import InputError
from medlink.evaluation.notes import (
    BestConcept,
    Finding,
    GoldText,
    count,
    is_affirmed,
    is_right,
    rates,
    read_texts,
    status_tables,
    value_rates,
)
from medlink.files.problems import Problems
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note
from medlink.records import Qualifiers
from tests.evaluation import commands

TEXT = "She had a heart attack and has gout. No asthma. Her mother has gout."


def place(words: str, nth: int = 0) -> tuple[int, int]:
    start = -1
    for _ in range(nth + 1):
        start = TEXT.index(words, start + 1)
    return start, start + len(words)


def finding(words: str, concept: str | None, nth: int = 0, **status: str) -> dict[str, Any]:
    return {"pieces": [place(words, nth)], "concepts": [concept] if concept else [], **status}


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def run(*args: object) -> Result:
    return commands.run("notes", *args)


@pytest.fixture(scope="module")
def ids(demo_path: Path) -> dict[str, str]:
    """The concepts of the demo bundle for the mentions of the text."""
    (note,) = NotePipeline(demo_path, language="en").link([Note("n", TEXT)])
    found = {TEXT[one.start : one.end]: one.link.concept_id for one in note.mentions}
    assert found.keys() == {"heart attack", "gout", "asthma"}
    return {words: concept for words, concept in found.items() if concept is not None}


@pytest.fixture
def gold(tmp_path: Path, ids: dict[str, str]) -> Path:
    findings = [
        finding("heart attack", ids["heart attack"], temporality="historical"),
        finding("gout", ids["gout"]),
        finding("asthma", ids["asthma"], presence="absent"),
        finding("gout", ids["gout"], 1, experiencer="family"),
        finding("mother", "X:1"),
    ]
    other = {"id": 2, "language": "en", "text": "Nothing.", "findings": []}
    return write(tmp_path / "gold.jsonl", {"id": "one", "language": "en", "text": TEXT, "findings": findings}, other)


@pytest.mark.slow
def test_the_demo_by_hand(demo_path: Path, gold: Path, tmp_path: Path) -> None:
    found = json.loads(run(demo_path, gold, "--format", "json", "-o", tmp_path / "items.tsv").stdout)
    assert found["head"] == "2 texts with 5 findings at their places"
    (row,) = found["table"]
    # of the affirmed concepts heart attack and gout are found, that of "mother" is not; without its status a denied
    # finding, or one of another person, is a wrong document
    assert (row["P"], row["R"], row["F1"]) == pytest.approx((1, 2 / 3, 0.8))
    assert row["status not read"] == pytest.approx(2 * 2 / (3 + 3))
    assert (row["mention P"], row["mention R"], row["mention F1"]) == pytest.approx((1, 2 / 3, 0.8))
    assert (row["touched"], row["exact"], row["right"]) == pytest.approx((4 / 5, 4 / 5, 4 / 5))
    assert 0 < row["calibration"] < 0.5
    status = {(one["field"], one["value"]): one for one in found["further"]["status"]}
    head = {"language": "en", "field": "presence", "value": "absent", "findings": 1}
    assert status["presence", "absent"] == {**head, "P": 1.0, "R": 1.0, "F1": 1.0}
    assert status["experiencer", "family"]["F1"] == 1
    one, two = commands.rows(tmp_path / "items.tsv")
    columns = ("note", "documents right", "documents missed", "mentions right")
    assert [[row[name] for name in columns] for row in (one, two)] == [["one", "2", "1", "2"], ["2", "0", "0", "0"]]
    assert "gout" not in (tmp_path / "items.tsv").read_text("utf-8")


@pytest.mark.slow
def test_options_are_those_of_linking(demo_path: Path, gold: Path) -> None:
    base = run(demo_path, gold).stdout
    assert run(demo_path, gold).stdout == base
    for options in (("--threshold", 1), ("--no-qualifiers",), ("--semantic-types", "Drug"), ("--language", "de")):
        assert run(demo_path, gold, *options).stdout != base, options
    assert "\nstatus as it was read\n" in base


@pytest.mark.slow
def test_gold_without_status_counts_all_that_is_found(demo_path: Path, ids: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT, "utf-8")
    lines = [f"T{n}\tF {a} {b}\t{TEXT[a:b]}\nN{n}\tR T{n} X:{concept}\n" for n, (a, b), concept in
             [(1, place("asthma"), ids["asthma"]), (2, place("gout"), ids["gout"])]]  # fmt: skip
    (tmp_path / "a.ann").write_text("".join(lines), "utf-8")
    (row,) = json.loads(run(demo_path, tmp_path / "a.ann", "--language", "en", "--format", "json").stdout)["table"]
    # the ids have another prefix there; heart attack was not annotated, nor the gout of the mother
    assert (row["P"], row["R"]) == pytest.approx((2 / 3, 1))
    assert (row["mention P"], row["mention R"]) == pytest.approx((2 / 4, 1))
    assert row["status not read"] == row["F1"]


def linked(words: str, concept: str, nth: int = 0, affirmed: bool = True, is_linked: bool = True) -> BestConcept:
    return BestConcept(*place(words, nth), concept, affirmed, is_linked, 0.9)


def test_counts_by_hand() -> None:
    findings = [
        Finding((place("heart attack"),), frozenset({"A"})),
        Finding((place("gout"),), frozenset({"G", "H"})),
        Finding((place("asthma"),), frozenset({"B"}), Qualifiers("absent")),
        Finding((place("mother"),), frozenset()),
    ]
    text = GoldText.from_findings("n", "en", TEXT, findings)
    assert (text.concepts, text.affirmed) == ({"A", "G", "H", "B"}, {"A", "G", "H"})
    found = [
        linked("heart", "A"), linked("attack", "A"), linked("gout", "C"), linked("asthma", "B"),
        linked("mother", "M", affirmed=False), linked("has gout", "G", is_linked=False),
    ]  # fmt: skip
    counts = count(text, found)
    # the absent asthma is affirmed by the finder, and of two pieces of one finding one is too many
    assert [counts[f"documents {kind}"] for kind in ("right", "wrong", "missed")] == [1, 2, 2]
    assert [counts[f"regardless {kind}"] for kind in ("right", "wrong", "missed")] == [1, 3, 2]
    assert [counts[f"mentions {kind}"] for kind in ("right", "wrong", "missed")] == [1, 3, 1]
    assert [counts[name] for name in ("annotated", "touched", "exact", "coded", "right")] == [4, 4, 3, 3, 2]
    assert rates(counts, "documents") == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert rates(Counter(), "documents") == (0, 0, 0)


def test_incomplete_gold_and_gold_without_spans() -> None:
    gout = Finding((place("gout"),), frozenset({"G"}))
    whole = GoldText.from_findings("n", "en", TEXT, [gout])
    partly = GoldText.from_findings("n", "en", TEXT, [gout], complete=False)
    loose = GoldText.from_findings("n", "en", TEXT, [gout, Finding((), frozenset({"B"}))], has_spans=False)
    at = place("asthma")
    assert [is_right(text, *at, "B", denied=False) for text in (whole, partly, loose)] == [False, None, True]
    assert [is_right(text, *at, "Q", denied=True) for text in (whole, partly, loose)] == [False, None, None]
    assert is_right(loose, *at, "Q", denied=False) is False
    assert loose.findings == (gout,)
    assert count(partly, [linked("asthma", "B")])["mentions wrong"] == 0
    assert count(whole, [linked("asthma", "B")])["mentions wrong"] == 1
    assert [count(loose, [linked("asthma", one)])["mentions wrong"] for one in "BQ"] == [0, 1]
    feared = Qualifiers(temporality="hypothetical", experiencer="family")
    fields: list[tuple[str, ...]] = [(), ("presence",), ("temporality",), ("experiencer",)]
    assert [is_affirmed(feared, known) for known in fields] == [True, True, False, False]


@pytest.mark.slow
def test_status_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import precision_recall_fscore_support

    right = ["absent"] * 4 + ["present"] * 5 + ["uncertain"]
    read = ["absent", "present", "absent", "heading", *["present"] * 3, "absent", "uncertain", "present"]
    pairs = Counter(zip(right, read, strict=True))
    for value in ("absent", "present", "uncertain"):
        wanted = precision_recall_fscore_support(right, read, labels=[value], zero_division=0)
        assert value_rates(pairs, value) == pytest.approx((*(one[0] for one in wanted), read.count(value)))
    table = status_tables({("en", "presence"): pairs})["status as it was read"]
    head = {"language": "en", "field": "presence", "value": "absent"}
    assert {**head, "read as": "heading", "findings": 1} in table
    assert sum(int(row["findings"] or 0) for row in table) == 10


def test_bad_lines_and_files(demo_path: Path, tmp_path: Path) -> None:
    good = {"id": 1, "text": TEXT, "findings": [finding("gout", "DEMO:0001")]}
    bad = [
        {**good, "text": 3},
        {**good, "findings": [{"pieces": [[0, 900]], "concepts": ["A"]}]},
        {**good, "findings": [{"pieces": [[4, 2]], "concepts": ["A"]}]},
        {**good, "findings": [{"pieces": [[0, 3]], "presence": "maybe"}]},
    ]
    problems = Problems(1)
    (text,) = read_texts([write(tmp_path / "b.jsonl", good, *bad)], problems)
    assert (text.annotated_fields, text.has_spans, text.language) == (frozenset(), True, "")
    assert problems.bad == {"no text with findings": 2, "a piece that lies outside its text": 2}
    assert "maybe" not in str(problems.examples)
    problems = Problems(1)
    read_texts([write(tmp_path / "key.jsonl", good, {**good, "findings": [{"gout of Ms X": 1}]})], problems)
    (one,) = problems.examples
    assert (one.line, one.detail) == (2, "findings.0")  # a key may be text of a note
    with pytest.raises(InputError, match=r"c\.jsonl: there is no finding with a concept in it\. Remedy: give texts"):
        read_texts([write(tmp_path / "c.jsonl", {**good, "findings": []})], Problems())
    with pytest.raises(InputError, match=r"d\.jsonl: none of its concepts is in .*bundle\. Remedy: give a bundle"):
        run(demo_path, write(tmp_path / "d.jsonl", {**good, "findings": [finding("gout", "X:1")]}))
