"""Codes, units and values in descriptions."""

from __future__ import annotations

import csv
from importlib import resources

import pytest

from medlink.mapping.descriptions import ICD_10, is_loinc, parse_description, split_unit, split_value, ucum_code
from tests.tables import cases


@pytest.mark.parametrize(("text", "left", "codes", "unit"), cases(__file__, "descriptions.tsv"))
def test_descriptions(text: str, left: str, codes: str, unit: str) -> None:
    """B12 may be a code of any edition of ICD-10."""
    found = parse_description(text)
    assert (found.text, found.unit) == (left, unit)
    expected = [f"{edition} B12" for edition in ICD_10] if codes == "B12" else [codes] * bool(codes)
    assert [" ".join(code) for code in found.codes] == expected


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


@pytest.mark.parametrize(("text", "language", "before", "value"), cases(__file__, "values.tsv"))
def test_values(text: str, language: str, before: str, value: str) -> None:
    assert split_value(text, language) == ((before, value) if value else None)


def test_the_check_digit_of_loinc() -> None:
    """Of the ten digits one is right (718-7, 2345-7 and 4548-4 are haemoglobin, glucose and HbA1c)."""
    for number, right in (("718", "7"), ("2345", "7"), ("4548", "4")):
        assert [digit for digit in "0123456789" if is_loinc(f"{number}-{digit}")] == [right]
