"""Notes as CSV and TSV: one row a note, with a header that names the columns.

A cell in quotes may hold any line end, and keeps it: offsets are those of the cell. The reader of terminologies
(:func:`medlink.files.tables.open_table`) takes a line in a cell that looks like a row for one, and notes have such.
"""

from __future__ import annotations

import csv
from codecs import getincrementaldecoder
from collections.abc import Iterator

from medlink.errors import InputError
from medlink.files.tables import found_columns
from medlink.notes.readers.protocol import LONGEST, Fields, Note, NoteFile, NoteFormat, as_note, no_column, not_decoded

_SEPARATORS = "\t,;"


def read(file: NoteFile, fields: Fields) -> Iterator[Note]:
    """The notes of a table; a cell that begins with a quote ends with one, and two in it are one."""
    lines = _lines(file)
    first = next(lines, "")
    # of two that the first line has as often the earlier one
    separator = max(_SEPARATORS, key=lambda mark: (mark == "\t" and mark in first, first.count(mark)))
    rows = _Rows(_again(first, lines), separator)
    header = [cell.strip() for cell in rows.next() or []]
    for option, name in (("text", fields.text), ("id", fields.note_id), ("language", fields.language)):
        if header.count(name) > 1:
            message = f"the column {name!r} is there twice"
            raise InputError(message, path=file.given, line=1, remedy="rename or delete one of them")
        if option == "text" and name not in header:
            raise no_column(name, option, found_columns(header))
    while True:
        begin = rows.line + 1
        try:
            cells = rows.next()
        except csv.Error as error:
            # the message has no word of the cell
            yield Note(
                f"{file.given}:{begin}",
                problem=f"broken quoting: {error}",
                remedy="put cells with quotes or line ends in quotes, and write a quote in them twice",
            )
            continue
        if cells is None:
            return
        if cells:
            yield _note(cells, header, f"{file.given}:{begin}", fields, file.encoding)


def _note(cells: list[str], header: list[str], place: str, fields: Fields, encoding: str) -> Note:
    """The note of one row; an empty cell has nothing."""
    if len(cells) != len(header):
        said = f"{len(cells)} columns, {len(header)} expected"
        return Note(place, problem=said, remedy="put cells with separators or line ends in quotes")
    row: dict[str, str | None] = {name: cell or None for name, cell in zip(header, cells, strict=True)}
    row[fields.text] = row.get(fields.text) or ""
    for name in (fields.text, fields.note_id, fields.language):
        try:
            (row.get(name) or "").encode()
        except UnicodeEncodeError as error:
            wrong = UnicodeDecodeError(encoding, b"", error.start, error.end, "")
            said, remedy = not_decoded(wrong)
            return Note(place, problem=f"the field {name!r} is {said}", remedy=remedy)
    return as_note(row, place, fields)


class _Rows:
    """Rows of cells, and the number of the line at which the last of them ended."""

    def __init__(self, lines: Iterator[str], separator: str) -> None:
        self._reader = csv.reader(lines, delimiter=separator, strict=True)

    @property
    def line(self) -> int:
        """Number of the line that was read last."""
        return self._reader.line_num

    def next(self) -> list[str] | None:
        """The next row; ``None`` at the end. A cell may be as long as a note, which is the limit of no other table."""
        limit = csv.field_size_limit(LONGEST)
        try:
            return next(self._reader, None)
        finally:
            csv.field_size_limit(limit)


def _again(first: str, lines: Iterator[str]) -> Iterator[str]:
    if first:
        yield first
        yield from lines


def _lines(file: NoteFile) -> Iterator[str]:
    r"""The lines of a file with their ends, as ``\n`` parts them; what cannot be decoded is half a surrogate pair."""
    decoder = getincrementaldecoder(file.encoding)("surrogateescape")
    held: list[str] = []
    for block in file.blocks():
        *whole, rest = decoder.decode(block).split("\n")
        for line in whole:
            yield "".join([*held, line, "\n"]).removeprefix("\ufeff")
            held.clear()
        held.append(rest)
    if last := "".join([*held, decoder.decode(b"", final=True)]).removeprefix("\ufeff"):
        yield last


FORMAT = NoteFormat((".csv", ".tsv"), read)
