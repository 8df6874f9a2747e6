"""Tables of what readers decided: about terms of a list, mentions of notes, and codes of a code list.

A table is a TSV that a person can edit. Each row is one decision: ``id``, ``name``, ``language``, ``type``
(``preferred`` or ``synonym``), ``parent`` and ``decision``:

- ``accept``: the name is one of the concept ``id``;
- ``group``: the terms of this ``id`` belong together, and nobody has said yet that they are a concept;
- ``none``: what the name says is meant, and the terminology has no concept for it; ``id`` is empty;
- ``reject``: the name is that of no concept, the stretch of a note no mention, the code not to be mapped; ``id`` is
  empty;
- ``done``: all of a note is annotated, so that what no row speaks of is no mention; ``id`` and ``name`` are empty.

Six more columns say where the name stands: ``kind`` (``mention``, ``code`` or ``note``; empty for a term of a list),
``item`` (id of the note, or the code), ``start`` and ``end`` (characters of the note), ``section`` (kind of the section
around the mention) and ``proposed`` (the concept that was proposed to the reader). A table of terms has none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from medlink.errors import InputError
from medlink.files.escapes import as_cell, from_cell
from medlink.files.folders import StrPath
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import Table, open_table
from medlink.kb.readers.common import is_id
from medlink.language.tags import language_tag

ACCEPT, GROUP, NONE, REJECT, DONE = "accept", "group", "none", "reject", "done"
MENTION, CODE, NOTE = "mention", "code", "note"
DECISIONS = "decisions"
"""Source of what decisions bring: a browser saves one file under several names, which are one source."""
COLUMNS = ("id", "name", "language", "type", "parent", "decision")
PLACE = ("kind", "item", "start", "end", "section", "proposed")
"""Columns that a table of terms does not have."""
_WORDS = {"": (ACCEPT, GROUP, REJECT), MENTION: (ACCEPT, NONE, REJECT), CODE: (ACCEPT, NONE, REJECT), NOTE: (DONE,)}
_TYPES = ("preferred", "synonym")
_OFFSET = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Decision:
    """One row; ``line`` is where it stands, ``start`` and ``end`` are those of a mention."""

    concept_id: str
    term: str
    language: str
    preferred: bool
    parent: str
    decision: str
    line: int
    kind: str = ""
    item: str = ""
    start: int = 0
    end: int = 0
    section: str = ""
    proposed: str = ""

    @property
    def place(self) -> tuple[str, str, int, int]:
        """What the row is about, unless that is a term of a list."""
        return self.kind, self.item, self.start, self.end


def clean(term: str) -> str:
    """A term as it stands in a table: runs of white space, which may hold a tab, are one blank."""
    return " ".join(term.split())


def cells(row: Decision) -> list[str]:
    """A row as the cells of a table with all columns."""
    at = (str(row.start), str(row.end)) if row.kind == MENTION else ("", "")
    kind = "preferred" if row.preferred else "synonym"
    about = (row.concept_id, as_cell(row.term), row.language, kind, row.parent, row.decision)
    return [*about, row.kind, as_cell(row.item), *at, row.section, row.proposed]


def read_decided(given: StrPath | LineFile) -> Iterator[Decision]:
    """The rows of a table, plain or ``.gz``; one that is there twice is given twice.

    Raises:
        InputError: the table cannot be read, is not UTF-8, lacks a column or has one twice; a row has no name, no
            usable id or place, or an unknown word; a place is decided in two ways.
    """
    # A decision that is lost without a word is worse than a file that must be mended, so no bad row is let through.
    strict = Problems(0, adjustable=False)
    lines = given if isinstance(given, LineFile) else LineFile(given, strict)
    lines.problems = strict
    table = open_table(lines, separator="\t")
    at = table.places(COLUMNS)
    if "concept_id" in table.header:
        raise table.error("there are the columns id and concept_id", "leave id and take off the other")
    further = table.places(PLACE) if any(column in table.header for column in PLACE) else []
    decided: dict[tuple[str, str, int, int], Decision] = {}
    for line, found in table.rows:
        values = [found[index].strip() for index in (*at, *further)]
        row = _row(table, line, values + [""] * (len(COLUMNS) + len(PLACE) - len(values)))
        if row.kind:
            first = decided.setdefault(row.place, row)
            if (first.concept_id, first.decision, first.term) != (row.concept_id, row.decision, row.term):
                problem = f"this place is decided otherwise in line {first.line}"
                raise InputError(problem, path=table.lines.path, line=line, remedy="keep one of the two rows")
        yield row


def _row(table: Table, line: int, values: list[str]) -> Decision:
    concept_id, name, language, kind, parent, decision, what, item, start, end, section, proposed = values
    tag = language_tag(language) if language else ""
    words, has_id = _WORDS.get(what, ()), decision in (ACCEPT, GROUP)
    problem = remedy = ""
    if not words:
        problem, remedy = "unknown word in the column kind", f"use {MENTION}, {CODE} or {NOTE}, or leave it empty"
    elif decision not in words:
        problem = "unknown word in the column decision"
        remedy = f"use {', '.join(words[:-1])} or {words[-1]}" if words[1:] else f"use {words[0]}"
    elif not name and what != NOTE:
        problem, remedy = "there is no name", "write the term into the column name, or delete the row"
    elif not concept_id and has_id:
        problem, remedy = "there is no id", f"write the concept's id, or the decision {REJECT}"
    elif has_id and not is_id(concept_id):
        problem = "the id has a blank, | or an invisible character"
        remedy = "write an id without them; the columns may have changed places"
    elif has_id and not all(is_id(one.strip()) for one in parent.split("|") if one.strip()):
        problem, remedy = "the parent is no id", "write the id of one concept, or leave it empty"
    elif kind not in _TYPES and has_id:
        problem, remedy = "unknown word in the column type", "use preferred or synonym"
    elif tag is None:
        problem, remedy = "unknown language", "give a BCP 47 tag, such as de, or leave it empty"
    elif what and not item:
        problem, remedy = "there is no item", "write the id of the note, or the code"
    elif what == MENTION and not (_OFFSET.fullmatch(start) and _OFFSET.fullmatch(end) and int(start) < int(end)):
        problem, remedy = "start and end are no place", "write the first character and the one behind the last"
    if problem:
        raise InputError(problem, path=table.lines.path, line=line, remedy=remedy)
    if not has_id:
        concept_id = kind = parent = ""
    place = (int(start), int(end)) if what == MENTION else (0, 0)
    term = clean(from_cell(name)) if what != NOTE else ""
    about = (concept_id, term, tag or "", kind == "preferred", parent, decision, line)
    return Decision(*about, what, from_cell(item), *place, section, proposed)
