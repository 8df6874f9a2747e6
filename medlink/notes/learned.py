"""Learned mentions (:mod:`medlink.reading.learned`) as a file, which :mod:`medlink.notes.learning` makes.

JSON lines: what the file was made with, then a line for each mention.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from medlink.errors import InputError
from medlink.files.json import json_line, read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.whole import whole_text
from medlink.index import Bundle
from medlink.reading.learned import Entries, Entry, Head, Learned

_HEAD = {"medlink": "learned mentions", "version": 1}
_FIELDS = {"mention", "language", "notes", "seen"}
_REMEDY = "write it anew with medlink learn"


def write_learned(path: str | PathLike[str], head: Head, entries: Entries) -> None:
    """Write the file, which appears whole; its lines are sorted, and the same entries give the same bytes."""
    with whole_text(path, "the learned mentions") as file:
        about = {"kb": head.kb, "sources": head.sources, "notes": head.notes}
        file.write(json_line({**_HEAD, **about, "least_seen": head.least_seen, "least_share": head.least_share}))
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
    head = _head(first)
    if head is None:
        raise InputError("is no file of learned mentions", path=lines.path, line=number, remedy=_REMEDY)
    entries: Entries = {}
    for number, row in rows:
        if not _is_entry(row) or (row["mention"], row["language"]) in entries:
            raise InputError("is no learned mention, or there twice", path=lines.path, line=number, remedy=_REMEDY)
        seen = defaultdict(Counter, {kind: Counter(counts) for kind, counts in row["seen"].items()})
        entries[row["mention"], row["language"]] = Entry(row["notes"], seen)
    return head, entries


def is_learned(row: Mapping[str, Any]) -> bool:
    """Whether the first line of a file is that of learned mentions."""
    return row.get("medlink") == _HEAD["medlink"]


def _head(row: dict[str, Any]) -> Head | None:
    values = {name: value for name, value in row.items() if name not in _HEAD}
    kinds = {"kb": str, "sources": dict, "notes": int, "least_seen": int, "least_share": float | int}
    if {name: row.get(name) for name in _HEAD} != _HEAD or values.keys() != kinds.keys():
        return None
    right = all(isinstance(values[name], kind) for name, kind in kinds.items()) and 0 <= values["least_share"] <= 1
    return Head(**values) if right else None


def _is_entry(row: dict[str, Any]) -> bool:
    if row.keys() != _FIELDS or not isinstance(row["seen"], dict) or not _is_count(row["notes"]):
        return False
    return (
        all(isinstance(row[name], str) for name in ("mention", "language"))
        and row["mention"].strip() != ""
        and all(isinstance(counts, dict) and all(map(_is_count, counts.values())) for counts in row["seen"].values())
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def open_learned(path: str | PathLike[str], bundle: Bundle) -> Learned:
    """Learned mentions of a file, for the notes of a bundle.

    Raises:
        InputError: the file cannot be read, or the bundle has none of its concepts.
    """
    head, entries = read_learned(path)
    with open(LineFile(path, Problems()).path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Learned(Path(path), digest, head, entries, bundle)
