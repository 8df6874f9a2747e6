"""The one reader of delimited files, by a description of their columns (:mod:`medlink.kb.readers.descriptions`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

from medlink.errors import InputError
from medlink.files.escapes import from_cell
from medlink.files.problems import Problems
from medlink.files.streams import LineFile, existing_file
from medlink.files.tables import Rows, Table, found_columns, open_table
from medlink.kb.readers.common import existing_folder, is_id, known_language, nothing_found, stem
from medlink.kb.readers.descriptions import Cell, Cells, Description, Layout, described
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

_MOST_LINES = 100  # of one row
_LOOKED_AT = 1 << 22  # bytes by which an encoding is told


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
        return Cells(self.path, ("file", "source"), {}).cell(key, said.get(key, ""))((self.file, self.source))

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

    def _table(self, lines: LineFile) -> tuple[Layout, Table]:
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

    def _open(self, layout: Layout, lines: LineFile) -> Table:
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
    def __init__(self, reader: _Reader, layout: Layout, table: Table) -> None:
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


def _plain(lines: LineFile, layout: Layout, delimiter: str) -> Rows:
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
