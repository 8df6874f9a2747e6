"""What a reader of notes gives: :class:`Note`; and what it is given: the names of the fields, and the file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.streams import LineFile, text_encoding

LONGEST = 1 << 28
"""Bytes of the longest line, and characters of the longest cell: the longest note, each character escaped."""
Progress = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Note:
    """A note, or why it could not be read (``problem``, without its text) and what helps (``remedy``).

    ``place`` is its file and line where ``note_id`` does not say so.
    """

    note_id: str
    text: str = ""
    language: str | None = None
    problem: str | None = None
    place: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the fields of JSON lines, and of the columns of tables."""

    text: str = "text"
    note_id: str = "id"
    language: str = "language"

    def named(self) -> dict[str, str]:
        """The names by the options that set them."""
        return {"text": self.text, "id": self.note_id, "language": self.language}


class NoteFile(LineFile):
    """The bytes and lines of one input; what is bad about a line is kept as a note in its place (``kept``).

    ``given`` is what the user calls it, ``encoding`` that of the blocks.
    """

    def __init__(self, given: str, encoding: str, progress: Progress | None, stream: BinaryIO | None) -> None:
        problems = Problems(1, progress)
        super().__init__(given, problems, stream=stream, encoding=encoding, may_be_empty=True, longest=LONGEST)
        self.given, self.kept = given, list[Note]()
        known = text_encoding(encoding)
        # blocks of wide characters come as UTF-8
        self.encoding = "utf-8" if known.startswith(("utf-16", "utf-32")) else known

    def bad(self, kind: str, line: int, detail: str = "") -> None:
        """Keep a bad line."""
        said, remedy = not_decoded(self.wrong)
        self.kept.append(Note(f"{self.given}:{line}", problem=said or kind, remedy=remedy))


def no_column(name: str, option: str, found: str) -> InputError:
    """What to raise of a table that lacks the column of an option; ``found`` says what it has, without a word of it."""
    return InputError(f"no column {name!r}; found {found}", remedy=_remedy_of(option))


def _remedy_of(option: str) -> str:
    field = "note_id" if option == "id" else option
    return f"name the field of the {option} with --{option}-field, in Python with Fields({field}=...)"


def as_note(row: Mapping[str, Any], place: str, fields: Fields) -> Note:
    """The note of one row, whatever format it comes from; with its problem where a field is no text."""
    text, named, language = row.get(fields.text), row.get(fields.note_id), row.get(fields.language)
    if not isinstance(text, str):
        return Note(place, problem=f"no field {fields.text!r} with a text", remedy=_remedy_of("text"))
    if isinstance(named, bool | dict | list | bytes):
        message = f"the field {fields.note_id!r} is no text and no number"
        return Note(place, problem=message, remedy=_remedy_of("id"))
    if not isinstance(language, str) and not _is_missing(language):
        return Note(place, problem=f"the field {fields.language!r} is no text", remedy=_remedy_of("language"))
    note_id = place if _is_missing(named) else str(named)
    return Note(note_id, text, None if _is_missing(language) else language, place=place)


def _is_missing(value: object) -> bool:
    """Whether a field has nothing; NaN is what Python writes for what is missing."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def not_decoded(error: BaseException | None) -> tuple[str, str | None]:
    """What is wrong and what helps where text was in another encoding; else nothing."""
    if not isinstance(error, UnicodeDecodeError):
        return "", None
    said = f"not {error.encoding.upper()} at byte {error.start}, see encoding=..."
    return said, "name the encoding that all notes have, such as latin-1, or convert them"
