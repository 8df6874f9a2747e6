"""The hierarchy of a load: the part of it under some concepts, and circles of parents in it."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields
from itertools import compress, islice

from sqlalchemy import Connection, literal_column, select

from medlink.errors import ConfigError
from medlink.files.problems import counted
from medlink.kb import schema
from medlink.kb.queries import HIERARCHY
from medlink.kb.readers.common import Batch, one_by_one
from medlink.kb.staging import BATCH, driver_rows
from medlink.records import Concept, Record, Relation, Retired, Source

_SHOWN = 5  # concepts of a circle that are named
OUTSIDE = "record of a concept outside of the hierarchy that is asked for"
"""Reason for leaving out what is not part of it."""


class Subset:
    """The concepts under ``under``, these included, without those under ``not_under``, these included too.

    Without ``under`` it is all concepts but those. The hierarchy is that of all inputs together, so they are read
    before (:meth:`look`), and each once more for its records (:meth:`of`). Concepts are told apart by their 64-bit
    hashes: memory grows by 16 bytes for each relation to a parent while the hierarchy is read, and to 200 while it is
    walked (measured once, by hand, on 2026-11-23, with 1,000,000 made-up ones, which were all chosen).
    """

    def __init__(self, under: Collection[str], not_under: Collection[str]) -> None:
        self.under, self.not_under = tuple(dict.fromkeys(under)), tuple(dict.fromkeys(not_under))
        self._heads, self._tails = array("q"), array("q")
        self._missing = {*self.under, *self.not_under}
        self._kept: frozenset[int] | None = None
        self._left: frozenset[int] = frozenset()

    def look(self, records: Iterable[Record | Batch]) -> None:
        """Take in the hierarchy of an input."""
        for record in one_by_one(records):
            if isinstance(record, Concept):
                self._missing.discard(record.concept_id)
            elif isinstance(record, Relation) and record.type in HIERARCHY:
                self._heads.append(hash(record.head))
                self._tails.append(hash(record.tail))

    def choose(self) -> None:
        """Find the concepts, when all inputs were looked at.

        Raises:
            ConfigError: no input has one of the concepts that are named.
        """
        if self._missing:
            listed = ", ".join(sorted(self._missing))
            raise ConfigError(f"no input has the concept {listed}", remedy="check the ids of under and not_under")
        if self.under:
            self._kept = self._below(self.under)
        self._left = self._below(self.not_under)
        self._heads, self._tails = array("q"), array("q")

    def _below(self, roots: Collection[str]) -> frozenset[int]:
        import numpy as np
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import breadth_first_order

        if not roots:
            return frozenset()
        asked = np.array([hash(root) for root in roots], np.int64)
        heads, tails = (np.array(ends, np.int64) for ends in (self._heads, self._tails))
        nodes = np.unique(np.concatenate([asked, heads, tails]))
        # one node more stands above all that are asked for
        above = np.full(len(asked), len(nodes))
        rows = np.concatenate([np.searchsorted(nodes, tails), above])
        columns = np.concatenate([np.searchsorted(nodes, heads), np.searchsorted(nodes, asked)])
        size = len(nodes) + 1
        graph = coo_matrix((np.ones(len(rows), np.int8), (rows, columns)), shape=(size, size)).tocsr()
        reached = breadth_first_order(graph, len(nodes), directed=True, return_predecessors=False)
        return frozenset(nodes[reached[1:]].tolist())

    def __contains__(self, concept_id: str) -> bool:
        key = hash(concept_id)
        return (self._kept is None or key in self._kept) and key not in self._left

    def of(self, records: Iterable[Record | Batch], skipped: Counter[str]) -> Iterator[Record | Batch]:
        """The records of chosen concepts, and all of retired ones; others are counted. A relation needs both ends."""
        for record in records:
            # what is withdrawn stands in no hierarchy, and what stands for it may be chosen
            if isinstance(record, Source | Retired):
                yield record
                continue
            if isinstance(record, Batch):
                yield self._of_batch(record, skipped)
                continue
            ends = (record.head, record.tail) if isinstance(record, Relation) else (record.concept_id,)
            if all(end in self for end in ends):
                yield record
            else:
                skipped[OUTSIDE] += 1

    def _of_batch(self, batch: Batch, skipped: Counter[str]) -> Batch:
        """The rows of chosen concepts, which keep their lines."""
        wanted = ("head", "tail") if batch.kind is Relation else ("concept_id",)
        ends = [column for field, column in zip(fields(batch.kind), batch.columns, strict=True) if field.name in wanted]
        chosen = [all(end in self for end in row) for row in zip(*ends, strict=True)]
        if all(chosen):
            return batch
        skipped[OUTSIDE] += chosen.count(False)
        columns = tuple(list(compress(column, chosen)) for column in batch.columns)
        return Batch(batch.kind, columns, batch.path, list(compress(batch.lines, chosen)))


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
