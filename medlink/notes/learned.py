"""File of learned mentions (:mod:`medlink.reading.learned`): JSON lines, a header and then a line for each mention."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, PositiveInt, ValidationError

from medlink.errors import InputError
from medlink.files.atomic import atomic_text_writer
from medlink.files.json import json_line, read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.index import Bundle
from medlink.notes.coding import COLUMNS
from medlink.reading.learned import Entries, Entry, Head, Learned

_REMEDY = "write it again with learn()"


class _Row(BaseModel, strict=True, extra="forbid"):
    mention: Annotated[str, Field(pattern=r"\S")]
    language: str
    notes: PositiveInt
    seen: dict[str, dict[str, PositiveInt]]


def write_learned(path: str | PathLike[str], head: Head, entries: Entries) -> None:
    """Write the file atomically; lines are sorted, so equal entries give equal bytes."""
    with atomic_text_writer(path, "the learned mentions", private=True) as file:
        file.write(json_line(head.model_dump(exclude_none=True)))
        for (mention, language), entry in sorted(entries.items()):
            seen = {kind: dict(sorted(counts.items())) for kind, counts in sorted(entry.seen.items())}
            file.write(json_line({"mention": mention, "language": language, "notes": entry.notes, "seen": seen}))


def read_learned(path: str | PathLike[str]) -> tuple[Head, Entries]:
    """Read the file, plain or ``.gz``.

    Raises:
        InputError: the file cannot be read, or is not a valid file of learned mentions.
    """
    lines = LineFile(path, Problems(0, adjustable=False), require_line_end=True)
    rows = read_json_lines(lines)
    number, first = next(rows, (1, {}))
    try:
        if not is_learned(first):
            raise ValueError
        head = Head.model_validate(first)
        if head.codes is not None and head.codes.columns.keys() != set(COLUMNS):
            raise ValueError
    except ValueError:
        raise InputError("not a file of learned mentions", path=lines.path, line=number, remedy=_REMEDY) from None
    entries: Entries = {}
    for number, row in rows:
        try:
            parsed: _Row | None = _Row.model_validate(row)
        except ValidationError:
            parsed = None
        if parsed is None or (parsed.mention, parsed.language) in entries:
            raise InputError("not a learned mention, or a duplicate", path=lines.path, line=number, remedy=_REMEDY)
        seen = defaultdict(Counter, {kind: Counter(counts) for kind, counts in parsed.seen.items()})
        entries[parsed.mention, parsed.language] = Entry(parsed.notes, seen)
    return head, entries


def is_learned(row: Mapping[str, Any]) -> bool:
    """Tell whether a row is the header of a file of learned mentions."""
    return row.get("medlink") == "learned mentions"


def open_learned(path: str | PathLike[str], bundle: Bundle) -> Learned:
    """Open a file of learned mentions for the notes of a bundle.

    Raises:
        InputError: the file cannot be read, or the bundle has none of its concepts.
    """
    head, entries = read_learned(path)
    with open(LineFile(path, Problems()).path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Learned(Path(path), digest, head, entries, bundle)
