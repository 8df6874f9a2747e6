"""What it costs to build a knowledge base of a UMLS release, beside ``sqlite3`` on the same files.

    python benchmarks/load.py --work FOLDER --concepts 20000 --concepts 200000

The releases are made (``made_release.py``). The ``sqlite3`` program takes the raw files in by ``.import``, every column
as text, and makes the indexes that a knowledge base has: on concepts, names, codes, semantic types and both ends of
relations, and a search index with the same settings. The two take turns, each run in a process of its own; given are
medians. A release of more than ``_ONCE`` concepts is loaded once by each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import click
from made_release import COLUMNS, make_release

_ONCE = 500_000
_TABLES = ("MRCONSO", "MRDEF", "MRREL", "MRSTY")
_SEARCH = """
CREATE VIRTUAL TABLE search USING fts5(
    STR, content='MRCONSO', tokenize='unicode61 remove_diacritics 2', prefix='2 3');
INSERT INTO search(search) VALUES('rebuild');
"""
_INDEXES = ("MRCONSO(CUI)", "MRCONSO(STR)", "MRCONSO(CODE)", "MRDEF(CUI)", "MRREL(CUI1)", "MRREL(CUI2)", "MRSTY(CUI)",
            "MRSTY(STY)")  # fmt: skip


def script(release: Path) -> str:
    """The script for sqlite3; it makes the search index first, as a build does, because later is slower."""
    lines = [f"PRAGMA {setting};" for setting in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-65536")]
    for name in _TABLES:
        # each row ends with a bar, behind which a cell without a name stands
        lines.append(f"CREATE TABLE {name}({COLUMNS[name]},rest);")
    lines += [".mode ascii", '.separator "|" "\\n"']
    lines += [f".import {release / name}.RRF {name}" for name in _TABLES]
    lines += [_SEARCH]
    lines += [f"CREATE INDEX i{number} ON {index};" for number, index in enumerate(_INDEXES)]
    return "\n".join(lines)


def measured(command: list[str], given: str, out: Path) -> tuple[float, float, float, float]:
    """Seconds, seconds of the processor, peak memory and size of ``out``, the last two in MB."""
    out.unlink(missing_ok=True)
    start = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write(given.encode())
        process.stdin.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise click.ClickException(f"{command[0]} ended with {process.returncode}")
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3, out.stat().st_size / 1e6


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the releases and the output.")
@click.option("--concepts", multiple=True, default=(20_000, 200_000), show_default=True, type=int)
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1), help="Runs of each, which take turns.")
def main(work: Path, concepts: tuple[int, ...], runs: int) -> None:
    """Print the table."""
    program = shutil.which("sqlite3")
    if program is None:
        raise click.ClickException("the sqlite3 program is not installed, beside which medlink is measured")
    click.echo("| rows of MRCONSO | rows | text, MB | loaded by | seconds | processor, s | memory, MB | file, MB |")
    click.echo("|---:|---:|---:|---|---:|---:|---:|---:|")
    for count in concepts:
        release, out = work / f"made-{count}", work / "out.sqlite"
        if not (release / "MRCOLS.RRF").exists():  # written last
            make_release(release, count)
        files = [line.split("|") for line in (release / "MRFILES.RRF").read_text("utf-8").splitlines()]
        names = next(int(cells[4]) for cells in files if cells[0] == "MRCONSO.RRF")
        rows, size = sum(int(cells[4]) for cells in files), sum(int(cells[5]) for cells in files) / 1e6
        medlink = [sys.executable, "-c", "from medlink.cli.main import main; main()", "kb", "build", str(out)]
        ways = {
            "sqlite3 .import": ([program, str(out)], script(release)),
            "medlink kb build": ([*medlink, "--umls", str(release)], ""),
        }
        found: dict[str, list[tuple[float, ...]]] = {way: [] for way in ways}
        for _ in range(runs if count <= _ONCE else 1):
            for way, (command, given) in ways.items():
                found[way].append(measured(command, given, out))
        for way, taken in found.items():
            seconds, processor, memory, file = (median(values) for values in zip(*taken, strict=True))
            click.echo(
                f"| {names:,} | {rows:,} | {size:,.0f} | {way} | {seconds:.1f} | {processor:.1f} | {memory:,.0f} | "
                f"{file:,.0f} |"
            )
        out.unlink()


if __name__ == "__main__":
    main()
