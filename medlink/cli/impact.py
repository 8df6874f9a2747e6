"""``medlink impact``: which links of notes a new release would code differently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from medlink.cli.options import PATH, given, settings_options
from medlink.cli.output import Bars
from medlink.files.escapes import visible
from medlink.linking.options import LinkOptions


@click.command()
@click.argument("old", metavar="OLD_BUNDLE", type=PATH)
@click.argument("new", metavar="NEW_BUNDLE", type=PATH)
@click.argument("links", type=PATH)
@click.option(
    "-o", "--out", type=PATH,
    help="File for every link that is not the same, one a row: JSON lines if it ends in .jsonl, else TSV.",
)  # fmt: skip
@click.option("--report", type=PATH, help="HTML page of the changes.")
@settings_options(LinkOptions, leave_out=("k", "language"))
def impact(old: Path, new: Path, links: Path, out: Path | None, report: Path | None, **options: Any) -> None:
    """Check the LINKS that 'medlink link' wrote with OLD_BUNDLE against NEW_BUNDLE, and say why they would differ.

    Each mention that has a concept is linked again: the concept was retired or merged, another one comes first, the
    name is ambiguous now, or nothing fits. Give the options with which the notes were linked. No note is read.
    """
    from medlink.curation.impact import check_links

    with Bars() as bars:
        found = check_links(
            old,
            new,
            links,
            out=out,
            report=report,
            progress=lambda done: bars.step("links", done, 0, " links"),
            **given(options, LinkOptions),
        )
    click.echo("\n".join(map(visible, found.lines())))
