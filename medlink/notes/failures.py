"""The notes that could not be linked, in a file beside the output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from medlink.files.json import json_line, parse_json
from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import LinkedMention
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
        if self.out is None or self._part is None:
            return
        # a run that was killed between the places of the failures and of the output left its failures in their place
        placed = done > 0 and self._is_placed and self.out.exists()
        with (self.out if placed else self._part).open("rb") as lines:
            kept = takewhile(lambda line: parse_json(line.decode())["number"] <= done, lines)
            if placed:
                self._file.writelines(line.decode() for line in kept)
            else:
                self._file.seek(sum(map(len, kept)))
        self._file.truncate()
        self.commit(done)
