"""The statements behind :class:`~medlink.kb.store.KnowledgeBase`, built once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import (
    BindParameter,
    Boolean,
    Column,
    ColumnElement,
    ScalarSelect,
    Select,
    Table,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    or_,
    select,
    true,
    type_coerce,
    union_all,
)

from medlink.kb import schema
from medlink.kb.schema import concept, definition, mapping, name, name_search, relation, retired, semantic_type, source

HIERARCHY = ("isa", "CHD")
"""Relation types that lead from a concept to a parent; ``CHD`` is a UMLS child without a closer word."""

COUNTED = 100
"""Relations of a concept are counted up to this many at each end."""

SEARCHED = 5_000
"""A search ranks at most this many matches of its words, besides those that begin with the text."""


def given(parameter: str) -> Select[Any]:
    """The values of a list handed over as one JSON parameter, so that a statement never depends on its length."""
    values = func.json_each(bindparam(parameter)).table_valued("value")
    return select(values.c.value)


def in_language(column: ColumnElement[str], asked: ColumnElement[str]) -> ColumnElement[bool]:
    """As :func:`medlink.language.tags.wanted`, for a filter of one tag.

    A language stands for its regions and a region for its language, and what has no language passes every filter.
    """
    region = and_(func.instr(asked, "-") == 0, func.substr(column, 1, func.length(asked) + 1) == asked.concat("-"))
    above = func.substr(asked, 1, func.length(column) + 1) == column.concat("-")
    return or_(column == "", column == asked, region, above)


def in_order(table: Table) -> tuple[ColumnElement[Any], ...]:
    """The order in which a build stores rows; rows that were added later stand behind and are sorted in by it."""
    if table is name:
        return name.c.concept_id, name.c.language, name.c.preferred.desc(), name.c.text, name.c.source_id
    return tuple(column for column in table.columns if column.name != "id")


def _columns(table: Table) -> list[ColumnElement[Any]]:
    as_record = {"source_id": source.c.name, "preferred": type_coerce(name.c.preferred, Boolean)}
    return [as_record.get(column.name, column) for column in table.c if column.name not in ("id", "normal")]


_NAME = _columns(name)
_asked = bindparam("language", type_=name.c.language.type)
_in_language = or_(_asked == "", in_language(name.c.language, _asked))  # "" asks for any
_named = name.join(source, source.c.id == name.c.source_id)

META = select(schema.meta.c.key, schema.meta.c.value)
SOURCES = select(source.c.name, source.c.version, source.c.title, source.c.languages).order_by(source.c.id)
PREFERRED = (
    select(name.c.concept_id, name.c.language, name.c.text)
    .where(name.c.concept_id.in_(given("concept_ids")), name.c.preferred == 1)
    .order_by(name.c.id)
)
_ASKED = given("concept_ids")
SOURCES_OF = (
    select(concept.c.concept_id, source.c.name)
    .join(source, source.c.id == concept.c.source_id)
    .where(concept.c.concept_id.in_(_ASKED))
)
PROFILE_NAMES = (
    select(
        name.c.concept_id,
        name.c.normal,
        name.c.text,
        name.c.language,
        source.c.name,
        type_coerce(name.c.preferred, Boolean),
    )
    .select_from(_named)
    .where(name.c.concept_id.in_(_ASKED))
    .order_by(name.c.id)
)


def _counted(end: Column[str]) -> ScalarSelect[Any]:
    few = select(relation.c.id).where(end == concept.c.concept_id).limit(COUNTED).correlate(concept).subquery()
    return select(func.count()).select_from(few).scalar_subquery()


RELATION_COUNTS = select(concept.c.concept_id, _counted(relation.c.head) + _counted(relation.c.tail)).where(
    concept.c.concept_id.in_(_ASKED)
)
_other, _its, _theirs = mapping.alias("other"), concept.alias("its"), concept.alias("theirs")
CODES_OF = (
    select(mapping.c.concept_id, mapping.c.system, mapping.c.code)
    .join(_its, _its.c.concept_id == mapping.c.concept_id)
    .where(
        mapping.c.concept_id.in_(_ASKED),
        ~exists()
        .where(_other.c.code == mapping.c.code, _other.c.system == mapping.c.system)
        .where(_other.c.concept_id != mapping.c.concept_id)
        .where(_theirs.c.concept_id == _other.c.concept_id, _theirs.c.source_id == _its.c.source_id)
        .correlate(mapping, _its),
    )
)
TYPE_WORDS = (
    select(source.c.name, semantic_type.c.semantic_type)
    .join(source, source.c.id == semantic_type.c.source_id)
    .distinct()
)
LOOKUP = (
    select(*_NAME)
    .select_from(_named)
    .where(name.c.normal.in_(given("forms")), _in_language)
    .order_by(name.c.normal != bindparam("plain"), *in_order(name))
)


MAPPED = (
    select(mapping.c.concept_id)
    .where(mapping.c.code == bindparam("code"), mapping.c.system == bindparam("system"))
    .distinct()
    .order_by(mapping.c.concept_id)
)


def _next(there: Column[str], here: Column[str]) -> Select[Any]:
    steps = (here == bindparam("concept_id"), relation.c.type.in_(HIERARCHY))
    return select(there).where(*steps).distinct().order_by(there)


PARENTS = _next(relation.c.tail, relation.c.head)
CHILDREN = _next(relation.c.head, relation.c.tail)


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


def _below(parameter: str) -> Select[Any]:
    below = select(given(parameter).subquery().c.value.label("id")).cte(parameter, recursive=True)
    step = select(relation.c.head).join(below, relation.c.tail == below.c.id).where(relation.c.type.in_(HIERARCHY))
    return select(below.union(step).c.id)


BELOW = _below("under")


def _within() -> ColumnElement[bool]:
    concept_id, anywhere = name.c.concept_id, func.json_array_length(bindparam("under")) == 0
    among = or_(func.json_type(bindparam("among")) == "null", concept_id.in_(given("among")))
    return and_(or_(anywhere, concept_id.in_(_below("under"))), concept_id.not_in(_below("not_under")), among)


def _search(within: ColumnElement[bool]) -> Select[Any]:
    words = (
        select(name_search.c.rowid.label("id"))
        .join(name, name.c.id == name_search.c.rowid)
        .where(name_search.c.name_search.op("MATCH")(bindparam("query")), _in_language, within)
        .limit(SEARCHED)
        .subquery()
    )
    begin = (
        select(name.c.id)
        .where(name.c.normal >= bindparam("plain"), name.c.normal < bindparam("end"), _in_language, within)
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


def full_text(form: str) -> str:
    """An FTS5 query for all words of a normalised text: each quoted, the last one a prefix."""
    words = ['"' + word.replace('"', '""') + '"' for word in form.split()]
    return " AND ".join(words) + "*"


SEARCH = _search(true())
SEARCH_WITHIN = _search(_within())


def every(
    table: Table,
    extended: bool,
    *,
    after: int = 0,
    languages: Collection[str] | None = None,
    sources: Iterable[str] | None = None,
    semantic_types: Iterable[str] | None = None,
    **values: Iterable[str] | None,
) -> Select[Any]:
    """All rows of a table in the order in which a build stores them, with the names of their sources.

    Args:
        table: the table.
        extended: whether rows were added, so that the order is not that of the row numbers.
        after: rows of a higher number only.
        languages, sources: rows of these only, by the rule of :func:`in_language` and by name.
        semantic_types: rows of concepts with one of these, by name or code; of relations those of the head.
        values: by column, its values.
    """
    column = table.c
    found = select(*_columns(table)).join(source, source.c.id == column.source_id)
    if languages:
        found = found.where(or_(*(in_language(column.language, literal(tag)) for tag in languages)))
    if sources is not None:
        found = found.where(column.source_id.in_(select(source.c.id).where(source.c.name.in_(list(sources)))))
    if semantic_types is not None:
        asked, kind = list(semantic_types), semantic_type.c
        typed = select(kind.concept_id).where(or_(kind.semantic_type.in_(asked), kind.code.in_(asked)))
        found = found.where((column.head if table is relation else column.concept_id).in_(typed))
    for label, allowed in values.items():
        if allowed is not None:
            found = found.where(column[label].in_(list(allowed)))
    if after:
        found = found.where(column.id > after)
    # a built file is read in one pass by row number, an extended one has to be sorted
    return found.order_by(*(in_order(table) if extended or table is concept else (column.id,)))


def _of_concept(table: Table) -> Select[Any]:
    return every(table, True).where(table.c.concept_id == bindparam("concept_id"))


CONCEPT, NAMES, DEFINITIONS, SEMANTIC_TYPES, MAPPINGS = map(
    _of_concept, (concept, name, definition, semantic_type, mapping)
)
RETIRED = _of_concept(retired)
MAPPINGS_OF = every(mapping, True).where(mapping.c.concept_id.in_(_ASKED))
RELATIONS = every(relation, True).where(
    or_(relation.c.head == bindparam("concept_id"), relation.c.tail == bindparam("concept_id"))
)
