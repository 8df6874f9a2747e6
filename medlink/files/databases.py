"""SQLite files that medlink writes: what the system says where there is no room for them."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)


@contextmanager
def room_for(path: Path) -> Iterator[None]:
    """Let a full disk be the ``OSError`` that writing any other file raises; SQLite has an error of its own."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode not in _NO_ROOM:
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
