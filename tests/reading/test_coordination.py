"""Members of lists that share a word, in three languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from medlink.index import Bundle, ConceptIndex, build_bundle
from medlink.kb import Input, build_kb
from medlink.language.cues.tables import scopes
from medlink.language.lexicon.reading import shared_reader
from medlink.language.scan import Scanner
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note
from medlink.reading.coordination import ListReader

NAMES = [
    "Hepatic failure", "Renal failure", "Heart failure", "Cardiac arrhythmia", "Edema of the legs", "Neck pain",
    "Low back pain", "Abdominal pain", "Chest pain", "Visual hallucinations", "Auditory hallucinations",
    "Hiatus hernia", "Fracture of fibula", "Fracture of tibia", "Knee contracture", "Nausea and vomiting",
    "Fracture of the cervical spine", "Paresis of the lower limbs", "Paresis of the upper limbs", "Fever", "Cough",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    rows = "".join(f"X:{number}\t{name}\ten\n" for number, name in enumerate(NAMES))
    (folder / "names.tsv").write_text(f"concept_id\tname\tlanguage\n{rows}", "utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / "names.tsv")])
    build_bundle(folder / "bundle", kb=folder / "kb.sqlite")
    return folder / "bundle"


@pytest.fixture(scope="module")
def index(folder: Path) -> ConceptIndex:
    return Bundle(folder).index


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
    scanner = Scanner(language, shared_reader(index.forms))
    scanned, lists = scanner.scan(text), ListReader(scopes(language).joins, scanner, index, None)
    found: dict[str, set[str]] = {}
    for place, says in lists.read([scanned])[0]:
        found.setdefault(scanned.written(place), set()).add(says)
    assert {place: {says for says in found.get(place, ()) if says in wanted[place]} for place in wanted} == wanted
    assert found.keys() == wanted.keys()


def links(folder: Path, text: str, language: str) -> dict[str, str | None]:
    (note,) = NotePipeline(folder, language=language, threshold=0.35).link([Note("n", text)])
    return {text[one.start : one.end]: one.link.concept_id for one in note.mentions}


def test_each_member_is_linked_with_its_own_place(folder: Path) -> None:
    found = links(folder, "Bei bekannter Leber- und Niereninsuffizienz.", "de")
    assert found == {"Leber": "X:0", "Niereninsuffizienz": "X:1"}
    assert links(folder, "Fractura de tibia y peroné.", "es") == {"Fractura de tibia": "X:13", "peroné": "X:12"}


def test_all_members_are_denied(folder: Path) -> None:
    (note,) = NotePipeline(folder, language="en", threshold=0.35).link([Note("n", "No renal or hepatic failure.")])
    assert [one.link.concept_id for one in note.mentions] == ["X:1", "X:0"]
    assert [one.qualifiers.presence for one in note.mentions if one.qualifiers] == ["absent", "absent"]


def test_one_or_the_other_is_not_both(folder: Path) -> None:
    assert "X:15" not in links(folder, "He denies nausea or vomiting.", "en").values()
    assert links(folder, "She has nausea and vomiting.", "en") == {"nausea and vomiting": "X:15"}
