"""Speed and memory of making training pairs, by the number of pairs.

    python benchmarks/pair_generation.py KB --pairs 100000 --pairs 1000000 --pairs 10000000

KB is a knowledge base with definitions and relations (``medlink kb build``). Each run is a process of its own; peak
memory is that of the process, with Python and its libraries. Processor time counts on a machine that others use too.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click


def measure(path: Path, pairs: int, size: int) -> dict[str, Any]:
    """Draw pairs as numbers, with their labels, and forget them."""
    from medlink.kb import KnowledgeBase
    from medlink.training.data.pair_recipe import PairRecipe
    from medlink.training.data.pairs import KnowledgeBasePairs
    from medlink.training.data.view import TrainingView

    start = time.perf_counter()
    with KnowledgeBase(path) as kb:
        view = TrainingView(kb)
    source = KnowledgeBasePairs(view, PairRecipe(pairs=pairs))
    opened, begun = time.perf_counter(), time.process_time()
    made = sum(len(batch.labels) for batch in source.batches(size).epoch(0))
    seconds, used = time.perf_counter() - opened, time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"made": made, "open": opened - start, "seconds": seconds, "used": used, "peak": peak}


@click.command()
@click.argument("kb", type=click.Path(exists=True, path_type=Path))
@click.option("--pairs", multiple=True, default=(100_000, 1_000_000, 10_000_000), show_default=True, type=int)
@click.option("--size", default=64, show_default=True, help="Pairs in a batch.")
@click.option("--alone", is_flag=True, hidden=True, help="Measure one number of pairs here, and print JSON.")
def main(kb: Path, pairs: tuple[int, ...], size: int, alone: bool) -> None:
    """Print the table."""
    if alone:
        click.echo(json.dumps(measure(kb, pairs[0], size)))
        return
    click.echo("| pairs | opening, s | pairs a second | pairs a second of processor time | peak memory, MB |")
    click.echo("|---:|---:|---:|---:|---:|")
    for wanted in pairs:
        command = [sys.executable, __file__, str(kb), "--alone", "--pairs", str(wanted)]
        command += ["--size", str(size)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        rates = [f"{found['made'] / found[key]:,.0f}" for key in ("seconds", "used")]
        click.echo(f"| {found['made']:,} | {found['open']:.1f} | {' | '.join(rates)} | {found['peak']:.0f} |")


if __name__ == "__main__":
    main()
