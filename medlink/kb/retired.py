"""Retired concepts: kept as their source speaks of them, and followed to what stands for them now."""

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

LOADED, TWICE = "retirement of a concept that is loaded", "retirement given more than once"
"""Reasons for leaving a row out."""
_SURENESS = {kind: place for place, kind in enumerate(RETIREMENTS)}


def finish_retired(connection: Connection, skipped: Sequence[Counter[str]]) -> None:
    """Sort the retired concepts that wait into the final table; one that is loaded after all is not retired.

    ``skipped`` counts the rows of each input that are left out.
    """
    # a file of an older medlink has no such table yet
    connection.execute(CreateTable(retired, if_not_exists=True))
    waiting = staged_retired.c
    columns = [column for column in waiting if column.name != "input"]
    alive = waiting.concept_id.in_(select(concept.c.concept_id))
    there = exists().where(*(retired.c[column.name] == column for column in columns))

    def per_input(query: Select[Any]) -> Counter[int]:
        return Counter(dict(map(tuple, connection.execute(query.group_by("input")))))

    read = per_input(select(waiting.input, func.count()))
    kept = per_input(select(waiting.input, func.count()).where(~alive))
    first = select(func.min(waiting.input).label("input")).where(~alive, ~there).group_by(*columns).subquery()
    final = per_input(select(first.c.input, func.count()))
    for number, count in read.items():
        for reason, left in ((LOADED, count - kept[number]), (TWICE, kept[number] - final[number])):
            if left:
                skipped[number][reason] += left
    names = [column.name for column in columns]
    rows = select(*columns).where(~alive, ~there).distinct().order_by(*columns)
    connection.execute(insert(retired).from_select(names, rows))
    connection.execute(delete(retired).where(retired.c.concept_id.in_(select(concept.c.concept_id))))
    retired_concept.create(connection, checkfirst=True)


def successors(kb: KnowledgeBase, concept_id: str) -> list[Retired]:
    """The concepts of a knowledge base that stand for a retired one, the surest first.

    A source may retire what it once named as a replacement. Such chains are followed, and the type of a chain is that
    of its least sure step. The surest way to a concept counts.

    Returns:
        One record for each concept that is there; none where the knowledge base does not know of the retirement, or
        nothing that is there stands for it.
    """
    found: dict[str, Retired] = {}
    seen, waiting = {concept_id: -1}, [(concept_id, -1)]
    while waiting:
        current, before = waiting.pop()
        for one in kb.retired(current):
            sureness = max(before, _SURENESS[one.type])
            target = one.replaced_by
            if target and sureness < seen.get(target, len(RETIREMENTS)):
                seen[target] = sureness
                waiting.append((target, sureness))
                if target in kb:
                    found[target] = replace(one, concept_id=concept_id, type=RETIREMENTS[sureness])
    return sorted(found.values(), key=lambda one: (_SURENESS[one.type], one.replaced_by))
