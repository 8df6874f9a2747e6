"""LOINC and its linguistic variants."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.records import Concept, Mapping, Name, SemanticType, Source
from tests.kb.writers import read_all, read_loinc

VARIANT = ["LOINC_NUM", "COMPONENT", "PROPERTY", "TIME_ASPCT", "SYSTEM", "SCALE_TYP", "METHOD_TYP", "CLASS"]
VARIANT += ["SHORTNAME", "LONG_COMMON_NAME", "RELATEDNAMES2", "LinguisticVariantDisplayName"]


def write(path: Path, columns: list[str], *rows: list[str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([columns, *rows])
    return path


def test_variant(tmp_path: Path) -> None:
    row = ["1-8", "Glucose", "MCnc", "Zeitpunkt", "Blut", "Qn", "", "Chemie"]
    row += ["Glu", "Glucose in Blut", "BZ; Zucker", "BZ"]
    path = write(tmp_path / "deDE15LinguisticVariant.csv", VARIANT, row)
    problems = Problems()
    assert list(read_loinc(path, problems=problems)) == [
        Source("LOINC", "", "Logical Observation Identifiers Names and Codes"),
        Concept("LOINC:1-8", "LOINC"),
        Name("LOINC:1-8", "Glucose in Blut", "de-de", "preferred", "LOINC", True),
        Name("LOINC:1-8", "BZ", "de-de", "synonym", "LOINC"),
        Name("LOINC:1-8", "Glu", "de-de", "abbreviation", "LOINC"),
        Name("LOINC:1-8", "Glucose:MCnc:Zeitpunkt:Blut:Qn", "de-de", "fsn", "LOINC"),
        Mapping("LOINC:1-8", "LOINC", "1-8", "code", "LOINC"),
        SemanticType("LOINC:1-8", "Chemie", "", "LOINC"),
    ]
    assert (problems.rows, problems.bad, problems.skipped) == (1, {}, {})
    renamed = path.rename(tmp_path / "loinc_de.csv")
    with pytest.raises(
        InputError, match=r"loinc_de\.csv: its name does not state the language\. Remedy: keep the name"
    ):
        list(read_loinc(renamed))
    assert next(one for one in read_loinc(renamed, language="de") if isinstance(one, Name)).language == "de"


def test_main_table(tmp_path: Path) -> None:
    columns = [*VARIANT[:7], "LONG_COMMON_NAME", "CONSUMER_NAME", "STATUS"]
    rows = [
        ["1-8", "Glucose", "MCnc", "Pt", "Bld", "Qn", "", "Glucose in Blood", "Sugar", "ACTIVE"],
        ["2-6", "Old", "MCnc", "Pt", "Bld", "Qn", "", "Old", "", "DEPRECATED"],
        ["", "x", "", "", "", "", "", "x", "", "ACTIVE"],
        ["3-4", "", "", "", "", "", "", "", "", "ACTIVE"],
    ]
    records, problems = read_all(read_loinc, write(tmp_path / "Loinc.csv", columns, *rows), share=1)
    assert [(one.text, one.language, one.type) for one in records if isinstance(one, Name)] == [
        ("Glucose in Blood", "en", "preferred"),
        ("Sugar", "en", "lay"),
        ("Glucose:MCnc:Pt:Bld:Qn", "en", "fsn"),
    ]
    assert problems.bad == {"no LOINC number, or no name": 2}
    assert problems.skipped == {"deprecated term": 1}
    with pytest.raises(InputError, match="looked for the columns LOINC_NUM, COMPONENT"):
        list(read_loinc(write(tmp_path / "x.csv", ["a", "b"], ["1", "2"])))


@pytest.mark.slow
def test_german_variant(shared: Path) -> None:
    """Codes, names and components are those that another reader sees."""
    path = shared / "data" / "terminologies" / "loinc_de" / "deDE15LinguisticVariant.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    records = list(read_loinc(path))
    assert {one.concept_id: one.text for one in records if isinstance(one, Name) and one.preferred} == {
        f"LOINC:{row['LOINC_NUM']}": row["LONG_COMMON_NAME"].strip() for row in rows
    }
    full = {one.text.partition(":")[0] for one in records if isinstance(one, Name) and one.type == "fsn"}
    assert full == {row["COMPONENT"].strip().partition(":")[0] for row in rows}
    assert len(rows) == sum(isinstance(one, Concept) for one in records) == 16_025


def test_names_without_parts(tmp_path: Path) -> None:
    """A term of which the parts are not translated has the names that it has."""
    path = write(tmp_path / "deDE15LinguisticVariant.csv", VARIANT, ["1-8", *[""] * 10, "BZ"])
    records = list(read_loinc(path, problems=Problems(0)))
    assert [one for one in records if isinstance(one, Name)] == [Name("LOINC:1-8", "BZ", "de-de", "synonym", "LOINC")]
