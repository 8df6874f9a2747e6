"""``medlink cluster``: group a term list into concepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from medlink.cli.options import (
    OUTPUT,
    PATH,
    PATH_OR_INPUT,
    PATH_OR_NAME,
    Command,
    bad_share_option,
    column_options,
    encoding_option,
    pooling_option,
    settings_options,
    without_unset,
)
from medlink.cli.output import ProgressBars, is_terminal
from medlink.clustering import ClusterOptions, Columns
from medlink.clustering.clusters import Shape
from medlink.files.atomic import standard_output
from medlink.files.streams import standard_input
from medlink.linking.options import LinkOptions


@click.command(cls=Command)
@click.argument("terms", type=PATH_OR_INPUT)
@click.option("-o", "--out", type=OUTPUT, help="Output file  [default: standard output]")
@click.option(
    "--format", "shape", type=click.Choice(get_args(Shape)),
    help="A line for each term, a JSON object for each cluster, or groups to read  [default: by the ending of --out: "
    ".tsv, .xlsx, .jsonl or .txt; groups on a terminal, else tsv]",
)  # fmt: skip
@click.option(
    "--encoder", type=PATH_OR_NAME,
    help="'builtin', a model folder, or hf:NAME of the hub  [default: the bundle's, else builtin]",
)  # fmt: skip
@pooling_option("encoder")
@click.option("--bundle", type=PATH, help="Bundle with the known concepts.")
@settings_options(LinkOptions, exclude=LinkOptions.model_fields.keys() - {"prefer"})
@settings_options(ClusterOptions)
@column_options(Columns, term="terms in a table", frequency="frequencies", id="ids", language="languages")
@encoding_option("list")
@bad_share_option
@click.option("--report", type=PATH, help="HTML page to review the clusters.")
@click.option("--decisions", type=PATH, help="Apply the decisions saved by the page of --report.")
@click.option("--add-to", type=PATH, help="Bundle to extend by the accepted --decisions.")
def cluster(terms: str, out: Path | None, shape: Shape | None, **options: Any) -> None:
    """Group the terms of TERMS (one a line, a TSV, CSV or .xlsx with a header, or - for standard input) into concepts.

    With --bundle, each term is also linked: terms of one known concept are one cluster; any other cluster is NEW, with
    its nearest concepts and a proposed parent. A summary goes to standard error.
    """
    from medlink.curation import cluster_list

    stream = standard_input() if terms == "-" else None
    if shape is None and out is None:
        shape = "groups" if is_terminal() else "tsv"
    with ProgressBars() as bars:
        clustering = cluster_list(
            "standard input" if stream else terms, stream=stream, out=out, shape=shape, on_message=bars.say,
            progress=bars.step, **without_unset(options, ClusterOptions),
        )  # fmt: skip
    if out is None:
        # after the files: the reader may close the pipe at any line
        with standard_output("name a file with -o") as file:
            file.writelines(clustering.lines(shape or "tsv"))
