"""``medlink map``: map a list of local codes to concepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from medlink.cli.options import (
    OUTPUT,
    PATH,
    Command,
    bad_share_option,
    column_options,
    encoding_option,
    settings_options,
    without_unset,
)
from medlink.cli.output import ProgressBars
from medlink.files.escapes import escape_controls
from medlink.mapping.options import SHAPES, Columns, MapOptions


@click.command(cls=Command)
@click.argument("bundle", type=PATH)
@click.argument("codes", type=PATH)
@click.option("-o", "--out", type=OUTPUT, help="Output file  [default: standard output]")
@click.option(
    "--format", "shape", type=click.Choice(SHAPES),
    help="Format of the maps  [default: by the ending of --out: .csv or .xlsx (usagi), .jsonl, .sssom.tsv]",
)  # fmt: skip
@settings_options(MapOptions)
@column_options(
    Columns, code="codes", name="descriptions", frequency="frequencies", unit="units", language="languages",
    concept="concepts that the list assigns",
)  # fmt: skip
@encoding_option("list")
@bad_share_option
@click.option(
    "--before",
    multiple=True,
    type=PATH,
    help="Decisions to carry over: maps of an earlier release (Usagi or OMOP), or a table of 'medlink review'; may be "
    "repeated: the last that decided about a code counts.",
)
@click.option("--changes", type=PATH, help="File for the result for each such map: .tsv, .jsonl or .xlsx.")
def map(bundle: Path, codes: Path, out: Path | None, **options: Any) -> None:
    """Map the local CODES (CSV, TSV or .xlsx with a header, or a file of Usagi or OMOP) to the concepts of BUNDLE.

    Writes a work list, the most frequent code first: a proposed concept with its score, and other candidates. Decisions
    that a person made in a file of Usagi or OMOP stay as they are. A summary goes to standard error.
    """
    from medlink.mapping.run import map_codes

    with ProgressBars() as bars:
        progress = None if out is None else lambda done, whole: bars.step("codes", done, whole, " codes")
        report = map_codes(bundle, codes, out=out, progress=progress, **without_unset(options, MapOptions))
        for line in report.lines():
            bars.say(escape_controls(line))
