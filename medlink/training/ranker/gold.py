"""Reader of mentions with the concept that is right for them: tables, decisions, the JSON lines of ``medlink link``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

from medlink.errors import ConfigError, InputError
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import Table, first_line, open_table
from medlink.kb.decision_table import ACCEPT, read_decided
from medlink.language.tags import named_tag
from medlink.linking.fit import Example

_COLUMNS = ("mention", "concept_id", "language")
_CONTEXT = "context"
_DECIDED = "decision"
_JSON_MENTION = ("expanded", "mention", "text")
"""Fields with the mention; the long form that was linked in place of an abbreviation comes first."""
_Told = tuple[object, Sequence[object], object, object]  # mention, concepts, language, context
_Row = tuple[int, _Told]


def read_gold(path: str | PathLike[str], problems: Problems) -> list[Example]:
    """Read mentions with their right concepts.

    A table has the columns ``mention``, ``concept_id`` and ``language``, and perhaps ``context``, the text around the
    mention. JSON lines have the same fields, the mention as ``mention`` or ``text``, as ``medlink link`` writes them;
    what was linked in its place, ``expanded``, counts instead. A line without a concept, such as a link that is NIL, is
    left out; several concepts that are all right have a ``|`` between them in a table, or are a list. A table with the
    column ``decision`` is one of :mod:`medlink.kb.decision_table`, of which the accepted rows are read.

    Rows without a mention, or of an unknown language, are counted in ``problems``.

    Raises:
        InputError: the file cannot be read, lacks a column, has no such mention, or too many rows are bad.
    """
    if first_line(path).lstrip().startswith("{"):
        lines = LineFile(path, problems)
        rows = ((line, _of_object(row)) for line, row in read_json_lines(lines))
        found = list(_examples(rows, lines))
    else:
        table = open_table(path, problems)
        is_decided = table.has([_DECIDED]) and not table.has(_COLUMNS[:1])
        found = list(_examples(_decided(path) if is_decided else _of_table(table), table.lines))
    if not found:
        raise InputError("it has no mention with a concept", path=path, remedy="give a file with such rows")
    return found


def _of_table(table: Table) -> Iterator[_Row]:
    places = table.places(_COLUMNS)
    around = table.places([_CONTEXT])[0] if table.has([_CONTEXT]) else None
    for line, row in table.rows:
        mention, concepts, language = (row[at] for at in places)
        yield line, (mention, concepts.split("|"), language, "" if around is None else row[around])


def _decided(path: str | PathLike[str]) -> Iterator[_Row]:
    for row in read_decided(path):
        if row.decision == ACCEPT:
            yield row.line, (row.term, [row.concept_id], row.language, "")


def _of_object(row: dict[str, Any]) -> _Told:
    """Mention, concepts, language and context of a JSON object, of whatever types they are."""
    mention = next((row[name] for name in _JSON_MENTION if row.get(name) is not None), None)
    given = row.get("concept_id")
    concepts = given if isinstance(given, list) else [given]
    return mention, concepts, row.get("language") or "", row.get(_CONTEXT) or ""


def _examples(rows: Iterator[_Row], lines: LineFile) -> Iterator[Example]:
    for number, (mention, concepts, language, context) in rows:
        ids = frozenset(one.strip() for one in concepts if isinstance(one, str) and one.strip())
        if not isinstance(mention, str) or not mention.strip():
            lines.bad("empty mention", number)
        elif not isinstance(language, str) or not isinstance(context, str):
            lines.bad("language or context that is no text", number)
        elif not ids:
            lines.problems.skipped["no concept"] += 1
        else:
            try:
                tag = named_tag(language.strip()) if language.strip() else ""
            except ConfigError:
                lines.bad("unknown language", number)
                continue
            yield Example(" ".join(mention.split()), tag, ids, " ".join(context.split()))
