"""Tables of decisions (:mod:`medlink.kb.decided`): what a reader said of mentions, without the texts of the notes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from medlink.files.streams import LineFile
from medlink.kb.decided import ACCEPT, MENTION, REJECT, read_decided
from medlink.notes.gold.protocol import AnnotatedNote, Annotation


def read(lines: LineFile) -> Iterator[AnnotatedNote]:
    """The notes of a table, each with the mentions that stand together; its other rows are of no note."""
    mentions = (row for row in read_decided(lines) if row.kind == MENTION)
    for (note, language), rows in groupby(mentions, key=lambda row: (row.item, row.language)):
        annotations = (
            Annotation((), row.term, (row.concept_id,) * (row.decision == ACCEPT), row.decision == REJECT, row.section)
            for row in rows
        )
        yield AnnotatedNote(note, None, language or None, tuple(annotations))
