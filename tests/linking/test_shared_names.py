"""One name, several concepts: a release with as many shared names as the UMLS."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import medlink
from medlink.index import Bundle
from medlink.kb import Input
from medlink.linking import Linker, Mention
from medlink.linking.decision import SharedNamePolicy
from medlink.records import AMBIGUOUS, LINKED
from tests.kb.writers import conso, write_lines
from tests.linking.synthetic_umls import FINDINGS, SENSES, write_synthetic_umls

CONTEXTS = {
    "MS": "optic neuritis, demyelinating lesions of the brain and spinal cord, interferon",
    "MI": "acute coronary syndrome with ST elevation, troponin, coronary stent",
    "RA": "swollen finger joints, morning stiffness, methotrexate, rheumatoid factor",
    "PE": "sudden dyspnea with deep vein thrombosis, anticoagulation, thrombus in the pulmonary artery",
    "CP": "spastic diplegia since birth, motor delay, brain injury of the newborn",
    "AS": "inflammatory back pain, sacroiliitis, HLA-B27, stiffness of the spine",
    "CF": "recurrent lung infections, sweat chloride test, pancreatic insufficiency, CFTR mutation",
    "UC": "bloody diarrhea, colonoscopy, mesalazine, inflammation of the colon",
    "PD": "rigor and resting tremor, levodopa, bradykinesia",
    "HD": "chorea, CAG repeat, caudate atrophy, family history of chorea and dementia",
    "DM": "insulin therapy, HbA1c, blood glucose, diabetic foot",
    "AD": "loss of memory, donepezil, dementia of the Alzheimer type",
    "PCP": "HIV infection, low CD4 count, pneumonia with ground-glass infiltrates, cotrimoxazole",
    "BS": "abdomen soft, bowel sounds heard in all quadrants, peristalsis",
    "ALL": "blasts in the bone marrow, chemotherapy for leukemia, vincristine",
    "Hb": "laboratory: measurement of the complete blood count, platelets measured, leukocytes measured",
    "cold": "runny nose, sore throat and cough after a viral infection",
    "iron": "tablets with iron and vitamin, a substance to be taken with food",
    "discharge": "the patient is sent home from hospital with her medication",
    "sugar": "fasting blood glucose measured this morning, insulin given",
}
RIGHT = {"CP": "6", "AS": "6", "Hb": "6", "sugar": "6"}
"""Where the second sense is meant; elsewhere the first."""


@pytest.fixture(scope="module")
def umls(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("umls")
    release = write_synthetic_umls(folder / "META")
    medlink.build_kb(folder / "kb.sqlite", [Input("rrf", release)])
    return medlink.build_bundle(folder / "bundle", kb=folder / "kb.sqlite")


@pytest.mark.slow
def test_common_findings_are_linked_to_the_finding(umls: Bundle) -> None:
    links = Linker(umls, language="en").link(FINDINGS)
    assert [link.concept_id for link in links] == [f"C1{number:06}" for number in range(len(FINDINGS))]
    # only the concept of another source is equivalent
    assert {(len(link.candidates[0].same_as), link.candidates[0].presumed[0][:2]) for link in links} == {(1, "C4")}
    assert links[0].to_dict()["candidates"][0]["presumed"] == ["C4000000"]


def test_senses_are_ambiguous_without_a_context(umls: Bundle) -> None:
    links = Linker(umls, language="en").link(list(SENSES))
    assert [link.status for link in links] == [AMBIGUOUS] * len(SENSES)
    assert all(link.concept_id is None and len(link.candidates) > 1 for link in links)


def test_context_decides_most_senses(umls: Bundle) -> None:
    linker = Linker(umls, language="en")
    links = linker.link(list(SENSES), [f"{word}: {CONTEXTS[word]}" for word in SENSES])
    right = [f"C{RIGHT.get(word, '5')}{number:06}" for number, word in enumerate(SENSES)]
    assert sum(link.candidates[0].concept_id == concept for link, concept in zip(links, right, strict=True)) >= 16


def test_resolve_links_the_first_sense(umls: Bundle) -> None:
    plain, first = (Linker(umls, resolve=resolve).link([Mention("MS", "en")])[0] for resolve in ("none", "first"))
    assert (first.status, first.concept_id) == (LINKED, plain.candidates[0].concept_id)
    assert first.candidates == plain.candidates
    assert first.candidates[0].score < 0.5


def test_without_presume_names_do_not_make_concepts_equivalent(umls: Bundle) -> None:
    link = Linker(umls, presume=False).link([Mention("Headache", "en")])[0]
    assert all(not candidate.same_as for candidate in link.candidates)
    assert link.candidates[0].concept_id == "C1000000"


def test_names_of_several_concepts_are_counted(umls: Bundle) -> None:
    """Each finding is a name of four concepts, preferred by that of the finding, the answer and the second one."""
    counts = umls.index.shared_names()
    assert counts == {"of_several_concepts": len(FINDINGS) + len(SENSES), "preferred_twice": len(FINDINGS)}


@pytest.mark.parametrize(("prefer", "text", "prefix"), [
    (["NCI_CTCAE"], "Headache", "C2"), (["LNC", "HPO"], "Headache", "C3"), (["NCI"], "Headache", "C4"),
    (["Intellectual Product"], "Headache", "C3"), (["abstract"], "Headache", "C3"), (["measurement"], "Hb", "C6"),
    (["substance,finding"], "Hb", "C5"),
])  # fmt: skip
def test_preferred_sources_types_and_kinds_are_linked(umls: Bundle, prefer: list[str], text: str, prefix: str) -> None:
    link = Linker(umls, prefer=prefer).link([Mention(text, "en")])[0]
    assert (link.status, (link.concept_id or "")[:2]) == (LINKED, prefix)


def test_prior_features(umls: Bundle) -> None:
    linker = Linker(umls, language="en")
    assert isinstance(linker.decision, SharedNamePolicy)
    mentions = [Mention("Headache", "en"), Mention("Headache symptom", "en")]
    ranked = linker.rank(mentions)
    grouped = linker.decision.group_concepts(ranked)
    several, alone = linker.decision.prior_features(mentions, [concepts for concepts, _ in grouped], ranked)
    assert alone == {}
    found = {umls.index.concept_ids(np.array([key]))[0][:2]: features for key, features in several.items()}
    assert sorted(found) == ["C1", "C2", "C3", "C4"]
    # the finding has it from three sources as preferred name, the grade as a synonym; the answer is abstract
    assert found["C1"].sources > found["C2"].sources == 0.0
    assert (found["C1"].preferred, found["C2"].preferred, found["C3"].kind) == (1.0, 0.0, -3.0)


@pytest.mark.slow
def test_a_compilation_and_its_sources_are_equivalent(tmp_path: Path) -> None:
    rows = [conso("C1", "Fever", SAB="HPO"), conso("C1", "Fever", SAB="DOID", ISPREF="N")]
    write_lines(tmp_path / "META" / "MRCONSO.RRF", rows)
    inputs = [Input("rrf", tmp_path / "META")]
    for source in ("HPO", "DOID"):
        (tmp_path / f"{source}.tsv").write_text(
            f"concept_id\tname\tlanguage\n{source}:1\tFever\ten\n", encoding="utf-8"
        )
        inputs.append(Input("table", tmp_path / f"{source}.tsv", {"source": source}))
    medlink.build_kb(tmp_path / "kb.sqlite", inputs)
    bundle = medlink.build_bundle(tmp_path / "bundle", kb=tmp_path / "kb.sqlite")
    first = Linker(bundle).link([Mention("Fever", "en")])[0].candidates[0]
    assert (first.concept_id, *sorted(first.same_as)) == ("C1", "DOID:1", "HPO:1")
