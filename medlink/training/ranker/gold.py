"""Reader of mentions with their gold concepts: tables, decisions, and the JSON lines that linking writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

from medlink.errors import ConfigError, InputError
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import Table, open_table, read_first_line
from medlink.kb.decision_table import ACCEPT, iter_decisions
from medlink.language.tags import named_tag
from medlink.linking.fit import Example

_COLUMNS = ("mention", "concept_id", "language")
_CONTEXT = "context"
_DECISION = "decision"
_JSON_MENTION = ("expanded", "mention", "text")
"""Fields with the mention; first, the long form that was linked instead of an abbreviation."""


_Row = tuple[int, object, Sequence[object], object, object]
"""Line, mention, concepts, language and context, unchecked: in JSON they may have any type."""


def read_gold(path: str | PathLike[str], problems: Problems) -> list[Example]:
    """Read mentions with their gold concepts.

    A table has the columns ``mention``, ``concept_id`` and ``language``, and optionally ``context``, the text around
    the mention. JSON lines have the same fields, with the mention in ``mention`` or ``text``; ``expanded``, the text
    that was linked instead, takes precedence. Several right concepts are separated by ``|`` in a table, and are a list
    in JSON. A row without a concept, such as a NIL link, is left out. In a table with the column ``decision``
    (:mod:`medlink.kb.decision_table`) only accepted rows count. ``problems`` counts rows without a mention or of an
    unknown language.

    Raises InputError if the file cannot be read, lacks a column, has no such mention, or too many rows are bad.
    """
    if read_first_line(path).lstrip().startswith("{"):
        lines = LineFile(path, problems)
        rows = _json_rows(lines)
    else:
        table = open_table(path, problems)
        lines = table.lines
        has_decisions = table.has_columns([_DECISION]) and not table.has_columns(_COLUMNS[:1])
        rows = _decision_rows(path) if has_decisions else _table_rows(table)
    examples = list(_iter_examples(rows, lines))
    if not examples:
        raise InputError("it has no mention with a concept", path=path, remedy="give a file with such rows")
    return examples


def _table_rows(table: Table) -> Iterator[_Row]:
    columns = table.column_indices(_COLUMNS)
    context = table.column_indices([_CONTEXT])[0] if table.has_columns([_CONTEXT]) else None
    for line, cells in table.rows:
        mention, concepts, language = (cells[column] for column in columns)
        yield line, mention, concepts.split("|"), language, "" if context is None else cells[context]


def _decision_rows(path: str | PathLike[str]) -> Iterator[_Row]:
    for row in iter_decisions(path):
        if row.decision == ACCEPT:
            yield row.line, row.term, [row.concept_id], row.language, ""


def _json_rows(lines: LineFile) -> Iterator[_Row]:
    for line, row in read_json_lines(lines):
        mention = next((row[name] for name in _JSON_MENTION if row.get(name) is not None), None)
        concepts: Any = row.get("concept_id")
        concepts = concepts if isinstance(concepts, list) else [concepts]
        yield line, mention, concepts, row.get("language") or "", row.get(_CONTEXT) or ""


def _iter_examples(rows: Iterator[_Row], lines: LineFile) -> Iterator[Example]:
    for line, mention, concepts, language, context in rows:
        ids = frozenset(concept.strip() for concept in concepts if isinstance(concept, str) and concept.strip())
        if not isinstance(mention, str) or not mention.strip():
            lines.bad_row("empty mention", line)
        elif not isinstance(language, str) or not isinstance(context, str):
            lines.bad_row("language or context that is not text", line)
        elif not ids:
            lines.problems.skipped["no concept"] += 1
        else:
            try:
                tag = named_tag(language.strip()) if language.strip() else ""
            except ConfigError:
                lines.bad_row("unknown language", line)
                continue
            yield Example(" ".join(mention.split()), tag, ids, " ".join(context.split()))
