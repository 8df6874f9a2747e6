"""Reading lists of codes: tables of a house, Usagi's save files, and OMOP's ``source_to_concept_map``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medlink.errors import InputError
from medlink.files.escapes import from_cell
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import SWALLOWED, Table, found_columns, open_table
from medlink.language.tags import language_tag
from medlink.mapping.codes import (
    APPROVED,
    EQUIVALENCES,
    KINDS,
    MAPS_TO,
    STATUSES,
    UNCHECKED,
    UNREVIEWED,
    CodeMapping,
    SourceCode,
    Target,
)
from medlink.mapping.options import Columns
from medlink.mapping.targets import Targets

LONGEST = 2_000
"""Characters of the longest description that is read."""
ADDED = "ADD_INFO:"
"""What Usagi puts before the names of further columns."""
OWN = "medlink "
"""What the names of columns begin with that medlink writes anew each time."""
USAGI = (
    "sourceCode", "sourceName", "sourceFrequency", "sourceAutoAssignedConceptIds", "matchScore", "mappingStatus",
    "equivalence", "statusSetBy", "statusSetOn", "conceptId", "conceptName", "domainId", "mappingType", "comment",
    "createdBy", "createdOn", "assignedReviewer",
)  # fmt: skip
"""Usagi's columns, without those that a list added."""
OMOP = (
    "source_code", "source_concept_id", "source_vocabulary_id", "source_code_description", "target_concept_id",
    "target_vocabulary_id", "valid_start_date", "valid_end_date", "invalid_reason",
)  # fmt: skip
"""The columns of ``source_to_concept_map``."""
_USUAL = {
    "code": ("code", "sourcecode", "source_code", "id"),
    "name": ("name", "description", "sourcename", "source_code_description", "term", "text"),
    "frequency": ("frequency", "count", "sourcefrequency"),
    "unit": ("unit", "units"),
    "language": ("language",),
}
_NEEDED = ("sourcecode", "sourcename", "mappingstatus", "conceptid")
_TYPES = {"EVENT": MAPS_TO, "VALUE": "MAPS_TO_VALUE", "UNIT": "MAPS_TO_UNIT"}
"""How older versions of Usagi wrote the kinds of targets."""
_EXCEL = re.compile(r'="(.*)"', re.DOTALL)
_BLANKS = re.compile(r"\s+")
_NUMBER = re.compile(r"(\d{1,15})(?:\.0+)?")
_TWICE = "the same code and name again: frequencies are added"


@dataclass(frozen=True, slots=True)
class CodeList:
    """A list that was read.

    ``maps`` has a row for each pair of code and name, with what was decided about it; ``added`` are the names of its
    further columns. ``notes`` say what was left out, by line number and without a word of the list.
    """

    maps: tuple[CodeMapping, ...]
    added: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_codes(
    path: str | Path, targets: Targets, *, columns: Columns | None = None, encoding: str = "utf-8"
) -> CodeList:
    """Read a list of codes: CSV or TSV with a header.

    A file with Usagi's columns, or with those of ``source_to_concept_map``, is read with its targets. Of these no bad
    row is let through: a decision that is lost is worse than a file that must be mended. Of any other list a row that
    cannot be used is left out and noted. Cells that a spreadsheet quotes (``="007"``), or that medlink wrote behind an
    apostrophe, are read as what they stand for. Rows of one code and name are one.

    Args:
        path: the file, plain or ``.gz``.
        targets: reads the ids of concepts.
        columns: names of columns; the usual ones are looked for.
        encoding: that of the file.

    Raises:
        InputError: the file cannot be read, has no usable row, lacks a column or has it twice, or has maps of which one
            cannot be read.
        ConfigError: the encoding is not known.
    """
    problems = Problems(1.0, adjustable=False)
    table = open_table(LineFile(path, problems, encoding=encoding, may_be_empty=True))
    strict = True
    if all(column in table.header for column in _NEEDED):
        rows = _usagi(table, targets)
    elif all(column in table.header for column in ("source_code", "target_concept_id")):
        rows = _omop(table, targets)
    else:
        rows, strict = _list(table, columns or Columns()), False
    found, seen = list[CodeMapping](), dict[tuple[str, str, str, str], int]()
    for one in rows:
        source = one.source
        key = (source.code, source.name, source.unit, source.language)
        place = seen.setdefault(key, len(found))
        if place == len(found):
            found.append(one)
        elif one.targets or one.decided:
            found[place] = replace(found[place], targets=(*found[place].targets, *one.targets))
        else:
            problems.skipped[_TWICE] += 1
            if source.frequency is not None:
                total = (found[place].source.frequency or 0) + source.frequency
                found[place] = replace(found[place], source=replace(found[place].source, frequency=total))
    _check(table, problems, strict)
    if not found:
        remedy = "give a header, and one code in each row below it"
        raise InputError("no usable row", path=table.lines.path, remedy=remedy)
    names = Counter(one.source.code for one in found)
    several = sum(count > 1 for count in names.values())
    notes = [*problems.left_out(), *problems.notes]
    if several:
        notes.append(f"codes with several descriptions: {several}")
    added = found[0].source.added
    return CodeList(tuple(found), tuple(name for name, _ in added), tuple(notes))


def _check(table: Table, problems: Problems, strict: bool) -> None:
    bad = problems.bad if strict else {SWALLOWED: problems.bad[SWALLOWED]}
    for kind, count in sorted(bad.items()):
        if count:
            line = problems.lines[kind][0]
            remedy = "mend the row, or delete it" if strict else "mend the quote, or give the table as TSV"
            raise InputError(f"{kind} ({count:,} rows)", path=table.lines.path, line=line, remedy=remedy)


def cell(text: str) -> str:
    """What a cell stands for: without the quotes of a spreadsheet, and with blanks where lines end in it.

    >>> cell('="007"'), cell("'=1+1"), cell(" Hb\\n g/dl ")
    ('007', '=1+1', 'Hb g/dl')
    """
    quoted = _EXCEL.fullmatch(text.strip())
    return _BLANKS.sub(" ", from_cell(quoted[1].replace('""', '"') if quoted else text).replace("\0", " ")).strip()


def _list(table: Table, columns: Columns) -> Iterator[CodeMapping]:
    code, name = (_place(table, getattr(columns, kind), kind) for kind in ("code", "name"))
    if code is None or name is None:
        missing = "code" if code is None else "name"
        raise table.error(
            f"no column {' or '.join(_USUAL[missing])}; found {found_columns(table.first)}",
            f"name the column of the {missing}s",
        )
    frequency, unit, language = (
        _place(table, getattr(columns, kind), kind) for kind in ("frequency", "unit", "language")
    )
    taken = {code, name, frequency, unit, language}
    places = [place for place in range(len(table.first)) if place not in taken]
    others = list(zip(places, _titles(cell(table.first[place]) for place in places), strict=True))
    unread = Counter[str]()
    for line, row in table.rows:
        cells = [cell(text) for text in row]
        tag = language_tag(cells[language]) if language is not None and cells[language] else ""
        if not cells[code]:
            table.lines.bad("no code", line)
        elif len(cells[name]) > LONGEST:
            table.lines.bad(f"a description of more than {LONGEST:,} characters", line)
        else:
            count = _frequency(cells[frequency]) if frequency is not None else None
            unread["frequencies that are no whole number"] += bool(frequency is not None and cells[frequency]) and (
                count is None
            )
            unread["languages that are no BCP 47 tag"] += tag is None
            added = tuple((title, cells[place]) for place, title in others)
            unit_of = cells[unit] if unit is not None else ""
            yield CodeMapping(SourceCode(cells[code], cells[name], count, unit_of, tag or "", added))
    table.lines.problems.notes += [f"{what}: {count:,}" for what, count in sorted(unread.items()) if count]


def _titles(given: Iterable[str]) -> list[str]:
    """Names of further columns, each once, and none that is one of every file.

    >>> _titles(["ward", "unit", "ward"])
    ['ward', 'unit 2', 'ward 2']
    """
    counts, titles = Counter({"unit": 1, "language": 1}), []
    for title in given:
        counts[title] += 1
        titles.append(title if counts[title] == 1 else f"{title} {counts[title]}")
    return titles


def _place(table: Table, wanted: str | None, kind: str) -> int | None:
    if wanted is not None:
        return table.places([wanted.strip()])[0]
    name = next((one for one in _USUAL[kind] if one in table.header), None)
    return None if name is None else table.places([name])[0]


def _frequency(text: str) -> int | None:
    """A frequency, ``None`` for what is none.

    >>> _frequency("12"), _frequency("12.0"), _frequency("-1"), _frequency("many")
    (12, 12, None, None)
    """
    found = _NUMBER.fullmatch(text)
    return int(found[1]) if found else None


def _usagi(table: Table, targets: Targets) -> Iterator[CodeMapping]:
    at = {title: table.places([title])[0] for title in USAGI if table.has([title])}
    further = [
        (place, title.removeprefix(ADDED))
        for place, title in enumerate(table.first)
        if place not in at.values() and not title.removeprefix(ADDED).startswith(OWN)
    ]
    for line, row in table.rows:
        cells = {title: cell(row[place]) for title, place in at.items()}
        others = {title: cell(row[place]) for place, title in further}
        status = cells["mappingStatus"] or UNCHECKED
        equivalence = cells.get("equivalence") or UNREVIEWED
        kind = cells.get("mappingType") or MAPS_TO
        kind = _TYPES.get(kind, kind)
        score = _decimal(cells.get("matchScore", ""))
        times = [_milliseconds(cells.get(title, "")) for title in ("statusSetOn", "createdOn")]
        problem = _problem(cells, status, equivalence, kind, score, times)
        tag = language_tag(others["language"]) if others.get("language") else ""
        if problem:
            table.lines.bad(problem, line)
            continue
        concept_id = targets.id_of(cells["conceptId"])
        name, domain, made_by = (cells.get(title, "") for title in ("conceptName", "domainId", "createdBy"))
        source = SourceCode(
            cells["sourceCode"],
            cells["sourceName"],
            _frequency(cells.get("sourceFrequency", "")),
            others.pop("unit", ""),
            tag or "",
            tuple((title, text) for title, text in others.items() if title != "language"),
            tuple(one for one in re.split(r"[;,\s]+", cells.get("sourceAutoAssignedConceptIds", "")) if one),
        )
        yield CodeMapping(
            source,
            (Target(concept_id, name, domain, kind, made_by, times[1] or 0),) if concept_id else (),
            score or 0.0,
            status,
            equivalence,
            cells.get("statusSetBy", ""),
            times[0] or 0,
            cells.get("comment", ""),
            cells.get("assignedReviewer", ""),
        )


def _problem(
    cells: dict[str, str], status: str, equivalence: str, kind: str, score: float | None, times: Sequence[int | None]
) -> str:
    if not cells["sourceCode"]:
        return "no sourceCode"
    if status not in STATUSES:
        return f"mappingStatus is none of {', '.join(STATUSES)}"
    if equivalence not in EQUIVALENCES:
        return f"equivalence is none of {', '.join(EQUIVALENCES)}"
    if kind not in KINDS:
        return f"mappingType is none of {', '.join(KINDS)}"
    if score is None:
        return "matchScore is no number"
    return "" if None not in times else "statusSetOn or createdOn is no time in milliseconds"


def _omop(table: Table, targets: Targets) -> Iterator[CodeMapping]:
    code, target = table.places(["source_code", "target_concept_id"])
    name, reason = (
        table.places([title])[0] if table.has([title]) else None for title in ("source_code_description", OMOP[-1])
    )
    for line, row in table.rows:
        cells = [cell(text) for text in row]
        if not cells[code]:
            table.lines.bad("no source_code", line)
        elif reason is not None and cells[reason]:
            table.lines.problems.skipped["map that is no longer valid"] += 1
        else:
            concept_id = targets.id_of(cells[target])
            made = (Target(concept_id, ""),) if concept_id else ()
            source = SourceCode(cells[code], cells[name] if name is not None else "")
            yield CodeMapping(source, made, status=APPROVED if made else UNCHECKED)


def _decimal(text: str) -> float | None:
    try:
        value = float(text or 0)
    except ValueError:
        return None
    return value if 0 <= value <= 1e9 else None


def _milliseconds(text: str) -> int | None:
    return int(text or 0) if (text or "0").isdecimal() and len(text) < 16 else None
