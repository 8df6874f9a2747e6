"""``NOTE_NLP`` of the OMOP Common Data Model 5.4 (https://ohdsi.github.io/CommonDataModel/cdm54.html#NOTE_NLP).

``note_nlp_concept_id`` is the number of a concept of OMOP vocabularies (``OMOP:4329847``), or of its code in the system
OMOP (option ``map``), else 0, OMOP's *no matching concept*. The id of the bundle is among the modifiers.
``term_exists`` is ``Y`` if the patient has or had the finding, otherwise ``N``; substances that the patient is allergic
to have ``N``, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from medlink.errors import ConfigError, InputError
from medlink.notes.note_ids import is_text_file
from medlink.notes.reading import Note
from medlink.notes.writers.base import TextWriter
from medlink.notes.writers.rows import csv_line
from medlink.records import LinkedMention

COLUMNS: dict[str, type | int] = {
    "note_nlp_id": int, "note_id": int, "section_concept_id": int, "snippet": 250, "offset": 50, "lexical_variant": 250,
    "note_nlp_concept_id": int, "note_nlp_source_concept_id": int, "nlp_system": 250, "nlp_date": date,
    "nlp_datetime": datetime, "term_exists": 1, "term_temporal": 50, "term_modifiers": 2000,
}  # fmt: skip
"""Columns in order, with their type or the maximum length of a text."""
_OMOP = "OMOP"
_CONTEXT = 60  # characters on either side of a mention in its snippet
_TEMPORAL = {"current": "present", "historical": "past", "hypothetical": "hypothetical"}
_NUMBER = re.compile(r"-?[0-9]{1,18}")


def nlp_rows(
    note: Note, mentions: Sequence[LinkedMention], first: int, versions: dict[str, Any], day: str, bundle: str
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one note, linked on ``day``; ids begin with ``first``.

    Raises:
        InputError: the id of the note is not a whole number.
    """
    if not _NUMBER.fullmatch(note.note_id):
        table = "or give ids=..., a table with the columns name and note_id"
        remedy = f"name each file by OMOP's note_id, such as 17.txt, {table}"
        remedy = remedy if is_text_file(note) else "name the column of OMOP's note_id with id_field=..."
        raise InputError("NOTE_NLP needs a whole number as the id of the note", remedy=remedy)
    for number, mention in enumerate(mentions, start=first):
        q = mention.qualifiers
        begin = max(0, mention.start - _CONTEXT)
        yield {
            "note_nlp_id": number,
            "note_id": int(note.note_id),
            "section_concept_id": 0,
            "snippet": note.text[begin : mention.end + _CONTEXT][:250],
            "offset": str(mention.start),
            "lexical_variant": mention.link.mention[:250],
            "note_nlp_concept_id": _concept(mention),
            "note_nlp_source_concept_id": 0,
            "nlp_system": f"medlink {versions['medlink']}"[:250],
            "nlp_date": date.fromisoformat(day),
            "nlp_datetime": datetime.fromisoformat(day),
            "term_exists": None if q is None else "Y" if q.is_present else "N",
            "term_temporal": None if q is None else _TEMPORAL[q.temporality],
            "term_modifiers": _modifiers(mention, bundle)[:2000],
        }


def require_day(day: str | None) -> str:
    """Return the day of the run; raises ConfigError without one, because the clock must not change the output."""
    if day is None:
        raise ConfigError("note_nlp needs the day of the run", remedy="give it with date=..., such as 2026-11-30")
    return day


def _concept(mention: LinkedMention) -> int:
    prefix, _, number = (mention.link.concept_id or "").partition(":")
    ids = [number] if prefix == _OMOP else []
    ids += [mapping.code for mapping in mention.codes if mapping.system == _OMOP]
    return next((int(code) for code in ids if _NUMBER.fullmatch(code)), 0)


def _modifiers(mention: LinkedMention, bundle: str) -> str:
    # in the format of OMOP: name=value, separated by commas
    q, link, value = mention.qualifiers, mention.link, mention.value
    modifiers: dict[str, str | None] = {"concept": link.concept_id, "name": None, "status": link.status, "score": None}
    if not link.nil:
        modifiers |= {"name": link.candidates[0].preferred_name, "score": f"{link.candidates[0].score:g}"}
    modifiers["end"] = str(mention.end)
    if q is not None:
        modifiers |= {"certainty": q.presence, "subject": q.experiencer, "section": q.section}
        modifiers |= {"relative": q.relative, "onset_age": None if q.onset_age is None else str(q.onset_age)}
        modifiers |= {"allergy": "true" if q.allergy else None}
    if value is not None:
        modifiers["value"] = f"{value.measure} {value.number:g} {value.unit}".rstrip()
    modifiers |= {attribute.kind: attribute.text for attribute in mention.attributes or ()}
    modifiers |= {mapping.system: mapping.code for mapping in mention.codes}
    modifiers["bundle"] = bundle
    # commas and = would split a value
    return ",".join(f"{name}={re.sub('[,=]', ' ', value)}" for name, value in modifiers.items() if value)


class NoteNlpWriter(TextWriter):
    """CSV with all columns of ``NOTE_NLP``; ids begin with 1. ``day`` is the value of ``nlp_date``."""

    header = csv_line(COLUMNS)

    def __init__(self, out: str | Path | None, day: str | None) -> None:
        super().__init__(out)
        self._day = require_day(day)

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        for row in nlp_rows(note, mentions, self.written + 1, self.versions, self._day, self.bundle):
            yield csv_line(value.isoformat() if isinstance(value, date) else value for value in row.values())
