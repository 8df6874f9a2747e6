"""Retired concepts: their storage, and the search for their current successors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, delete, exists, func, insert, select
from sqlalchemy.schema import CreateTable

from medlink.kb.schema import concept, retired, retired_concept, staged_retired
from medlink.records import RETIREMENTS, Retired

if TYPE_CHECKING:
    from medlink.kb.store import KnowledgeBase

LOADED, TWICE = "retirement of a concept that is loaded", "retirement repeated, kept once"
"""Reasons for skipping a row."""
_UNCERTAINTY = {kind: rank for rank, kind in enumerate(RETIREMENTS)}


def store_retired(connection: Connection, skipped: Sequence[Counter[str]]) -> None:
    """Sort the staged retirements into the final table, except for concepts that were loaded.

    ``skipped`` counts the skipped rows of each input.
    """
    # files of older versions lack the table
    connection.execute(CreateTable(retired, if_not_exists=True))
    staged = staged_retired.c
    columns = [column for column in staged if column.name != "input"]
    loaded = staged.concept_id.in_(select(concept.c.concept_id))
    stored = exists().where(*(retired.c[column.name] == column for column in columns))

    def per_input(query: Select[Any]) -> Counter[int]:
        return Counter(dict(map(tuple, connection.execute(query.group_by("input")))))

    read = per_input(select(staged.input, func.count()))
    not_loaded = per_input(select(staged.input, func.count()).where(~loaded))
    first = select(func.min(staged.input).label("input")).where(~loaded, ~stored).group_by(*columns).subquery()
    final = per_input(select(first.c.input, func.count()))
    for number, count in read.items():
        for reason, rows in ((LOADED, count - not_loaded[number]), (TWICE, not_loaded[number] - final[number])):
            if rows:
                skipped[number][reason] += rows
    names = [column.name for column in columns]
    new = select(*columns).where(~loaded, ~stored).distinct().order_by(*columns)
    connection.execute(insert(retired).from_select(names, new))
    connection.execute(delete(retired).where(retired.c.concept_id.in_(select(concept.c.concept_id))))
    retired_concept.create(connection, checkfirst=True)


def successors(kb: KnowledgeBase, concept_id: str) -> list[Retired]:
    """Return a record for each existing concept that replaces a retired concept, the most certain first.

    Follows chains of retired replacements. A chain has the type of its least certain step. If several chains lead to a
    concept, the most certain chain counts.
    """
    by_target: dict[str, Retired] = {}
    best, stack = {concept_id: -1}, [(concept_id, -1)]
    while stack:
        current, so_far = stack.pop()
        for record in kb.retired(current):
            uncertainty = max(so_far, _UNCERTAINTY[record.type])
            target = record.replaced_by
            if target and uncertainty < best.get(target, len(RETIREMENTS)):
                best[target] = uncertainty
                stack.append((target, uncertainty))
                if target in kb:
                    by_target[target] = replace(record, concept_id=concept_id, type=RETIREMENTS[uncertainty])
    return sorted(by_target.values(), key=lambda record: (_UNCERTAINTY[record.type], record.replaced_by))
