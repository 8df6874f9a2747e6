"""Ids of notes that are text files: their file names, if these are numbers, or a table of the user."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.tables import open_table
from medlink.notes.reading import Note

_NUMBER = re.compile(r"[0-9]{1,18}")


def is_text_file(note: Note) -> bool:
    """Return whether a note is a whole file or standard input, so that no field states its id."""
    return note.location is None and note.problem is None


def number_as_id(note: Note) -> Note:
    """Give the note of a file such as ``notes/17.txt`` the id 17; other notes keep their ids."""
    name = Path(Path(note.note_id).name.removesuffix(".gz")).stem
    if not is_text_file(note) or not _NUMBER.fullmatch(name):
        return note
    return replace(note, note_id=str(int(name)), location=note.note_id)


def ids_of_table(path: str | Path) -> Callable[[Note], Note]:
    """Read a table with the columns ``name`` and ``note_id``, and return the function that gives notes their ids.

    A name is the path of a text file as given, or its file name. A file without a row becomes a note with a problem; so
    does a second file with the same name.

    Raises:
        InputError: the table cannot be read, lacks a column, or repeats a name.
    """
    table = open_table(path, Problems(0, adjustable=False))
    name_index, id_index = table.column_indices(["name", "note_id"])
    ids = dict[str, str]()
    for line, cells in table.rows:
        name, note_id = cells[name_index].strip(), cells[id_index].strip()
        if not name or not note_id:
            raise InputError("a row without name or note_id", path=path, line=line, remedy="write both")
        if ids.setdefault(name, note_id) != note_id:
            remedy = "name each file once, or write the paths of the files"
            raise InputError("a name has another id in an earlier row", path=path, line=line, remedy=remedy)
    taken = dict[str, str]()

    def rename(note: Note) -> Note:
        if not is_text_file(note):
            return note
        key = note.note_id if note.note_id in ids else Path(note.note_id).name
        if key not in ids:
            return Note(note.note_id, problem="no id in the table of ids", remedy=f"add its name to {path}")
        if taken.setdefault(key, note.note_id) != note.note_id:
            problem = "its name in the table of ids is also that of another file"
            return Note(note.note_id, problem=problem, remedy=f"write the paths of both files into {path}")
        return replace(note, note_id=ids[key], location=note.note_id)

    return rename
