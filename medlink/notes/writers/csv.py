"""CSV: one row for each mention, with a header. Empty cells are what there is not; lists are JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import LinkedMention
from medlink.notes.writers.rows import COLUMNS, csv_line, flat, row
from medlink.notes.writers.text import TextWriter


class CsvWriter(TextWriter):
    """The columns of :data:`~medlink.notes.writers.rows.COLUMNS`, in UTF-8, each cell as it is."""

    header = csv_line(COLUMNS)

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        """Lines of one note."""
        return (csv_line(flat(row(note, language, one, self.bundle)).values()) for one in mentions)
