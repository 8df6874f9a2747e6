"""From streams of records to rows that wait, in a second file, until all inputs are in.

A record is a row; the records of a :class:`~medlink.kb.readers.common.Batch` become rows by column. Names get their
exact form here, in bulk, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, repeat
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Select, Table, insert
from sqlalchemy.schema import CreateTable

from medlink.files.problems import Problems
from medlink.kb import schema
from medlink.kb.readers.common import MAX_RANK, Batch, RankedName
from medlink.language.exact import normalise_all
from medlink.language.tags import wanted
from medlink.records import Concept, Definition, Mapping, Name, Record, Relation, Retired, SemanticType, Source

BATCH = 20_000
WITH_ITSELF = "relation of a concept with itself"
# Sort key of a name: flagged names first, then by input, by rank, and by the order in which they were read.
UNFLAGGED, INPUT, RANK = 62, 54, 36
_LINE = 40  # bits of a line number, above which that of the file stands

Row = tuple[Any, ...]
TABLES = {
    Definition: schema.definition,
    SemanticType: schema.semantic_type,
    Relation: schema.relation,
    Mapping: schema.mapping,
}


def driver_rows(connection: Connection, statement: Select[Any] | CompoundSelect[Any]) -> Iterator[Row]:
    """Rows of a statement without parameters as the driver gives them: plain tuples, which are quick to make."""
    compiled = statement.compile(connection.engine, compile_kwargs={"literal_binds": True})
    driver: Any = connection.connection.driver_connection
    return iter(driver.execute(str(compiled)))


class Rows:
    """Rows on their way into one table."""

    def __init__(self, connection: Connection, table: Table, skip: tuple[str, ...] = ()) -> None:
        self.connection = connection
        columns = [column.name for column in table.columns if column.name not in skip]
        # Compiled once: rows then go to the driver as tuples, which is several times as fast as dictionaries.
        self.sql = str(insert(table).values(dict.fromkeys(columns)).compile(connection.engine))
        self.rows: list[Row] = []
        self.written = 0

    def add(self, row: Row) -> None:
        """Take in a row; so many that they are a batch are written."""
        self.rows.append(row)
        if len(self.rows) >= BATCH:
            self.flush()

    def write(self, rows: list[Row]) -> None:
        """Write many rows behind those that wait."""
        self.flush()
        if rows:
            self.written += len(rows)
            self.connection.exec_driver_sql(self.sql, rows)

    def flush(self) -> None:
        """Write the rows that wait."""
        if self.rows:
            rows, self.rows = self.rows, []
            self.write(rows)


class Order:
    """Whether rows came in the order of their first columns, as large releases have them: then nothing sorts them.

    Args:
        columns: how many columns count; no two rows have the same.
    """

    def __init__(self, columns: int) -> None:
        self._key = itemgetter(*range(columns))
        self._last: Row | None = None
        self.kept = True

    def sort(self, rows: list[Row]) -> None:
        """Sort rows that come next among themselves, and see whether they go on behind those before."""
        if rows and self.kept:
            rows.sort(key=self._key)
            self.kept = self._last is None or self._last < self._key(rows[0])
            self._last = self._key(rows[-1])


class Intake:
    """Takes in records of several inputs.

    The second file of the connection is attached as ``staging``. ``languages`` is the filter of names and definitions;
    ``None`` keeps all.

    Attributes:
        sources: sources by name, in the order in which they were met.
        announced: sources by the number of the input that announces them.
        first: by the number of the input and the reason, the first that was left out, with its file and line where the
            reader says them.
        waiting: by table, how many rows of each input wait.
    """

    def __init__(self, connection: Connection, languages: frozenset[str] | None = None) -> None:
        self.connection = connection
        self.languages = languages
        self.sources: dict[str, Source] = {}
        self.announced: dict[int, list[str]] = {}
        self.first: dict[tuple[int, str], str] = {}
        self.waiting: dict[str, Counter[int]] = {table.name: Counter() for table in TABLES.values()}
        self._files: dict[str, int] = {}
        self._problems = Problems()
        self._source_ids: dict[str, int] = {}
        self._input = 0
        self._concepts_read = self._names_read = 0
        for table in schema.staging.sorted_tables:
            connection.execute(CreateTable(table))
        self._concepts = Rows(connection, schema.staged_concept)
        self._names = Rows(connection, schema.staged_name)
        self._name_order = Order(3)
        self._others = {kind: Rows(connection, schema.staged[table.name]) for kind, table in TABLES.items()}
        self._retired = Rows(connection, schema.staged_retired)
        self._cells = {
            kind: attrgetter(*(column.name for column in table.columns if column.name not in ("id", "source_id")))
            for kind, table in TABLES.items()
        }
        self._single: list[Row] = []
        # many rows are of one line
        self._at: tuple[object, int] | None = None
        self._at_place = 0

    def take(self, records: Iterable[Record | Batch], number: int, problems: Problems) -> None:
        """Take in the records of the input in a place, from 0; earlier inputs win where two disagree."""
        self._input, self._problems = number, problems
        before = {kind: rows.written for kind, rows in self._others.items()}
        for record in records:
            if isinstance(record, Batch):
                self._batch(record)
            elif isinstance(record, Name):
                rank = record.rank if isinstance(record, RankedName) else 0
                cells = record.concept_id, record.text, record.language, record.type, record.source
                self._single.append((*cells, record.preferred, rank))
                if len(self._single) >= BATCH:
                    self._flush_names()
            elif isinstance(record, Concept):
                self._concepts_read += 1
                sequence = number << INPUT | self._concepts_read
                self._concepts.add((sequence, record.concept_id, self._source_id(record.source)))
            elif isinstance(record, Source):
                self.sources.setdefault(record.name, record)
                self._source_id(record.name)
                self.announced.setdefault(number, []).append(record.name)
            elif isinstance(record, Retired):
                row = (number, record.concept_id, record.type, record.replaced_by, self._source_id(record.source))
                self._retired.add(row)
            else:
                self._other(record)
        self._flush_names()
        for rows in (self._concepts, self._names, self._retired, *self._others.values()):
            rows.flush()
        for kind, rows in self._others.items():
            if rows.written > before[kind]:
                self.waiting[TABLES[kind].name][number] += rows.written - before[kind]

    def shown(self, place: int, what: str) -> str:
        """What was left out, behind the file and the line that a number stands for."""
        return f"{list(self._files)[place >> _LINE]}:{place & (1 << _LINE) - 1}: {what}" if place else what

    def _batch(self, batch: Batch) -> None:
        if not len(batch):
            return
        self._flush_names()
        if batch.kind is Concept:
            self._concept(*batch.columns)
        elif batch.kind is RankedName:
            self._name(*batch.columns)
        elif batch.kind is Definition:
            for record, line in zip(batch.records(), batch.lines, strict=True):
                self._problems.at = batch.path, line
                self._other(record)  # type: ignore[arg-type]  # the kind says what they are
        else:
            self._other_batch(batch)

    def _source_id(self, name: str) -> int:
        if name not in self._source_ids:
            self._source_ids[name] = len(self._source_ids) + 1
            self.sources.setdefault(name, Source(name))
        return self._source_ids[name]

    def _numbers(self, sources: Sequence[str]) -> list[int]:
        known = {name: self._source_id(name) for name in dict.fromkeys(sources)}
        return list(map(known.__getitem__, sources))

    def _concept(self, ids: Sequence[str], sources: Sequence[str]) -> None:
        first = (self._input << INPUT | self._concepts_read) + 1
        self._concepts_read += len(ids)
        numbers = range(first, first + len(ids))
        self._concepts.write(list(zip(numbers, ids, self._numbers(sources), strict=True)))

    def _flush_names(self) -> None:
        if self._single:
            columns = list(zip(*self._single, strict=True))
            self._single.clear()
            self._name(*columns)

    def _name(self, *columns: Sequence[Any]) -> None:
        """Let names wait, given by the fields of :class:`RankedName`."""
        import numpy as np

        columns = columns[0], list(map(str.strip, columns[1])), *columns[2:]
        # most names begin with a letter
        lettered = [text[:1].isalnum() or any(map(str.isalnum, text)) for text in columns[1]]
        columns = self._chosen(columns, lettered, "name without a letter or digit")
        passes = {tag: wanted(tag, self.languages) for tag in set(columns[2])}
        columns = self._chosen(columns, [passes[tag] for tag in columns[2]], "name in another language")
        ids, texts, languages, types, sources, preferred, ranks = columns
        read = np.arange(self._names_read + 1, self._names_read + 1 + len(ids))
        self._names_read += len(ids)
        flags, rank = ~np.array(preferred, bool), np.minimum(np.array(ranks, np.int64), MAX_RANK)
        keys = flags.astype(np.int64) << UNFLAGGED | self._input << INPUT | rank << RANK | read
        forms = normalise_all(texts)
        rows = list(zip(ids, languages, keys.tolist(), texts, forms, types, self._numbers(sources), strict=True))
        self._name_order.sort(rows)
        self._names.write(rows)

    def _chosen(self, columns: tuple[Sequence[Any], ...], chosen: list[bool], reason: str) -> tuple[Sequence[Any], ...]:
        left_out = chosen.count(False)
        if not left_out:
            return columns
        self._problems.skipped[reason] += left_out
        return tuple(list(compress(column, chosen)) for column in columns)

    def _other_batch(self, batch: Batch) -> None:
        file = self._file(batch.path)
        columns: tuple[Sequence[Any], ...] = ([file | line for line in batch.lines], *batch.columns)
        if batch.kind is Relation:
            places, heads, _, tails, _ = columns
            apart = list(map(str.__ne__, heads, tails))
            if not all(apart):
                at = apart.index(False)
                self.first.setdefault((self._input, WITH_ITSELF), self.shown(places[at], heads[at]))
                columns = self._chosen(columns, apart, WITH_ITSELF)
        *cells, sources = columns
        rows = list(zip(repeat(self._input), *cells, self._numbers(sources), strict=False))
        self._others[batch.kind].write(rows)

    def _other(self, record: Definition | SemanticType | Relation | Mapping) -> None:
        if isinstance(record, Definition):
            if not wanted(record.language, self.languages):
                self._problems.skipped["definition in another language"] += 1
                return
            record = Definition(record.concept_id, record.text.strip(), record.language, record.source)
        elif isinstance(record, Relation) and record.head == record.tail:
            self._problems.skipped[WITH_ITSELF] += 1
            self.first.setdefault((self._input, WITH_ITSELF), self.shown(self._place(), record.head))
            return
        kind = type(record)
        self._others[kind].add((self._input, self._place(), *self._cells[kind](record), self._source_id(record.source)))

    def _place(self) -> int:
        """The number of the file and the line that are read, 0 where the reader does not say them."""
        if self._problems.at is not self._at:
            self._at = self._problems.at
            self._at_place = 0 if self._at is None else self._file(self._at[0]) | self._at[1]
        return self._at_place

    def _file(self, path: object) -> int:
        return self._files.setdefault(str(path), len(self._files)) << _LINE
