"""Export to FTRM, the SQLite container of FHIR terminology that the server Hades serves."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from medlink.errors import ConfigError
from medlink.files.atomic import atomic_writer, is_replaceable, wrap_disk_full
from medlink.files.resources import RESOURCES
from medlink.kb.export.fhir import PREFERRED_USE, SYNONYM_USE, ConceptCursor, build_code_system, sources_with_concepts
from medlink.kb.store import KnowledgeBase
from medlink.kb.systems import UNKNOWN, system_by_name
from medlink.records import CODE, NOT_STANDARD

# FHIR R4 equivalence: how the target relates to the source
_EQUIVALENT = {
    "exact": "equivalent",
    **dict.fromkeys((CODE, *NOT_STANDARD), "equivalent"),
    "broad": "wider",
    "narrow": "narrower",
}
_RELATED = "relatedto"
# uses that Hades searches, and shows for a display language
_USAGE = "http://terminology.hl7.org/CodeSystem/designation-usage"
_DISPLAY = {"system": _USAGE, "code": "display", "display": "Display"}
_SYNONYM = {"system": _USAGE, "code": "synonym", "display": "Synonym"}
_USES = {
    PREFERRED_USE["code"]: _DISPLAY,
    **dict.fromkeys((SYNONYM_USE["code"], "exact", "lay", "abbreviation"), _SYNONYM),
}
_SCHEMA = RESOURCES / "kb" / "ftrm.sql"
_BATCH = 10_000
_LAST = (
    "UPDATE conceptmap_element SET source_display = (SELECT display FROM concept "
    "WHERE (cs_url, cs_version, code) = (source_system, source_version, source_code)), "
    "target_display = (SELECT display FROM concept "
    "WHERE (cs_url, cs_version, code) = (target_system, target_version, target_code))",
    "INSERT INTO concept_fts (concept_fts) VALUES ('rebuild')",
    "INSERT INTO designation_fts (designation_fts) VALUES ('rebuild')",
    "INSERT INTO valueset_member_fts (valueset_member_fts) VALUES ('rebuild')",
    "COMMIT",
    "ANALYZE",
)


def write_ftrm(kb: KnowledgeBase, path: str | os.PathLike[str]) -> int:
    """Write the concepts of a knowledge base and their mappings, and return the number of concepts.

    Code systems are those of :func:`medlink.kb.export.fhir.write_fhir`, with the closure of their hierarchy. Each has a
    value set of all its concepts, with a URL that ends in ``?fhir_vs``. Preferred names have the use ``display`` of
    FHIR's ``designation-usage``, and names with the same meaning ``synonym``; Hades finds and shows no others. All
    mappings form one concept map, ``urn:medlink:mappings``, with a group for each pair of systems. Apart from the time
    of import the output is deterministic. Memory grows with the ids and the hierarchy of one source.

    Raises:
        ConfigError: the path cannot be written, or is not a regular file.
    """
    if not is_replaceable(path):
        raise ConfigError("a container is a file", path=path, remedy="name a file, not a device")
    with atomic_writer(path) as draft:
        file = sqlite3.connect(draft.name, isolation_level=None)
        try:
            with wrap_disk_full(Path(path)):
                return _write(kb, file)
        finally:
            file.close()


def _write(kb: KnowledgeBase, file: sqlite3.Connection) -> int:
    for setting in ("journal_mode = OFF", "synchronous = OFF", "foreign_keys = ON", "cache_size = -65536"):
        file.execute(f"PRAGMA {setting}")
    file.executescript(_SCHEMA.read_text("utf-8"))
    file.execute("BEGIN")
    when = datetime.now(UTC).isoformat(timespec="seconds")
    file.execute("INSERT INTO tx_meta VALUES (?, ?)", ("medlink content hash", kb.content_hash))
    sources = sources_with_concepts(kb)
    addresses: dict[str, tuple[str, str]] = {}
    for source, count in sources.items():
        head, concepts = build_code_system(kb, source)
        address = addresses[source.name] = head["url"], head.get("version", "")
        _register(file, "CodeSystem", address, count, when)
        _write_head(file, address, head)
        _register(file, "ValueSet", (_all_of(address), address[1]), count, when)
        _write_concepts(file, address, concepts, head.get("language"))
    _write_mappings(kb, file, addresses, when)
    for statement in _LAST:
        file.execute(statement)
    return sum(sources.values())


def _all_of(address: tuple[str, str]) -> str:
    """Return the URL of the value set of all concepts of a code system, as SNOMED CT forms it."""
    return f"{address[0]}?fhir_vs"


def _register(file: sqlite3.Connection, kind: str, address: tuple[str, str], count: int, when: str) -> None:
    # two sources may be of one system
    file.execute(
        "INSERT INTO tx_resource VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET concept_count = concept_count + excluded.concept_count",
        (kind, *address, count, when),
    )


def _insert(file: sqlite3.Connection, table: str, columns: str, rows: Iterable[tuple[Any, ...]]) -> None:
    named, marks = ", ".join(columns.split()), ", ".join("?" * len(columns.split()))
    file.executemany(f"INSERT OR IGNORE INTO {table} ({named}) VALUES ({marks})", rows)  # noqa: S608  # names of ours


def _write_head(file: sqlite3.Connection, address: tuple[str, str], head: Mapping[str, Any]) -> None:
    language = {"language": head["language"]} if "language" in head else {}
    stated = "hierarchyMeaning", "content", "status", "name", "title"
    properties, extra = json.dumps(head["property"]), json.dumps({"valueSet": _all_of(address), **language})
    columns = "url version case_sensitive hierarchy_meaning content status name title property_defs metadata"
    row = (*address, int(head["caseSensitive"]), *map(head.__getitem__, stated), properties, extra)
    _insert(file, "codesystem_meta", columns, [row])
    # a value set of all concepts
    about = {"name": f"All_{head['name']}", "title": f"All of {head['title']}", "status": head["status"]}
    key = _all_of(address), address[1]
    _insert(file, "valueset", "url version name title status", [(*key, *about.values())])
    included = json.dumps({"include": [{"system": address[0]}]})
    file.execute("INSERT OR IGNORE INTO valueset_resource VALUES (?, ?, ?, ?)", (*key, json.dumps(about), included))


def _write_concepts(
    file: sqlite3.Connection, address: tuple[str, str], concepts: Iterator[dict[str, Any]], language: str | None
) -> None:
    parents: dict[str, list[str]] = {}
    while batch := list(islice(concepts, _BATCH)):
        rows = ((*address, concept["code"], concept.get("display"), concept.get("definition")) for concept in batch)
        file.executemany(
            "INSERT INTO concept (cs_url, cs_version, code, display, definition) VALUES (?, ?, ?, ?, ?)", rows
        )
        designations = (
            (
                *(*address, concept["code"], item.get("language")),
                *map(item["use"].get, ("system", "code", "display")),
                item["value"],
            )
            for concept in batch
            for item in _designations(concept, language)
        )
        columns = "cs_url cs_version code language use_system use_code use_display value"
        _insert(file, "concept_designation", columns, designations)
        properties = (
            (*address, concept["code"], item["code"], "string", item["valueString"])
            for concept in batch
            for item in concept.get("property", ())
            if "valueString" in item
        )
        _insert(file, "concept_property", "cs_url cs_version code prop_code value_type value_str", properties)
        for concept in batch:
            above = [item["valueCode"] for item in concept.get("property", ()) if item["code"] == "parent"]
            if above:
                parents[concept["code"]] = above
    pairs = ((*address, code, parent) for code, listed in parents.items() for parent in listed)
    file.executemany("INSERT OR IGNORE INTO concept_parent VALUES (?, ?, ?, ?)", pairs)
    closure = ((*address, above, code, depth) for code in parents for above, depth in _ancestors(parents, code).items())
    file.executemany("INSERT INTO concept_ancestor VALUES (?, ?, ?, ?, ?)", closure)


def _designations(concept: Mapping[str, Any], language: str | None) -> Iterator[dict[str, Any]]:
    if language and "display" in concept:
        yield {"language": language, "use": _DISPLAY, "value": concept["display"]}
    for item in concept.get("designation", ()):
        yield {**item, "use": _USES.get(item["use"]["code"], item["use"])}


def _ancestors(parents: Mapping[str, list[str]], code: str) -> dict[str, int]:
    """Return the ancestors of a code, without itself, and the length of the shortest path to each."""
    depths: dict[str, int] = {}
    layer, depth = [code], 0
    while layer:
        depth += 1
        layer = list(dict.fromkeys(above for code in layer for above in parents.get(code, ())))
        layer = [above for above in layer if above not in depths and above != code]
        depths.update(dict.fromkeys(layer, depth))
    return depths


def _write_mappings(
    kb: KnowledgeBase, file: sqlite3.Connection, addresses: Mapping[str, tuple[str, str]], when: str
) -> None:
    elements = _elements(kb, addresses)
    first = next(elements, None)
    if first is None:
        return
    address = f"{UNKNOWN}mappings", ""
    _insert(file, "conceptmap", "url version name title status", [(*address, "Mappings", "Mappings", "active")])
    columns = (
        "cm_url cm_version group_idx source_system source_version target_system target_version source_code "
        "target_code equivalence comment"
    )
    rows = ((*address, *element) for element in chain([first], elements))
    _insert(file, "conceptmap_element", columns, rows)
    ((count,),) = file.execute("SELECT count(*) FROM conceptmap_element")
    _register(file, "ConceptMap", address, count, when)


def _elements(kb: KnowledgeBase, addresses: Mapping[str, tuple[str, str]]) -> Iterator[tuple[Any, ...]]:
    groups: dict[tuple[str, ...], int] = {}
    versions = dict(addresses.values())
    concepts = ConceptCursor(kb.iter_concepts())
    for concept_id, mappings in groupby(kb.iter_mappings(), attrgetter("concept_id")):
        for owner in concepts.seek(concept_id):
            url, version = addresses[owner.source]
            code = concept_id if url.startswith(UNKNOWN) else system_by_name(owner.source).code(concept_id)
            for mapping in mappings:
                target = system_by_name(mapping.system)
                target_code = target.code(target.concept_id(mapping.code))
                if (target.url, target_code) != (url, code):
                    group = groups.setdefault((url, version, target.url), len(groups))
                    comment = f"type {mapping.type}" if mapping.type not in (*_EQUIVALENT, "related") else None
                    ends = url, version, target.url, versions.get(target.url), code, target_code
                    yield group, *ends, _EQUIVALENT.get(mapping.type, _RELATED), comment
