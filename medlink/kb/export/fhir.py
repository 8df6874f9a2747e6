"""Writing a knowledge base as FHIR R4 CodeSystem resources (https://hl7.org/fhir/R4/codesystem.html)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, TextIO, TypeVar

from medlink.kb.queries import HIERARCHY
from medlink.kb.store import KnowledgeBase
from medlink.kb.systems import NAME_TYPES, System, named
from medlink.records import FSN, Concept, Name, Source

R = TypeVar("R")
_SNOMED = "http://snomed.info/sct"
_USES = {
    FSN: {"system": _SNOMED, "code": "900000000000003001", "display": "Fully specified name"},
    "synonym": {"system": _SNOMED, "code": "900000000000013009", "display": "Synonym"},
}
_PREFERRED = {"system": "http://terminology.hl7.org/CodeSystem/hl7TermMaintInfra", "code": "preferredForLanguage"}
_PROPERTIES = [
    {"code": "parent", "uri": "http://hl7.org/fhir/concept-properties#parent", "type": "code"},
    {"code": "semanticType", "description": "Semantic type, as its source names it", "type": "string"},
]
_UNDETERMINED = "und"  # BCP 47
_NO_NAME = re.compile(r"[^A-Za-z0-9_]+")


def write_fhir(kb: KnowledgeBase, file: TextIO) -> int:
    """Write the concepts of a knowledge base; gives how many there are.

    Each source that has concepts is a CodeSystem; several are a Bundle of type ``collection``. ``language`` is that in
    which most of its names are. ``display`` is the preferred name in that language, and every other name is a
    ``designation`` in its own: preferred ones by their use, the types of others as codes of ``urn:medlink:name-type``.
    Definitions beyond the first, and definitions in other languages, have no place in FHIR and are left out.
    ``content`` is ``fragment``: nothing here says that a release was loaded as a whole. Parents that are concepts of
    another source are left out, for a code system has codes of its own only.

    Codes of systems that :mod:`medlink.kb.systems` knows are bare (``A00.9``). Other systems, and those whose ids here
    are not made of its codes, have the address ``urn:medlink:`` and their name, and concept ids as codes. What is
    written is read back with the same ids.

    Memory grows with the ids of one source.
    """
    sources = with_concepts(kb)
    if len(sources) == 1:
        _write_system(kb, next(iter(sources)), file)
        file.write("\n")
    else:
        file.write('{"resourceType": "Bundle", "type": "collection", "entry": [')
        for number, source in enumerate(sources):
            file.write(",\n" * bool(number) + '{"resource": ')
            _write_system(kb, source, file)
            file.write("}")
        file.write("]}\n")
    return sum(sources.values())


def with_concepts(kb: KnowledgeBase) -> dict[Source, int]:
    """The sources of a knowledge base that have concepts, and how many."""
    held = kb.counts()["sources"]
    return {source: held[source.name]["concepts"] for source in kb.sources() if held[source.name]["concepts"]}


def _write_system(kb: KnowledgeBase, source: Source, file: TextIO) -> None:
    head, concepts = code_system(kb, source)
    file.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "concept": [')
    for number, concept in enumerate(concepts):
        file.write(",\n" * bool(number) + json.dumps(concept, ensure_ascii=False))
    file.write("]}")


def code_system(kb: KnowledgeBase, source: Source) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """A source as a CodeSystem: all that it says but its concepts, and these, one by one, in the order of their ids."""
    own = {concept.concept_id for concept in kb.iter_concepts(sources=[source.name])}
    system = named(source.name)
    if any(system.concept_id(system.code(concept_id)) != concept_id for concept_id in own):
        system = System(source.name, "")
    language = _language(kb, own)
    name = _NO_NAME.sub("_", source.name).strip("_") or "Codes"
    head = {
        "resourceType": "CodeSystem",
        "url": system.url,
        **({"version": source.version} if source.version else {}),
        # FHIR wants a capital first
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
    return head, _concepts(kb, source.name, system, own, language)


def _language(kb: KnowledgeBase, own: set[str]) -> str:
    # names may be of other sources than their concept, as in the UMLS
    counts = Counter(name.language for name in kb.iter_names() if name.language and name.concept_id in own)
    return min(counts, key=lambda tag: (-counts[tag], tag), default="")


def _concepts(kb: KnowledgeBase, source: str, system: System, own: set[str], language: str) -> Iterator[dict[str, Any]]:
    names = Beside(kb.iter_names(), lambda one: one.concept_id)
    definitions = Beside(kb.iter_definitions(), lambda one: one.concept_id)
    types = Beside(kb.iter_semantic_types(), lambda one: one.concept_id)
    relations = Beside(kb.iter_relations(types=HIERARCHY), lambda one: one.head)
    for concept in kb.iter_concepts(sources=[source]):
        concept_id = concept.concept_id
        written = _named(concept, system, list(names.of(concept_id)), language)
        texts = [one.text for one in definitions.of(concept_id) if one.language in ("", language)]
        parents = dict.fromkeys(one.tail for one in relations.of(concept_id) if one.tail in own)
        kinds = dict.fromkeys(one.semantic_type for one in types.of(concept_id))
        properties = [{"code": "parent", "valueCode": system.code(parent)} for parent in parents]
        properties += [{"code": "semanticType", "valueString": kind} for kind in kinds]
        if texts:
            written["definition"] = texts[0]
        if properties:
            written["property"] = properties
        yield written


def _named(concept: Concept, system: System, names: list[Name], language: str) -> dict[str, Any]:
    shown = next((name for name in names if name.preferred and name.language == language), None)
    written: dict[str, Any] = {"code": system.code(concept.concept_id)}
    if shown is not None:
        written["display"] = shown.text
    designations: dict[str, dict[str, Any]] = {}
    for name in names:
        if name is not shown:
            use = _PREFERRED if name.preferred else _USES.get(name.type) or {"system": NAME_TYPES, "code": name.type}
            # what states no language would be in that of the resource
            tag = {"language": name.language or _UNDETERMINED} if name.language or language else {}
            designation = {**tag, "use": use, "value": name.text}
            # two sources may have a name of one type
            designations.setdefault(json.dumps(designation), designation)
    if designations:
        written["designation"] = list(designations.values())
    return written


class Beside:
    """Records in the order of their concepts, read beside the concepts."""

    def __init__(self, records: Iterator[R], key: Callable[[R], str]) -> None:
        self._groups = groupby(records, key)
        self._waiting: tuple[str, list[Any]] | None = None
        self._step()

    def _step(self) -> None:
        found = next(self._groups, None)
        self._waiting = None if found is None else (found[0], list(found[1]))

    def of(self, concept_id: str) -> list[Any]:
        """The records of a concept, which is behind the one asked for before."""
        while self._waiting is not None and self._waiting[0] < concept_id:
            self._step()
        return self._waiting[1] if self._waiting is not None and self._waiting[0] == concept_id else []
