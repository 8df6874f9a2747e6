"""Read notes from SQL databases, without passwords or stored values in errors."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medlink.errors import ConfigError, InputError, MedlinkError, MissingLibraryError, needs_extra
from medlink.notes.reading import Fields, Note, parse_row

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine
    from sqlalchemy.sql import FromClause

_ROWS = 256  # in memory

_ADDRESS_REMEDY = "write it as sqlite:///FILE or postgresql://USER@HOST/DATABASE"
_BACKENDS = ("sqlite", "postgresql")
_CONNECTION_REMEDY = (
    "check the address, the user and the password; PostgreSQL also reads passwords from ~/.pgpass or PGPASSWORD"
)


def is_database_address(text: str) -> bool:
    """Tell whether a text is the address of a database, not a path."""
    return "://" in text


def parse_address(address: str) -> URL:
    """Parse an address, with psycopg as the driver of PostgreSQL; errors do not quote the address."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise ConfigError("the address of the database cannot be read", remedy=_ADDRESS_REMEDY) from None
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def redact_address(url: URL) -> str:
    """Remove password and parameters from an address."""
    from sqlalchemy import URL

    plain = URL.create(url.drivername, url.username, None, url.host, url.port, url.database)
    return plain.render_as_string()


def database_file(address: str) -> str | None:
    """Return the file of an SQLite database, ``None`` for other databases."""
    url = parse_address(address)
    is_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return os.path.abspath(str(url.database)) if is_file else None  # noqa: PTH100 # do not follow links


@contextmanager
def open_database(address: str, *, reading: bool = False) -> Iterator[Engine]:
    """Open a database, and close it when the block ends; with ``reading`` SQLite and PostgreSQL refuse to write.

    Raises:
        ConfigError: the address cannot be parsed or is that of another database, or a library is not installed.
    """
    from sqlalchemy import create_engine
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SAWarning
    from sqlalchemy.pool import NullPool

    url = parse_address(address)
    if url.drivername == "postgresql+psycopg":
        with needs_extra("postgres", "PostgreSQL"):
            import psycopg  # noqa: F401 # SQLAlchemy needs it
    unsupported = MissingLibraryError(
        f"medlink has no driver for {url.drivername!r}, only for sqlite and postgresql",
        path=redact_address(url), remedy=_ADDRESS_REMEDY,
    )  # fmt: skip
    if url.get_backend_name() not in _BACKENDS:
        raise unsupported
    try:
        with warnings.catch_warnings():
            # SQLite ignores unknown parameters with a warning
            warnings.simplefilter("error", SAWarning)
            engine = create_engine(url, hide_parameters=True, poolclass=NullPool)
    except (NoSuchModuleError, ModuleNotFoundError):
        raise unsupported from None  # another driver
    except (ArgumentError, SAWarning, TypeError, ValueError):
        # the message may contain a password
        raise ConfigError(
            "the address of the database cannot be used", path=redact_address(url), remedy=_ADDRESS_REMEDY
        ) from None
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
def wrap_database_errors(url: URL, what: str, *, reading: bool = False) -> Iterator[None]:
    """Raise the errors of a database as InputError while ``reading``, else as ConfigError, with their code.

    Leaves out their messages, which may contain stored values, except for errors of the connection and missing tables
    or columns.
    """
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    kind: type[MedlinkError] = InputError if reading else ConfigError
    try:
        yield
    except DBAPIError as error:
        cause = error.orig
        code = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or ""
        problem = f"{type(cause).__name__} {code}".strip()
        # 08: connection, 28: authorisation, 3D: database, 42: missing object or right
        not_connected = not code and url.get_backend_name() in ("postgresql", "sqlite")
        is_statement = code == "SQLITE_ERROR" or str(code).startswith("42")
        if not_connected or is_statement or code == "SQLITE_CANTOPEN" or str(code).startswith(("08", "28", "3D")):
            line = str(cause).strip().partition("\n")[0]
            problem += f": {line.replace(url.password, '***') if url.password else line}"
        if str(code).startswith("SQLITE_BUSY"):
            problem += ": another process is writing it"
        remedy = "check the table or the query, and the rights of the user" if is_statement else _CONNECTION_REMEDY
        raise kind(f"{what}: {problem}", path=redact_address(url), remedy=remedy) from None
    except SQLAlchemyError as error:
        raise kind(f"{what}: {type(error).__name__}", path=redact_address(url), remedy=_CONNECTION_REMEDY) from None


@dataclass(frozen=True, slots=True)
class SqlNotes:
    """Notes in a database: its address, and a ``table`` (``SCHEMA.TABLE``) or a ``query``.

    The columns are those of :class:`Fields`; the language column is optional. The order by id makes runs resumable. The
    password in the address is never shown.

    Raises:
        ConfigError: the address cannot be parsed, or not exactly one of table and query is given. The methods raise
            InputError if the database cannot be read or lacks a column.
    """

    address: str
    table: str | None = None
    query: str | None = None

    def __post_init__(self) -> None:
        parse_address(self.address)
        if bool(self.table) == bool(self.query):
            raise ConfigError("a database needs a table or a query, and not both", remedy="give one of them")

    def __repr__(self) -> str:
        return f"SqlNotes({self.redacted_address}, {self.table or 'a query'})"

    @property
    def redacted_address(self) -> str:
        return redact_address(parse_address(self.address))

    def state(self, fields: Fields) -> dict[str, Any]:
        """Return the facts that a resumed run must share: address, number of rows, first and last id."""
        from sqlalchemy import func, select

        with self._open() as engine:
            rows, _ = self._rows(engine, fields)
            key = rows.c[fields.note_id]
            with engine.connect() as connection:
                number, first, last = connection.execute(select(func.count(), func.min(key), func.max(key))).one()
        rows_state = {"rows": number, "first": str(first), "last": str(last)}
        return {"database": self.redacted_address, "table": self.table, "query": self.query, **rows_state}

    def notes(self, fields: Fields, skip: int = 0) -> Iterator[Note]:
        """Yield the notes after the first ``skip`` notes; the database returns them in batches."""
        from sqlalchemy import String, cast, select

        with self._open() as engine:
            rows, names = self._rows(engine, fields)
            # order rows of equal ids by the other columns
            others = [cast(rows.c[name], String) for name in names if name != fields.note_id]
            statement = select(*(rows.c[name] for name in names)).order_by(rows.c[fields.note_id], *others).offset(skip)
            with (
                engine.connect().execution_options(stream_results=True, yield_per=_ROWS) as connection,
                connection.execute(statement) as result,
            ):
                for number, row in enumerate(result.mappings(), skip + 1):
                    yield parse_row(dict(row), f"{self.table or 'query'}:{number}", fields)

    @contextmanager
    def _open(self) -> Iterator[Engine]:
        file = database_file(self.address)
        if file is not None and not Path(file).is_file():  # SQLite would create it
            raise InputError("no such file", path=file, remedy="check the path")
        with (
            open_database(self.address, reading=True) as engine,
            wrap_database_errors(engine.url, "the notes cannot be read", reading=True),
        ):
            yield engine

    def _rows(self, engine: Engine, fields: Fields) -> tuple[FromClause, list[str]]:
        from sqlalchemy import column, inspect, table, text

        if self.query is None:
            schema, _, name = (self.table or "").rpartition(".")
            inspector = inspect(engine)
            if not inspector.has_table(name, schema or None):
                known = ", ".join(sorted(inspector.get_table_names(schema or None))[:10]) or "none"
                message = f"no table {self.table!r}; the tables are: {known}"
                raise InputError(
                    message, path=self.redacted_address, remedy="name one of them, with its schema if it has one"
                )
            present = {found["name"] for found in inspector.get_columns(name, schema or None)}
            # without types: SQLAlchemy fails on an empty text in a column of dates of SQLite
            rows: FromClause = table(name, *map(column, sorted(present)), schema=schema or None)
        else:
            # escape colons, which SQLAlchemy reads as parameters; the line end closes a last comment
            escaped = text(re.sub(r":(?=\w)", r"\\:", self.query.strip().rstrip(";")) + "\n")
            with engine.connect() as connection:
                head = connection.execute(text(f"SELECT * FROM ({escaped.text}) AS notes WHERE 1 = 0"))  # noqa: S608 # the user's own query
                present = set(head.keys())
            rows = escaped.columns(*map(column, sorted(present))).subquery("notes")
        for option, name in fields.by_option().items():
            if name not in present and (option != "language" or name != Fields().language):
                message = f"no column {name!r}; the columns are: {', '.join(sorted(present))}"
                remedy = f"name the column of the {option} with --{option}-field"
                raise InputError(message, path=self.redacted_address, remedy=remedy)
        return rows, list(dict.fromkeys(name for name in fields.by_option().values() if name in present))
