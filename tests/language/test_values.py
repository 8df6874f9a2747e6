"""The tables of measured values: what is measured, in which units, and the limits with their sources."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from medlink.language.languages import SHIPPED, languages, rows
from medlink.language.values import Form, Limit, Side, Who, any_phrase, measures, value_words
from medlink.reading.values import value_findings


def test_the_tables_belong_together() -> None:
    named = {row["measure"] for row in rows(SHIPPED / "limits.tsv")}
    assert named == measures().keys()
    units = {row["unit"] for row in rows(SHIPPED / "units.tsv")}
    for measure in measures().values():
        assert set(measure.units) - units <= {"1"}, measure.name  # a ratio has none
        assert set(measure.bare) <= set(measure.units), measure.name
        assert measure.form in get_args(Form), measure.name
        assert measure.lowest < measure.highest
        for limit in measure.limits:
            assert limit.side in get_args(Side)
            assert limit.who in get_args(Who)
            assert limit.source
            assert limit.finding
        assert all(measure.lowest <= limit.number <= measure.highest for limit in measure.limits if limit.number)


@pytest.mark.parametrize("language", languages())
def test_each_language_names_all_measures_and_its_findings_have_limits(language: str) -> None:
    words = value_words(language)
    assert words is not None
    called = {one.measure.name for known in words.names.values() for one in known}
    assert called == measures().keys() - {"diastolic pressure"}
    findings = {limit.finding[0] for measure in measures().values() for limit in measure.limits}
    path = SHIPPED / language / "values.tsv"
    own = {row["name"] for row in rows(path) if row["kind"] == "finding"}
    assert own <= findings


def test_a_language_without_words_has_no_values() -> None:
    assert value_words("fr") is None


def test_limits() -> None:
    below, to, above, least = (Limit(side, 10.0, "all", ("x",), "s") for side in ("below", "to", "above", "from"))
    held = [[one.holds(number) for number in (9.9, 10.0, 10.1)] for one in (below, to, above, least)]
    assert held == [[True, False, False], [True, True, False], [False, False, True], [False, True, True]]
    assert not Limit("above", None, "all", ("x",), "s").holds(1e9)  # only the laboratory says


@pytest.mark.parametrize(("measure", "unit", "number", "known"), [
    ("temperature", "°F", 102.2, 39.0), ("hemoglobin", "mmol/l", 5.0, 8.057), ("glucose", "mmol/l", 10.0, 180.16),
    ("creatinine", "µmol/l", 88.4, 1.0), ("HbA1c", "mmol/mol", 53.0, 7.0), ("pCO2", "kPa", 6.0, 45.0),
    ("calcium", "mg/dl", 10.0, 2.495), ("total cholesterol", "mmol/l", 5.17, 200.0),
    ("bilirubin", "µmol/l", 17.1, 1.0), ("urea", "mmol/l", 10.0, 60.06),
])  # fmt: skip
def test_units(measure: str, unit: str, number: float, known: float) -> None:
    """Conversions that textbooks have."""
    factor, offset = measures()[measure].units[unit]
    assert number * factor + offset == pytest.approx(known, rel=2e-3)


def test_words_of_several_parts_may_lack_their_blank() -> None:
    pattern = re.compile(any_phrase(["mm Hg", "µg"]))
    assert [bool(pattern.fullmatch(one)) for one in ("mmHg", "mm Hg", "mm\xa0Hg", "μg", "ug", "mm-Hg")] == [
        True, True, True, True, True, False,
    ]  # fmt: skip


def test_a_fourth_language_reads_values(italian: Path) -> None:
    (italian / "values.tsv").write_text(
        "kind\tname\twords\tsource\nmeasure\themoglobin\temoglobina\tusage\nfinding\tanemia\tanemia grave\tusage\n"
        "link\t\tdi\tusage\n",
        "utf-8",
    )
    (found,) = value_findings("Emoglobina di 7,1 g/dl", "it")
    assert (found.start, found.end, found.names) == (0, 22, ("anemia grave", "anemia"))
