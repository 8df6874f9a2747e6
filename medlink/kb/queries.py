"""SQL statements of :class:`~medlink.kb.store.KnowledgeBase`, compiled once."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

import sqlalchemy as sa

from medlink.kb import schema
from medlink.kb.connection import SqliteReader
from medlink.kb.schema import concept, definition, mapping, name, name_search, relation, retired, semantic_type, source

HIERARCHY = ("isa", "CHD")
"""Relation types from a concept to a parent; ``CHD`` is a UMLS child without a more specific relation."""

MAX_COUNTED_RELATIONS = 100
"""Relations of a concept are counted up to this number, separately as head and as tail."""

_MAX_WORDS = 500  # with a part that is searched
_SHORTEST_PART = 3  # letters
MAX_SEARCH_MATCHES = 5_000
"""A search ranks at most this many names that match its words, and as many that begin with its text."""


def json_values(parameter: str) -> sa.Select[Any]:
    """Select the values of a list bound as one JSON parameter, so that its length does not change the statement."""
    values = sa.func.json_each(sa.bindparam(parameter)).table_valued("value")
    return sa.select(values.c.value)


def in_language(column: sa.ColumnElement[str], tag: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Build the SQL version of :func:`medlink.language.tags.wanted` for one tag.

    A language matches its regions, and a region matches its language; a name without a language matches every tag.
    """
    region = sa.and_(
        sa.func.instr(tag, "-") == 0, sa.func.substr(column, 1, sa.func.length(tag) + 1) == tag.concat("-")
    )
    base = sa.func.substr(tag, 1, sa.func.length(column) + 1) == column.concat("-")
    return sa.or_(column == "", column == tag, region, base)


def storage_order(table: sa.Table) -> tuple[sa.ColumnElement[Any], ...]:
    """Return the order in which a build stores rows; rows that were added later must be sorted by it."""
    if table is name:
        return name.c.concept_id, name.c.language, name.c.preferred.desc(), name.c.text, name.c.source_id
    return tuple(column for column in table.columns if column.name != "id")


def _columns(table: sa.Table) -> list[sa.ColumnElement[Any]]:
    as_record = {"source_id": source.c.name, "preferred": sa.type_coerce(name.c.preferred, sa.Boolean)}
    return [as_record.get(column.name, column) for column in table.c if column.name not in ("id", "normal")]


_NAME = _columns(name)
_tag = sa.bindparam("language", type_=name.c.language.type)
_in_language = sa.or_(_tag == "", in_language(name.c.language, _tag))  # "" matches any
_named = name.join(source, source.c.id == name.c.source_id)

META = sa.select(schema.meta.c.key, schema.meta.c.value)
SOURCES = sa.select(source.c.name, source.c.version, source.c.title, source.c.languages).order_by(source.c.id)
PREFERRED = (
    sa.select(name.c.concept_id, name.c.language, name.c.text)
    .where(name.c.concept_id.in_(json_values("concept_ids")), name.c.preferred == 1)
    .order_by(name.c.id)
)
_IDS = json_values("concept_ids")
SOURCES_OF = (
    sa.select(concept.c.concept_id, source.c.name)
    .join(source, source.c.id == concept.c.source_id)
    .where(concept.c.concept_id.in_(_IDS))
)
_is_preferred = sa.type_coerce(name.c.preferred, sa.Boolean)
PROFILE_NAMES = (
    sa.select(name.c.concept_id, name.c.normal, name.c.text, name.c.language, source.c.name, _is_preferred)
    .select_from(_named)
    .where(name.c.concept_id.in_(_IDS))
    .order_by(name.c.id)
)


def _count_limited(end: sa.Column[str]) -> sa.ScalarSelect[Any]:
    few = sa.select(relation.c.id).where(end == concept.c.concept_id).limit(MAX_COUNTED_RELATIONS).correlate(concept)
    return sa.select(sa.func.count()).select_from(few.subquery()).scalar_subquery()


_counted = _count_limited(relation.c.head) + _count_limited(relation.c.tail)
RELATION_COUNTS = sa.select(concept.c.concept_id, _counted).where(concept.c.concept_id.in_(_IDS))
_other, _its, _theirs = mapping.alias("other"), concept.alias("its"), concept.alias("theirs")
_NOT_EQUAL = ("broad", "narrow", "related")
# codes that mean the same and that no other concept of the source has; of several concepts with a code, the one that
# matches it exactly
CODES_OF = (
    sa.select(mapping.c.concept_id, mapping.c.system, mapping.c.code)
    .join(_its, _its.c.concept_id == mapping.c.concept_id)
    .where(
        mapping.c.concept_id.in_(_IDS),
        mapping.c.type.not_in(_NOT_EQUAL),
        ~sa.exists()
        .where(_other.c.code == mapping.c.code, _other.c.system == mapping.c.system)
        .where(sa.or_(mapping.c.type != "exact", _other.c.type == "exact"), _other.c.type.not_in(_NOT_EQUAL))
        .where(_other.c.concept_id != mapping.c.concept_id)
        .where(_theirs.c.concept_id == _other.c.concept_id, _theirs.c.source_id == _its.c.source_id)
        .correlate(mapping, _its),
    )
)
SEMANTIC_TYPES_BY_SOURCE = (
    sa.select(source.c.name, semantic_type.c.semantic_type)
    .join(source, source.c.id == semantic_type.c.source_id)
    .distinct()
)
CONCEPTS_BY_TYPE = sa.select(semantic_type.c.semantic_type, sa.func.count()).group_by(semantic_type.c.semantic_type)
LOOKUP = (
    sa.select(*_NAME)
    .select_from(_named)
    .where(name.c.normal.in_(json_values("forms")), _in_language)
    .order_by(name.c.normal != sa.bindparam("plain"), *storage_order(name))
)


MAPPED = (
    sa.select(mapping.c.concept_id)
    .where(mapping.c.code == sa.bindparam("code"), mapping.c.system == sa.bindparam("system"))
    .distinct()
    .order_by(mapping.c.concept_id)
)


def _neighbours(target: sa.Column[str], start: sa.Column[str]) -> sa.Select[Any]:
    steps = (start == sa.bindparam("concept_id"), relation.c.type.in_(HIERARCHY))
    return sa.select(target).where(*steps).distinct().order_by(target)


PARENTS = _neighbours(relation.c.tail, relation.c.head)
CHILDREN = _neighbours(relation.c.head, relation.c.tail)


_start = sa.bindparam("concept_id", type_=concept.c.concept_id.type).label("id")
_above = sa.select(sa.literal(0).label("depth"), _start).cte("above", recursive=True)
# UNION, not UNION ALL, drops repeated pairs; the limit on the depth ends a cycle
_above = _above.union(
    sa.select(_above.c.depth + 1, relation.c.tail)
    .join(relation, relation.c.head == _above.c.id)
    .where(relation.c.type.in_(HIERARCHY), _above.c.depth < sa.bindparam("limit"))
)
_depth = sa.func.min(_above.c.depth).label("depth")
ANCESTORS = (
    sa.select(_above.c.id, _depth)
    .where(_above.c.id != sa.bindparam("concept_id"))
    .group_by(_above.c.id)
    .order_by(_depth, _above.c.id)
)


def _descendants(parameter: str) -> sa.Select[Any]:
    found = sa.select(json_values(parameter).subquery().c.value.label("id")).cte(parameter, recursive=True)
    step = sa.select(relation.c.head).join(found, relation.c.tail == found.c.id).where(relation.c.type.in_(HIERARCHY))
    return sa.select(found.union(step).c.id)


DESCENDANTS = _descendants("under")


def _search(within: sa.ColumnElement[bool]) -> sa.Select[Any]:
    words = (
        sa.select(name_search.c.rowid.label("id"))
        .join(name, name.c.id == name_search.c.rowid)
        .where(name_search.c.name_search.op("MATCH")(sa.bindparam("query")), _in_language, within)
        .limit(MAX_SEARCH_MATCHES)
        .subquery()
    )
    plain: sa.BindParameter[str] = sa.bindparam("plain")
    prefix = (
        sa.select(name.c.id)
        .where(name.c.normal >= plain, name.c.normal < sa.bindparam("end"), _in_language, within)
        .order_by(name.c.normal, name.c.id)
        .limit(MAX_SEARCH_MATCHES)
        .subquery()
    )
    matches = sa.union_all(sa.select(words.c.id), sa.select(prefix.c.id)).subquery()
    begins = sa.func.substr(name.c.normal, 1, sa.func.length(plain)) == plain
    rank = sa.case((name.c.normal == plain, 0), (begins, 1), else_=2)
    return (
        sa.select(*_NAME)
        .select_from(_named)
        .where(name.c.id.in_(sa.select(matches.c.id)))
        .order_by(rank, sa.func.length(name.c.normal), name.c.preferred.desc(), *storage_order(name))
        .limit(sa.bindparam("limit"))
    )


def fts_query(form: str) -> str:
    """Build an FTS5 query for all words of a normalised text, the last word as a prefix."""
    words = ['"' + word.replace('"', '""') + '"' for word in form.split()]
    return " AND ".join(words) + "*"


_word: sa.ColumnClause[str] = sa.column("term", sa.Text())
WORDS_WITH = (
    sa.select(_word)
    .select_from(sa.table("name_word", _word, schema="temp"))
    .where(sa.func.instr(_word, sa.bindparam("part")) > 0)
    .order_by(sa.func.length(_word), _word)
    .limit(_MAX_WORDS)
)
"""Words of names with a part: *Myokardinfarkt* has *infarkt*."""
SEARCH = _search(sa.true())
_concept_id = name.c.concept_id
SEARCH_WITHIN = _search(
    sa.and_(
        sa.or_(sa.func.json_array_length(sa.bindparam("under")) == 0, _concept_id.in_(DESCENDANTS)),
        _concept_id.not_in(_descendants("not_under")),
        sa.or_(sa.func.json_type(sa.bindparam("among")) == "null", _concept_id.in_(json_values("among"))),
    )
)


def fts_query_inside(reader: SqliteReader, form: str) -> str:
    """Build an FTS5 query for words that contain the words of a form; ``""`` if a word is too short or in no name."""
    parts = form.split()
    if min(map(len, parts), default=0) < _SHORTEST_PART:
        return ""
    words = [[word for (word,) in reader.rows(WORDS_WITH, part=part)] for part in parts]
    return " AND ".join(f"({' OR '.join(map(json.dumps, own))})" for own in words) if all(words) else ""


def select_rows(
    table: sa.Table,
    extended: bool,
    *,
    after: int = 0,
    languages: Collection[str] | None = None,
    sources: Iterable[str] | None = None,
    semantic_types: Iterable[str] | None = None,
    **values: Iterable[str] | None,
) -> sa.Select[Any]:
    """Select the rows of a table in build order, with the names of their sources.

    Args:
        extended: rows were added after the build, so row numbers do not give the order.
        after: only rows with a higher number.
        semantic_types: only rows whose concept (head, for relations) has one of these, by name or code.
        values: only rows with one of these values, by column.
    """
    column = table.c
    query = sa.select(*_columns(table)).join(source, source.c.id == column.source_id)
    if languages:
        query = query.where(sa.or_(*(in_language(column.language, sa.literal(tag)) for tag in languages)))
    if sources is not None:
        query = query.where(column.source_id.in_(sa.select(source.c.id).where(source.c.name.in_(list(sources)))))
    if semantic_types is not None:
        wanted, kind = list(semantic_types), semantic_type.c
        typed = sa.select(kind.concept_id).where(sa.or_(kind.semantic_type.in_(wanted), kind.code.in_(wanted)))
        query = query.where((column.head if table is relation else column.concept_id).in_(typed))
    for label, allowed in values.items():
        if allowed is not None:
            query = query.where(column[label].in_(list(allowed)))
    if after:
        query = query.where(column.id > after)
    # a built file is read in one pass by row number, an extended one must be sorted
    return query.order_by(*(storage_order(table) if extended or table is concept else (column.id,)))


def _of_concept(table: sa.Table) -> sa.Select[Any]:
    return select_rows(table, True).where(table.c.concept_id == sa.bindparam("concept_id"))


CONCEPT, NAMES, DEFINITIONS, SEMANTIC_TYPES, MAPPINGS, RETIRED = map(
    _of_concept, (concept, name, definition, semantic_type, mapping, retired)
)
MAPPINGS_OF = select_rows(mapping, True).where(mapping.c.concept_id.in_(_IDS))
_id: sa.BindParameter[str] = sa.bindparam("concept_id")
RELATIONS = select_rows(relation, True).where(sa.or_(relation.c.head == _id, relation.c.tail == _id))
