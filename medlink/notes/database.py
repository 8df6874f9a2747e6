"""Databases of the user: addresses without passwords, errors without a word of what is stored, and notes in them."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medlink.errors import ConfigError, InputError, MedlinkError, needs_extra
from medlink.notes.reading import Fields, Note, as_note

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine
    from sqlalchemy.sql import FromClause

_ROWS = 256  # rows that are in memory

_WRITE = "write it as sqlite:///FILE or postgresql://USER@HOST/DATABASE"
_REACH = "check the address, the user and the password; PostgreSQL takes passwords from ~/.pgpass or PGPASSWORD too"


def is_address(place: str) -> bool:
    """Whether a text is the address of a database and not a path."""
    return "://" in place


def parsed(address: str) -> URL:
    """An address, that of PostgreSQL for psycopg; ConfigError, without a word of it, where it cannot be parsed."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise ConfigError("the address of the database cannot be read", remedy=_WRITE) from None
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def shown(url: URL) -> str:
    """An address without password and parameters."""
    from sqlalchemy import URL

    plain = URL.create(url.drivername, url.username, None, url.host, url.port, url.database)
    return plain.render_as_string()


def file_of(address: str) -> str | None:
    """The file of a database that is one."""
    url = parsed(address)
    is_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return os.path.abspath(str(url.database)) if is_file else None  # noqa: PTH100 # no link is followed


@contextmanager
def opened(address: str, *, reading: bool = False) -> Iterator[Engine]:
    """A database, closed when the block ends; SQLite and PostgreSQL refuse to write in one for ``reading``.

    Raises:
        ConfigError: the address cannot be read, or the library for its kind of database is not installed.
    """
    from sqlalchemy import create_engine
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SAWarning
    from sqlalchemy.pool import NullPool

    url = parsed(address)
    if url.drivername == "postgresql+psycopg":
        with needs_extra("postgres", "PostgreSQL"):
            import psycopg  # noqa: F401 # SQLAlchemy asks for it
    try:
        with warnings.catch_warnings():
            # of parameters that SQLite does not take
            warnings.simplefilter("error", SAWarning)
            engine = create_engine(url, hide_parameters=True, poolclass=NullPool)
    except NoSuchModuleError:
        message = f"SQLAlchemy knows no database {url.drivername!r}"
        raise ConfigError(message, path=shown(url), remedy="give one such as sqlite or postgresql") from None
    except ModuleNotFoundError as error:
        message = f"{url.drivername} needs {error.name}, which is not installed"
        raise ConfigError(message, path=shown(url), remedy=f"pip install {error.name}") from None
    except (ArgumentError, SAWarning, TypeError, ValueError):
        # the message may hold a password
        raise ConfigError("the address of the database cannot be used", path=shown(url), remedy=_WRITE) from None
    if reading:
        _refuse_to_write(engine)
    try:
        yield engine
    finally:
        engine.dispose()


def _refuse_to_write(engine: Engine) -> None:
    from sqlalchemy import event

    commands = {"sqlite": "PRAGMA query_only = ON", "postgresql": "SET default_transaction_read_only = on"}
    command = commands.get(engine.dialect.name)
    if command is not None:

        def begin(connection: Any, _: object) -> None:
            connection.execute(command)
            connection.commit()

        event.listen(engine, "connect", begin)


@contextmanager
def told(url: URL, what: str, *, reading: bool = False) -> Iterator[None]:
    """Turn what the database refuses in a block into one error with its code.

    A message of the database may hold what is stored, so it is left out. Those about the connection, and about tables
    and columns that do not exist, hold nothing of the kind and are given. It is an :class:`InputError` where it
    happened while ``reading``, else a :class:`ConfigError`.
    """
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    kind: type[MedlinkError] = InputError if reading else ConfigError
    try:
        yield
    except DBAPIError as error:
        cause = error.orig
        code = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or ""
        said = f"{type(cause).__name__} {code}".strip()
        # 08: connection, 28: authorisation, 3D: database; 42: what is not there, or may not be done
        unreached = not code and url.get_backend_name() in ("postgresql", "sqlite")
        if unreached or str(code).startswith(("08", "28", "3D", "42")) or code in ("SQLITE_CANTOPEN", "SQLITE_ERROR"):
            line = str(cause).strip().partition("\n")[0]
            said += f": {line.replace(url.password, '***') if url.password else line}"
        if str(code).startswith("SQLITE_BUSY"):
            said += ": another process is writing it"
        raise kind(f"{what}: {said}", path=shown(url), remedy=_REACH) from None
    except SQLAlchemyError as error:
        raise kind(f"{what}: {type(error).__name__}", path=shown(url), remedy=_REACH) from None


@dataclass(frozen=True, slots=True)
class SqlNotes:
    """Where notes are in a database: its address, and a ``table`` (``SCHEMA.TABLE``), or a ``query`` that reads.

    The columns are those of :class:`Fields`; the one of the language may be missing. Rows come in the order of the ids,
    so that a run can be resumed. The address may hold a password, which is shown nowhere.

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
