"""The statements behind :class:`~medlink.kb.store.KnowledgeBase`, built once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Select,
    Table,
    bindparam,
    case,
    func,
    literal,
    or_,
    select,
    union_all,
)

from medlink.kb import schema
from medlink.kb.schema import concept, definition, mapping, name, name_search, relation, semantic_type, source

HIERARCHY = ("isa", "CHD")
"""Relation types that lead from a concept to a parent; ``CHD`` is a UMLS child without a closer word."""

SEARCHED = 5_000
"""A search ranks at most this many matches of its words, besides those that begin with the text."""


def given(parameter: str) -> Select[Any]:
    """The values of a list handed over as one JSON parameter, so that a statement never depends on its length."""
    values = func.json_each(bindparam(parameter)).table_valued("value")
    return select(values.c.value)


def in_language(column: ColumnElement[str], parameter: str = "language") -> ColumnElement[bool]:
    """Whether a tag is the language or one of its regions; ``""`` asks for any."""
    asked = bindparam(parameter, type_=name.c.language.type)
    return or_(asked == "", column == asked, func.substr(column, 1, func.length(asked) + 1) == asked.concat("-"))


def in_order(table: Table) -> tuple[ColumnElement[Any], ...]:
    """The order in which a build stores rows; rows that were added later stand behind and are sorted in by it."""
    if table is name:
        return name.c.concept_id, name.c.language, name.c.preferred.desc(), name.c.text, name.c.source_id
    return tuple(column for column in table.columns if column.name != "id")


_NAME = (name.c.concept_id, name.c.text, name.c.language, name.c.type, source.c.name, name.c.preferred)
_named = name.join(source, source.c.id == name.c.source_id)

META = select(schema.meta.c.key, schema.meta.c.value)
SOURCES = select(source.c.name, source.c.version, source.c.title, source.c.languages).order_by(source.c.id)
CONCEPT = (
    select(concept.c.concept_id, source.c.name)
    .join(source, source.c.id == concept.c.source_id)
    .where(concept.c.concept_id == bindparam("concept_id"))
)
NAMES = select(*_NAME).select_from(_named).where(name.c.concept_id == bindparam("concept_id")).order_by(*in_order(name))
PREFERRED = (
    select(name.c.concept_id, name.c.language, name.c.text)
    .where(name.c.concept_id.in_(given("concept_ids")), name.c.preferred == 1)
    .order_by(name.c.id)
)
LOOKUP = (
    select(*_NAME)
    .select_from(_named)
    .where(name.c.normal.in_(given("forms")), in_language(name.c.language))
    .order_by(name.c.normal != bindparam("plain"), *in_order(name))
)


def _of_concept(table: Table, *columns: Any) -> Select[Any]:
    return (
        select(*columns, source.c.name)
        .select_from(table.join(source, source.c.id == table.c.source_id))
        .where(table.c.concept_id == bindparam("concept_id"))
        .order_by(*in_order(table))
    )


DEFINITIONS = _of_concept(definition, definition.c.concept_id, definition.c.text, definition.c.language)
SEMANTIC_TYPES = _of_concept(
    semantic_type, semantic_type.c.concept_id, semantic_type.c.semantic_type, semantic_type.c.code
)
MAPPINGS = _of_concept(mapping, mapping.c.concept_id, mapping.c.system, mapping.c.code, mapping.c.type)
MAPPED = (
    select(mapping.c.concept_id)
    .where(mapping.c.code == bindparam("code"), mapping.c.system == bindparam("system"))
    .distinct()
    .order_by(mapping.c.concept_id)
)
RELATIONS = (
    select(relation.c.head, relation.c.type, relation.c.tail, source.c.name)
    .join(source, source.c.id == relation.c.source_id)
    .where(or_(relation.c.head == bindparam("concept_id"), relation.c.tail == bindparam("concept_id")))
    .order_by(*in_order(relation))
)
PARENTS = (
    select(relation.c.tail)
    .where(relation.c.head == bindparam("concept_id"), relation.c.type.in_(HIERARCHY))
    .distinct()
    .order_by(relation.c.tail)
)
CHILDREN = (
    select(relation.c.head)
    .where(relation.c.tail == bindparam("concept_id"), relation.c.type.in_(HIERARCHY))
    .distinct()
    .order_by(relation.c.head)
)


def _ancestors() -> Select[Any]:
    # UNION, not UNION ALL, drops pairs already met. The depth ends at the number of concepts, which no path
    # without a repetition exceeds; the caller's limit keeps a cycle from being walked that often.
    above = select(literal(0).label("depth"), bindparam("concept_id", type_=concept.c.concept_id.type).label("id")).cte(
        "above", recursive=True
    )
    step = (
        select(above.c.depth + 1, relation.c.tail)
        .join(relation, relation.c.head == above.c.id)
        .where(relation.c.type.in_(HIERARCHY), above.c.depth < bindparam("limit"))
    )
    above = above.union(step)
    depth = func.min(above.c.depth).label("depth")
    return (
        select(above.c.id, depth)
        .where(above.c.id != bindparam("concept_id"))
        .group_by(above.c.id)
        .order_by(depth, above.c.id)
    )


ANCESTORS = _ancestors()


def _search() -> Select[Any]:
    """Names that are, begin with, or contain the words of a text, best first."""
    words = (
        select(name_search.c.rowid.label("id"))
        .join(name, name.c.id == name_search.c.rowid)
        .where(name_search.c.name_search.op("MATCH")(bindparam("query")), in_language(name.c.language))
        .limit(SEARCHED)
        .subquery()
    )
    begin = (
        select(name.c.id)
        .where(name.c.normal >= bindparam("plain"), name.c.normal < bindparam("end"), in_language(name.c.language))
        .order_by(name.c.normal, name.c.id)
        .limit(SEARCHED)
        .subquery()
    )
    found = union_all(select(words.c.id), select(begin.c.id)).subquery()
    plain: BindParameter[str] = bindparam("plain")
    return (
        select(*_NAME)
        .select_from(_named)
        .where(name.c.id.in_(select(found.c.id)))
        .order_by(
            case((name.c.normal == plain, 0), (func.substr(name.c.normal, 1, func.length(plain)) == plain, 1), else_=2),
            func.length(name.c.normal),
            name.c.preferred.desc(),
            *in_order(name),
        )
        .limit(bindparam("limit"))
    )


SEARCH = _search()


def _sources(column: ColumnElement[int], sources: Iterable[str] | None) -> list[ColumnElement[bool]]:
    if sources is None:
        return []
    return [column.in_(select(source.c.id).where(source.c.name.in_(list(sources))))]


def _languages(column: ColumnElement[str], languages: Iterable[str] | None) -> list[ColumnElement[bool]]:
    if languages is None:
        return []
    tags = list(languages)
    return [or_(column.in_(tags), *(column.startswith(f"{tag}-", autoescape=True) for tag in tags if tag))]


def _types(column: ColumnElement[str], semantic_types: Iterable[str] | None) -> list[ColumnElement[bool]]:
    if semantic_types is None:
        return []
    asked = list(semantic_types)
    kinds = select(semantic_type.c.concept_id).where(
        or_(semantic_type.c.semantic_type.in_(asked), semantic_type.c.code.in_(asked))
    )
    return [column.in_(kinds)]


def _after(table: Table, number: int) -> list[ColumnElement[bool]]:
    return [table.c.id > number] if number else []


def _stored(table: Table, extended: bool) -> tuple[ColumnElement[Any], ...]:
    """Reading a built file in order is one pass by row number, an extended one has to be sorted."""
    return in_order(table) if extended else (table.c.id,)


def all_names(
    languages: Iterable[str] | None,
    sources: Iterable[str] | None,
    semantic_types: Iterable[str] | None,
    extended: bool,
    after: int,
) -> Select[Any]:
    """Names by (concept_id, language, not preferred, text)."""
    return (
        select(*_NAME)
        .select_from(_named)
        .where(
            *_languages(name.c.language, languages),
            *_sources(name.c.source_id, sources),
            *_types(name.c.concept_id, semantic_types),
            *_after(name, after),
        )
        .order_by(*_stored(name, extended))
    )


def all_concepts(sources: Iterable[str] | None, semantic_types: Iterable[str] | None) -> Select[Any]:
    """Concepts by id."""
    return (
        select(concept.c.concept_id, source.c.name)
        .join(source, source.c.id == concept.c.source_id)
        .where(*_sources(concept.c.source_id, sources), *_types(concept.c.concept_id, semantic_types))
        .order_by(concept.c.concept_id)
    )


def all_relations(
    types: Iterable[str] | None,
    sources: Iterable[str] | None,
    semantic_types: Iterable[str] | None,
    extended: bool,
) -> Select[Any]:
    """Relations by (head, type, tail)."""
    return (
        select(relation.c.head, relation.c.type, relation.c.tail, source.c.name)
        .join(source, source.c.id == relation.c.source_id)
        .where(
            *([] if types is None else [relation.c.type.in_(list(types))]),
            *_sources(relation.c.source_id, sources),
            *_types(relation.c.head, semantic_types),
        )
        .order_by(*_stored(relation, extended))
    )


def all_definitions(languages: Iterable[str] | None, sources: Iterable[str] | None, extended: bool) -> Select[Any]:
    """Definitions by concept."""
    return (
        select(definition.c.concept_id, definition.c.text, definition.c.language, source.c.name)
        .join(source, source.c.id == definition.c.source_id)
        .where(*_languages(definition.c.language, languages), *_sources(definition.c.source_id, sources))
        .order_by(*_stored(definition, extended))
    )


def all_semantic_types(sources: Iterable[str] | None, extended: bool, after: int) -> Select[Any]:
    """Semantic types by concept."""
    return (
        select(semantic_type.c.concept_id, semantic_type.c.semantic_type, semantic_type.c.code, source.c.name)
        .join(source, source.c.id == semantic_type.c.source_id)
        .where(*_sources(semantic_type.c.source_id, sources), *_after(semantic_type, after))
        .order_by(*_stored(semantic_type, extended))
    )


def all_mappings(systems: Iterable[str] | None, extended: bool) -> Select[Any]:
    """Mappings by concept."""
    return (
        select(mapping.c.concept_id, mapping.c.system, mapping.c.code, mapping.c.type, source.c.name)
        .join(source, source.c.id == mapping.c.source_id)
        .where(*([] if systems is None else [mapping.c.system.in_(list(systems))]))
        .order_by(*_stored(mapping, extended))
    )
