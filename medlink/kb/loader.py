"""From a stream of records to the tables of a knowledge base file, a new one or one that holds something already.

Rows first wait in a second file (``staging``), in the order in which they were read (:mod:`medlink.kb.staging`). When
all inputs are in, SQLite sorts each table on disk and the rows move, once, in order, into the final file. So memory
hardly grows with the input: two page caches and a sorter of 64 MB each, some ten thousand rows, and what a reader
itself holds.

The result depends on what was read and on the order of the inputs, not on the order of rows in a file, except where
no name of a language calls itself preferred, or several with the same rank do: there it is the first one read.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingType
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
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

from medlink.kb import schema
from medlink.kb.retired import finish_retired
from medlink.kb.staging import BATCH, INPUT, RANK, UNFLAGGED, Intake, Row, Rows, driver_rows
from medlink.language.text import normalise
from medlink.records import Source

MAX_INPUTS = 255
NAME_ALONE, CONCEPT_ALONE = "name of a concept that is not loaded", "concept without a name"
"""Reasons for leaving out what lacks the other half."""

Held = MappingType[str, AbstractSet[tuple[str, int]]]
"""Names that a concept has already, by language: text and number of the source."""


class Loader(Intake):
    """Takes in records of several inputs and writes the final tables.

    What is in the final tables stays, and what comes goes behind it.

    The main file of the connection is empty or a knowledge base; the rest is as for
    :class:`~medlink.kb.staging.Intake`.

    Attributes:
        alike: as ``renamed``, how many of its ids are another one in another Unicode normal form.
        meta: what the knowledge base said of itself before; empty for a new one.
        marks: highest row number of each table before the load, for those that held something; rows above are new.
        concepts: new concepts by the number of their source.
        names: new names by the number of their source and their language.
        renamed: by the number of the input, how many concepts it gives another preferred name than the one that stays,
            and the first of them.
        sources, announced: as for ``Intake``; those of before come first, and have the number ``-1``.
    """

    def __init__(self, connection: Connection, languages: frozenset[str] | None = None) -> None:
        super().__init__(connection, languages)
        self.meta: dict[str, str] = {}
        self.marks: dict[str, int] = {}
        self.concepts: Counter[int] = Counter()
        self.names: Counter[tuple[int, str]] = Counter()
        self.renamed: dict[int, tuple[int, str]] = {}
        self.alike: dict[int, tuple[int, str]] = {}
        self._tags: dict[int, tuple[str, ...]] = {}
        if inspect(connection).has_table(schema.meta.name):
            self._read_present()
        else:
            for table in schema.metadata.sorted_tables:
                connection.execute(CreateTable(table))
            connection.execute(schema.create_search)

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
        finish_retired(self.connection, skipped)
        self._index(step)
        self._finish_sources()
        types = schema.semantic_type.c
        new = select(types.concept_id, types.semantic_type).where(types.id > self.marks.get("semantic_type", 0))
        for row in driver_rows(self.connection, new.order_by(types.id)):
            hashed.update("\x1f".join(row).encode())
            hashed.update(b"\n")
        return str(hashed.hexdigest())

    def _index(self, step: Callable[[str], object]) -> None:
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
        waiting = schema.staged_concept.c
        # SQLite takes source_id from the row that holds the minimum: the first one read.
        announced = select(waiting.concept_id, waiting.source_id, func.min(waiting.seq)).group_by(waiting.concept_id)
        concepts = driver_rows(self.connection, announced.order_by(waiting.concept_id))
        by_key = staged.concept_id, staged.language, staged.key
        order = (literal_column("rowid"),) if self._name_order.kept else by_key
        names = driver_rows(self.connection, select(schema.staged_name).order_by(*order))
        into_concept, into_name = Rows(self.connection, schema.concept), _Names(self)
        present = self._present()
        concept = next(concepts, None)
        normal_forms: dict[str, str] = {}

        def alone(found: Row) -> None:
            """Leave out a concept without a name, unless it has one already."""
            if found[0] not in present:
                skipped[found[2] >> INPUT][CONCEPT_ALONE] += 1
                self.first.setdefault((found[2] >> INPUT, CONCEPT_ALONE), found[0])

        for concept_id, found in groupby(names, itemgetter(0)):
            while concept is not None and concept[0] < concept_id:
                alone(concept)
                concept = next(concepts, None)
            is_new = concept_id not in present
            if concept is not None and concept[0] == concept_id:
                if is_new:
                    self._compare(concept_id, concept[2] >> INPUT, normal_forms)
                    into_concept.add((concept_id, concept[1]))
                    self.concepts[concept[1]] += 1
                concept = next(concepts, None)
            elif is_new:
                for row in found:
                    given = row[2] >> INPUT & 0xFF
                    skipped[given][NAME_ALONE] += 1
                    self.first.setdefault((given, NAME_ALONE), concept_id)
                continue
            into_name.take(_tidy(found, skipped, self.renamed, present.get(concept_id, {})))
        while concept is not None:
            alone(concept)
            concept = next(concepts, None)
        into_concept.flush()
        return into_name.finish()

    def _compare(self, concept_id: str, number: int, normal_forms: dict[str, str]) -> None:
        form = "" if concept_id.isascii() else unicodedata.normalize("NFC", concept_id)
        if form and normal_forms.setdefault(form, concept_id) != concept_id:
            count, first = self.alike.get(number, (0, concept_id))
            self.alike[number] = count + 1, first

    def _finish_table(self, table: Table, skipped: list[Counter[str]]) -> None:
        waiting, read = schema.staged[table.name], self.waiting[table.name]
        columns = [column for column in waiting.columns if column.name not in ("input", "place")]
        ends = [column for column in columns if column.name in ("concept_id", "head", "tail")]
        known = and_(*(column.in_(select(schema.concept.c.concept_id)) for column in ends))
        move = self._move_several if self.meta or len(read) > 1 else self._move_one
        label = table.name.replace("_", " ")
        for number, known_rows, final in move(table, columns, known):
            if read[number] > known_rows:
                reason = f"{label} of a concept that is not loaded"
                skipped[number][reason] += read[number] - known_rows
                self.first[number, reason] = self._first_alone(waiting, ends, number)
            if known_rows > final:
                skipped[number][f"{label} given more than once"] += known_rows - final

    def _move_one(
        self, table: Table, columns: Sequence[ColumnElement[Any]], known: ColumnElement[bool]
    ) -> Iterator[tuple[int, int, int]]:
        """Move the rows of the only input into an empty table: one of each whose concepts are ``known``, sorted.

        Gives its number, how many of its rows are known, and how many were moved.
        """
        for number, count in self.waiting[table.name].items():
            kept = select(*columns).where(known).group_by(*columns).order_by(*columns)
            moved = self.connection.execute(insert(table).from_select([column.name for column in columns], kept))
            final, of_known = moved.rowcount, select(func.count()).where(known)
            yield number, count if final == count else self.connection.execute(of_known).scalar_one(), final

    def _move_several(
        self, table: Table, columns: Sequence[ColumnElement[Any]], known: ColumnElement[bool]
    ) -> Iterator[tuple[int, int, int]]:
        """As :meth:`_move_one`, for each of several inputs, or into a table that has rows: what these have, and what an
        earlier input has, is not moved."""
        waiting, into = schema.staged[table.name], schema.sorted_rows[table.name]
        fresh = known
        if self.meta:
            fresh = and_(known, ~exists().where(*(table.c[column.name] == column for column in columns)))
        if len(self.waiting[table.name]) > 1:
            fresh = and_(waiting.c.input == func.min(waiting.c.input).over(partition_by=columns), fresh)
        each = (*columns, waiting.c.input)
        rows = select(*each, func.count(), known, fresh).group_by(*each).order_by(*each)
        self.connection.execute(insert(into).from_select([column.name for column in into.columns], rows))
        names = [column.name for column in columns]
        kept = select(*(into.c[name] for name in names)).where(into.c.fresh).order_by(literal_column("rowid"))
        self.connection.execute(insert(table).from_select(names, kept))
        for number in self.waiting[table.name]:
            of = select(func.sum(into.c.count * into.c.known), func.sum(into.c.fresh)).where(into.c.input == number)
            known_rows, final = self.connection.execute(of).one()
            yield number, known_rows, final

    def _first_alone(self, waiting: Table, ends: Sequence[ColumnElement[str]], number: int) -> str:
        alone = [~end.in_(select(schema.concept.c.concept_id)) for end in ends]
        shown = [waiting.c.head, waiting.c.type, waiting.c.tail] if len(ends) > 1 else list(ends)
        row = select(waiting.c.place, or_(*alone[:1]), *shown).where(waiting.c.input == number, or_(*alone))
        place, is_head, *cells = self.connection.execute(row.order_by(literal_column("rowid")).limit(1)).one()
        missing = f"; there is no concept {cells[0 if is_head else -1]}" if len(ends) > 1 else ""
        return self.shown(place, " ".join(cells) + missing)

    def _finish_sources(self) -> None:
        languages: dict[int, set[str]] = {}
        for number, language in self.names:
            languages.setdefault(number, set()).add(language)
        self.connection.execute(delete(schema.source))
        rows = Rows(self.connection, schema.source)
        for key, number in self._source_ids.items():
            record = self.sources[key]
            tags = languages.get(number, set()).union(self._tags.get(number, ()))
            rows.add((number, key, record.version, record.title, ",".join(sorted(tags - {""}))))
        rows.flush()


class _Names:
    """The names that are kept, on their way into the table, the content hash and the counts."""

    def __init__(self, loader: Loader) -> None:
        self._into = Rows(loader.connection, schema.name, ("id",))
        self._counts = loader.names
        self._sources = {number: name for name, number in loader._source_ids.items()}
        self._hashed = hashlib.sha256(f"{loader.meta['content_hash']}\n".encode() if loader.meta else b"")
        self._rows: list[Row] = []

    def take(self, rows: Iterable[Row]) -> None:
        self._rows += rows
        if len(self._rows) >= BATCH:
            self._write()

    def finish(self) -> Any:
        """Write what is left; gives the hash so far."""
        self._write()
        return self._hashed

    def _write(self) -> None:
        sources = self._sources
        said = [
            f"{concept_id}\x1f{text}\x1f{language}\x1f{kind}\x1f{sources[source_id]}\x1f{preferred}\n"
            for concept_id, text, _, language, kind, source_id, preferred in self._rows
        ]
        self._hashed.update("".join(said).encode())
        self._counts.update(map(itemgetter(5, 3), self._rows))
        self._into.write(self._rows)
        self._rows = []


def _tidy(
    rows: Iterable[Row], skipped: list[Counter[str]], renamed: dict[int, tuple[int, str]], held: Held
) -> Iterator[Row]:
    """Rows of ``name`` of one concept: one of each (language, text, source), one preferred in each language.

    The concept is ``renamed`` by an input that prefers a name which is none of those that are preferred or held, also
    by the one that prefers another name itself, with the same rank.
    """
    for language, found in groupby(rows, itemgetter(1)):
        named = list(found)
        there = held.get(language, frozenset())
        if len(named) == 1 and not there:
            concept_id, _, _, text, normal, kind, source_id = named[0]
            yield concept_id, text, normal, language, kind, source_id, 1
            continue
        seen = set(there)
        kept: list[Row] = []
        first, told = -1, set[int]()
        for concept_id, _, key, text, normal, kind, source_id in named:
            if (text, source_id) in seen:
                skipped[key >> INPUT & 0xFF]["name given more than once"] += 1
                continue
            seen.add((text, source_id))
            if not key >> UNFLAGGED and (kept or there):
                given = key >> INPUT & 0xFF
                other = given != first >> INPUT & 0xFF or key >> RANK == first >> RANK
                if other and given not in told:
                    known = {kept[0][2]} if kept else {normalise(name) for name, _ in there}
                    if normal not in known:
                        count, which = renamed.get(given, (0, concept_id))
                        renamed[given] = count + 1, which
                        told.add(given)
            first = first if kept else key
            kept.append((concept_id, text, normal, language, kind, source_id, int(not kept and not there)))
        yield from kept[:1]
        yield from sorted(kept[1:], key=itemgetter(1, 5))
