"""Words cut short, findings written as letters, predicates apart from their subject, arrows."""

from __future__ import annotations

from pathlib import Path

import pytest

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
