"""The stored reports: what ``make bench`` measured, and the documents that quote it.

    python benchmarks/reports.py write NAME --command "python benchmarks/NAME.py" < table
    python benchmarks/reports.py fill

``write`` stores standard input as ``benchmarks/reports/NAME.md`` with its command, the date and the machine. ``fill``
puts every report between its marks (``<!-- report: NAME -->`` and ``<!-- end -->``) in README and docs.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / "benchmarks" / "reports"
_QUOTED = re.compile(r"<!-- report: (\S+) -->\n(.*?)\n<!-- end -->", re.DOTALL)
_STORED = re.compile(r"<!-- command: (.+) -->\n<!-- measured: (.+) -->\n\n(.+)", re.DOTALL)


@dataclass(frozen=True)
class Report:
    """A stored table with the command that makes it, and when and where it was made."""

    command: str
    measured: str
    table: str

    def quoted(self) -> str:
        """The report as a document shows it."""
        return f"{self.table}\n\n`{self.command}`; measured {self.measured}."


def read_report(name: str) -> Report:
    """A report by its name."""
    path = REPORTS / f"{name}.md"
    found = _STORED.fullmatch(path.read_text("utf-8").rstrip()) if path.exists() else None
    if found is None:
        raise click.ClickException(f"there is no report {name!r}: run make bench")
    return Report(*found.groups())


def documents() -> list[Path]:
    """README and every page of ``docs/``."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def quotations(text: str) -> list[tuple[str, str]]:
    """Name and content of each report that a document quotes.

    >>> quotations("<!-- report: speed -->\\n| 1 |\\n<!-- end -->")
    [('speed', '| 1 |')]
    """
    return _QUOTED.findall(text)


def machine() -> str:
    """Number of cores and memory of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{len(os.sched_getaffinity(0))} cores, {memory:.0f} GB of memory"


@click.group()
def main() -> None:
    """Store reports, and put them into the documents."""


@main.command()
@click.argument("name")
@click.option("--command", required=True, help="The command that printed the table.")
def write(name: str, command: str) -> None:
    """Store standard input as the report NAME."""
    table = sys.stdin.read().strip()
    if "|" not in table:
        raise click.ClickException(f"the report {name!r} holds no table")
    text = f"<!-- command: {command} -->\n<!-- measured: {datetime.date.today()}, {machine()} -->\n\n{table}\n"
    (REPORTS / f"{name}.md").write_text(text, encoding="utf-8")


@main.command()
def fill() -> None:
    """Put every report between its marks in README and docs."""
    for path in documents():
        text = path.read_text("utf-8")
        filled = _QUOTED.sub(
            lambda found: f"<!-- report: {found[1]} -->\n{read_report(found[1]).quoted()}\n<!-- end -->", text
        )
        if filled != text:
            path.write_text(filled, encoding="utf-8")
            click.echo(f"{path.relative_to(ROOT)} is filled")


if __name__ == "__main__":
    main()
