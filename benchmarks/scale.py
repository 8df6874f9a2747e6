"""What the index costs as a terminology grows: one table for each size, from a run of its own.

    python benchmarks/scale.py NAMES --work FOLDER --size 100000 --size 1000000

NAMES is what ``open_names.py`` writes; ``scale_names.py`` makes any number of names of it. A bundle is built of them by
``medlink kb build`` and ``medlink index build``, each in a process of its own. Then every kind of index for many names
is compared with exact search among the same vectors, by one thread: mentions with typing errors, and names in German
and Spanish that the bundle lacks. A row that was found counts where its cosine is that of the exact one, to a
thousandth: equal names are one. Last, processes open the bundle and link one mention and a hundred at a time.
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
import numpy as np
from scale_names import noisy, other_languages, read_rows, write_table

from medlink.index import Bundle
from medlink.index.vectors import vector_index
from medlink.index.vectors.library import faiss

_KINDS = ("ivf", "ivfpq")
_ASKED = 250  # mentions of each sort
_EQUAL = 1e-3
_AT_ONCE = 100
_PROCESSES = 4
_OPENS = """
import json, resource, sys, time
began = time.perf_counter()
import medlink
linker = medlink.load(sys.argv[1])
opened, held = time.perf_counter() - began, int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
mentions = [medlink.Mention(*one) for one in json.load(sys.stdin)]
linker.link(mentions[:5])
single = []
for mention in mentions[:200]:
    began = time.perf_counter()
    linker.link([mention])
    single.append(time.perf_counter() - began)
many = []
for start in range(200, len(mentions) - 99, 100):
    began = time.perf_counter()
    linker.link(mentions[start:start + 100])
    many.append(time.perf_counter() - began)
print(json.dumps([opened, held, single, many]), flush=True)
sys.stdin.close()
time.sleep(float(sys.argv[2]))
"""


def built(command: list[str]) -> tuple[float, float, float]:
    """Minutes, minutes of the processor, and peak memory in GB of a medlink command in a process of its own."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    code = "import resource, sys\nfrom medlink.cli.main import app\ntry:\n    app()\nfinally:\n"
    code += "    print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(done.stderr[-500:])
    peak = int(done.stderr.rsplit("peak", 1)[1].split()[0]) / 1e6
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (time.perf_counter() - start) / 60, used / 60, peak


def compared(bundle: Bundle, mentions: dict[str, list[tuple[str, str]]], work: Path) -> list[list[str]]:
    """Rows of kinds of index: recall, speed, and memory beside exact search."""
    part = bundle.index.parts[0]
    vectors = np.concatenate(
        [part.vectors.vectors(np.arange(at, min(at + 4096, len(part.names)))) for at in range(0, len(part.names), 4096)]
    )
    faiss().omp_set_num_threads(1)
    asked = {what: bundle.encoder.encode([text for text, _ in some]) for what, some in mentions.items()}
    exact, rows = vector_index("flat")(vectors.shape[1]), []
    exact.add(vectors)
    best, taken = {}, time.process_time()
    for what, some in asked.items():
        best[what] = exact.search(some, 10)[1]
    taken = time.process_time() - taken
    every = sum(map(len, asked.values()))
    rows.append(["flat", f"{every / taken:,.0f}", "1.0", *["1.000"] * 2 * len(asked), f"{4 * vectors.shape[1]:,}"])
    for kind in _KINDS:
        folder = work / kind
        folder.mkdir(exist_ok=True)
        made = vector_index(kind)(vectors.shape[1])
        made.add(vectors)
        made.save(folder)
        opened = vector_index(kind).load(folder)
        recalls, used = [], 0.0
        for what, some in asked.items():
            began = time.process_time()
            found = opened.search(some, 10)[1]
            used += time.process_time() - began
            recalls += [np.mean(found[:, 0] >= best[what][:, 0] - _EQUAL)]
            recalls += [np.mean(found >= best[what][:, 9:] - _EQUAL)]
        cells = [f"{every / used:,.0f}", f"{taken / used:.1f}", *(f"{value:.3f}" for value in recalls)]
        rows.append([kind, *cells, f"{vector_index(kind).bytes_per_name(vectors.shape[1]):,}"])
    return rows


def opened(bundle: Path, mentions: list[tuple[str, str]]) -> tuple[list[Any], float]:
    """What one of several processes tells of opening and linking, and the memory in MB that each holds of its own and
    as its share of what they have in common."""
    command = [sys.executable, "-c", _OPENS, str(bundle)]
    given = json.dumps(mentions)
    alone = subprocess.run([*command, "0"], input=given, capture_output=True, text=True, check=True)
    several = [
        subprocess.Popen([*command, "600"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(_PROCESSES)
    ]
    try:
        for process in several:
            assert process.stdin is not None
            process.stdin.write(given)
            process.stdin.close()
        for process in several:
            assert process.stdout is not None
            process.stdout.readline()
        told = [Path(f"/proc/{process.pid}/smaps_rollup").read_text("utf-8").split() for process in several]
    finally:
        for process in several:
            process.kill()
            process.wait()
    shares = [int(words[words.index("Pss:") + 1]) / 1e3 for words in told]
    return json.loads(alone.stdout), sum(shares) / len(shares)


def _measure(names: Path, wanted: int, work: Path) -> None:
    rows = read_rows(names)
    table, bundle = work / f"{wanted}.tsv", work / f"bundle-{wanted}"
    write_table(rows, wanted, table)
    load = built(["kb", "build", str(bundle), "--table", str(table)])
    index = built(["index", "build", str(bundle), "--threads", "2"])
    open_bundle = Bundle(bundle)
    part = open_bundle.index.parts[0]
    texts = [part.names.texts[at] for at in range(0, len(part.names), max(1, len(part.names) // 5000))]
    began = time.process_time()
    open_bundle.encoder.encode(texts)
    bare = len(texts) / (time.process_time() - began)
    own = [row for row in rows if row.name in set(texts)] or rows
    mentions = {
        "typing errors": noisy(own)[:_ASKED],
        "other languages": other_languages(rows)[:: max(1, 3000 // _ASKED)],
    }
    size = sum(file.stat().st_size for file in part.folder.iterdir())
    words = sum(path.stat().st_size for path in part.folder.glob("posting_*"))
    told, shared = opened(bundle, [one for some in mentions.values() for one in some][: 4 * _AT_ONCE])
    seconds, held, single, many = told
    kind = part.manifest["kind"]
    click.echo(f"{len(part.names):,} distinct names of {part.concepts.count:,} concepts.\n")
    click.echo("| what | minutes | of the processor | peak memory, GB |\n|---|---:|---:|---:|")
    for what, cost in (("knowledge base", load), (f"index, kind {kind}", index)):
        click.echo(f"| {what} | {cost[0]:.1f} | {cost[1]:.1f} | {cost[2]:.2f} |")
    click.echo("\n| what | value |\n|---|---:|")
    for what, value in (
        ("encoder alone, names a second of the processor", f"{bare:,.0f}"),
        ("index on disk, bytes a name", f"{size / len(part.names):,.0f}"),
        ("of them for words", f"{words / len(part.names):,.0f}"),
        ("opening, s, imports included", f"{seconds:.2f}"),
        ("memory before the first mention, MB", f"{held / 1e6:,.0f}"),
        ("one mention, ms: p50", f"{np.percentile(single, 50) * 1e3:.1f}"),
        ("one mention, ms: p99", f"{np.percentile(single, 99) * 1e3:.1f}"),
        ("100 mentions, ms: p50", f"{np.percentile(many, 50) * 1e3:.0f}"),
        (f"each of {_PROCESSES} processes, MB of memory (PSS)", f"{shared:,.0f}"),
    ):
        click.echo(f"| {what} | {value} |")
    head = " | ".join(f"{what}: R@1 | R@10" for what in mentions)
    click.echo(f"\n| kind | mentions a second | times exact | {head} | bytes a name |\n|---|" + "---:|" * 7)
    for row in compared(open_bundle, mentions, work):
        click.echo(f"| {' | '.join(row)} |")
    click.echo()


@click.command()
@click.argument("names", type=click.Path(exists=True, path_type=Path))
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for tables and bundles.")
@click.option("--size", "sizes", multiple=True, default=(100_000, 1_000_000), show_default=True, type=int)
def main(names: Path, work: Path, sizes: tuple[int, ...]) -> None:
    """Print the tables."""
    work.mkdir(parents=True, exist_ok=True)
    for size in sizes:
        _measure(names, size, work)


if __name__ == "__main__":
    main()
