"""Where the notes of a run come from: files, standard input, a database, or objects of the caller."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

from medlink.errors import ConfigError
from medlink.files.problems import counted
from medlink.files.streams import input_size
from medlink.notes.database import file_of, is_address
from medlink.notes.readers.sql import SqlNotes
from medlink.notes.reading import STANDARD_INPUT, Fields, Note, find_inputs, read_notes

_COMPARED = 1_000_000
"""Notes, from the first, whose ids later ones are compared with: memory does not grow beyond."""
Inputs = str | Path | SqlNotes | Iterable[str | Path] | Iterable[Note]


class Source:
    """The notes of a run, and what must not change before it is resumed.

    Attributes:
        left_out: files of folders that are no notes, by ending.
        skipped: notes that the run before had finished.
        same_id, first_same_id: notes so far that have the id of one before them, and the first of these, without text.
    """

    def __init__(self, inputs: Inputs, fields: Fields, encoding: str) -> None:
        self.fields, self.encoding = fields, encoding
        self.paths: list[str] = []
        self.left_out: Counter[str] = Counter()
        self.same_id = self.skipped = 0
        self.first_same_id: Note | None = None
        self._named: list[str] = []
        self._notes: Iterable[Note] | None = None
        self._table: SqlNotes | None = None
        self._seen, self._read, self._whole = Counter[str](), 0, 0
        if isinstance(inputs, SqlNotes):
            self._table = inputs
            return
        given = iter([inputs] if isinstance(inputs, str | Path) else inputs)
        first = next(given, None)
        whole = () if first is None else chain([first], given)
        if isinstance(first, Note):
            self._notes = cast("Iterable[Note]", whole)
            return
        self._named = [str(one) for one in whole]
        for one in self._named:
            if is_address(one) and not Path(one).exists():
                remedy = "give it with sql=..., and a table or a query with it; in Python as SqlNotes"
                raise ConfigError("the address of a database is no file of notes", remedy=remedy)
        self.paths, self.left_out = find_inputs(self._named)
        self._whole = 0 if STANDARD_INPUT in self.paths else sum(map(input_size, self.paths))

    def after(self, done: int) -> Iterator[Note]:
        """The notes behind the first ``done``. Those of files are read once more, so that their ids are known."""
        skip = done if self._table is not None else 0
        self._seen["notes"] = self._read = skip
        notes = self._watched(self._all(skip))
        self.skipped = skip + sum(1 for _ in islice(notes, done - skip))
        return notes

    def expected(self) -> int:
        """How many notes there are by the share of the input that was read; 0 where nobody knows."""
        return round(self._seen["notes"] * self._whole / self._read) if self._read else 0

    def missing(self) -> Iterator[str]:
        """What to say of empty notes, and of fields that the user named and no note has."""
        seen = self._seen
        if seen["empty"]:
            yield f"{counted(seen['empty'], 'note')} without text"
        instead_of = {"language": "languages were found out", "note_id": "notes are named by file and line"}
        for name, instead in instead_of.items():
            asked = getattr(self.fields, name)
            if seen["text"] and not seen[name] and asked != getattr(Fields(), name):
                yield f"no note has the field {asked!r}: {instead}"

    @property
    def resumable(self) -> bool:
        """Whether the notes can be read again from the start."""
        return self._notes is None and STANDARD_INPUT not in self.paths

    def reads(self) -> list[str | int | Path]:
        """What is read and must not be written over."""
        if self._table is not None:
            file = file_of(self._table.address)
            return [] if file is None else [file]
        read: list[str | int | Path] = [path for path in (*self._named, *self.paths) if path != STANDARD_INPUT]
        if STANDARD_INPUT in self.paths:
            with suppress(OSError, AttributeError):  # closed, or no open file of the system
                read.append(sys.stdin.fileno())
        return read

    def state(self, resume: bool) -> Any:
        """Inputs with size and time of change: only with the same notes is a run resumed."""
        if resume and not self.resumable:
            what = "standard input" if self._notes is None else "a run on notes that are no files"
            raise ConfigError(f"{what} cannot be resumed", remedy="put the notes into a file")
        if self._table is not None:
            held = self._table.state(self.fields)
            self._whole = held["rows"]
            return held
        found = [(path, Path(path).stat()) for path in self.paths if path != STANDARD_INPUT]
        return [(path, status.st_size, status.st_mtime_ns) for path, status in found]

    def _all(self, skip: int) -> Iterator[Note]:
        if self._table is not None:
            for note in self._table.notes(self.fields, skip):
                self._read += 1
                yield note
        elif self._notes is not None:
            yield from self._notes
        else:
            yield from read_notes(self.paths, self.fields, self.encoding, self._took)

    def _took(self, size: int) -> None:
        self._read += size

    def _watched(self, notes: Iterable[Note]) -> Iterator[Note]:
        """The notes; empty ones are counted, those with the id of an earlier one, and the fields of lines."""
        seen, ids = self._seen, set[int]()
        for note in notes:
            seen["notes"] += 1
            seen["empty"] += note.problem is None and not note.text.strip()
            if note.place is not None and note.problem is None:
                seen["text"] += 1
                seen["language"] += note.language is not None
                seen["note_id"] += note.note_id != note.place
            key = hash(note.note_id)
            if key in ids and note.problem is None:
                self.same_id += 1
                self.first_same_id = self.first_same_id or replace(note, text="")
            if len(ids) < _COMPARED:
                ids.add(key)
            yield note
