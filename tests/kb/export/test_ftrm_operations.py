"""FTRM as a terminology server reads it: the operations of FHIR in SQL alone, compared with the knowledge base.

Statements follow the specification (sections 5 and 8) and what Hades 2.0.272 reads: it searches and shows
designations without a use, or whose use is ``display`` or ``synonym`` of FHIR's designation-usage.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.kb.export.ftrm import write_ftrm
from tests.kb.readers import test_claml
from tests.kb.writers import write_lines

HP = "http://human-phenotype-ontology.org"
ICD = "http://fhir.de/CodeSystem/bfarm/icd-10-gm"
UMLS = "http://www.nlm.nih.gov/research/umls"
# columns of the published schema, version 1: ! may not be NULL, * belongs to the primary key
SCHEMA = {
    "tx_meta": "key* value",
    "tx_resource": "resource_type!* url!* version!* concept_count imported_at!",
    "codesystem_meta": "url!* version!* case_sensitive hierarchy_meaning content supplements status experimental name "
    "title description publisher jurisdiction standards_status property_defs filter_defs metadata",
    "concept": "cs_url! cs_version! code! display definition inactive abstract not_selectable status",
    "concept_parent": "cs_url!* cs_version!* code!* parent_code!*",
    "concept_property": "cs_url! cs_version! code! prop_code! value_type! value_str value_int value_bool value_dec "
    "value_coding_system value_coding_code value_coding_display value_quantity",
    "concept_designation": "cs_url! cs_version! code! language use_system use_code use_display value! extension",
    "concept_ancestor": "cs_url!* cs_version!* ancestor_code!* descendent_code!* depth!",
    "valueset": "url!* version!* name title status experimental publisher jurisdiction description member_count "
    "member_systems member_id_lo member_id_hi",
    "valueset_resource": "url!* version!* metadata compose",
    "valueset_member": "id* vs_url! vs_version! ord! system system_version code! display designations",
    "conceptmap": "url!* version!* name title status experimental source_uri source_version target_uri target_version "
    "unmapped_mode unmapped_code unmapped_url metadata",
    "conceptmap_element": "cm_url! cm_version! group_idx! source_system source_version target_system target_version "
    "source_code! source_display target_code target_display equivalence! comment depends_on product",
    "naming_system": "url!* name status kind metadata",
    "naming_system_id": "ns_url!* identifier_type!* value!* preferred",
    "concept_fts": "display definition",
    "designation_fts": "value language use_code",
    "valueset_member_fts": "code display",
}
REFERENCES = {
    "concept": ("codesystem_meta", ["cs_url", "cs_version"], ["url", "version"]),
    "concept_property": ("concept", ["cs_url", "cs_version", "code"], ["cs_url", "cs_version", "code"]),
    "concept_designation": ("concept", ["cs_url", "cs_version", "code"], ["cs_url", "cs_version", "code"]),
    "conceptmap_element": ("conceptmap", ["cm_url", "cm_version"], ["url", "version"]),
    "naming_system_id": ("naming_system", ["ns_url"], ["url"]),
}
UNIQUE = {"concept_pk", "cp_uniq", "cd_uniq", "cme_uniq", "valueset_member_pk"}
WORDS = ("finding", "cyst", "renal cyst", "liver cyst", "fever", "high fever", "cough", "dry cough", "seizure", "fit")
GERMAN = (
    "Befund",
    "Zyste",
    "Nierenzyste",
    "Leberzyste",
    "Fieber",
    "hohes Fieber",
    "Husten",
    "Reizhusten",
    "Krampf",
    "",
)
PARENTS = ((), (1,), (2,), (2, 1), (1,), (5,), (1,), (7,), (1,), (9, 5))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KnowledgeBase, sqlite3.Connection]]:
    """Ten terms with German names and mappings beside a classification; its export is opened read-only."""
    folder = tmp_path_factory.mktemp("ftrm")
    obo = ["data-version: 2026-01-01", ""]
    for number, (word, parents) in enumerate(zip(WORDS, PARENTS, strict=True), 1):
        obo += ["[Term]", f"id: HP:{number}", f"name: {word}", f'def: "What {word} is." []']
        obo += [f'synonym: "same{number}" EXACT []', f'synonym: "less{number}" NARROW []']
        obo += ["namespace: " + ("symptom" if number > 4 else "disease")]
        obo += [f"is_a: HP:{parent}" for parent in parents] + [f"xref: UMLS:C{number}", "xref: ICD-10-GM:E11", ""]
    labels = ["subject_id\tpredicate_id\ttranslation_value\ttranslation_language"]
    labels += [f"HP:{number}\trdfs:label\t{word}\tde" for number, word in enumerate(GERMAN, 1) if word]
    inputs = [
        Input("obo", write_lines(folder / "hp.obo", obo)),
        Input("babelon", write_lines(folder / "de.tsv", labels)),
        Input("claml", test_claml.write(folder / "icd.xml")),
    ]
    build_kb(folder / "kb", inputs)
    with KnowledgeBase(folder / "kb") as kb:
        write_ftrm(kb, folder / "out.ftrm")
        (folder / "out.ftrm").chmod(0o444)
        file = sqlite3.connect(f"file:{folder / 'out.ftrm'}?mode=ro", uri=True)
        yield kb, file
        file.close()


Opened = tuple[KnowledgeBase, sqlite3.Connection]


def column(file: sqlite3.Connection, statement: str, *given: Any) -> list[Any]:
    return [row[0] for row in file.execute(statement, given)]


def versions(file: sqlite3.Connection) -> dict[str, str]:
    return dict(file.execute("SELECT url, version FROM tx_resource WHERE resource_type = 'CodeSystem'"))


def test_tables_are_those_of_the_published_schema(opened: Opened) -> None:
    file = opened[1]
    for table, columns in SCHEMA.items():
        rows = file.execute(f"PRAGMA table_info({table})").fetchall()
        assert " ".join(row[1] + "!" * row[3] + "*" * (row[5] > 0) for row in rows) == columns, table
        keys = file.execute(f"PRAGMA foreign_key_list({table})").fetchall()
        found = (keys[0][2], [row[3] for row in keys], [row[4] for row in keys]) if keys else None
        assert found == REFERENCES.get(table), table
    indexes = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql LIKE 'CREATE UNIQUE%'"
    assert set(column(file, indexes)) == UNIQUE
    assert file.execute("PRAGMA foreign_key_check").fetchall() == []
    assert column(file, "PRAGMA integrity_check") == ["ok"]
    assert column(file, "PRAGMA application_id") == [int.from_bytes(b"FTRM", "big")]
    assert column(file, "PRAGMA user_version") == [1]
    counts = "SELECT concept_count FROM tx_resource WHERE resource_type = 'CodeSystem'"
    assert sum(column(file, counts)) == len(opened[0]) == column(file, "SELECT count(*) FROM concept")[0]
    # the planner of a reader has statistics
    assert {"concept", "concept_designation"} <= set(column(file, "SELECT tbl FROM sqlite_stat1"))


def test_lookup(opened: Opened) -> None:
    """Display, definition, parents, children, properties and designations of ten codes."""
    kb, file = opened
    concept = "SELECT display, definition FROM concept WHERE cs_url = ? AND cs_version = ? AND code = ?"
    above = (
        "SELECT p.parent_code, c.display FROM concept_parent p JOIN concept c USING (cs_url, cs_version) "
        "WHERE cs_url = ? AND cs_version = ? AND p.code = ? AND c.code = p.parent_code"
    )
    below = (
        "SELECT p.code, c.display FROM concept_parent p JOIN concept c USING (cs_url, cs_version) "
        "WHERE cs_url = ? AND cs_version = ? AND p.parent_code = ? AND c.code = p.code"
    )
    values = (
        "SELECT value_str FROM concept_property WHERE cs_url = ? AND cs_version = ? AND code = ? "
        "AND prop_code = 'semanticType'"
    )
    names = "SELECT language, value FROM concept_designation WHERE cs_url = ? AND cs_version = ? AND code = ?"
    for number in range(1, 11):
        code = f"HP:{number}"
        key = HP, versions(file)[HP], code
        view = kb.get(code)
        assert view is not None
        named = kb.preferred_names((*kb.parents(code), *kb.children(code)), "en")
        assert file.execute(concept, key).fetchall() == [(WORDS[number - 1], view.definitions[0].text)]
        assert sorted(file.execute(above, key)) == [(parent, named[parent]) for parent in kb.parents(code)]
        assert sorted(file.execute(below, key)) == [(child, named[child]) for child in kb.children(code)]
        assert column(file, values, *key) == [kind.semantic_type for kind in view.semantic_types]
        assert sorted(file.execute(names, key)) == sorted((name.language, name.text) for name in view.names)


def test_lookup_in_a_display_language(opened: Opened) -> None:
    """The first name in a language that a reader finds is its preferred name, also in the main language."""
    kb, file = opened
    shown = (
        "SELECT value FROM concept_designation WHERE cs_url = ? AND cs_version = ? AND code = ? "
        "AND (language = ? OR language LIKE ? || '-%') AND (use_code IS NULL OR "
        "use_system = 'http://terminology.hl7.org/CodeSystem/designation-usage' AND use_code IN ('display', 'synonym'))"
    )
    for number, german in enumerate(GERMAN, 1):
        key = HP, versions(file)[HP], f"HP:{number}"
        assert column(file, shown, *key, "en", "en")[0] == kb.preferred_name(key[2], "en") == WORDS[number - 1]
        assert column(file, shown, *key, "de", "de") == ([german] if german else [])


def test_translate(opened: Opened) -> None:
    """Ten codes forwards, and one backwards, with the displays that the container knows."""
    kb, file = opened
    forwards = (
        "SELECT target_system, target_code, target_display, equivalence FROM conceptmap_element "
        "WHERE cm_url = ? AND cm_version = ? AND source_system = ? AND source_code = ? ORDER BY target_system"
    )
    address = file.execute("SELECT url, version FROM tx_resource WHERE resource_type = 'ConceptMap'").fetchone()
    for number in range(1, 11):
        mapped = {(mapping.system, mapping.code) for mapping in kb.mappings(f"HP:{number}")}
        assert mapped == {("ICD-10-GM", "E11"), ("UMLS", f"C{number}")}
        assert file.execute(forwards, (*address, HP, f"HP:{number}")).fetchall() == [
            (ICD, "E11", kb.preferred_name("ICD10GM:E11", "de"), "relatedto"),
            (UMLS, f"C{number}", None, "relatedto"),
        ]
    backwards = (
        "SELECT source_code, source_display FROM conceptmap_element "
        "WHERE cm_url = ? AND cm_version = ? AND target_system = ? AND target_code = ?"
    )
    assert {code for code, _ in file.execute(backwards, (*address, ICD, "E11"))} == {
        *kb.concepts_mapped_to("ICD-10-GM", "E11")
    } - {"ICD10GM:E11"}
    assert file.execute(backwards, (*address, UMLS, "C3")).fetchall() == [("HP:3", "renal cyst")]


def test_expand(opened: Opened) -> None:
    """``is-a`` and ``descendent-of`` for ten codes, a filter by property, and all of a code system."""
    kb, file = opened
    below = (
        "SELECT c.code FROM concept c WHERE c.cs_url = ? AND c.cs_version = ? AND EXISTS (SELECT 1 FROM "
        "concept_ancestor a WHERE (a.cs_url, a.cs_version) = (c.cs_url, c.cs_version) AND a.ancestor_code = ? "
        "AND a.descendent_code = c.code)"
    )
    depths = "SELECT ancestor_code, depth FROM concept_ancestor WHERE cs_url = ? AND cs_version = ? AND "
    for number in range(1, 11):
        key = HP, versions(file)[HP], f"HP:{number}"
        assert set(column(file, below, *key)) == kb.descendants([key[2]])
        assert dict(file.execute(depths + "descendent_code = ?", key)) == dict(kb.ancestors(key[2]))
    kind = "SELECT code FROM concept_property WHERE cs_url = ? AND cs_version = ? AND prop_code = ? AND value_str = ?"
    assert len(column(file, kind, HP, versions(file)[HP], "semanticType", "disease")) == 4
    for system, version in versions(file).items():
        metadata = json.loads(column(file, "SELECT metadata FROM codesystem_meta WHERE url = ?", system)[0])
        found = file.execute(
            "SELECT r.compose, v.member_count FROM valueset v JOIN valueset_resource r USING (url, version) "
            "JOIN tx_resource t USING (url, version) WHERE url = ? AND version = ? AND t.resource_type = 'ValueSet'",
            (metadata["valueSet"], version),
        ).fetchall()
        assert found == [(json.dumps({"include": [{"system": system}]}), None)]  # a rule, not a list of members


def test_expand_with_a_text(opened: Opened) -> None:
    """Words, of which a beginning will do, are found in displays and names that a reader takes for names."""
    kb, file = opened
    search = (
        "SELECT c.code FROM concept c JOIN (SELECT rowid, min(rank) AS rank FROM ("
        "SELECT rowid, rank FROM concept_fts WHERE concept_fts MATCH ?1 UNION ALL "
        "SELECT named.rowid, f.rank FROM designation_fts f JOIN concept_designation d ON d.rowid = f.rowid "
        "JOIN concept named USING (cs_url, cs_version, code) WHERE designation_fts MATCH ?1 AND (d.use_code IS NULL "
        "OR d.use_system = 'http://terminology.hl7.org/CodeSystem/designation-usage' "
        "AND d.use_code IN ('display', 'synonym'))) GROUP BY rowid) hits ON hits.rowid = c.rowid "
        "WHERE c.cs_url = ?2 AND c.cs_version = ?3 ORDER BY hits.rank"
    )
    texts = {concept.concept_id: [] for concept in kb.iter_concepts()}
    for record in (*kb.iter_names(), *kb.iter_definitions()):
        if getattr(record, "preferred", True) or record.type in ("synonym", "exact"):
            texts[record.concept_id].append(re.findall(r"\w+", record.text.lower()))
    for text in (*WORDS, *filter(None, GERMAN), "Nierenz", "hoh fieb", "Diabetes", "Jugendlicher", "same3", "less3"):
        parts = text.lower().split()
        query = " ".join(f'"{part}"*' for part in parts)
        found = {
            code if system == HP else f"ICD10GM:{code}"
            for system, version in versions(file).items()
            for code in column(file, search, query, system, version)
        }
        assert found == {
            concept_id
            for concept_id, listed in texts.items()
            if any(all(any(word.startswith(part) for word in words) for part in parts) for words in listed)
        }, text
