"""Codes, units and values in descriptions."""

from __future__ import annotations

import csv
from importlib import resources

import pytest

from medlink.mapping.descriptions import is_loinc, parse_description, split_unit, split_value, ucum_code
from tests.tables import cases


@pytest.mark.parametrize(
    ("text", "left", "codes", "unit"),
    [
        ("Herzinfarkt", "Herzinfarkt", [], ""),
        ("ICD-10-GM: I21.9 Herzinfarkt", "Herzinfarkt", [("ICD-10-GM", "I21.9")], ""),
        ("Infarkt (ICD10GM I21.9)", "Infarkt", [("ICD-10-GM", "I21.9")], ""),
        ("Glucose [LOINC 2345-7] (mg/dl)", "Glucose", [("LOINC", "2345-7")], "mg/dl"),
        ("Glucose (2345-7)", "Glucose", [("LOINC", "2345-7")], ""),
        ("Glucose (2345-8)", "Glucose (2345-8)", [], ""),
        ("SNOMED CT 22298006", "", [("SNOMEDCT", "22298006")], ""),
        ("Trisomie 21, Typ 2 (B12)", "Trisomie 21, Typ 2", "ICD", ""),
        ("Vitamin B12", "Vitamin B12", [], ""),
        ("CD4/CD8", "CD4/CD8", [], ""),
        ("Leukozyten Mio/µl", "Leukozyten", [], "Mio/µl"),
        ("RR 120/80", "RR 120/80", [], ""),
        ("Sättigung, %", "Sättigung", [], "%"),
        ("g/dl", "g/dl", [], ""),
        ("", "", [], ""),
        ("🫀 infarto", "🫀 infarto", [], ""),
        ("(((((", "(((((", [], ""),
    ],
)
def test_descriptions(text: str, left: str, codes: list[tuple[str, str]] | str, unit: str) -> None:
    found = parse_description(text)
    assert (found.text, found.unit) == (left, unit)
    if codes == "ICD":
        assert {code for _, code in found.codes} == {"B12"}
        assert all("10" in system for system, _ in found.codes)
    else:
        assert list(found.codes) == codes


def test_long_descriptions_are_read_in_no_time() -> None:
    assert parse_description("(" * 2_000 + "ICD-10 " * 200).codes == ()


def test_every_unit_of_the_table_is_read_and_has_a_source() -> None:
    path = resources.files("medlink").joinpath("resources/mapping/units.tsv")
    rows = list(csv.reader(path.read_text("utf-8").splitlines(), delimiter="\t"))
    assert rows[0] == ["written", "ucum", "source"]
    assert all(len(row) == 3 and row[2] for row in rows)
    for written, code, _ in rows[1:]:
        assert ucum_code(written) == code


@pytest.mark.parametrize(("written", "code"), cases(__file__, "units.tsv"))
def test_units(written: str, code: str) -> None:
    assert (ucum_code(written) or "+") == code


def test_a_lone_letter_is_a_unit_in_brackets_alone() -> None:
    assert split_unit("Körpergröße m") == ("Körpergröße m", "")
    assert split_unit("Körpergröße (m)") == ("Körpergröße", "m")


@pytest.mark.parametrize(
    ("text", "language", "found"),
    [
        ("HIV-Test negativ", "de", ("HIV-Test", "negative")),
        ("HIV test (positive)", "en", ("HIV test", "positive")),
        ("Prueba de VIH positiva", "es", ("Prueba de VIH", "positive")),
        ("Prueba de VIH positiva", "en", None),
        ("Prueba de VIH positiva", "", ("Prueba de VIH", "positive")),
        ("MRSA neg.", "", ("MRSA", "negative")),
        ("negativ", "de", None),
        ("gramnegativ", "de", None),
    ],
)
def test_values(text: str, language: str, found: tuple[str, str] | None) -> None:
    assert split_value(text, language) == found


def test_the_check_digit_of_loinc() -> None:
    """Of the ten digits one is right (718-7, 2345-7 and 4548-4 are haemoglobin, glucose and HbA1c)."""
    for number, right in (("718", "7"), ("2345", "7"), ("4548", "4")):
        assert [digit for digit in "0123456789" if is_loinc(f"{number}-{digit}")] == [right]
