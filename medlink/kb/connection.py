"""One read-only connection to a knowledge base file for each thread of each process."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, Connection, Engine, Select, create_engine
from sqlalchemy.exc import DatabaseError, ResourceClosedError
from sqlalchemy.pool import NullPool
from sqlalchemy.types import NullType

from medlink.bundles.parts import rebuild
from medlink.bundles.paths import MANIFEST, is_part, refuse_part
from medlink.errors import KnowledgeBaseError

REMEDY = "build it again with build_kb()"
OTHER = "name a file that build_kb() made, or a bundle"
"""Remedy for what is no knowledge base, and was none."""
_CHECK = "check the path, or make one there with build_kb()"
_SHOWN = 3  # files and folders that are named
_PART = 1_000
_SQLITE = b"SQLite format 3\0"


def nothing_at(path: Path) -> KnowledgeBaseError:
    """What to say of a path at which there is no knowledge base: what there is instead, and what may be named.

    Raises:
        BundleError: it is a part of a bundle.
    """
    refuse_part(path)
    if not path.exists():
        return KnowledgeBaseError("there is no knowledge base: no such file or folder", path=path, remedy=_CHECK)
    if not path.is_dir():
        return KnowledgeBaseError("there is no knowledge base: it is a pipe or a device", path=path, remedy=OTHER)
    inside: list[Path] = []
    with suppress(OSError):
        inside = sorted(path.iterdir())
    found = [one for one in inside if one.suffix == ".sqlite" or (one / MANIFEST).is_file()]
    remedy = f"name {' or '.join(map(str, found[:_SHOWN]))}" if found else OTHER
    if any(map(is_part, inside)):
        remedy = rebuild(path)
    return KnowledgeBaseError("there is no knowledge base in this folder", path=path, remedy=remedy)


class Reader:
    """Runs SQLAlchemy Core statements on a file, read-only.

    Connections open on first use and belong to one thread of one process: after a fork, or in another thread,
    a new one is opened. Pickling keeps the path only.

    Raises:
        KnowledgeBaseError: the reader was closed, or the file cannot be opened, is damaged or no knowledge base, or was
            replaced or closed while it was read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._closed = False
        # Connections of a parent process: not ours to close, and dropping them would close them.
        self._inherited: list[Any] = []
        # Weak, so that the connection of a thread goes with the thread.
        self._open: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._process = os.getpid()
        self._file: tuple[int, int, int, int] | None = None

    def __reduce__(self) -> tuple[type[Reader], tuple[Path]]:
        return Reader, (self.path,)

    def connection(self) -> Connection:
        """The connection of this thread and process.

        Another file than the one first opened is an error: what goes with it, such as an index, belongs to the old one.
        """
        if self._closed:
            raise KnowledgeBaseError("the knowledge base is closed", path=self.path, remedy="open it again")
        held: tuple[int, Connection] | None = getattr(self._local, "held", None)
        if held is not None and held[0] == os.getpid():
            return held[1]
        if held is not None:
            self._inherited.append(held)
        if self._process != os.getpid():
            self._inherited.extend(self._open)
            self._open, self._process = weakref.WeakSet(), os.getpid()
        try:
            found = self.path.stat()
        except OSError as error:
            raise KnowledgeBaseError(f"cannot be opened: {error.strerror}", path=self.path, remedy=REMEDY) from error
        file = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if self._file not in (None, file):
            raise KnowledgeBaseError("was replaced while it was open", path=self.path, remedy="open it again")
        self._file = file
        connection = _engine(self.path).connect()
        self._local.held = (os.getpid(), connection)
        self._open.add(connection)
        return connection

    def rows(self, statement: Select[Any] | CompoundSelect[Any], **values: Any) -> list[Any]:
        """All rows of a statement."""
        return list(self.stream(statement, **values))

    def stream(self, statement: Select[Any] | CompoundSelect[Any], **values: Any) -> Iterator[Any]:
        """Rows of a statement, a few at a time.

        SQLite gives what a damaged row seems to hold; a value of another type than its column's says that it is.
        """
        expected = [_python_type(column) for column in statement.selected_columns]
        seen: tuple[type, ...] = ()
        try:
            for part in self.connection().execute(statement, values).partitions(_PART):
                for row in part:
                    kinds = tuple(map(type, row))
                    if kinds != seen:
                        if any(kind not in wanted for kind, wanted in zip(kinds, expected, strict=True)):
                            raise KnowledgeBaseError("a row of it is damaged", path=self.path, remedy=REMEDY)
                        seen = kinds
                yield from part
        except (DatabaseError, sqlite3.Error, ResourceClosedError) as error:
            if not self._is_database():
                raise KnowledgeBaseError("is no medlink knowledge base", path=self.path, remedy=OTHER) from error
            reason = str(getattr(error, "orig", None) or error)
            message = f"cannot be read as a knowledge base: {reason}"
            raise KnowledgeBaseError(message, path=self.path, remedy=REMEDY) from error

    def _is_database(self) -> bool:
        with suppress(OSError), open(self.path, "rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
        return True  # what cannot be read may be one

    def close(self) -> None:
        """Close the connections of this process."""
        self._closed = True
        if self._process == os.getpid():
            for connection in list(self._open):
                connection.close()


def _python_type(column: ColumnElement[Any]) -> tuple[type, ...]:
    return (str, int) if isinstance(column.type, NullType) else (column.type.python_type,)


def _engine(path: Path) -> Engine:
    # immutable: the file is never changed in place, so SQLite needs no locks and reads it on any file system.
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"

    def connect() -> sqlite3.Connection:
        # Closing from another thread is allowed; queries never cross threads (see Reader).
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        connection.execute("PRAGMA mmap_size=1073741824")
        connection.execute("PRAGMA query_only=ON")
        return connection

    return create_engine(
        "sqlite://", creator=connect, poolclass=NullPool, isolation_level="AUTOCOMMIT", query_cache_size=200
    )
