"""What a re-ranker said, kept in a folder under hashes: no word of a note, and no name, is in it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from medlink.errors import ConfigError
from medlink.linking.rankers.shown import Shown

FILE = "rankings.sqlite"
_WAIT = 30.0  # seconds for another process that writes


class RankerCache:
    """Lists of numbers under hashes, in one file of a folder that several processes may use.

    Raises:
        ConfigError: it cannot be made or read, or is none of this kind.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / FILE
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"the cache of the ranker cannot be written: {error.strerror}"
            raise ConfigError(message, path=folder, remedy="name a folder that can be written to") from error
        with self._open() as file:
            # two processes may begin at one time
            file.execute("CREATE TABLE IF NOT EXISTS said (key BLOB PRIMARY KEY, numbers TEXT NOT NULL) WITHOUT ROWID")
            file.execute("SELECT key, numbers FROM said LIMIT 1").fetchone()

    def get(self, keys: Sequence[bytes]) -> list[list[float] | None]:
        """What is kept under each of the keys."""
        with self._open() as file:
            rows = [file.execute("SELECT numbers FROM said WHERE key = ?", (key,)).fetchone() for key in keys]
            return [None if row is None else [float(one) for one in json.loads(row[0])] for row in rows]

    def put(self, said: dict[bytes, list[float]]) -> None:
        """Keep numbers under keys."""
        if said:
            with self._open() as file:
                rows = [(key, json.dumps(numbers)) for key, numbers in said.items()]
                file.executemany("INSERT OR REPLACE INTO said VALUES (?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # opened each time: a connection must not be carried into a worker process
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT)) as file, file:
                yield file
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            why = str(error) if isinstance(error, sqlite3.Error) else "a value is no list of numbers"
            remedy = "delete the file, or name another folder"
            raise ConfigError(
                f"the cache of the ranker cannot be used: {why}", path=self.path, remedy=remedy
            ) from error


def key_of(bundle: str, ranker: str, mention: str, language: str | None, context: str, shown: Sequence[Shown]) -> bytes:
    """The hash under which the answer of a ranker is kept; ``bundle`` and ``ranker`` are hashes, too."""
    told = [bundle, ranker, mention, language, context, [[one.concept_id, one.text] for one in shown]]
    return hashlib.sha256(json.dumps(told, ensure_ascii=True).encode("ascii")).digest()
