"""Staging: the rows of all inputs in a second file, in reading order; names are normalised here, in bulk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import compress, count, repeat
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Select, Table, insert
from sqlalchemy.dialects import sqlite
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
Columns = Sequence[Sequence[Any]]
_TABLES: dict[type[Record], Table] = {
    Concept: schema.staged_concept,
    RankedName: schema.staged_name,
    Retired: schema.staged_retired,
    Definition: schema.staged["definition"],
    SemanticType: schema.staged["semantic_type"],
    Relation: schema.staged["relation"],
    Mapping: schema.staged["mapping"],
}
_VALUES = {kind: attrgetter(*kind.__dataclass_fields__) for kind in (*_TABLES, Name)}
_NAME_KEY = itemgetter(0, 1, 2)


def iter_driver_rows(connection: Connection, statement: Select[Any] | CompoundSelect[Any]) -> Iterator[Row]:
    """Yield the rows of a statement without parameters as plain tuples, which is faster than SQLAlchemy's rows."""
    compiled = statement.compile(connection.engine, compile_kwargs={"literal_binds": True})
    driver: Any = connection.connection.driver_connection
    return iter(driver.execute(str(compiled)))


@cache
def _insert_statement(table: Table, skip: str) -> str:
    columns = [column.name for column in table.columns if column.name != skip]
    return str(insert(table).values(dict.fromkeys(columns)).compile(dialect=sqlite.dialect()))


def insert_rows(connection: Connection, table: Table, rows: list[Row], skip: str = "") -> None:
    """Insert rows of all columns but ``skip``, as tuples, which is several times as fast as dictionaries."""
    if rows:
        connection.exec_driver_sql(_insert_statement(table, skip), rows)


class RecordStager:
    """Stages the records of several inputs; ``languages`` filters names and definitions.

    The second file is attached to the connection as ``staging``.

    Attributes:
        sources: sources by name, in order of appearance.
        announced: names of the sources that each input announces.
        first_skipped: by input and reason, the first skipped record, with file and line if the reader sets them.
        staged_rows: by table, the number of staged rows of each input.
    """

    def __init__(self, connection: Connection, languages: frozenset[str] | None = None) -> None:
        self.connection, self.languages = connection, languages
        self.sources: dict[str, Source] = {}
        self.announced: dict[int, list[str]] = {}
        self.first_skipped: dict[tuple[int, str], str] = {}
        self.staged_rows: dict[str, Counter[int]] = {name: Counter() for name in schema.staged}
        self._files: dict[str, int] = {}
        self._problems = Problems()
        self._source_ids: dict[str, int] = {}
        self._input = self._concepts_read = self._names_read = 0
        # names that arrive sorted, as in large releases, need no later sort
        self._names_sorted, self._last_name = True, Row()
        self._buffers: dict[type[Record], list[Row]] = {kind: [] for kind in _TABLES}
        for table in schema.staging.sorted_tables:
            connection.execute(CreateTable(table))

    def add(self, records: Iterable[Record | Batch], number: int, problems: Problems) -> None:
        """Stage the records of one input; ``number``, from 0, is its precedence."""
        self._input, self._problems = number, problems
        for record in records:
            if isinstance(record, Batch):
                self._flush(record.kind)
                file = self._file(record.path)
                if len(record.lines):
                    self._stage(record.kind, record.columns, [file | line for line in record.lines])
                continue
            if isinstance(record, Source):
                self.sources.setdefault(record.name, record)
                self._source_id(record.name)
                self.announced.setdefault(number, []).append(record.name)
                continue
            self._source_id(record.source)  # numbers in order of appearance
            kind: type[Record] = type(record)
            row: Row = (*_VALUES[kind](record), problems.position)
            if kind is Name:
                kind, row = RankedName, (*row[:-1], 0, None)
            self._buffers[kind].append(row)
            if len(self._buffers[kind]) >= BATCH:
                self._flush(kind)
        for kind in _TABLES:
            self._flush(kind)

    def with_location(self, location: int, text: str) -> str:
        """Prefix a text with the file and the line of a location; 0 is none."""
        if not location:
            return text
        return f"{list(self._files)[location >> _LINE_BITS]}:{location & (1 << _LINE_BITS) - 1}: {text}"

    def _source_id(self, name: str) -> int:
        if name not in self._source_ids:
            self._source_ids[name] = len(self._source_ids) + 1
            self.sources.setdefault(name, Source(name))
        return self._source_ids[name]

    def _numbers_of(self, sources: Sequence[str]) -> list[int]:
        known = {name: self._source_id(name) for name in dict.fromkeys(sources)}
        return list(map(known.__getitem__, sources))

    def _file(self, path: object) -> int:
        return self._files.setdefault(str(path), len(self._files)) << _LINE_BITS

    def _flush(self, kind: type[Record]) -> None:
        if rows := self._buffers[kind]:
            *columns, positions = zip(*rows, strict=True)
            rows.clear()
            self._stage(kind, columns, [self._file(at[0]) | at[1] if at else 0 for at in positions])

    def _stage(self, kind: type[Record], columns: Columns, locations: list[int]) -> None:
        if kind is RankedName:
            rows = self._name_rows(columns)
        elif kind is Concept:
            first = (self._input << INPUT | self._concepts_read) + 1
            self._concepts_read += len(locations)
            rows = list(zip(count(first), columns[0], self._numbers_of(columns[1]), strict=False))
        elif kind is Retired:
            rows = list(zip(repeat(self._input), *columns[:-1], self._numbers_of(columns[-1]), strict=False))
        else:
            rows = self._fact_rows(kind, columns, locations)
            if rows:
                self.staged_rows[_TABLES[kind].name][self._input] += len(rows)
        insert_rows(self.connection, _TABLES[kind], rows)

    def _name_rows(self, columns: Columns) -> list[Row]:
        import numpy as np

        columns = columns[0], list(map(str.strip, columns[1])), *columns[2:]
        # cheap test first, since most names begin with a letter
        lettered = [text[:1].isalnum() or any(map(str.isalnum, text)) for text in columns[1]]
        columns = self._filter(columns, lettered, "name without a letter or digit")
        columns = self._filter(columns, self._wanted(columns[2]), "name in another language")
        ids, texts, languages, types, sources, preferred, ranks = columns
        read = np.arange(self._names_read + 1, self._names_read + 1 + len(ids))
        self._names_read += len(ids)
        flags, rank = ~np.array(preferred, bool), np.minimum(np.array(ranks, np.int64), MAX_RANK)
        keys = flags.astype(np.int64) << UNFLAGGED | self._input << INPUT | rank << RANK | read
        forms = normalise_all(texts)
        rows = list(zip(ids, languages, keys.tolist(), texts, forms, types, self._numbers_of(sources), strict=True))
        if rows and self._names_sorted:
            rows.sort(key=_NAME_KEY)
            self._names_sorted = self._last_name < _NAME_KEY(rows[0])
            self._last_name = _NAME_KEY(rows[-1])
        return rows

    def _fact_rows(self, kind: type[Record], columns: Columns, locations: list[int]) -> list[Row]:
        columns = locations, *columns
        if kind is Definition:
            columns = self._filter(columns, self._wanted(columns[3]), "definition in another language")
            columns = *columns[:2], list(map(str.strip, columns[2])), *columns[3:]
        elif kind is Relation:
            distinct = list(map(str.__ne__, columns[1], columns[3]))
            if not all(distinct):
                first = distinct.index(False)
                text = self.with_location(locations[first], columns[1][first])
                self.first_skipped.setdefault((self._input, SELF_RELATION), text)
                columns = self._filter(columns, distinct, SELF_RELATION)
        *cells, sources = columns
        return list(zip(repeat(self._input), *cells, self._numbers_of(sources), strict=False))

    def _wanted(self, languages: Sequence[str]) -> list[bool]:
        passes = {tag: wanted(tag, self.languages) for tag in set(languages)}
        return list(map(passes.__getitem__, languages))

    def _filter(self, columns: Columns, chosen: list[bool], reason: str) -> Columns:
        if all(chosen):
            return columns
        self._problems.skipped[reason] += chosen.count(False)
        return [list(compress(column, chosen)) for column in columns]
