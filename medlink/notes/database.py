"""Databases of the user: addresses without their passwords, and errors without a word of what is stored."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from medlink.errors import ConfigError, InputError, MedlinkError, needs_extra

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

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
    """Let a database refuse what a query of the user might write by mistake."""
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
