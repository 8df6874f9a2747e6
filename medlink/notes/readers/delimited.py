"""Notes as CSV and TSV: one row a note, with a header that names the columns.

A cell in quotes may hold any line end, and keeps it: offsets are those of the cell. The reader of terminologies
(:func:`medlink.files.tables.open_table`) takes a line in a cell that looks like a row for one, and notes have such.
"""

from __future__ import annotations

import csv
from codecs import getincrementaldecoder
from collections.abc import Iterator
from itertools import chain
from typing import Any

from medlink.errors import InputError
from medlink.files.tables import found_columns
from medlink.notes.readers.protocol import LONGEST, Fields, Note, NoteFile, as_note, no_column, not_decoded

_SEPARATORS = "\t,;"


def read(file: NoteFile, fields: Fields) -> Iterator[Note]:
    """The notes of a table; a cell that begins with a quote ends with one, and two in it are one."""
    lines = _lines(file)
    first = next(lines, "")
    # of two that the first line has as often the earlier one
    separator = max(_SEPARATORS, key=lambda mark: (mark == "\t" and mark in first, first.count(mark)))
    rows = csv.reader(chain([first] if first else [], lines), delimiter=separator, strict=True)
    header = [cell.strip() for cell in _next(rows) or []]
    if fields.text not in header:
        raise no_column(fields.text, "text", found_columns(header))
    for name in fields.named().values():
        if header.count(name) > 1:
            message = f"the column {name!r} is there twice"
            raise InputError(message, path=file.given, line=1, remedy="rename or delete one of them")
    while True:
        place = f"{file.given}:{rows.line_num + 1}"
        try:
            cells = _next(rows)
        except csv.Error as error:
            # the message has no word of the cell
            remedy = "put cells with quotes or line ends in quotes, and write a quote in them twice"
            yield Note(place, problem=f"broken quoting: {error}", remedy=remedy)
            continue
        if cells is None:
            return
        if cells:
            yield _note(cells, header, place, fields, file.encoding)


def _next(rows: Any) -> list[str] | None:
    """The next row; ``None`` at the end. A cell may be as long as a note, which is the limit of no other table."""
    limit = csv.field_size_limit(LONGEST)
    try:
        return next(rows, None)
    finally:
        csv.field_size_limit(limit)


def _note(cells: list[str], header: list[str], place: str, fields: Fields, encoding: str) -> Note:
    """The note of one row; an empty cell has nothing."""
    if len(cells) != len(header):
        said = f"{len(cells)} columns, {len(header)} expected"
        return Note(place, problem=said, remedy="put cells with separators or line ends in quotes")
    row: dict[str, str | None] = {name: cell or None for name, cell in zip(header, cells, strict=True)}
    row[fields.text] = row[fields.text] or ""
    for name in fields.named().values():
        try:
            (row.get(name) or "").encode()
        except UnicodeEncodeError as error:
            said, remedy = not_decoded(UnicodeDecodeError(encoding, b"", error.start, error.end, ""))
            return Note(place, problem=f"the field {name!r} is {said}", remedy=remedy)
    return as_note(row, place, fields)


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
