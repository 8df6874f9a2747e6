"""Words cut short, findings written as letters, predicates apart from their subject, arrows."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.index import Bundle
from medlink.reading.reader import TextReader
from tests.reading.bundles import bundle_of, cases, mentions, presence

NAMES = [
    "Chronic bronchitis", "Complete right bundle branch block", "Mitral regurgitation", "Macular degeneration",
    "Gallbladder wall thickening", "Ventriculomegaly", "Distended neck veins", "Nausea", "Vomiting", "Diarrhea",
    "Anemia", "Leukocytosis", "Headache", "Fever", "Chronic kidney disease", "Chronic renal failure",
    "Renal insufficiency", "Splenomegaly", "Hepatomegaly", "Weight loss",
]  # fmt: skip
IDS = {name: f"X:{number}" for number, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(tmp_path_factory.mktemp("short"), *(f"X:{n}\t{name}\ten" for n, name in enumerate(NAMES)))


@pytest.mark.parametrize(("language", "text", "wanted"), cases("what_is_written_short_is_linked"))
def test_what_is_written_short_is_linked(folder: Path, language: str, text: str, wanted: dict[str, str]) -> None:
    read = mentions(folder, text, language, threshold=0.3)
    assert {text[m.start : m.end]: m.link.concept_id for m in read} == {
        words: IDS[name] for words, name in wanted.items()
    }


def test_a_denial_behind_a_full_stop_begins_a_sentence(demo: Bundle) -> None:
    (read,) = TextReader(demo, "de").read(["Hat einmal erbrochen. Kein Durchfall."])
    assert [mention.mention.text for mention in read] == ["erbrochen", "Durchfall"]


@pytest.mark.parametrize(("language", "text", "found"), [
    ("de", "Wegen Steinen Gallenblase entfernt.", ("Gallenblase entfernt", "historical")),
    ("de", "Ein Polyp der Gallenblase entfernt.", None), ("en", "Had her tonsils out.", ("tonsils out", "historical")),
    ("es", "Le extirparon el útero.", ("extirparon el útero", "historical")),
])  # fmt: skip
def test_an_operation_may_be_told_with_its_organ(
    demo: Bundle, language: str, text: str, found: tuple[str, str] | None
) -> None:
    (read,) = TextReader(demo, language).read([text])
    times = {m.mention.text: m.qualifiers and m.qualifiers.temporality for m in read}
    assert found in times.items() if found else not any("Gallenblase" in words for words in times)


@pytest.mark.parametrize(("language", "text", "presence", "time"), [
    ("de", "Staroperation links im Mai geplant.", "present", "hypothetical"),
    ("de", "Doppelbilder sind verschwunden.", "absent", "historical"),
    ("en", "Elective hernioplasty next week.", "present", "hypothetical"),
    ("es", "Ingresa para hernioplastia programada.", "present", "hypothetical"),
    ("es", "Se pide Rx de muñeca.", "present", "hypothetical"),
])  # fmt: skip
def test_the_last_part_of_a_word_tells_whether_it_is_a_procedure(
    demo: Bundle, language: str, text: str, presence: str, time: str
) -> None:
    ((first, *_),) = TextReader(demo, language).read([text])
    assert first.qualifiers is not None
    assert (first.qualifiers.presence, first.qualifiers.temporality) == (presence, time)


@pytest.mark.parametrize(("language", "text", "wanted"), cases("a_denial_between_subject_and_predicate_counts"))
def test_a_denial_between_subject_and_predicate_counts(folder: Path, language: str, text: str, wanted: str) -> None:
    assert presence(mentions(folder, text, language, threshold=0.3))[0] == wanted


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
