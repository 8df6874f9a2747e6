"""The stored reports: the tables that ``make bench`` measured, and the documents that quote them.

    python benchmarks/reports.py write NAME --command "python benchmarks/NAME.py" < table
    python benchmarks/reports.py fill
    python benchmarks/reports.py edition lexicon

``write`` stores standard input as ``benchmarks/reports/NAME.md`` with its command, the date, the commit, the editions
of encoder and lexicon that the numbers depend on, and the machine. ``fill`` puts every report between its marks
(``<!-- report: NAME -->`` and ``<!-- end -->``) in README and docs. ``edition`` appends the encoder or lexicon that
ships now to ``benchmarks/editions.tsv``, if it is not the newest edition there.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / "benchmarks" / "reports"
EDITIONS = ROOT / "benchmarks" / "editions.tsv"
SHIPPED = {
    "encoder": ROOT / "medlink/resources/encoder/model.safetensors",
    "lexicon": ROOT / "medlink/resources/lexicon/families.marisa",
}
"""The components that have editions, each by the file whose content makes an edition."""
_LINKING = {
    "accuracy", "cluster-cost", "clustering", "code-lists", "codiesp", "encoder", "evaluation", "finding", "learned",
    "narrower", "notes", "ordo", "rankers", "scale", "scores", "several", "spark", "speed",
}  # fmt: skip
MEASURED_BY = {
    "encoder": _LINKING,
    "lexicon": _LINKING | {"compounds", "guards", "known", "known-all", "lexicon", "status"},
}
"""The reports whose numbers depend on a component; all others measure none of them."""
_QUOTED = re.compile(r"<!-- report: (\S+) -->\n(.*?)\n<!-- end -->", re.DOTALL)
_STORED = re.compile(
    r"<!-- command: (?P<command>.+) -->\n"
    r"<!-- measured: (?P<date>\d{4}-\d\d-\d\d), commit (?P<commit>[0-9a-f]{7,}(?: with changes)?) -->\n"
    r"<!-- editions: (?P<editions>.+) -->\n"
    r"<!-- machine: (?P<machine>.+) -->\n\n(?P<table>.+)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Report:
    """A stored table, how, when and where it was measured, and the editions of what it measures."""

    command: str
    date: str
    commit: str
    editions: dict[str, int]
    machine: str
    table: str

    def stored(self) -> str:
        """The text of its file."""
        return (
            f"<!-- command: {self.command} -->\n<!-- measured: {self.date}, commit {self.commit} -->\n"
            f"<!-- editions: {self._editions() or 'none'} -->\n<!-- machine: {self.machine} -->\n\n{self.table}\n"
        )

    def quoted(self) -> str:
        """The report as a document shows it."""
        editions = f", {self._editions()}" if self.editions else ""
        return (
            f"{self.table}\n\n`{self.command}`; measured {self.date}, commit {self.commit}{editions}; {self.machine}."
        )

    def _editions(self) -> str:
        return ", ".join(f"{name} edition {number}" for name, number in self.editions.items())


def read_report(name: str) -> Report:
    """Read a stored report by its name."""
    path = REPORTS / f"{name}.md"
    found = _STORED.fullmatch(path.read_text("utf-8").rstrip()) if path.exists() else None
    if found is None:
        raise click.ClickException(f"there is no report {name!r}: run make bench")
    fields = found.groupdict()
    editions = {part: int(number) for part, number in re.findall(r"(\w+) edition (\d+)", fields.pop("editions"))}
    return Report(**fields, editions=editions)


def editions(component: str) -> list[dict[str, str]]:
    """The editions of the encoder or the lexicon, oldest first."""
    with EDITIONS.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file, delimiter="\t") if row["component"] == component]


def measured_editions(name: str) -> dict[str, int]:
    """The newest edition of each component that a report measures."""
    return {component: len(editions(component)) for component, names in MEASURED_BY.items() if name in names}


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


def commit() -> str:
    """The last commit that changed the package, ``with changes`` if its files differ from that commit."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain", "--", "medlink")
    return git("log", "-1", "--abbrev=7", "--format=%h", "--", "medlink") + " with changes" * bool(changed)


def shipped_hash(component: str) -> str:
    """SHA-256 of the encoder or lexicon that ships."""
    return hashlib.sha256(SHIPPED[component].read_bytes()).hexdigest()


@click.group()
def main() -> None:
    """Store reports, and put them into the documents."""


@main.command()
@click.argument("name")
@click.option("--command", required=True, help="The command that printed the table.")
@click.option("--busy", is_flag=True, help="Other work kept the machine busy.")
def write(name: str, command: str, busy: bool) -> None:
    """Store standard input as the report NAME."""
    table = sys.stdin.read().strip()
    if "|" not in table:
        raise click.ClickException(f"the report {name!r} holds no table")
    where = machine() + ", which other work kept busy" * busy
    report = Report(command, str(datetime.date.today()), commit(), measured_editions(name), where, table)
    (REPORTS / f"{name}.md").write_text(report.stored(), encoding="utf-8")


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


@main.command()
@click.argument("component", type=click.Choice(list(SHIPPED)))
def edition(component: str) -> None:
    """Append the encoder or lexicon that ships to its editions, unless it is the newest one."""
    numbered, digest = editions(component), shipped_hash(component)
    if digest != numbered[-1]["sha256"]:
        cells = (component, str(len(numbered) + 1), str(datetime.date.today()), commit(), digest)
        with EDITIONS.open("a", encoding="utf-8") as file:
            file.write("\t".join(cells) + "\n")


if __name__ == "__main__":
    main()
