"""Members of lists that share a word, in three languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.index import Bundle, ConceptIndex
from medlink.language.lexicon.name_analysis import shared_analyser
from medlink.language.scan import Scanner
from medlink.reading.paraphrases import ParaphraseReader
from tests.reading.bundles import bundle_of, cases, mentions, presence

NAMES = [
    "Hepatic failure", "Renal failure", "Heart failure", "Cardiac arrhythmia", "Edema of the legs", "Neck pain",
    "Low back pain", "Abdominal pain", "Chest pain", "Visual hallucinations", "Auditory hallucinations",
    "Hiatus hernia", "Fracture of fibula", "Fracture of tibia", "Knee contracture", "Nausea and vomiting",
    "Fracture of the cervical spine", "Paresis of the lower limbs", "Paresis of the upper limbs", "Fever", "Cough",
    "Nausea", "Vomiting",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(tmp_path_factory.mktemp("lists"), *(f"X:{at}\t{name}\ten" for at, name in enumerate(NAMES)))


@pytest.fixture(scope="module")
def index(folder: Path) -> ConceptIndex:
    return Bundle(folder).index


@pytest.mark.slow
@pytest.mark.parametrize(("language", "text", "wanted"), cases("members"))
def test_members(index: ConceptIndex, language: str, text: str, wanted: dict[str, list[str]]) -> None:
    scanner = Scanner(language, shared_analyser(index.forms))
    scanned, lists = scanner.scan(text), ParaphraseReader(scanner, index, None, None)
    found: dict[str, set[str]] = {}
    for place, completed in lists.read([scanned])[0]:
        found.setdefault(scanned.written(place), set()).add(completed)
    assert found.keys() == wanted.keys()
    assert all(found[member].issuperset(wanted[member]) for member in wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("language", "text", "wanted"), cases("each_member_is_linked"))
def test_each_member_is_linked(folder: Path, language: str, text: str, wanted: dict[str, str]) -> None:
    read = mentions(folder, text, language, threshold=0.35)
    assert {m.link.mention: m.link.concept_id for m in read} == wanted


def test_all_members_are_denied(folder: Path) -> None:
    read = mentions(folder, "No renal or hepatic failure.", "en", threshold=0.35)
    assert [m.link.concept_id for m in read] == ["X:1", "X:0"]
    assert presence(read) == ["absent", "absent"]


def test_alternatives_are_not_one_finding(folder: Path) -> None:
    read = mentions(folder, "He denies nausea or vomiting.", "en", threshold=0.35)
    assert "X:15" not in [m.link.concept_id for m in read]


def test_two_names_are_not_one_finding(folder: Path) -> None:
    read = mentions(folder, "She had vomiting and nausea.", "en", threshold=0.35)
    assert [m.link.concept_id for m in read] == ["X:22", "X:21"]
