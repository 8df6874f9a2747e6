"""Tables of a knowledge base file.

``concept_id`` is the source's own id, as text, and the key everywhere. Rows of ``name`` are stored in the
order (concept_id, language, not preferred, text), so that reading them in that order is one pass over the
file; rows that were added since the file was built stand behind them. Indexes are created after loading.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import DDL, Column, Index, Integer, MetaData, Table, Text, UniqueConstraint

SCHEMA_VERSION = 2
"""Raised with every change of the tables; a file of a version that is not in ``READABLE`` is refused."""
WITH_RETIRED = 2
"""The first version that keeps retired concepts."""
READABLE = frozenset({1, SCHEMA_VERSION})
"""Version 1 lacks the table of retired concepts, and nothing else."""

APPLICATION = "medlink knowledge base"

metadata = MetaData()


def _table(name: str, key: Column[int] | Column[str], *columns: str) -> Table:
    """A table whose columns hold text, or whole numbers where they say whether or which source."""
    kinds = {"source_id": Integer, "preferred": Integer}
    made = [Column(column, kinds.get(column, Text), nullable=False) for column in columns]
    # ids of concepts are long, and are kept in the order of their table instead of beside it
    return Table(name, metadata, key, *made, sqlite_with_rowid=key.name != "concept_id")


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

numbered = (name, definition, semantic_type, relation, mapping)
"""Tables whose rows have numbers: those of a higher number came later."""

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


def _staged(name: str, *columns: Column[Any]) -> Table:
    return Table(name, staging, *(Column(column.name, column.type) for column in columns))


staged_concept = Table(
    "concept", staging, Column("seq", Integer, primary_key=True), *(Column(c.name, c.type) for c in concept.c)
)
_key = Column("key", Integer)
staged_name = _staged(
    "name", name.c.concept_id, name.c.language, _key, name.c.text, name.c.normal, name.c.type, name.c.source_id
)
# with the number of the input, and the place in it: see Intake.shown
_read_from = Column("input", Integer), Column("place", Integer)
staged = {table.name: _staged(table.name, *_read_from, *list(table.c)[1:]) for table in numbered[1:]}
# one of each row and input, sorted: how often the input has it, whether its concepts are there (known), and whether it
# is to be kept (fresh): it is known, no earlier input has it, and it was not there before
_judged = Column("count", Integer), Column("known", Integer), Column("fresh", Integer)
sorted_rows = {
    table.name: _staged(f"sorted_{table.name}", *list(table.c)[1:], Column("input", Integer), *_judged)
    for table in numbered[1:]
}
staged_retired = _staged("retired", _read_from[0], *list(retired.c)[1:])
