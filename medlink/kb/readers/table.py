"""Reader of plain tables: your own terminology in TSV or CSV."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from os import PathLike

from medlink.errors import ConfigError
from medlink.files.problems import Problems
from medlink.files.tables import Table, found_columns, open_table
from medlink.kb.readers.common import Format
from medlink.language.tags import language_tag
from medlink.records import Concept, Definition, Name, Record, Relation, SemanticType, Source

_COLUMNS = {
    "concept_id": "concept_id",
    "id": "concept_id",
    "name": "name",
    "language": "language",
    "type": "type",
    "definition": "definition",
    "parent": "parent",
    "semantic_type": "semantic_type",
    "decision": "decision",
}
# What a reader said of a term in a table of decisions about clusters; an empty cell is an accepted name.
_TAKEN, _LEFT_OUT = ("", "accept"), ("reject", "group")
DECISIONS = "decisions"
"""Source of what decisions bring: a browser saves one file under several names, which are one source."""
_NOT_SEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # categories of characters without a look of their own
_ENDINGS = (".gz", ".tsv", ".csv", ".txt", ".jsonl")


def stem(path: str | PathLike[str]) -> str:
    """Name of a file without its folder and its endings.

    >>> stem("lists/ward.tsv.gz")
    'ward'
    """
    name = str(path).replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    while any(name.lower().endswith(ending) and len(name) > len(ending) for ending in _ENDINGS):
        name = name.rsplit(".", 1)[0]
    return name


def is_id(text: str) -> bool:
    """Whether a text can be an id: it has no white space, no ``|``, which parts ids, and no invisible character.

    >>> is_id("HP:0001945"), is_id("A b"), is_id("A|b"), is_id("A\\u202eb"), is_id("")
    (True, False, False, False, False)
    """
    return bool(text) and not any(
        mark == "|" or mark.isspace() or unicodedata.category(mark) in _NOT_SEEN for mark in text
    )


def read_table(
    path: str | PathLike[str],
    *,
    source: str | None = None,
    version: str = "",
    title: str = "",
    language: str = "",
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read a table with one name in each row.

    Columns are found by their header: ``concept_id`` (or ``id``) and ``name``, and optionally ``language``,
    ``type``, ``definition``, ``parent`` and ``semantic_type``; the last two may hold several values parted by
    ``|``. A column ``decision`` makes it a table of decisions about clusters: rows that say ``reject`` or ``group``
    name no concept and are left out on purpose; its source is ``decisions``. Other columns are left out with a note.
    A file with tabs in its header is TSV and has no quoting; otherwise it is CSV with ``,`` or ``;`` and the usual
    quoting. A row of type ``preferred`` sets the preferred name of its language; when none says so the first name of
    the language is preferred.

    Memory grows with the number of distinct ids (each is announced once), not with the rows.

    Args:
        path: the file, plain or ``.gz``.
        source: name of the source; when left out ``decisions``, or for other tables the file's name without endings.
        version: version of the source.
        title: title of the source.
        language: language of rows that name none.
        problems: where bad rows are counted.

    Yields:
        The source, then concepts, names, definitions, ``isa`` relations and semantic types.

    Raises:
        InputError: the file cannot be read, lacks a column or has one twice, or too many rows are bad.
        ConfigError: ``language`` is no known language.
    """
    problems = problems or Problems()
    default = language_tag(language) if language else ""
    if default is None:
        raise ConfigError(f"unknown language {language!r}", remedy="give a BCP 47 tag, such as de")
    table = open_table(path, problems)
    lines = table.lines
    name = source or (DECISIONS if table.has(["decision"]) else stem(path))
    yield Source(name, version, title or name)
    at = _places(table)
    unused = [column for column in table.header if column not in _COLUMNS]
    if unused:
        problems.notes.append(f"{lines.path}: columns left out: {', '.join(unused)[:300]}")

    seen: set[str] = set()
    for line, cells in table.rows:

        def cell(column: str, cells: list[str] = cells) -> str:
            """A cell by its column, empty where the table has none."""
            index = at.get(column)
            return "" if index is None else cells[index].strip()

        decision = cell("decision")
        if decision in _LEFT_OUT:
            problems.skipped[f"row with the decision {decision}"] += 1
            continue
        if decision not in _TAKEN:
            lines.bad("unknown decision", line)
            continue
        concept_id, text = cell("concept_id"), cell("name")
        if not concept_id or not text:
            lines.bad("empty id or name", line)
            continue
        if not is_id(concept_id):
            lines.bad("id with a blank, | or invisible character", line)
            continue
        tag = language_tag(cell("language")) if cell("language") else default
        if tag is None:
            lines.bad("unknown language", line)
            continue
        if concept_id not in seen:
            seen.add(concept_id)
            yield Concept(concept_id, name)
        kind = cell("type") or "synonym"
        yield Name(concept_id, text, tag, kind, name, kind == "preferred")
        if cell("definition"):
            yield Definition(concept_id, cell("definition"), tag, name)
        for parent in _several(cell("parent")):
            yield Relation(concept_id, "isa", parent, name)
        for semantic_type in _several(cell("semantic_type")):
            yield SemanticType(concept_id, semantic_type, "", name)


def _places(table: Table) -> dict[str, int]:
    """Where the columns stand."""
    used = [_COLUMNS[column] for column in table.header if column in _COLUMNS]
    for column in sorted(set(used)):
        if used.count(column) > 1:
            also = " or id" * (column == "concept_id")
            raise table.error(f"the column {column}{also} is there twice", "rename or delete one of them")
    missing = [column for column in ("concept_id", "name") if column not in used]
    if missing:
        raise table.error(
            f"looked for the columns concept_id (or id) and name; found {found_columns(table.header)}",
            f"name the columns in the first line; {' and '.join(missing)} must be there",
        )
    return {_COLUMNS[column]: index for index, column in enumerate(table.header) if column in _COLUMNS}


def _several(cell: str) -> list[str]:
    return [part.strip() for part in cell.split("|") if part.strip()]


FORMAT = Format(
    "table",
    read_table,
    "--table",
    "Your own table: TSV or CSV with concept_id, name and optionally language, type, definition, parent.",
    70,
)
