"""Descriptions of delimited files: TOML files that say what stands in which column, checked and made into functions.

Those of medlink are in ``medlink/resources/kb/formats``; ``docs/reference/terminologies.md`` lists the keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import resources
from operator import itemgetter
from os import PathLike
from pathlib import Path
from string import Formatter
from typing import Any

from medlink.errors import ConfigError, InputError
from medlink.files.json import read_toml
from medlink.files.tables import Table
from medlink.kb.systems import named

Cell = Callable[[Sequence[str]], str]
"""What a description makes of a row: the cells of its columns, and what is the same in all rows."""
_FORMATS = Path(str(resources.files("medlink"))) / "resources" / "kb" / "formats"
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
        Cells(path, ("file", "source"), {}).all(said, "source", "title", "version", "language", "system")

    def layouts(self, aliases: dict[str, str]) -> list[Layout]:
        """The layouts that a file may have, or those of the files of a folder."""
        return [Layout(part, self.path, aliases) for part in self.parts]

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


class Cells:
    """Make functions of a row of what a description says, by the places of its ``columns``."""

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


class Layout:
    """One arrangement of columns, and what each row of it is made into."""

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
        plain = Cells(path, (), aliases)
        second = said.get("second_row")
        self.second = plain.pattern("second_row", second["pattern"]) if second else None
        groups = list(self.second.groupindex) if self.second else []
        self.constants = [*groups, *said.get("constants", ()), "file", "code"]
        cells = Cells(path, [*self.taken, *self.constants], aliases)
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
