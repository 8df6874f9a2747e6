-- The tables of FTRM (FHIR terminology container), schema version 1, after its specification, which is CC0:
-- doc/ftrm.md and schema-v1.sql of https://github.com/wardle/hades, as of version 2.0.272. medlink fills those of code
-- systems and concept maps, and defines a value set by its rule.
PRAGMA application_id = 1179931213;  -- FTRM in ASCII
PRAGMA user_version = 1;

CREATE TABLE tx_meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE tx_resource (
  resource_type TEXT NOT NULL CHECK (resource_type IN ('CodeSystem', 'ValueSet', 'ConceptMap')),
  url TEXT NOT NULL, version TEXT NOT NULL DEFAULT '', concept_count INTEGER, imported_at TEXT NOT NULL,
  PRIMARY KEY (resource_type, url, version));

CREATE TABLE codesystem_meta (
  url TEXT NOT NULL, version TEXT NOT NULL DEFAULT '', case_sensitive INTEGER CHECK (case_sensitive IN (0, 1)),
  hierarchy_meaning TEXT, content TEXT, supplements TEXT, status TEXT,
  experimental INTEGER CHECK (experimental IN (0, 1)), name TEXT, title TEXT, description TEXT, publisher TEXT,
  jurisdiction TEXT, standards_status TEXT, property_defs TEXT, filter_defs TEXT, metadata TEXT,
  PRIMARY KEY (url, version)) WITHOUT ROWID;
CREATE TABLE concept (
  cs_url TEXT NOT NULL, cs_version TEXT NOT NULL DEFAULT '', code TEXT NOT NULL, display TEXT, definition TEXT,
  inactive INTEGER CHECK (inactive IN (0, 1)), abstract INTEGER CHECK (abstract IN (0, 1)),
  not_selectable INTEGER CHECK (not_selectable IN (0, 1)), status TEXT,
  FOREIGN KEY (cs_url, cs_version) REFERENCES codesystem_meta (url, version));
CREATE TABLE concept_parent (
  cs_url TEXT NOT NULL, cs_version TEXT NOT NULL DEFAULT '', code TEXT NOT NULL, parent_code TEXT NOT NULL,
  PRIMARY KEY (cs_url, cs_version, code, parent_code)) WITHOUT ROWID;
CREATE TABLE concept_property (
  cs_url TEXT NOT NULL, cs_version TEXT NOT NULL DEFAULT '', code TEXT NOT NULL, prop_code TEXT NOT NULL,
  value_type TEXT NOT NULL CHECK (value_type IN
    ('string', 'code', 'integer', 'boolean', 'decimal', 'dateTime', 'Coding', 'Quantity')),
  value_str TEXT, value_int INTEGER, value_bool INTEGER CHECK (value_bool IN (0, 1)), value_dec REAL,
  value_coding_system TEXT, value_coding_code TEXT, value_coding_display TEXT, value_quantity TEXT,
  FOREIGN KEY (cs_url, cs_version, code) REFERENCES concept (cs_url, cs_version, code));
CREATE TABLE concept_designation (
  cs_url TEXT NOT NULL, cs_version TEXT NOT NULL DEFAULT '', code TEXT NOT NULL, language TEXT, use_system TEXT,
  use_code TEXT, use_display TEXT, value TEXT NOT NULL, extension TEXT,
  FOREIGN KEY (cs_url, cs_version, code) REFERENCES concept (cs_url, cs_version, code));
CREATE TABLE concept_ancestor (
  cs_url TEXT NOT NULL, cs_version TEXT NOT NULL DEFAULT '', ancestor_code TEXT NOT NULL, descendent_code TEXT NOT NULL,
  depth INTEGER NOT NULL, PRIMARY KEY (cs_url, cs_version, ancestor_code, descendent_code)) WITHOUT ROWID;

CREATE TABLE valueset (
  url TEXT NOT NULL, version TEXT NOT NULL DEFAULT '', name TEXT, title TEXT, status TEXT,
  experimental INTEGER CHECK (experimental IN (0, 1)), publisher TEXT, jurisdiction TEXT, description TEXT,
  member_count INTEGER, member_systems TEXT, member_id_lo INTEGER, member_id_hi INTEGER,
  PRIMARY KEY (url, version)) WITHOUT ROWID;
CREATE TABLE valueset_resource (
  url TEXT NOT NULL, version TEXT NOT NULL DEFAULT '', metadata TEXT, compose TEXT,
  PRIMARY KEY (url, version)) WITHOUT ROWID;
CREATE TABLE valueset_member (
  id INTEGER PRIMARY KEY, vs_url TEXT NOT NULL, vs_version TEXT NOT NULL DEFAULT '', ord INTEGER NOT NULL, system TEXT,
  system_version TEXT, code TEXT NOT NULL, display TEXT, designations TEXT);
CREATE TABLE conceptmap (
  url TEXT NOT NULL, version TEXT NOT NULL DEFAULT '', name TEXT, title TEXT, status TEXT,
  experimental INTEGER CHECK (experimental IN (0, 1)), source_uri TEXT, source_version TEXT, target_uri TEXT,
  target_version TEXT,
  unmapped_mode TEXT CHECK (unmapped_mode IS NULL OR unmapped_mode IN ('provided', 'fixed', 'other-map')),
  unmapped_code TEXT, unmapped_url TEXT, metadata TEXT, PRIMARY KEY (url, version)) WITHOUT ROWID;
CREATE TABLE conceptmap_element (
  cm_url TEXT NOT NULL, cm_version TEXT NOT NULL DEFAULT '', group_idx INTEGER NOT NULL, source_system TEXT,
  source_version TEXT, target_system TEXT, target_version TEXT, source_code TEXT NOT NULL, source_display TEXT,
  target_code TEXT, target_display TEXT, equivalence TEXT NOT NULL, comment TEXT, depends_on TEXT,
  product TEXT, FOREIGN KEY (cm_url, cm_version) REFERENCES conceptmap (url, version));
CREATE TABLE naming_system (
  url TEXT NOT NULL PRIMARY KEY, name TEXT, status TEXT, kind TEXT, metadata TEXT) WITHOUT ROWID;
CREATE TABLE naming_system_id (
  ns_url TEXT NOT NULL, identifier_type TEXT NOT NULL CHECK (identifier_type IN ('oid', 'uri', 'uuid', 'other')),
  value TEXT NOT NULL, preferred INTEGER CHECK (preferred IN (0, 1)), PRIMARY KEY (ns_url, identifier_type, value),
  FOREIGN KEY (ns_url) REFERENCES naming_system (url)) WITHOUT ROWID;

CREATE INDEX csm_status ON codesystem_meta (status);
CREATE INDEX csm_content ON codesystem_meta (content);
CREATE INDEX csm_publisher ON codesystem_meta (publisher);
CREATE INDEX csm_supplements ON codesystem_meta (supplements);
CREATE UNIQUE INDEX concept_pk ON concept (cs_url, cs_version, code);
CREATE INDEX concept_inactive ON concept (cs_url, cs_version, inactive);
CREATE INDEX concept_parent_rev ON concept_parent (cs_url, cs_version, parent_code);
CREATE UNIQUE INDEX cp_uniq ON concept_property (
  cs_url, cs_version, code, prop_code, value_type, COALESCE(value_str, ''), COALESCE(value_int, 0),
  COALESCE(value_bool, -1), COALESCE(value_dec, 0.0), COALESCE(value_coding_system, ''),
  COALESCE(value_coding_code, ''));
CREATE INDEX cp_pushdown ON concept_property (cs_url, cs_version, prop_code, value_str);
CREATE UNIQUE INDEX cd_uniq ON concept_designation (
  cs_url, cs_version, code, COALESCE(language, ''), COALESCE(use_system, ''), COALESCE(use_code, ''), value);
CREATE INDEX cd_language ON concept_designation (cs_url, cs_version, language);
CREATE INDEX cd_use ON concept_designation (cs_url, cs_version, use_code);
CREATE INDEX ca_descendent ON concept_ancestor (cs_url, cs_version, descendent_code);
CREATE INDEX vs_status ON valueset (status);
CREATE INDEX vs_publisher ON valueset (publisher);
CREATE UNIQUE INDEX valueset_member_pk ON valueset_member (vs_url, vs_version, ord);
CREATE UNIQUE INDEX cme_uniq ON conceptmap_element (
  cm_url, cm_version, group_idx, COALESCE(source_system, ''), source_code, COALESCE(target_system, ''),
  COALESCE(target_code, ''), equivalence);
CREATE INDEX cme_fwd ON conceptmap_element (cm_url, cm_version, source_system, source_code);
CREATE INDEX cme_rev ON conceptmap_element (cm_url, cm_version, target_system, target_code);
CREATE INDEX nsi_value ON naming_system_id (value);
CREATE VIRTUAL TABLE concept_fts USING fts5(
  display, definition, content='concept', content_rowid='rowid', tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE designation_fts USING fts5(
  value, language UNINDEXED, use_code UNINDEXED, content='concept_designation', content_rowid='rowid',
  tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE valueset_member_fts USING fts5(
  code, display, content='valueset_member', content_rowid='id', tokenize='unicode61 remove_diacritics 2');
