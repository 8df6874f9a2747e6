"""Values that are findings, and numbers that only look like one."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import spacy

from medlink.notes.link import link_notes
from medlink.notes.options import NoteOptions
from medlink.notes.reading import Note
from medlink.reading.values import value_findings
from tests.reading.bundles import bundle_of, mentions, presence

HERE = Path(__file__).parent


def cases(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [{key: cell.replace("\\n", "\n").replace("\\t", "\t") for key, cell in row.items()} for row in table]


def test_values_that_are_findings() -> None:
    wanted: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for case in cases("values_found.tsv"):
        row = case["value"], case["finding"], case["by"]
        wanted.setdefault((case["language"], case["text"]), []).append(row)
    for (language, text), rows in wanted.items():
        found = value_findings(text, language)
        assert [(text[f.start : f.end], f.names[0], f.value.by) for f in found] == rows, text


def test_values_that_are_none() -> None:
    table = cases("values_none.tsv")
    assert len(table) >= 100
    read = {(case["language"], case["text"]): value_findings(case["text"], case["language"]) for case in table}
    assert {case: found for case, found in read.items() if found} == {}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Hb 12,5 g/dl", None),  # sex unknown
        ("Herr Meier, Hb 12,5 g/dl", "WHO 2024"),
        ("Frau Meier, Patientin, Hb 12,5 g/dl", None),
        ("Frau Meier, Patientin, Hb 11,5 g/dl", "WHO 2024"),
        ("Patientin, schwanger, Hb 11,5 g/dl", None),
        ("Patientin, schwanger, Hb 10,4 g/dl", "WHO 2024"),
        ("5-jähriger Junge, Hb 10,4 g/dl", None),
        ("5 Monate alt, Hb 10,4 g/dl", None),
        ("75-jähriger Patient, zwei Kinder, Junge und Mädchen. Hb 10,4 g/dl", "WHO 2024"),
    ],
)
def test_limits_by_sex_and_age(text: str, wanted: str | None) -> None:
    found = value_findings(text, "de")
    assert [finding.value.source[: len(wanted or "")] for finding in found] == ([] if wanted is None else [wanted])


def test_ranges_and_flags_override_limits() -> None:
    (found,) = value_findings("Hb 119 g/l (120-160)", "en")
    value = found.value
    assert (value.by, value.number, value.limit, value.unit, value.source) == ("range", 11.9, 12.0, "g/dl", "")
    assert value_findings("Hb 9.9 g/dl (9.5-12)", "en") == []
    assert value_findings("Hb 9.9 g/dl normal", "en") == []
    assert value_findings("Hb 9.9 g/dl (L) (9.0-9.5)", "en") == []  # they disagree


def test_a_symbol_alone_needs_a_unit_a_flag_or_its_row() -> None:
    assert value_findings("K 5,9", "de") == []
    for text in ("K 5,9 mmol/l", "K 5,9 (H)", "Na 140, K 5,9", "K 5,9; Krea 1,0"):
        assert [finding.names[0] for finding in value_findings(text, "de")] == ["Hyperkaliämie"], text


def test_other_fluids_until_blood_is_named() -> None:
    text = "Urin: Leukozyten 18.000/µl. Blutbild: Leukozyten 18.000/µl."
    assert [finding.start for finding in value_findings(text, "de")] == [text.rindex("Leukozyten")]


STRANGE = (
    "", " ", "7,9", "Hb", "Hb " * 2000, "1" * 20_000, "1." * 20_000, "Hb (" * 2000, "Hb 11 (12-" * 500,
    "RR " + "9" * 5000 + "/80", "Hb 7,9" + " \t" * 10_000, "Hb ٧", "Hb 7,9\x00", "\ud800 Hb",
)  # fmt: skip


@pytest.mark.parametrize("text", STRANGE)
def test_strange_texts(text: str) -> None:
    for language in ("de", "en", "es", "fr"):
        for finding in value_findings(text, language):
            assert 0 <= finding.start < finding.end <= len(text)


NAMES = ("anemia", "fever", "hypoxemia", "tachycardia", "hyponatremia")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = (f"V:{number}\t{name}\ten" for number, name in enumerate(NAMES, 1))
    return bundle_of(tmp_path_factory.mktemp("values"), *rows)


def found(folder: Path, text: str, **options: Any) -> list[tuple[str, str | None]]:
    read = mentions(folder, text, "de", **options)
    return [(text[m.start : m.end], m.link.concept_id) for m in read]


@pytest.mark.slow
def test_the_option_changes_what_is_found(folder: Path) -> None:
    text = "Hb 7,9 g/dl, Krea 3,4 mg/dl, Temp. 39,2 °C"
    assert not NoteOptions().values
    assert found(folder, text) == []
    # the bundle has no name for a high creatinine
    assert found(folder, text, values=True) == [("Hb 7,9 g/dl", "V:1"), ("Temp. 39,2 °C", "V:2")]
    assert found(folder, text, values=True, verbatim=True) == []


@pytest.mark.slow
def test_a_negation_does_not_apply_to_a_value(folder: Path) -> None:
    text = "Kein Fieber, keine Dyspnoe, SpO2 88 %."
    read = mentions(folder, text, "de", values=True)
    assert [text[m.start : m.end] for m in read] == ["Fieber", "SpO2 88 %"]
    assert presence(read) == ["absent", "present"]
    assert found(folder, text, values=True, present_only=True) == [("SpO2 88 %", "V:3")]


@pytest.mark.slow
def test_a_former_value_and_one_of_a_relative(folder: Path) -> None:
    text = "Previous Hb 7.9 g/dl. Mother: Hb 7.1 g/dl."
    qualifiers = [m.qualifiers for m in mentions(folder, text, "en", values=True)]
    former = ("historical", "patient")
    assert [q and (q.temporality, q.experiencer) for q in qualifiers] == [former, ("current", "family")]


@pytest.mark.slow
def test_values_in_json_lines_and_spacy(folder: Path, tmp_path: Path) -> None:
    text = "HR 128/min, Na 121 mmol/l (135-145), asks about fever."
    out = tmp_path / "links.jsonl"
    link_notes(folder, [Note("n", text, "en")], out=out, values=True)
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    values = [line["value"] for line in lines]
    assert values == [
        {"measure": "heart rate", "number": 128.0, "unit": "/min", "reads": "high", "by": "limit", "limit": 100.0,
         "source": "ACC/AHA/HRS 2015 guideline on supraventricular tachycardia: above 100/min"},
        {"measure": "sodium", "number": 121.0, "unit": "mmol/l", "reads": "low", "by": "range", "limit": 135.0,
         "source": ""},
        None,
    ]  # fmt: skip
    assert [(line["text"], line["expanded"]) for line in lines[:2]] == [
        ("HR 128/min", "tachycardia"), ("Na 121 mmol/l", "hyponatremia"),
    ]  # fmt: skip
    nlp = spacy.blank("en")
    nlp.add_pipe("medlink_mentions", config={"bundle": str(folder), "values": True})
    nlp.add_pipe("biolord_linker", config={"bundle": str(folder), "abbreviations": "none"})
    spans = nlp(text).ents
    assert [span._.medlink["value"] for span in spans] == values
    assert [span.kb_id_ for span in spans[:2]] == ["V:4", "V:5"]


@pytest.mark.slow
@pytest.mark.parametrize(("language", "least"), [("de", 45), ("en", 14), ("es", 60)])
def test_values_of_real_notes(shared: Path, language: str, least: int) -> None:
    count = 0
    for path in sorted((shared / "data" / "notes" / language).glob("*.txt")):
        text = path.read_text("utf-8")
        for finding in value_findings(text, language):
            count += 1
            written = text[finding.start : finding.end]
            assert written[0].isalpha(), path.name
            assert "\n\n" not in written, path.name
            assert any(character.isdecimal() for character in written), path.name
    assert count >= least
