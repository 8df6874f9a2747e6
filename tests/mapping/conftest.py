"""A bundle of OMOP vocabularies."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from tests.kb.readers import test_omop
from tests.kb.readers.test_omop import DATES, concept

CONCEPTS = [
    concept(1, "Disease"), concept(2, "Heart attack"), concept(3, "Herzinfarkt", of="ICD10GM", standard=""),
    concept(5, "Old attack", standard="", reason="U"), concept(6, "Gone attack", standard="", reason="D"),
    concept(7, "Ward fever", of="Ward", standard=""), concept(8, "Fever class", of="ATC", standard="C"),
    concept(9, "Fever"), concept(10, "Haemoglobin"), concept(11, "HIV test"), concept(12, "Pneumonia"),
    concept(13, "Stenosis"), concept(14, "Sclerosis"),
    concept(20, "gram per deciliter", of="UCUM").replace("Condition", "Unit").replace("code20", "g/dL"),
    concept(21, "Negative").replace("Condition", "Meas Value"),
]  # fmt: skip
SYNONYMS = [
    "2\tHerzanfall\t4182504", "9\tFieber\t4182504", "10\tHb\t4182504", "11\tHIV-Test\t4182504",
    "12\tLungenentzündung\t4182504", "13\tMS\t4180186", "14\tMS\t4180186",
]  # fmt: skip
RELATIONS = [
    *(f"{one}\t1\tIs a\t{DATES}\t" for one in (2, 9, 12)),
    f"3\t2\tMaps to\t{DATES}\t",
    f"5\t2\tMaps to\t{DATES}\t",
]


def build(folder: Path, **changed: list[str]) -> Bundle:
    """A bundle of OMOP vocabularies."""
    rows = {"CONCEPT": CONCEPTS, "CONCEPT_SYNONYM": SYNONYMS, "CONCEPT_RELATIONSHIP": RELATIONS, "CONCEPT_ANCESTOR": []}
    release = test_omop.write(folder / "release", **{**rows, **changed})
    build_kb(folder / "kb.sqlite", [Input("omop", release)])
    return Bundle(build_bundle(folder / "bundle", kb=folder / "kb.sqlite", encoder="builtin").folder)


@pytest.fixture(scope="session")
def omop(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle of OMOP vocabularies."""
    return build(tmp_path_factory.mktemp("omop"))
