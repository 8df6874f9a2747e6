"""Read-only SQLite connections, one for each thread of each process."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Engine, Select, create_engine
from sqlalchemy.exc import DatabaseError, ResourceClosedError
from sqlalchemy.pool import NullPool
from sqlalchemy.types import NullType

from medlink.bundles.parts import rebuild_remedy
from medlink.bundles.paths import MANIFEST, check_not_in_bundle, is_part
from medlink.errors import KnowledgeBaseError

REBUILD_REMEDY = "build it again with build_kb()"
OTHER_FILE_REMEDY = "name a file that build_kb() made, or a bundle"
"""Remedy for a file that never was a knowledge base."""
_CHECK = "check the path, or make one there with build_kb()"
_MAX_NAMED = 3  # files and folders in a remedy
_BATCH = 1_000
_SQLITE = b"SQLite format 3\0"
# the words of the search index as a table of the connection
_OPEN_WORDS = "CREATE VIRTUAL TABLE temp.name_word USING fts5vocab(main, name_search, row)"


def not_found_error(path: Path) -> KnowledgeBaseError:
    """Build the error for a path without a knowledge base; raises :class:`BundleError` for a part of a bundle."""
    check_not_in_bundle(path)
    where, remedy = " in this folder", OTHER_FILE_REMEDY
    if not path.exists():
        where, remedy = ": no such file or folder", _CHECK
    elif not path.is_dir():
        where = ": it is a pipe or a device"
    else:
        entries: list[Path] = []
        with suppress(OSError):
            entries = sorted(path.iterdir())
        candidates = [entry for entry in entries if entry.suffix == ".sqlite" or (entry / MANIFEST).is_file()]
        if any(map(is_part, entries)):
            remedy = rebuild_remedy(path)
        elif candidates:
            remedy = f"name {' or '.join(map(str, candidates[:_MAX_NAMED]))}"
    return KnowledgeBaseError(f"there is no knowledge base{where}", path=path, remedy=remedy)


class SqliteReader:
    """Runs SQLAlchemy Core statements on a file, read-only.

    A connection opens on first use and belongs to one thread of one process, so threads and forked processes open their
    own. Pickling keeps the path only.

    Raises:
        KnowledgeBaseError: the reader is closed, or the file cannot be opened, is damaged, is not a knowledge base, or
            was replaced or closed while it was read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._closed = False
        # connections of a parent process, kept alive because deleting them would close them
        self._inherited: list[Any] = []
        # weak, so that a connection ends with its thread
        self._open: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._process = os.getpid()
        self._file: tuple[int, int, int, int] | None = None

    def __reduce__(self) -> tuple[type[SqliteReader], tuple[Path]]:
        return SqliteReader, (self.path,)

    def connection(self) -> Connection:
        """Return the connection of this thread and process.

        Raises if the file was replaced since it was first opened: an index and other parts belong to the old file.
        """
        if self._closed:
            raise KnowledgeBaseError("the knowledge base is closed", path=self.path, remedy="open it again")
        owned: tuple[int, Connection] | None = getattr(self._local, "owned", None)
        if owned is not None:
            if owned[0] == os.getpid():
                return owned[1]
            self._inherited.append(owned)
        if self._process != os.getpid():
            self._inherited.extend(self._open)
            self._open, self._process = weakref.WeakSet(), os.getpid()
        try:
            status = self.path.stat()
        except OSError as error:
            message = f"cannot be opened: {error.strerror}"
            raise KnowledgeBaseError(message, path=self.path, remedy=REBUILD_REMEDY) from error
        file = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if self._file not in (None, file):
            raise KnowledgeBaseError("was replaced while it was open", path=self.path, remedy="open it again")
        self._file = file
        connection = _engine(self.path).connect()
        self._local.owned = (os.getpid(), connection)
        self._open.add(connection)
        return connection

    def rows(self, statement: Select[Any] | CompoundSelect[Any], **values: Any) -> list[Any]:
        return list(self.stream(statement, **values))

    def stream(self, statement: Select[Any] | CompoundSelect[Any], **values: Any) -> Iterator[Any]:
        """Yield the rows of a statement, fetched in batches.

        Raises if a value has another type than its column: SQLite returns damaged rows without an error.
        """
        types_of = [column.type for column in statement.selected_columns]
        expected = [(str, int) if isinstance(kind, NullType) else (kind.python_type,) for kind in types_of]
        seen: tuple[type, ...] = ()
        try:
            for batch in self.connection().execute(statement, values).partitions(_BATCH):
                for row in batch:
                    types = tuple(map(type, row))
                    if types != seen:
                        if any(actual not in allowed for actual, allowed in zip(types, expected, strict=True)):
                            raise KnowledgeBaseError("a row of it is damaged", path=self.path, remedy=REBUILD_REMEDY)
                        seen = types
                yield from batch
        except (DatabaseError, sqlite3.Error, ResourceClosedError) as error:
            message = f"cannot be read as a knowledge base: {getattr(error, 'orig', None) or error}"
            remedy = REBUILD_REMEDY
            # an unreadable file may be a knowledge base
            with suppress(OSError), open(self.path, "rb") as file:
                if file.read(len(_SQLITE)) != _SQLITE:
                    message, remedy = "is not a medlink knowledge base", OTHER_FILE_REMEDY
            raise KnowledgeBaseError(message, path=self.path, remedy=remedy) from error

    def close(self) -> None:
        """Close the connections of this process."""
        self._closed = True
        if self._process == os.getpid():
            for connection in list(self._open):
                connection.close()


def _engine(path: Path) -> Engine:
    # immutable: the file is never changed in place, so SQLite needs no locks and works on any file system
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"

    def connect() -> sqlite3.Connection:
        # close() may run in another thread; queries never do
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        connection.execute("PRAGMA mmap_size=1073741824")
        with suppress(sqlite3.Error):  # the first query reports what is wrong with the file
            connection.execute(_OPEN_WORDS)
        connection.execute("PRAGMA query_only=ON")
        return connection

    return create_engine(
        "sqlite://", creator=connect, poolclass=NullPool, isolation_level="AUTOCOMMIT", query_cache_size=200
    )
