"""``medlink index``: build the index of a bundle, add to it, update, describe and verify it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from medlink.cli.options import (
    PATH,
    PATH_OR_NAME,
    ByteSize,
    Commands,
    bad_share_option,
    lexicon_option,
    pooling_option,
    threads_option,
)
from medlink.cli.output import ProgressBars, as_typed, print_lines, say
from medlink.cli.release_options import (
    allow_loss_option,
    changes_option,
    detect_inputs,
    files_argument,
    pop_inputs,
    release_options,
)
from medlink.errors import InputError
from medlink.files.escapes import escape_controls
from medlink.files.problems import pluralize
from medlink.kb.readers import formats

_MAX_WORDS = 5  # of a lexicon folder


@click.group(cls=Commands)
def index() -> None:
    """Build the index of a bundle, add to it, describe it, or verify it."""


@index.command("build")
@click.argument("bundle", type=PATH)
@click.option(
    "--kb", type=PATH,
    help="Knowledge base to copy in [default: BUNDLE/kb.sqlite if it exists, else the bundle's own].",
)  # fmt: skip
@click.option(
    "--encoder", type=PATH_OR_NAME,
    help="'builtin', a model folder, or hf:NAME of the hub [default: the bundle's own, else builtin].",
)  # fmt: skip
@pooling_option("encoder")
@click.option("--kind", help="Kind of index: flat, hnsw or ivfpq [default: chosen by size and memory].")
@click.option(
    "--memory", type=ByteSize(),
    help="Memory that the vectors of all names may take, such as 500M or 2G; a kind that fits is chosen.",
)  # fmt: skip
@threads_option
@lexicon_option
def build(bundle: Path, folders: tuple[Path, ...], **options: Any) -> None:
    """Build encoder and index of BUNDLE from its knowledge base, or renew them."""
    from medlink.index import build_bundle
    from medlink.linking.ranking import default_ranker

    join, notes = default_ranker().to_dict(), list[str]()
    with ProgressBars() as bars:
        built = build_bundle(
            bundle, calibration=join, lexicon=folders, progress=bars.step, on_message=notes.append, **options
        )
    facts = built.index.manifest
    click.echo(
        f"{bundle}: {pluralize(facts['names'], 'name')} of {pluralize(facts['concepts'], 'concept')}, "
        f"{facts['rows']:,} distinct, {facts['kind']} index of {facts['dimension']} dimensions"
    )
    for own in built.manifest["lexicon"]:
        words = ", ".join(own["words"][:_MAX_WORDS]) + ", ..." * (len(own["words"]) > _MAX_WORDS)
        click.echo(escape_controls(f"with words of {own['folder']}, {pluralize(own['rows'], 'row')}: {words}"))
    print_lines(map(as_typed, notes))


@index.command("add")
@click.argument("bundle", type=PATH)
@click.argument("paths", metavar="[TABLE]...", nargs=-1, type=PATH)
@click.option(
    "--table", "tables", multiple=True, type=PATH,
    help="Table of your own to take in, as for 'medlink kb build'. May be repeated.",
)  # fmt: skip
@bad_share_option
def add(bundle: Path, paths: tuple[Path, ...], tables: tuple[Path, ...], max_bad_share: float) -> None:
    """Add concepts, and further names of known concepts, to BUNDLE without building it again.

    Each TABLE is a table of your own or of decisions. A release of a terminology is refused.
    """
    from medlink.index import extend_bundle
    from medlink.kb import Input

    detected = list(detect_inputs(paths, lambda line: None))
    for name, path in detected:
        if name != "table":
            remedy = "build the bundle again with its release, or give update_bundle() all files of the new one"
            raise InputError(f"is not a table of your own, but {formats()[name].option}", path=path, remedy=remedy)
    tables = (*(path for _, path in detected), *tables)
    if not tables:
        raise click.UsageError("Missing argument '[TABLE]...'. Name a table of your own.")
    for table in tables:
        # a pipe can be read only once, and a table is opened for its header and again for its rows
        if (table.exists() or str(table) == "-") and not (table.is_file() or table.is_dir()):
            where = "standard input" if str(table) == "-" else table
            raise InputError("a table is read from a file alone", path=where, remedy="save it in a file and name that")
    inputs = [Input("table", table) for table in tables]
    with ProgressBars() as bars:
        report = extend_bundle(bundle, inputs, max_bad_share=max_bad_share, progress=bars.step)
    for given in report.kb.inputs:
        for line in given.lines():
            click.echo(line)
    click.echo(
        f"{report.path}: {pluralize(report.kb.names, 'name')} and {pluralize(report.kb.concepts, 'concept')} added; "
        f"the index has {pluralize(report.names, 'name')}, {report.added:,} of them since it was built"
    )


@index.command("info")
@click.argument("bundle", type=PATH)
def info(bundle: Path) -> None:
    """Describe BUNDLE as JSON; opening it checks that its parts belong together."""
    from medlink.index import Bundle
    from medlink.index.bundle import find_pending_kb

    opened = Bundle(bundle)
    parts = {part: opened.manifest.get(part, []) for part in ("lexicon", "doubted")}
    about = {**opened.versions, "index": opened.index.manifest, **parts, "shared_names": opened.index.shared_names()}
    if waiting := find_pending_kb(bundle):
        about["waiting"] = f"{waiting} is not in the bundle until 'medlink index build {bundle}'"
    click.echo(json.dumps(about, indent=2, sort_keys=True))


@index.command("verify")
@click.argument("bundle", type=PATH)
def verify(bundle: Path) -> None:
    """Compare every file of BUNDLE with its stored hash, and name damaged files.

    Reads all files. Files that were copied without their times are slow to open until they are verified.
    """
    from medlink.index.bundle import verify_bundle

    damaged, read = verify_bundle(bundle)
    for error in damaged[:-1]:
        say(f"medlink: {error}")
    if damaged:
        raise damaged[-1]
    click.echo(
        f"{bundle}: {pluralize(read['files'], 'file')}, {pluralize(read['bytes'], 'byte')}, all as they were written"
    )


@index.command("update")
@click.argument("bundle", type=PATH)
@files_argument
@release_options
@allow_loss_option
@threads_option
@changes_option
def update(bundle: Path, paths: tuple[Path, ...], out: Path | None, **given: Any) -> None:
    """Replace the knowledge base of BUNDLE with a new release; embed only new names.

    Detects the format of each FOLDER_OR_FILE; the options below name it. Without files of a release, uses the knowledge
    base that 'medlink kb update' or 'medlink kb build' wrote into the folder.
    """
    from medlink.index import update_bundle

    messages = list[str]()
    with ProgressBars() as bars:
        report = update_bundle(
            bundle, pop_inputs(given, paths), changes=out, progress=bars.step, on_message=messages.append, **given
        )
    lines = [] if report.kb is None else [line for input_report in report.kb.inputs for line in input_report.lines()]
    embedded = f"{report.path}: {pluralize(report.names, 'distinct name')}, {report.embedded:,} of them embedded"
    print_lines((*lines, *report.changes.lines(), embedded, *map(as_typed, messages)))
