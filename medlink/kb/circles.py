"""Circles of parents: concepts that are above themselves, by way of others."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice

from sqlalchemy import Connection, literal_column, select

from medlink.files.problems import counted
from medlink.kb import schema
from medlink.kb.intake import BATCH, driver_rows
from medlink.kb.queries import HIERARCHY

_SHOWN = 5  # concepts of a circle that are named


def circle_notes(connection: Connection, mark: int, shown: Callable[[int, str], str]) -> Iterator[tuple[int, str]]:
    """For each input with a circle that no earlier one has: its number, and a note on how many and the first.

    All that can be reached from concepts of one circle by its relations counts as one. Memory grows by some 40 bytes
    for each relation to a parent; of a knowledge base that is added to, only for those above the new ones.

    Args:
        connection: the loaded file, with the waiting rows of the load attached.
        mark: highest row number of the relations before the load.
        shown: makes text of the place of a waiting row and what it says.
    """
    circle = _members(connection, mark)
    if not circle:
        return
    # concepts of each circle by the input that has it first, in the order in which they were read
    found: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    where: dict[int, tuple[int, str]] = {}
    taken: dict[int, int] = {}
    waiting = schema.staged["relation"].c
    read = select(waiting.input, waiting.place, waiting.head, waiting.type, waiting.tail)
    for number, place, head, kind, tail in connection.execute(
        read.where(waiting.type.in_(HIERARCHY)).order_by(literal_column("rowid"))
    ):
        label = circle.get(hash(head))
        if label is not None and label == circle.get(hash(tail)) and taken.setdefault(label, number) == number:
            where.setdefault(number, (place, f"{head} {kind} {tail}"))
            found[number][label].append(head)
    for number, circles in found.items():
        concepts = list(dict.fromkeys(next(iter(circles.values()))))
        named = ", ".join(concepts[:_SHOWN]) + (f" and {len(concepts) - _SHOWN:,} more" * (len(concepts) > _SHOWN))
        first = "" if len(circles) == 1 else ", the first"
        said = f"{counted(len(circles), 'circle')} of parents{first}: {named}. Remedy: take out one of its parents"
        yield number, shown(where[number][0], said)


def _members(connection: Connection, mark: int) -> dict[int, int]:
    """The number of its circle by the hash of each concept that is in one."""
    import numpy as np
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    relation = schema.relation.c
    edges = select(relation.head, relation.tail).where(relation.type.in_(HIERARCHY))
    if mark:
        above = select(relation.tail.label("id")).where(relation.type.in_(HIERARCHY), relation.id > mark)
        up = above.cte("up", recursive=True)
        up = up.union(select(relation.tail).where(relation.type.in_(HIERARCHY), relation.head == up.c.id))
        edges = edges.where(relation.head.in_(select(up.c.id)))
    heads, tails = array("q"), array("q")
    rows = driver_rows(connection, edges)
    while part := list(islice(rows, BATCH)):
        for hashes, column in zip((heads, tails), zip(*part, strict=True), strict=True):
            hashes.extend(map(hash, column))
    if not heads:
        return {}
    from_, to = np.frombuffer(heads, np.int64), np.frombuffer(tails, np.int64)
    nodes = np.unique(from_)
    # what has no parent is in no circle
    at = np.minimum(np.searchsorted(nodes, to), len(nodes) - 1)
    inner = nodes[at] == to
    ends = np.searchsorted(nodes, from_[inner]).astype(np.int32), at[inner].astype(np.int32)
    graph = coo_matrix((np.ones(len(ends[0]), np.int8), ends), shape=(len(nodes), len(nodes)))
    _, labels = connected_components(graph, directed=True, connection="strong")
    several = np.bincount(labels)[labels] > 1
    return dict(zip(nodes[several].tolist(), labels[several].tolist(), strict=True))
