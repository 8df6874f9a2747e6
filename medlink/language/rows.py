"""Rows of the tables that a house may write: a wrong cell is one error that names file, line and remedy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from medlink.errors import InputError
from medlink.files.problems import Problems
from medlink.files.tables import open_table


class Row(dict[str, str]):
    """A row by columns, without blanks around its cells."""

    def __init__(self, cells: Iterator[tuple[str, str]], path: Path, line: int) -> None:
        super().__init__(cells)
        self.path, self.line = path, line

    def error(self, message: str, remedy: str) -> InputError:
        """What to raise where a cell is wrong."""
        return InputError(message, path=self.path, line=self.line, remedy=remedy)


def rows(path: Path | None, *columns: str, in_front: bool = False) -> Iterator[Row]:
    """Rows of a table with some columns, the first of them ``in_front``; none without a path.

    Raises:
        InputError: a column is missing, or a row has too many or too few cells.
    """
    if path is None:
        return
    table = open_table(path, Problems(0, adjustable=False), separator="\t")
    table.places(columns)
    if in_front and table.header[0] != columns[0]:
        raise table.error(f"the first column is {table.first[0]!r}", f"begin with the column {columns[0]}")
    for line, cells in table.rows:
        yield Row(zip(table.header, map(str.strip, cells), strict=True), path, line)


def alternatives(cell: str) -> list[str]:
    """The phrases of a cell, between bars that stand outside of brackets."""
    found, depth = [""], 0
    for letter in cell:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]
