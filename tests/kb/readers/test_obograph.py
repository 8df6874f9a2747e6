"""OBO-graphs JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.kb.readers.obograph import read_obograph
from medlink.records import Concept, Definition, Mapping, Name, Relation, Retired, SemanticType, Source

OBO = "http://purl.obolibrary.org/obo/"
NAMESPACE = "http://www.geneontology.org/formats/oboInOwl#hasOBONamespace"


def node(number: str, label: str | None = "label", kind: str = "CLASS", **meta: Any) -> dict[str, Any]:
    return {"id": OBO + number, "lbl": label, "type": kind, "meta": meta}


def edge(head: str, tail: str, predicate: str = "is_a") -> dict[str, str]:
    return {"sub": OBO + head, "pred": predicate, "obj": OBO + tail}


def write(path: Path, nodes: list[Any], edges: list[Any] | None = None, **meta: Any) -> Path:
    path.write_text(json.dumps({"graphs": [{"nodes": nodes, "edges": edges or [], "meta": meta}]}), "utf-8")
    return path


def test_everything(tmp_path: Path) -> None:
    nodes = [
        node(
            "HP_1",
            " Renal cyst ",
            definition={"val": "A sac."},
            synonyms=[
                {"pred": "hasExactSynonym", "val": "Kidney cyst", "synonymType": OBO + "hp#layperson"},
                {"pred": "hasExactSynonym", "val": "RC", "synonymType": OBO + "hp#abbreviation"},
                {"pred": "hasRelatedSynonym", "val": "Cystic kidney", "synonymType": OBO + "hp#layperson"},
                {"pred": "hasExactSynonym", "val": "Renal cysts"},
                {"pred": "hasExactSynonym", "val": " "},
            ],
            xrefs=[{"val": "UMLS:C1"}, {"val": "http://x.org"}, {"val": "loose"}],
        ),
        node("HP_2", "Renal abnormality"),
        node("HP_3", "Old", deprecated=True),
        node("HP_4", None),
        node("RO_1", "has part", "PROPERTY"),
        node("MP_1", "Foreign"),
    ]
    edges = [edge("HP_1", "HP_2", predicate) for predicate in ("is_a", OBO + "RO_1", OBO + "RO_9")]
    edges.append(edge("HP_1", "MP_1"))
    path = write(tmp_path / "hp.json", nodes, edges, version="http://x.org/hp/releases/2026-01-31/hp.json")
    problems = Problems()
    assert list(read_obograph(path, problems=problems)) == [
        Source("HP", "2026-01-31", "HP"),
        Concept("HP:1", "HP"),
        Name("HP:1", "Renal cyst", "en", "preferred", "HP", True),
        Name("HP:1", "Kidney cyst", "en", "lay", "HP"),
        Name("HP:1", "RC", "en", "abbreviation", "HP"),
        Name("HP:1", "Cystic kidney", "en", "related", "HP"),
        Name("HP:1", "Renal cysts", "en", "exact", "HP"),
        Definition("HP:1", "A sac.", "en", "HP"),
        Mapping("HP:1", "UMLS", "C1", "xref", "HP"),
        Concept("HP:2", "HP"),
        Name("HP:2", "Renal abnormality", "en", "preferred", "HP", True),
        Retired("HP:3", "deleted", "", "HP"),
        Relation("HP:1", "isa", "HP:2", "HP"),
        Relation("HP:1", "has part", "HP:2", "HP"),
        Relation("HP:1", "RO:9", "HP:2", "HP"),
        SemanticType("HP:1", "Renal cyst", "", "HP"),
    ]
    assert problems.skipped == {
        "deprecated class": 1,
        "class without a label": 1,
        "node that is not a class": 1,
        "class of another ontology": 1,
        "empty synonym": 1,
        "cross-reference without a system": 2,
        "edge to or from a left-out node": 1,
    }


def test_matches_and_terms_of_efo(tmp_path: Path) -> None:
    """ORDO has synonyms and definitions as properties of EFO, MONDO exact matches as URLs."""
    values = [
        {"pred": "http://www.ebi.ac.uk/efo/alternative_term", "val": "Aase syndrome"},
        {"pred": "http://www.ebi.ac.uk/efo/definition", "val": "An anemia."},
        {"pred": "http://www.w3.org/2004/02/skos/core#exactMatch", "val": "https://omim.org/entry/105650"},
    ]
    term = node("1", "Blackfan-Diamond anemia", basicPropertyValues=values, xrefs=[{"val": "OMIM:105650"}])
    term["id"] = "http://www.orpha.net/ORDO/Orphanet_124"
    assert list(read_obograph(write(tmp_path / "ordo.json", [term])))[1:] == [
        Concept("Orphanet:124", "Orphanet"),
        Name("Orphanet:124", "Blackfan-Diamond anemia", "en", "preferred", "Orphanet", True),
        Name("Orphanet:124", "Aase syndrome", "en", "exact", "Orphanet"),
        Definition("Orphanet:124", "An anemia.", "en", "Orphanet"),
        Mapping("Orphanet:124", "OMIM", "105650", "exact", "Orphanet"),
    ]


def types(path: Path) -> list[tuple[str, str]]:
    return [(r.concept_id, r.semantic_type) for r in read_obograph(path) if isinstance(r, SemanticType)]


def test_semantic_types(tmp_path: Path) -> None:
    labels = {"X_1": "root", "X_2": "finding", "X_3": "course", "X_4": "cyst", "X_5": "alone"}
    nodes = [node(number, label) for number, label in labels.items()]
    edges = [edge("X_2", "X_1"), edge("X_3", "X_1"), edge("X_4", "X_2"), edge("X_4", "X_3")]
    one_root = write(tmp_path / "a.json", nodes, edges)
    assert types(one_root) == [("X:2", "finding"), ("X:3", "course"), ("X:4", "finding"), ("X:4", "course")]
    two_roots = write(tmp_path / "b.json", nodes, [edge("X_3", "X_1"), edge("X_4", "X_2"), edge("X_4", "X_3")])
    assert types(two_roots) == [
        ("X:1", "root"),
        ("X:2", "finding"),
        ("X:3", "root"),
        ("X:4", "root"),
        ("X:4", "finding"),
    ]
    cycle = write(tmp_path / "c.json", nodes, [edge("X_2", "X_1"), edge("X_3", "X_4"), edge("X_4", "X_3")])
    assert types(cycle) == [("X:2", "finding")]
    named = [node("X_1", "a", basicPropertyValues=[{"pred": NAMESPACE, "val": "disease"}] * 2), node("X_2", "b")]
    assert types(write(tmp_path / "d.json", named, edges)) == [("X:1", "disease")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON, or is cut off"),
        ('{"a": 1}', r"looked for graphs\[0\].nodes; found a"),
        ("[]", r"looked for graphs\[0\].nodes; found list"),
        ('{"graphs": []}', "found graphs"),
        ('{"graphs": [{"nodes": []}]}', "found 0 nodes"),
        ('{"graphs": [{"nodes": [3, {"id": 4}]}]}', "2 of 2 rows cannot be used .malformed node"),
        (" \n", "the file is empty"),
        ('{"graphs": [{"nodes": [], "meta": 3}]}', "meta or graphs.0..edges is malformed"),
        ('{"graphs": [{"nodes": [], "edges": 3}]}', "meta or graphs.0..edges is malformed"),
        ('{"graphs": [{"nodes": 3}]}', "looked for graphs"),
    ],
)
def test_not_obographs(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=message):
        list(read_obograph(tmp_path / "x.json"))


def test_what_is_not_read_is_reported(tmp_path: Path) -> None:
    """A second graph, a class that occurs twice, and texts that are none."""
    path = write(tmp_path / "x.json", [node("X_1", xrefs=[{"val": None}]), node("X_1"), node("X_2")])
    data = json.loads(path.read_text())
    path.write_text(json.dumps({"graphs": [*data["graphs"], {"nodes": []}, {"nodes": []}]}))
    problems = Problems()
    assert len([one for one in read_obograph(path, problems=problems) if isinstance(one, Concept)]) == 2
    assert problems.skipped == {"class repeated, kept once": 1}
    assert problems.notes == [f"{path}: only the first of 3 graphs is read"]


def test_malformed_parts_are_counted(tmp_path: Path) -> None:
    nodes, edges = [node("X_1"), node("X_2"), {"lbl": "no id"}], [{"sub": "x"}, 3, edge("X_1", "X_2")]
    problems = Problems()
    assert len(list(read_obograph(write(tmp_path / "x.json", nodes, edges), problems=problems))) == 7
    assert problems.bad == {"malformed node": 1, "malformed edge": 2}
    with pytest.raises(InputError, match=r"20 of 23 rows cannot be used \(malformed edge: 20\)"):
        list(read_obograph(write(tmp_path / "x.json", nodes[:2] + nodes[:1], [edges[0]] * 20)))
