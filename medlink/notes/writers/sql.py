"""A table of a database: rows of mentions, or OMOP's ``NOTE_NLP``, added in one transaction a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medlink.errors import ConfigError
from medlink.files.atomic import check_targets
from medlink.files.problems import counted
from medlink.notes.database import file_of, opened, told
from medlink.notes.pipeline import LinkedMention
from medlink.notes.reading import Note
from medlink.notes.writers import note_nlp, rows
from medlink.notes.writers.base import Job

if TYPE_CHECKING:
    from sqlalchemy import Connection, MetaData, Table

_RUNS = "medlink_runs"


class SqlWriter:
    """Rows of a table, which is made if it does not exist; each row has a number of its own, from the next free one.

    A second table, ``medlink_runs``, says of each run how many notes are finished and which rows are its own. Both are
    written in one transaction, so that a kill loses no row and repeats none. A run without ``resume`` deletes the
    rows of an unfinished run of the same table. A run that is already in the table is refused. PostgreSQL has no NUL,
    which stands there as U+FFFD (``remarks`` says how often).

    Args:
        address: of the database.
        table: name of the table, with its schema where it has one; ``links``, for NOTE_NLP ``note_nlp``, if left out.
        is_nlp: whether the rows are those of NOTE_NLP.
        day: what ``nlp_date`` says.
    """

    def __init__(self, address: str, table: str | None, *, is_nlp: bool, day: str | None) -> None:
        self._address = address
        self._name = table or ("note_nlp" if is_nlp else "links")
        self._day = note_nlp.needed_day(day) if is_nlp else None
        self._number = "note_nlp_id" if is_nlp else "link_id"
        self._held: list[dict[str, Any]] = []
        self._stack = ExitStack()
        self._connection: Connection
        self._table: Table
        self._runs: Table
        self._new: list[Table] = []
        self._told: Callable[[], AbstractContextManager[None]]
        self._run = self._first = self._next = self._notes = self._replaced = 0

    def open(self, job: Job) -> int:
        file = file_of(self._address)
        check_targets({"the output": file}, job.reads)
        self._job = job
        with ExitStack() as stack:
            engine = stack.enter_context(opened(self._address))
            self._told = lambda: told(engine.url, "the output cannot be written")
            with self._told():
                if file is not None:
                    with suppress(OSError):  # SQLite says it better
                        Path(file).touch(0o600)
                self._connection = stack.enter_context(engine.connect())
                self._lock()
                self._make_tables()
                self._begin()
                self._connection.commit()
            self._stack = stack.pop_all()
        return self._notes

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        for row in self._rows(note, language, mentions, self._next + len(self._held)):
            if self._connection.dialect.name == "postgresql":
                nul = {name: text for name, text in row.items() if isinstance(text, str) and "\0" in text}
                row |= {name: text.replace("\0", "\ufffd") for name, text in nul.items()}
                self._replaced += len(nul)
            self._held.append(row)

    @property
    def remarks(self) -> list[str]:
        """What is not in the table as it is in the notes."""
        number = counted(self._replaced, "cell")
        return [f"{number} with NUL, which PostgreSQL does not have: U+FFFD is there instead"] if self._replaced else []

    def commit(self, notes: int) -> None:
        """End the transaction: rows, and how far the run is."""
        self._save(notes, finished=False)

    def close(self, error: BaseException | None = None) -> None:
        """End: the run is whole, or what was committed is kept."""
        with self._stack:
            if error is None:
                self._save(self._notes, finished=True)
                return
            with self._told():
                self._connection.rollback()
                if self._next == self._first:
                    self._connection.execute(self._runs.delete().where(self._runs.c.run == self._run))
                    for table in self._new:
                        table.drop(self._connection)
                    self._connection.commit()
            if self._next > self._first:
                self._job.hint(error)

    def _rows(
        self, note: Note, language: str, mentions: Sequence[LinkedMention], first: int
    ) -> Iterator[dict[str, Any]]:
        if self._day is not None:
            yield from note_nlp.nlp_rows(note, mentions, first, self._job.versions, self._day, self._job.bundle)
            return
        for number, mention in enumerate(mentions, start=first):
            yield {self._number: number, **rows.flat(rows.row(note, language, mention, self._job.bundle))}

    def _save(self, notes: int, *, finished: bool) -> None:
        with self._told():
            if self._held:
                self._connection.execute(self._table.insert(), self._held)
                self._next += len(self._held)
                self._held.clear()
            values = {"notes": notes, "next_row": self._next, "finished": finished}
            self._connection.execute(self._runs.update().where(self._runs.c.run == self._run).values(values))
            self._connection.commit()
            self._notes = notes

    def _lock(self) -> None:
        # which ends with the connection
        from sqlalchemy import text

        kind = self._connection.dialect.name
        if kind == "sqlite":
            self._connection.execute(text("PRAGMA locking_mode = EXCLUSIVE"))
        elif kind == "postgresql":
            asked = text("SELECT pg_try_advisory_lock(hashtext(:name))")
            if not self._connection.execute(asked, {"name": f"medlink {self._name}"}).scalar():
                message = f"another process is writing the table {self._name}"
                raise ConfigError(message, remedy="wait for it to end, or name another table")

    def _make_tables(self) -> None:
        from sqlalchemy import BigInteger, Boolean, Column, MetaData, String, Table, inspect

        inspector = inspect(self._connection)
        schema, _, name = self._name.rpartition(".")
        metadata = MetaData(schema=schema or None)
        self._runs = Table(
            _RUNS, metadata, Column("run", BigInteger, primary_key=True, autoincrement=False),
            Column("table_name", String(255)), Column("job", String(64)), Column("notes", BigInteger),
            Column("first_row", BigInteger), Column("next_row", BigInteger), Column("finished", Boolean),
        )  # fmt: skip
        self._table = self._of_rows(name, metadata)
        for table in (self._runs, self._table):
            if not inspector.has_table(table.name, table.schema):
                table.create(self._connection)
                self._new.append(table)
                continue
            found = {column["name"] for column in inspector.get_columns(table.name, table.schema)}
            missing = [column.name for column in table.columns if column.name not in found]
            if missing:
                message = f"the table {table.name} lacks the column {missing[0]}"
                raise ConfigError(message, remedy="name another table with out_table=..., or move this one away")

    def _of_rows(self, name: str, metadata: MetaData) -> Table:
        from sqlalchemy import BigInteger, Column, Date, DateTime, Double, String, Table, Text

        kinds: dict[type, Any] = {int: BigInteger, str: Text, list: Text, float: Double, date: Date, datetime: DateTime}
        columns: dict[str, type | int] = {**note_nlp.COLUMNS} if self._day else {self._number: int, **rows.COLUMNS}
        typed = {column: String(kind) if isinstance(kind, int) else kinds[kind] for column, kind in columns.items()}
        made = (Column(c, of, primary_key=c == self._number, autoincrement=False) for c, of in typed.items())
        return Table(name, metadata, *made)

    def _begin(self) -> None:
        from sqlalchemy import func, select

        runs, ask, number = self._runs, self._connection.execute, self._table.c[self._number]
        for one in ask(select(runs).where(runs.c.table_name == self._name).order_by(runs.c.run)).all():
            if one.finished and one.job == self._job.key:
                raise ConfigError(
                    f"the table {self._name} has this run already",
                    remedy=f"name another table, or delete its rows {one.first_row} to {one.next_row - 1} "
                    f"and its row {one.run} of {_RUNS}",
                )
            if one.finished:
                continue
            if self._job.resume:
                self._job.check_key(one.job)
                self._run, self._first, self._next, self._notes = one.run, one.first_row, one.next_row, one.notes
                return
            ask(self._table.delete().where(number >= one.first_row, number < one.next_row))
            ask(runs.delete().where(runs.c.run == one.run))
        self._run = (ask(select(func.max(runs.c.run))).scalar() or 0) + 1
        self._first = self._next = max(0, ask(select(func.max(number))).scalar() or 0) + 1
        begun = {"first_row": self._next, "next_row": self._next, "notes": 0, "finished": False}
        ask(runs.insert().values(run=self._run, table_name=self._name, job=self._job.key, **begun))
