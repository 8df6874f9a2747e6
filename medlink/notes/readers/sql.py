"""Notes as rows of a table, or of a query, in any database that SQLAlchemy speaks to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medlink.errors import ConfigError, InputError
from medlink.notes.database import file_of, opened, parsed, shown, told
from medlink.notes.readers.protocol import Fields, Note, as_note

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.sql import FromClause

_ROWS = 256  # rows that are in memory


@dataclass(frozen=True, slots=True)
class SqlNotes:
    """Where notes are in a database: its address, and a ``table`` (``SCHEMA.TABLE``), or a ``query`` that reads.

    The columns are those of :class:`Fields`; the one of the language may be missing. Rows come in the order of the ids,
    so that a run can be resumed. The address may hold a password, which is shown nowhere.

    >>> SqlNotes("postgresql://reader:secret@host/ward", "notes")
    SqlNotes(postgresql+psycopg://reader@host/ward, notes)

    Raises:
        ConfigError: the address cannot be read, or there is not one of table and query. An InputError of its methods:
            the database cannot be read, or lacks a column.
    """

    address: str
    table: str | None = None
    query: str | None = None

    def __post_init__(self) -> None:
        parsed(self.address)
        if bool(self.table) == bool(self.query):
            raise ConfigError("a database needs a table or a query, and not both", remedy="give one of them")

    def __repr__(self) -> str:
        return f"SqlNotes({self.place}, {self.table or 'a query'})"

    @property
    def place(self) -> str:
        """The address without its password."""
        return shown(parsed(self.address))

    def state(self, fields: Fields) -> dict[str, Any]:
        """What must not change before a run is resumed: the place, the number of rows, the first and the last id."""
        from sqlalchemy import func, select

        with self._opened() as engine:
            rows, _ = self._rows(engine, fields)
            key = rows.c[fields.note_id]
            with engine.connect() as connection:
                number, first, last = connection.execute(select(func.count(), func.min(key), func.max(key))).one()
        held = {"rows": number, "first": str(first), "last": str(last)}
        return {"database": self.place, "table": self.table, "query": self.query, **held}

    def notes(self, fields: Fields, skip: int = 0) -> Iterator[Note]:
        """The notes behind the first ``skip``; the database hands them over some at a time."""
        from sqlalchemy import String, cast, select

        with self._opened() as engine:
            rows, names = self._rows(engine, fields)
            # equal ids come in an order too
            others = [cast(rows.c[name], String) for name in names if name != fields.note_id]
            asked = select(*(rows.c[name] for name in names)).order_by(rows.c[fields.note_id], *others).offset(skip)
            with (
                engine.connect().execution_options(stream_results=True, yield_per=_ROWS) as connection,
                connection.execute(asked) as found,
            ):
                for number, row in enumerate(found.mappings(), skip + 1):
                    yield as_note(dict(row), f"{self.table or 'query'}:{number}", fields)

    @contextmanager
    def _opened(self) -> Iterator[Engine]:
        file = file_of(self.address)
        if file is not None and not Path(file).is_file():  # a database would be made there
            raise InputError("no such file", path=file, remedy="check the path")
        with opened(self.address, reading=True) as engine, told(engine.url, "the notes cannot be read", reading=True):
            yield engine

    def _rows(self, engine: Engine, fields: Fields) -> tuple[FromClause, list[str]]:
        """What is read from, and the columns to read."""
        from sqlalchemy import MetaData, Table, column, inspect, text

        if self.query is None:
            schema, _, name = (self.table or "").rpartition(".")
            inspector = inspect(engine)
            if not inspector.has_table(name, schema or None):
                known = ", ".join(sorted(inspector.get_table_names(schema or None))[:10]) or "none"
                message = f"no table {self.table!r}; the tables are: {known}"
                raise InputError(message, path=self.place, remedy="name one of them, with its schema where it has one")
            table = Table(name, MetaData(), schema=schema or None, autoload_with=engine)
            found = {one.name for one in table.columns}
            rows: FromClause = table
        else:
            # a colon is none of SQLAlchemy's parameters; a last comment ends with its line
            written = text(re.sub(r":(?=\w)", r"\\:", self.query.strip().rstrip(";")) + "\n")
            with engine.connect() as connection:
                head = connection.execute(text(f"SELECT * FROM ({written.text}) AS notes WHERE 1 = 0"))  # noqa: S608 # the user's own query
                found = set(head.keys())
            rows = written.columns(*map(column, sorted(found))).subquery("notes")
        for option, name in fields.named().items():
            if name not in found and (option != "language" or name != Fields().language):
                message = f"no column {name!r}; the columns are: {', '.join(sorted(found))}"
                remedy = f"name the column of the {option} with --{option}-field"
                raise InputError(message, path=self.place, remedy=remedy)
        return rows, list(dict.fromkeys(name for name in fields.named().values() if name in found))
