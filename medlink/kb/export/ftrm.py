"""Writing a knowledge base as FTRM, the SQLite container of FHIR terminology that the server Hades serves."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import resources
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

from medlink.errors import ConfigError
from medlink.files.atomic import is_replaced, room_for, whole_file
from medlink.kb.export.fhir import Beside, code_system, with_concepts
from medlink.kb.store import KnowledgeBase
from medlink.kb.systems import UNKNOWN, named
from medlink.records import CODE, NOT_STANDARD

# equivalence of FHIR R4: the target is wider or narrower than the source
_EQUIVALENT = {
    "exact": "equivalent",
    **dict.fromkeys((CODE, *NOT_STANDARD), "equivalent"),
    "broad": "wider",
    "narrow": "narrower",
}
_RELATED = "relatedto"
_SCHEMA = Path(str(resources.files("medlink"))) / "resources" / "kb" / "ftrm.sql"
_BATCH = 10_000


def write_ftrm(kb: KnowledgeBase, path: str | os.PathLike[str]) -> int:
    """Write the concepts of a knowledge base and their mappings; gives how many concepts there are.

    Code systems are those of :func:`medlink.kb.export.fhir.write_fhir`, with the closure of their hierarchy. All
    mappings are one concept map, ``urn:medlink:mappings``, with a group for each pair of systems: ``exact`` and
    ``code`` are ``equivalent``, ``broad`` and ``narrow`` are ``wider`` and ``narrower``, all others ``relatedto`` with
    their type as comment. The time of import is now; all else is the same each time. Memory grows with the ids and the
    hierarchy of one source.

    Raises:
        ConfigError: the file cannot be written, or is no file that another one could replace.
    """
    if not is_replaced(path):
        raise ConfigError("a container is a file", path=path, remedy="name a file, not a device")
    with whole_file(path) as draft:
        file = sqlite3.connect(draft.name, isolation_level=None)
        try:
            with room_for(Path(path)):
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
    sources = with_concepts(kb)
    addresses: dict[str, tuple[str, str]] = {}
    for source, count in sources.items():
        head, concepts = code_system(kb, source)
        address = addresses[source.name] = head["url"], head.get("version", "")
        _register(file, "CodeSystem", address, count, when)
        _write_head(file, address, head)
        _write_concepts(file, address, concepts)
    _write_mappings(kb, file, addresses, when)
    file.execute("INSERT INTO concept_fts (concept_fts) VALUES ('rebuild')")
    file.execute("INSERT INTO designation_fts (designation_fts) VALUES ('rebuild')")
    file.execute("COMMIT")
    return sum(sources.values())


def _register(file: sqlite3.Connection, kind: str, address: tuple[str, str], count: int, when: str) -> None:
    # two sources may be of one system
    file.execute(
        "INSERT INTO tx_resource VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET concept_count = concept_count + excluded.concept_count",
        (kind, *address, count, when),
    )


def _write_head(file: sqlite3.Connection, address: tuple[str, str], head: Mapping[str, Any]) -> None:
    language = {"language": head["language"]} if "language" in head else {}
    file.execute(
        "INSERT OR IGNORE INTO codesystem_meta (url, version, case_sensitive, hierarchy_meaning, content, status, "
        "name, title, property_defs, metadata) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *address,
            int(head["caseSensitive"]),
            *(head[key] for key in ("hierarchyMeaning", "content", "status", "name", "title")),
            json.dumps(head["property"]),
            json.dumps(language),
        ),
    )


def _write_concepts(file: sqlite3.Connection, address: tuple[str, str], concepts: Iterator[dict[str, Any]]) -> None:
    parents: dict[str, list[str]] = {}
    while some := list(islice(concepts, _BATCH)):
        file.executemany(
            "INSERT INTO concept (cs_url, cs_version, code, display, definition) VALUES (?, ?, ?, ?, ?)",
            ((*address, one["code"], one.get("display"), one.get("definition")) for one in some),
        )
        file.executemany(
            "INSERT OR IGNORE INTO concept_designation "
            "(cs_url, cs_version, code, language, use_system, use_code, use_display, value) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (*address, one["code"], each.get("language"), *_use(each["use"]), each["value"])
                for one in some
                for each in one.get("designation", ())
            ),
        )
        file.executemany(
            "INSERT OR IGNORE INTO concept_property (cs_url, cs_version, code, prop_code, value_type, value_str) "
            "VALUES (?, ?, ?, ?, 'string', ?)",
            (
                (*address, one["code"], each["code"], each["valueString"])
                for one in some
                for each in one.get("property", ())
                if "valueString" in each
            ),
        )
        for one in some:
            above = [each["valueCode"] for each in one.get("property", ()) if each["code"] == "parent"]
            if above:
                parents[one["code"]] = above
    pairs = ((*address, code, above) for code, some in parents.items() for above in some)
    file.executemany("INSERT OR IGNORE INTO concept_parent VALUES (?, ?, ?, ?)", pairs)
    closure = ((*address, above, code, depth) for code in parents for above, depth in _ancestors(parents, code).items())
    file.executemany("INSERT INTO concept_ancestor VALUES (?, ?, ?, ?, ?)", closure)


def _use(use: Mapping[str, str]) -> tuple[str | None, ...]:
    return use["system"], use["code"], use.get("display")


def _ancestors(parents: Mapping[str, list[str]], code: str) -> dict[str, int]:
    """The ancestors of a code with the length of the shortest way to each; itself is none, also in a circle."""
    found: dict[str, int] = {}
    layer, depth = [code], 0
    while layer:
        depth += 1
        layer = list(dict.fromkeys(above for one in layer for above in parents.get(one, ())))
        layer = [above for above in layer if above not in found and above != code]
        found.update(dict.fromkeys(layer, depth))
    return found


def _write_mappings(
    kb: KnowledgeBase, file: sqlite3.Connection, addresses: Mapping[str, tuple[str, str]], when: str
) -> None:
    """All mappings as one concept map, where there are any."""
    waiting = _elements(kb, addresses)
    first = next(waiting, None)
    if first is None:
        return
    address = f"{UNKNOWN}mappings", ""
    file.execute(
        "INSERT INTO conceptmap (url, version, name, title, status) VALUES (?, ?, 'Mappings', 'Mappings', 'active')",
        address,
    )
    file.executemany(
        "INSERT OR IGNORE INTO conceptmap_element (cm_url, cm_version, group_idx, source_system, source_version, "
        "target_system, source_code, target_code, equivalence, comment) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((*address, *one) for one in chain([first], waiting)),
    )
    ((count,),) = file.execute("SELECT count(*) FROM conceptmap_element")
    _register(file, "ConceptMap", address, count, when)


def _elements(kb: KnowledgeBase, addresses: Mapping[str, tuple[str, str]]) -> Iterator[tuple[Any, ...]]:
    groups: dict[tuple[str, ...], int] = {}
    owners = Beside(kb.iter_concepts(), lambda one: one.concept_id)
    for concept_id, mappings in groupby(kb.iter_mappings(), lambda one: one.concept_id):
        for owner in owners.of(concept_id):
            url, version = addresses[owner.source]
            code = concept_id if url.startswith(UNKNOWN) else named(owner.source).code(concept_id)
            for one in mappings:
                target = named(one.system)
                target_code = target.code(target.concept_id(one.code))
                if (target.url, target_code) != (url, code):
                    group = groups.setdefault((url, version, target.url), len(groups))
                    comment = f"type {one.type}" if one.type not in (*_EQUIVALENT, "related") else None
                    equivalence = _EQUIVALENT.get(one.type, _RELATED)
                    yield group, url, version, target.url, code, target_code, equivalence, comment
