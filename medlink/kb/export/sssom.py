"""Export of mappings to SSSOM (Matentzoglu et al. 2022, https://mapping-commons.github.io/sssom).

The file has a YAML header in lines that begin with ``#``, then a TSV table with one mapping in each row.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import TextIO
from urllib.parse import quote

from medlink.kb.export.fhir import ConceptCursor
from medlink.kb.store import KnowledgeBase
from medlink.kb.systems import SYSTEMS, UNKNOWN, system_by_name
from medlink.records import CODE, NOT_STANDARD, Mapping

COLUMNS = (
    "subject_id", "subject_label", "predicate_id", "object_id", "mapping_justification", "subject_source",
    "object_source", "comment",
)  # fmt: skip
_PREDICATES = {
    "exact": "skos:exactMatch",
    **dict.fromkeys((CODE, *NOT_STANDARD), "skos:exactMatch"),
    "close": "skos:closeMatch",
    "broad": "skos:broadMatch",
    "narrow": "skos:narrowMatch",
    "xref": "oboInOwl:hasDbXref",
}
_RELATED, _JUSTIFICATION = "skos:relatedMatch", "semapv:UnspecifiedMatching"
_VOCABULARIES = {
    "oboInOwl": "http://www.geneontology.org/formats/oboInOwl#",
    "semapv": "https://w3id.org/semapv/vocab/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
}
_OBO = "http://purl.obolibrary.org/obo/"
# expansions of prefixes that have no FHIR URL, or another one
_EXPANSIONS = {
    **{prefix: f"{_OBO}{prefix}_" for prefix in ("CHEBI", "CL", "DOID", "GO", "HP", "MONDO", "MP", "NCIT", "UBERON")},
    "Orphanet": "http://www.orpha.net/ORDO/Orphanet_",
    "SNOMEDCT": "http://snomed.info/id/",
}
_LICENSE = "https://w3id.org/sssom/license/unspecified"
_BATCH = 1_000
_BLANKS = re.compile(r"\s+")
_SAFE = "/:.~+*!'()@&=$,;-_#?"


def write_sssom(kb: KnowledgeBase, file: TextIO) -> int:
    """Write all mappings of a knowledge base, and return their number.

    Types without a predicate of their own, among them the maps of SNOMED CT, are ``skos:relatedMatch`` with the type as
    comment. A concept whose id is its own code is not mapped to itself. The mappings are read twice, first for the
    prefixes; memory does not grow with them.
    """
    systems = {concept.source for concept in kb.iter_concepts()}
    prefixes = {curie.partition(":")[0] for subject, _, target, _ in _rows(kb) for curie in (subject, target)}
    title = f"Mappings of {', '.join(sorted(systems))}"
    write_row = write_sssom_header(file, COLUMNS, prefixes, f"mappings:{kb.content_hash}", title)
    written, rows = 0, _rows(kb)
    while batch := list(islice(rows, _BATCH)):
        labels = kb.preferred_names([mapping.concept_id for *_, mapping in batch], "en")
        for subject, source, target, mapping in batch:
            predicate = _PREDICATES.get(mapping.type, _RELATED)
            comment = "" if mapping.type in (*_PREDICATES, "related") else f"type {mapping.type}"
            known = subject, labels.get(mapping.concept_id, ""), predicate, target
            write_row((*known, _JUSTIFICATION, source, mapping.system, comment))
        written += len(batch)
    return written


def write_sssom_header(
    file: TextIO, columns: Sequence[str], prefixes: Collection[str], set_id: str, title: str
) -> Callable[[Sequence[str]], object]:
    """Write the header of a mapping set, and return a function that writes a row.

    ``columns`` are SSSOM slots, one for each cell of a row, and ``prefixes`` those of all ids.
    """
    head = {
        "curie_map": {**{prefix: _expansion(prefix) for prefix in sorted(prefixes)}, **_VOCABULARIES},
        "license": _LICENSE,
        "mapping_set_id": f"{UNKNOWN}{set_id}",
        "mapping_set_title": title,
    }
    for key, value in head.items():
        if isinstance(value, dict):
            file.write(f"# {key}:\n")
            # JSON strings are YAML strings
            file.writelines(f"#   {json.dumps(name)}: {json.dumps(url)}\n" for name, url in value.items())
        else:
            file.write(f"# {key}: {json.dumps(value, ensure_ascii=False)}\n")
    # quotes cells if needed, since a label may begin with a quote
    table = csv.writer(file, delimiter="\t", lineterminator="\n")
    table.writerow(columns)
    return lambda cells: table.writerow([_BLANKS.sub(" ", cell) for cell in cells])


def _rows(kb: KnowledgeBase) -> Iterator[tuple[str, str, str, Mapping]]:
    concepts = ConceptCursor(kb.iter_concepts())
    for concept_id, mappings in groupby(kb.iter_mappings(), attrgetter("concept_id")):
        source = next((concept.source for concept in concepts.seek(concept_id)), "")
        subject = concept_curie(source, concept_id)
        seen = set[tuple[str, str]]()
        for mapping in mappings:
            target = curie(mapping.system, mapping.code)
            if target != subject and (target, mapping.type) not in seen:
                seen.add((target, mapping.type))
                yield subject, source, target, mapping


def concept_curie(source: str, concept_id: str) -> str:
    """Return a concept id as a CURIE, with the prefix of its source if it has none."""
    return curie(source, concept_id) if ":" not in concept_id else quote(concept_id, safe=_SAFE)


def curie(system: str, code: str) -> str:
    """Return a code as a CURIE, with blanks and other invalid characters percent-encoded."""
    known = system_by_name(system)
    prefix = known.prefix or known.name
    return quote(code if code.startswith(f"{prefix}:") else f"{prefix}:{code}", safe=_SAFE)


def _expansion(prefix: str) -> str:
    """Expand a prefix to the URL of a known system, or to a URN of medlink."""
    if prefix in _EXPANSIONS:
        return _EXPANSIONS[prefix]
    for system in SYSTEMS:
        if prefix in (system.prefix or system.name, system.prefix) and system.urls:
            return f"{system.urls[0]}/"
    return f"{UNKNOWN}{quote(prefix, safe='')}:"
