"""``medlink index``: build the index of a bundle, add to it, update, describe and verify it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from medlink.cli.options import PATH, PATH_OR_NAME, Commands, Size, graph_threads, lexicon_folders, pooling
from medlink.cli.output import Bars, as_typed, say
from medlink.cli.release_options import changes_out, inputs_of, max_bad_share, release_options
from medlink.errors import InputError
from medlink.files.escapes import visible
from medlink.files.problems import counted

_SHOWN = 5  # words of a house that are shown


@click.group(cls=Commands)
def index() -> None:
    """Build the index of a bundle, add to it, describe it, or verify it."""


@index.command("build")
@click.argument("bundle", type=PATH)
@click.option(
    "--kb", type=PATH,
    help="Knowledge base to copy in [default: BUNDLE/kb.sqlite where there is one, else the bundle's own].",
)  # fmt: skip
@click.option(
    "--encoder", type=PATH_OR_NAME,
    help="'builtin', a model folder, or hf:NAME of the hub [default: the bundle's own, else builtin].",
)  # fmt: skip
@pooling("encoder")
@click.option("--kind", help="Kind of index: flat, hnsw, ivf or ivfpq [default: chosen by size and memory].")
@click.option(
    "--memory", type=Size(),
    help="Memory that the vectors of all names may take, such as 500M or 2G; a kind that fits is chosen.",
)  # fmt: skip
@graph_threads
@lexicon_folders
def build(bundle: Path, folders: tuple[Path, ...], **options: Any) -> None:
    """Build encoder and index of BUNDLE from its knowledge base, or renew them."""
    from medlink.index import build_bundle
    from medlink.linking.ranking import default_join

    join, said = default_join().to_dict(), list[str]()
    with Bars() as bars:
        built = build_bundle(bundle, calibration=join, lexicon=folders, progress=bars.step, say=said.append, **options)
    facts = built.index.manifest
    click.echo(
        f"{bundle}: {counted(facts['names'], 'name')} of {counted(facts['concepts'], 'concept')}, "
        f"{facts['rows']:,} distinct, {facts['kind']} index of {facts['dimension']} dimensions"
    )
    for own in built.manifest["lexicon"]:
        shown, more = own["words"][:_SHOWN], ", ..." * (len(own["words"]) > _SHOWN)
        click.echo(visible(f"with words of {own['folder']}, {counted(own['rows'], 'row')}: {', '.join(shown)}{more}"))
    for sentence in said:
        click.echo(visible(as_typed(sentence)))


@index.command("add")
@click.argument("bundle", type=PATH)
@click.option(
    "--table", "tables", multiple=True, required=True, type=PATH,
    help="Table of your own to take in, as for 'medlink kb build'. May be repeated.",
)  # fmt: skip
@max_bad_share
def add(bundle: Path, tables: tuple[Path, ...], max_bad_share: float) -> None:
    """Add concepts, and further names of known ones, to BUNDLE; what is there is not built again."""
    from medlink.index import extend_bundle
    from medlink.kb import Input

    for table in tables:
        # what can be read only once will not do: a table is opened for its header, and again for its rows
        if (table.exists() or str(table) == "-") and not (table.is_file() or table.is_dir()):
            where = "standard input" if str(table) == "-" else table
            raise InputError("a table is read from a file alone", path=where, remedy="save it in a file and name that")
    inputs = [Input("table", table) for table in tables]
    with Bars() as bars:
        report = extend_bundle(bundle, inputs, max_bad_share=max_bad_share, progress=bars.step)
    for given in report.kb.inputs:
        for line in given.lines():
            click.echo(line)
    click.echo(
        f"{report.path}: {counted(report.kb.names, 'name')} and {counted(report.kb.concepts, 'concept')} added; "
        f"the index has {counted(report.names, 'name')}, {report.added:,} of them since it was built"
    )


@index.command("info")
@click.argument("bundle", type=PATH)
def info(bundle: Path) -> None:
    """Print what BUNDLE is made of, as JSON; opening it checks that its parts belong together."""
    from medlink.index import Bundle
    from medlink.index.bundle import waiting_kb

    opened = Bundle(bundle)
    told = {part: opened.manifest.get(part, []) for part in ("lexicon", "doubted")}
    about = {**opened.versions, "index": opened.index.manifest, **told, "shared_names": opened.index.shared_names()}
    if waiting := waiting_kb(bundle):
        about["waiting"] = f"{waiting} is not in the bundle until 'medlink index build {bundle}'"
    click.echo(json.dumps(about, indent=2, sort_keys=True))


@index.command("verify")
@click.argument("bundle", type=PATH)
def verify(bundle: Path) -> None:
    """Compare every file of BUNDLE with the hash that was written down for it, and say what is damaged.

    All files are read. Files that were copied without their times are slow to open until they are verified.
    """
    from medlink.index.bundle import verify_bundle

    damaged, found = verify_bundle(bundle)
    for error in damaged[:-1]:
        say(f"medlink: {error}")
    if damaged:
        raise damaged[-1]
    click.echo(
        f"{bundle}: {counted(found['files'], 'file')}, {counted(found['bytes'], 'byte')}, all as they were written"
    )


@index.command("update")
@click.argument("bundle", type=PATH)
@release_options
@graph_threads
@changes_out
def update(bundle: Path, out: Path | None, **given: Any) -> None:
    """Replace the knowledge base of BUNDLE by that of a new release; names that stay are not embedded again.

    Without files of a release the knowledge base that 'medlink kb update' or 'medlink kb build' wrote into the folder
    is taken in.
    """
    from medlink.index import update_bundle

    said = list[str]()
    with Bars() as bars:
        report = update_bundle(bundle, inputs_of(given), changes=out, progress=bars.step, say=said.append, **given)
    lines = [] if report.kb is None else [line for found in report.kb.inputs for line in found.lines()]
    click.echo("\n".join(map(visible, (*lines, *report.changes.lines()))))
    click.echo(
        visible(f"{report.path}: {counted(report.names, 'distinct name')}, {report.embedded:,} of them embedded")
    )
    for sentence in said:
        click.echo(visible(as_typed(sentence)))
