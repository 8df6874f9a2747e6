"""Drugs of ATC in notes: the route behind a mention, combinations, and drugs that are also diagnostics."""

from __future__ import annotations

import pytest

from medlink.index import Bundle, build_bundle
from medlink.kb import Input, build_kb
from medlink.linking import Linker, Mention
from medlink.linking.drugs import phrases_behind
from medlink.notes.pipeline import NotePipeline
from medlink.notes.reading import Note

NAMES = [
    "H02AB06\tPrednisolon", "D07AA03\tPrednisolon", "S01BA04\tPrednisolon", "J01CA04\tAmoxicillin",
    "J01CR02\tAmoxicillin und Beta-Lactamase-Inhibitoren", "V04CJ03\tLevothyroxin", "H03AA01\tLevothyroxin-Natrium",
    "B01AB01\tHeparin", "C05BA03\tHeparin",
]  # fmt: skip


@pytest.fixture(scope="module")
def atc(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle with some codes of ATC."""
    folder = tmp_path_factory.mktemp("atc")
    rows = "".join(f"ATC:{row}\tde\n" for row in NAMES)
    (folder / "names.tsv").write_text(f"concept_id\tname\tlanguage\n{rows}", "utf-8")
    build_kb(folder / "kb.sqlite", [Input("table", folder / "names.tsv", {"source": "ATC"})])
    return Bundle(build_bundle(folder / "bundle", kb=folder / "kb.sqlite", encoder="builtin").folder)


@pytest.mark.parametrize(("language", "text", "codes"), [
    ("de", "Prednisolon 20 mg 1-0-0", ["H02AB06"]), ("de", "Prednisolon Creme dünn auftragen", ["D07AA03"]),
    ("de", "Prednisolon 1 % AT, Heparin s.c.", ["S01BA04", "B01AB01"]), ("de", "Heparin Salbe", ["C05BA03"]),
    ("es", "prednisolona 5 mg/24 h, levotiroxina 75 mcg", ["H02AB06", "H03AA01"]),
    ("en", "prednisolone eye drops; L-thyroxine 100 mcg", ["S01BA04", "H03AA01"]),
    ("de", "Amoxicillin/Clavulansäure 875/125 1-0-1", ["J01CR02"]), ("de", "Amoxicillin 1000 1-1-1", ["J01CA04"]),
    ("es", "amoxicilina-clavulánico 875/125", ["J01CR02"]), ("en", "amoxicillin/clavulanate 625", ["J01CR02"]),
])  # fmt: skip
def test_route_and_partner_decide(atc: Bundle, language: str, text: str, codes: list[str]) -> None:
    (note,) = NotePipeline(atc).link([Note("1", text, language=language)])
    assert [mention.link.concept_id for mention in note.mentions] == [f"ATC:{code}" for code in codes]


def test_two_routes_of_a_repeated_drug_decide_nothing() -> None:
    assert phrases_behind("Heparin", "Heparin s.c., später Heparin Salbe") == {"Heparin s.c.", "Heparin Salbe"}
    assert phrases_behind("Heparin", "Heparinoid Salbe, Heparin s.c.") == {"Heparin s.c."}
    assert phrases_behind("Heparin", "keines") == {"Heparin"}


def test_without_context_the_codes_share_the_score(atc: Bundle) -> None:
    prednisolone, levothyroxine = Linker(atc).link([Mention("Prednisolon", "de"), Mention("Levothyroxin", "de")])
    assert prednisolone.status == "ambiguous"
    assert len({candidate.score for candidate in prednisolone.candidates[:3]}) == 1
    assert levothyroxine.concept_id == "ATC:H03AA01"
