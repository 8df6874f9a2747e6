"""``NOTE_NLP`` of the OMOP Common Data Model 5.4 (https://ohdsi.github.io/CommonDataModel/cdm54.html#NOTE_NLP).

``note_nlp_concept_id`` is the number of a concept that came from OMOP vocabularies (``OMOP:4329847``), or of a code in
the system OMOP where ``--map OMOP`` gives one; else 0, which is OMOP's *no matching concept*. The id that the bundle
has is among the modifiers. ``term_exists`` is ``Y`` where the patient has or had it, ``N`` where a cue says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from medlink.errors import ConfigError, InputError
from medlink.notes.pipeline import LinkedMention
from medlink.notes.reading import Note
from medlink.notes.writers.base import TextWriter
from medlink.notes.writers.rows import csv_line

COLUMNS: dict[str, type | int] = {
    "note_nlp_id": int, "note_id": int, "section_concept_id": int, "snippet": 250, "offset": 50, "lexical_variant": 250,
    "note_nlp_concept_id": int, "note_nlp_source_concept_id": int, "nlp_system": 250, "nlp_date": date,
    "nlp_datetime": datetime, "term_exists": 1, "term_temporal": 50, "term_modifiers": 2000,
}  # fmt: skip
"""The columns in their order; of texts the most characters."""
_OMOP = "OMOP"
_AROUND = 60  # characters of the note on either side of a mention in its snippet
_TEMPORAL = {"current": "present", "historical": "past", "hypothetical": "hypothetical"}
_NUMBER = re.compile(r"-?[0-9]{1,18}")


def nlp_rows(
    note: Note, mentions: Sequence[LinkedMention], first: int, versions: dict[str, Any], day: str, bundle: str
) -> Iterator[dict[str, Any]]:
    """The rows of one note, linked on ``day``; their ids begin with ``first``.

    Raises:
        InputError: the id of the note is no whole number.
    """
    if not _NUMBER.fullmatch(note.note_id):
        remedy = "name the column of OMOP's note_id with id_field=..."
        raise InputError("its id is no whole number, which NOTE_NLP needs", remedy=remedy)
    for number, mention in enumerate(mentions, start=first):
        q = mention.qualifiers
        begin = max(0, mention.start - _AROUND)
        yield {
            "note_nlp_id": number,
            "note_id": int(note.note_id),
            "section_concept_id": 0,
            "snippet": note.text[begin : mention.end + _AROUND][:250],
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


def needed_day(day: str | None) -> str:
    """The day of the run; ConfigError without one: no clock is read, so that the same input gives the same output."""
    if day is None:
        raise ConfigError("note_nlp needs the day of the run", remedy="give it with date=..., such as 2026-11-30")
    return day


def _concept(mention: LinkedMention) -> int:
    own = (mention.link.concept_id or "").partition(":")
    ids = [own[2]] if own[0] == _OMOP else []
    ids += [one.code for one in mention.codes if one.system == _OMOP]
    return next((int(one) for one in ids if _NUMBER.fullmatch(one)), 0)


def _modifiers(mention: LinkedMention, bundle: str) -> str:
    # as OMOP writes modifiers: name=value, with commas
    q, link, value = mention.qualifiers, mention.link, mention.value
    said: dict[str, str | None] = {"concept": link.concept_id, "name": None, "status": link.status, "score": None}
    if not link.nil:
        said |= {"name": link.candidates[0].preferred_name, "score": f"{link.candidates[0].score:g}"}
    said["end"] = str(mention.end)
    if q is not None:
        said |= {"certainty": q.presence, "subject": q.experiencer, "section": q.section}
    if value is not None:
        said["value"] = f"{value.measure} {value.number:g} {value.unit}".rstrip()
    said |= {one.kind: one.text for one in mention.attributes or ()}
    said |= {one.system: one.code for one in mention.codes}
    said["bundle"] = bundle
    # a comma or = in a value would split it
    return ",".join(f"{name}={re.sub('[,=]', ' ', value)}" for name, value in said.items() if value)


class NoteNlpWriter(TextWriter):
    """CSV with all columns of ``NOTE_NLP``; ids begin with 1. ``day`` is what ``nlp_date`` says."""

    header = csv_line(COLUMNS)

    def __init__(self, out: str | Path | None, day: str | None) -> None:
        super().__init__(out)
        self._day = needed_day(day)

    def lines(self, note: Note, language: str, mentions: Sequence[LinkedMention]) -> Iterator[str]:
        for row in nlp_rows(note, mentions, self.written + 1, self.versions, self._day, self.bundle):
            yield csv_line(value.isoformat() if isinstance(value, date) else value for value in row.values())
