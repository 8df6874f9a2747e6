"""Members of lists that share a word, in three languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.index import Bundle, ConceptIndex
from medlink.language.lexicon.name_analysis import shared_analyser
from medlink.language.scan import Scanner
from medlink.language.scope_rules import scopes
from medlink.reading.paraphrases import ParaphraseReader
from tests.reading.bundles import bundle_of, mentions, presence

NAMES = [
    "Hepatic failure", "Renal failure", "Heart failure", "Cardiac arrhythmia", "Edema of the legs", "Neck pain",
    "Low back pain", "Abdominal pain", "Chest pain", "Visual hallucinations", "Auditory hallucinations",
    "Hiatus hernia", "Fracture of fibula", "Fracture of tibia", "Knee contracture", "Nausea and vomiting",
    "Fracture of the cervical spine", "Paresis of the lower limbs", "Paresis of the upper limbs", "Fever", "Cough",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(tmp_path_factory.mktemp("lists"), *(f"X:{at}\t{name}\ten" for at, name in enumerate(NAMES)))


@pytest.fixture(scope="module")
def index(folder: Path) -> ConceptIndex:
    return Bundle(folder).index


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("de", "Leber- und Niereninsuffizienz", {"Leber": {"Leberinsuffizienz"}}),
        ("de", "Leber-, Herz- und Nierenversagen", {"Leber": {"Leberversagen"}, "Herz": {"Herzversagen"}}),
        ("de", "HWS- sowie Tibiafraktur", {"HWS": {"HWS-fraktur"}}),
        ("de", "Herzversagen und -rhythmusstörungen", {"rhythmusstörungen": {"Herzrhythmusstörungen"}}),
        ("de", "keine optische oder akustische Halluzinationen", {"optische": {"optische Halluzinationen"}}),
        ("de", "Schmerzen in Bauch und Brust", {"Brust": {"Schmerzen in Brust"}}),
        (
            "de",
            "Parese der oberen/unteren Extremitäten",
            {
                "Parese der oberen": {"Parese der oberen Extremitäten"},
                "unteren Extremitäten": {"Parese der unteren Extremitäten"},
            },
        ),
        ("en", "renal and hepatic failure", {"renal": {"renal failure"}}),
        ("en", "visual and auditory hallucinations", {"visual": {"visual hallucinations"}}),
        ("en", "Neck and lower back pain", {"Neck": {"Neck pain"}}),
        ("en", "pain in the chest and abdomen", {"abdomen": {"pain in the abdomen"}}),
        ("es", "dolor abdominal y torácico", {"torácico": {"dolor torácico"}}),
        ("es", "fractura de tibia y peroné", {"peroné": {"fractura de peroné"}}),
        # nothing is lacking
        ("en", "abdominal pain and fever", {}),
        ("en", "fever and a cough", {}),
        ("en", "contractures of the elbows and severe contractures of the hips", {}),
        ("es", "dolor abdominal y tórax normal", {}),
        ("de", "Fieber und", {}),
        ("de", "- und -", {}),
        ("de", "Leber-", {}),
    ],
)  # fmt: skip
def test_members(index: ConceptIndex, language: str, text: str, wanted: dict[str, set[str]]) -> None:
    scanner = Scanner(language, shared_analyser(index.forms))
    scanned, lists = scanner.scan(text), ParaphraseReader(scopes(language), scanner, index, None)
    found: dict[str, set[str]] = {}
    for place, completed in lists.read([scanned])[0]:
        found.setdefault(scanned.written(place), set()).add(completed)
    assert found.keys() == wanted.keys()
    assert all(wanted[member] <= found[member] for member in wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("de", "Bei bekannter Leber- und Niereninsuffizienz.", {"Leber": "X:0", "Niereninsuffizienz": "X:1"}),
        ("es", "Fractura de tibia y peroné.", {"Fractura de tibia": "X:13", "peroné": "X:12"}),
        ("en", "She has nausea and vomiting.", {"nausea and vomiting": "X:15"}),
    ],
)
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
