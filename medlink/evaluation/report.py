"""The report of a set of tasks: one folder with tables (Markdown, CSV, JSON), a page, a picture and the manifest."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from medlink import __version__
from medlink.curation.page import to_json, write_page
from medlink.errors import ConfigError, MedlinkError
from medlink.evaluation.plot import write_intervals
from medlink.evaluation.suite import Outcome, Suite, compare, read_suite, run_suite
from medlink.evaluation.task import Progress, Row, separated, shown
from medlink.files.folders import whole_folder
from medlink.files.json import write_json
from medlink.files.whole import whole_text
from medlink.index import Bundle
from medlink.models import load_encoder
from medlink.models.encoders import parted

CHANCE = 0.05
"""Below it a system is said to be worse than the best one."""
_LIBRARIES = ("faiss-cpu", "faiss-gpu", "numpy", "scipy", "sentence-transformers", "spacy", "torch")
_TITLE = "Evaluation"
Section = dict[str, Any]
"""What the report says of one task: ``title``, ``lead``, and ``grids``, tables of ``title``, ``header`` and ``rows``,
whose cells are texts and measures: value and interval, whether it is the best, and whether it is worse than that."""


def evaluate_all(
    path: str | Path,
    out: str | Path,
    *,
    progress: Progress | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> list[Outcome]:
    """Run an evaluation file and write its report into a new folder, which appears whole.

    Raises:
        InputError: the file cannot be read.
        ConfigError: it cannot be run, or the folder is there or cannot be written.
    """
    if Path(out).exists() and (not Path(out).is_dir() or any(Path(out).iterdir())):
        raise ConfigError("the folder of the report is there", path=out, remedy="name a new one")
    suite = read_suite(path)
    # made first, so that a place that cannot be written is not found out at the end of hours
    with whole_folder(out, "the report") as folder:
        outcomes = run_suite(suite, progress, say)
        write_json(folder / "manifest.json", manifest(suite, outcomes), "the manifest")
        write_tables(folder, suite, outcomes, say)
    return outcomes


def write_tables(
    folder: Path, suite: Suite, outcomes: Sequence[Outcome], say: Callable[[str], object] = lambda _: None
) -> None:
    """Write tables, page and picture into a folder; ``say`` is called where there is no picture."""
    measured = compare(suite, outcomes)
    parts = list(_sections(suite, outcomes, measured))
    found = {"outcomes": [_plain(one) for one in outcomes], "measures": measured}
    write_json(folder / "report.json", _finite(found), "the report")
    for name, lines in (("report.csv", separated(measured, ",")), ("report.md", _markdown(parts))):
        with whole_text(folder / name, "the report") as file:
            file.writelines(lines)
    write_page(folder / "index.html", "evaluation", ("page.js",), _TITLE, [to_json(_finite(parts))])
    try:
        write_intervals(folder / "plot.svg", measured)
    except ConfigError as error:
        say(f"no picture: {error}")
    except Exception as error:  # whatever a library makes of a title, the tables stay
        say(f"no picture: {type(error).__name__}")


def _finite(value: Any) -> Any:
    """Plain data with ``None`` for NaN, which JSON does not have."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)


def _plain(one: Outcome) -> dict[str, Any]:
    report = None if one.report is None else one.report.to_dict()
    named = {"title": one.entry.title, "task": one.entry.task, "kind": one.kind, "system": one.system}
    return {**named, "error": one.error or None, "report": report}


def _sections(suite: Suite, outcomes: Sequence[Outcome], measured: Sequence[Row]) -> Iterator[Section]:
    """What the report says, task by task, then what failed."""
    for entry in suite.tasks:
        own = [(one.system, one.report) for one in outcomes if one.entry is entry and one.report is not None]
        values = [one for one in measured if one["title"] == entry.title]
        grids = [_compared(values)] if values else []
        tables: dict[str, list[Row]] = {}
        for system, report in own:
            for title, rows in {"All measures": report.table, **report.further}.items():
                tables.setdefault(title, []).extend({"system": system, **row} for row in rows)
        for title, rows in tables.items():
            header = list(dict.fromkeys(name for row in rows for name in row))
            cells = [[shown(row.get(name)) for name in header] for row in rows]
            grids += [{"title": title, "header": header, "rows": cells}] if rows else []
        heads = dict.fromkeys(report.head for _, report in own)
        yield {"title": entry.title, "lead": "; ".join([f"medlink evaluate {entry.task}", *heads]), "grids": grids}
    failed = [[one.entry.title, one.system, one.error] for one in outcomes if one.error]
    if failed:
        grid = {"title": "", "header": ["task", "system", "why"], "rows": failed}
        yield {"title": "Failed", "lead": "", "grids": [grid]}


def _compared(values: Sequence[Row]) -> dict[str, Any]:
    """The measures of a task: a row for each system and group, a column for each measure."""
    measures = list(dict.fromkeys(one["measure"] for one in values))
    rows = dict[Any, dict[Any, list[Any]]]()
    for one in values:
        worse = isinstance(one["p"], float) and one["p"] < CHANCE
        key = one["group"], one["system"], one["kind"], str(one["items"])
        cell = [one["value"], one["low"], one["high"], bool(one["best"]), worse]
        rows.setdefault(key, {})[one["measure"]] = cell
    cells = [[*head, *(own.get(measure, "-") for measure in measures)] for head, own in rows.items()]
    title = f"With 95 % intervals; * worse than the best, p < {CHANCE}"
    return {"title": title, "header": ["of", "system", "kind", "items", *measures], "rows": cells}


def _markdown(parts: Sequence[Section]) -> Iterator[str]:
    yield f"# {_TITLE}\n"
    for part in parts:
        yield f"\n## {_cell(part['title'])}\n"
        yield f"\n{_cell(part['lead'])}\n" if part["lead"] else ""
        for grid in part["grids"]:
            yield f"\n{grid['title']}:\n\n" if grid["title"] else "\n"
            yield f"| {' | '.join(map(_cell, grid['header']))} |\n|{'---|' * len(grid['header'])}\n"
            yield from (f"| {' | '.join(map(_cell, row))} |\n" for row in grid["rows"])
    yield "\nData, systems, versions, seed and machine: manifest.json.\n"


def _cell(cell: str | list[Any]) -> str:
    if isinstance(cell, str):
        return " ".join(cell.split()).replace("|", r"\|")
    value, low, high = (shown(number, none="nan") for number in cell[:3])
    best, worse = cell[3:]
    text = f"{value} [{low}, {high}]"
    return f"**{text}**" if best else f"{text}{' *' * worse}"


def manifest(suite: Suite, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """What the numbers depend on: hashes of data, dictionaries, encoders and indexes, versions, seed and machine."""
    versions = {"medlink": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = {"cores": len(os.sched_getaffinity(0)), "memory": f"{memory:.0f} GiB"}
    peers = {
        name: (peer.command, [Path(suite.place(word)) for word in peer.command]) for name, peer in suite.peers.items()
    }
    return {
        "evaluation": {"file": suite.path.name, "sha256": _digest(suite.path)},
        "seed": suite.seed,
        "resamples": suite.resamples,
        "inputs": {name: _digest(Path(suite.place(name))) for entry in suite.tasks for name in entry.inputs},
        "encoders": {name: _or_error(_encoder, suite.encoder(name)) for name in suite.encoders},
        "bundles": {name: _or_error(_bundle, suite.place(given)) for name, given in suite.bundles.items()},
        "peers": {
            name: {
                "command": list(words),
                "files": {word: _digest(path) for word, path in zip(words, paths, strict=True) if path.is_file()},
            }
            for name, (words, paths) in peers.items()
        },
        "versions": versions,
        "machine": {"platform": platform.platform(), **machine},
        "seconds": [[one.entry.title, one.system, round(one.seconds, 2)] for one in outcomes],
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _or_error(facts: Callable[[str], dict[str, Any]], given: str) -> dict[str, Any]:
    try:
        return {"path": given, **facts(given)}
    except Exception as error:  # a damaged model does not undo hours of work
        return {"path": given, "error": str(error) if isinstance(error, MedlinkError) else type(error).__name__}


def _encoder(given: str) -> dict[str, Any]:
    bare = Path(parted(given)[1])
    if bare.is_dir():
        return {"sha256": _digest(bare)}
    encoder = load_encoder(given)
    return {"fingerprint": encoder.fingerprint, "dimension": encoder.dimension}


def _bundle(given: str) -> dict[str, Any]:
    bundle = Bundle(given)
    return {**bundle.versions, "parts": {kind: part["folder"] for kind, part in bundle.manifest["parts"].items()}}


def _digest(path: Path) -> str | None:
    """SHA-256 of a file, or of the names and contents of those of a folder; ``None`` for what cannot be read."""
    try:
        if path.is_file():
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        files = [one for one in sorted(path.rglob("*")) if one.is_file()]
    except OSError:
        return None
    lines = [f"{one.relative_to(path)} {_digest(one)}\n".encode("utf-8", "surrogateescape") for one in files]
    return hashlib.sha256(b"".join(lines)).hexdigest() if path.is_dir() else None
