"""What the index costs as a terminology grows: a table of bars for all sizes, and one of the kinds of index for each.

    python benchmarks/scale.py NAMES --work FOLDER --size 100000 --size 1000000 --size 10000000 --plot PICTURE

NAMES is what ``open_names.py`` writes; ``scale_names.py`` makes any number of names of it. A bundle is built of them by
``medlink kb build`` and ``medlink index build``, each in a process of its own. Then kinds of index are compared with
exact search among the same vectors, by one thread: mentions with typing errors, and names in German and Spanish that
the bundle lacks. A row that was found counts where its cosine is that of the exact one, to a thousandth: equal names
are one. Last, processes open the bundle and link one mention and a hundred at a time.

What was measured of a size is kept in the folder, a file for each step, and not measured again: a run that was
interrupted goes on, and the sizes may be measured one after the other.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from scale_names import Row, noisy, other_languages, read_rows, write_table
from scale_words import words_compared

from medlink.index import Bundle
from medlink.index.building import embed_names
from medlink.index.segment import Segment
from medlink.index.vectors import ivfpq, vector_index
from medlink.index.vectors.base import VectorIndex
from medlink.index.vectors.library import faiss

_QUERIES = 250  # mentions of each sort
_EQUAL = 1e-3
_AT_ONCE = 100
_PROCESSES = 4
_BLOCK = 1 << 17  # vectors that exact search compares at a time
_ENCODED = 100_000  # names up to which the encoder is measured
_OTHERS = 2_000_000  # names up to which other kinds are built than the one that is chosen
_GRAPH = 100_000  # names up to which a graph is built beside the other kinds
_PROBES = (8, 16, 32, 64, 128, 256, 512, 1024)  # cells of the plot
_OPENS = """
import json, resource, sys, time
began = time.perf_counter()
import medlink
linker = medlink.load(sys.argv[1])
opened, held = time.perf_counter() - began, int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
mentions = [medlink.Mention(*one) for one in json.load(sys.stdin)]
linker.link(mentions[:5])
single = []
for mention in mentions[5:205]:
    began = time.perf_counter()
    linker.link([mention])
    single.append(time.perf_counter() - began)
many = []
for start in range(205, len(mentions) - 99, 100):
    began = time.perf_counter()
    linker.link(mentions[start:start + 100])
    many.append(time.perf_counter() - began)
print(json.dumps([opened, held, single, many]), flush=True)
sys.stdin.close()
time.sleep(float(sys.argv[2]))
"""
Queries = dict[str, NDArray[np.float32]]


def cached(path: Path, measure: Callable[[], Any]) -> Any:
    """What was measured, from a file where there is one."""
    if not path.exists():
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(measure()), "utf-8")
        draft.rename(path)
    return json.loads(path.read_text("utf-8"))


def _family(pid: int) -> Iterator[int]:
    """A process and those that it began."""
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split():
        yield from _family(int(child))


def _own_memory(pid: int) -> int:
    """KB that a process and those that it began hold for themselves: files that are mapped are not among them."""
    held = 0
    for one in _family(pid):
        lines = Path(f"/proc/{one}/status").read_text("utf-8").splitlines()
        held += sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "VmSwap")))
    return held


def built(*command: str) -> dict[str, float]:
    """Minutes, minutes of the processor, and peak memory in GB of a medlink command in processes of its own."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    code = "from medlink.cli.main import main; main()"
    peak, ended = [0], Event()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([sys.executable, "-c", code, *command], stdout=subprocess.DEVNULL, stderr=errors)

        def watch() -> None:
            while not ended.wait(0.2):
                try:
                    peak[0] = max(peak[0], _own_memory(process.pid))
                except (OSError, ValueError):
                    continue  # it has just ended

        watcher = Thread(target=watch)
        watcher.start()
        code_of = process.wait()
        ended.set()
        watcher.join()
        if code_of:
            errors.seek(0)
            raise click.ClickException(errors.read()[-500:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"minutes": (time.perf_counter() - start) / 60, "processor": used / 60, "peak": peak[0] / 1e6}


def encoded(bundle: Bundle, part: Segment, work: Path) -> dict[str, float]:
    """Names a second of the processor of the encoder alone, and as a build embeds them."""
    texts = part.names.texts.take(part.names.rows.offsets[np.arange(len(part.names))])
    began = time.process_time()
    bundle.encoder.encode(texts)
    bare = time.process_time() - began
    with tempfile.TemporaryDirectory(dir=work) as folder:
        began = time.process_time()
        embed_names(part.names, bundle.encoder, Path(folder), dtype=np.float16)
        built_in = time.process_time() - began
    return {"alone": len(texts) / bare, "built": len(texts) / built_in}


def _blocks(part: Segment) -> Iterator[NDArray[np.float32]]:
    for at in range(0, len(part.names), _BLOCK):
        yield part.vectors.vectors(np.arange(at, min(at + _BLOCK, len(part.names))))


def exact_search(part: Segment, queries: Queries) -> tuple[Queries, float]:
    """The ten best cosines of each mention among all vectors, and the seconds of the processor that comparing took."""
    every = np.concatenate(list(queries.values()))
    best, taken = np.full((len(every), 0), -np.inf, np.float32), 0.0
    for block in _blocks(part):
        began = time.process_time()
        found = faiss().knn(every, block, min(10, len(block)), metric=faiss().METRIC_INNER_PRODUCT)[0]
        best = -np.sort(-np.concatenate([best, found], axis=1), axis=1)[:, :10]
        taken += time.process_time() - began
    ends = np.cumsum([0, *map(len, queries.values())])
    return {what: best[ends[i] : ends[i + 1]] for i, what in enumerate(queries)}, taken


def searched(index: VectorIndex, queries: Queries, best: Queries) -> dict[str, Any]:
    """Recall among the best one and ten of each sort of mentions, and seconds of the processor."""
    recalls, used = {}, 0.0
    for what, some in queries.items():
        index.search(some[:5], 10)
        began = time.process_time()
        found = index.search(some, 10)[1]
        used += time.process_time() - began
        recalls[what] = [
            float(np.mean(found[:, 0] >= best[what][:, 0] - _EQUAL)),
            float(np.mean(found >= best[what][:, 9:] - _EQUAL)),
        ]
    return {"recall": recalls, "seconds": used}


def compared(bundle: Bundle, part: Segment, queries: Queries, work: Path) -> dict[str, Any]:
    """Kinds of index beside exact search; of kinds of cells with several numbers of them."""
    faiss().omp_set_num_threads(1)
    best, taken = exact_search(part, queries)
    own = part.manifest["kind"]
    kinds = [own] + ["ivfpq"] * (len(part.names) <= _OTHERS and own != "ivfpq")
    kinds += ["hnsw"] * (len(part.names) <= _GRAPH and own != "hnsw")
    found: dict[str, Any] = {"exact": taken, "asked": sum(map(len, queries.values())), "kinds": {}, "probes": {}}
    for kind in kinds:
        index: VectorIndex = part.vectors
        if kind != own:
            index = _made(kind, part, work)
        found["kinds"][kind] = {
            **searched(index, queries, best),
            "bytes": vector_index(kind).bytes_per_name(index.dimension),
            "raw": 4 * index.dimension,
        }
        if isinstance(index, ivfpq.Index):
            usual, found["probes"][kind] = (ivfpq._PROBED, ivfpq._PROBED_SHARE), {}
            ivfpq._PROBED_SHARE = 0.0
            for probes in _PROBES:
                ivfpq._PROBED = probes
                found["probes"][kind][probes] = searched(index, queries, best)
            ivfpq._PROBED, ivfpq._PROBED_SHARE = usual
    return found


def _made(kind: str, part: Segment, work: Path) -> VectorIndex:
    """Another kind of index of the same vectors, which lie in a file in the form that the kind asks for."""
    made = vector_index(kind)(part.vectors.dimension, threads=2)
    path = work / f"vectors-{np.dtype(made.embedding_type).name}.npy"
    shape = (len(part.names), part.vectors.dimension)
    vectors = np.lib.format.open_memmap(path, "w+", made.embedding_type, shape)
    at = 0
    for block in _blocks(part):
        vectors[at : at + len(block)] = block
        at += len(block)
    made.add(np.asarray(vectors))
    path.unlink()
    return made


def opened(bundle: Path, mentions: list[tuple[str, str]]) -> dict[str, Any]:
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
        maps = [Path(f"/proc/{process.pid}/smaps_rollup").read_text("utf-8").split() for process in several]
    finally:
        for process in several:
            process.kill()
            process.wait()
    shares = [int(words[words.index("Pss:") + 1]) / 1e3 for words in maps]
    opened_in, held, single, many = json.loads(alone.stdout)
    return {
        "opened": opened_in,
        "held": held / 1e6,
        "single": single,
        "many": many,
        "shared": sum(shares) / len(shares),
    }


def measured(rows: list[Row], wanted: int, work: Path) -> dict[str, Any]:
    """All that is measured of one size."""
    table, folder, done = work / f"{wanted}.tsv", work / f"bundle-{wanted}", work / f"{wanted}"
    done.mkdir(exist_ok=True)
    if not table.exists():
        write_table(rows, wanted, table)
    load = cached(done / "kb.json", lambda: built("kb", "build", str(folder), "--table", str(table)))
    index = cached(done / "index.json", lambda: built("index", "build", str(folder), "--threads", "2"))
    bundle = Bundle(folder)
    part = bundle.index.segments[0]
    some = part.names.rows.offsets[np.arange(0, len(part.names), max(1, len(part.names) // 20_000))]
    tags = [part.names.languages[code] for code in part.names.language[some].tolist()]
    ids = part.names.concept_ids.take(part.names.concept[some])
    own = list(map(Row, ids, part.names.texts.take(some), tags))
    mentions = {
        "typing errors": noisy(own, 2 * _QUERIES),
        "other languages": other_languages(rows)[:: max(1, len(other_languages(rows)) // (2 * _QUERIES))],
    }
    plain = [(one.mention, one.language) for some in mentions.values() for one in some[:_QUERIES]]
    queries = {what: bundle.encoder.encode([one.mention for one in some[:_QUERIES]]) for what, some in mentions.items()}
    return {
        "names": len(part.names),
        "concepts": part.concepts.count,
        "kind": part.manifest["kind"],
        "bytes": sum(file.stat().st_size for file in part.folder.iterdir()) / len(part.names),
        "words": sum(path.stat().st_size for path in part.folder.glob("posting_*")) / len(part.names),
        "kb": load,
        "index": index,
        "encoder": cached(done / "encoder.json", lambda: encoded(bundle, part, work)) if wanted <= _ENCODED else None,
        "kinds": cached(done / "kinds.json", lambda: compared(bundle, part, queries, work)),
        "routes": cached(
            done / "routes.json",
            lambda: words_compared(bundle, part, {what: some[:_QUERIES] for what, some in mentions.items()}, work),
        ),
        "open": cached(done / "open.json", lambda: opened(folder, plain)),
    }


def bars(sizes: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Rows of the table of bars: what, the goal, and what was measured at each size."""

    def row(what: str, goal: str, value: Callable[[dict[str, Any]], str]) -> list[str]:
        return [what, goal, *map(value, sizes)]

    def own(one: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = one["kinds"]["kinds"][one["kind"]]
        return found

    def times(one: dict[str, Any]) -> float:
        ratio: float = one["kinds"]["exact"] / own(one)["seconds"]
        return ratio

    yield row("concepts", "", lambda one: f"{one['concepts']:,}")
    yield row("knowledge base: minutes", "", lambda one: f"{one['kb']['minutes']:.1f}")
    yield row("knowledge base: memory of its own, GB", "1", lambda one: f"{one['kb']['peak']:.2f}")
    yield row("index: minutes", "60", lambda one: f"{one['index']['minutes']:.1f}")
    yield row("index: minutes of the processor", "", lambda one: f"{one['index']['processor']:.1f}")
    yield row("index: memory of its own, GB", "16", lambda one: f"{one['index']['peak']:.2f}")
    yield row(
        "speed of embedding in a build / of the encoder alone",
        "0.9",
        lambda one: f"{one['encoder']['built'] / one['encoder']['alone']:.2f}" if one["encoder"] else "",
    )
    yield row("kind of index, chosen by size", "", lambda one: f"`{one['kind']}`")
    yield row("memory of its vectors / raw vectors", "0.33", lambda one: f"{own(one)['bytes'] / own(one)['raw']:.2f}")
    yield row("on disk, bytes a name", "", lambda one: f"{one['bytes']:,.0f}")
    yield row("speed of search / of exact search", "10", lambda one: f"{times(one):.1f}")
    for what in ("typing errors", "other languages"):
        for at, count in enumerate((1, 10)):
            goal = (".99", ".98")[at]
            yield row(f"{what}: recall@{count}", goal, lambda one, w=what, a=at: f"{own(one)['recall'][w][a]:.3f}")
    yield row("opening with imports, s", "2", lambda one: f"{one['open']['opened']:.2f}")
    yield row("memory before the first mention, MB", "300", lambda one: f"{one['open']['held']:,.0f}")
    for share in (50, 99):
        yield row(
            f"one mention, ms: p{share}",
            "",
            lambda one, q=share: f"{np.percentile(one['open']['single'], q) * 1e3:.1f}",
        )
    yield row("100 mentions, ms: p50", "", lambda one: f"{np.percentile(one['open']['many'], 50) * 1e3:,.0f}")
    yield row(f"each of {_PROCESSES} processes, MB (PSS)", "", lambda one: f"{one['open']['shared']:,.0f}")


def printed(sizes: list[dict[str, Any]]) -> None:
    """Print all tables."""
    counts = [f"{one['names']:,} names" for one in sizes]
    click.echo(f"| bar | goal | {' | '.join(counts)} |")
    click.echo("|---|---:|" + "---:|" * len(sizes))
    for row in bars(sizes):
        click.echo(f"| {' | '.join(row)} |")
    sorts = list(sizes[0]["kinds"]["kinds"][sizes[0]["kind"]]["recall"])
    head = " | ".join(f"{what}: recall@1 | recall@10" for what in sorts)
    click.echo(f"\n| names | kind | mentions a second of the processor | times exact | {head} | bytes a name |")
    click.echo("|---:|---|" + "---:|" * 7)
    for one in sizes:
        found = one["kinds"]
        speed = found["asked"] / found["exact"]
        click.echo(f"| {one['names']:,} | exact | {speed:,.1f} | 1.0 | 1.000 | 1.000 | 1.000 | 1.000 | 1,024 |")
        for kind, row in found["kinds"].items():
            recalls = " | ".join(f"{value:.3f}" for what in sorts for value in row["recall"][what])
            click.echo(
                f"| {one['names']:,} | `{kind}` | {found['asked'] / row['seconds']:,.0f} | "
                f"{found['exact'] / row['seconds']:.1f} | {recalls} | {row['bytes']:,} |"
            )
    head = " | ".join(f"{what}: in the first 10" for what in sorts)
    click.echo(f"\n| names | route | {head} | ms a mention | bytes a name |")
    click.echo("|---:|---|" + "---:|" * (len(sorts) + 2))
    for one in sizes:
        for route, row in one["routes"].items():
            shares = " | ".join(f"{row[what]:.3f}" for what in sorts)
            click.echo(f"| {one['names']:,} | {route} | {shares} | {row['ms']:.1f} | {row['bytes']:,.0f} |")


def plotted(sizes: list[dict[str, Any]], path: Path) -> None:
    """Draw recall@10 of both sorts together against mentions a second, by kind and number of cells."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for at, one in enumerate(sizes):
        found = one["kinds"]
        for kind in found["probes"]:
            points = [
                (np.mean([both[1] for both in row["recall"].values()]), found["asked"] / row["seconds"])
                for row in found["probes"][kind].values()
            ]
            label = f"{kind}, {found['kinds'][kind]['bytes']} bytes a name, {one['names']:,} names"
            axes.plot(*zip(*points, strict=True), "^-", color=f"C{at}", label=label, markersize=4)
        speed = found["asked"] / found["exact"]
        axes.plot(1.0, speed, "s", color=f"C{at}", label=f"exact, 1024 bytes a name, {one['names']:,} names")
    axes.set(yscale="log", xlabel="recall@10", ylabel="mentions a second, one thread")
    axes.set_title("8 to 1024 cells searched", fontsize=9, loc="left")
    axes.grid(color="0.9")
    axes.legend(fontsize=7)
    with rc_context({"svg.hashsalt": "medlink"}):
        figure.savefig(path, metadata={"Date": None})


@click.command()
@click.argument("names", type=click.Path(exists=True, path_type=Path))
@click.option("--work", required=True, type=click.Path(path_type=Path), help="Folder for tables and bundles.")
@click.option("--size", "sizes", multiple=True, default=(100_000, 1_000_000), show_default=True, type=int)
@click.option("--plot", type=click.Path(path_type=Path), help="A picture of recall and speed (SVG).")
def main(names: Path, work: Path, sizes: tuple[int, ...], plot: Path | None) -> None:
    """Print the tables."""
    work.mkdir(parents=True, exist_ok=True)
    rows = read_rows(names)
    found = [measured(rows, size, work) for size in sizes]
    printed(found)
    if plot is not None:
        plotted(found, plot)


if __name__ == "__main__":
    main()
