"""Tables of reviewers' decisions on terms of a list, mentions in notes, and codes of a code list.

A table is a TSV file with one decision in each row: ``accept`` (the name belongs to the concept ``id``), ``group`` (the
terms of this ``id`` belong together, but are not yet a concept), ``none`` (the terminology lacks the concept),
``reject`` (no concept, no mention, or no map) or ``done`` (the note is fully annotated). ``kind``, ``item``, ``start``,
``end``, ``section`` and ``proposed`` locate a mention or a code, and name the concept that the reviewer was shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from medlink.errors import InputError
from medlink.files.escapes import escape_cell, unescape_cell
from medlink.files.folders import StrPath
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import Table, open_table
from medlink.kb.readers.common import is_valid_id
from medlink.language.tags import language_tag

ACCEPT, GROUP, NONE, REJECT, DONE = "accept", "group", "none", "reject", "done"
MENTION, CODE, NOTE = "mention", "code", "note"
DECISIONS = "decisions"
"""Source name of all decision tables, since a browser may save a table under several file names."""
COLUMNS = ("id", "name", "language", "type", "parent", "decision")
LOCATION_COLUMNS = ("kind", "item", "start", "end", "section", "proposed")
"""Columns that a table of terms lacks."""
_DECISIONS_BY_KIND = {
    "": (ACCEPT, GROUP, REJECT),
    **dict.fromkeys((MENTION, CODE), (ACCEPT, NONE, REJECT)),
    NOTE: (DONE,),
}
_TYPES = ("preferred", "synonym")
_OFFSET = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Decision:
    """One row of a table; ``line`` is its line number, and only a mention has ``start`` and ``end``."""

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
    def location(self) -> tuple[str, str, int, int, str]:
        """Key of the mention, note or description of a code that the row is about."""
        return self.kind, self.item, self.start, self.end, self.term if self.kind == CODE else ""


def collapse_whitespace(term: str) -> str:
    """Replace each run of white space, including tabs, by one blank."""
    return " ".join(term.split())


def format_cells(row: Decision) -> list[str]:
    offsets = (str(row.start), str(row.end)) if row.kind == MENTION else ("", "")
    kind = "preferred" if row.preferred else "synonym"
    decision = (row.concept_id, escape_cell(row.term), row.language, kind, row.parent, row.decision)
    return [*decision, row.kind, escape_cell(row.item), *offsets, row.section, row.proposed]


def iter_decisions(given: StrPath | LineFile) -> Iterator[Decision]:
    """Yield the rows of a table, plain or ``.gz``, with duplicates; raises :class:`InputError` for any bad row.

    A row is bad without a name, a valid id or a valid location, or with an unknown word; so are two different decisions
    about one location.
    """
    # no bad row is tolerated: losing a decision silently is worse than having to repair the file
    strict = Problems(0, adjustable=False)
    lines = given if isinstance(given, LineFile) else LineFile(given, strict)
    lines.problems = strict
    table = open_table(lines, separator="\t")
    indices = table.column_indices(COLUMNS)
    if "concept_id" in table.header:
        raise table.error("there are the columns id and concept_id", "keep id and remove the other")
    if any(column in table.header for column in LOCATION_COLUMNS):
        indices += table.column_indices(LOCATION_COLUMNS)
    decided: dict[tuple[str, str, int, int, str], Decision] = {}
    for line, cells in table.rows:
        values = [cells[index].strip() for index in indices]
        row = _parse_row(table, line, values + [""] * (len(COLUMNS) + len(LOCATION_COLUMNS) - len(values)))
        if row.kind:
            first = decided.setdefault(row.location, row)
            if (first.concept_id, first.decision, first.term) != (row.concept_id, row.decision, row.term):
                problem = f"another decision about this place is in line {first.line}"
                raise InputError(problem, path=table.lines.path, line=line, remedy="keep one of the two rows")
        yield row


def _parse_row(table: Table, line: int, values: list[str]) -> Decision:
    concept_id, name, language, name_type, parent, decision, kind, item, start, end, section, proposed = values
    tag = language_tag(language) if language else ""
    words, has_id = _DECISIONS_BY_KIND.get(kind, ()), decision in (ACCEPT, GROUP)
    problem = remedy = ""
    if not words:
        problem, remedy = "unknown word in the column kind", f"use {MENTION}, {CODE} or {NOTE}, or leave it empty"
    elif decision not in words:
        problem = "unknown word in the column decision"
        remedy = f"use {', '.join(words[:-1])} or {words[-1]}" if words[1:] else f"use {words[0]}"
    elif not name and kind != NOTE:
        problem, remedy = "there is no name", "write the term into the column name, or delete the row"
    elif not concept_id and has_id:
        problem, remedy = "there is no id", f"write the concept's id, or the decision {REJECT}"
    elif has_id and not is_valid_id(concept_id):
        problem = "the id has a blank, | or an invisible character"
        remedy = "write an id without them; the columns may have changed places"
    elif has_id and not all(is_valid_id(part.strip()) for part in parent.split("|") if part.strip()):
        problem, remedy = "the parent is not an id", "write the id of one concept, or leave it empty"
    elif name_type not in _TYPES and has_id:
        problem, remedy = "unknown word in the column type", "use preferred or synonym"
    elif tag is None:
        problem, remedy = "unknown language", "give a BCP 47 tag, such as de, or leave it empty"
    elif kind and not item:
        problem, remedy = "there is no item", "write the id of the note, or the code"
    elif kind == MENTION and not (_OFFSET.fullmatch(start) and _OFFSET.fullmatch(end) and int(start) < int(end)):
        problem = "start and end are not a place in the note"
        remedy = "write the offsets of the first character and after the last"
    if problem:
        raise InputError(problem, path=table.lines.path, line=line, remedy=remedy)
    if not has_id:
        concept_id = name_type = parent = ""
    offsets = (int(start), int(end)) if kind == MENTION else (0, 0)
    term = collapse_whitespace(unescape_cell(name)) if kind != NOTE else ""
    decided = (concept_id, term, tag or "", name_type == "preferred", parent, decision, line)
    return Decision(*decided, kind, unescape_cell(item), *offsets, section, proposed)
