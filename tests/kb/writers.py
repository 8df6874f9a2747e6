"""Writers of the foreign formats: what a reader must give back, written out by other code than the readers."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.readers.delimited import read_delimited
from medlink.records import Concept, Definition, Name, Record, Relation, SemanticType

read_alphaid, read_atc, read_babelon, read_cie10, read_icd_metadata, read_loinc, read_sssom = (
    partial(read_delimited, name) for name in ("alphaid", "atc", "babelon", "cie10", "icd_metadata", "loinc", "sssom")
)
LAT = {"de": "GER", "en": "ENG", "es": "SPA"}
REFSET = {"de": "722130004", "en": "900000000000509007", "es": "448879004"}


def read_all(
    reader: Callable[..., Iterable[Record]], *args: Any, share: float = 0.01, **options: Any
) -> tuple[list[Record], Problems]:
    """Run a reader that tolerates a share of bad rows."""
    problems = Problems(share)
    return list(reader(*args, problems=problems, **options)), problems


@contextmanager
def opened_kb(path: Path, *inputs: Input, **options: Any) -> Iterator[KnowledgeBase]:
    """Build a knowledge base and open it."""
    build_kb(path, inputs, **options)
    with KnowledgeBase(path) as kb:
        yield kb


@dataclass
class Term:
    """A concept with all that belongs to it."""

    concept_id: str
    names: list[tuple[str, str, bool]] = field(default_factory=list)  # language, text, preferred
    definitions: list[tuple[str, str]] = field(default_factory=list)  # language, text
    parents: list[str] = field(default_factory=list)
    semantic_types: list[str] = field(default_factory=list)

    def preferred(self, language: str) -> str:
        return next(text for tag, text, preferred in self.names if tag == language and preferred)


def terms_of(records: list[Record]) -> list[Term]:
    """Records of one reader, by concept."""
    terms: dict[str, Term] = {}
    for record in records:
        if isinstance(record, Concept):
            terms[record.concept_id] = Term(record.concept_id)
        elif isinstance(record, Name):
            terms[record.concept_id].names.append((record.language, record.text, record.preferred))
        elif isinstance(record, Definition):
            terms[record.concept_id].definitions.append((record.language, record.text))
        elif isinstance(record, Relation):
            terms[record.head].parents.append(record.tail)
        elif isinstance(record, SemanticType):
            terms[record.concept_id].semantic_types.append(record.semantic_type)
    return list(terms.values())


def names_of(records: list[Record]) -> dict[str, list[tuple[str, str, str]]]:
    """Text, language and type of the names of each concept."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for record in records:
        if isinstance(record, Name):
            found.setdefault(record.concept_id, []).append((record.text, record.language, record.type))
    return found


def facts(kb: KnowledgeBase) -> dict[str, Any]:
    """What all formats have in common: names, preferred names, definitions, semantic types, parents."""
    return {
        "names": sorted((n.concept_id, n.language, n.text, n.preferred) for n in kb.iter_names() if n.type != "fsn"),
        "definitions": sorted((d.concept_id, d.language, d.text) for d in kb.iter_definitions()),
        "types": sorted((s.concept_id, s.semantic_type) for s in kb.iter_semantic_types()),
        "parents": sorted((r.head, r.tail) for r in kb.iter_relations() if r.type == "isa"),
    }


def write_lines(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return path


def conso(cui: str, text: str, **given: str) -> str:
    """One row of MRCONSO."""
    cells = {
        "CUI": cui, "LAT": "ENG", "TS": "P", "LUI": "L1", "STT": "PF", "SUI": "S1", "ISPREF": "Y", "AUI": "A1",
        "SAUI": "", "SCUI": "", "SDUI": "", "SAB": "DEMO", "TTY": "PT", "CODE": "NOCODE", "STR": text, "SRL": "0",
        "SUPPRESS": "N", "CVF": "",
    }  # fmt: skip
    assert set(given) <= set(cells)
    return "|".join({**cells, **given}.values()) + "|"


def rel(cui1: str, rel: str, cui2: str, rela: str = "", sab: str = "DEMO", *, suppress: str = "N") -> str:
    """One row of MRREL."""
    return f"{cui1}|A1|CUI|{rel}|{cui2}|A2|CUI|{rela}|R1||{sab}|{sab}|||{suppress}||"


def write_rrf(folder: Path, terms: list[Term]) -> Path:
    names, types, definitions, relations = [], [], [], []
    for term in terms:
        for tag, text, preferred in term.names:
            more = {} if preferred else {"TS": "S", "TTY": "SY"}
            names.append(conso(term.concept_id, text, LAT=LAT[tag], SAB="DEMO" + tag.upper(), **more))
        types += [f"{term.concept_id}|T000|A1|{kind}|AT1||" for kind in term.semantic_types]
        definitions += [f"{term.concept_id}|A1|AT1||DEMO{tag.upper()}|{text}|N||" for tag, text in term.definitions]
        for parent in term.parents:
            relations.append(rel(parent, "CHD", term.concept_id, "isa"))
            relations.append(rel(term.concept_id, "PAR", parent, "inverse_isa"))
    # Rows of one concept need not stand together.
    write_lines(folder / "MRCONSO.RRF", names[::2] + names[1::2])
    write_lines(folder / "MRSTY.RRF", types)
    write_lines(folder / "MRDEF.RRF", definitions)
    write_lines(folder / "MRREL.RRF", relations)
    return folder


def rf2(folder: Path, name: str, header: str, rows: list[list[str]]) -> Path:
    """One RF2 file; ``header`` without the four columns that all have."""
    columns = ["id", "effectiveTime", "active", "moduleId", *header.split()]
    assert all(len(row) == len(columns) for row in rows), (name, columns)
    return write_lines(folder / name, ["\t".join(row) for row in [columns, *rows]])


DESCRIPTION = "conceptId languageCode typeId term caseSignificanceId"
LANGUAGE = "refsetId referencedComponentId acceptabilityId"
RELATIONSHIP = "sourceId destinationId relationshipGroup typeId characteristicTypeId modifierId"
FSN, SYNONYM, TEXT = "900000000000003001", "900000000000013009", "900000000000550004"
PREFERRED, ACCEPTABLE = "900000000000548007", "900000000000549004"
INFERRED, STATED = "900000000000011006", "900000000000010007"


def row(number: str | int, *cells: str, active: str = "1", time: str = "20260101") -> list[str]:
    """One RF2 row with the four columns that all have."""
    return [str(number), time, active, "900000000000207008", *cells]


def write_rf2(folder: Path, terms: list[Term]) -> Path:
    number = iter(range(1, 10_000_000))
    descriptions: dict[str, list[list[str]]] = {tag: [] for tag in LAT}
    languages: dict[str, list[list[str]]] = {tag: [] for tag in LAT}
    definitions, relations = [], []
    for term in terms:
        for kind in term.semantic_types:
            fsn = f"{term.preferred('en')} ({kind})"
            descriptions["en"].append(row(next(number), term.concept_id, "en", FSN, fsn, "0"))
        for tag, text, preferred in term.names:
            given = str(next(number))
            descriptions[tag].append(row(given, term.concept_id, tag, SYNONYM, text, "0"))
            languages[tag].append(row(next(number), REFSET[tag], given, PREFERRED if preferred else ACCEPTABLE))
        definitions += [row(next(number), term.concept_id, tag, TEXT, text, "0") for tag, text in term.definitions]
        for parent in term.parents:
            relations.append(row(next(number), term.concept_id, parent, "0", "116680003", INFERRED, "0"))
    terminology, refsets = folder / "Snapshot" / "Terminology", folder / "Snapshot" / "Refset" / "Language"
    rf2(terminology, "sct2_Concept_Snapshot_INT_20260901.txt", "definitionStatusId",
        [row(term.concept_id, "0") for term in terms])  # fmt: skip
    for tag in LAT:
        rf2(terminology, f"sct2_Description_Snapshot-{tag}_INT_20260901.txt", DESCRIPTION, descriptions[tag])
        rf2(refsets, f"der2_cRefset_LanguageSnapshot-{tag}_INT_20260901.txt", LANGUAGE, languages[tag])
    rf2(terminology, "sct2_TextDefinition_Snapshot-en_INT_20260901.txt", DESCRIPTION, definitions)
    rf2(terminology, "sct2_Relationship_Snapshot_INT_20260901.txt", RELATIONSHIP, relations)
    return folder


def write_obo(path: Path, terms: list[Term]) -> Path:
    def escape(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"')

    lines = ["format-version: 1.2", "data-version: demo/2026-01-01/demo.obo", "ontology: demo"]
    for term in terms:
        lines += ["", "[Term]", f"id: {term.concept_id}", f"name: {escape(term.preferred('en'))}"]
        lines += [f"namespace: {kind}" for kind in term.semantic_types]
        lines += [f'def: "{escape(text)}" [demo:x]' for tag, text in term.definitions if tag == "en"]
        lines += [f'synonym: "{escape(text)}" EXACT []' for tag, text, pref in term.names if tag == "en" and not pref]
        lines += [f"is_a: {parent} ! its label" for parent in term.parents]
    return write_lines(path, lines)


def write_obograph(path: Path, terms: list[Term]) -> Path:
    def url(concept_id: str) -> str:
        return "http://purl.obolibrary.org/obo/" + concept_id.replace(":", "_")

    nodes, edges = [], []
    for term in terms:
        english = [text for tag, text, preferred in term.names if tag == "en" and not preferred]
        space = "http://www.geneontology.org/formats/oboInOwl#hasOBONamespace"
        meta: dict[str, Any] = {
            "synonyms": [{"pred": "hasExactSynonym", "val": text} for text in english],
            "basicPropertyValues": [{"pred": space, "val": kind} for kind in term.semantic_types],
        }
        for tag, text in term.definitions:
            if tag == "en":
                meta["definition"] = {"val": text}
        nodes.append({"id": url(term.concept_id), "lbl": term.preferred("en"), "type": "CLASS", "meta": meta})
        edges += [{"sub": url(term.concept_id), "pred": "is_a", "obj": url(parent)} for parent in term.parents]
    path.write_text(json.dumps({"graphs": [{"nodes": nodes, "edges": edges}]}), "utf-8")
    return path


def write_babelon(path: Path, terms: list[Term]) -> Path:
    """All that is not English."""
    lines = ["source_language\ttranslation_language\tsubject_id\tsource_value\tpredicate_id\ttranslation_value"]
    for term in terms:
        for tag, text, preferred in term.names:
            if tag != "en":
                predicate = "rdfs:label" if preferred else "oboInOwl:hasExactSynonym"
                lines.append(f"en\t{tag}\t{term.concept_id}\tx\t{predicate}\t{text}")
        for tag, text in term.definitions:
            if tag != "en":
                lines.append(f"en\t{tag}\t{term.concept_id}\tx\tIAO:0000115\t{text}")
    return write_lines(path, lines)


def write_table(path: Path, terms: list[Term]) -> Path:
    """TSV or CSV by ending."""
    rows = [["concept_id", "name", "language", "type", "definition", "parent", "semantic_type"]]
    for term in terms:
        definitions = dict(term.definitions)
        parents, kinds = "|".join(term.parents), "|".join(term.semantic_types)
        for tag, text, preferred in term.names:
            kind = "preferred" if preferred else "synonym"
            rows.append([term.concept_id, text, tag, kind, definitions.pop(tag, ""), parents, kinds])
            parents = kinds = ""
    if path.suffix == ".tsv":
        return write_lines(path, ["\t".join(cells) for cells in rows])
    with open(path, "w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows(rows)
    return path
