"""The data of the page on which clusters, mentions of notes and codes are decided about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from medlink.clustering.clusters import MAYBE
from medlink.curation.concepts import CONCEPT
from medlink.curation.page import LEAST, json_list, to_json

Kind = Literal["cluster", "mention", "code"]
SCRIPTS = (
    *("model.js", "clusters.js", "decisions.js", "places.js", "list.js", "notes.js", "card.js", "dialog.js", "keep.js"),
    "page.js",
)
NOTE = ("item", "language", "text", "problem")
"""What the row of a note holds."""


def review_data(
    kind: Kind,
    fields: Mapping[str, list[str]],
    rows: Iterable[Any],
    summary: Mapping[str, Any],
    *,
    notes: Iterable[Any] = (),
    concepts: Iterable[Any] = (),
    decisions: str = "",
    served: bool = False,
) -> Iterator[str]:
    """The pieces of the data, one line for each row; memory does not grow with them.

    Args:
        kind: what the rows are.
        fields: names of what the rows, and the records in them, hold.
        rows: clusters, mentions or codes.
        summary: counts and settings to show, by name.
        notes: rows with :data:`NOTE`: the notes that hold the mentions.
        concepts: rows with :data:`medlink.curation.concepts.CONCEPT`, read after all other rows.
        decisions: a table of decisions that the page begins with.
        served: whether there is a server that knows concepts and decisions.
    """
    named = {**fields, "concept": CONCEPT, "note": NOTE}
    head = {"kind": kind, "served": served, "decisions": decisions, "fields": named}
    limits = {"least": LEAST, "maybe": MAYBE}
    yield to_json({**head, **limits, "summary": dict(summary)})[:-1] + ',"clusters":'
    yield from json_list(rows)
    yield ',"notes":'
    yield from json_list(notes)
    yield ',"concepts":'
    yield from json_list(concepts)
    yield "}"
