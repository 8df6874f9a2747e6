"""OBO flat files."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from medlink.files.problems import Problems
from medlink.kb.readers.obo import read_obo
from medlink.records import Concept, Definition, Mapping, Name, Relation, Retired, SemanticType, Source
from tests.kb.writers import read_all, write_lines

FILE = r"""format-version: 1.4
data-version: demo/releases/2026-07-31/demo.obo
default-namespace: symptoms
property_value: dc:title "Demo \"Ontology\"" xsd:string
! a comment

[Term]
id: X:1
name: cellulitis\, deep
namespace: disease
namespace: sign
def: "A \"deep\" inflammation\nof tissue." [url:http\://a.b "x", X:9]
comment: none
synonym: "abbr" EXACT OMO:0003012 []
synonym: "lay one" EXACT http://purl.obolibrary.org/obo/hp#layperson [A:1] {x="y"}
synonym: "plain" EXACT []
synonym: "wide \[x\]" BROAD []
synonym: "no scope" []
xref: ICDO:9120/3
xref: UMLS_CUI:C0018923 "text" {source="z"}
xref: http\://somewhere.org/1
xref: loose
is_a: X:2 {source="X"} ! the parent
relationship: part_of X:3 ! whole
relationship: RO:0002200 X:4
relationship: broken

[Term]
id: X:2
name: parent

[Term]
id: X:5
name: gone
is_obsolete: true

[Term]
id: Y:1
name: foreign

[Term]
id: X:6

[Typedef]
id: RO:0002200
name: has phenotype

[Instance]
id: X:7
name: an instance
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "demo.obo", FILE.splitlines())


def test_everything(path: Path) -> None:
    problems = Problems()
    assert list(read_obo(path, problems=problems)) == [
        Source("X", "2026-07-31", 'Demo "Ontology"'),
        Concept("X:1", "X"),
        Name("X:1", "cellulitis, deep", "en", "preferred", "X", True),
        SemanticType("X:1", "disease", "", "X"),
        SemanticType("X:1", "sign", "", "X"),
        Definition("X:1", 'A "deep" inflammation of tissue.', "en", "X"),
        Name("X:1", "abbr", "en", "abbreviation", "X"),
        Name("X:1", "lay one", "en", "lay", "X"),
        Name("X:1", "plain", "en", "exact", "X"),
        Name("X:1", "wide [x]", "en", "broad", "X"),
        Name("X:1", "no scope", "en", "related", "X"),
        Relation("X:1", "isa", "X:2", "X"),
        Relation("X:1", "part_of", "X:3", "X"),
        Relation("X:1", "has phenotype", "X:4", "X"),
        Mapping("X:1", "ICDO", "9120/3", "xref", "X"),
        Mapping("X:1", "UMLS_CUI", "C0018923", "xref", "X"),
        Concept("X:2", "X"),
        Name("X:2", "parent", "en", "preferred", "X", True),
        SemanticType("X:2", "symptoms", "", "X"),
        Retired("X:5", "deleted", "", "X"),
    ]
    assert problems.skipped == {
        "cross-reference without a system": 2,
        "obsolete term": 1,
        "stanza that is not a term": 2,
        "term of another ontology": 1,
    }
    assert problems.bad == {"relationship without a target": 1, "term without id or name": 1}


def test_what_is_deprecated(tmp_path: Path) -> None:
    """Also where only the label says so, and of a synonym where its type does."""
    lines = [
        *("[Term]", "id: BTO:1", "name: liver", 'synonym: "hepar" EXACT []', 'synonym: "old" EXACT DEPRECATED []'),
        *('synonym: "Obsolete liver" EXACT []', 'synonym: "jecur" RELATED hp:obsolete_synonym []'),
        *("[Term]", "id: BTO:2", "name: obsolete kidney", "[Term]", "id: BTO:3", "name: Obsolete_spleen"),
        *("[Term]", "id: BTO:4", "name: culture condition:acetate-grown cell"),
        *("[Term]", "id: BTO:5", "name: obsolescence"),
    ]
    records, problems = read_all(read_obo, write_lines(tmp_path / "bto.obo", lines))
    assert [record.text for record in records if isinstance(record, Name)] == ["liver", "hepar", "obsolescence"]
    assert [record.concept_id for record in records if isinstance(record, Concept)] == ["BTO:1", "BTO:5"]
    assert problems.skipped == {"obsolete term": 2, "culture condition": 1, "obsolete synonym": 3}


def test_malformed(tmp_path: Path) -> None:
    lines = ["[Term]", "id: X:1", "name: x", "rubbish", 'synonym: "open', 'def: "" []', "synonym: bare EXACT []"]
    problems = Problems()
    assert len(list(read_obo(write_lines(tmp_path / "x.obo", lines), problems=problems))) == 3
    assert problems.bad == {"line without a tag": 1, "broken quoting": 2, "empty text": 1}
    assert [problem.line for problem in problems.examples] == [4, 5, 6, 7]


def test_many_quotes_that_do_not_end(tmp_path: Path) -> None:
    lines = ["property_value: title " + '\\"' * 400_000, "[Term]", "id: X:1", "name: a"]
    began = time.monotonic()
    assert next(iter(read_obo(write_lines(tmp_path / "x.obo", lines)))) == Source("X", "", "X")
    assert time.monotonic() - began < 20


MATCHES = {
    "DOID:0080679": ("DOID", "0080679"),
    "Orphanet:99811": ("Orphanet", "99811"),
    "http://identifiers.org/medgen/340946": ("MEDGEN", "340946"),
    "http://identifiers.org/mesh/C537394": ("MESH", "C537394"),
    "http://identifiers.org/snomedct/49727002": ("SNOMEDCT", "49727002"),
    "http://linkedlifedata.com/resource/umls/id/C1855733": ("UMLS", "C1855733"),
    "http://purl.bioontology.org/ontology/ICD10CM/R05": ("ICD10CM", "R05"),
    "http://purl.obolibrary.org/obo/NCIT_C37920": ("NCIT", "C37920"),
    "http://www.orpha.net/ORDO/Orphanet_1": ("Orphanet", "1"),
    "https://omim.org/entry/243180": ("OMIM", "243180"),
}
"""References as MONDO writes them, in OBO and in OBO-graphs."""


def test_exact_matches(tmp_path: Path) -> None:
    """A match that is also a cross-reference counts once; a match to elsewhere is counted."""
    lines = ["[Term]", "id: MONDO:1", "name: cough", 'xref: DOID:0080679 {source="MONDO:equivalentTo"}']
    lines += ["xref: OMIM:243180", 'xref: Orphanet:7 {source="MONDO:directSiblingOf"}']
    lines += [f"property_value: skos:exactMatch {reference}" for reference in MATCHES]
    lines += ["property_value: skos:exactMatch https://somewhere.org/a/1", "property_value: skos:closeMatch DOID:9"]
    problems = Problems()
    records = list(read_obo(write_lines(tmp_path / "mondo.obo", lines), problems=problems))
    mapped = [Mapping("MONDO:1", system, code, "exact", "MONDO") for system, code in MATCHES.values()]
    assert [one for one in records if isinstance(one, Mapping)] == [
        *mapped,
        Mapping("MONDO:1", "Orphanet", "7", "xref", "MONDO"),
    ]
    assert problems.skipped == {"cross-reference without a system": 1}
