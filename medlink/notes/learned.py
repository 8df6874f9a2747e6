"""Learned mentions (:mod:`medlink.reading.learned`) as a file, which :mod:`medlink.notes.learning` makes.

JSON lines: what the file was made with, then a line for each mention.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, PositiveInt, ValidationError

from medlink.errors import InputError
from medlink.files.atomic import whole_text
from medlink.files.json import json_line, read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.index import Bundle
from medlink.reading.learned import Entries, Entry, Head, Learned

_REMEDY = "write it anew with learn()"


class _Row(BaseModel, strict=True, extra="forbid"):
    mention: Annotated[str, Field(pattern=r"\S")]
    language: str
    notes: PositiveInt
    seen: dict[str, dict[str, PositiveInt]]


def write_learned(path: str | PathLike[str], head: Head, entries: Entries) -> None:
    """Write the file, which appears whole; its lines are sorted, and the same entries give the same bytes."""
    with whole_text(path, "the learned mentions", private=True) as file:
        file.write(json_line(head.model_dump()))
        for (mention, language), entry in sorted(entries.items()):
            seen = {kind: dict(sorted(counts.items())) for kind, counts in sorted(entry.seen.items())}
            file.write(json_line({"mention": mention, "language": language, "notes": entry.notes, "seen": seen}))


def read_learned(path: str | PathLike[str]) -> tuple[Head, Entries]:
    """Read the file, plain or ``.gz``.

    Raises:
        InputError: it cannot be read, is none that medlink wrote, or a line of it is none.
    """
    lines = LineFile(path, Problems(0, adjustable=False), ended=True)
    rows = read_json_lines(lines)
    number, first = next(rows, (1, {}))
    try:
        if not is_learned(first):
            raise ValueError
        head = Head.model_validate(first)
    except ValueError:
        raise InputError("is no file of learned mentions", path=lines.path, line=number, remedy=_REMEDY) from None
    entries: Entries = {}
    for number, row in rows:
        try:
            found = _Row.model_validate(row)
        except ValidationError:
            found = None
        if found is None or (found.mention, found.language) in entries:
            raise InputError("is no learned mention, or there twice", path=lines.path, line=number, remedy=_REMEDY)
        seen = defaultdict(Counter, {kind: Counter(counts) for kind, counts in found.seen.items()})
        entries[found.mention, found.language] = Entry(found.notes, seen)
    return head, entries


def is_learned(row: Mapping[str, Any]) -> bool:
    """Whether the first line of a file is that of learned mentions."""
    return row.get("medlink") == "learned mentions"


def open_learned(path: str | PathLike[str], bundle: Bundle) -> Learned:
    """Learned mentions of a file, for the notes of a bundle.

    Raises:
        InputError: the file cannot be read, or the bundle has none of its concepts.
    """
    head, entries = read_learned(path)
    with open(LineFile(path, Problems()).path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Learned(Path(path), digest, head, entries, bundle)
