"""One flat row for each mention: what CSV, Parquet and a table of a database hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import LinkedMention
from medlink.records import attributed, qualified

COLUMNS: dict[str, type] = {
    "note": str, "start": int, "end": int, "text": str, "language": str, "concept_id": str, "preferred_name": str,
    "score": float, "status": str, "presence": str, "temporality": str, "experiencer": str, "section": str,
    "attributes": list, "value": str, "same_as": list, "expanded": str, "codes": list, "bundle": str,
}  # fmt: skip
"""The columns and the kind of each; lists are lists in Parquet and JSON elsewhere, ``value`` is JSON everywhere."""


def note_name(note: Note) -> str:
    """The id of a note, which may be the name of a file and then no UTF-8."""
    return note.note_id.encode("utf-8", "backslashreplace").decode()


def row(note: Note, language: str, mention: LinkedMention, bundle: str) -> dict[str, Any]:
    """The row of a mention, columns as in :data:`COLUMNS`; ``None`` for what there is not."""
    link = mention.link
    best = None if link.nil else link.candidates[0]
    return {
        "note": note_name(note),
        "start": mention.start,
        "end": mention.end,
        "text": link.mention,
        "language": language,
        "concept_id": link.concept_id,
        "preferred_name": best.preferred_name if best else None,
        "score": best.score if best else None,
        "status": link.status,
        **qualified(mention.qualifiers),
        **attributed(mention.attributes),
        "value": None if mention.value is None else json.dumps(mention.value.to_dict(), ensure_ascii=False),
        "same_as": list(best.same_as) if best else [],
        "expanded": link.expanded,
        "codes": coded(mention),
        "bundle": bundle,
    }


def coded(mention: LinkedMention) -> list[dict[str, str]]:
    """The codes of a mention as plain data."""
    return [{"system": one.system, "code": one.code, "type": one.type} for one in mention.codes]


def cells(one: dict[str, Any]) -> Iterator[Any]:
    """The values of a row, lists as JSON."""
    for value in one.values():
        yield json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def csv_line(values: Sequence[Any]) -> str:
    r"""One line of CSV without its end; a cell with a comma, a quote or any line end stands in quotes.

    >>> csv_line(["a,b", None, 1, "x"])
    '"a,b",,1,x'
    """
    import csv
    import io

    held = io.StringIO()
    # with this line end both of its characters are quoted
    csv.writer(held, lineterminator="\r\n").writerow(values)
    return held.getvalue()[:-2]
