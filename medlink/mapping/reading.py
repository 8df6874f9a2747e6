"""Read lists of codes: tables, save files of Usagi, ``source_to_concept_map`` of OMOP, and decisions of a review."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medlink.errors import InputError
from medlink.files.escapes import unescape_cell
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import TITLE, Table, describe_header, open_table, parse_count, usual_titles
from medlink.files.workbooks import QUOTED_TEXT
from medlink.kb.decision_table import ACCEPT, CODE, COLUMNS, NONE, iter_decisions
from medlink.language.tags import language_tag
from medlink.mapping import codes as usagi
from medlink.mapping.codes import CodeMapping, SourceCode, Target
from medlink.mapping.options import Columns
from medlink.mapping.targets import Targets

MAX_DESCRIPTION = 2_000  # characters
ADD_INFO = "ADD_INFO:"
"""Prefix of further columns in Usagi's files."""
MEDLINK_PREFIX = "medlink "
"""Prefix of the columns that medlink rewrites in each run."""
USAGI = (
    "sourceCode", "sourceName", "sourceFrequency", "sourceAutoAssignedConceptIds", "matchScore", "mappingStatus",
    "equivalence", "statusSetBy", "statusSetOn", "conceptId", "conceptName", "domainId", "mappingType", "comment",
    "createdBy", "createdOn", "assignedReviewer",
)  # fmt: skip
"""Usagi's columns, without further columns of a list."""
OMOP = (
    "source_code", "source_concept_id", "source_vocabulary_id", "source_code_description", "target_concept_id",
    "target_vocabulary_id", "valid_start_date", "valid_end_date", "invalid_reason",
)  # fmt: skip
"""The columns of ``source_to_concept_map``."""
SOURCE_CONCEPT = OMOP[1]
"""Column with the concept that the code itself is at the site; a further column in other lists."""
_NEEDED = ("sourcecode", "sourcename", "mappingstatus", "conceptid")
_DECIDED_COLUMNS = frozenset({"conceptid", "equivalence", "statussetby", "assignedreviewer"})
_TYPES = {"EVENT": usagi.MAPS_TO, "VALUE": usagi.MAPS_TO_VALUE, "UNIT": usagi.MAPS_TO_UNIT}
"""Kinds of target of older versions of Usagi."""
_BLANKS = re.compile(r"\s+")
_BETWEEN_IDS = re.compile(r"[;,|\s]+")
_TWICE = "the same code and name again: frequencies are added"
_BESIDE = "targets that nobody decided, beside a decision about their code"


@dataclass(frozen=True, slots=True)
class CodeList:
    """A list of codes.

    ``maps`` has a map with its decisions for each distinct code, name, unit and language; ``added`` are the names of
    further columns. ``notes`` are messages about the rows left out, with line numbers and without text of the list.
    """

    maps: tuple[CodeMapping, ...]
    added: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_codes(
    path: str | Path, targets: Targets, *, columns: Columns | None = None, encoding: str = "utf-8",
    max_bad_share: float = 0.01,
) -> CodeList:  # fmt: skip
    """Read a list of codes: CSV or TSV with a header, plain or ``.gz``; ``targets`` parses the ids of concepts.

    From a file with the columns of Usagi or of ``source_to_concept_map``, and from decisions of a review, reads the
    targets too. A bad row in such a file is an error, because a decision must not be lost. In other lists, leaves out
    up to ``max_bad_share`` bad rows and reports them. Unquotes cells that a spreadsheet quotes (``="007"``), or that
    medlink wrote after an apostrophe. Merges rows with the same code, name, unit and language.

    Raises:
        InputError: the file cannot be read, has no usable row or too many bad ones, lacks a column or has it twice, or
            has a bad map.
        ConfigError: the encoding is unknown.
    """
    problems = Problems(1.0, max_odd_rows=0)
    table = open_table(LineFile(path, problems, encoding=encoding, allow_empty=True))
    lines, header, strict = table.lines, set(table.header), True
    if header.issuperset(_NEEDED):
        rows = _read_usagi(table, targets)
    elif header.issuperset(("source_code", "target_concept_id")):
        rows = _read_omop(table, targets)
    elif table.has_columns(COLUMNS):
        rows = _read_decisions(table, targets)
    else:
        if "sourcecode" in header and columns in (None, Columns()) and _DECIDED_COLUMNS & header:
            remedy = "keep the column, or name the column of the codes of a new list with code_column=..."
            raise table.error("has columns of Usagi without mappingStatus, which holds the decisions", remedy)
        rows, strict = _read_list(table, columns or Columns()), False
    maps = dict[tuple[str, str, str, str], CodeMapping]()
    for row_map in rows:
        source = row_map.source
        key = (source.code, source.name, source.unit, source.language)
        first = maps.setdefault(key, row_map)
        if first is row_map:
            continue
        if strict and (row_map.targets or row_map.decided or first.decided):
            merged = _merge_rows(first, row_map)
            if merged is None:
                lines.bad_row("decided otherwise in an earlier row of the code", lines.rows)
            else:
                problems.skipped[_BESIDE] += first.decided != row_map.decided
                maps[key] = merged
        else:
            problems.skipped[_TWICE] += 1
            if source.frequency is not None:
                total = (first.source.frequency or 0) + source.frequency
                maps[key] = replace(first, source=replace(first.source, frequency=total))
    for kind in sorted(problems.bad)[:1] if strict else ():
        remedy = problems.encoding_remedy or "mend the row, or delete it"
        message, line = f"{kind} ({problems.bad[kind]:,} rows)", problems.lines[kind][0]
        raise InputError(message, path=lines.path, line=line, remedy=remedy)
    if not maps:
        remedy = problems.encoding_remedy or "give a header, and one code in each row below it"
        raise InputError("no usable row", path=lines.path, remedy=remedy)
    problems.max_bad_share = max_bad_share
    problems.check_bad_share(lines.path, lines.rows - lines.lines_without_row)
    notes = [*problems.summary_lines(), *problems.notes]
    if several := sum(count > 1 for count in Counter(code for code, *_ in maps).values()):
        notes.append(f"codes with several descriptions: {several}")
    added = next(iter(maps.values())).source.added
    return CodeList(tuple(maps.values()), tuple(name for name, _ in added), tuple(notes))


def read_decided(path: str | Path, targets: Targets) -> list[CodeMapping]:
    """Return the decided maps of a file that a person may have edited: Usagi's, or the decisions of a review.

    Any other file has none. Raises InputError if a row of such a file is bad.
    """
    try:
        table = open_table(LineFile(path, Problems(1.0, max_odd_rows=0), allow_empty=True))
    except InputError:
        return []  # not a table
    if not (set(_NEEDED) <= set(table.header) or table.has_columns(COLUMNS)):
        return []
    return [mapping for mapping in read_codes(path, targets).maps if mapping.decided]


def _merge_rows(first: CodeMapping, second: CodeMapping) -> CodeMapping | None:
    """Join two rows of a code: the targets of equal decisions, else the decided row; ``None`` if both are decided."""
    if first.decided and second.decided and (first.status, first.equivalence) != (second.status, second.equivalence):
        return None
    if first.decided != second.decided:
        return first if first.decided else second
    return replace(first, targets=tuple(dict.fromkeys((*first.targets, *second.targets))))


def clean_cell(text: str) -> str:
    """Unquote a cell of a spreadsheet and collapse white space.

    >>> clean_cell('="007"'), clean_cell("'=1+1"), clean_cell(" Hb\\n g/dl ")
    ('007', '=1+1', 'Hb g/dl')
    """
    quoted = QUOTED_TEXT.fullmatch(text.strip())
    return _BLANKS.sub(" ", unescape_cell(quoted[1].replace('""', '"') if quoted else text).replace("\0", " ")).strip()


def _read_list(table: Table, columns: Columns) -> Iterator[CodeMapping]:
    code, name = (table.find_column(kind, getattr(columns, kind)) for kind in ("code", "name"))
    if code is None or name is None:
        missing = "code" if code is None else "name"
        message = f"no column {', '.join(usual_titles(missing)[:3])} or the like; found "
        message += describe_header(table.first, pattern=TITLE)
        remedy = f"name the column of the {missing}s with {missing}_column=..."
        if code is None and name is None:
            if sum(map(bool, table.first)) == 1:  # a title above the table
                remedy = "the header may be in a later line: delete the lines above the header"
            else:
                remedy += "; if the header is in a later line, delete the lines above the header"
        raise table.error(message, remedy)
    frequency, unit, language, concept = (
        table.find_column(kind, getattr(columns, kind)) for kind in ("frequency", "unit", "language", "concept")
    )
    places = [at for at in range(len(table.first)) if at not in (code, name, frequency, unit, language, concept)]
    others = list(zip(places, _unique_titles(clean_cell(table.first[place]) for place in places), strict=True))
    unread = defaultdict[str, list[int]](list)
    for line, row in table.rows:
        # a column that the list lacks is the last cell
        cells = [*(clean_cell(text) for text in row), ""]
        written, unit_of, spoken, ids = (cells[-1 if at is None else at] for at in (frequency, unit, language, concept))
        if not any(cells):
            table.lines.lines_without_row += 1
        elif not cells[code]:
            table.lines.bad_row("no code", line)
        elif len(cells[name]) > MAX_DESCRIPTION:
            table.lines.bad_row(f"a description of more than {MAX_DESCRIPTION:,} characters", line)
        else:
            count, tag = parse_count(written), language_tag(spoken) if spoken else ""
            if written and count is None:
                unread["frequencies that are not whole numbers from 0 on"].append(line)
            if tag is None:
                unread["languages that are no BCP 47 tag"].append(line)
            added = tuple((title, cells[place]) for place, title in others)
            yield CodeMapping(SourceCode(cells[code], cells[name], count, unit_of, tag or "", added, _split_ids(ids)))
    table.lines.problems.notes += [
        f"{what}: {len(at):,}, the first at {table.lines.path}:{at[0]}" for what, at in sorted(unread.items())
    ]


def _split_ids(text: str) -> tuple[str, ...]:
    return tuple(part for part in _BETWEEN_IDS.split(text) if part not in ("", "0"))


def _unique_titles(given: Iterable[str]) -> list[str]:
    """Number repeated names of further columns, and names that every written file has.

    >>> _unique_titles(["ward", "unit", "ward"])
    ['ward', 'unit 2', 'ward 2']
    """
    counts, titles = Counter({"unit": 1, "language": 1}), []
    for title in given:
        counts[title] += 1
        titles.append(title if counts[title] == 1 else f"{title} {counts[title]}")
    return titles


def _read_usagi(table: Table, targets: Targets) -> Iterator[CodeMapping]:
    at = {title: table.column_indices([title])[0] for title in USAGI if table.has_columns([title])}
    further = [
        (place, title.removeprefix(ADD_INFO))
        for place, title in enumerate(table.first)
        if place not in at.values() and not title.removeprefix(ADD_INFO).startswith(MEDLINK_PREFIX)
    ]
    for line, row in table.rows:
        cells = dict.fromkeys(USAGI, "") | {title: clean_cell(row[place]) for title, place in at.items()}
        others = {title: clean_cell(row[place]) for place, title in further}
        status = cells["mappingStatus"] or usagi.UNCHECKED
        equivalence = cells["equivalence"] or usagi.UNREVIEWED
        kind = cells["mappingType"] or usagi.MAPS_TO
        kind, score = _TYPES.get(kind, kind), _parse_score(cells["matchScore"])
        times = [_parse_time(cells[title]) for title in ("statusSetOn", "createdOn")]
        if problem := _find_problem(cells, status, equivalence, kind, score, times):
            table.lines.bad_row(problem, line)
            continue
        concept_id, language, unit = (
            targets.parse_id(cells["conceptId"]),
            others.pop("language", ""),
            others.pop("unit", ""),
        )
        name, domain, made_by = cells["conceptName"], cells["domainId"], cells["createdBy"]
        source = SourceCode(
            cells["sourceCode"], cells["sourceName"], parse_count(cells["sourceFrequency"]), unit,
            (language_tag(language) if language else "") or "", tuple(others.items()),
            _split_ids(cells["sourceAutoAssignedConceptIds"]),
        )  # fmt: skip
        yield CodeMapping(
            source, (Target(concept_id, name, domain, kind, made_by, times[1] or 0),) if concept_id else (),
            score or 0.0, status, equivalence, cells["statusSetBy"], times[0] or 0, cells["comment"],
            cells["assignedReviewer"],
        )  # fmt: skip


def _find_problem(
    cells: dict[str, str], status: str, equivalence: str, kind: str, score: float | None, times: Sequence[int | None]
) -> str:
    if not cells["sourceCode"]:
        return "no sourceCode"
    if status not in usagi.STATUSES:
        return f"mappingStatus is none of {', '.join(usagi.STATUSES)}"
    if equivalence not in usagi.EQUIVALENCES:
        return f"equivalence is none of {', '.join(usagi.EQUIVALENCES)}"
    if kind not in usagi.KINDS:
        return f"mappingType is none of {', '.join(usagi.KINDS)}"
    if score is None:
        return "matchScore is not a number"
    return "" if None not in times else "statusSetOn or createdOn is not a time in milliseconds"


def _read_omop(table: Table, targets: Targets) -> Iterator[CodeMapping]:
    at = {title: table.column_indices([title])[0] for title in OMOP if table.has_columns([title])}
    for line, row in table.rows:
        cells = dict.fromkeys(OMOP, "") | {title: clean_cell(row[place]) for title, place in at.items()}
        if not cells["source_code"]:
            table.lines.bad_row("no source_code", line)
        elif cells["invalid_reason"]:
            table.lines.problems.skipped["map that is no longer valid"] += 1
        else:
            concept_id = targets.parse_id(cells["target_concept_id"])
            mapped = (targets.decided(concept_id),) if concept_id else ()
            added = ((SOURCE_CONCEPT, cells[SOURCE_CONCEPT]),) if SOURCE_CONCEPT in at else ()
            source = SourceCode(cells["source_code"], cells["source_code_description"], added=added)
            yield CodeMapping(source, mapped, status=usagi.APPROVED if mapped else usagi.UNCHECKED)


def _read_decisions(table: Table, targets: Targets) -> Iterator[CodeMapping]:
    """Read the decisions of a review about codes; a review does not decide the equivalence."""
    count = 0
    for row in iter_decisions(table.lines.path):
        if row.kind != CODE:
            table.lines.problems.skipped[f"decision about a {row.kind or 'term'}"] += 1
            continue
        count += 1
        source = SourceCode(row.item, "" if row.term == row.item else row.term, language=row.language)
        if row.decision == ACCEPT:
            yield CodeMapping(source, (targets.decided(row.concept_id),), status=usagi.APPROVED)
        else:
            yield CodeMapping(
                source, status=usagi.IGNORED, equivalence=usagi.UNMATCHED if row.decision == NONE else usagi.UNREVIEWED
            )
    if not count:
        remedy = "give the decisions of a review of codes"
        raise InputError("has no decision about a code", path=table.lines.path, remedy=remedy)


def _parse_score(text: str) -> float | None:
    try:
        value = float(text or 0)
    except ValueError:
        return None
    return value if 0 <= value <= 1e9 else None


def _parse_time(text: str) -> int | None:
    return int(text or 0) if (text or "0").isdecimal() and len(text) < 16 else None
