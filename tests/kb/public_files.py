"""Small files in the formats in which public terminologies are published, with the names they have there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.kb.writers import write_lines

_OBO, _SKOS = "http://purl.obolibrary.org/obo/", "http://www.w3.org/2004/02/skos/core#exactMatch"
CLAML, ALPHA_ID = "icd10gm2026syst_claml.xml", "icd10gm2026_alphaidse.txt"
_HEART = {
    "IX": ("chapter", "", "Krankheiten des Kreislaufsystems", []),
    "I20-I25": ("block", "IX", "Ischämische Herzkrankheiten", []),
    "I21": ("category", "I20-I25", "Akuter Myokardinfarkt", []),
    "I21.9": ("category", "I21", "Akuter Myokardinfarkt, nicht näher bezeichnet", ["Myokardinfarkt (akut) o.n.A."]),
}
_METABOLISM = {
    "IV": ("chapter", "", "Endokrine, Ernährungs- und Stoffwechselkrankheiten", []),
    "E84": ("category", "IV", "Zystische Fibrose", []),
    "E84.9": ("category", "E84", "Zystische Fibrose, nicht näher bezeichnet", []),
}
Classes = dict[str, tuple[str, str, str, list[str]]]


def write_icd(folder: Path, classes: Classes | None = None, terms: tuple[str, ...] = ()) -> None:
    """Write a classification in ClaML and its terms in Alpha-ID-SE."""
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<ClaML version="2.0.0">\n<Meta name="lang" value="de"/>'
    title = '<Title name="ICD-10-GM" date="2025-09-19" version="2026">ICD-10-GM 2026</Title>'
    lines = [f"{head}{title}"]
    for code, (kind, above, name, inclusions) in (classes or _HEART).items():
        rubrics = [("preferred", name), *(("inclusion", text) for text in inclusions)]
        inner = "".join(f'<Rubric kind="{k}"><Label xml:lang="de">{t}</Label></Rubric>' for k, t in rubrics)
        super_class = f'<SuperClass code="{above}"/>' if above else ""
        lines.append(f'<Class code="{code}" kind="{kind}">{super_class}{inner}</Class>')
    write_lines(folder / CLAML, [*lines, "</ClaML>"])
    terms = terms or ("1|I75567|I21.9|||||Herzinfarkt", "1|I97525|I21.9|||||Herzmuskelinfarkt")
    write_lines(folder / ALPHA_ID, list(terms))


def write_public_files(folder: Path) -> None:
    """Write HPO with translations, MONDO with its mappings, DOID with Spanish names, ORDO and ICD-10-GM."""
    folder.mkdir()
    hp = [("HP:0000001", "All", ""), ("HP:0000118", "Phenotypic abnormality", "HP:0000001")]
    hp += [("HP:0001250", "Seizure", "HP:0000118"), ("HP:0002099", "Asthma", "HP:0000118")]
    nodes = [_class(_url(concept_id), name) for concept_id, name, _ in hp]
    edges = [{"sub": _url(head), "pred": "is_a", "obj": _url(tail)} for head, _, tail in hp if tail]
    _write_graph(folder / "hp.json", nodes, edges, f"{_OBO}hp/releases/2026-06-01/hp.json")
    columns = "subject_id\tpredicate_id\tsource_value\ttranslation_language\ttranslation_value"
    for language, names in {"de": ("Krampfanfall", "Asthma"), "es": ("Crisis epiléptica", "Asma")}.items():
        labels = [f"HP:0001250\trdfs:label\tSeizure\t{language}\t{names[0]}"]
        labels += [f"HP:0002099\trdfs:label\tAsthma\t{language}\t{names[1]}"]
        write_lines(folder / f"hp-{language}.babelon.tsv", [columns, *labels])
    mondo = ["format-version: 1.2", "data-version: releases/2026-08-04/mondo.obo", "", "[Term]"]
    mondo += ["id: MONDO:0009061", "name: cystic fibrosis", 'synonym: "mucoviscidosis" EXACT []']
    mondo += ['xref: DOID:1485 {source="MONDO:equivalentTo"}', 'xref: Orphanet:586 {source="MONDO:equivalentTo"}']
    mondo += ["property_value: skos:exactMatch DOID:1485", "property_value: skos:exactMatch Orphanet:586", ""]
    # a part of the disease, with a reference to the whole
    mondo += ["[Term]", "id: MONDO:0000001", "name: cystic fibrosis of lung", "xref: Orphanet:586", ""]
    mondo += ["[Term]", "id: MONDO:0004979", "name: asthma", ""]
    write_lines(folder / "mondo.obo", mondo)
    table = ["# curie_map:", f"#   MONDO: {_OBO}MONDO_", "subject_id\tpredicate_id\tobject_id\tmapping_justification"]
    table += ["MONDO:0004979\tskos:exactMatch\tDOID:2841\tsemapv:ManualMappingCuration"]
    write_lines(folder / "mondo_exactmatch_doid.sssom.tsv", table)
    doid = ["format-version: 1.2", "data-version: doid/releases/2026-07-31/doid.obo", "", "[Term]"]
    doid += ["id: DOID:1485", "name: cystic fibrosis", "namespace: disease_ontology", "xref: ORDO:586", ""]
    doid += ["[Term]", "id: DOID:2841", "name: asthma", "namespace: disease_ontology", ""]
    write_lines(folder / "doid.obo", doid)
    spanish = ["source_id\tpredicate\tsource_text\ttranslation_text\ttranslation_lang"]
    spanish += ["DOID:1485\trdfs:label\tcystic fibrosis\tfibrosis quística\tes"]
    write_lines(folder / "doid-es-translated.tsv", spanish)
    ordo = _class("http://www.orpha.net/ORDO/Orphanet_586", "Cystic fibrosis")
    ordo["meta"] = {"basicPropertyValues": [{"pred": "http://www.ebi.ac.uk/efo/alternative_term", "val": "CF"}]}
    _write_graph(folder / "ordo.json", [ordo], [], "")
    write_icd(folder, _METABOLISM, ("1|I900001|E84.9||||586|Mukoviszidose", "1|I900002|E84.9|||||CF-Lunge"))
    write_lines(folder / "LICENSE.HPO.md", ["See hpo.jax.org/license."])


def _url(curie: str) -> str:
    return _OBO + curie.replace(":", "_")


def _class(url: str, name: str) -> dict[str, Any]:
    return {"id": url, "lbl": name, "type": "CLASS"}


def _write_graph(path: Path, nodes: list[Any], edges: list[Any], version: str) -> None:
    graph = {"nodes": nodes, "edges": edges, "meta": {"version": version}}
    path.write_text(json.dumps({"graphs": [graph]}), encoding="utf-8")
