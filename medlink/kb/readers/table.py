"""Reader of plain tables: your own terminology in TSV or CSV."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from os import PathLike

from medlink.errors import ConfigError
from medlink.files.escapes import from_cell
from medlink.files.problems import Problems
from medlink.files.tables import Table, found_columns, open_table
from medlink.kb.decided import ACCEPT, DONE, GROUP, NONE, PLACE, REJECT
from medlink.kb.readers.common import Format, is_id, known_language, stem
from medlink.language.tags import language_tag, named_tag
from medlink.records import FSN, Concept, Definition, Name, Record, Relation, SemanticType, Source

_COLUMNS = ("concept_id", "name", "language", "type", "definition", "parent", "semantic_type", "decision")
_NEEDED = {"concept_id": "the column of the ids 'concept_id' or 'id'", "name": "the column of the names 'name'"}
# What a reader said in a table of decisions (medlink.kb.decided); an empty cell is an accepted name.
_TAKEN, _LEFT_OUT = ("", ACCEPT), (REJECT, GROUP, NONE, DONE)
_TYPES = ("preferred", "synonym", FSN, "lay", "abbreviation", "exact", "broad", "narrow", "related")
_SHOWN = 5  # unknown types, and columns that are perhaps meant for others, that are named
# What names have that are perhaps none, or several; they are taken as they are.
_ODD = (
    (
        re.compile(r"[|;\n]"),
        "a |, a ; or a line end inside, and each counts as one name",
        "where they are several names, give each a row of its own with the same id",
    ),
    (
        re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffd]"),
        "a character inside that commands, is not seen or was lost",
        "write them anew",
    ),
    (re.compile(r"(?s).{501}"), "more than 500 characters", "give a text on the concept in the column 'definition'"),
)
# What others call the columns that may be left out, and the names of a concept in columns of their own. They are not
# taken for the columns: a table would be read otherwise than its header says.
_WORDS = {
    "language": ("lang", "lng", "sprache", "idioma", "lengua", "langue", "locale", "language_code"),
    "type": ("typ", "tipo", "tty", "term_type", "name_type"),
    "definition": ("def", "description", "beschreibung", "definición", "descripción"),
    "parent": ("parents", "parent_id", "broader", "is_a", "isa", "oberbegriff", "padre", "superclass"),
    "semantic_type": ("sty", "semantic", "semtype", "semantic_group", "category", "kategorie", "categoría"),
    "name": ("synonym", "synonyms", "synonyme", "sinónimo", "sinónimos", "alias", "aliases", "names", "alt_label"),
}
_ALIKE = 82  # of 100, where one letter in five may be another
DECISIONS = "decisions"
"""Source of what decisions bring: a browser saves one file under several names, which are one source."""


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
    ``|``. A column ``decision`` makes it a table of decisions (:mod:`medlink.kb.decided`): rows that say ``reject``,
    ``group``, ``none`` or ``done`` name no concept and are left out on purpose; its source is ``decisions``. Other
    columns are left out with a note. A file with tabs in its header is TSV and has no quoting; otherwise it is CSV with
    ``,`` or ``;`` and the usual quoting. A row of type ``preferred`` sets the preferred name of its language; when none
    says so the first name of the language is preferred. A name of a type that nobody knows (``prefered``) counts as a
    synonym and keeps the type, with a note. A header that is repeated, as in tables that were joined, is left out.

    Memory grows with the number of distinct ids (each is announced once), not with the rows.

    Without ``source`` it is named ``decisions``, or for other tables as the file without its endings; ``language`` is
    that of rows that name none.
    """
    problems = problems or Problems()
    default, table = known_language(language), open_table(path, problems)
    lines = table.lines
    name = source or (DECISIONS if table.has(["decision"]) else stem(path))
    yield Source(name, version, title or name)
    at = _places(table)
    problems.notes += _unused(table)

    seen: set[str] = set()
    types, odd = _Types(), [_Odd(*one) for one in _ODD]
    for line, cells in table.rows:
        problems.at = lines.path, line

        def cell(column: str, cells: list[str] = cells) -> str:
            """A cell by its column, empty where the table has none."""
            index = at.get(column)
            return "" if index is None else cells[index].strip()

        if cells[at["name"]].strip().lower() == "name" and tuple(c.strip().lower() for c in cells) == table.header:
            problems.skipped["header repeated"] += 1
            continue
        decision = cell("decision")
        if decision in _LEFT_OUT:
            problems.skipped[f"row with the decision {decision}"] += 1
            continue
        if decision not in _TAKEN:
            lines.bad("unknown decision", line)
            continue
        concept_id, text = cell("concept_id"), from_cell(cell("name")) if "decision" in at else cell("name")
        tag = language_tag(cell("language")) if cell("language") else default
        if not concept_id or not text or not is_id(concept_id):
            empty = not concept_id or not text
            lines.bad("empty id or name" if empty else "id with a blank, | or invisible character", line)
            continue
        if tag is None:
            lines.bad("unknown language", line, _unknown(cell("language")))
            continue
        if concept_id not in seen:
            seen.add(concept_id)
            yield Concept(concept_id, name)
        kind = types.known(cell("type"), line)
        for one in odd:
            one.look(text, line)
        yield Name(concept_id, text, tag, kind, name, kind == "preferred")
        if cell("definition"):
            yield Definition(concept_id, cell("definition"), tag, name)
        for parent in _several(cell("parent")):
            yield Relation(concept_id, "isa", parent, name)
        for semantic_type in _several(cell("semantic_type")):
            yield SemanticType(concept_id, semantic_type, "", name)
    counted: tuple[_Types | _Odd, ...] = (types, *odd)
    problems.notes += [f"{lines.path}:{found.first}: {found}" for found in counted if found.first]


class _Types:
    """Types of names, of which those that nobody knows are counted; ``first`` is the line of the first of them."""

    def __init__(self) -> None:
        self.first = 0
        self._unknown: Counter[str] = Counter()

    def known(self, cell: str, line: int) -> str:
        """The type that a cell states, as medlink writes it; one that is unknown as it is."""
        if (kind := cell.lower() or "synonym") in _TYPES:
            return kind
        self.first = self.first or line
        self._unknown[cell if cell in self._unknown or len(self._unknown) < _SHOWN else "others"] += 1
        return cell

    def __str__(self) -> str:
        shown = ", ".join(f"{kind[:40]} ({count:,})" for kind, count in self._unknown.items())
        meant = ((kind, _alike(kind, dict(zip(_TYPES, _TYPES, strict=True)))) for kind in self._unknown)
        remedies = [f"write {known} where {kind[:40]} is meant so" for kind, known in meant if known]
        remedy = "; ".join(remedies) or "write one of these, or leave them"
        known = ", ".join(_TYPES)
        return f"names of unknown types, which count as synonyms: {shown}; known are {known}. Remedy: {remedy}"


class _Odd:
    """Names with something odd, which are counted; ``first`` is the line of the first of them."""

    def __init__(self, pattern: re.Pattern[str], what: str, remedy: str) -> None:
        self.first = self._count = 0
        self._pattern, self._what, self._remedy = pattern, what, remedy

    def look(self, text: str, line: int) -> None:
        """Count a name if it is one of them."""
        if self._pattern.search(text):
            self.first, self._count = self.first or line, self._count + 1

    def __str__(self) -> str:
        has = "1 name has" if self._count == 1 else f"{self._count:,} names have"
        return f"{has} {self._what}. Remedy: {self._remedy}"


def _unknown(language: str) -> str:
    """A language that is none, with its tag where it is the name of one."""
    try:
        named_tag(language)
    except ConfigError as error:
        meant = (error.remedy or "").startswith("write")
        return f"{language[:40]!r}" + f"; {error.remedy}" * meant
    return repr(language)


def _unused(table: Table) -> Iterator[str]:
    """A note on the columns that are left out, with what each was perhaps meant for."""
    known = (*_COLUMNS, "id", *(PLACE if "decision" in table.header else ()))
    unused = [column for column in table.header if column not in known]
    if not unused:
        return
    remedies = []
    for column in unused:
        meant = _meant(column)
        if meant == "name":
            remedies.append(f"give each name of {column!r} a row of its own with the same id")
        elif meant and meant not in table.header:
            remedies.append(f"rename {column!r} to {meant!r} if it is that")
    named = [column for column in unused if column]
    if len(named) < len(unused):
        named.append(f"{len(unused) - len(named)} without a name")
    more = f". Remedy: {'; '.join(remedies[:_SHOWN])}" if remedies else ""
    yield f"{table.lines.path}:1: columns left out: {', '.join(named)[:300]}{more}"


def _meant(column: str) -> str | None:
    """The column that is known and like one that is not, in its letters or as another word for it.

    >>> _meant("lang"), _meant("sprache"), _meant("defintion"), _meant("comment")
    ('language', 'language', 'definition', None)
    """
    return _alike(column, {word: known for known, others in _WORDS.items() for word in (known, *others)})


def _alike(written: str, words: dict[str, str]) -> str | None:
    """What the word stands for that is nearest to one that is written."""
    from rapidfuzz import fuzz, process  # for a table with other words alone

    found = process.extractOne(written, list(words), scorer=fuzz.ratio, processor=str.lower, score_cutoff=_ALIKE)
    return None if found is None else words[found[0]]


def _places(table: Table) -> dict[str, int]:
    """Where the columns stand."""
    columns = ["concept_id" if column == "id" else column for column in table.header]
    for column in sorted(_COLUMNS):
        if columns.count(column) > 1:
            also = " or id" * (column == "concept_id")
            raise table.error(f"the column {column}{also} is there twice", "rename or delete one of them")
    missing = [called for column, called in _NEEDED.items() if column not in columns]
    if missing:
        shown = table.first[:10]
        if len(table.first) < 2 or not all(cell.replace("-", "_").isidentifier() and len(cell) <= 40 for cell in shown):
            shown = ()  # blanks and marks may be content of a file without a header
        raise table.error(
            f"looked for the columns concept_id (or id) and name; found {found_columns(table.first)}"
            + (f": {', '.join(shown)}" if shown else ""),
            f"in the first line, call {' and '.join(missing)}",
        )
    return {column: columns.index(column) for column in _COLUMNS if column in columns}


def _several(cell: str) -> list[str]:
    return [part.strip() for part in cell.split("|") if part.strip()]


FORMAT = Format(
    "table",
    read_table,
    "--table",
    "Your own table: TSV or CSV with concept_id, name and optionally language, type, definition, parent.",
    70,
)
