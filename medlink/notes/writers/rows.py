"""What is said of a mention: all of it for JSON lines, and one flat row for CSV, Parquet and databases."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from io import StringIO
from typing import Any

from medlink.notes.readers.protocol import Note
from medlink.notes.writers.protocol import LinkedMention
from medlink.records import attributed, qualified, valued

COLUMNS: dict[str, type] = {
    "note": str, "start": int, "end": int, "text": str, "language": str, "concept_id": str, "preferred_name": str,
    "score": float, "status": str, "presence": str, "temporality": str, "experiencer": str, "section": str,
    "attributes": list, "value": str, "same_as": list, "presumed": list, "expanded": str, "codes": list, "bundle": str,
}  # fmt: skip
"""The columns and the kind of each; lists are lists in Parquet and JSON elsewhere, ``value`` is JSON everywhere."""


def note_name(note: Note) -> str:
    """The id of a note, which may be the name of a file and then no UTF-8."""
    return note.note_id.encode("utf-8", "backslashreplace").decode()


def whole(note: Note, language: str, mention: LinkedMention, bundle: str, versions: dict[str, Any]) -> dict[str, Any]:
    """All that is said of a mention, as plain data: what a row has, all candidates, and what the link depends on."""
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
        "nil": link.nil,
        "status": link.status,
        **qualified(mention.qualifiers),
        **attributed(mention.attributes),
        **valued(mention.value),
        "same_as": list(best.same_as) if best else [],
        "presumed": list(best.presumed) if best else [],
        "expanded": link.expanded,
        "codes": [{"system": one.system, "code": one.code, "type": one.type} for one in mention.codes],
        "candidates": [candidate.to_dict() for candidate in link.candidates],
        "versions": versions,
        "bundle": bundle,
    }


def row(note: Note, language: str, mention: LinkedMention, bundle: str) -> dict[str, Any]:
    """The row of a mention, columns as in :data:`COLUMNS`; ``None`` for what there is not."""
    found = whole(note, language, mention, bundle, {})
    if found["value"] is not None:
        found["value"] = json.dumps(found["value"], ensure_ascii=False)
    return {name: found[name] for name in COLUMNS}


def flat(one: dict[str, Any]) -> dict[str, Any]:
    """A row with its lists as JSON."""
    return {k: json.dumps(v, ensure_ascii=False) if isinstance(v, list) else v for k, v in one.items()}


def csv_line(values: Iterable[Any]) -> str:
    r"""One line of CSV without its end; a cell with a comma, a quote or any line end stands in quotes."""
    held = StringIO()
    # with this line end both of its characters are quoted
    csv.writer(held, lineterminator="\r\n").writerow(values)
    return held.getvalue()[:-2]
