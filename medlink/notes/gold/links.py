"""Links and mentions that a reader looked through, without the texts of the notes.

JSON lines are as ``medlink link`` writes them. Of a line count ``note``, ``text``, ``language``, ``concept_id``
(``null``: no concept is right), ``section``, and ``decision``, which a reader adds: ``accept``, or ``reject`` for what
is no mention. The reader writes another id into ``concept_id`` where the link was wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from medlink.files.json import read_json_lines
from medlink.files.problems import counted
from medlink.files.streams import LineFile
from medlink.kb.decided import ACCEPT, MENTION, REJECT, read_decided
from medlink.language.tags import language_tag
from medlink.notes.gold.protocol import AnnotatedNote, Annotation

_Row = tuple[str, str, Annotation]


def read(lines: LineFile) -> Iterator[AnnotatedNote]:
    """The notes of a file, each with the links that stand together."""
    for (note, language), rows in groupby(_rows(lines), key=lambda row: row[:2]):
        yield AnnotatedNote(note, None, language, tuple(annotation for *_, annotation in rows))


def _rows(lines: LineFile) -> Iterator[_Row]:
    undecided = 0
    for number, row in read_json_lines(lines):
        wrong = _wrong(row)
        if wrong:
            lines.bad(wrong, number)
            continue
        decision = row.get("decision")
        undecided += decision is None
        concept = row["concept_id"]
        ids = () if concept is None or decision == REJECT else (concept,)
        annotation = Annotation((), row["text"], ids, decision == REJECT, row.get("section") or "")
        yield str(row["note"]), row["language"], annotation
    if undecided:
        lines.problems.notes.append(f"{lines.path}: {counted(undecided, 'link')} without a decision, taken as right")


def _wrong(row: dict[str, Any]) -> str:
    """What is wrong with a line, empty for nothing."""
    if not isinstance(row.get("note"), str | int):
        return "no field 'note' with the id of the note"
    if not isinstance(row.get("text"), str) or not row["text"].strip():
        return "no field 'text' with the mention"
    if "concept_id" not in row or not isinstance(row["concept_id"], str | None):
        return "no field 'concept_id' with an id or null"
    if row.get("decision") not in (None, ACCEPT, REJECT):
        return f"the field 'decision' is neither {ACCEPT!r} nor {REJECT!r}"
    if not isinstance(row.get("language"), str) or language_tag(row["language"]) is None:
        return "no field 'language' with a BCP 47 tag"
    return "" if isinstance(row.get("section"), str | None) else "the field 'section' is no text"


def read_decisions(lines: LineFile) -> Iterator[AnnotatedNote]:
    """The notes of a table of decisions, each with the mentions that stand together; other rows are of no note."""
    mentions = (row for row in read_decided(lines) if row.kind == MENTION)
    for (note, language), rows in groupby(mentions, key=lambda row: (row.item, row.language)):
        annotations = (
            Annotation((), row.term, (row.concept_id,) * (row.decision == ACCEPT), row.decision == REJECT, row.section)
            for row in rows
        )
        yield AnnotatedNote(note, None, language or None, tuple(annotations))
