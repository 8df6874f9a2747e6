"""A table of a database: rows of mentions, or OMOP's ``NOTE_NLP``, one transaction for each commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medlink.errors import ConfigError
from medlink.files.atomic import check_output_paths
from medlink.files.problems import pluralize
from medlink.notes.database import database_file, open_database, wrap_database_errors
from medlink.notes.reading import Note
from medlink.notes.writers import note_nlp, rows
from medlink.notes.writers.base import Job
from medlink.records import LinkedMention

if TYPE_CHECKING:
    from sqlalchemy import Connection, MetaData, Table

_RUNS = "medlink_runs"


class SqlWriter:
    """Writes rows to a table, which is created if needed, and numbers them from the next free number.

    A second table, ``medlink_runs``, records the finished notes and the rows of each run. One transaction writes both,
    so a kill neither loses nor repeats a row. A run without ``resume`` deletes the rows of an unfinished run of the
    same table. Repeating a finished run raises ConfigError. PostgreSQL cannot store NUL, which becomes U+FFFD
    (``remarks`` has the count). The default of ``table``, with its schema if needed, is ``links`` or, for NOTE_NLP
    (``is_nlp``), ``note_nlp``; ``day`` is the value of ``nlp_date``.
    """

    def __init__(self, address: str, table: str | None, *, is_nlp: bool, day: str | None) -> None:
        self._address = address
        self._name = table or ("note_nlp" if is_nlp else "links")
        self._day = note_nlp.require_day(day) if is_nlp else None
        self._id_column = "note_nlp_id" if is_nlp else "link_id"
        self._pending: list[dict[str, Any]] = []
        self._stack = ExitStack()
        self._connection: Connection
        self._table: Table
        self._runs: Table
        self._new: list[Table] = []
        self._wrap_errors: Callable[[], AbstractContextManager[None]]
        self._run = self._first = self._next = self._notes = self._replaced = 0

    def open(self, job: Job) -> int:
        file = database_file(self._address)
        check_output_paths({"the output": file}, job.reads)
        self._job = job
        with ExitStack() as stack:
            engine = stack.enter_context(open_database(self._address))
            self._wrap_errors = lambda: wrap_database_errors(engine.url, "the output cannot be written")
            with self._wrap_errors():
                if file is not None:
                    with suppress(OSError):  # SQLite reports it
                        Path(file).touch(0o600)
                self._connection = stack.enter_context(engine.connect())
                self._lock()
                self._make_tables()
                self._begin()
                self._connection.commit()
            self._stack = stack.pop_all()
        return self._notes

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        for row in self._rows(note, language, mentions, self._next + len(self._pending)):
            if self._connection.dialect.name == "postgresql":
                nul = {name: text for name, text in row.items() if isinstance(text, str) and "\0" in text}
                row |= {name: text.replace("\0", "\ufffd") for name, text in nul.items()}
                self._replaced += len(nul)
            self._pending.append(row)

    @property
    def remarks(self) -> list[str]:
        """Warnings on cells that differ from the notes."""
        number = pluralize(self._replaced, "cell")
        return [f"{number} with NUL, which PostgreSQL cannot store: written as U+FFFD"] if self._replaced else []

    def commit(self, notes: int) -> None:
        """Commit the pending rows and the progress."""
        self._save(notes, finished=False)

    def close(self, error: BaseException | None = None) -> None:
        """Mark the run as finished; after an error, keep the committed rows."""
        with self._stack:
            if error is None:
                self._save(self._notes, finished=True)
                return
            with self._wrap_errors():
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
            yield {self._id_column: number, **rows.flatten(rows.mention_row(note, language, mention, self._job.bundle))}

    def _save(self, notes: int, *, finished: bool) -> None:
        with self._wrap_errors():
            if self._pending:
                self._connection.execute(self._table.insert(), self._pending)
                self._next += len(self._pending)
                self._pending.clear()
            values = {"notes": notes, "next_row": self._next, "finished": finished}
            self._connection.execute(self._runs.update().where(self._runs.c.run == self._run).values(values))
            self._connection.commit()
            self._notes = notes

    def _lock(self) -> None:
        # the lock ends with the connection
        from sqlalchemy import text

        kind = self._connection.dialect.name
        if kind == "sqlite":
            self._connection.execute(text("PRAGMA locking_mode = EXCLUSIVE"))
        elif kind == "postgresql":
            statement = text("SELECT pg_try_advisory_lock(hashtext(:name))")
            if not self._connection.execute(statement, {"name": f"medlink {self._name}"}).scalar():
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
        self._table = self._row_table(name, metadata)
        for table in (self._runs, self._table):
            if not inspector.has_table(table.name, table.schema):
                table.create(self._connection)
                self._new.append(table)
                continue
            present = {column["name"] for column in inspector.get_columns(table.name, table.schema)}
            missing = [column.name for column in table.columns if column.name not in present]
            if missing:
                message = f"the table {table.name} lacks the column {missing[0]}"
                raise ConfigError(message, remedy="name another table with out_table=..., or move this one away")

    def _row_table(self, name: str, metadata: MetaData) -> Table:
        from sqlalchemy import BigInteger, Boolean, Column, Date, DateTime, Double, String, Table, Text

        kinds: dict[type, Any] = {
            int: BigInteger, str: Text, list: Text, float: Double, bool: Boolean, date: Date, datetime: DateTime,
        }  # fmt: skip
        columns: dict[str, type | int] = {**note_nlp.COLUMNS} if self._day else {self._id_column: int, **rows.COLUMNS}
        typed = ((column, String(kind) if isinstance(kind, int) else kinds[kind]) for column, kind in columns.items())
        own = (Column(c, of, primary_key=c == self._id_column, autoincrement=False) for c, of in typed)
        return Table(name, metadata, *own)

    def _begin(self) -> None:
        from sqlalchemy import func, select

        runs, execute, number = self._runs, self._connection.execute, self._table.c[self._id_column]
        for run in execute(select(runs).where(runs.c.table_name == self._name).order_by(runs.c.run)).all():
            if run.finished and run.job == self._job.key:
                rows = f"its rows {run.first_row} to {run.next_row - 1} and its row {run.run} of {_RUNS}"
                message = f"the table {self._name} already has this run"
                raise ConfigError(message, remedy=f"name another table, or delete {rows}")
            if run.finished:
                continue
            if self._job.resume:
                self._job.check_key(run.job)
                self._run, self._first, self._next, self._notes = run.run, run.first_row, run.next_row, run.notes
                return
            execute(self._table.delete().where(number >= run.first_row, number < run.next_row))
            execute(runs.delete().where(runs.c.run == run.run))
        self._run = (execute(select(func.max(runs.c.run))).scalar() or 0) + 1
        self._first = self._next = max(0, execute(select(func.max(number))).scalar() or 0) + 1
        begun = {"first_row": self._next, "next_row": self._next, "notes": 0, "finished": False}
        execute(runs.insert().values(run=self._run, table_name=self._name, job=self._job.key, **begun))
