"""From a stream of records to the tables of a knowledge base file, a new one or one that holds something already.

Rows first wait in a second file (``staging``), in the order in which they were read. When all inputs are in,
SQLite sorts each table on disk and the rows move, once, in order, into the final file. So memory hardly grows with
the input: two page caches and a sorter of 64 MB each, one batch of rows, and what a reader itself holds (280 MB
were seen with 1.5 million names, 320 MB with 4.6 million).

The result depends on what was read and on the order of the inputs, not on the order of rows in a file, except where
no name of a language calls itself preferred, or several with the same rank do: there it is the first one read.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingType
from collections.abc import Set as AbstractSet
from dataclasses import replace
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    delete,
    exists,
    func,
    insert,
    inspect,
    literal_column,
    or_,
    select,
    union,
)
from sqlalchemy.schema import CreateTable

from medlink.files.problems import Problems
from medlink.kb import schema
from medlink.kb.readers.common import MAX_RANK, RankedName
from medlink.language.tags import wanted
from medlink.language.text import normalise
from medlink.records import Concept, Definition, Mapping, Name, Record, Relation, SemanticType, Source

BATCH = 20_000
MAX_INPUTS = 255
NAME_ALONE, CONCEPT_ALONE = "name of a concept that is not loaded", "concept without a name"
"""Reasons for leaving out what lacks the other half."""
WITH_ITSELF = "relation of a concept with itself"
# Sort key of a name: flagged names first, then by input, by rank, and by the order in which they were read.
_UNFLAGGED, _INPUT, _RANK = 62, 54, 36
_LINE = 40  # bits of a line number, above which that of the file stands

Row = tuple[Any, ...]
Held = MappingType[str, AbstractSet[tuple[str, int]]]
"""Names that a concept has already, by language: text and number of the source."""
_TABLES = {
    Definition: schema.definition,
    SemanticType: schema.semantic_type,
    Relation: schema.relation,
    Mapping: schema.mapping,
}


class _Batch:
    """Rows on their way into one table."""

    def __init__(self, connection: Connection, table: Table, skip: tuple[str, ...] = ()) -> None:
        self.connection = connection
        columns = [column.name for column in table.columns if column.name not in skip]
        # Compiled once: rows then go to the driver as tuples, which is several times as fast as dictionaries.
        self.sql = str(insert(table).values(dict.fromkeys(columns)).compile(connection.engine))
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Take in a row; a full batch is written."""
        self.rows.append(row)
        if len(self.rows) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait."""
        if self.rows:
            self.connection.exec_driver_sql(self.sql, self.rows)
            self.rows.clear()


class Loader:
    """Takes in records of several inputs and writes the final tables.

    What is in the final tables stays, and what comes goes behind it.

    The main file of the connection is empty or a knowledge base, and the second file is attached as ``staging``.
    ``languages`` is the filter of names and definitions; ``None`` keeps all.

    Attributes:
        sources: sources by name, those of before first.
        meta: what the knowledge base said of itself before; empty for a new one.
        marks: highest row number of each table before the load, for those that held something; rows above are new.
        concepts: new concepts by the number of their source.
        renamed: by the number of the input, how many concepts it gives another preferred name than the one that stays,
            and the first of them.
        first: by the number of the input and the reason, the first that was left out, with its file and line where the
            reader says them.
        announced: sources by the number of the input that announces them, ``-1`` for those of before.
    """

    def __init__(self, connection: Connection, languages: frozenset[str] | None = None) -> None:
        self.connection = connection
        self.languages = languages
        self.sources: dict[str, Source] = {}
        self.meta: dict[str, str] = {}
        self.marks: dict[str, int] = {}
        self.concepts: Counter[int] = Counter()
        self.renamed: dict[int, tuple[int, str]] = {}
        self.first: dict[tuple[int, str], str] = {}
        self.announced: dict[int, list[str]] = {}
        self._files: dict[str, int] = {}
        self._problems = Problems()
        self._source_ids: dict[str, int] = {}
        self._tags: dict[int, tuple[str, ...]] = {}
        self._input = 0
        self._sequence = 0
        self._skipped: Counter[str] = Counter()
        for table in schema.staging.sorted_tables:
            connection.execute(CreateTable(table))
        if inspect(connection).has_table(schema.meta.name):
            self._read_present()
        else:
            for table in schema.metadata.sorted_tables:
                connection.execute(CreateTable(table))
            connection.execute(schema.create_search)
        self._concepts = _Batch(connection, schema.staged_concept)
        self._names = _Batch(connection, schema.staged_name)
        self._others = {kind: _Batch(connection, schema.staged[table.name]) for kind, table in _TABLES.items()}
        self._cells = {
            kind: attrgetter(*(column.name for column in table.columns if column.name not in ("id", "source_id")))
            for kind, table in _TABLES.items()
        }

    def _read_present(self) -> None:
        self.meta.update(map(tuple, self.connection.execute(select(schema.meta.c.key, schema.meta.c.value))))
        for number, name, version, title, tags in self.connection.execute(
            select(*schema.source.columns).order_by(schema.source.c.id)
        ):
            self.sources[name] = Source(name, version, title)
            self._source_ids[name] = number
            self.announced.setdefault(-1, []).append(name)
            self._tags[number] = tuple(tags.split(","))
        for table in schema.numbered:
            self.marks[table.name] = self.connection.execute(select(func.max(table.c.id))).scalar() or 0

    def take(self, records: Iterable[Record], number: int, problems: Problems) -> None:
        """Take in the records of the input in a place, from 0; earlier inputs win where two disagree."""
        self._input, self._problems = number, problems
        self._skipped = problems.skipped
        for record in records:
            if isinstance(record, Name):
                self._name(record)
            elif isinstance(record, Concept):
                self._sequence += 1
                sequence = self._input << _INPUT | self._sequence
                self._concepts.add((sequence, record.concept_id, self._source_id(record.source)))
            elif isinstance(record, Source):
                self.sources.setdefault(record.name, record)
                self._source_id(record.name)
                self.announced.setdefault(number, []).append(record.name)
            else:
                self._other(record)
        for batch in (self._concepts, self._names, *self._others.values()):
            batch.flush()

    def _source_id(self, name: str) -> int:
        if name not in self._source_ids:
            self._source_ids[name] = len(self._source_ids) + 1
            self.sources.setdefault(name, Source(name))
        return self._source_ids[name]

    def _name(self, record: Name) -> None:
        text = record.text.strip()
        if not any(map(str.isalnum, text)):
            self._skipped["name without a letter or digit"] += 1
            return
        if not wanted(record.language, self.languages):
            self._skipped["name in another language"] += 1
            return
        self._sequence += 1
        rank = min(record.rank, MAX_RANK) if isinstance(record, RankedName) else 0
        key = (not record.preferred) << _UNFLAGGED | self._input << _INPUT | rank << _RANK | self._sequence
        self._names.add((record.concept_id, record.language, key, text, record.type, self._source_id(record.source)))

    def _other(self, record: Definition | SemanticType | Relation | Mapping) -> None:
        """Let a row wait until all inputs are in."""
        if isinstance(record, Definition):
            if not wanted(record.language, self.languages):
                self._skipped["definition in another language"] += 1
                return
            record = replace(record, text=record.text.strip())
        elif isinstance(record, Relation) and record.head == record.tail:
            self._skipped[WITH_ITSELF] += 1
            self.first.setdefault((self._input, WITH_ITSELF), self.shown(self._place(), record.head))
            return
        kind = type(record)
        self._others[kind].add((self._input, self._place(), *self._cells[kind](record), self._source_id(record.source)))

    def _place(self) -> int:
        """The number of the file and the line that are read, 0 where the reader does not say them."""
        if self._problems.at is None:
            return 0
        path, line = self._problems.at
        return self._files.setdefault(str(path), len(self._files)) << _LINE | line

    def shown(self, place: int, what: str) -> str:
        """What was left out, behind the file and the line that a number stands for."""
        return f"{list(self._files)[place >> _LINE]}:{place & (1 << _LINE) - 1}: {what}" if place else what

    def finish(self, skipped: list[Counter[str]], step: Callable[[str], object]) -> str:
        """Sort everything into the final tables and index them.

        ``skipped`` counts the rows of each input that are left out now; ``step`` is told the name of each step. Gives
        the content hash: SHA-256 over the names and semantic types in stored order, which is what an index holds.
        """
        step("sorting names")
        hashed = self._finish_names(skipped)
        for table in schema.numbered[1:]:
            step(f"sorting {table.name}s")
            self._finish_table(table, skipped)
        self._index(step)
        self._finish_sources()
        types = schema.semantic_type.c
        new = select(types.concept_id, types.semantic_type).where(types.id > self.marks.get("semantic_type", 0))
        for row in _rows(self.connection.execute(new.order_by(types.id))):
            hashed.update("\x1f".join(row).encode())
            hashed.update(b"\n")
        return str(hashed.hexdigest())

    def _index(self, step: Callable[[str], object]) -> None:
        """Index the final tables; what holds something already is indexed and takes new rows in by itself."""
        step("indexing for search")
        if self.meta:
            name = schema.name.c
            new = select(name.id, name.normal).where(name.id > self.marks["name"]).order_by(name.id)
            self.connection.execute(insert(schema.name_search).from_select(["rowid", "normal"], new))
            return
        # Before the other indexes: SQLite would read the forms through name_normal, in the order of the alphabet
        # instead of the ids, and FTS5 is six times slower on ids that do not rise.
        self.connection.execute(schema.fill_search)
        step("indexing")
        for index in schema.indexes:
            index.create(self.connection)

    def _present(self) -> MappingType[str, Held]:
        """The names that are there already of the concepts that were read."""
        present: dict[str, dict[str, set[tuple[str, int]]]] = {}
        if self.meta:
            read = union(select(schema.staged_name.c.concept_id), select(schema.staged_concept.c.concept_id))
            name = schema.name.c
            for concept_id, language, text, source_id in self.connection.execute(
                select(name.concept_id, name.language, name.text, name.source_id).where(name.concept_id.in_(read))
            ):
                present.setdefault(concept_id, {}).setdefault(language, set()).add((text, source_id))
        return present

    def _finish_names(self, skipped: list[Counter[str]]) -> Any:
        staged = schema.staged_name.c
        sorted_names = select(schema.staged_name).order_by(staged.concept_id, staged.language, staged.key)
        names = self.connection.execute(sorted_names)
        waiting = schema.staged_concept.c
        # SQLite takes source_id from the row that holds the minimum: the first one read.
        announced = select(waiting.concept_id, waiting.source_id, func.min(waiting.seq)).group_by(waiting.concept_id)
        concepts = self.connection.execute(announced.order_by(waiting.concept_id))
        into_concept, into_name = _Batch(self.connection, schema.concept), _Batch(self.connection, schema.name, ("id",))
        source_names = {number: name for name, number in self._source_ids.items()}
        hashed = hashlib.sha256(f"{self.meta['content_hash']}\n".encode() if self.meta else b"")
        present = self._present()
        # of one id the concept comes before its names
        both = merge(_rows(concepts), _rows(names), key=itemgetter(0))
        for concept_id, found in groupby(both, itemgetter(0)):
            rows, held = list(found), present.get(concept_id)
            concept = rows.pop(0) if len(rows[0]) == 3 else None
            if held is None and concept is None:
                for row in rows:
                    given = row[2] >> _INPUT & 0xFF
                    skipped[given][NAME_ALONE] += 1
                    self.first.setdefault((given, NAME_ALONE), concept_id)
                continue
            if held is None and concept is not None:
                if not rows:
                    skipped[concept[2] >> _INPUT][CONCEPT_ALONE] += 1
                    self.first.setdefault((concept[2] >> _INPUT, CONCEPT_ALONE), concept_id)
                    continue
                into_concept.add((concept_id, concept[1]))
                self.concepts[concept[1]] += 1
            for row in _tidy(rows, skipped, self.renamed, held or {}):
                into_name.add(row)
                hashed.update("\x1f".join((*row[:2], row[3], row[4], source_names[row[5]], str(row[6]))).encode())
                hashed.update(b"\n")
        into_concept.flush()
        into_name.flush()
        return hashed

    def _finish_table(self, table: Table, skipped: list[Counter[str]]) -> None:
        waiting = schema.staged[table.name]
        columns = [column for column in waiting.columns if column.name not in ("input", "place")]
        ends = [column for column in columns if column.name in ("concept_id", "head", "tail")]
        known = and_(*(column.in_(select(schema.concept.c.concept_id)) for column in ends))
        fresh = known
        if self.meta:
            fresh = and_(known, ~exists().where(*(table.c[column.name] == column for column in columns)))
        label = table.name.replace("_", " ")

        def per_input(query: Select[Any]) -> Counter[int]:
            """Counts by number of the input."""
            return Counter({row[0]: row[1] for row in self.connection.execute(query)})

        read = per_input(select(waiting.c.input, func.count()).group_by(waiting.c.input))
        kept = per_input(select(waiting.c.input, func.count()).where(known).group_by(waiting.c.input))
        for number, count in read.items():
            if count > kept[number]:
                reason = f"{label} of a concept that is not loaded"
                skipped[number][reason] += count - kept[number]
                self.first[number, reason] = self._first_alone(waiting, ends, number)
        first = select(*columns, func.min(waiting.c.input).label("input")).where(fresh).group_by(*columns).subquery()
        final = per_input(select(first.c.input, func.count()).group_by(first.c.input))
        for number, count in kept.items():
            if count > final[number]:
                skipped[number][f"{label} given more than once"] += count - final[number]
        names = [column.name for column in columns]
        rows = select(*columns).where(fresh).distinct().order_by(*columns)
        self.connection.execute(insert(table).from_select(names, rows))

    def _first_alone(self, waiting: Table, ends: Sequence[ColumnElement[str]], number: int) -> str:
        """The first row of an input, as it was read, with a concept that is not there."""
        alone = [~end.in_(select(schema.concept.c.concept_id)) for end in ends]
        shown = [waiting.c.head, waiting.c.type, waiting.c.tail] if len(ends) > 1 else list(ends)
        row = select(waiting.c.place, or_(*alone[:1]), *shown).where(waiting.c.input == number, or_(*alone))
        place, is_head, *cells = self.connection.execute(row.order_by(literal_column("rowid")).limit(1)).one()
        missing = f"; there is no concept {cells[0 if is_head else -1]}" if len(ends) > 1 else ""
        return self.shown(place, " ".join(cells) + missing)

    def _finish_sources(self) -> None:
        name = schema.name.c
        languages: dict[int, set[str]] = {}
        new = select(name.source_id, name.language).where(name.id > self.marks.get("name", 0)).distinct()
        for number, language in self.connection.execute(new):
            languages.setdefault(number, set()).add(language)
        self.connection.execute(delete(schema.source))
        batch = _Batch(self.connection, schema.source)
        for key, number in self._source_ids.items():
            record = self.sources[key]
            tags = languages.get(number, set()).union(self._tags.get(number, ()))
            batch.add((number, key, record.version, record.title, ",".join(sorted(tags - {""}))))
        batch.flush()


def _rows(result: Any) -> Iterator[Row]:
    for part in result.partitions(BATCH):
        yield from part


def _tidy(
    rows: Iterable[Row], skipped: list[Counter[str]], renamed: dict[int, tuple[int, str]], held: Held
) -> Iterator[Row]:
    """Rows of ``name`` of one concept: one of each (language, text, source), one preferred in each language.

    The concept is ``renamed`` by an input that prefers a name which is none of those that are preferred or held, also
    by the one that prefers another name itself, with the same rank.
    """
    for language, named in groupby(rows, itemgetter(1)):
        there = held.get(language, frozenset())
        seen = set(there)
        kept: list[Row] = []
        first, told = -1, set[int]()
        for concept_id, _, key, text, kind, source_id in named:
            if (text, source_id) in seen:
                skipped[key >> _INPUT & 0xFF]["name given more than once"] += 1
                continue
            seen.add((text, source_id))
            given = key >> _INPUT & 0xFF
            other = given != first >> _INPUT & 0xFF or key >> _RANK == first >> _RANK
            if not key >> _UNFLAGGED and other and given not in told and (kept or there):
                known = {kept[0][2]} if kept else {normalise(name) for name, _ in there}
                if normalise(text) not in known:
                    count, which = renamed.get(given, (0, concept_id))
                    renamed[given] = count + 1, which
                    told.add(given)
            first = first if kept else key
            kept.append((concept_id, text, normalise(text), language, kind, source_id, int(not kept and not there)))
        yield from kept[:1]
        yield from sorted(kept[1:], key=itemgetter(1, 5))
