"""What the commands of ``medlink evaluate`` share: tables, progress bars, and what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medlink.files.whole import standard_output, whole_text

if TYPE_CHECKING:
    from medlink.files.problems import Problems


def print_table(head: str, rows: Sequence[Mapping[str, str]]) -> None:
    """A line, and rows under their header, columns aligned."""
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    with standard_output("send it to a terminal, or a file with room") as file:
        click.echo(head, file=file)
        for line in lines:
            text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            click.echo(text, file=file)


def write_table(out: Path, rows: Iterable[Mapping[str, float | int | str]]) -> None:
    """Write a TSV that appears when it is whole."""
    with whole_text(out, "the table") as file:
        for number, row in enumerate(rows):
            if not number:
                file.write("\t".join(row) + "\n")
            file.write("\t".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row.values()))
            file.write("\n")


def say_left_out(problems: Problems) -> None:
    """Say on standard error which rows could not be used, and which were left out on purpose."""
    for kind, count in sorted(problems.bad.items()):
        first = next((one for one in problems.examples if one.kind == kind), None)
        where = "" if first is None else f", the first at {first.path}:{first.line}"
        click.echo(f"rows that cannot be used: {count} ({kind}{where})", err=True)
    for reason, count in sorted(problems.skipped.items()):
        click.echo(f"rows left out: {count} ({reason})", err=True)


@contextmanager
def bar(title: str, unit: str = "names") -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error, where that is a terminal."""
    from tqdm import tqdm

    with tqdm(desc=title, unit=f" {unit}", disable=None) as shown:

        def show(done: int, total: int) -> None:
            """Move the bar to where the work is."""
            shown.total = total
            shown.update(done - shown.n)

        yield show
