"""One folder of public terminologies, as they are published, is one bundle with joined concepts."""

from __future__ import annotations

import pytest

import medlink
from medlink.index import Bundle
from medlink.kb import Input
from medlink.kb.format_detection import detect_formats
from medlink.linking import Linker, Mention
from tests.kb.public_files import write_public_files

FORMATS = {
    "hp.json": "obograph",
    "hp-de.babelon.tsv": "babelon",
    "hp-es.babelon.tsv": "babelon",
    "mondo.obo": "obo",
    "mondo_exactmatch_doid.sssom.tsv": "sssom",
    "doid.obo": "obo",
    "doid-es-translated.tsv": "babelon",
    "ordo.json": "obograph",
    "icd10gm2026syst_claml.xml": "claml",
    "icd10gm2026_alphaidse.txt": "alphaid",
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("public")
    write_public_files(folder / "downloads")
    found, left = detect_formats(folder / "downloads")
    assert {one.path.name: one.format for one in found} == FORMATS
    assert [path.name for path in left] == ["LICENSE.HPO.md"]
    medlink.build_kb(folder / "kb", [Input(one.format, one.path) for one in found])
    return medlink.build_bundle(folder / "bundle", kb=folder / "kb")


def test_sources_have_their_names_and_versions(bundle: Bundle) -> None:
    sources = {source.name: source.version for source in bundle.kb.sources()}
    assert sources == {
        "MONDO": "2026-08-04", "DOID": "2026-07-31", "HP": "2026-06-01", "Orphanet": "", "ICD-10-GM": "2026",
        "Alpha-ID": "", "doid-es-translated": "", "hp-de.babelon": "", "hp-es.babelon": "",
        "mondo_exactmatch_doid.sssom": "",
    }  # fmt: skip


CYSTIC_FIBROSIS = ("MONDO:0009061", {"DOID:1485", "Orphanet:586"})


@pytest.mark.parametrize(
    ("language", "text", "joined"),
    [
        ("en", "Cystic fibrosis", CYSTIC_FIBROSIS),
        ("en", "CF", CYSTIC_FIBROSIS),
        ("de", "Mukoviszidose", CYSTIC_FIBROSIS),
        ("es", "fibrosis quística", CYSTIC_FIBROSIS),
        # a table of mappings joins them; HPO maps to neither
        ("en", "asthma", ("MONDO:0004979", {"DOID:2841"})),
        ("de", "Krampfanfall", ("HP:0001250", set())),
    ],
)
def test_mappings_alone_join_concepts(bundle: Bundle, language: str, text: str, joined: tuple[str, set[str]]) -> None:
    """A name in one language finds the concept in all sources, without presuming that equal names mean the same."""
    (found,) = Linker(bundle, presume=False, prefer=["MONDO"]).link([Mention(text, language)])
    best = found.candidates[0]
    assert (best.concept_id, set(best.same_as), best.presumed) == (*joined, ())
