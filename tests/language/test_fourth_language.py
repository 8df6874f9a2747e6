"""A fourth language from a folder alone: names, index, links, mentions and clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import spacy

from medlink import Linker, Mention, TermClusterer, load_encoder
from medlink.clustering.guards import KINDS, Guards
from medlink.clustering.terms import Terms
from medlink.language.languages import VARIABLE, add_folder
from tests.reading.bundles import bundle_of

pytestmark = pytest.mark.slow

FRENCH = Path(__file__).parent / "fr_folder"
NAMES = [
    "X:1\tInfarctus du myocarde\tfr", "X:1\tMyocardial infarction\ten", "X:2\tInsuffisance d'organe\tfr",
    "X:3\tDiabète de type 2\tfr", "X:3\tType 2 diabetes\ten", "X:4\tFièvre\tfr", "X:4\tFever\ten",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def french() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "")
        add_folder(FRENCH)
        yield


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(tmp_path_factory.mktemp("french"), *NAMES)


def test_links(bundle: Path) -> None:
    linker = Linker(bundle)
    for text, concept, route in [
        ("infarctus du myocarde", "X:1", "exact"), ("l'infarctus du myocarde", "X:1", "inflected"),
        ("d’infarctus du myocarde", "X:1", "inflected"), ("diabète de type II", "X:3", "inflected"),
        ("fièvres", "X:4", "inflected"),
    ]:  # fmt: skip
        best = linker.link([Mention(text, "fr")])[0].candidates[0]
        assert (best.concept_id, best.route) == (concept, route), text


def test_finds_mentions(bundle: Path) -> None:
    nlp = spacy.blank("fr")
    nlp.add_pipe("medlink_mentions", config={"bundle": str(bundle)})
    nlp.add_pipe("biolord_linker", config={"bundle": str(bundle)})
    doc = nlp("Mme Fièvre: antécédent d'infarctus du myocarde, puis l'insuffisance d’organes. Fièvre, diabète type II.")
    assert [(span.text, span.kb_id_) for span in doc.ents] == [
        ("infarctus du myocarde", "X:1"), ("insuffisance d’organes", "X:2"), ("Fièvre", "X:4"),
        ("diabète type II", "X:3"),
    ]  # fmt: skip


def test_clusters() -> None:
    terms = ["rein gauche", "rein droit", "reins droits", "kidney"]
    guards = Guards(terms, ["fr", "fr", "fr", "en"])
    assert [KINDS[kind] for kind in guards.apart(np.array([0, 1]), np.array([1, 2]))] == ["laterality", ""]
    found = TermClusterer(load_encoder("builtin"), threshold=0.3).cluster(
        Terms.from_rows((term, 1, "fr", "") for term in terms[:3])
    )
    assert sorted(sorted(member.term for member in cluster.members) for cluster in found.clusters) == [
        ["rein droit", "reins droits"],
        ["rein gauche"],
    ]
