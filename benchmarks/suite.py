"""Tasks of ``medlink.evaluation`` over encoders, bundles and programs of others, compared in one report.

    python benchmarks/suite.py evaluation.toml -o FOLDER

The TOML file names systems and tasks, and paths beside it (docs/reference/evaluation.md). ``FOLDER`` gets
``report.md``, ``report.csv`` (a line for each measure), ``report.json`` and ``manifest.json``. What fails is named
there, and the rest goes on; the exit code is then 3.

A program of others, a peer, is run as ``COMMAND DICTIONARY QUERIES``: ``DICTIONARY`` is a TSV of ``concept_id``,
``name`` and ``language``, ``QUERIES`` one of ``query`` (a number), ``mention`` and ``language``, with a header and
without quoting. It prints a line for each query: its number, and ids as the dictionary has them, best first, with tabs
between.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import click
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medlink.errors import ConfigError, InputError, MedlinkError
from medlink.evaluation import TASKS, Answer, Dictionary, Query, Report, Task
from medlink.evaluation.measures import RESAMPLES, STATISTICS, bootstrap_values, estimate
from medlink.evaluation.names import plain
from medlink.evaluation.retrieval import RetrievalTask
from medlink.evaluation.task import Row, format_cell, format_rows
from medlink.index import Bundle
from medlink.models import load_encoder
from medlink.models.encoders import split_pooling
from medlink.settings import Settings

CHANCE = 0.05
"""Below it a system counts as worse than the best one."""
FITS = {"linking": ("bundles", "encoders", "peers"), "notes": ("bundles",), "partition": ("files",)}
FITS |= dict.fromkeys(("retrieval", "leaf-to-parent"), ("encoders", "peers"))
"""Kinds of systems that a task measures; encoders where it is not here."""
KINDS = ("bundles", "encoders", "peers")


class Peer(Settings):
    """A program that ranks concepts for mentions, ended after ``limit`` seconds with all that it has started."""

    command: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    limit: Annotated[float, Field(gt=0, strict=False)] = 3600.0
    name: str = ""
    folder: Path | None = None

    def answers(self, dictionary: Dictionary, queries: Sequence[Query], depth: int) -> list[Answer]:
        """What it ranks, as :func:`medlink.evaluation.retrieve` gives it, without cosines."""
        ranked = iter(self.rank(dictionary, [(part, query.language) for query in queries for part in query.parts]))
        rows, known = {"|".join(ids): row for row, ids in enumerate(dictionary.concepts)}, dictionary.by_id()
        found = []
        for query in queries:
            lists = [list(dict.fromkeys(rows[one] for one in next(ranked) if one in rows)) for _ in query.parts]
            right = {row for one in query.gold for row in known.get(one, ())}
            ranks = [next((at for at, row in enumerate(one[:depth], 1) if row in right), 0) for one in lists]
            first = tuple(dictionary.concepts[one[0]] if one else () for one in lists)
            found.append(Answer(query, bool(right), max(ranks) if all(ranks) else 0, first, float("nan")))
        return found

    def rank(self, dictionary: Dictionary, queries: Sequence[tuple[str, str]]) -> list[list[str]]:
        """The ids that it ranks for mentions with their languages."""
        languages = dictionary.languages or [("",)] * len(dictionary)
        entries = (
            ("|".join(dictionary.concepts[row]), text, tag)
            for text, own, tags in zip(dictionary.texts, dictionary.owners, languages, strict=True)
            for row in own
            for tag in tags or ("",)
        )
        mentions = ((str(number), plain(text), tag) for number, (text, tag) in enumerate(queries))
        with TemporaryDirectory(prefix="medlink-peer-") as folder:
            names, queries, out = (Path(folder) / name for name in ("dictionary.tsv", "queries.tsv", "ranked.tsv"))
            _write(names, ("concept_id", "name", "language"), entries)
            _write(queries, ("query", "mention", "language"), mentions)
            self._run([*self.command, str(names), str(queries)], out)
            lines = [line.split("\t") for line in out.read_text("utf-8", errors="replace").splitlines()]
        found = {number: [one for one in ids if one] for number, *ids in lines}
        if found.keys() != set(map(str, range(len(queries)))):
            remedy = "have it print a line for each: its number, then ids, with tabs between"
            message = f"the peer {self.name!r} printed {len(found)} lines that are not those of {len(queries)} queries"
            raise InputError(message, remedy=remedy)
        return [found[str(number)] for number in range(len(queries))]

    def _run(self, command: Sequence[str], out: Path) -> None:
        """Run the program in a session of its own, so that what it started ends with it."""
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with open(out, "wb") as file:
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=file, cwd=self.folder, env=own, start_new_session=True
                )
            except OSError as error:
                message = f"the peer {self.name!r} cannot be started: {error.strerror}"
                raise ConfigError(message, path=command[0], remedy="name a program that is there") from error
            try:
                code = process.wait(self.limit)
            except subprocess.TimeoutExpired as error:
                message = f"the peer {self.name!r} was not ready in {self.limit:g} s"
                raise ConfigError(message, remedy="give it more seconds with 'limit', or leave it out") from error
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code:
            remedy = "run its command by hand, or leave it out"
            raise ConfigError(f"the peer {self.name!r} ended with code {code}", remedy=remedy)


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines("\t".join(row) + "\n" for row in (header, *rows))


class Entry(Settings):
    """A task on some files, with which options, and on which systems (all that fit when none is named)."""

    task: str
    title: str = ""
    inputs: Annotated[tuple[str, ...], Field(strict=False)]
    options: Annotated[dict[str, Any], Field(default_factory=dict)]
    systems: Annotated[tuple[str, ...], Field(strict=False)] = ()


class Suite(Settings):
    """What an evaluation file says; its files lie in ``folder``."""

    folder: Path
    seed: Annotated[int, Field(ge=0)] = 1
    resamples: Annotated[int, Field(ge=1, le=1_000_000)] = RESAMPLES
    encoders: Annotated[dict[str, str], Field(default_factory=dict)]
    bundles: Annotated[dict[str, str], Field(default_factory=dict)]
    peers: Annotated[dict[str, Peer], Field(default_factory=dict)]
    tasks: Annotated[tuple[Entry, ...], Field(strict=False, min_length=1)]

    def place(self, name: str) -> str:
        """A file or folder beside the evaluation file; what is none there stays as it is."""
        beside = self.folder / name
        return str(beside) if beside.exists() else name

    def encoder(self, name: str) -> str:
        """What :func:`load_encoder` is to open for an encoder, which may have its pooling in front."""
        given = self.encoders[name]
        bare = split_pooling(given)[1]
        return f"{given.removesuffix(bare)}{self.place(bare)}"

    def task(self, entry: Entry) -> Task:
        """The task of an entry, with the seed and the resamples of all."""
        kind = TASKS[entry.task]
        shared = {name: getattr(self, name) for name in ("seed", "resamples") if name in kind.model_fields}
        return kind(**{**shared, **entry.options})

    def systems(self, entry: Entry) -> list[tuple[str, str]]:
        """Kind and name of what an entry measures."""
        fit = FITS.get(entry.task, ("encoders",))
        if fit == ("files",):
            return [("files", "-")]
        return [
            (kind, name) for kind in fit for name in getattr(self, kind) if name in entry.systems or not entry.systems
        ]


def checked(suite: Suite) -> Suite:
    """The suite with a title for each task; ConfigError for what cannot be run, before the long work starts."""
    tasks = tuple(one.replace(title=one.title or " ".join((one.task, *one.inputs))) for one in suite.tasks)
    names = [name for kind in KINDS for name in getattr(suite, kind)]
    for what, given in (("system", names), ("title", [one.title for one in tasks])):
        if len(set(given)) < len(given):
            raise ConfigError(f"a {what} occurs twice", remedy="give each its own name")
    for entry in tasks:
        if entry.task not in TASKS:
            raise ConfigError(f"unknown task {entry.task!r}", remedy=f"one of {', '.join(TASKS)}")
        if unknown := set(entry.systems) - set(names):
            raise ConfigError(f"{entry.title}: no system {min(unknown)!r}", remedy=f"one of {', '.join(names)}")
        if not suite.systems(entry):
            raise ConfigError(f"{entry.title}: no system fits", remedy="name some that do")
        suite.task(entry)
    return suite.replace(tasks=tasks)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task found of a system, or why it failed (``error``), and the seconds that it took."""

    entry: Entry
    kind: str
    system: str
    report: Report | None
    error: str
    seconds: float


def run(suite: Suite) -> Iterator[Outcome]:
    """Every task on every system that fits."""
    loaded: dict[str, Any] = {}
    for entry in suite.tasks:
        for kind, name in suite.systems(entry):
            start, report, error = time.perf_counter(), None, ""
            try:
                report = _run(suite, entry, kind, name, loaded)
            except Exception as failed:  # whatever a library or a damaged file does to one, the others are measured
                error = str(failed) if isinstance(failed, MedlinkError) else type(failed).__name__
            yield Outcome(entry, kind, name, report, error, time.perf_counter() - start)


def _run(suite: Suite, entry: Entry, kind: str, name: str, loaded: dict[str, Any]) -> Report:
    task, inputs, last = suite.task(entry), [suite.place(one) for one in entry.inputs], None
    if kind in ("files", "bundles"):
        return task.run([suite.place(suite.bundles[name]), *inputs] if kind == "bundles" else inputs)
    if entry.task == "linking":
        # the same mentions among the names of the first bundle, to the same depth
        options, last = dict(task), task.k
        own = [one for of, one in suite.systems(entry) if of == "bundles"] or list(suite.bundles)
        if not own or options["sources"] or options["semantic_types"]:
            raise ConfigError("needs a whole bundle", remedy="name one, without sources and semantic types")
        inputs = [suite.place(suite.bundles[own[0]]), *inputs]
        task = RetrievalTask(
            rank_by="concepts", language=options["language"] or "",
            dictionary_languages=",".join(options["languages"]) or None,
            **{one: options[one] for one in ("distinct", "sample", "seed")},
        )  # fmt: skip
    if kind == "peers":
        peer = suite.peers[name].replace(name=name, folder=suite.folder)
        return _ranked(task, peer, last).run(inputs)
    if name not in loaded:
        from medlink.training.mlte import is_mlte

        given = suite.encoder(name)
        loaded[name] = given if is_mlte(given) else Remembering(load_encoder(given))
    return (_ranked(task, None, last) if last else task).run(inputs, loaded[name])


def _ranked(task: Any, peer: Peer | None, last: int | None) -> Task:
    """A task in which a peer ranks, if there is one, and ranks below the last count as not found."""

    class Ranked(type(task)):  # type: ignore[misc]  # the class of each task is known when it runs
        def answers(self, dictionary: Dictionary, queries: Sequence[Query], run: Any) -> list[Answer]:
            if peer is None:
                found = super().answers(dictionary, queries, run)
            elif self.rank_by == "names":
                raise ConfigError("a peer ranks concepts, not names", remedy='set rank_by = "concepts"')
            else:
                found = peer.answers(dictionary, queries, self.depth)
            return found if last is None else [replace(one, rank=one.rank * (one.rank <= last)) for one in found]

    return Ranked(**dict(task))


class Remembering:
    """An encoder that embeds a text once: several tasks look among the names of one dictionary."""

    def __init__(self, encoder: Any) -> None:
        self._encoder, self._known = encoder, dict[str, NDArray[np.float32]]()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if len(self._known) > 500_000:  # less than 1 GB at 384 dimensions
            self._known.clear()
        if new := list(dict.fromkeys(text for text in texts if text not in self._known)):
            self._known.update(zip(new, self._encoder.encode(new), strict=True))
        return np.stack([self._known[text] for text in texts])


def f1(right: Any, wrong: Any, missed: Any, axis: int = -1) -> Any:
    """F1 of summed counts along an axis, 0 where nothing is right."""
    twice = 2 * right.sum(axis=axis)
    return twice / np.maximum(twice + wrong.sum(axis=axis) + missed.sum(axis=axis), 1)


Scores = tuple[Any, tuple[NDArray[np.float64], ...]]
"""A statistic, and its columns: a value for each item."""


def scores(task: str, report: Report) -> dict[tuple[str, str], Scores]:
    """What each measure and group of a report is made of, from its items; none for clusterings."""
    groups: dict[str, list[Any]] = defaultdict(list)
    for row in report.items:
        if (group := row.get("language", row.get("kind", row.get("file")))) is not None:
            groups[str(group) or "-"].append(row)
    if any("language" in row for row in report.items) and len(groups) > 1:
        groups = {**{tag: groups[tag] for tag in sorted(groups)}, "all": list(report.items)}
    return {(name, group): one for group, rows in groups.items() for name, one in _scores(task, rows).items()}


def _scores(task: str, rows: Sequence[Row]) -> dict[str, Scores]:
    def column(name: str) -> NDArray[np.float64]:
        return np.array([row[name] or 0 for row in rows], dtype=float)

    if task == "notes":
        kinds = {"F1": "documents", "mention F1": "mentions"}
        return {
            name: (f1, tuple(column(f"{of} {one}") for one in ("right", "wrong", "missed")))
            for name, of in kinds.items()
        }
    if task == "synonyms":
        first = column("first")
        return {name: (np.mean, (one,)) for name, one in
                {"mAP": column("precision"), "Acc": (first == 1) * 1.0, "MRR": 1 / first}.items()}  # fmt: skip
    if "entailed" in rows[0]:
        return {"accuracy": (np.mean, ((column("entailed") > column("contradicted")) * 1.0,))}
    if "rating" in rows[0]:
        columns = column("rating"), column("cosine" if "cosine" in rows[0] else "score")
        names = ("spearman",) if task == "similarity" else ("pearson", "spearman")
        return {name: (STATISTICS[name], columns) for name in names}
    rank = column("rank")
    each = np.divide(1.0, rank, out=np.zeros_like(rank), where=rank > 0)
    columns = {"Acc@1": (rank == 1) * 1.0, "Acc@5": ((rank > 0) & (rank <= 5)) * 1.0, "MRR": each}
    return {name: (np.mean, (one,)) for name, one in columns.items()}


def compare(suite: Suite, outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """Every measure of every system with its interval, and beside the best of the same items ``p`` of the difference.

    ``best`` is 1 for the best of all systems; ``None`` stands for what is not defined.
    """
    for entry in suite.tasks:
        found = [(one, scores(entry.task, one.report)) for one in outcomes if one.entry is entry and one.report]
        for key in dict.fromkeys(key for _, own in found for key in own):
            own = [(one, of[key]) for one, of in found if key in of]
            estimates = [estimate(*score, suite.resamples, 0.95, suite.seed) for _, score in own]
            first = max(range(len(own)), key=lambda at: estimates[at].value)
            for (one, score), known in zip(own, estimates, strict=True):
                best = known.value == estimates[first].value
                alike = not best and known.items == estimates[first].items
                p = chance(score, own[first][1], suite.resamples, suite.seed) if alike else None
                numbers = {name: number if np.isfinite(number) else None for name, number in asdict(known).items()}
                head = {"title": entry.title, "measure": key[0], "group": key[1], "kind": one.kind}
                yield {**head, "system": one.system, **numbers, "best": int(best), "p": p}


def chance(one: Scores, other: Scores, resamples: int, seed: int) -> float:
    """How likely a difference of two systems as large as theirs is by chance: the two-sided paired bootstrap.

    Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation". Items are drawn with replacement,
    for both systems the same: twice the share of the resamples in which one of the two is not ahead, whichever of them
    this is rarer for; one resample more is counted, so that it is never 0.
    """
    statistic, width = one[0], len(one[1])

    def difference(*columns: Any, axis: int = -1) -> Any:
        return statistic(*columns[:width], axis=axis) - statistic(*columns[width:], axis=axis)

    drawn = bootstrap_values(difference, (*one[1], *other[1]), resamples, seed)
    rarer = int(min(np.count_nonzero(drawn <= 0), np.count_nonzero(drawn >= 0)))
    return min(1.0, 2 * (rarer + 1) / (len(drawn) + 1))


def write_report(folder: Path, suite: Suite, outcomes: Sequence[Outcome], measured: Sequence[Row]) -> None:
    """Write the tables and the manifest into a new folder."""
    folder.mkdir(parents=True)
    found = [
        {"title": one.entry.title, "task": one.entry.task, "kind": one.kind, "system": one.system, "error": one.error}
        | {"seconds": round(one.seconds, 2), "report": one.report and one.report.to_dict()}
        for one in outcomes
    ]
    files = {"report.json": {"outcomes": found, "measures": measured}, "manifest.json": manifest(suite)}
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", "utf-8")
    (folder / "report.csv").write_text("".join(format_rows(measured, ",")), "utf-8")
    (folder / "report.md").write_text("\n".join(markdown(suite, outcomes, measured)), "utf-8")


def markdown(suite: Suite, outcomes: Sequence[Outcome], measured: Sequence[Row]) -> Iterator[str]:
    """The lines of the report: task by task its measures, then what failed."""
    yield f"# Evaluation\n\nWith 95 % intervals; * worse than the best, p < {CHANCE}.\n"
    for entry in suite.tasks:
        reports = [(one.system, one.report) for one in outcomes if one.entry is entry and one.report]
        heads = dict.fromkeys(report.head for _, report in reports)
        yield "\n".join([f"## {entry.title}\n", "; ".join([entry.task, *heads]), ""])
        grid: dict[Any, dict[Any, str]] = {}
        for one in (row for row in measured if row["title"] == entry.title):
            value, low, high = (format_cell(one[name], none="nan") for name in ("value", "low", "high"))
            star = " *" * (isinstance(one["p"], float) and one["p"] < CHANCE)
            text = f"**{value} [{low}, {high}]**" if one["best"] else f"{value} [{low}, {high}]{star}"
            grid.setdefault((one["group"], one["system"], one["items"]), {})[one["measure"]] = text
        names = ("of", "system", "items")
        yield from table([dict(zip(names, head, strict=True)) | own for head, own in grid.items()])
        tables: dict[str, list[Any]] = defaultdict(list)
        for system, report in reports:
            for title, rows in {"All measures": report.table, **report.further}.items():
                tables[title] += [
                    {"system": system} | {name: format_cell(cell) for name, cell in row.items()} for row in rows
                ]
        for title, rows in tables.items():
            yield f"{title}:\n"
            yield from table(rows)
    if failed := [{"task": one.entry.title, "system": one.system, "why": one.error} for one in outcomes if one.error]:
        yield "## Failed\n"
        yield from table(failed)


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Lines of a table in Markdown, with a column for each name of a cell."""
    header = list(dict.fromkeys(name for row in rows for name in row))
    lines = [header, ["---"] * len(header), *([str(row.get(name, "-")) for name in header] for row in rows)]
    for cells in lines if rows else []:
        yield f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def manifest(suite: Suite) -> dict[str, Any]:
    """What the numbers depend on: hashes of data, encoders and bundles, versions, seed and machine."""
    return {
        "suite": json.loads(suite.model_dump_json(exclude={"folder"})),
        "inputs": {name: digest(Path(suite.place(name))) for entry in suite.tasks for name in entry.inputs},
        "encoders": {name: _facts(load_encoder, suite.encoder(name), "fingerprint") for name in suite.encoders},
        "bundles": {name: _facts(Bundle, suite.place(given), "versions") for name, given in suite.bundles.items()},
        "peers": {name: [digest(Path(suite.place(one))) for one in peer.command] for name, peer in suite.peers.items()},
        "versions": {one.name: one.version for one in distributions()} | {"python": platform.python_version()},
        "machine": {"platform": platform.platform(), "cores": len(os.sched_getaffinity(0))},
    }


def _facts(opened: Any, given: str, name: str) -> Any:
    try:
        return getattr(opened(given), name)
    except Exception as error:  # a damaged model does not undo hours of work
        return str(error) if isinstance(error, MedlinkError) else type(error).__name__


def digest(path: Path) -> str | None:
    """SHA-256 of a file, or of the names and hashes of the files of a folder; ``None`` for what is neither."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if not path.is_dir():
        return None
    lines = [f"{one.relative_to(path)} {digest(one)}\n" for one in sorted(path.rglob("*")) if one.is_file()]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def evaluate(suite: Suite, out: Path) -> tuple[list[Outcome], list[Row]]:
    """Run a suite, say how each run ends, and write the report into a new folder."""
    suite, outcomes = checked(suite), list[Outcome]()
    for one in run(suite):
        click.echo(f"{one.entry.title}, {one.system}: {one.error or f'{one.seconds:.1f} s'}", err=True)
        outcomes.append(one)
    measured = list(compare(suite, outcomes))
    write_report(out, suite, outcomes, measured)
    return outcomes, measured


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="New folder of the report.")
def main(file: Path, out: Path) -> None:
    """Run the tasks of an evaluation file, and write one report."""
    if out.exists():
        raise click.UsageError(f"{out} is there: name a new folder")
    try:
        suite = Suite(**tomllib.loads(file.read_text("utf-8")), folder=file.absolute().parent)
        outcomes, _ = evaluate(suite, out)
    except MedlinkError as error:
        raise click.ClickException(f"{file}: {error}") from error
    sys.exit(3 * any(one.error for one in outcomes))


if __name__ == "__main__":
    main()
