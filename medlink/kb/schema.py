"""Tables of a knowledge base file; indexes are created after loading.

Rows of ``name`` are stored by (concept_id, language, not preferred, text), so that reading in that order is one pass;
rows of extensions follow.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import DDL, Column, Index, Integer, MetaData, Table, Text, UniqueConstraint

SCHEMA_VERSION = 2
"""Increased with every change of the tables; only versions in ``READABLE`` are opened."""
WITH_RETIRED = 2
"""The first version with retired concepts."""
READABLE = frozenset({1, SCHEMA_VERSION})
"""Version 1 lacks only the table of retired concepts."""

APPLICATION = "medlink knowledge base"

metadata = MetaData()


def _table(name: str, key: Column[int] | Column[str], *columns: str) -> Table:
    types = {"source_id": Integer, "preferred": Integer}
    others = [Column(column, types.get(column, Text), nullable=False) for column in columns]
    # without rowid, since concept ids are long and would be stored twice
    return Table(name, metadata, key, *others, sqlite_with_rowid=key.name != "concept_id")


def _number() -> Column[int]:
    return Column("id", Integer, primary_key=True)


meta = _table("meta", Column("key", Text, primary_key=True), "value")
source = _table("source", _number(), "name", "version", "title", "languages")
source.append_constraint(UniqueConstraint(source.c.name))
concept = _table("concept", Column("concept_id", Text, primary_key=True), "source_id")
name = _table("name", _number(), "concept_id", "text", "normal", "language", "type", "source_id", "preferred")
definition = _table("definition", _number(), "concept_id", "text", "language", "source_id")
semantic_type = _table("semantic_type", _number(), "concept_id", "semantic_type", "code", "source_id")
relation = _table("relation", _number(), "head", "type", "tail", "source_id")
mapping = _table("mapping", _number(), "concept_id", "system", "code", "type", "source_id")

retired = _table("retired", _number(), "concept_id", "type", "replaced_by", "source_id")
retired_concept = Index("retired_concept", retired.c.concept_id)

numbered_tables = (name, definition, semantic_type, relation, mapping)
"""Tables with row numbers, which increase with every extension."""

indexes = (
    Index("name_concept", name.c.concept_id),
    Index("name_normal", name.c.normal),
    Index("definition_concept", definition.c.concept_id),
    Index("semantic_type_concept", semantic_type.c.concept_id),
    Index("semantic_type_type", semantic_type.c.semantic_type),
    Index("relation_head", relation.c.head),
    Index("relation_tail", relation.c.tail),
    Index("mapping_concept", mapping.c.concept_id),
    Index("mapping_code", mapping.c.code),
)

# The search index holds the normalised form, so that search and lookup follow the same rules. It stores no copy of the
# names (external content), and indexes prefixes of two and three letters for search as you type.
create_search = DDL(  # type: ignore[no-untyped-call]  # SQLAlchemy leaves DDL untyped
    "CREATE VIRTUAL TABLE name_search USING fts5("
    "normal, content='name', content_rowid='id', tokenize='unicode61 remove_diacritics 2', prefix='2 3')"
)
fill_search = DDL("INSERT INTO name_search(name_search) VALUES('rebuild')")  # type: ignore[no-untyped-call]  # SQLAlchemy leaves DDL untyped
_row = Column("rowid", Integer, primary_key=True)
name_search = Table("name_search", MetaData(), _row, Column("normal", Text), Column("name_search", Text))

staging = MetaData(schema="staging")
"""Tables of the second file, which holds the rows as read until they are sorted into the first."""


def _staged(name: str, *columns: Column[Any]) -> Table:
    return Table(name, staging, *(Column(column.name, column.type) for column in columns))


_seq, _key = Column("seq", Integer, primary_key=True), Column("key", Integer)
staged_concept = Table("concept", staging, _seq, *(Column(c.name, c.type) for c in concept.c))
_n = name.c
staged_name = _staged("name", _n.concept_id, _n.language, _key, _n.text, _n.normal, _n.type, _n.source_id)
# input number and location: see RecordStager.with_location
_read_from = Column("input", Integer), Column("place", Integer)
staged = {table.name: _staged(table.name, *_read_from, *list(table.c)[1:]) for table in numbered_tables[1:]}
# distinct rows of each input, sorted: how often the input has it, whether its concepts are loaded (known), and whether
# it is to be stored (fresh): known, in no earlier input, and not stored before
_flags = Column("count", Integer), Column("known", Integer), Column("fresh", Integer)
sorted_rows = {
    table.name: _staged(f"sorted_{table.name}", *list(table.c)[1:], Column("input", Integer), *_flags)
    for table in numbered_tables[1:]
}
staged_retired = _staged("retired", _read_from[0], *list(retired.c)[1:])
