"""Many notes: notes a second and memory of medlink, of one note at a time, and of scispaCy's linker, in one run.

    python benchmarks/batch.py --work FOLDER --notes 1000 --notes 100000

The 240 notes of the data folder, over and over, each with an id of its own, in a CSV file: as they are, so that most
texts came before, and each with a number as its last line, so that no text comes twice. Every row of the table is a
process of its own, which opens what it needs and is timed from the first note to the last:

- medlink: ``link_notes`` to JSON lines, with one worker process and with two;
- medlink, one note at a time: ``NotePipeline.link`` called with each note alone, one JSON line a mention;
- scispaCy: its candidate generator, note by note as its pipeline does, on the mentions that medlink found. Finding
  mentions and writing cost it nothing here.

The dictionary of all is HPO in English, Spanish and German. Memory is the most that was resident (``VmHWM``), of two
processes that of the parent and, behind the plus, of the larger worker, which share the pages of the bundle. scispaCy
does at most ``--most`` notes: it remembers nothing, and does not get quicker. Above ``--alone`` notes only two
processes and one note at a time run, with texts that came before.
"""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import click
from open_data import DATA, hpo_dictionary
from peers.scispacy_index import open_index
from speed import build_medlink, build_scispacy

_K = 5


def write_notes(path: Path, number: int, *, own: bool = False) -> None:
    """A table of so many notes; each has a text of its own where that is wanted."""
    notes = [
        (language, file.read_text("utf-8-sig"))
        for language in ("de", "en", "es")
        for file in sorted((DATA / "notes" / language).glob("*.txt"))
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("id", "language", "text"))
        for at, (language, text) in enumerate(islice(cycle(notes), number)):
            table.writerow((at, language, f"{text}\n\n{at}\n" if own else text))


def run_medlink(work: Path, notes: Path, most: int, processes: int = 1) -> int:
    """All notes, to JSON lines."""
    from medlink import link_notes

    return link_notes(work / "bundle", notes, out=work / "links.jsonl", processes=processes).notes


def run_two(work: Path, notes: Path, most: int) -> int:
    """The same with two worker processes."""
    return run_medlink(work, notes, most, 2)


def run_single(work: Path, notes: Path, most: int) -> int:
    """Each note alone."""
    from medlink import NotePipeline
    from medlink.notes.reading import read_notes

    pipeline, number = NotePipeline(work / "bundle"), 0
    with (work / "single.jsonl").open("w", encoding="utf-8") as file:
        for note in read_notes([str(notes)]):
            for mention in pipeline.link([note])[0].mentions:
                file.write(json.dumps(mention.link.to_dict(), ensure_ascii=False) + "\n")
            number += 1
    return number


def run_scispacy(work: Path, notes: Path, most: int) -> int:
    """scispaCy's candidates for the mentions of each note."""
    generator, number = open_index(work / "scispacy"), 0
    for texts in mentions(work / "links.jsonl", most):
        for found in generator(texts, 30):
            sorted(found, key=lambda one: -max(one.similarities))[:_K]
        number += 1
    return number


def mentions(links: Path, most: int) -> Iterator[list[str]]:
    """The mentions of each of the first notes that have any."""
    by_note: dict[str, list[str]] = {}
    with links.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["note"] not in by_note and len(by_note) == most:
                break
            by_note.setdefault(row["note"], []).append(row["text"])
    yield from by_note.values()


_TWO, _SINGLE, _SCISPACY = "medlink, two processes", "medlink, one note at a time", "scispaCy, mentions given"
PARTS = {
    "medlink": run_medlink,
    _TWO: run_two,
    _SINGLE: run_single,
    _SCISPACY: run_scispacy,
}


def child(part: str, work: Path, notes: Path, most: int) -> dict[str, Any]:
    """One part in a process of its own."""
    words = [sys.executable, __file__, "--work", str(work), "--only", part, "--most", str(most), "--file", str(notes)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measured(part: str, work: Path, notes: Path, most: int) -> dict[str, Any]:
    """Notes, seconds and memory in MB of one part, in this process."""
    begin = time.perf_counter()
    number = PARTS[part](work, notes, most)
    seconds = time.perf_counter() - begin
    status = Path("/proc/self/status").read_text("utf-8").splitlines()
    memory = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024 if part == _TWO else 0
    return {"notes": number, "seconds": seconds, "memory": memory, "workers": workers}


@click.command()
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for what is built.")
@click.option("--notes", "numbers", multiple=True, type=int, default=(1_000, 100_000), show_default=True)
@click.option("--most", default=1_000, show_default=True, help="Notes that scispaCy gets at most.")
@click.option("--alone", default=1_000, show_default=True, help="Notes above which fewer rows are made.")
@click.option("--only", type=click.Choice(sorted(PARTS)), hidden=True)
@click.option("--file", type=click.Path(path_type=Path), hidden=True)
def main(work: Path, numbers: tuple[int, ...], most: int, alone: int, only: str | None, file: Path) -> None:
    """Print the table; with --only run one part in this process."""
    if only is not None:
        click.echo(json.dumps(measured(only, work, file, most)))
        return
    names = hpo_dictionary()
    if not (work / "scispacy" / "nmslib_index.bin").exists():  # written last
        with redirect_stdout(sys.stderr):  # scispaCy tells what it does
            build_medlink(work, names)
            build_scispacy(work, [])
    click.echo(f"{len(names):,} names of HPO in three languages; 240 notes, over and over.\n")
    click.echo("| linker | notes | texts | seconds | notes a second | memory, MB |")
    click.echo("|---|---:|---|---:|---:|---:|")
    for number in numbers:
        for own in (True, False) if number <= alone else (False,):
            notes = work / f"notes-{number}{'-own' if own else ''}.csv"
            write_notes(notes, number, own=own)
            for part in PARTS if number <= alone else (_TWO, _SINGLE):
                if part == _SCISPACY and not own:
                    continue  # it remembers nothing
                run = child(part, work, notes, min(number, most))
                memory = f"{run['memory']:,.0f}" + (f" + {run['workers']:,.0f}" if run["workers"] else "")
                rate, texts = run["notes"] / run["seconds"], "each its own" if own else "240"
                click.echo(f"| {part} | {run['notes']:,} | {texts} | {run['seconds']:,.1f} | {rate:,.1f} | {memory} |")


if __name__ == "__main__":
    main()
