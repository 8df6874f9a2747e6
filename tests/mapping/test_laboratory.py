"""Laboratory tests by their traits, and names that lists use."""

from __future__ import annotations

import pytest

from medlink.files.resources import RESOURCES
from medlink.index import Bundle
from medlink.language.languages import rows
from medlink.mapping import Mapper, SourceCode
from medlink.mapping.abbreviations import DRUG, ORGANISM, PROCEDURE, TEST, expand
from medlink.mapping.laboratory import full_names
from tests.tables import bundle_of_table, cases


@pytest.fixture(scope="module")
def tests(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle of names of laboratory tests."""
    return bundle_of_table(tmp_path_factory.mktemp("tests"), __file__, "laboratory.tsv")


def test_specimen_time_method_and_class_decide(tests: Bundle) -> None:
    expected = {
        ("K+ (ABG)", "mmol/L", "en"): "Kalium [Mol/Volumen] in arteriellem Blut",
        ("Tobramycin peak", "ug/mL", "en"): "Tobramycin [Masse/Volumen] in Serum oder Plasma --Spitze",
        ("Tobramicina", "mg/L", "es"): "Tobramycin [Mass/volume] in Serum or Plasma",
        ("Röteln-IgG", "IU/ml", "de"): "Rubella virus IgG Ab [Units/volume] in Serum",
        ("Anti-HAV IgM", "", "de"): "Hepatitis A virus IgM Ab [Presence] in Serum or Plasma",
        ("Ac. anti-VHA IgM", "", "es"): "Hepatitis A virus IgM Ab [Presence] in Serum or Plasma",
        ("AMA titer", "titer", "en"): "Mitochondrien Antikörper [Titer] in Serum",
        ("Fibrinogen n. Clauss", "g/l", "de"): "Fibrinogen [Mass/volume] in Platelet poor plasma",
        ("FK506", "ng/mL", "en"): "Tacrolimus [Mass/volume] in Blood",
    }
    codes = [SourceCode(name, name, unit=unit, language=language) for name, unit, language in expected]
    found = Mapper(tests).propose(codes)
    assert [one.candidates[0].name for one in found] == list(expected.values())
    # the name of a blood group is not any antibody
    assert Mapper(tests).propose([SourceCode("1", "Mumps IgG", language="en")])[0].link == "nil"


@pytest.mark.parametrize(("description", "unit", "language", "name"), cases(__file__, "full_names.tsv"))
def test_full_names_by_unit_and_component(description: str, unit: str, language: str, name: str) -> None:
    assert next(full_names(description, unit, language)) == (name, language)


@pytest.mark.parametrize(
    ("description", "language"),
    [
        ("Glucosa en LCR", "es"), ("Glukose im Pleurapunktat", "de"), ("Glucose pleural fluid", "en"),
        ("Albumin im Aszites", "de"), ("Albumin (plasma)", "en"), ("Albúmina en orina", "es"), ("Natrium", "en"),
    ],
)  # fmt: skip
def test_the_specimen_tells_a_language_that_is_not_given(description: str, language: str) -> None:
    assert next(full_names(description, "mg/dl", None))[1] == language


@pytest.mark.parametrize("language", ["", "*"])
@pytest.mark.parametrize(
    ("descriptions", "unit", "concept"),
    [
        (("Glukose im Liquor", "Glucose, spinal fluid", "Glucosa en líquido cefalorraquídeo"), "mg/dl", "T:18"),
        (("LDH im Pleurapunktat", "LDH, pleural fluid", "LDH en líquido pleural"), "U/l", "T:21"),
        (("Albumin-Quotient Liquor/Serum", "Albumin CSF/serum ratio", "Cociente albúmina LCR/suero"), "", "T:24"),
        # only a time after a dialysis, or a difference of two specimens
        (("Glukose im Aszites", "Glucose, ascites", "Glucosa en líquido ascítico"), "mg/dl", None),
        (("Glukose im Pleurapunktat", "Glucose, pleural fluid", "Glucosa en líquido pleural"), "mg/dl", None),
    ],
)
def test_a_test_of_another_specimen_is_another_test(
    tests: Bundle, descriptions: tuple[str, ...], unit: str, concept: str | None, language: str
) -> None:
    tags = ("de", "en", "es") if language else ("", "", "")
    codes = [SourceCode(text, text, unit=unit, language=tag) for text, tag in zip(descriptions, tags, strict=True)]
    targets = [one.target for one in Mapper(tests).propose(codes)]
    assert [target and target.concept_id for target in targets] == [concept] * len(codes)


@pytest.mark.parametrize(
    ("description", "language", "name"),
    [
        ("Anti-HAV IgM", "de", "hepatitis A virus IgM Ab [Presence] in Serum or Plasma"),
        ("CMV IgG Ab", "en", "Cytomegalovirus IgG Ab [Presence] in Serum or Plasma"),
        ("Ac. VHC", "es", "hepatitis C virus Ab [Presence] in Serum or Plasma"),
        ("HBV-DNA", "de", "hepatitis B virus DNA [Presence] in Serum or Plasma"),
    ],
)
def test_antibodies_and_nucleic_acids_in_full(description: str, language: str, name: str) -> None:
    assert name.casefold() in [full.casefold() for full, _ in full_names(description, "", language)]


@pytest.mark.parametrize(
    ("description", "language"), [("Anti-HAV IgM", "de"), ("HAV IgM", "en"), ("Anti-VHA IgM", "es")]
)
def test_the_domain_of_a_list_gives_a_test_no_other_component(tests: Bundle, description: str, language: str) -> None:
    codes = [SourceCode("1", description, language=language)]
    (alone,), (among,) = (Mapper(tests, domain=domain).propose(codes) for domain in ((), ("chemistry",)))
    assert alone.candidates == among.candidates
    assert among.candidates[0].concept_id == "T:9"
    assert all(one.score < 0.1 for one in among.candidates if one.name.startswith("IgM"))


def test_a_whole_name_is_written_in_every_language() -> None:
    # for a bundle of another language
    assert {tag: name for name, tag in full_names("HbA1c", "%", "es")} == {
        "es": "Hemoglobina A1c/Hemoglobina total en Sangre",
        "de": "Hämoglobin A1c/Hämoglobin.gesamt in Blut",
        "en": "Hemoglobin A1c/Hemoglobin.total in Blood",
    }


@pytest.mark.parametrize(
    "description", ["anti-D immunoglobulin", "Tetanus-Impfstoff, Ag-arm", "antitussives", "malignant pleural effusion"]
)
def test_drugs_and_findings_are_no_tests(description: str) -> None:
    assert list(full_names(description, "", "en")) == []


@pytest.mark.parametrize(
    ("text", "language", "kind", "english"),
    [
        ("Nephrektomie lap.", "de", PROCEDURE, "Nephrektomie laparoscopic"),
        ("A-Streptokokken", "de", ORGANISM, "Streptococcus pyogenes"),
        ("Ionized Mg", "en", TEST, "Ionized magnesium"),
        ("VATS-Lobektomie", "de", PROCEDURE, "thoracoscopic-lobectomy of lung"),
    ],
)
def test_parts_in_full(text: str, language: str, kind: str, english: str) -> None:
    assert list(expand(text, language, kind))[1] == (english, "en")


def test_an_abbreviation_in_a_compound_counts_only_if_lists_use_it_so() -> None:
    assert list(expand("KM-Punktion", "de", DRUG, ORGANISM, PROCEDURE)) == []


def test_rows_of_names() -> None:
    table = list(rows(RESOURCES / "mapping" / "names.tsv", "forms", "language", "kind", "name", "english", "source"))
    assert {row["kind"] for row in table} <= {TEST, DRUG, ORGANISM, PROCEDURE}
    assert {row["language"] for row in table} <= {"", "de", "en", "es"}
    assert {row["source"] for row in table} <= {"LOINC", "ATC", "MeSH", "usage"}
    forms = [(form, row["language"], row["kind"]) for row in table for form in row["forms"].split(" | ")]
    assert len(set(forms)) == len(forms)
    assert all(row["forms"] and row["english"] for row in table)
