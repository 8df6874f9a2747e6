"""Staging: rows of all inputs in a second file, in reading order.

The records of a :class:`~medlink.kb.readers.common.Batch` are staged by column. Names are normalised here, in bulk.
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
SELF_RELATION = "relation of a concept with itself"
# bit offsets in the sort key of a name: unflagged names last, then input, rank and reading order
UNFLAGGED, INPUT, RANK = 62, 54, 36
_LINE_BITS = 40  # of a location: the line number, below the file number

Row = tuple[Any, ...]
TABLES = {
    Definition: schema.definition,
    SemanticType: schema.semantic_type,
    Relation: schema.relation,
    Mapping: schema.mapping,
}


def iter_driver_rows(connection: Connection, statement: Select[Any] | CompoundSelect[Any]) -> Iterator[Row]:
    """Yield the rows of a statement without parameters as plain tuples, which is faster than SQLAlchemy's rows."""
    compiled = statement.compile(connection.engine, compile_kwargs={"literal_binds": True})
    driver: Any = connection.connection.driver_connection
    return iter(driver.execute(str(compiled)))


class RowWriter:
    """Writes rows to one table in batches."""

    def __init__(self, connection: Connection, table: Table, skip: tuple[str, ...] = ()) -> None:
        self.connection = connection
        columns = [column.name for column in table.columns if column.name not in skip]
        # compiled once, so that rows go to the driver as tuples, several times as fast as dictionaries
        self.sql = str(insert(table).values(dict.fromkeys(columns)).compile(connection.engine))
        self.rows: list[Row] = []
        self.written = 0

    def add(self, row: Row) -> None:
        """Buffer a row, and write a full buffer."""
        self.rows.append(row)
        if len(self.rows) >= BATCH:
            self.flush()

    def write(self, rows: list[Row]) -> None:
        """Write the buffer, then ``rows``."""
        self.flush()
        if rows:
            self.written += len(rows)
            self.connection.exec_driver_sql(self.sql, rows)

    def flush(self) -> None:
        if self.rows:
            rows, self.rows = self.rows, []
            self.write(rows)


class SortedCheck:
    """Checks whether rows arrive sorted, as in large releases, so that no later sort is needed.

    Args:
        columns: number of leading columns that are the unique sort key.
    """

    def __init__(self, columns: int) -> None:
        self._key = itemgetter(*range(columns))
        self._last: Row | None = None
        self.is_sorted = True

    def sort(self, rows: list[Row]) -> None:
        """Sort the next rows, and check that they follow the previous ones."""
        if rows and self.is_sorted:
            rows.sort(key=self._key)
            self.is_sorted = self._last is None or self._last < self._key(rows[0])
            self._last = self._key(rows[-1])


class RecordStager:
    """Stages the records of several inputs.

    Args:
        connection: a connection with the second file attached as ``staging``.
        languages: filter of names and definitions; ``None`` keeps all.

    Attributes:
        sources: sources by name, in order of appearance.
        announced: names of the sources that each input announces.
        first_skipped: by input and reason, the first skipped record, with file and line if the reader sets them.
        staged_rows: by table, the number of staged rows of each input.
    """

    def __init__(self, connection: Connection, languages: frozenset[str] | None = None) -> None:
        self.connection = connection
        self.languages = languages
        self.sources: dict[str, Source] = {}
        self.announced: dict[int, list[str]] = {}
        self.first_skipped: dict[tuple[int, str], str] = {}
        self.staged_rows: dict[str, Counter[int]] = {table.name: Counter() for table in TABLES.values()}
        self._files: dict[str, int] = {}
        self._problems = Problems()
        self._source_ids: dict[str, int] = {}
        self._input = 0
        self._concepts_read = self._names_read = 0
        for table in schema.staging.sorted_tables:
            connection.execute(CreateTable(table))
        self._concepts = RowWriter(connection, schema.staged_concept)
        self._names = RowWriter(connection, schema.staged_name)
        self._name_order = SortedCheck(3)
        self._facts = {kind: RowWriter(connection, schema.staged[table.name]) for kind, table in TABLES.items()}
        self._retired = RowWriter(connection, schema.staged_retired)
        self._values = {
            kind: attrgetter(*(column.name for column in table.columns if column.name not in ("id", "source_id")))
            for kind, table in TABLES.items()
        }
        self._name_buffer: list[Row] = []
        # cached, since many rows come from one line
        self._position: tuple[object, int] | None = None
        self._location_of_position = 0

    def add(self, records: Iterable[Record | Batch], number: int, problems: Problems) -> None:
        """Stage the records of one input; ``number``, from 0, is its precedence."""
        self._input, self._problems = number, problems
        before = {kind: rows.written for kind, rows in self._facts.items()}
        for record in records:
            if isinstance(record, Batch):
                self._add_batch(record)
            elif isinstance(record, Name):
                rank = record.rank if isinstance(record, RankedName) else 0
                values = record.concept_id, record.text, record.language, record.type, record.source
                self._name_buffer.append((*values, record.preferred, rank))
                if len(self._name_buffer) >= BATCH:
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
                self._add_fact(record)
        self._flush_names()
        for rows in (self._concepts, self._names, self._retired, *self._facts.values()):
            rows.flush()
        for kind, rows in self._facts.items():
            if rows.written > before[kind]:
                self.staged_rows[TABLES[kind].name][number] += rows.written - before[kind]

    def with_location(self, location: int, text: str) -> str:
        """Prefix a text with the file and the line of a location; 0 is none."""
        if not location:
            return text
        return f"{list(self._files)[location >> _LINE_BITS]}:{location & (1 << _LINE_BITS) - 1}: {text}"

    def _add_batch(self, batch: Batch) -> None:
        if not len(batch):
            return
        self._flush_names()
        if batch.kind is Concept:
            self._add_concepts(*batch.columns)
        elif batch.kind is RankedName:
            self._add_names(*batch.columns)
        elif batch.kind is Definition:
            for record, line in zip(batch.records(), batch.lines, strict=True):
                self._problems.position = batch.path, line
                self._add_fact(record)  # type: ignore[arg-type]  # the kind says what they are
        else:
            self._add_fact_batch(batch)

    def _source_id(self, name: str) -> int:
        if name not in self._source_ids:
            self._source_ids[name] = len(self._source_ids) + 1
            self.sources.setdefault(name, Source(name))
        return self._source_ids[name]

    def _numbers_of(self, sources: Sequence[str]) -> list[int]:
        known = {name: self._source_id(name) for name in dict.fromkeys(sources)}
        return list(map(known.__getitem__, sources))

    def _add_concepts(self, ids: Sequence[str], sources: Sequence[str]) -> None:
        first = (self._input << INPUT | self._concepts_read) + 1
        self._concepts_read += len(ids)
        numbers = range(first, first + len(ids))
        self._concepts.write(list(zip(numbers, ids, self._numbers_of(sources), strict=True)))

    def _flush_names(self) -> None:
        if self._name_buffer:
            columns = list(zip(*self._name_buffer, strict=True))
            self._name_buffer.clear()
            self._add_names(*columns)

    def _add_names(self, *columns: Sequence[Any]) -> None:
        """Stage names, given as the columns of :class:`RankedName`."""
        import numpy as np

        columns = columns[0], list(map(str.strip, columns[1])), *columns[2:]
        # cheap test first, since most names begin with a letter
        lettered = [text[:1].isalnum() or any(map(str.isalnum, text)) for text in columns[1]]
        columns = self._filter(columns, lettered, "name without a letter or digit")
        passes = {tag: wanted(tag, self.languages) for tag in set(columns[2])}
        columns = self._filter(columns, [passes[tag] for tag in columns[2]], "name in another language")
        ids, texts, languages, types, sources, preferred, ranks = columns
        read = np.arange(self._names_read + 1, self._names_read + 1 + len(ids))
        self._names_read += len(ids)
        flags, rank = ~np.array(preferred, bool), np.minimum(np.array(ranks, np.int64), MAX_RANK)
        keys = flags.astype(np.int64) << UNFLAGGED | self._input << INPUT | rank << RANK | read
        forms = normalise_all(texts)
        rows = list(zip(ids, languages, keys.tolist(), texts, forms, types, self._numbers_of(sources), strict=True))
        self._name_order.sort(rows)
        self._names.write(rows)

    def _filter(self, columns: tuple[Sequence[Any], ...], chosen: list[bool], reason: str) -> tuple[Sequence[Any], ...]:
        skipped = chosen.count(False)
        if not skipped:
            return columns
        self._problems.skipped[reason] += skipped
        return tuple(list(compress(column, chosen)) for column in columns)

    def _add_fact_batch(self, batch: Batch) -> None:
        file = self._file(batch.path)
        columns: tuple[Sequence[Any], ...] = ([file | line for line in batch.lines], *batch.columns)
        if batch.kind is Relation:
            locations, heads, _, tails, _ = columns
            distinct = list(map(str.__ne__, heads, tails))
            if not all(distinct):
                first = distinct.index(False)
                self._record_self_relation(locations[first], heads[first])
                columns = self._filter(columns, distinct, SELF_RELATION)
        *cells, sources = columns
        rows = list(zip(repeat(self._input), *cells, self._numbers_of(sources), strict=False))
        self._facts[batch.kind].write(rows)

    def _add_fact(self, record: Definition | SemanticType | Relation | Mapping) -> None:
        if isinstance(record, Definition):
            if not wanted(record.language, self.languages):
                self._problems.skipped["definition in another language"] += 1
                return
            record = Definition(record.concept_id, record.text.strip(), record.language, record.source)
        elif isinstance(record, Relation) and record.head == record.tail:
            self._problems.skipped[SELF_RELATION] += 1
            self._record_self_relation(self._location(), record.head)
            return
        kind = type(record)
        self._facts[kind].add(
            (self._input, self._location(), *self._values[kind](record), self._source_id(record.source))
        )

    def _record_self_relation(self, location: int, concept_id: str) -> None:
        self.first_skipped.setdefault((self._input, SELF_RELATION), self.with_location(location, concept_id))

    def _location(self) -> int:
        """Return the current file and line as one number, 0 if the reader does not set them."""
        position = self._problems.position
        if position is not self._position:
            self._position = position
            self._location_of_position = 0 if position is None else self._file(position[0]) | position[1]
        return self._location_of_position

    def _file(self, path: object) -> int:
        return self._files.setdefault(str(path), len(self._files)) << _LINE_BITS
