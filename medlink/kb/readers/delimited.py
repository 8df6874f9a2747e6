"""The one reader of delimited files: what stands in which column is said by a description, a TOML file.

Those of medlink are in ``medlink/resources/kb/formats``; a user writes one for a file of his own, see
``docs/reference/terminologies.md``, which lists the keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import resources
from itertools import chain
from operator import itemgetter
from os import PathLike
from pathlib import Path
from string import Formatter
from typing import Any

from medlink.errors import ConfigError, InputError
from medlink.files.escapes import from_cell
from medlink.files.json import read_toml
from medlink.files.problems import Problems
from medlink.files.streams import LineFile, existing_file
from medlink.files.tables import Rows, Table, found_columns, open_table
from medlink.kb.readers.common import existing_folder, is_id, known_language, nothing_found, stem
from medlink.kb.readers.remarks import KNOWN_TYPES, Remarks, columns_left_out, unknown_language
from medlink.kb.systems import System, named
from medlink.language.tags import language_tag
from medlink.records import (
    RETIREMENTS,
    Concept,
    Definition,
    Mapping,
    Name,
    Record,
    Relation,
    Retired,
    SemanticType,
    Source,
)  # fmt: skip

Cell = Callable[[Sequence[str]], str]
"""What a description makes of a row: the cells of its columns, and what is the same in all rows."""
_FORMATS = Path(str(resources.files("medlink"))) / "resources" / "kb" / "formats"
_MOST_LINES = 100  # of one row
_LOOKED_AT = 1 << 22  # bytes by which an encoding is told
_VALUE = (str, dict, list)
_KEYS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("option", "help", "expected", "remedy", "bad", "repeated", "other_types", "delimiter"), str),
    **dict.fromkeys(("quoted_with", "comments", "first_row", "rows_begin", "hierarchy", "kind", "file", "marks"), str),
    **dict.fromkeys(("order", "wider"), int),
    **dict.fromkeys(("remarks", "concepts", "escaped", "needed"), bool),
    **dict.fromkeys(("optional", "constants", "codes", "recognised_by", "types", "layouts", "files", "parents"), list),
    **dict.fromkeys(("source", "title", "version", "language", "system", "id", "alias", "definition"), _VALUE),
    **dict.fromkeys(("columns", "encoding"), _VALUE),
}
_TEXT = frozenset({"text", "when", "unless", "pattern", "join", "upper", "squeeze", "system", "alias"})
_ENTRIES = {
    "skip": {"text", "pattern", "reason"},
    "good": {"text", "pattern", "reason"},
    "names": {"text", "type", "when", "unless", "split"},
    "mappings": {"system", "type", "codes", "when", "unless"},
    "semantic_types": {"text", "code", "split", "title"},
    "second_row": {"column", "pattern", "like"},
    "retired": {"type", "by"},
}
_NEEDED = {
    **dict.fromkeys(("skip", "good"), "text pattern reason"),
    **{"names": "text type", "mappings": "system codes", "semantic_types": "text"},
    **{"second_row": "column pattern like", "retired": "type by"},
}
_WORDS = {str: "a text", dict: "a table", list: "a list", int: "a number", bool: "true or false"}


def read_delimited(
    format: str | PathLike[str],
    path: str | PathLike[str],
    *,
    source: str | None = None,
    version: str | None = None,
    title: str = "",
    language: str | None = None,
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read a delimited file, or a folder of them, by the description of its format.

    Memory grows with the ids, and with the names of classifications whose hierarchy is that of their codes.

    Args:
        format: name of a description of medlink, such as ``table``, or the path of a TOML file.
        path: the file, plain or ``.gz``, or the folder.
        source, version, title: those of the source, in place of what the description says.
        language: that of names whose row states none.
        problems: where bad and left-out rows are counted.

    Raises:
        ConfigError: there is no such description, or it cannot be used; the language is unknown.
        InputError: the file cannot be read, is of another format, or too many of its rows are bad.
    """
    reader = _Reader(described(format), problems or Problems())
    return reader.read(path, source, version, title, None if language is None else known_language(language))


read_table = partial(read_delimited, "table")
"""Reads a user's own table: TSV or CSV with a name in each row."""


def described(format: str | PathLike[str]) -> Description:
    """The description of a name, or in a file that ends in ``.toml``; a :class:`ConfigError` where there is none."""
    if not str(format).endswith(".toml"):
        return _described(_FORMATS / f"{format}.toml")
    try:
        return Description(read_toml(Path(format)), Path(format))
    except InputError as error:
        raise ConfigError(error.message, path=format, remedy=error.remedy) from error


@cache
def _described(path: Path) -> Description:
    return Description(read_toml(path), path)


def descriptions() -> Iterator[Description]:
    """The descriptions of medlink."""
    return (_described(path) for path in sorted(_FORMATS.glob("*.toml")))


class Description:
    """What a TOML file says of a format, checked; a :class:`ConfigError` names the key that is wrong."""

    def __init__(self, said: dict[str, Any], path: Path) -> None:
        self.said, self.path, self.name = said, path, path.name.removesuffix(".toml")
        self.in_folder = "files" in said
        parts = said.get("files") or said.get("layouts") or [{}]
        for part in (said, *parts):
            _check(part, path)
        shared = {key: value for key, value in said.items() if key not in ("files", "layouts")}
        self.parts = [{**shared, **part} for part in parts]
        self.layouts({})
        _Cells(path, ("file", "source"), {}).all(said, "source", "title", "version", "language", "system")

    def layouts(self, aliases: dict[str, str]) -> list[_Layout]:
        """The layouts that a file may have, or those of the files of a folder."""
        return [_Layout(part, self.path, aliases) for part in self.parts]

    def fits(self, first: str, header: frozenset[str]) -> bool:
        """Whether a file is of the format, by its first line, and the cells of that in lower case."""
        return any(layout.fits(first, header) for layout in self.layouts({}))

    def mark(self) -> re.Pattern[str]:
        """Of a folder, the name of the file by which it is known."""
        return next(re.compile(part["file"]) for part in self.parts if part.get("needed"))


def _check(said: dict[str, Any], path: Path) -> None:
    for key, value in said.items():
        entries, kinds = _ENTRIES.get(key), _KEYS.get(key, ())
        if entries is not None:
            listed = [value] if key in ("second_row", "retired") else value
            if not isinstance(listed, list) or not all(
                isinstance(one, dict) and one.keys() <= entries for one in listed
            ):
                raise _wrong(path, key, "is none of its tables", f"give it the keys {', '.join(sorted(entries))}")
            missing = [word for one in listed for word in _NEEDED[key].split() if word not in one]
            if missing:
                raise _wrong(path, key, f"{missing[0]} is missing", f"give each the keys {_NEEDED[key]}")
        elif key == "types" and not all(isinstance(one, list) and len(one) == 2 for one in value):
            raise _wrong(path, key, f"{value!r} cannot stand there", "give a list of lists of a pattern and a type")
        elif not kinds:
            known = ", ".join(sorted({*_KEYS, *_ENTRIES}))
            raise _wrong(path, key, "there is no such key", f"use one of {known}")
        elif not isinstance(value, kinds):
            words = " or ".join(_WORDS[kind] for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
            raise _wrong(path, key, f"{value!r} cannot stand there", f"give {words}")


def _wrong(path: Path, key: str, message: str, remedy: str) -> ConfigError:
    return ConfigError(f"{key}: {message}", path=path, remedy=remedy)


class _Cells:
    def __init__(self, path: Path, columns: Sequence[str], aliases: dict[str, str]) -> None:
        self.path, self.at, self.aliases = path, {name: at for at, name in enumerate(columns)}, aliases

    def all(self, said: dict[str, Any], *keys: str) -> dict[str, Cell]:
        return {key: self.cell(key, said[key]) for key in keys if key in said}

    def cell(self, key: str, said: Any) -> Cell:
        """A text with columns in braces, a table of how it is changed, or a list of which the first counts that is not
        empty."""
        if isinstance(said, str):
            return self._template(key, said)
        if isinstance(said, list):
            options = [self.cell(key, one) for one in said]
            return lambda row: next(filter(None, (option(row) for option in options)), "")
        if not isinstance(said, dict) or "text" not in said or not said.keys() <= _TEXT:
            raise _wrong(
                self.path, key, f"{said!r} is no text", f"give a text, or a table of {', '.join(sorted(_TEXT))}"
            )
        found = self.cell(key, said["text"])
        if said.get("upper"):
            found = _then(found, str.upper)
        if said.get("squeeze"):
            found = _then(found, lambda text: " ".join(text.split()))
        if "pattern" in said:
            pattern, between = self.pattern(key, said["pattern"]), said.get("join", "")

            def matched(text: str) -> str:
                if not (match := pattern.fullmatch(text)):
                    return ""
                return between.join(filter(None, match.groups())) if pattern.groups else text

            found = _then(found, matched)
        if "system" in said:
            system = named(said["system"])
            found = _then(found, lambda code: code and system.concept_id(code))
        if said.get("alias"):
            found = _then(found, lambda code: self.aliases.get(code, ""))
        return self.chosen(key, said, found)

    def chosen(self, key: str, said: dict[str, Any], cell: Cell) -> Cell:
        """A cell that is empty where ``when`` is, or ``unless`` is not."""
        for word, wanted in (("when", True), ("unless", False)):
            if word in said:
                cell = _where(self.cell(key, said[word]), wanted, cell)
        return cell

    def pattern(self, key: str, said: str) -> re.Pattern[str]:
        try:
            return re.compile(said)
        except (re.error, TypeError) as error:
            raise _wrong(self.path, key, f"{said!r} is no regular expression: {error}", "mend the pattern") from error

    def place(self, key: str, column: str) -> int:
        if column not in self.at:
            listed = ", ".join(filter(None, self.at))
            raise _wrong(self.path, key, f"there is no column {column!r}", f"use one of {listed}, or add it to columns")
        return self.at[column]

    def _template(self, key: str, text: str) -> Cell:
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise _wrong(self.path, key, f"{text!r}: {error}", "write a column as {name}") from error
        places = [self.place(key, field) for _, field, *_ in parts if field is not None]
        if not places:
            return lambda row: text
        if len(parts) == len(places) == 1 and not parts[0][0]:
            return itemgetter(places[0])
        taken = itemgetter(*places) if len(places) > 1 else lambda row: (row[places[0]],)
        form = "".join(literal.replace("%", "%%") + "%s" * (field is not None) for literal, field, *_ in parts)
        if form == "%s" * len(places):
            return lambda row: "".join(taken(row))
        return lambda row: form % taken(row) if any(taken(row)) else ""


def _then(cell: Cell, change: Callable[[str], str]) -> Cell:
    return lambda row: change(cell(row))


def _where(asked: Cell, wanted: bool, cell: Cell) -> Cell:
    return lambda row: cell(row) if bool(asked(row)) is wanted else ""


class _Layout:
    def __init__(self, said: dict[str, Any], path: Path, aliases: dict[str, str]) -> None:
        self.said, self.path = said, path
        columns = said.get("columns")
        if not columns or isinstance(columns, str):
            raise _wrong(path, "columns", "is missing", 'name them, such as id = "Code" and name = "Title"')
        self.has_header = isinstance(columns, dict)
        self.columns = list(columns)
        self.taken = [column for column in self.columns if column]
        self.words: dict[str, list[str]] = {}
        if self.has_header:
            self.words = {name: [words] if isinstance(words, str) else words for name, words in columns.items()}
        plain = _Cells(path, (), aliases)
        second = said.get("second_row")
        self.second = plain.pattern("second_row", second["pattern"]) if second else None
        groups = list(self.second.groupindex) if self.second else []
        self.constants = [*groups, *said.get("constants", ()), "file", "code"]
        cells = _Cells(path, [*self.taken, *self.constants], aliases)
        for column in said.get("optional", ()):
            cells.place("optional", column)
        self.id = cells.cell("id", said.get("id", "{id}"))
        self.alias = cells.cell("alias", said.get("alias", ""))
        # what the columns of these names say where the description does not
        usual: dict[str, Any] = {
            "names": [{"text": "{name}", "type": "{type}" if "type" in cells.at else "synonym"}],
            "definition": "{definition}",
            "parents": ["{parent}"],
            "semantic_types": [{"text": "{semantic_type}"}],
        }
        usual = {key: value for key, value in usual.items() if key.removesuffix("s") in cells.at}
        given = {"names": [], "definition": "", "parents": [], "semantic_types": [], **usual, **said}
        self.names = [
            (cells.chosen("names", one, cells.cell("names", one["text"])), cells.cell("names", one["type"]))
            for one in given["names"]
        ]
        self.definition = cells.cell("definition", given["definition"])
        self.parents = [cells.cell("parents", one) for one in given["parents"]]
        self.semantic_types = [
            (*(cells.cell("semantic_types", one.get(key, "")) for key in ("text", "code")), one.get("title", False))
            for one in given["semantic_types"]
        ]
        self.mappings = [
            (named(one["system"]).name, one.get("type", "code"), cells.chosen("mappings", one, cell))
            for one in said.get("mappings", ())
            for cell in (cells.cell("mappings", code) for code in one["codes"])
        ]
        self.retired = cells.all(said.get("retired", {}), "type", "by")
        self.skip, self.good = (
            [
                (cells.cell(key, one["text"]), cells.pattern(key, one["pattern"]), cells.cell(key, one["reason"]))
                for one in said.get(key, ())
            ]
            for key in ("skip", "good")
        )
        self.types = [(plain.pattern("types", pattern), kind) for pattern, kind in said.get("types", ())]
        self.codes = [cells.place("codes", column) for column in said.get("codes", ()) if column in cells.at]
        self.marks = plain.pattern("marks", said.get("marks", "$^"))
        self.language = cells.at.get("language")
        self.first_row = plain.pattern("first_row", said.get("first_row", "$^"))
        self.split = cells.at.get("split")
        self.kind: str = said.get("kind", "")

    def has_width(self, columns: int) -> bool:
        return len(self.columns) <= columns <= len(self.columns) + int(self.said.get("wider", 0))

    @property
    def needed(self) -> list[str]:
        return [column for column in self.taken if column not in self.said.get("optional", ())]

    def fits(self, first: str, header: frozenset[str]) -> bool:
        if not self.has_header:
            return bool(self.first_row.fullmatch(first))
        asked = self.said.get("recognised_by") or ["|".join(self.words[column]).lower() for column in self.needed]
        return all(any(word in header for word in words.split("|")) for words in asked)

    def matches(self, table: Table) -> bool:
        for words in self.words.values():
            if sum(table.header.count(word.lower()) for word in words) > 1:
                raise table.error(f"the column {' or '.join(words)} is there twice", "rename or delete one of them")
        return all(any(word.lower() in table.header for word in self.words[column]) for column in self.needed)

    def places(self, table: Table) -> list[int]:
        """Where the columns stand; behind its cells, where a row is empty, for those that the header lacks."""
        if not self.has_header:
            return [at for at, column in enumerate(self.columns) if column]
        found = ([word.lower() for word in words if word.lower() in table.header] for words in self.words.values())
        return [table.header.index(words[0]) if words else len(table.header) for words in found]


class _Reader:
    def __init__(self, description: Description, problems: Problems) -> None:
        self.said, self.path, self.problems = description.said, description.path, problems
        self.aliases: dict[str, str] = {}
        self.seen: dict[str, str] = {}
        self.layouts = description.layouts(self.aliases)
        self.in_folder = description.in_folder
        self.system: System | None = None
        self.source = self.language = self.file = ""
        self.encoding: str | None = None
        self.remedy = self.said.get("remedy", "give a file as the description says, or mend that")

    def read(
        self, path: str | PathLike[str], source: str | None, version: str | None, title: str, language: str | None
    ) -> Iterator[Record]:
        if self.in_folder:
            files = self._find(path)
            yield self._announced(next(iter(files.values())), self.said, source, version, title, language)
            for layout in self.layouts:
                if layout.kind in files:
                    lines = self._lines(files[layout.kind])
                    yield from _File(self, layout, self._open(layout, lines)).records()
                else:
                    self.problems.notes.append(f"there is no file of {layout.kind}")
        else:
            lines = self._lines(Path(path))
            layout, table = self._table(lines)
            yield self._announced(lines.path, layout.said, source, version, title, language)
            yield from _File(self, layout, table).records()

    def _announced(
        self, path: Path, said: dict[str, Any], source: str | None, version: str | None, title: str, tag: str | None
    ) -> Source:
        self.file = stem(path.name)
        system, language, name, stated = (
            self._shared(said, key) for key in ("system", "language", "source", "version")
        )
        self.system = named(system) if system else None
        self.source = source or name or (self.system.name if self.system else self.file)
        self.language = (language_tag(language) or "") if tag is None else tag
        title = title or self._shared(said, "title") or (self.system.name if self.system else self.source)
        return Source(self.source, stated if version is None else version, title)

    def _shared(self, said: dict[str, Any], key: str) -> str:
        return _Cells(self.path, ("file", "source"), {}).cell(key, said.get(key, ""))((self.file, self.source))

    def _lines(self, path: Path) -> LineFile:
        """The lines of a file, in the second of two encodings where most lines with other letters than those of ASCII
        are not in the first: a damaged byte stays a bad row."""
        stated = self.said.get("encoding", "utf-8")
        encodings = [stated] if isinstance(stated, str) else stated
        chosen = encodings[0]
        if encodings[1:]:
            held = b""
            for block in LineFile(path, Problems(1.0), may_be_empty=True).blocks():
                held += block
                if len(held) > _LOOKED_AT:
                    break
            other = [_decodes(line, chosen) for line in held.split(b"\n") if not line.isascii()]
            if other.count(False) > other.count(True):
                chosen = encodings[1]
                self.problems.notes.append(f"{existing_file(path)}: is read as {chosen}")
        self.encoding = None if chosen == "utf-8" else chosen
        return LineFile(path, self.problems, encoding=self.encoding)

    def _table(self, lines: LineFile) -> tuple[_Layout, Table]:
        layouts = self.layouts
        if layouts[0].has_header:
            table = self._open(layouts[0], lines)
            layout = next((layout for layout in layouts if layout.matches(table)), None)
            if layout is None:
                raise self._without_columns(table)
            return layout, table
        first = next(iter(LineFile(lines.path, Problems(1.0), encoding=self.encoding)), (1, ""))[1]
        for layout in layouts:
            if "delimiter" not in layout.said:
                table = self._open(layout, lines)
                if layout.has_width(len(table.first)):
                    return layout, table
            elif layout.has_width(first.count(layout.said["delimiter"]) + 1):
                return layout, self._open(layout, lines)
        message = f"looked for {self.said.get('expected') or f'{len(layouts[0].columns)} columns'}"
        marks = [layout.said.get("delimiter") for layout in layouts]
        count = max(first.count(mark) + 1 if mark else len(table.first) for mark in marks)
        raise InputError(f"{message}; found {count}", path=lines.path, line=1, remedy=self.remedy)

    def _without_columns(self, table: Table) -> InputError:
        needed = [self.layouts[-1].words[column] for column in self.layouts[-1].needed]
        wanted = [words[0] + f" (or {' or '.join(words[1:])})" * (len(words) > 1) for words in needed]
        listed = " and ".join(filter(None, (", ".join(wanted[:-1]), wanted[-1])))
        shown = table.first[:10]
        if len(table.first) < 2 or not all(cell.replace("-", "_").isidentifier() and len(cell) <= 40 for cell in shown):
            shown = ()  # blanks and marks may be content of a file without a header
        found = found_columns(table.first) + (f": {', '.join(shown)}" if shown else "")
        remedy = self.said.get("remedy", f"in the first line, name the columns {listed}")
        return table.error(f"looked for the columns {listed}; found {found}", remedy)

    def _open(self, layout: _Layout, lines: LineFile) -> Table:
        said = layout.said
        delimiter: str | None = said.get("delimiter")
        if "rows_begin" in said and delimiter:
            numbered = iter(lines)
            first = next(numbered, (1, ""))[1].split(delimiter)
            lines.no_rows += 1
            written = tuple(cell.strip() for cell in first)
            rows = _joined(lines, numbered, len(first), delimiter, re.compile(said["rows_begin"]))
            return Table(lines, tuple(map(str.lower, written)), written, rows, delimiter)
        if not layout.has_header and delimiter:
            return Table(lines, (), (), _plain(lines, layout, delimiter), delimiter)
        table = open_table(
            lines, separator=delimiter, quoted_with=said.get("quoted_with", ""), comments=said.get("comments", "")
        )
        return table if layout.has_header else Table(lines, (), table.first, table.with_first(), table.separators)

    def _find(self, folder: str | PathLike[str]) -> dict[str, Path]:
        top = existing_folder(folder, "name the folder of the files")
        files: dict[str, Path] = {}
        below = sorted(path for path in top.rglob("*") if path.is_file())
        for layout in self.layouts:
            kind, pattern = layout.kind, re.compile(layout.said["file"])
            found = [path for path in below if pattern.fullmatch(path.name)]
            if len(found) > 1:
                message = f"there are two files of {kind}: {found[0].name} and {found[1].name}"
                raise InputError(message, path=folder, remedy="name the folder of one edition")
            if not found and layout.said.get("needed"):
                wanted = self.said.get("expected", f"a file of {kind}")
                raise nothing_found(folder, wanted, (path.name for path in below), self.remedy)
            if found:
                files[kind] = found[0]
        return files


class _File:
    def __init__(self, reader: _Reader, layout: _Layout, table: Table) -> None:
        self.layout, self.said, self.lines, self.problems = layout, layout.said, table.lines, reader.problems
        self.source, self.system, self.seen, self.aliases = reader.source, reader.system, reader.seen, reader.aliases
        self.places = layout.places(table)
        second, self.rows = self._second_row(table)
        self.constants = [*second, *("" for _ in self.said.get("constants", ())), reader.file, ""]
        self.heads = [table.header[place] if place < len(table.header) else "" for place in self.places]
        self.remarks = Remarks() if self.said.get("remarks") else None
        if self.remarks:
            taken = {word.lower() for words in layout.words.values() for word in words}
            self.problems.notes += columns_left_out(self.lines.path, table.header, taken)
        self.kinds: dict[str, str | None] = {} if layout.types else {"": "synonym", **{one: one for one in KNOWN_TYPES}}
        self.tags: dict[str, str | None] = {"": reader.language}
        self.titled = any(title for *_, title in layout.semantic_types) or "repeated" in self.said
        self.announces, self.escaped = self.said.get("concepts", True), self.said.get("escaped", False)
        self.by_beginnings = "hierarchy" in self.said
        self.below: dict[str, tuple[int, list[str]]] = {}

    def records(self) -> Iterator[Record]:
        layout, problems, path = self.layout, self.problems, self.lines.path
        places, constants = self.places, self.constants
        marks = layout.marks.sub
        for line, cells in self.rows:
            problems.at = path, line
            cells.append("")
            row = [cells[place].strip() for place in places]
            row += constants
            for at in layout.codes:
                if row[at]:
                    row[at] = marks("", row[at])
            if self._usable(row, line):
                yield from self._of_row(row, line)
        for code, (line, parents) in self.below.items():
            problems.at = path, line
            above = next((code[:end] for end in range(len(code) - 1, 0, -1) if code[:end] in self.below), None)
            yield from (self._isa(self._full(code), parent) for parent in ([above] if above else parents))
        problems.notes += self.remarks.notes(path) if self.remarks else ()

    def _usable(self, row: list[str], line: int) -> bool:
        layout, bad = self.layout, self.said.get("bad")
        # the first cell tells nearly every row from a header
        is_like_header = layout.has_header and row[0].lower() == self.heads[0]
        if is_like_header and [cell.lower() for cell in row[: len(self.heads)]] == self.heads:
            self.problems.skipped["header repeated"] += 1
            return False
        if reason := _reason(row, layout.skip, True):
            self.problems.skipped[reason] += 1
            return False
        code = row[-1] = layout.id(row)
        if not code:
            self.lines.bad(bad or "empty id or name", line)
        elif not is_id(code) or not all(is_id(row[at]) for at in layout.codes if row[at]):
            self.lines.bad(bad or "id with a blank, | or invisible character", line)
        elif reason := _reason(row, layout.good, False):
            self.lines.bad(reason, line)
        else:
            return True
        return False

    def _of_row(self, row: list[str], line: int) -> Iterator[Record]:
        layout, source, code = self.layout, self.source, row[-1]
        tag = self._tag(row, line)
        if tag is None:
            return
        concept_id = self._full(code)
        if layout.retired:
            yield from self._retired(concept_id, row, line)
            return
        names = [(text, self._kind(kind(row), line)) for cell, kind in layout.names if (text := cell(row))]
        if not self._is_wanted(code, names, line):
            return
        if code not in self.seen:
            self.seen[code] = names[0][0] if self.titled else ""
            if self.announces:
                yield Concept(concept_id, source)
        if layout.split is not None and (mark := row[layout.split]):
            names = [(part.strip(), kind) for text, kind in names for part in text.split(mark) if part.strip()]
        for written, kind in names:
            text = from_cell(written) if self.escaped else written
            if self.remarks:
                self.remarks.name(text, line)
            if kind == "definition":
                yield Definition(concept_id, text, tag, source)
            else:
                yield Name(concept_id, text, tag, kind or "", source, kind == "preferred")
        if text := layout.definition(row):
            yield Definition(concept_id, text, tag, source)
        yield from self._placed(concept_id, row, line)

    def _placed(self, concept_id: str, row: list[str], line: int) -> list[Record]:
        layout, source, code = self.layout, self.source, row[-1]
        found: list[Record] = []
        if self.system:
            found.append(Mapping(concept_id, self.system.name, code, "code", source))
        for system, kind, cell in layout.mappings:
            if text := cell(row):
                found.append(Mapping(concept_id, system, text, kind, source))
        if alias := layout.alias(row):
            # of blocks in each other the narrowest
            self.aliases[alias] = min(self.aliases.get(alias, code), code)
        parents = [part for cell in layout.parents if (text := cell(row)) for part in _several(text)]
        if self.by_beginnings:
            self.below[code] = line, parents
        else:
            found += [self._isa(concept_id, parent) for parent in parents]
        for cell, code_of, title in layout.semantic_types:
            for part in _several(cell(row)):
                if text := (self.seen.get(part, "") if part != code else "") if title else part:
                    found.append(SemanticType(concept_id, text, code_of(row), source))
        return found

    def _tag(self, row: list[str], line: int) -> str | None:
        """The language of a row, ``None`` where it states one that is none."""
        stated = row[self.layout.language] if self.layout.language is not None else ""
        if stated not in self.tags:
            self.tags[stated] = language_tag(stated)
        if self.tags[stated] is None:
            self.lines.bad("unknown language", line, unknown_language(stated))
        return self.tags[stated]

    def _is_wanted(self, code: str, names: list[tuple[str, str | None]], line: int) -> bool:
        """Whether a row has names, of known types, and its code was not met where it stands in one row only."""
        if not names:
            self.lines.bad(self.said.get("bad", "empty id or name"), line)
        elif names[0][1] is None:
            self.problems.skipped[self.said["other_types"]] += 1
        elif code in self.seen and "repeated" in self.said:
            self.problems.skipped[self.said["repeated"]] += 1
        else:
            return True
        return False

    def _full(self, code: str) -> str:
        return self.system.concept_id(code) if self.system else code

    def _isa(self, concept_id: str, parent: str) -> Relation:
        return Relation(concept_id, "isa", self._full(parent), self.source)

    def _retired(self, concept_id: str, row: Sequence[str], line: int) -> Iterator[Record]:
        cells = self.layout.retired
        kind, by = self._kind(cells["type"](row), line), cells["by"](row)
        if kind not in RETIREMENTS:
            self.lines.bad("unknown kind of retirement", line)
        elif kind != "deleted" and not by:
            self.lines.bad("no concept that succeeds it", line)
        else:
            yield Retired(concept_id, kind, by and self._full(by), self.source)

    def _kind(self, kind: str, line: int) -> str | None:
        """A type as medlink calls it, ``None`` where such rows are left out; one that is not known stays as it is."""
        if kind in self.kinds:
            return self.kinds[kind]
        for pattern, known in self.layout.types:
            if found := pattern.fullmatch(kind):
                return self.kinds.setdefault(kind, found.expand(known).lower())
        if "other_types" in self.said:
            return self.kinds.setdefault(kind, None)
        if kind.lower() in KNOWN_TYPES:
            return self.kinds.setdefault(kind, kind.lower())
        if self.remarks:
            self.remarks.type(kind, line)
        return kind or "synonym"

    def _second_row(self, table: Table) -> tuple[list[str], Rows]:
        if self.layout.second is None:
            return [], table.rows
        said = self.said["second_row"]
        at = self.places[self.layout.taken.index(said["column"])]
        line, second = next(table.rows, (2, []))
        found = self.layout.second.match(second[at]) if second else None
        if found is None:
            message = f"looked for a second header row with a directive such as {said['like']!r}; found "
            message = f"{message}{second[at][:80]!r}" if second else "there is no second header row"
            raise InputError(message, path=table.lines.path, line=line, remedy=self.said.get("remedy"))
        table.lines.no_rows += 1
        return [text or "" for text in found.groups()], table.rows


def _reason(row: Sequence[str], rules: Sequence[tuple[Cell, re.Pattern[str], Cell]], wanted: bool) -> str:
    for cell, pattern, reason in rules:
        if (pattern.fullmatch(cell(row)) is not None) is wanted:
            return reason(row)
    return ""


def _several(cell: str) -> list[str]:
    """The ids or types of a cell, which bars part."""
    return [part for one in cell.split("|") if (part := one.strip())] if "|" in cell else [cell] * (cell != "")


def _decodes(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _plain(lines: LineFile, layout: _Layout, delimiter: str) -> Rows:
    """Rows of a file without header and quoting, which may have further columns."""
    for number, text in lines:
        cells = text.split(delimiter)
        if layout.has_width(len(cells)):
            yield number, cells
        elif text:
            if lines.cut and len(cells) < len(layout.columns):
                lines.cut_off(f": {len(cells)} of {len(layout.columns)} columns and no line end")
            lines.bad("column count", number, f"{len(cells)} columns, {len(layout.columns)} expected")
        else:
            lines.no_rows += 1


def _joined(lines: LineFile, numbered: Rows | Any, columns: int, delimiter: str, begins: re.Pattern[str]) -> Rows:
    number, held = 0, list[str]()
    for at, text in chain(numbered, [(-1, "")]):
        cells = text.split(delimiter)
        goes_on = held and 0 < at < number + _MOST_LINES and len(held) + len(cells) - 1 <= columns
        if at > 0 and not text.strip():
            lines.no_rows += 1
        elif goes_on and not begins.fullmatch(cells[0].strip()):
            lines.no_rows += 1
            held = [*held[:-1], f"{held[-1]} {cells[0]}", *cells[1:]]
        else:
            if len(held) == columns:
                yield number, held
            elif held:
                lines.bad("column count", number, f"{len(held)} columns, {columns} expected")
            number, held = at, cells
