"""Tables that are read by the names of their columns, or without a header: what the readers of benchmarks share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike

from medlink.errors import InputError
from medlink.files.intake import LineFile, Problems, found_columns, read_header, read_quoted

Rows = Iterator[tuple[int, list[str]]]


@dataclass(frozen=True, slots=True)
class Table:
    """A separated file, opened.

    Attributes:
        lines: the file, where bad rows are counted.
        header: cells of the first line, in lower case.
        first: the same cells as they are written.
        rows: line numbers and cells of the lines that follow.
    """

    lines: LineFile
    header: tuple[str, ...]
    first: tuple[str, ...]
    rows: Rows

    def has(self, columns: Sequence[str]) -> bool:
        """Whether the header has all columns.

        Raises:
            InputError: it has one of them twice.
        """
        if any(column not in self.header for column in columns):
            return False
        for column in columns:
            if self.header.count(column) > 1:
                raise InputError(
                    f"the column {column} is there twice", path=self.lines.path, line=1, remedy="leave one of them"
                )
        return True

    def places(self, columns: Sequence[str]) -> list[int]:
        """Where the columns stand."""
        return [self.header.index(column) for column in columns]

    def with_first(self) -> Rows:
        """All rows of a file without a header."""
        self.lines.header = 0
        yield 1, list(self.first)
        yield from self.rows

    def unknown(self, wanted: str) -> InputError:
        """What to raise where the header is that of no layout."""
        return InputError(
            f"looked for {wanted}; found {found_columns(self.first)}",
            path=self.lines.path,
            line=1,
            remedy="name the columns in the first line as docs/evaluation.md lists them",
        )


def first_line(path: str | PathLike[str]) -> str:
    """The first line of a file, ``""`` where it cannot be decoded.

    Raises:
        InputError: there is no such file, or it is empty or cannot be read.
    """
    return next(iter(LineFile(path, Problems(1.0))), (0, ""))[1]


def open_table(path: str | PathLike[str], problems: Problems) -> Table:
    """Open a table: with tabs in its first line it has no quoting, else it is CSV with ``,`` or ``;``.

    Args:
        path: the file, plain or ``.gz``.
        problems: where bad rows are counted.

    Raises:
        InputError: the file cannot be read.
    """
    lines = LineFile(path, problems)
    head = first_line(path)
    if "\t" in head:
        cells, rows = read_header(lines, [])
    else:
        cells, rows = read_quoted(lines, ";" if head.count(";") > head.count(",") else ",")
    return Table(lines, tuple(cell.lower() for cell in cells), tuple(cells), rows)
