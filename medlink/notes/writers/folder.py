"""``FolderWriter``: the base of formats that are folders of files, which appear when all files are there."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from medlink.errors import ConfigError
from medlink.files.folders import sync, whole_folder
from medlink.files.whole import check_targets
from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import Job, LinkedMention
from medlink.notes.writers.text import OTHER, TextWriter, write_state

_STATE = ".medlink.json"


class FolderWriter(TextWriter):
    """Files in a folder, made when all is there of what grows as JSON lines in the unfinished file.

    A hidden file in the folder tells it, which a later run replaces, from one that is not of medlink, which is refused.
    A format gives :meth:`lines`, one for each note, and :meth:`files`.

    Attributes:
        written: notes so far, those of the run that is resumed too.
    """

    def __init__(self, out: str | Path | None) -> None:
        if out is None:
            raise ConfigError("this format needs a folder for its output", remedy="name one with out")
        super().__init__(out)

    @abstractmethod
    def files(self, lines: Iterable[Any]) -> Iterator[tuple[str, bytes]]:
        """The names and contents of the files, of the values of all lines."""

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        """Add the line of one note."""
        before = self.written
        super().write(note, language, mentions)
        self.written = before + 1

    def check(self, job: Job) -> bool:
        """Refuse what is there and not of medlink; a folder grows beside its place."""
        target = Path(os.path.realpath(self.out or ""))
        if target.exists() and not target.is_dir():
            message = "the output is a file, and this format is a folder"
            raise ConfigError(message, path=target, remedy="name a folder")
        inside = [path.name for path in target.iterdir()] if target.is_dir() else []
        if inside and _STATE not in inside:
            raise ConfigError("the output is a folder that medlink did not write", path=target, remedy=OTHER)
        # a file in a folder that is not there yet would lie in none
        check_targets({"the output": target / _STATE if target.is_dir() else target}, job.reads)
        return True

    def place(self, part: Path, out: Path) -> None:
        """Make the files."""
        with part.open(encoding="utf-8", newline="\n") as lines, whole_folder(out, "the output") as folder:
            for name, content in self.files(map(json.loads, lines)):
                (folder / name).write_bytes(content)
                sync(folder / name)
            write_state(folder / _STATE, job=self._job.key, notes=self._notes, written=self.written)
