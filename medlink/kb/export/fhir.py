"""Export to FHIR R4 CodeSystem resources (https://hl7.org/fhir/R4/codesystem.html)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, TextIO

from medlink.kb.queries import HIERARCHY
from medlink.kb.store import KnowledgeBase
from medlink.kb.systems import NAME_TYPES, System, system_by_name
from medlink.records import FSN, Concept, Name, Source

_SNOMED = "http://snomed.info/sct"
SYNONYM_USE = {"system": _SNOMED, "code": "900000000000013009", "display": "Synonym"}
PREFERRED_USE = {"system": "http://terminology.hl7.org/CodeSystem/hl7TermMaintInfra", "code": "preferredForLanguage"}
_USES = {
    FSN: {"system": _SNOMED, "code": "900000000000003001", "display": "Fully specified name"},
    "synonym": SYNONYM_USE,
}
_PROPERTIES = [
    {"code": "parent", "uri": "http://hl7.org/fhir/concept-properties#parent", "type": "code"},
    {"code": "semanticType", "description": "Semantic type, as its source names it", "type": "string"},
]
_UNDETERMINED = "und"  # the BCP 47 tag
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_]+")


def write_fhir(kb: KnowledgeBase, file: TextIO) -> int:
    """Write the concepts of a knowledge base, and return their number; the FHIR reader restores their ids.

    Each source with concepts is a CodeSystem; several are a Bundle. ``display`` is the preferred name in the language
    of most names, every other name is a ``designation``. FHIR has no place for further definitions and definitions in
    other languages, and a code system none for parents from another source. ``content`` is ``fragment``, since the
    knowledge base may hold a part of a release. Codes of systems in :mod:`medlink.kb.systems` are bare (``A00.9``);
    other systems, and those whose ids do not contain their codes, have concept ids as codes. Memory grows with the ids
    of one source.
    """
    sources = sources_with_concepts(kb)
    is_bundle = len(sources) != 1
    file.write('{"resourceType": "Bundle", "type": "collection", "entry": [' * is_bundle)
    for number, source in enumerate(sources):
        head, concepts = build_code_system(kb, source)
        file.write(",\n" * bool(number) + '{"resource": ' * is_bundle)
        file.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "concept": [')
        for place, concept in enumerate(concepts):
            file.write(",\n" * bool(place) + json.dumps(concept, ensure_ascii=False))
        file.write("]}" + "}" * is_bundle)
    file.write("]}" * is_bundle + "\n")
    return sum(sources.values())


def sources_with_concepts(kb: KnowledgeBase) -> dict[Source, int]:
    """Return the number of concepts of each source that has any."""
    counts = kb.counts()["sources"]
    return {source: counts[source.name]["concepts"] for source in kb.sources() if counts[source.name]["concepts"]}


def build_code_system(kb: KnowledgeBase, source: Source) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Return the fields of a CodeSystem without its concepts, and an iterator of these, ordered by id."""
    own = {concept.concept_id for concept in kb.iter_concepts(sources=[source.name])}
    system = system_by_name(source.name)
    if any(system.concept_id(system.code(concept_id)) != concept_id for concept_id in own):
        system = System(source.name, "")
    # names may have another source than their concept, as in the UMLS
    counts = Counter(name.language for name in kb.iter_names() if name.language and name.concept_id in own)
    language = min(counts, key=lambda tag: (-counts[tag], tag), default="")
    name = _NOT_IN_NAME.sub("_", source.name).strip("_") or "Codes"
    head = {
        "resourceType": "CodeSystem",
        "url": system.url,
        **({"version": source.version} if source.version else {}),
        # FHIR requires an initial capital
        "name": name[0].upper() + name[1:] if name[0].isalpha() else f"S_{name}",
        "title": source.title or source.name,
        "status": "active",
        "caseSensitive": True,
        "hierarchyMeaning": "is-a",
        "content": "fragment",
        "count": len(own),
        **({"language": language} if language else {}),
        "property": _PROPERTIES,
    }
    return head, _iter_concepts(kb, source.name, system, own, language)


def _iter_concepts(
    kb: KnowledgeBase, source: str, system: System, own: set[str], language: str
) -> Iterator[dict[str, Any]]:
    names, definitions, types = map(ConceptCursor, (kb.iter_names(), kb.iter_definitions(), kb.iter_semantic_types()))
    relations = ConceptCursor(kb.iter_relations(types=HIERARCHY), "head")
    for concept in kb.iter_concepts(sources=[source]):
        concept_id = concept.concept_id
        data = _with_names(concept, system, names.seek(concept_id), language)
        texts = [record.text for record in definitions.seek(concept_id) if record.language in ("", language)]
        parents = dict.fromkeys(record.tail for record in relations.seek(concept_id) if record.tail in own)
        kinds = dict.fromkeys(record.semantic_type for record in types.seek(concept_id))
        properties = [{"code": "parent", "valueCode": system.code(parent)} for parent in parents]
        properties += [{"code": "semanticType", "valueString": kind} for kind in kinds]
        if texts:
            data["definition"] = texts[0]
        if properties:
            data["property"] = properties
        yield data


def _with_names(concept: Concept, system: System, names: list[Name], language: str) -> dict[str, Any]:
    display = next((name for name in names if name.preferred and name.language == language), None)
    data: dict[str, Any] = {"code": system.code(concept.concept_id)}
    if display is not None:
        data["display"] = display.text
    designations: dict[str, dict[str, Any]] = {}
    for name in names:
        if name is not display:
            use = PREFERRED_USE if name.preferred else _USES.get(name.type) or {"system": NAME_TYPES, "code": name.type}
            # without a language it would have that of the resource
            tag = {"language": name.language or _UNDETERMINED} if name.language or language else {}
            designation = {**tag, "use": use, "value": name.text}
            # two sources may have the same name of the same type
            designations.setdefault(json.dumps(designation), designation)
    if designations:
        data["designation"] = list(designations.values())
    return data


class ConceptCursor:
    """Reads records, sorted by the concept id in ``id_field``, alongside a sorted sequence of concepts."""

    def __init__(self, records: Iterator[Any], id_field: str = "concept_id") -> None:
        self._groups = ((key, list(group)) for key, group in groupby(records, attrgetter(id_field)))
        self._current = next(self._groups, None)

    def seek(self, concept_id: str) -> list[Any]:
        """Return the records of a concept; ids must increase from call to call."""
        while self._current is not None and self._current[0] < concept_id:
            self._current = next(self._groups, None)
        return self._current[1] if self._current is not None and self._current[0] == concept_id else []
