"""PubTator: ``ID|t|title``, ``ID|a|abstract``, then ``ID start end mention type concept`` between tabs.

The text is title, a blank, abstract; offsets are its characters. Ids between ``|``, ``,`` or ``;`` are of one mention
(https://www.ncbi.nlm.nih.gov/research/pubtator/).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from medlink.files.streams import LineFile
from medlink.files.tables import first_line
from medlink.notes.gold.protocol import AnnotatedNote, Annotation

_PART = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
_OFFSET = re.compile("[0-9]{1,9}")
_PARTED = re.compile(r"[|,;]")
_NO_CONCEPT = ("", "-", "-1", "None")
_MENTION, _RELATION = (5, 6, 7), 4  # cells


def begins(path: Path) -> bool:
    """Whether a file begins as PubTator."""
    return _PART.match(first_line(path)) is not None


def read(lines: LineFile) -> Iterator[AnnotatedNote]:
    """The notes of a file; a mention whose words do not stand at its place is a bad row."""
    name, parts, rows = "", dict[str, str](), list[tuple[int, list[str]]]()
    for number, line in lines:
        cells = line.split("\t")
        if (found := _PART.fullmatch(line)) is not None:
            lines.no_rows += 1
            if parts and (found[1] != name or found[2] in parts):
                yield _note(lines, name, parts, rows)
                parts, rows = {}, []
            name, parts[found[2]] = found[1], found[3]
        elif len(cells) in _MENTION and cells[0] == name and all(map(_OFFSET.fullmatch, cells[1:3])):
            rows.append((number, cells))
        elif len(cells) == _RELATION or not line.strip():
            lines.no_rows += 1
        else:
            lines.bad("no line of PubTator", number)
    if parts:
        yield _note(lines, name, parts, rows)


def _note(lines: LineFile, name: str, parts: dict[str, str], rows: list[tuple[int, list[str]]]) -> AnnotatedNote:
    text = " ".join(parts[kind] for kind in "ta" if kind in parts)
    annotations = []
    for number, (_, first, last, said, _, *concept) in rows:
        start, end = int(first), int(last)
        if not 0 <= start < end <= len(text) or text[start:end].split() != said.split():
            lines.bad("other words stand at these offsets", number)
            continue
        ids = _PARTED.split(concept[0]) if concept else []
        known = tuple(one.strip() for one in ids if one.strip() not in _NO_CONCEPT)
        annotations.append(Annotation(((start, end),), text[start:end], known))
    return AnnotatedNote(f"{lines.path}:{name}", text, None, tuple(annotations))
