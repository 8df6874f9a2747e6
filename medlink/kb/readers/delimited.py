"""Reader of delimited files, driven by a description of their columns (:mod:`medlink.kb.readers.descriptions`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from medlink.errors import InputError
from medlink.files.escapes import unescape_cell
from medlink.files.problems import Problems
from medlink.files.streams import LineFile, choose_encoding, existing_file
from medlink.files.tables import Table, describe_header, join_lines, open_table, read_rows
from medlink.kb.readers.common import base_name, existing_folder, is_valid_id, missing_files_error, resolve_language
from medlink.kb.readers.descriptions import Cell, CellCompiler, Description, Layout, load_description
from medlink.kb.readers.table_notes import KNOWN_TYPES, TableNotes, unknown_language, unused_column_notes
from medlink.kb.systems import System, system_by_name
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

    Memory grows with the ids, and with the names of classifications whose hierarchy follows from their codes.

    Args:
        format: name of a built-in description, such as ``table``, or the path of a TOML file.
        path: the file, plain or ``.gz``, or the folder.
        source, version, title: override those in the description.
        language: language of names whose row states none.

    Raises:
        ConfigError: the description or the language is unknown, or the description is invalid.
        InputError: the file cannot be read, has another format, or too many bad rows.
    """
    reader = _Reader(load_description(format), problems or Problems())
    return reader.read(path, source, version, title, None if language is None else resolve_language(language))


read_table = partial(read_delimited, "table")
"""Reads a user's own table: TSV or CSV with one name a row."""


class _Reader:
    def __init__(self, description: Description, problems: Problems) -> None:
        self.spec, self.path, self.problems = description.spec, description.path, problems
        self.aliases: dict[str, str] = {}
        self.seen: dict[str, str] = {}
        self.layouts = description.layouts(self.aliases)
        self.system: System | None = None
        self.source = self.language = self.file = ""
        self.encoding: str | None = None
        self.remedy = self.spec.get("remedy", "give a file that fits the description, or correct the description")

    def read(
        self, path: str | PathLike[str], source: str | None, version: str | None, title: str, language: str | None
    ) -> Iterator[Record]:
        if "files" not in self.spec:
            lines = self._lines(Path(path))
            layout, table = self._table(lines)
            yield self._make_source(lines.path, layout.spec, source, version, title, language)
            yield from _File(self, layout, table).records()
            return
        files = self._find_files(path)
        yield self._make_source(next(iter(files.values())), self.spec, source, version, title, language)
        for layout in self.layouts:
            kind = layout.spec.get("kind", "")
            if kind in files:
                yield from _File(self, layout, self._open(layout, self._lines(files[kind]))).records()
            else:
                self.problems.notes.append(f"there is no file of {kind}")

    def _make_source(
        self, path: Path, spec: dict[str, Any], source: str | None, version: str | None, title: str, tag: str | None
    ) -> Source:
        self.file = base_name(path.name)
        system, language, name, stated = (self._text(spec, key) for key in ("system", "language", "source", "version"))
        self.system = system_by_name(system) if system else None
        self.source = source or name or (self.system.name if self.system else self.file)
        self.language = (language_tag(language) or "") if tag is None else tag
        if spec.get("language") and tag is None and not self.language:
            raise InputError("its name does not state the language", path=path, remedy=spec.get("remedy", self.remedy))
        title = title or self._text(spec, "title") or (self.system.name if self.system else self.source)
        return Source(self.source, stated if version is None else version, title)

    def _text(self, spec: dict[str, Any], key: str) -> str:
        return CellCompiler(self.path, ("file", "source"), {}).compile(key, spec.get(key, ""))((self.file, self.source))

    def _lines(self, path: Path) -> LineFile:
        stated = self.spec.get("encoding", "utf-8")
        encodings = [stated] if isinstance(stated, str) else stated
        chosen = choose_encoding(path, *encodings[:2]) if encodings[1:] else encodings[0]
        if chosen != encodings[0]:
            self.problems.notes.append(f"{existing_file(path)}: is read as {chosen}")
        self.encoding = None if chosen == "utf-8" else chosen
        return LineFile(path, self.problems, encoding=self.encoding)

    def _table(self, lines: LineFile) -> tuple[Layout, Table]:
        layouts = self.layouts
        if layouts[0].has_header:
            table = self._open(layouts[0], lines)
            layout = next((layout for layout in layouts if layout.matches(table)), None)
            if layout is None:
                raise self._missing_columns_error(table)
            return layout, table
        first = next(iter(LineFile(lines.path, Problems(1.0), encoding=self.encoding)), (1, ""))[1]
        for layout in layouts:
            if "delimiter" not in layout.spec:
                table = self._open(layout, lines)
                if layout.has_width(len(table.first)):
                    return layout, table
            elif layout.has_width(first.count(layout.spec["delimiter"]) + 1):
                return layout, self._open(layout, lines)
        message = f"looked for {self.spec.get('expected') or f'{len(layouts[0].columns)} columns'}"
        marks = [layout.spec.get("delimiter") for layout in layouts]
        count = max(first.count(mark) + 1 if mark else len(table.first) for mark in marks)
        raise InputError(f"{message}; found {count}", path=lines.path, line=1, remedy=self.remedy)

    def _missing_columns_error(self, table: Table) -> InputError:
        required = [self.layouts[-1].words[column] for column in self.layouts[-1].required]
        wanted = [words[0] + f" (or {' or '.join(words[1:])})" * (len(words) > 1) for words in required]
        listed = " and ".join(filter(None, (", ".join(wanted[:-1]), wanted[-1])))
        described = describe_header(table.first)
        remedy = self.spec.get("remedy", f"in the first line, name the columns {listed}")
        error = table.error(f"looked for the columns {listed}; found {described}", remedy)
        if "encoding" in self.spec and error.message.startswith("read as"):
            error.remedy = f'write encoding = "utf-8" into {self.path}'
        return error

    def _open(self, layout: Layout, lines: LineFile) -> Table:
        spec = layout.spec
        delimiter: str | None = spec.get("delimiter")
        if "rows_begin" in spec and delimiter:
            numbered = iter(lines)
            first = next(numbered, (1, ""))[1].split(delimiter)
            lines.lines_without_row += 1
            written = tuple(cell.strip() for cell in first)
            rows = join_lines(lines, numbered, len(first), delimiter, re.compile(spec["rows_begin"]))
            return Table(lines, tuple(map(str.lower, written)), written, rows, delimiter)
        if not layout.has_header and delimiter:
            rows = read_rows(lines, len(layout.columns), delimiter, wider=spec.get("wider", 0))
            return Table(lines, (), (), rows, delimiter)
        stated = {key: spec[key] for key in ("quoted_with", "comments") if key in spec}
        table = open_table(lines, separator=delimiter, **stated)
        return table if layout.has_header else Table(lines, (), table.first, table.iter_all_rows(), table.separators)

    def _find_files(self, folder: str | PathLike[str]) -> dict[str, Path]:
        top = existing_folder(folder, "name the folder of the files")
        files: dict[str, Path] = {}
        below = sorted(path for path in top.rglob("*") if path.is_file())
        for layout in self.layouts:
            kind, pattern = layout.spec.get("kind", ""), re.compile(layout.spec["file"])
            matches = [path for path in below if pattern.fullmatch(path.name)]
            if len(matches) > 1:
                message = f"there are two files of {kind}: {matches[0].name} and {matches[1].name}"
                raise InputError(message, path=folder, remedy="name the folder of one edition")
            if not matches and layout.spec.get("needed"):
                wanted = self.spec.get("expected", f"a file of {kind}")
                raise missing_files_error(folder, wanted, (path.name for path in below), self.remedy)
            if matches:
                files[kind] = matches[0]
        return files


class _File:
    def __init__(self, reader: _Reader, layout: Layout, table: Table) -> None:
        self.layout, self.spec, self.lines, self.problems = layout, layout.spec, table.lines, reader.problems
        self.source, self.system, self.seen, self.aliases = reader.source, reader.system, reader.seen, reader.aliases
        self.indices, self.rows = layout.column_indices(table), table.rows
        second = self._read_second_row(table) if layout.second else []
        self.constants = [*second, *("" for _ in self.spec.get("constants", ())), reader.file, ""]
        self.header = [table.header[index] if index < len(table.header) else "" for index in self.indices]
        self.table_notes = TableNotes() if self.spec.get("remarks") else None
        if self.table_notes:
            self.problems.notes += unused_column_notes(self.lines.path, table.header, set(filter(None, self.header)))
        usual = {} if layout.types else {"": "synonym", **{kind: kind for kind in KNOWN_TYPES}}
        self.kinds: dict[str, str | None] = {**usual}
        self.tags: dict[str, str | None] = {"": reader.language}
        self.needs_titles = any(title for *_, title in layout.semantic_types) or "repeated" in self.spec
        self.defines_concepts, self.escaped = self.spec.get("concepts", True), self.spec.get("escaped", False)
        self.parents_of: dict[str, tuple[int, list[str]]] = {}

    def records(self) -> Iterator[Record]:
        layout, problems, path = self.layout, self.problems, self.lines.path
        indices, constants = self.indices, self.constants
        remove_marks = layout.marks.sub
        for line, cells in self.rows:
            problems.position = path, line
            cells.append("")
            row = [cells[index].strip() for index in indices]
            row += constants
            for index in layout.codes:
                if row[index]:
                    row[index] = remove_marks("", row[index])
            if self._is_usable(row, line):
                yield from self._records_of_row(row, line)
        for code, (line, parents) in self.parents_of.items():
            problems.position = path, line
            above = next((code[:end] for end in range(len(code) - 1, 0, -1) if code[:end] in self.parents_of), None)
            yield from (self._isa(self._concept_id(code), parent) for parent in ([above] if above else parents))
        problems.notes += self.table_notes.notes(path) if self.table_notes else ()

    def _is_usable(self, row: list[str], line: int) -> bool:
        layout, bad = self.layout, self.spec.get("bad")
        # comparing the first cell first is faster
        is_like_header = layout.has_header and row[0].lower() == self.header[0]
        if is_like_header and [cell.lower() for cell in row[: len(self.header)]] == self.header:
            self.problems.skipped["header repeated"] += 1
            return False
        if reason := _first_reason(row, layout.skip, True):
            self.problems.skipped[reason] += 1
            return False
        code = row[-1] = layout.id(row)
        if not code:
            self.lines.bad_row(bad or "empty id or name", line)
        elif not is_valid_id(code) or not all(is_valid_id(row[at]) for at in layout.codes if row[at]):
            self.lines.bad_row(bad or "id with a blank, | or invisible character", line)
        elif reason := _first_reason(row, layout.good, False):
            self.lines.bad_row(reason, line)
        else:
            return True
        return False

    def _records_of_row(self, row: list[str], line: int) -> Iterator[Record]:
        layout, source, code = self.layout, self.source, row[-1]
        tag = self._tag(row, line)
        if tag is None:
            return
        concept_id = self._concept_id(code)
        if layout.retired:
            yield from self._retirement(concept_id, row, line)
            return
        of_row = [row[layout.split]] if layout.split is not None and row[layout.split] else []
        names = [
            (text, self._kind(kind(row), line))
            for cell, kind, marks in layout.names
            if (whole := cell(row))
            for text in (_split_names(whole, marks or of_row) if marks or of_row else (whole,))
        ]
        if not self._has_new_names(code, names, line):
            return
        is_borrowed = layout.borrowed and _first_reason(row, layout.borrowed, True)
        if not is_borrowed and code not in self.seen:
            self.seen[code] = names[0][0] if names and self.needs_titles else ""
            if self.defines_concepts:
                yield Concept(concept_id, source)
        for cell_text, kind in names:
            text = unescape_cell(cell_text) if self.escaped else cell_text
            if self.table_notes:
                self.table_notes.check_name(text, line)
            if kind == "definition":
                yield Definition(concept_id, text, tag, source)
            else:
                yield Name(concept_id, text, tag, kind or "", source, kind == "preferred")
        if text := layout.definition(row):
            yield Definition(concept_id, text, tag, source)
        yield from self._facts(concept_id, row, line)

    def _facts(self, concept_id: str, row: list[str], line: int) -> list[Record]:
        layout, source, code = self.layout, self.source, row[-1]
        records: list[Record] = []
        if self.system:
            records.append(Mapping(concept_id, self.system.name, code, "code", source))
        for system, kind, cell in layout.mappings:
            if text := cell(row):
                records.append(Mapping(concept_id, system(row), text, kind(row), source))
        if alias := layout.alias(row):
            # the narrowest of nested blocks
            self.aliases[alias] = min(self.aliases.get(alias, code), code)
        parents = [part for cell in layout.parents if (text := cell(row)) for part in _split_values(text)]
        if "hierarchy" in self.spec:
            self.parents_of[code] = line, parents
        else:
            records += [self._isa(concept_id, parent) for parent in parents]
        for cell, code_of, title in layout.semantic_types:
            for part in _split_values(cell(row)):
                if text := (self.seen.get(part, "") if part != code else "") if title else part:
                    records.append(SemanticType(concept_id, text, code_of(row), source))
        return records

    def _tag(self, row: list[str], line: int) -> str | None:
        stated = row[self.layout.language] if self.layout.language is not None else ""
        if stated not in self.tags:
            self.tags[stated] = language_tag(stated)
        if self.tags[stated] is None:
            self.lines.bad_row("unknown language", line, unknown_language(stated))
        return self.tags[stated]

    def _has_new_names(self, code: str, names: list[tuple[str, str | None]], line: int) -> bool:
        """Return whether a row has names of known types and, in a format with one row per code, is not a repetition."""
        if self.layout.names and not names:
            self.lines.bad_row(self.spec.get("bad", "empty id or name"), line)
        elif names and names[0][1] is None:
            self.problems.skipped[self.spec["other_types"]] += 1
        elif code in self.seen and "repeated" in self.spec:
            self.problems.skipped[self.spec["repeated"]] += 1
        else:
            return True
        return False

    def _concept_id(self, code: str) -> str:
        return self.system.concept_id(code) if self.system else code

    def _isa(self, concept_id: str, parent: str) -> Relation:
        return Relation(concept_id, "isa", self._concept_id(parent), self.source)

    def _retirement(self, concept_id: str, row: Sequence[str], line: int) -> Iterator[Record]:
        cells = self.layout.retired
        kind, by = self._kind(cells["type"](row), line), cells["by"](row)
        if kind not in RETIREMENTS:
            self.lines.bad_row("unknown kind of retirement", line)
        elif kind != "deleted" and not by:
            self.lines.bad_row("no concept that replaces it", line)
        else:
            yield Retired(concept_id, kind, by and self._concept_id(by), self.source)

    def _kind(self, kind: str, line: int) -> str | None:
        """Translate a name type; ``None`` skips the row, and an unknown type stays as it is."""
        if kind in self.kinds:
            return self.kinds[kind]
        for pattern, replacement in self.layout.types:
            if match := pattern.fullmatch(kind):
                return self.kinds.setdefault(kind, match.expand(replacement).lower())
        if "other_types" in self.spec:
            return self.kinds.setdefault(kind, None)
        if kind.lower() in KNOWN_TYPES:
            return self.kinds.setdefault(kind, kind.lower())
        if self.table_notes:
            self.table_notes.add_unknown_type(kind, line)
        return kind or "synonym"

    def _read_second_row(self, table: Table) -> list[str]:
        spec = self.spec["second_row"]
        index = self.indices[self.layout.used_columns.index(spec["column"])]
        line, second = next(table.rows, (2, []))
        match = re.match(spec["pattern"], second[index]) if second else None
        if match is None:
            message = f"looked for a second header row with a directive such as {spec['like']!r}; found "
            message = f"{message}{second[index][:80]!r}" if second else "there is no second header row"
            raise InputError(message, path=table.lines.path, line=line, remedy=self.spec.get("remedy"))
        table.lines.lines_without_row += 1
        return [text or "" for text in match.groups()]


def _first_reason(row: Sequence[str], rules: Sequence[tuple[Cell, Cell, re.Pattern[str]]], wanted: bool) -> str:
    for cell, reason, pattern in rules:
        if (pattern.fullmatch(cell(row)) is not None) is wanted:
            return reason(row)
    return ""


def _split_names(cell: str, marks: Sequence[str]) -> list[str]:
    for mark in marks:
        cell = cell.replace(mark, marks[0])
    return [name for part in cell.split(marks[0]) if (name := part.strip())]


def _split_values(cell: str) -> list[str]:
    return [value for part in cell.split("|") if (value := part.strip())] if "|" in cell else [cell] * (cell != "")
