"""Words cut short, findings written as letters, predicates apart from their subject, arrows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from medlink.reading.abbreviations import make_detector
from medlink.reading.qualifiers import qualifier_reader
from tests.reading.bundles import bundle_of, mentions

NAMES = [
    "Chronic bronchitis", "Complete right bundle branch block", "Mitral regurgitation", "Macular degeneration",
    "Gallbladder wall thickening", "Ventriculomegaly", "Distended neck veins", "Nausea", "Vomiting", "Diarrhea",
    "Anemia", "Leukocytosis", "Headache", "Fever",
]  # fmt: skip
IDS = {name: f"X:{number}" for number, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(tmp_path_factory.mktemp("short"), *(f"X:{n}\t{name}\ten" for n, name in enumerate(NAMES)))


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("de", "Bek. chron. Bronch. seit Jahren.", {"chron. Bronch": "Chronic bronchitis"}),
        ("en", "Echo with mitr. regurg. again.", {"mitr. regurg": "Mitral regurgitation"}),
        ("es", "Degen. macular en ambos ojos.", {"Degen. macular": "Macular degeneration"}),
        ("en", "N/V/D since yesterday.", {"N": "Nausea", "V": "Vomiting", "D": "Diarrhea"}),
        ("en", "She has f/c today.", {"f": "Fever"}),
        ("en", "Neck veins were not visibly distended.", {"Neck veins were not visibly distended": NAMES[6]}),
        ("de", "Gallenblasenwand mit 6 mm verdickt.", {"Gallenblasenwand mit 6 mm verdickt": NAMES[4]}),
        ("de", "Hb ↓, Leukozyten ↑.", {"Hb ↓": "Anemia", "Leukozyten ↑": "Leukocytosis"}),
        ("en", "↑WBC and ↓Hgb.", {"↑WBC": "Leukocytosis"}),
        ("de", "Erstmals kopfschmerzfrei, gebührenfrei versandt.", {"kopfschmerzfrei": "Headache"}),
        ("en", "Referred to the headache clinic for headache.", {"headache": "Headache"}),
        ("de", "Termin in der Kopfschmerzsprechstunde.", {}),
        ("en", "Seen by the bronch. team.", {}),
    ],
)
def test_what_is_written_short_is_linked(folder: Path, language: str, text: str, wanted: dict[str, str]) -> None:
    read = mentions(folder, text, language, threshold=0.3)
    assert {text[m.start : m.end]: m.link.concept_id for m in read} == {
        words: IDS[name] for words, name in wanted.items()
    }


@pytest.mark.parametrize(
    ("language", "text", "presence"),
    [
        ("en", "Neck veins were not visibly distended.", "absent"),
        ("en", "Neck veins were visibly distended.", "present"),
        ("de", "Erstmals kopfschmerzfrei.", "absent"),
        ("en", "ROS: + headache, - fever.", "present"),
    ],
)
def test_a_denial_between_subject_and_predicate_counts(folder: Path, language: str, text: str, presence: str) -> None:
    first = mentions(folder, text, language, threshold=0.3)[0]
    assert first.qualifiers is not None
    assert first.qualifiers.presence == presence


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Hydrocephalus (Hydro) was seen. Hydro was stable.", "Hydrocephalus"),
        ("Gastroesophageal reflux [GR] since birth. GR under PPI.", "Gastroesophageal reflux"),
        ("desprendimiento de retina (DR) en OD. DR en seguimiento.", "desprendimiento de retina"),
    ],
)
def test_a_note_defines_its_abbreviations(text: str, wanted: str) -> None:
    detect = make_detector("builtin", "es")
    assert detect is not None
    assert set(detect(text).values()) == {wanted}
    assert len(detect(text)) == 2


def test_behind_a_cue_an_abbreviation_is_a_finding(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, "X:1\tPulmonary embolism\ten", "X:2\tAcute lymphoblastic leukemia\ten")
    assert [m.link.concept_id for m in mentions(bundle, "r/o PE", "en", threshold=0.3)] == ["X:1"]
    assert [m.link.concept_id for m in mentions(bundle, "Relapsed with ALL.", "en", threshold=0.3)] == ["X:2"]
    assert mentions(bundle, "ALL EXTREMITIES MOVE.", "en", threshold=0.3) == []


def test_what_is_asked_for_is_found(tmp_path: Path) -> None:
    rows = ("X:1\tAutosomal dominant\ten\tInheritance", "X:2\tAutosomal dominant inheritance\ten\tInheritance")
    rows += ("X:3\tSporadic\ten\tInheritance", *(f"X:{n}\t{name}\ten\tFinding" for n, name in enumerate(NAMES, 4)))
    bundle = bundle_of(tmp_path, *rows, columns="concept_id\tname\tlanguage\tsemantic_type")
    text = "Autosomal dominant inheritance with seizures; sporadic in others. Headache."
    asked = mentions(bundle, text, "en", semantic_types=("Inheritance",))
    assert [text[m.start : m.end] for m in asked] == ["Autosomal dominant inheritance", "sporadic"]
    assert [text[m.start : m.end] for m in mentions(bundle, text, "en")] == ["Headache"]


@pytest.mark.slow
def test_long_rows_of_signs_and_relatives_take_linear_time() -> None:
    reader = qualifier_reader("en")
    assert reader is not None
    calls = []
    for size in (500, 1_000):
        text = "Fever -, cough " + "+ " * size + "mother gout, " * size
        places = [(at, at + 4) for at in range(text.index("gout"), len(text), 13)]
        start = sys.getprofile()
        count = 0

        def counted(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(counted)
        try:
            found = reader.read(text).qualifiers(places)
        finally:
            sys.setprofile(start)
        assert {one.relative for one in found} == {"MTH"}
        calls.append(count)
    assert calls[1] < 2.5 * calls[0]
