"""The notes that could not be linked, in a file beside the output."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from medlink.errors import ConfigError
from medlink.files.json import json_line, parse_json
from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import Job, LinkedMention, Writer
from medlink.notes.writers.rows import note_name
from medlink.notes.writers.text import TextWriter


class Failures(TextWriter):
    """A JSON line for each note that could not be linked: number in the run, id, place, problem, remedy; no text."""

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterable[str]:
        """Nothing: a note that was linked is no failure."""
        return ()

    def add(self, number: int, note: Note) -> None:
        """Add a note, the ``number``-th of the run."""
        said = {"number": number, "note": note_name(note)}
        self._file.write(json_line({**said, "place": note.place, "problem": note.problem, "remedy": note.remedy}))

    def rewind(self, done: int) -> None:
        """Keep the failures of the first ``done`` notes alone, which the output of the killed run had reached."""
        if self._unfinished is None:
            return
        # a run that was killed between the places of the failures and of the output left its failures in their place
        if done and self._unfinished.is_placed and self._unfinished.out.exists():
            with self._unfinished.out.open("rb") as lines:
                self._file.writelines(line.decode() for line in _first(lines, done))
        else:
            with self._unfinished.part.open("rb") as lines:
                self._file.seek(sum(len(line) for line in _first(lines, done)))
            self._file.truncate()
        self.commit(done)


def _first(lines: Iterable[bytes], done: int) -> Iterator[bytes]:
    """The failures of the first ``done`` notes."""
    return takewhile(lambda line: parse_json(line.decode())["number"] <= done, lines)


class Recorded:
    """A writer with a file of failures, where one is asked for, which both go on where a run stopped."""

    def __init__(self, sink: Writer, failures: str | Path | None) -> None:
        self._sink = sink
        self._failures = None if failures is None else Failures(failures)
        self._place = failures

    def open(self, job: Job) -> int:
        """Begin or go on with both; how many notes are written already."""
        out = getattr(self._sink, "out", None)
        same = out is not None and self._place is not None and os.path.realpath(out) == os.path.realpath(self._place)
        if same:
            raise ConfigError("the output and the failures are one file", path=out, remedy="name another file")
        done = self._sink.open(job)
        if self._failures is not None:
            try:
                self._failures.open(job)
            except BaseException as error:
                self._sink.close(error)
                raise
            self._failures.rewind(done)
        return done

    def write(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> None:
        """Add the links of one note."""
        self._sink.write(note, language, mentions)

    def failed(self, number: int, note: Note) -> None:
        """Add a note that could not be linked."""
        if self._failures is not None:
            self._failures.add(number, note)

    def commit(self, notes: int) -> None:
        """Make both safe: failures first, of which those that are too many are taken away after a kill."""
        if self._failures is not None:
            self._failures.commit(notes)
        self._sink.commit(notes)

    def close(self, error: BaseException | None = None) -> None:
        """End both, failures first: an output that has its place has them beside it."""
        try:
            if self._failures is not None:
                self._failures.close(error)
        except BaseException as other:
            error = other
            raise
        finally:
            self._sink.close(error)
