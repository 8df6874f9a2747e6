"""``medlink cluster``: a term list in, its clusters out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import click

from medlink.errors import ConfigError, InputError
from medlink.files.whole import check_targets, standard_output, whole_text

if TYPE_CHECKING:
    from medlink.clustering import Cluster, Clustering, Summary
    from medlink.curation.decisions import Decisions

_INPUT = "-"
_NEAR = 5  # terms of other clusters that the page shows for each cluster
COLUMNS = (
    "cluster", "term", "representative", "status", "concept_id", "concept_name", "score", "parent_id", "parent_name",
    "frequency", "language", "id", "similarity", "joined_to", "joined_by", "joined_score",
)  # fmt: skip
"""Columns of the TSV."""


@click.command()
@click.argument("terms")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Output file [default: standard output].")
@click.option(
    "--format", "shape", default="tsv", show_default=True, type=click.Choice(["tsv", "jsonl"]),
    help="A line for each term, or a JSON object for each cluster.",
)  # fmt: skip
@click.option("--encoder", help="'builtin', a model folder, or a hub model [default: the bundle's, else builtin].")
@click.option("--bundle", type=click.Path(path_type=Path), help="Bundle with the known concepts.")
@click.option("--threshold", type=click.FloatRange(0, 1, True, True), help="Cosine of two terms of one concept.")
@click.option("--neighbours", type=click.IntRange(min=1), help="Nearest terms of each term that are looked at.")
@click.option("--known-at", type=click.FloatRange(0, 1), help="Score that a known concept needs.")
@click.option("--column", help="Column of the terms in a table.")
@click.option("--frequency-column", help="Column of the frequencies.")
@click.option("--id-column", help="Column of the ids.")
@click.option("--language-column", help="Column of the languages.")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of the list, such as latin-1.")
@click.option("--report", type=click.Path(path_type=Path), help="HTML page to look through the clusters and decide.")
@click.option("--decisions", type=click.Path(path_type=Path), help="Apply the decisions saved by the page of --report.")
@click.option("--add-to", type=click.Path(path_type=Path), help="Bundle that takes in the accepted --decisions.")
def cluster(
    terms: str,
    out: Path | None,
    shape: str,
    encoder: str | None,
    bundle: Path | None,
    threshold: float | None,
    neighbours: int | None,
    known_at: float | None,
    column: str | None,
    frequency_column: str | None,
    id_column: str | None,
    language_column: str | None,
    encoding: str,
    report: Path | None,
    decisions: Path | None,
    add_to: Path | None,
) -> None:
    """Group the terms of TERMS (one a line, a TSV or CSV with a header, or - for standard input) into concepts.

    With --bundle each cluster is a known concept or NEW with its nearest concepts and a proposed parent. A summary goes
    to standard error.
    """
    from medlink.clustering import Columns, TermClusterer, read_terms
    from medlink.curation.applied import apply
    from medlink.curation.decisions import read_decisions
    from medlink.curation.page import write_report
    from medlink.models import load_encoder

    stream = _standard_input() if terms == _INPUT else None
    read_too = [path for path in (decisions, bundle, add_to, encoder) if path is not None]
    check_targets({"the output": out, "the page": report}, [_number(stream) if stream else terms, *read_too])
    if add_to is not None and decisions is None:
        raise ConfigError("--add-to needs --decisions", remedy="decide on the page of --report and save")
    if known_at is not None and bundle is None:
        raise ConfigError("--known-at needs --bundle", remedy="name a bundle, or leave --known-at out")
    options: dict[str, Any] = {"threshold": threshold, "neighbours": neighbours, "known_at": known_at}
    options = {name: value for name, value in options.items() if value is not None}
    decided = read_decisions(decisions) if decisions is not None else None
    if add_to is not None and decided is not None:
        _check_added(decided, add_to)
    used: Any = None
    if bundle is not None:
        options["linker"], options["parents"], used = _open(bundle)
    if encoder is not None or used is None:
        used = load_encoder(encoder or "builtin")
    with _bars() as bars:
        read = read_terms(
            "standard input" if terms == _INPUT else terms,
            stream=stream,
            columns=Columns(column, frequency_column, id_column, language_column),
            encoding=encoding,
            progress=bars.reading(0 if stream or not Path(terms).is_file() else Path(terms).stat().st_size),
        )
        for note in read.notes:
            click.echo(note, err=True)
        clusterer = TermClusterer(used, progress=bars.step, **options)
        found = clusterer.cluster(read, near=_NEAR if report is not None else 0)
    if decided is not None:
        applied = apply(found, decided, used)
        found = applied.clustering
        click.echo(
            f"{decisions}: {applied.decided:,} terms decided, {applied.rejected:,} of them rejected; "
            f"{applied.absent:,} terms of the file are not in the list",
            err=True,
        )
    if out is not None:
        with whole_text(out) as file:
            file.writelines(_rows(found, shape, bundle is not None))
    click.echo(_said(found.summary, bundle is not None), err=True)
    if report is not None:
        title = "standard input" if terms == _INPUT else Path(terms).name
        write_report(report, (one.to_dict() for one in found.clusters), title=title, summary=found.summary.to_dict())
        click.echo(f"{report}: the page", err=True)
    if add_to is not None and decisions is not None:
        _add(decisions, add_to)
    if out is None:
        # behind the files: who reads it may go away at any line
        with standard_output("name a file with -o") as file:
            file.writelines(_rows(found, shape, bundle is not None))


def _said(summary: Summary, judged: bool) -> str:
    """The summary for a reader."""
    return (
        f"{summary.terms:,} terms, {summary.clusters:,} clusters ({summary.single:,} of one term, the largest of "
        f"{summary.largest:,}); {summary.guarded:,} near pairs kept apart by guards, "
        f"{summary.abbreviations:,} abbreviations joined"
        + (f"; {summary.known:,} known, {summary.new:,} new, {summary.doubtful:,} doubtful" if judged else "")
    )


def _add(decisions: Path, bundle: Path) -> None:
    """Put what was accepted into a bundle."""
    from medlink.index import extend_bundle
    from medlink.kb import Input

    added = extend_bundle(bundle, [Input("table", decisions)])
    for given in added.kb.inputs:
        for line in given.lines():
            click.echo(line, err=True)
    click.echo(f"{bundle}: {added.kb.names:,} names and {added.kb.concepts:,} concepts added", err=True)


def _check_added(decided: Decisions, folder: Path) -> None:
    """Refuse before the work a bundle that cannot take anything in, and decisions that do not fit it."""
    from medlink.index import Bundle

    bundle = Bundle(folder)
    # it is needed in the end, and may be missing
    _ = bundle.encoder
    decided.check_accepted(lambda concept_id: bundle.kb.get(concept_id) is not None)


def _standard_input() -> BinaryIO:
    """The bytes of standard input."""
    # None where it was closed before Python began
    stdin: TextIO | None = sys.stdin
    if stdin is None:
        raise InputError("standard input is closed", remedy="name a file, or write to standard input")
    return stdin.buffer


def _number(stream: BinaryIO) -> int:
    """Number of an open file, -1 for a stream that is none."""
    with suppress(OSError):
        return stream.fileno()
    return -1


def _open(bundle: Path) -> tuple[Any, Callable[[str], list[tuple[str, str]]], Any]:
    """Linker, parents with their names, and encoder of a bundle."""
    from medlink.linking import Linker

    linker = Linker(bundle)

    @lru_cache(maxsize=100_000)
    def parents(concept_id: str) -> list[tuple[str, str]]:
        """Id and name of each parent."""
        ids = list(linker.kb.parents(concept_id))
        names = linker.kb.preferred_names(ids, None)
        return [(parent, names.get(parent, parent)) for parent in ids]

    return linker, parents, linker.bundle.encoder


def _cell(value: object) -> str:
    """A value as a cell: no tab, no line end, nothing for ``None``."""
    return "" if value is None else " ".join(str(value).split())


def _rows(found: Clustering, shape: str, judged: bool) -> Iterator[str]:
    """Lines of the output; without a bundle (``judged``) no cluster is known or new."""
    if shape == "jsonl":
        yield from (json.dumps(one.to_dict(), ensure_ascii=False) + "\n" for one in found.clusters)
        return
    yield "\t".join(COLUMNS) + "\n"
    for one in found.clusters:
        yield from _lines(one, judged)


def _lines(one: Cluster, judged: bool) -> Iterator[str]:
    """A line for each member; without a bundle no cluster is known or new."""
    head = {
        "cluster": one.number,
        "representative": one.representative,
        "status": one.status if judged else None,
        "concept_id": one.concept_id,
        "concept_name": one.concept_name,
        "score": one.score,
        "parent_id": one.parent_id,
        "parent_name": one.parent_name,
    }
    for member in one.members:
        row = {**head, **member.to_dict()}
        yield "\t".join(_cell(row[column]) for column in COLUMNS) + "\n"


class _Bars:
    """One progress bar for each step, none where standard error is no terminal."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._name = ""

    def reading(self, size: int) -> Callable[[int], object]:
        """A bar over the bytes of the input, and what moves it on."""
        from tqdm import tqdm

        self._bar = tqdm(desc="reading", total=size or None, unit="B", unit_scale=True, disable=None)
        moved: Callable[[int], object] = self._bar.update
        return moved

    def step(self, name: str, done: int, whole: int) -> None:
        """Show how far a step is; the first call of a step opens its bar."""
        from tqdm import tqdm

        if name != self._name:
            self.close()
            self._name = name
            self._bar = tqdm(desc=name, total=whole, unit_scale=True, disable=None)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """End the bar of the moment."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def _bars() -> Iterator[_Bars]:
    bars = _Bars()
    try:
        yield bars
    finally:
        bars.close()
