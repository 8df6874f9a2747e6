"""Processor time and memory of ``medlink cluster`` by the number of terms.

    python benchmarks/cluster_cost.py NAMES --work FOLDER --terms 100000 --terms 1000000

NAMES is the output of ``open_names.py``. If it has fewer names than terms are wanted, further terms are names with one
or two words before or behind them, as in the term list of a hospital. Each run is a process of its own.
"""

from __future__ import annotations

import csv
import random
import resource
import subprocess
import sys
from itertools import count
from pathlib import Path

import click

_BEFORE = ("left", "right", "chronic", "acute", "recurrent", "suspected", "history of", "severe", "mild", "bilateral")
_BEHIND = ("grade 2", "stage III", "in childhood", "after surgery", "of the arm", "of the leg", "NOS", "with fever")


def make_terms(names: Path, size: int, out: Path) -> None:
    """Write ``size`` distinct terms, the same ones every time."""
    with open(names, encoding="utf-8", newline="") as file:
        plain = sorted({row["name"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)})
    rng = random.Random(1)
    rng.shuffle(plain)
    terms = dict.fromkeys(plain[:size])
    for turn in count():
        if len(terms) >= size:
            break
        for name in plain[: size - len(terms)]:
            words = [rng.choice(_BEFORE)] * (turn % 2 == 0 or rng.random() < 0.5)
            behind = [rng.choice(_BEHIND)] * (turn % 2 == 1)
            terms.setdefault(" ".join([*words, name, *behind]))
    out.write_text("".join(f"{term}\n" for term in terms), encoding="utf-8")


@click.command()
@click.argument("names", type=click.Path(exists=True, path_type=Path))
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for the lists and the output.")
@click.option("--terms", multiple=True, default=(100_000, 1_000_000), show_default=True, type=int)
@click.option("--encoder", default="builtin", show_default=True)
def main(names: Path, work: Path, terms: tuple[int, ...], encoder: str) -> None:
    """Print the table; sizes go up, because the peak memory of a child is that of the largest so far."""
    work.mkdir(parents=True, exist_ok=True)
    click.echo("| terms | minutes of processor time | microseconds a term | peak memory, GB |")
    click.echo("|---:|---:|---:|---:|")
    for size in sorted(terms):
        path = work / f"{size}.txt"
        make_terms(names, size, path)
        command = [sys.executable, "-c", "from medlink.cli.main import main; main()", "cluster", str(path)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "--encoder", encoder, "-o", str(work / f"{size}.tsv")], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        click.echo(f"| {size:,} | {seconds / 60:.1f} | {1e6 * seconds / size:.0f} | {after.ru_maxrss / 1e6:.2f} |")


if __name__ == "__main__":
    main()
