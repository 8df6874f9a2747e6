"""Reader of mentions with the concept that is right for them: tables, and the JSON lines of ``medlink link``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

from medlink.errors import ConfigError, InputError
from medlink.files.json import read_json_lines
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.files.tables import first_line, open_table
from medlink.language.tags import named_tag
from medlink.linking.fit import Example

_COLUMNS = ("mention", "concept_id", "language")
_CONTEXT = "context"
_JSON_MENTION = ("mention", "text")


def read_gold(path: str | PathLike[str], problems: Problems) -> list[Example]:
    """Read mentions with their right concepts.

    A table has the columns ``mention``, ``concept_id`` and ``language``, and perhaps ``context``, the text around the
    mention. JSON lines have the same fields, the mention as ``mention`` or ``text``, as ``medlink link`` writes them. A
    line without a concept, such as a link that is NIL, is left out; several concepts that are all right have a ``|``
    between them in a table, or are a list.

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
        places = table.places(_COLUMNS)
        around = table.places([_CONTEXT])[0] if table.has([_CONTEXT]) else None
        lines = table.lines
        cells = (
            (line, ([row[at] for at in places], "" if around is None else row[around])) for line, row in table.rows
        )
        told = ((line, (three[0], three[1].split("|"), three[2], text)) for line, (three, text) in cells)
        found = list(_examples(told, lines))
    if not found:
        raise InputError("no mention with a concept is in it", path=path, remedy="give a file with such rows")
    return found


def _of_object(row: dict[str, Any]) -> tuple[object, Sequence[object], object, object]:
    """Mention, concepts, language and context of a JSON object, of whatever types they are."""
    mention = next((row[name] for name in _JSON_MENTION if name in row), None)
    given = row.get("concept_id")
    concepts = given if isinstance(given, list) else [given]
    return mention, concepts, row.get("language") or "", row.get(_CONTEXT) or ""


def _examples(
    rows: Iterator[tuple[int, tuple[object, Sequence[object], object, object]]], lines: LineFile
) -> Iterator[Example]:
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
