"""``medlink map``: a list of local codes in, their maps out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from medlink.cli.options import PATH, columns, encoding, passed, settings_options
from medlink.cli.output import Bars
from medlink.files.escapes import visible
from medlink.mapping.options import SHAPES, Columns, MapOptions


@click.command()
@click.argument("bundle", type=PATH)
@click.argument("codes", type=PATH)
@click.option("-o", "--out", type=PATH, help="Output file  [default: standard output]")
@click.option(
    "--format", "shape", type=click.Choice(SHAPES),
    help="Format of the maps  [default: by the ending of --out: .jsonl, .sssom.tsv, else usagi]",
)  # fmt: skip
@settings_options(MapOptions)
@columns(Columns, code="codes", name="descriptions", frequency="frequencies", unit="units", language="languages")
@encoding("list")
@click.option("--before", type=PATH, help="Maps of an earlier release to carry over: a file of Usagi or OMOP.")
@click.option("--changes", type=PATH, help="File for what became of each such map: JSON lines if .jsonl, else TSV.")
def map(bundle: Path, codes: Path, out: Path | None, **options: Any) -> None:
    """Map the local CODES (CSV or TSV with a header, or a file of Usagi or OMOP) to the concepts of BUNDLE.

    Writes a work list, the most frequent code first: a proposed concept with its score, and other candidates. Decisions
    that a person made in a file of Usagi or OMOP stay as they are. A summary goes to standard error.
    """
    from medlink.mapping.run import map_codes

    with Bars() as bars:
        progress = None if out is None else lambda done, whole: bars.step("codes", done, whole, " codes")
        report = map_codes(bundle, codes, out=out, progress=progress, **passed(options, MapOptions))
        for line in report.lines():
            bars.say(visible(line))
