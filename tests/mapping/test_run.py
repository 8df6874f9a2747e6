"""Runs of ``map_codes``: order, reports, maps of an earlier release."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from medlink.errors import ConfigError, InputError
from medlink.index import Bundle
from medlink.mapping import MapReport, map_codes
from medlink.mapping.reading import USAGI
from medlink.mapping.run import CHANGES

HEAD = ",".join(USAGI)


def row(code: str, name: str, concept: str, called: str, status: str = "APPROVED") -> str:
    return f"{code},{name},1,,0.9,{status},EQUAL,ana,1,{concept},{called},Condition,MAPS_TO,seen,eva,2,ben"


def carry_over(
    bundle: Bundle, tmp_path: Path, now: list[str], before: list[str]
) -> tuple[MapReport, list[dict[str, str]]]:
    """Run with maps of an earlier release; returns the report and the table of changes."""
    (tmp_path / "now.csv").write_text("\n".join(["code,name", *now, ""]), encoding="utf-8")
    (tmp_path / "before.csv").write_text("\n".join([HEAD, *before, ""]), encoding="utf-8")
    changes = tmp_path / "changes.tsv"
    report = map_codes(
        bundle, tmp_path / "now.csv", out=tmp_path / "out.csv", before=tmp_path / "before.csv", changes=changes,
        language="de",
    )  # fmt: skip
    with changes.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return report, rows


def written(tmp_path: Path) -> dict[str, dict[str, str]]:
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        return {one["sourceCode"]: one for one in csv.DictReader(file)}


def test_each_result_of_an_earlier_map(omop: Bundle, tmp_path: Path) -> None:
    before = [
        row("kept", "Irgendwas", "9", "Fever"),
        row("ignored", "Fieber", "0", "", "IGNORED"),
        row("source", "Fiber", "1", "Disease"),
        row("renamed", "Irgendwas", "9", "Pyrexia"),
        row("merged", "Anfall", "5", "Old attack"),
        row("retired", "Fieber", "6", "Gone attack"),
        row("excluded", "Fieber", "7", "Ward fever"),
        row("undecided", "Fieber", "1", "Disease", "UNCHECKED"),
        row("gone", "Fieber", "9", "Fever"),
    ]
    now = [
        "kept,Irgendwas", "ignored,Fieber", "source,Fieber", "renamed,Irgendwas", "merged,Anfall", "retired,Fieber",
        "excluded,Fieber", "undecided,Fieber", "new,Fieber",
    ]  # fmt: skip
    report, changes = carry_over(omop, tmp_path, now, before)
    results = {one["code"]: one["result"] for one in changes}
    assert results == {
        "kept": "kept", "ignored": "kept", "source": "source renamed", "renamed": "target renamed",
        "merged": "target merged", "retired": "target retired", "excluded": "target excluded",
        "undecided": "undecided", "new": "new", "gone": "gone",
    }  # fmt: skip
    assert report.changes == dict(Counter(results.values()))
    out = written(tmp_path)
    assert "gone" not in out
    assert (out["kept"]["mappingStatus"], out["kept"]["conceptId"]) == ("APPROVED", "9")
    assert (out["ignored"]["mappingStatus"], out["ignored"]["conceptId"]) == ("IGNORED", "0")
    for code in ("source", "renamed", "merged", "retired", "excluded", "undecided", "new"):
        assert out[code]["mappingStatus"] == "UNCHECKED", code
    assert (out["renamed"]["conceptId"], out["renamed"]["conceptName"]) == ("9", "Fever")
    assert (out["merged"]["conceptId"], out["merged"]["conceptName"]) == ("2", "Heart attack")
    assert out["retired"]["conceptId"] == out["source"]["conceptId"] == "9"
    assert out["source"]["comment"] == "seen"
    reasons = {one["code"]: one["reason"] for one in changes}
    assert reasons["source"] == "the description was: Fiber"
    assert reasons["merged"] == "5 Old attack is merged (replaced_by): 2"
    assert reasons["renamed"] == "9 was called: Pyrexia"
    assert out["merged"]["ADD_INFO:medlink change"].endswith("(was APPROVED by ana)")
    merged = next(one for one in changes if one["code"] == "merged")
    assert list(merged) == list(CHANGES)
    assert (merged["before_concept_id"], merged["concept_id"]) == ("5", "2")


def test_another_unit_is_another_test(omop: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "one.csv"
    (tmp_path / "list.csv").write_text("code,name,unit\nK1,Hb,g/dl\nK2,Hb,g/dL\n", encoding="utf-8")
    map_codes(omop, tmp_path / "list.csv", out=out, language="de")
    out.write_text(out.read_text("utf-8").replace("UNCHECKED", "APPROVED"), encoding="utf-8")
    (tmp_path / "list.csv").write_text("code,name,unit\nK1,Hb,mmol/l\nK2,Hb,g/dl\n", encoding="utf-8")
    changes = tmp_path / "c.jsonl"
    map_codes(omop, tmp_path / "list.csv", out=tmp_path / "two.csv", before=out, changes=changes, language="de")
    rows = [json.loads(line) for line in changes.read_text("utf-8").splitlines()]
    assert [(row["code"], row["result"], row["reason"]) for row in rows] == [
        ("K1", "source renamed", "the unit was: g/dl"),
        ("K2", "kept", ""),
    ]


@pytest.mark.parametrize("language", [None, "es"])
def test_a_saved_file_states_the_language_of_each_row(language: str | None, omop: Bundle, tmp_path: Path) -> None:
    """A run on it gives the same proposals without the option, and with another language."""
    names = ("Fieber", "Z.n. Herzanfall", "V.a. Fieber", "Hb g/dl", "Herzanfall li.", "fever,en", "ausente,es")
    rows = [f"K{number},{name}{',' * (',' not in name)}" for number, name in enumerate(names)]
    (tmp_path / "list.csv").write_text("\n".join(["code,name,language", *rows, ""]), "utf-8")
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    map_codes(omop, tmp_path / "list.csv", out=first, language="de")
    map_codes(omop, first, out=second, language=language)
    assert first.read_text("utf-8") == second.read_text("utf-8")
    with first.open(encoding="utf-8", newline="") as file:
        languages = {row["sourceCode"]: row["ADD_INFO:language"] for row in csv.DictReader(file)}
    assert [languages[f"K{number}"] for number in range(7)] == ["de"] * 5 + ["en", "es"]


def test_all_targets_of_a_code_must_hold(omop: Bundle, tmp_path: Path) -> None:
    before = [row("K1", "Irgendwas", "9", "Fever"), row("K1", "Irgendwas", "5", "Old attack")]
    _, changes = carry_over(omop, tmp_path, ["K1,Irgendwas"], before)
    assert [one["result"] for one in changes] == ["target merged"]
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        assert [one["conceptId"] for one in csv.DictReader(file)] == ["9", "2"]


def test_a_run_carried_over_to_itself_keeps_all(omop: Bundle, tmp_path: Path) -> None:
    (tmp_path / "now.csv").write_text("code,name\nK1,Fieber\nK2,=Herzanfall\n", encoding="utf-8")
    map_codes(omop, tmp_path / "now.csv", out=tmp_path / "one.csv", language="de")
    text = (tmp_path / "one.csv").read_text("utf-8").replace("UNCHECKED", "APPROVED")
    (tmp_path / "one.csv").write_text(text, encoding="utf-8")
    earlier = {"before": tmp_path / "one.csv", "changes": tmp_path / "c.jsonl"}
    report = map_codes(omop, tmp_path / "now.csv", out=tmp_path / "two.jsonl", **earlier)  # type: ignore[arg-type]
    assert report.changes == {"kept": 2}
    rows = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text("utf-8").splitlines()]
    assert [tuple(one) for one in rows] == [CHANGES, CHANGES]


def test_a_report(omop: Bundle, tmp_path: Path) -> None:
    text = "code,name\nK1,Fieber\nK2,Fieber\nK3,MS\nK4,\nK5,Hb g/dl\nOMOP:2,Herzanfall\nK7,HIV-Test negativ"
    (tmp_path / "codes.csv").write_text(text, encoding="utf-8")
    seen: list[tuple[int, int]] = []
    report = map_codes(
        omop, tmp_path / "codes.csv", out=tmp_path / "o.csv", language="de", progress=lambda *done: seen.append(done)
    )
    assert list(report.lines()) == [
        "7 codes, 6 distinct descriptions linked",
        "5 proposed, 1 of them by the code; 1 ambiguous, 1 without a proposal",
        "1 unit and 1 value with a concept",
    ]
    assert seen == [(7, 7)]


def test_a_system_that_no_code_is_known_in_is_noted(omop: Bundle, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("code,name\nK1,x\ncode3,x\n", "utf-8")
    notes = {
        system: map_codes(omop, tmp_path / "codes.csv", out=tmp_path / "o.csv", code_system=system).notes
        for system in ("ICD10GM", "XYZ")
    }
    assert notes == {"ICD10GM": [], "XYZ": ["no code of the list is known in the system 'XYZ'"]}


def test_batches_are_one_list(omop: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medlink.mapping.run._BATCH", 20)
    names = ["Fieber", "Hb", "MS"]
    rows = [f"K{i},{names[i % 3]},{i}" for i in range(50)]
    (tmp_path / "codes.csv").write_text("\n".join(["code,name,frequency", *rows, ""]), encoding="utf-8")
    report = map_codes(omop, tmp_path / "codes.csv", out=tmp_path / "o.jsonl", language="de")
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text("utf-8").splitlines()]
    assert [one["frequency"] for one in found] == list(range(49, -1, -1))
    assert (report.codes, report.descriptions) == (50, 3)
    # in two processes as in one
    for module in ("run", "proposals"):
        monkeypatch.setattr(f"medlink.mapping.{module}.MIN_FORKED", 1)
    monkeypatch.setattr("medlink.mapping.proposals._PARSED", 2)
    monkeypatch.setattr("medlink.processes._processors", lambda: 2)
    map_codes(omop, tmp_path / "codes.csv", out=tmp_path / "two.jsonl", language="de")
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "o.jsonl").read_bytes()


def test_wrong_paths_are_refused_first(omop: Bundle, tmp_path: Path) -> None:
    codes = tmp_path / "codes.csv"
    codes.write_text("code,name\nK1,Fieber\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="the output is the input"):
        map_codes(omop, codes, out=codes)
    with pytest.raises(ConfigError, match="are one file"):
        map_codes(omop, codes, out=tmp_path / "x", changes=tmp_path / "x")
    with pytest.raises(ConfigError, match=r"no ending.*\.sssom\.tsv, .*or name the format"):
        map_codes(omop, codes, out=tmp_path / "noext")
    with pytest.raises(InputError, match="no such file"):
        map_codes(omop, tmp_path / "no.csv", out=tmp_path / "x.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codes.csv"]


def test_decided_concepts_must_exist(omop: Bundle, tmp_path: Path) -> None:
    rows = [
        row("K1", "Fieber", "9", "Fever"),
        row("K2", "Fieber", "999", "Fever"),
        row("K3", "MS", "998", "", "FLAGGED"),
    ]
    (tmp_path / "list.csv").write_text("\n".join([HEAD, *rows, ""]), encoding="utf-8")
    message = (
        r"code K2 is APPROVED with the concept 999 Fever, .*\(2 such targets in the list\).*Remedy: correct the concept"
    )
    with pytest.raises(InputError, match=message):
        map_codes(omop, tmp_path / "list.csv", out=tmp_path / "o.csv")
    # an earlier map may have concepts that are gone
    (tmp_path / "now.csv").write_text("code,name\nK2,Fieber\n", encoding="utf-8")
    report = map_codes(omop, tmp_path / "now.csv", out=tmp_path / "o.csv", before=tmp_path / "list.csv")
    assert report.changes == {"target retired": 1, "gone": 2}


def test_unanswered_questions_to_the_ranker_are_noted(demo: Bundle, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("code,name\n1,Fieber\n", "utf-8")
    (tmp_path / "model.json").write_text(json.dumps({"url": "http://127.0.0.1:9", "retries": 0}), "utf-8")
    report = map_codes(demo, tmp_path / "codes.csv", out=tmp_path / "o.csv", ranker=str(tmp_path / "model.json"))
    assert report.notes == ["the ranker gave no valid answer for 1 mention: no connection, or a broken one (1)"]
    assert report.proposed == 1
