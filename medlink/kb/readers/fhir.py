"""Reader of FHIR R4 terminology: CodeSystem, ValueSet and ConceptMap as JSON, alone or in a Bundle.

See https://hl7.org/fhir/R4/codesystem.html, valueset.html and conceptmap.html. The prefix of the ids of an unknown
system is the name of its CodeSystem, or the end of its URL. Relationships of R5 ConceptMaps are read too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from medlink.errors import InputError
from medlink.files.json import read_json_input
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb.readers.common import Format, is_valid_id, resolve_language
from medlink.kb.systems import NAME_TYPES, System, system_by_url
from medlink.language.tags import language_tag
from medlink.records import FSN, Concept, Definition, Mapping, Name, Record, Relation, SemanticType, Source

Object = dict[str, Any]
KINDS = ("CodeSystem", "ValueSet", "ConceptMap")
_REMEDY = "give a FHIR CodeSystem, ValueSet or ConceptMap, or a Bundle of them, as JSON"
_FSN_USES = ("900000000000003001", "fully-specified-name")
_PREFERRED_USES = ("display", "preferredForLanguage")
_INACTIVE = ("retired", "inactive", "deprecated")
_HIERARCHY = {"part-of": "part_of", "grouped-by": "grouped_by"}
_TYPES = {
    **dict.fromkeys(("equal", "equivalent"), "exact"),
    **dict.fromkeys(("wider", "subsumes", "source-is-narrower-than-target"), "broad"),
    **dict.fromkeys(("narrower", "specializes", "source-is-broader-than-target"), "narrow"),
    **dict.fromkeys(("relatedto", "inexact", "related-to"), "related"),
    **dict.fromkeys(("unmatched", "disjoint", "not-related-to"), ""),
}


def read_fhir(
    path: str | PathLike[str],
    *,
    source: str | None = None,
    version: str | None = None,
    language: str = "",
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read FHIR terminology.

    The whole file is held in memory (some seven times its decompressed size, measured by hand on 2026-11-23 with
    200,000 synthetic concepts). ``source`` defaults to the name of each code system, and ``version`` defaults to that
    of the resource; ``language`` applies if neither name nor resource states one.
    """
    problems = problems or Problems()
    tag = resolve_language(language)
    lines = LineFile(path, problems)
    resources = _resources(lines)
    systems = _systems(resources)
    for resource in resources:
        reader = _Resource(resource, lines.path, problems, source, version, _tag(resource, tag), systems)
        methods = {"CodeSystem": reader.code_system, "ValueSet": reader.value_set, "ConceptMap": reader.concept_map}
        yield from methods[_text(resource["resourceType"])]()
    problems.check_bad_share(lines.path, problems.rows)


def _resources(lines: LineFile) -> list[Object]:
    data = read_json_input(lines)
    kind, candidates = _text(_get(data, "resourceType")), [data]
    if kind == "Bundle":
        candidates = [entry.get("resource") for entry in _objects(data.get("entry"))]
    resources = []
    for resource in candidates:
        resource_type = _text(_get(resource, "resourceType"))
        if resource_type in KINDS:
            resources.append(resource)
        elif kind == "Bundle":
            lines.problems.skipped[f"resource of type {resource_type[:40] or 'unknown'}"] += 1
    if not resources:
        message = f"looked for a resource of {', '.join(KINDS)}; found {kind[:40] or 'none'}"
        raise InputError(message, path=lines.path, remedy=_REMEDY)
    return resources


def _systems(resources: list[Object]) -> dict[str, System]:
    return {
        _base_url(resource.get("url")): system_by_url(_text(resource.get("url")), _name(resource))
        for resource in resources
        if _text(resource["resourceType"]) == "CodeSystem" and _text(resource.get("url")) and not _supplements(resource)
    }


def _name(resource: Object) -> str:
    return _text(resource.get("name")) or _text(resource.get("title"))


def _base_url(url: object) -> str:
    return _text(url).partition("|")[0].rstrip("/")


def _supplements(resource: Object) -> str:
    return _text(resource.get("supplements")) if _text(resource.get("content")) == "supplement" else ""


@dataclass(slots=True)
class _Resource:
    resource: Object
    path: Path
    problems: Problems
    source: str | None
    version: str | None
    language: str
    systems: dict[str, System]

    def system(self, url: str) -> System:
        return self.systems.get(_base_url(url)) or system_by_url(url)

    def make_source(self, name: str, version: str, title: str) -> Source:
        return Source(name, version if self.version is None else self.version, title or name)

    def note(self, text: str) -> None:
        self.problems.notes.append(f"{self.path}: {text}")

    def is_usable(self, concept: object) -> bool:
        self.problems.rows += 1
        if not isinstance(concept, dict) or not is_valid_id(_text(concept.get("code"))):
            self.problems.bad_row("concept without a code, or with a blank in it", self.path, 0)
            return False
        state = {key: value for key, value in _properties(concept) if key in ("inactive", "status")}
        if state.get("inactive") is True or state.get("status") in _INACTIVE or concept.get("inactive") is True:
            self.problems.skipped["inactive concept"] += 1
            return False
        return True

    def code_system(self) -> Iterator[Record]:
        resource = self.resource
        name, supplemented = _name(resource), _supplements(resource)
        system = self.system(supplemented) if supplemented else system_by_url(_text(resource.get("url")), name)
        source = self.source or system.name
        if supplemented:
            yield self.make_source(source, supplemented.partition("|")[2], "")
        else:
            yield self.make_source(source, _text(resource.get("version")), _text(resource.get("title")) or name)
        kind = _HIERARCHY.get(_text(resource.get("hierarchyMeaning")), "isa")
        seen = set[str]()
        stack = [(concept, "") for concept in reversed(_listed(resource.get("concept")))]
        while stack:
            concept, parent = stack.pop()
            is_usable = self.is_usable(concept)
            concept_id = system.concept_id(_text(concept["code"])) if is_usable else ""
            # the children of a skipped concept move to its parent
            stack += [(child, concept_id or parent) for child in reversed(_listed(_get(concept, "concept")))]
            if not is_usable:
                continue
            if parent:
                yield Relation(concept_id, kind, parent, source)
            if concept_id in seen:
                self.problems.skipped["concept repeated, kept once"] += 1
                continue
            seen.add(concept_id)
            yield from self.concept_records(system, concept, self.language)
            for key, value in _properties(concept):
                if key in ("parent", "child") and isinstance(value, str) and is_valid_id(value):
                    ends = concept_id, system.concept_id(value)
                    head, tail = ends if key == "parent" else ends[::-1]
                    yield Relation(head, kind, tail, source)
                elif key == "semanticType" and isinstance(value, str) and value.strip():
                    yield SemanticType(concept_id, value.strip(), "", source)
        if resource.get("content") == "not-present":
            self.note(f"the code system {system.name} says that its concepts are elsewhere")

    def concept_records(self, system: System, concept: Object, language: str) -> Iterator[Record]:
        code = _text(concept["code"])
        concept_id, source = system.concept_id(code), self.source or system.name
        yield Concept(concept_id, source)
        if display := _text(concept.get("display")):
            yield Name(concept_id, display, language, "preferred", source, True)
        for designation in _objects(concept.get("designation")):
            text, tag = _text(designation.get("value")), _tag(designation, language)
            use = _text(_get(designation.get("use"), "code"))
            own = _text(_get(designation.get("use"), "system")) == NAME_TYPES
            kind = FSN if use in _FSN_USES else use if own and use else "synonym"
            preferred = use in _PREFERRED_USES and not own
            if text and (text, tag) != (display, language):
                yield Name(concept_id, text, tag, "preferred" if preferred else kind, source, preferred)
        if definition := _text(concept.get("definition")):
            yield Definition(concept_id, definition, language, source)
        if code != concept_id:
            yield Mapping(concept_id, system.name, code, "code", source)

    def value_set(self) -> Iterator[Record]:
        compose, expansion = self.resource.get("compose"), self.resource.get("expansion")
        if isinstance(expansion, dict):
            listed = list(self._expanded(expansion))
            total = expansion.get("total")
            if isinstance(total, int) and total > len(listed):
                self.note(f"the expansion has {len(listed):,} of {total:,} concepts; fetch it without pages")
        else:
            listed = list(self._composed(compose))
        announced, seen = set[str](), set[str]()
        for url, version, concept in listed:
            if not self.is_usable(concept):
                continue
            system = self.system(url)
            concept_id = system.concept_id(_text(concept["code"]))
            if system.name not in announced:
                announced.add(system.name)
                yield self.make_source(self.source or system.name, version, "")
            if concept_id in seen:
                self.problems.skipped["concept repeated, kept once"] += 1
                continue
            seen.add(concept_id)
            yield from self.concept_records(system, concept, self.language)

    def _expanded(self, expansion: Object) -> Iterator[tuple[str, str, Any]]:
        stack = list(reversed(_listed(expansion.get("contains"))))
        while stack:
            concept = stack.pop()
            stack += reversed(_listed(_get(concept, "contains")))
            if isinstance(concept, dict) and "code" not in concept and "contains" in concept:
                continue
            yield _text(_get(concept, "system")), _text(_get(concept, "version")), concept

    def _composed(self, compose: object) -> Iterator[tuple[str, str, Any]]:
        excluded = set[tuple[str, str]]()
        for part in _objects(_get(compose, "exclude")):
            url = _text(part.get("system"))
            excluded.update((url, _text(_get(concept, "code"))) for concept in self._concepts_of(part, "excludes"))
        for part in _objects(_get(compose, "include")):
            url, version = _text(part.get("system")), _text(part.get("version"))
            for concept in self._concepts_of(part, "includes"):
                if (url, _text(_get(concept, "code"))) in excluded:
                    self.problems.rows += 1
                    self.problems.skipped["concept that the value set excludes"] += 1
                else:
                    yield url, version, concept

    def _concepts_of(self, part: Object, what: str) -> list[Any]:
        """Return the concepts that a part of a value set lists; note if it lists none."""
        concepts = _listed(part.get("concept"))
        if not concepts:
            origin = _text(part.get("system"))[:80] or "other value sets"
            note = f"the concepts that it {what} from {origin} are not listed in it"
            self.note(f"{note}; expand it first, or give the code system")
        return concepts

    def concept_map(self) -> Iterator[Record]:
        skipped = self.problems.skipped
        announced = set[str]()
        for group in _objects(self.resource.get("group")):
            subject, object_ = self.system(_text(group.get("source"))), self.system(_text(group.get("target")))
            source = self.source or _text(self.resource.get("name")) or subject.name
            if source not in announced:
                announced.add(source)
                yield self.make_source(source, *(_text(self.resource.get(key)) for key in ("version", "title")))
            for element in _objects(group.get("element")):
                code = _text(element.get("code"))
                for target in _listed(element.get("target")) or [{}]:
                    self.problems.rows += 1
                    target_code = _text(_get(target, "code"))
                    kind = _TYPES.get(_text(_get(target, "equivalence") or _get(target, "relationship")), "related")
                    if not isinstance(target, dict) or not is_valid_id(code):
                        self.problems.bad_row("mapping without a code, or with a blank in it", self.path, 0)
                    elif not kind or not target_code:
                        skipped["code without a target"] += 1
                    else:
                        yield Mapping(subject.concept_id(code), object_.name, target_code, kind, source)


def _properties(concept: Object) -> Iterator[tuple[str, Any]]:
    for entry in _objects(concept.get("property")):
        for key, value in entry.items():
            if key.startswith("value"):
                yield _text(entry.get("code")), value


def _tag(data: Object, default: str) -> str:
    stated = _text(data.get("language"))
    return (language_tag(stated) or "") if stated else default


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _get(data: object, key: str) -> Any:
    return data.get(key) if isinstance(data, dict) else None


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _objects(value: object) -> list[Object]:
    return [entry for entry in _listed(value) if isinstance(entry, dict)]


_HELP = "FHIR R4 CodeSystem, ValueSet or ConceptMap (JSON), or a Bundle of them."
FORMAT = Format("fhir", read_fhir, "--fhir", _HELP, 42)
