"""Notes on Spark: notes a second at one, two and four partitions, beside one machine without Spark, in one run.

    python benchmarks/spark.py --work FOLDER --notes 2400

The 240 notes of the data folder, over and over, with HPO in English, Spanish and German as dictionary. Spark is a
``local-cluster``: a driver and two executors of one core each, on this machine. The links are counted and nothing of
them is kept. Each number of partitions is run twice in a session of its own: the first run opens the bundle in every
Python worker, the second finds it open. medlink alone is ``link_notes`` to JSON lines, with one process and with two,
each in a process of its own; opening the bundle is part of its time. All find the same mentions, or the script fails.

Needs the data folder, Java, and what ``medlink[spark]`` installs.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import click
from open_data import DATA, hpo_dictionary
from speed import build_medlink

_PARTITIONS = (1, 2, 4)


def write_notes(path: Path, number: int) -> None:
    """Write a table of so many notes."""
    notes = [
        (language, file.read_text("utf-8-sig"))
        for language in ("de", "en", "es")
        for file in sorted((DATA / "notes" / language).glob("*.txt"))
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("id", "language", "text"))
        table.writerows((at, *note) for at, note in enumerate(islice(cycle(notes), number)))


def run_alone(work: Path, notes: Path, processes: int) -> dict[str, Any]:
    """All notes, without Spark."""
    from medlink import link_notes

    begin = time.perf_counter()
    done = link_notes(work / "bundle", notes, out=work / "alone.jsonl", processes=processes)
    return {"mentions": done.mentions, "seconds": [time.perf_counter() - begin]}


def run_spark(work: Path, notes: Path, partitions: int) -> dict[str, Any]:
    """The notes in so many partitions, twice."""
    from pyspark.sql import SparkSession

    from medlink.spark import link_notes

    settings = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.local.dir": str((work / "local").absolute()),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1536]").appName("benchmark")
    spark = builder.config(map=settings).getOrCreate()
    try:
        frame = spark.read.csv(str(notes.absolute()), header=True, multiLine=True, quote='"', escape='"')
        frame = frame.repartition(partitions, "id").cache()
        frame.count()  # reading the file is not what is measured
        links, seconds = link_notes(frame, work / "bundle"), []
        for _ in range(2):
            begin = time.perf_counter()
            mentions = links.where("problem is null").count()
            seconds.append(time.perf_counter() - begin)
    finally:
        spark.stop()
    return {"mentions": mentions, "seconds": seconds}


PARTS = {"alone": run_alone, "spark": run_spark}


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for what is built.")
@click.option("--notes", "number", default=2_400, show_default=True, help="Notes that are linked.")
@click.option("--only", type=(click.Choice(sorted(PARTS)), int), hidden=True)
def main(work: Path, number: int, only: tuple[str, int] | None) -> None:
    """Print the table; with --only run one row in this process."""
    notes = work / f"notes-{number}.csv"
    if only is not None:
        click.echo(json.dumps(PARTS[only[0]](work, notes, only[1])))
        return
    work.mkdir(parents=True, exist_ok=True)
    names = hpo_dictionary()
    if not (work / "bundle").exists():
        build_medlink(work, names)
    write_notes(notes, number)
    click.echo(f"{number:,} notes; {len(names):,} names of HPO in three languages.\n")
    click.echo("| what | seconds | notes a second | again, seconds | notes a second |\n|---|---:|---:|---:|---:|")
    rows = {f"medlink alone, {count} {'process' if count == 1 else 'processes'}": ("alone", count) for count in (1, 2)}
    rows |= {f"Spark, {count} {'partition' if count == 1 else 'partitions'}": ("spark", count) for count in _PARTITIONS}
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    found = set()
    for title, (part, count) in rows.items():
        words = [sys.executable, __file__, "--work", str(work), "--notes", str(number), "--only", part, str(count)]
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        result = json.loads(done.stdout.splitlines()[-1])
        found.add(result["mentions"])
        cells = [cell for seconds in result["seconds"] for cell in (f"{seconds:.1f}", f"{number / seconds:,.0f}")]
        click.echo(f"| {title} | {' | '.join(cells + [''] * (4 - len(cells)))} |")
    shutil.rmtree(work / "local", ignore_errors=True)
    if len(found) > 1:
        raise click.ClickException(f"mentions differ: {sorted(found)}")
    click.echo(f"\nAll found the same number of mentions: {found.pop():,}.")


if __name__ == "__main__":
    main()
