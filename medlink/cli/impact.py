"""``medlink impact``: list the links of notes that differ with a new release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from medlink.cli.options import PATH, Command, explicit_options, settings_options
from medlink.cli.output import ProgressBars, print_lines
from medlink.linking.options import LinkOptions


@click.command(cls=Command)
@click.argument("old", metavar="OLD_BUNDLE", type=PATH)
@click.argument("new", metavar="NEW_BUNDLE", type=PATH)
@click.argument("links", type=PATH)
@click.option(
    "-o", "--out", type=PATH,
    help="File for every link that is not the same, one a row: .tsv or .jsonl.",
)  # fmt: skip
@click.option("--report", type=PATH, help="HTML page of the changes.")
@settings_options(LinkOptions, exclude=("k", "language"))
def impact(old: Path, new: Path, links: Path, out: Path | None, report: Path | None, **options: Any) -> None:
    """Check the LINKS that 'medlink link' wrote with OLD_BUNDLE against NEW_BUNDLE, and say why they would differ.

    Links each mention that has a concept again. Reasons are: the concept was retired or merged, another concept ranks
    first, the name is now ambiguous, or nothing fits. Give the options with which the notes were linked. No note is
    read.
    """
    from medlink.curation.impact import check_links

    with ProgressBars() as bars:
        checked = check_links(
            old, new, links, out=out, report=report, progress=lambda done: bars.step("links", done, 0, " links"),
            **explicit_options(options, LinkOptions),
        )  # fmt: skip
    print_lines(checked.lines())
