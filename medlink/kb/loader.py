"""Loading streams of records into the tables of a new or an existing knowledge base file.

Rows are staged in a second file (:mod:`medlink.kb.staging`); SQLite then sorts each table on disk. Memory stays nearly
constant: two page caches and a sorter of 64 MB each, some ten thousand rows, and the memory of the reader. The order of
rows in a file matters only for a language without a preferred name, or with several of the same rank: the first wins.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingType
from collections.abc import Set as AbstractSet
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from medlink.kb import schema
from medlink.kb.retired import store_retired
from medlink.kb.staging import BATCH, INPUT, RANK, UNFLAGGED, RecordStager, Row, insert_rows, iter_driver_rows
from medlink.language.text import normalise
from medlink.records import Source

MAX_INPUTS = 255
NAME_WITHOUT_CONCEPT, CONCEPT_WITHOUT_NAME = "name of a concept that is not loaded", "concept without a name"
"""Reasons for skipping a record."""
Columns = Sequence[sa.ColumnElement[Any]]
KnownNames = MappingType[str, AbstractSet[tuple[str, int]]]
"""Existing names of a concept, by language: text and source number."""


class Loader(RecordStager):
    """Stages the records of several inputs and writes the final tables.

    The main file of the connection is empty or a knowledge base, whose rows stay; new rows follow them.

    Attributes:
        meta: metadata of the knowledge base before the load; empty for a new one.
        marks: highest row number of each table before the load; empty for a new one.
        concepts: number of new concepts by source number.
        names: number of new names by source number and language.
        renamed: by input, the number of concepts for which it prefers another name than the stored name, and the first
            of them.
        unicode_variants: by input, the number of ids that equal another id after Unicode normalisation, and the first.
        sources, announced: as in ``RecordStager``; the existing sources come first, under input ``-1``.
    """

    def __init__(self, connection: sa.Connection, languages: frozenset[str] | None = None) -> None:
        super().__init__(connection, languages)
        self.meta: dict[str, str] = {}
        self.marks: dict[str, int] = {}
        self.concepts: Counter[int] = Counter()
        self.names: Counter[tuple[int, str]] = Counter()
        self.renamed: dict[int, tuple[int, str]] = {}
        self.unicode_variants: dict[int, tuple[int, str]] = {}
        self._languages: dict[int, set[str]] = {}
        self._normal_ids: dict[str, str] = {}
        if not sa.inspect(connection).has_table(schema.meta.name):
            for table in schema.metadata.sorted_tables:
                connection.execute(CreateTable(table))
            connection.execute(schema.create_search)
            return
        self.meta.update(map(tuple, connection.execute(sa.select(schema.meta.c.key, schema.meta.c.value))))
        rows = connection.execute(sa.select(*schema.source.columns).order_by(schema.source.c.id))
        for number, name, version, title, tags in rows:
            self.sources[name] = Source(name, version, title)
            self._source_ids[name] = number
            self.announced.setdefault(-1, []).append(name)
            self._languages[number] = set(tags.split(","))
        for table in schema.numbered_tables:
            self.marks[table.name] = connection.execute(sa.select(sa.func.max(table.c.id))).scalar() or 0

    def finish(self, skipped: list[Counter[str]], step: Callable[[str], object]) -> str:
        """Sort all rows into the final tables and index them; count the skipped rows of each input.

        Returns the content hash: SHA-256 over the names and semantic types in stored order, the input of an index.
        """
        step("sorting names")
        content_hash = self._finish_names(skipped)
        for table in schema.numbered_tables[1:]:
            step(f"sorting {table.name}s")
            self._finish_table(table, skipped)
        store_retired(self.connection, skipped)
        step("indexing for search")
        if self.meta:
            name = schema.name.c
            added = sa.select(name.id, name.normal).where(name.id > self.marks["name"]).order_by(name.id)
            self.connection.execute(sa.insert(schema.name_search).from_select(["rowid", "normal"], added))
        else:
            # before the other indexes: with name_normal SQLite would read the names alphabetically, and FTS5 is six
            # times slower when ids do not increase
            self.connection.execute(schema.fill_search)
            step("indexing")
            for index in schema.indexes:
                index.create(self.connection)
        self._finish_sources()
        types = schema.semantic_type.c
        new = sa.select(types.concept_id, types.semantic_type).where(types.id > self.marks.get("semantic_type", 0))
        for row in iter_driver_rows(self.connection, new.order_by(types.id)):
            content_hash.update("\x1f".join(row).encode() + b"\n")
        return str(content_hash.hexdigest())

    def _existing_names(self) -> MappingType[str, KnownNames]:
        existing: dict[str, dict[str, set[tuple[str, int]]]] = {}
        if self.meta:
            staged = sa.union(sa.select(schema.staged_name.c.concept_id), sa.select(schema.staged_concept.c.concept_id))
            name = schema.name.c
            columns = sa.select(name.concept_id, name.language, name.text, name.source_id)
            for concept_id, language, *key in self.connection.execute(columns.where(name.concept_id.in_(staged))):
                existing.setdefault(concept_id, {}).setdefault(language, set()).add((key[0], key[1]))
        return existing

    def _finish_names(self, skipped: list[Counter[str]]) -> Any:
        def skip(number: int, reason: str, concept_id: str) -> None:
            skipped[number][reason] += 1
            self.first_skipped.setdefault((number, reason), concept_id)

        def write() -> None:
            insert_rows(self.connection, schema.concept, new_concepts)
            insert_rows(self.connection, schema.name, new_names, skip="id")
            lines = (
                f"{concept_id}\x1f{text}\x1f{language}\x1f{kind}\x1f{sources[source_id]}\x1f{preferred}\n"
                for concept_id, text, _, language, kind, source_id, preferred in new_names
            )
            content_hash.update("".join(lines).encode())
            self.names.update(map(itemgetter(5, 3), new_names))
            new_concepts.clear()
            new_names.clear()

        sources = {number: name for name, number in self._source_ids.items()}
        content_hash = hashlib.sha256(f"{self.meta['content_hash']}\n".encode() if self.meta else b"")
        new_concepts, new_names = list[Row](), list[Row]()
        staged, existing = schema.staged_name.c, self._existing_names()
        order: Columns = (staged.concept_id, staged.language, staged.key)
        if self._names_sorted:
            order = (sa.literal_column("rowid"),)
        names = iter_driver_rows(self.connection, sa.select(schema.staged_name).order_by(*order))
        # SQLite takes source_id from the row with the minimum, the first one read
        read = schema.staged_concept.c
        first_rows = sa.select(read.concept_id, read.source_id, sa.func.min(read.seq)).group_by(read.concept_id)
        concepts = iter_driver_rows(self.connection, first_rows.order_by(read.concept_id))
        concept = next(concepts, None)
        for concept_id, rows in chain(groupby(names, itemgetter(0)), [(None, iter(()))]):
            while concept is not None and (concept_id is None or concept[0] < concept_id):
                if concept[0] not in existing:
                    skip(concept[2] >> INPUT, CONCEPT_WITHOUT_NAME, concept[0])
                concept = next(concepts, None)
            is_new = concept_id not in existing
            if concept is not None and concept[0] == concept_id:
                if is_new:
                    self._check_unicode_form(concept_id, concept[2] >> INPUT)
                    new_concepts.append((concept_id, concept[1]))
                    self.concepts[concept[1]] += 1
                concept = next(concepts, None)
            elif is_new:
                for row in rows:
                    skip(row[2] >> INPUT & 0xFF, NAME_WITHOUT_CONCEPT, concept_id)
                continue
            new_names += _deduplicate(rows, skipped, self.renamed, existing.get(concept_id, {}))
            if len(new_names) >= BATCH:
                write()
        write()
        return content_hash

    def _check_unicode_form(self, concept_id: str, number: int) -> None:
        form = "" if concept_id.isascii() else unicodedata.normalize("NFC", concept_id)
        if form and self._normal_ids.setdefault(form, concept_id) != concept_id:
            count, first = self.unicode_variants.get(number, (0, concept_id))
            self.unicode_variants[number] = count + 1, first

    def _finish_table(self, table: sa.Table, skipped: list[Counter[str]]) -> None:
        staged, read = schema.staged[table.name], self.staged_rows[table.name]
        columns = [column for column in staged.columns if column.name not in ("input", "place")]
        ends = [column for column in columns if column.name in ("concept_id", "head", "tail")]
        known = sa.and_(*(column.in_(sa.select(schema.concept.c.concept_id)) for column in ends))
        move = self._move_several if self.meta or len(read) > 1 else self._move_one
        label = table.name.replace("_", " ")
        for number, known_rows, final in move(table, columns, known):
            if read[number] > known_rows:
                reason = f"{label} of a concept that is not loaded"
                skipped[number][reason] += read[number] - known_rows
                self.first_skipped[number, reason] = self._first_unknown(staged, ends, number)
            if known_rows > final:
                skipped[number][f"{label} repeated, kept once"] += known_rows - final

    def _move_one(
        self, table: sa.Table, columns: Columns, known: sa.ColumnElement[bool]
    ) -> Iterator[tuple[int, int, int]]:
        """Move the distinct rows of the only input whose concepts are ``known`` into an empty table, sorted.

        Yields the input number, its number of known rows, and the number of rows moved.
        """
        for number, count in self.staged_rows[table.name].items():
            rows = sa.select(*columns).where(known).group_by(*columns).order_by(*columns)
            moved = self.connection.execute(sa.insert(table).from_select([column.name for column in columns], rows))
            final, known_rows = moved.rowcount, sa.select(sa.func.count()).where(known)
            yield number, count if final == count else self.connection.execute(known_rows).scalar_one(), final

    def _move_several(
        self, table: sa.Table, columns: Columns, known: sa.ColumnElement[bool]
    ) -> Iterator[tuple[int, int, int]]:
        """Like :meth:`_move_one`, but without rows that the table or an earlier input has."""
        staged, target = schema.staged[table.name], schema.sorted_rows[table.name]
        fresh = known
        if self.meta:
            fresh = sa.and_(known, ~sa.exists().where(*(table.c[column.name] == column for column in columns)))
        if len(self.staged_rows[table.name]) > 1:
            fresh = sa.and_(staged.c.input == sa.func.min(staged.c.input).over(partition_by=columns), fresh)
        each, names = (*columns, staged.c.input), [column.name for column in columns]
        rows = sa.select(*each, sa.func.count(), known, fresh).group_by(*each).order_by(*each)
        self.connection.execute(sa.insert(target).from_select([column.name for column in target.columns], rows))
        new_rows = sa.select(*(target.c[name] for name in names)).where(target.c.fresh)
        new_rows = new_rows.order_by(sa.literal_column("rowid"))
        self.connection.execute(sa.insert(table).from_select(names, new_rows))
        for number in self.staged_rows[table.name]:
            sums = sa.select(sa.func.sum(target.c.count * target.c.known), sa.func.sum(target.c.fresh))
            known_rows, final = self.connection.execute(sums.where(target.c.input == number)).one()
            yield number, known_rows, final

    def _first_unknown(self, staged: sa.Table, ends: Columns, number: int) -> str:
        """Describe the first row of an input that names an unknown concept."""
        unknown = [~end.in_(sa.select(schema.concept.c.concept_id)) for end in ends]
        named = [staged.c.head, staged.c.type, staged.c.tail] if len(ends) > 1 else list(ends)
        rows = sa.select(staged.c.place, sa.or_(*unknown[:1]), *named).where(staged.c.input == number, sa.or_(*unknown))
        location, is_head, *cells = self.connection.execute(rows.order_by(sa.literal_column("rowid")).limit(1)).one()
        missing = f"; there is no concept {cells[0 if is_head else -1]}" if len(ends) > 1 else ""
        return self.with_location(location, " ".join(cells) + missing)

    def _finish_sources(self) -> None:
        for number, language in self.names:
            self._languages.setdefault(number, set()).add(language)
        self.connection.execute(sa.delete(schema.source))
        rows: list[Row] = []
        for name, number in self._source_ids.items():
            languages = ",".join(sorted(self._languages.get(number, set()) - {""}))
            rows.append((number, name, self.sources[name].version, self.sources[name].title, languages))
        insert_rows(self.connection, schema.source, rows)


def _deduplicate(
    rows: Iterable[Row], skipped: list[Counter[str]], renamed: dict[int, tuple[int, str]], existing: KnownNames
) -> Iterator[Row]:
    """Yield the ``name`` rows of a concept: distinct by (language, text, source), one preferred in each language.

    Counts in ``renamed`` each input that prefers another new name, unless it also prefers the kept name, with a better
    rank.
    """
    for language, group in groupby(rows, itemgetter(1)):
        named = list(group)
        old = existing.get(language, frozenset())
        if len(named) == 1 and not old:
            concept_id, _, _, text, normal, kind, source_id = named[0]
            yield concept_id, text, normal, language, kind, source_id, 1
            continue
        seen = set(old)
        unique: list[Row] = []
        first, counted = -1, set[int]()
        for concept_id, _, key, text, normal, kind, source_id in named:
            number = key >> INPUT & 0xFF
            if (text, source_id) in seen:
                skipped[number]["name repeated, kept once"] += 1
                continue
            seen.add((text, source_id))
            if not key >> UNFLAGGED and (unique or old) and number not in counted:
                known = {unique[0][2]} if unique else {normalise(name) for name, _ in old}
                rival = number != first >> INPUT & 0xFF or key >> RANK == first >> RANK
                if rival and normal not in known:
                    count, example = renamed.get(number, (0, concept_id))
                    renamed[number] = count + 1, example
                    counted.add(number)
            first = first if unique else key
            unique.append((concept_id, text, normal, language, kind, source_id, int(not unique and not old)))
        yield from unique[:1]
        yield from sorted(unique[1:], key=itemgetter(1, 5))
