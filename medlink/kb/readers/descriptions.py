"""Descriptions of delimited formats: TOML files that define the columns, validated and compiled to functions.

Built-in descriptions are in ``medlink/resources/kb/formats``; ``docs/reference/terminologies.md`` lists the keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import itemgetter
from os import PathLike
from pathlib import Path
from string import Formatter
from typing import Any

from medlink.errors import ConfigError, InputError
from medlink.files.json import read_toml
from medlink.files.resources import RESOURCES
from medlink.files.tables import Table
from medlink.kb.systems import system_by_name

Cell = Callable[[Sequence[str]], str]
"""Computes a text from a row: the cells of its columns, followed by constants."""
_FORMATS = RESOURCES / "kb" / "formats"
_VALUE = (str, dict, list)
_KEYS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("option", "help", "expected", "remedy", "bad", "repeated", "other_types", "delimiter"), str),
    **dict.fromkeys(("quoted_with", "comments", "first_row", "rows_begin", "hierarchy", "kind", "file", "marks"), str),
    **dict.fromkeys(("order", "wider"), int),
    **dict.fromkeys(("remarks", "concepts", "escaped", "needed"), bool),
    **dict.fromkeys(("optional", "constants", "codes", "recognised_by", "types", "layouts", "files", "parents"), list),
    **dict.fromkeys(("source", "title", "version", "language", "system", "id", "alias", "definition"), _VALUE),
    **dict.fromkeys(("columns", "encoding"), _VALUE),
    "usual_titles": dict,
}
_TEXT_KEYS = frozenset({"text", "when", "unless", "pattern", "join", "upper", "squeeze", "system", "alias"})
_ENTRY_KEYS = {
    "skip": {"text", "pattern", "reason"},
    "good": {"text", "pattern", "reason"},
    "borrowed": {"text", "pattern", "reason"},
    "names": {"text", "type", "when", "unless", "split"},
    "mappings": {"system", "type", "codes", "when", "unless"},
    "semantic_types": {"text", "code", "title"},
    "second_row": {"column", "pattern", "like"},
    "retired": {"type", "by"},
}
_REQUIRED_KEYS = {
    **dict.fromkeys(("skip", "good", "borrowed"), "text pattern reason"),
    **{"names": "text type", "mappings": "system codes", "semantic_types": "text"},
    **{"second_row": "column pattern like", "retired": "type by"},
}
_TYPE_NAMES = {str: "a text", dict: "a table", list: "a list", int: "a number", bool: "true or false"}


def load_description(format: str | PathLike[str]) -> Description:
    """Load a built-in description, or a file that ends in ``.toml``; raises :class:`ConfigError`."""
    if not str(format).endswith(".toml"):
        return _load(_FORMATS / f"{format}.toml")
    try:
        return Description(read_toml(Path(format)), Path(format))
    except InputError as error:
        raise ConfigError(error.message, path=format, remedy=error.remedy) from error


@cache
def _load(path: Path) -> Description:
    return Description(read_toml(path), path)


def builtin_descriptions() -> Iterator[Description]:
    return (_load(path) for path in sorted(_FORMATS.glob("*.toml")))


class Description:
    """A validated description of a format; creating it raises a :class:`ConfigError` that names an invalid key."""

    def __init__(self, spec: dict[str, Any], path: Path) -> None:
        self.spec, self.path, self.name = spec, path, path.name.removesuffix(".toml")
        self.in_folder = "files" in spec
        parts = spec.get("files") or spec.get("layouts") or [{}]
        for part in (spec, *parts):
            _validate(part, path)
        shared = {key: value for key, value in spec.items() if key not in ("files", "layouts")}
        self.parts = [{**shared, **part} for part in parts]
        self.layouts({})
        CellCompiler(path, ("file", "source"), {}).compile_all(spec, "source", "title", "version", "language", "system")

    def layouts(self, aliases: dict[str, str]) -> list[Layout]:
        """Return the possible layouts of a file, or of the files of a folder."""
        return [Layout(part, self.path, aliases) for part in self.parts]

    def fits(self, first: str, header: frozenset[str]) -> bool:
        """Return whether a file has the format, by its first line and the cells of that line in lower case."""
        return any(layout.fits(first, header) for layout in self.layouts({}))

    def main_file(self) -> re.Pattern[str]:
        """Return the name pattern of the file that identifies a folder of this format."""
        return next(re.compile(part["file"]) for part in self.parts if part.get("needed"))


def _validate(spec: dict[str, Any], path: Path) -> None:
    for key, value in spec.items():
        entry_keys, types = _ENTRY_KEYS.get(key), _KEYS.get(key, ())
        if entry_keys is not None:
            listed = [value] if key in ("second_row", "retired") else value
            is_list = isinstance(listed, list)
            if not is_list or not all(isinstance(entry, dict) and entry.keys() <= entry_keys for entry in listed):
                needed = ", ".join(f'{word} = "..."' for word in _REQUIRED_KEYS[key].split())
                shape = f"[{{ {needed} }}]" if listed is value else f"{{ {needed} }}"
                others = ", ".join(sorted(entry_keys - {*_REQUIRED_KEYS[key].split()})) or "none"
                raise _invalid(path, key, "is none of its tables", f"write {shape}; further keys: {others}")
            missing = [word for entry in listed for word in _REQUIRED_KEYS[key].split() if word not in entry]
            if missing:
                raise _invalid(path, key, f"{missing[0]} is missing", f"give each the keys {_REQUIRED_KEYS[key]}")
        elif key == "types" and not all(isinstance(entry, list) and len(entry) == 2 for entry in value):
            raise _invalid(path, key, f"{value!r} is not allowed there", "give a list of lists of a pattern and a type")
        elif not types:
            known = ", ".join(sorted({*_KEYS, *_ENTRY_KEYS}))
            raise _invalid(path, key, "there is no such key", f"use one of {known}")
        elif not isinstance(value, types):
            words = " or ".join(_TYPE_NAMES[kind] for kind in (types if isinstance(types, tuple) else (types,)))
            raise _invalid(path, key, f"{value!r} is not allowed there", f"give {words}")


def _invalid(path: Path, key: str, message: str, remedy: str) -> ConfigError:
    return ConfigError(f"{key}: {message}", path=path, remedy=remedy)


class CellCompiler:
    """Compiles the texts of a description to functions of a row with given ``columns``."""

    def __init__(self, path: Path, columns: Sequence[str], aliases: dict[str, str]) -> None:
        self.path, self.aliases = path, aliases
        self.indices = {name: index for index, name in enumerate(columns)}

    def compile_all(self, spec: dict[str, Any], *keys: str) -> dict[str, Cell]:
        return {key: self.compile(key, spec[key]) for key in keys if key in spec}

    def compile(self, key: str, spec: Any) -> Cell:
        """Compile a text with columns in braces, a table of changes to it, or a list of alternatives.

        The first alternative that is not empty counts.
        """
        if isinstance(spec, str):
            return self._template(key, spec)
        if isinstance(spec, list):
            options = [self.compile(key, option) for option in spec]
            return lambda row: next(filter(None, (option(row) for option in options)), "")
        if not isinstance(spec, dict) or "text" not in spec or not spec.keys() <= _TEXT_KEYS:
            remedy = f"give a text, or a table of {', '.join(sorted(_TEXT_KEYS))}"
            raise _invalid(self.path, key, f"{spec!r} is not a text", remedy)
        cell = self.compile(key, spec["text"])
        if spec.get("upper"):
            cell = _apply(cell, str.upper)
        if spec.get("squeeze"):
            cell = _apply(cell, lambda text: " ".join(text.split()))
        if "pattern" in spec:
            pattern, between = self.pattern(key, spec["pattern"]), spec.get("join", "")

            def matched(text: str) -> str:
                if not (match := pattern.fullmatch(text)):
                    return ""
                return between.join(filter(None, match.groups())) if pattern.groups else text

            cell = _apply(cell, matched)
        if "system" in spec:
            system = system_by_name(spec["system"])
            cell = _apply(cell, lambda code: code and system.concept_id(code))
        if spec.get("alias"):
            cell = _apply(cell, lambda code: self.aliases.get(code, ""))
        return self.conditional(key, spec, cell)

    def conditional(self, key: str, spec: dict[str, Any], cell: Cell) -> Cell:
        """Make a cell empty when ``when`` is empty, or ``unless`` is not."""
        for word, wanted in (("when", True), ("unless", False)):
            if word in spec:
                cell = _conditional(self.compile(key, spec[word]), wanted, cell)
        return cell

    def pattern(self, key: str, expression: str) -> re.Pattern[str]:
        try:
            return re.compile(expression)
        except (re.error, TypeError) as error:
            message = f"{expression!r} is not a regular expression: {error}"
            raise _invalid(self.path, key, message, "correct the pattern") from error

    def index(self, key: str, column: str) -> int:
        if column not in self.indices:
            remedy = f"use one of {', '.join(filter(None, self.indices))}, or add it to columns"
            raise _invalid(self.path, key, f"there is no column {column!r}", remedy)
        return self.indices[column]

    def _template(self, key: str, text: str) -> Cell:
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise _invalid(self.path, key, f"{text!r}: {error}", "write a column as {name}") from error
        indices = [self.index(key, field) for _, field, *_ in parts if field is not None]
        if not indices:
            return lambda row: text
        if len(parts) == len(indices) == 1 and not parts[0][0]:
            return itemgetter(indices[0])
        pick = itemgetter(*indices) if len(indices) > 1 else lambda row: (row[indices[0]],)
        form = "".join(literal.replace("%", "%%") + "%s" * (field is not None) for literal, field, *_ in parts)
        if form == "%s" * len(indices):
            return lambda row: "".join(pick(row))
        return lambda row: form % pick(row) if any(pick(row)) else ""


def _apply(cell: Cell, change: Callable[[str], str]) -> Cell:
    return lambda row: change(cell(row))


def _conditional(condition: Cell, wanted: bool, cell: Cell) -> Cell:
    return lambda row: cell(row) if bool(condition(row)) is wanted else ""


class Layout:
    """One arrangement of columns, compiled to functions of a row."""

    def __init__(self, spec: dict[str, Any], path: Path, aliases: dict[str, str]) -> None:
        self.spec, self.path = spec, path
        columns = spec.get("columns")
        if not columns or isinstance(columns, str):
            raise _invalid(path, "columns", "is missing", 'name them, such as id = "Code" and name = "Title"')
        self.has_header = isinstance(columns, dict)
        self.columns = list(columns)
        self.used_columns = [column for column in self.columns if column]
        self.words: dict[str, list[str]] = {}
        if self.has_header:
            self.words = {name: [words] if isinstance(words, str) else words for name, words in columns.items()}
        plain = CellCompiler(path, (), aliases)
        second = spec.get("second_row")
        self.second = plain.pattern("second_row", second["pattern"]) if second else None
        groups = list(self.second.groupindex) if self.second else []
        self.constants = [*groups, *spec.get("constants", ()), "file", "code"]
        cells = CellCompiler(path, [*self.used_columns, *self.constants], aliases)
        for column in spec.get("optional", ()):
            cells.index("optional", column)
        self.id = cells.compile("id", spec.get("id", "{id}"))
        self.alias = cells.compile("alias", spec.get("alias", ""))
        # meaning of columns with these names, unless the description states another one
        defaults: dict[str, Any] = {
            "names": [{"text": "{name}", "type": "{type}" if "type" in cells.indices else "synonym"}],
            "definition": "{definition}",
            "parents": ["{parent}"],
            "semantic_types": [{"text": "{semantic_type}"}],
        }
        defaults = {key: value for key, value in defaults.items() if key.removesuffix("s") in cells.indices}
        fields = {"names": [], "definition": "", "parents": [], "semantic_types": [], **defaults, **spec}
        self.names: list[tuple[Cell, Cell, list[str]]] = []
        for entry in fields["names"]:
            text = cells.conditional("names", entry, cells.compile("names", entry["text"]))
            split = entry.get("split", [])
            marks = [split] if isinstance(split, str) else split
            if not isinstance(marks, list) or not all(isinstance(mark, str) and mark for mark in marks):
                raise _invalid(path, "names", f"split = {split!r} is no mark", 'write ";", or a list of marks')
            self.names.append((text, cells.compile("names", entry["type"]), marks))
        self.definition = cells.compile("definition", fields["definition"])
        self.parents = [cells.compile("parents", entry) for entry in fields["parents"]]
        self.semantic_types: list[tuple[Cell, Cell, bool]] = []
        for entry in fields["semantic_types"]:
            text, code = (cells.compile("semantic_types", entry.get(key, "")) for key in ("text", "code"))
            self.semantic_types.append((text, code, entry.get("title", False)))
        self.mappings: list[tuple[Cell, Cell, Cell]] = []
        for entry in spec.get("mappings", ()):
            system = _apply(cells.compile("mappings", entry["system"]), lambda name: system_by_name(name).name)
            kind = cells.compile("mappings", entry.get("type", "code"))
            for code in (cells.compile("mappings", code) for code in entry["codes"]):
                self.mappings.append((system, kind, cells.conditional("mappings", entry, code)))
        self.retired = cells.compile_all(spec.get("retired", {}), "type", "by")
        rules: dict[str, list[tuple[Cell, Cell, re.Pattern[str]]]] = {"skip": [], "good": [], "borrowed": []}
        for key, listed in rules.items():
            for entry in spec.get(key, ()):
                text, reason = (cells.compile(key, entry[word]) for word in ("text", "reason"))
                listed.append((text, reason, cells.pattern(key, entry["pattern"])))
        self.skip, self.good, self.borrowed = rules["skip"], rules["good"], rules["borrowed"]
        self.types = [(plain.pattern("types", pattern), kind) for pattern, kind in spec.get("types", ())]
        self.codes = [cells.index("codes", column) for column in spec.get("codes", ()) if column in cells.indices]
        self.marks, self.first_row = (plain.pattern(key, spec.get(key, "$^")) for key in ("marks", "first_row"))
        self.language, self.split = cells.indices.get("language"), cells.indices.get("split")
        self.required = [column for column in self.used_columns if column not in spec.get("optional", ())]

    def has_width(self, columns: int) -> bool:
        return len(self.columns) <= columns <= len(self.columns) + int(self.spec.get("wider", 0))

    def fits(self, first: str, header: frozenset[str]) -> bool:
        if not self.has_header:
            return bool(self.first_row.fullmatch(first))
        required = self.spec.get("recognised_by") or ["|".join(self.words[column]).lower() for column in self.required]
        return all(any(word in header for word in words.split("|")) for words in required)

    def matches(self, table: Table) -> bool:
        for words in self.words.values():
            if sum(table.header.count(word.lower()) for word in words) > 1:
                raise table.error(f"the column {' or '.join(words)} occurs twice", "rename or delete one of them")
        return all(self._find(column, table) is not None for column in self.required)

    def _find(self, column: str, table: Table) -> int | None:
        words = [word.lower() for word in self.words[column] if word.lower() in table.header]
        if words or column not in self.spec.get("usual_titles", {}):
            return table.header.index(words[0]) if words else None
        return table.find_column(self.spec["usual_titles"][column])

    def column_indices(self, table: Table) -> list[int]:
        """Return the positions of the columns; a column that the header lacks gets the position after the last cell."""
        if not self.has_header:
            return [index for index, column in enumerate(self.columns) if column]
        found = (self._find(column, table) for column in self.words)
        return [len(table.header) if index is None else index for index in found]
