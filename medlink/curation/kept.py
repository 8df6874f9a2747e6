"""The table of decisions of a review: written whole after each decision, and never over a change that was not read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from threading import Lock

from medlink.curation.decisions import Decisions
from medlink.errors import ConfigError, InputError
from medlink.files.folders import StrPath
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.whole import whole_file
from medlink.kb.decided import COLUMNS, PLACE, Decision, read_decided

HEADER = "\t".join((*COLUMNS, *PLACE)) + "\n"


class Changed(InputError):
    """The table is not what was read, so that writing it would lose what another program wrote."""


class Kept:
    """A table of decisions on the disk.

    Args:
        path: the table; it need not be there.

    Raises:
        ConfigError: its name is one of a packed file.
        InputError: it is there and cannot be read, see :func:`medlink.kb.decided.read_decided`.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        if self.path.suffix == ".gz":
            raise ConfigError("decisions are not packed", path=path, remedy="name a file without .gz")
        self._lock = Lock()
        self.rows = self._checked(self.content()[0]) if self.path.exists() else []

    def content(self) -> tuple[bytes, str]:
        """The table as it is now, and its hash; a header where it is not there."""
        data = self.path.read_bytes() if self.path.exists() else HEADER.encode()
        return data, hashlib.sha256(data).hexdigest()

    def put(self, data: bytes, revision: str) -> str:
        """Write the table, whole, and give its hash.

        Args:
            data: the table.
            revision: hash of the table that was read before.

        Raises:
            Changed: the table on the disk is another one; nothing is written.
            InputError: ``data`` is no table of decisions; nothing is written.
            ConfigError: it cannot be written.
        """
        with self._lock:
            if self.content()[1] != revision:
                remedy = "reload the page, and decide again what it does not show"
                raise Changed("was changed by another page or program", path=self.path, remedy=remedy)
            self.rows = self._checked(data)
            with whole_file(self.path, "the decisions") as file:
                file.write(data)
            return hashlib.sha256(data).hexdigest()

    def _checked(self, data: bytes) -> list[Decision]:
        rows = list(read_decided(LineFile(self.path, Problems(), stream=BytesIO(data))))
        Decisions(self.path, rows)
        return rows


def check_places(rows: Iterable[Decision], path: StrPath, texts: dict[str, str]) -> None:
    """Refuse decisions about mentions whose words do not stand at their places.

    Args:
        rows: decisions.
        path: their table, for errors.
        texts: those of notes, by their ids; mentions of other notes are not looked at.

    Raises:
        InputError: other words stand there.
    """
    for row in rows:
        if (
            row.start < row.end
            and row.item in texts
            and " ".join(texts[row.item][row.start : row.end].split()) != row.term
        ):
            remedy = "give the notes that were reviewed, or take the row out"
            raise InputError("other words stand at its place in the note", path=path, line=row.line, remedy=remedy)
