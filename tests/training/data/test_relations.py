"""Relations in words."""

from __future__ import annotations

import pytest

from medlink.training.data.relations import relation_phrase


@pytest.mark.parametrize(
    ("relation", "phrase"),
    [
        # the example of the paper, and verbs as they are
        ("may_treat", "may treat"),
        ("has_finding_site", "has finding site"),
        ("is_finding_of_disease", "is finding of disease"),
        ("co-occurs_with", "co-occurs with"),
        ("negatively_regulates", "negatively regulates"),
        # not verbal: is before what ends in a preposition, has before nouns
        ("finding_site_of", "is finding site of"),
        ("clinically_associated_with", "is clinically associated with"),
        ("contraindicated_with_disease", "is contraindicated with disease"),
        ("same_as", "is same as"),
        ("tradename_of", "is tradename of"),
        # SNOMED CT attributes
        ("finding site", "has finding site"),
        ("route of administration", "has route of administration"),
        ("due to", "is due to"),
        ("after", "is after"),
        ("during", "is during"),
        ("temporally related to", "is temporally related to"),
        ("using access device", "uses access device"),
        ("procedure site - direct", "has direct procedure site"),
        ("interprets", "interprets"),
        ("plays role", "plays role"),
        # NCI Thesaurus roles name their subject
        ("Disease_Has_Finding", "has finding"),
        ("Disease_May_Have_Abnormal_Cell", "may have abnormal cell"),
        ("disease_mapped_to_gene", "is mapped to gene"),
        ("Gene_Product_Encoded_By_Gene", "is encoded by gene"),
        ("Gene_Product_Malfunction_Associated_With_Disease", "has malfunction associated with disease"),
        ("chemical_or_drug_has_mechanism_of_action", "has mechanism of action"),
        # hierarchies
        ("isa", "is a kind of"),
        ("is_a", "is a kind of"),
        ("CHD", "is a kind of"),
        ("subClassOf", "is a kind of"),
        # REL, where there is no RELA
        ("RO", "is related to"),
        ("RB", "is broader than"),
        ("SIB", "stands beside"),
        # the open ontologies
        ("hasPart", "has part"),
        ("RO:0002200", "has phenotype"),
        ("Disease-causing germline mutation(s) in", "has disease-causing germline mutation(s) in"),
        ("has_AgeOfOnset", "has age of onset"),
        # mere codes
        ("RO:0001022", "is related to"),
        ("363698007", "is related to"),
        ("_", "is related to"),
    ],
)
def test_phrases(relation: str, phrase: str) -> None:
    assert relation_phrase(relation) == phrase


@pytest.mark.parametrize("relation", ["XR", "DEL"])
def test_denied_relations(relation: str) -> None:
    assert relation_phrase(relation) is None
