"""Tables of a knowledge base file.

``concept_id`` is the source's own id, as text, and the key everywhere. Rows of ``name`` are stored in the
order (concept_id, language, not preferred, text), so that reading them in that order is one pass over the
file; rows that were added since the file was built stand behind them. Indexes are created after loading.
"""

from __future__ import annotations

from sqlalchemy import DDL, Column, Index, Integer, MetaData, Table, Text

SCHEMA_VERSION = 1
"""Raised with every change of the tables; a file of another version is refused."""

APPLICATION = "medlink knowledge base"

metadata = MetaData()

meta = Table("meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

source = Table(
    "source",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("version", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("languages", Text, nullable=False),
)

concept = Table(
    "concept",
    metadata,
    Column("concept_id", Text, primary_key=True),
    Column("source_id", Integer, nullable=False),
    sqlite_with_rowid=False,
)

name = Table(
    "name",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("concept_id", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("normal", Text, nullable=False),
    Column("language", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("source_id", Integer, nullable=False),
    Column("preferred", Integer, nullable=False),
)

definition = Table(
    "definition",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("concept_id", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("language", Text, nullable=False),
    Column("source_id", Integer, nullable=False),
)

semantic_type = Table(
    "semantic_type",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("concept_id", Text, nullable=False),
    Column("semantic_type", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("source_id", Integer, nullable=False),
)

relation = Table(
    "relation",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("head", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("tail", Text, nullable=False),
    Column("source_id", Integer, nullable=False),
)

mapping = Table(
    "mapping",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("concept_id", Text, nullable=False),
    Column("system", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("source_id", Integer, nullable=False),
)

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

# The search index holds the normalised form, so that what is typed meets names under the same rules as lookup.
# It keeps no copy of the names (external content); prefixes of two and three letters are indexed for typing-ahead.
create_search = DDL(  # type: ignore[no-untyped-call]  # SQLAlchemy leaves DDL untyped
    "CREATE VIRTUAL TABLE name_search USING fts5("
    "normal, content='name', content_rowid='id', tokenize='unicode61 remove_diacritics 2', prefix='2 3')"
)
fill_search = DDL("INSERT INTO name_search(name_search) VALUES('rebuild')")  # type: ignore[no-untyped-call]  # SQLAlchemy leaves DDL untyped
name_search = Table(
    "name_search",
    MetaData(),
    Column("rowid", Integer, primary_key=True),
    Column("normal", Text),
    Column("rank", Integer),
    Column("name_search", Text),
)

staging = MetaData(schema="staging")
"""Tables of the second file, in which rows wait as read until they are sorted into the first one."""

staged_concept = Table(
    "concept",
    staging,
    Column("seq", Integer, primary_key=True),
    Column("concept_id", Text),
    Column("source_id", Integer),
)

staged_name = Table(
    "name",
    staging,
    Column("concept_id", Text),
    Column("language", Text),
    Column("key", Integer),
    Column("text", Text),
    Column("type", Text),
    Column("source_id", Integer),
)


def _staged(table: Table) -> Table:
    columns = [Column(column.name, column.type) for column in table.columns if column.name != "id"]
    return Table(table.name, staging, Column("input", Integer), *columns)


staged = {table.name: _staged(table) for table in (definition, semantic_type, relation, mapping)}
