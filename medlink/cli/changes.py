"""What a new release changes, and taking it in: ``kb changes``, ``kb update``, ``index update``."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import click

from medlink.bundles.places import MANIFEST
from medlink.cli.options import PATH, graph_threads, json_output, show_progress
from medlink.cli.output import Bars, print_json
from medlink.cli.releases import inputs_of, release_options, some_inputs, under_options
from medlink.files.escapes import visible
from medlink.files.problems import counted

_out = click.option(
    "-o", "--out", type=PATH, help="File for every change, one a row: JSON lines if it ends in .jsonl, else TSV."
)


@click.command("changes")
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@_out
@json_output
def kb_changes(old: Path, new: Path, out: Path | None, as_json: bool) -> None:
    """Count what differs between the knowledge bases OLD and NEW, such as those of two releases.

    Concepts added, retired and merged; of those that stay, names added and removed, other preferred names, other
    parents, other semantic types.
    """
    from medlink.kb import compare_kbs

    report = compare_kbs(old, new, out)
    if as_json:
        print_json(report.to_dict())
    else:
        click.echo("\n".join(map(visible, report.lines())))


@click.command("update")
@click.argument("kb_path", metavar="KB", type=PATH)
@release_options
@under_options
@_out
@show_progress
@json_output
def kb_update(
    kb_path: Path,
    *,
    languages: list[str] | None,
    under: tuple[str, ...],
    not_under: tuple[str, ...],
    max_bad_share: float,
    out: Path | None,
    progress: bool | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Build the knowledge base KB anew from the files of a new release, and say what it changes.

    KB stays as it is until the new one is complete, and the old one is replaced by it. Of a bundle the new one waits
    in its folder until 'medlink index update' takes it in.
    """
    from medlink.kb import update_kb

    report, changes = update_kb(
        kb_path,
        some_inputs(given),
        changes=out,
        languages=languages,
        under=under,
        not_under=not_under,
        max_bad_share=max_bad_share,
        progress=progress,
    )
    if as_json:
        print_json({"build": report.to_dict(), "changes": changes.to_dict()})
    else:
        click.echo("\n".join(map(visible, (*report.lines(), *changes.lines()))))
    # beside JSON what else there is to say goes to standard error
    say = partial(click.echo, err=as_json)
    if (kb_path / MANIFEST).exists():
        from medlink.index.waiting import left_out

        if sentence := left_out(kb_path):
            say(visible(sentence))
        say(f"next: medlink index update {shlex.quote(str(kb_path))}")


@click.command("update")
@click.argument("bundle", type=PATH)
@release_options
@under_options
@graph_threads
@_out
def index_update(
    bundle: Path,
    *,
    languages: list[str] | None,
    under: tuple[str, ...],
    not_under: tuple[str, ...],
    max_bad_share: float,
    threads: int,
    out: Path | None,
    **given: Any,
) -> None:
    """Replace the knowledge base of BUNDLE by that of a new release; names that stay are not embedded again.

    Without files of a release the knowledge base that 'medlink kb update' or 'medlink kb build' wrote into the folder
    is taken in.
    """
    from medlink.index import update_bundle

    said = list[str]()
    with Bars() as bars:
        report = update_bundle(
            bundle,
            inputs_of(given),
            changes=out,
            languages=languages,
            under=under,
            not_under=not_under,
            max_bad_share=max_bad_share,
            threads=threads,
            progress=bars.step,
            say=said.append,
        )
    lines = [] if report.kb is None else [line for found in report.kb.inputs for line in found.lines()]
    click.echo("\n".join(map(visible, (*lines, *report.changes.lines()))))
    click.echo(
        visible(f"{report.path}: {counted(report.names, 'distinct name')}, {report.embedded:,} of them embedded")
    )
    for sentence in said:
        click.echo(visible(sentence))
