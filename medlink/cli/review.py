"""``medlink review``: a page for decisions about links, codes or clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from medlink.cli.options import PATH, PATH_OR_NAME, Command, note_field_options
from medlink.files.escapes import escape_controls
from medlink.files.problems import pluralize


@click.command(cls=Command)
@click.argument("bundle", type=PATH)
@click.argument("links", type=PATH)
@click.option("--notes", multiple=True, type=PATH_OR_NAME, help="Notes that were linked, as given to 'medlink link'.")
@click.option("-o", "--out", type=PATH, help="Table of the decisions, .tsv; an existing one is continued.")
@click.option("--report", type=PATH, help="Write the page as one HTML file; start no server.")
@click.option("--pairs", type=PATH, help="Write the decisions so far as training pairs, .tsv; start no server.")
@click.option("--gold", type=PATH, help="Write the decisions so far as annotated notes, .jsonl; start no server.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port of the server  [default: a free one]")
@note_field_options("JSONL field")
def review(
    bundle: Path, links: Path, out: Path | None, report: Path | None, pairs: Path | None, gold: Path | None,
    port: int, **notes: Any,
) -> None:  # fmt: skip
    """Review LINKS on a page: links of notes, codes of a list, or clusters, with the concepts of BUNDLE.

    Only this machine can open the page, until Ctrl-C. Each decision is saved at once in the table of --out, where a
    later review continues.
    """
    from medlink.curation.review import Review
    from medlink.web.server import until_stopped

    session = Review(bundle, links, decisions=out, **notes)
    for sentence in session.warnings():
        click.echo(escape_controls(sentence), err=True)
    if report is not None:
        session.write_page(report)
        click.echo(f"{escape_controls(str(report))}: the page, with the texts of the notes", err=True)
    if pairs is not None:
        click.echo(f"{escape_controls(str(pairs))}: {pluralize(session.write_pairs(pairs), 'pair')}", err=True)
    if gold is not None:
        click.echo(f"{escape_controls(str(gold))}: {pluralize(session.write_gold(gold), 'note')}", err=True)
    if report is None and pairs is None and gold is None:
        with until_stopped(), session.server(port) as server:
            click.echo(server.url)
            click.echo("open this address in a browser on this machine; Ctrl-C ends the review", err=True)
            server.serve_forever()
