"""``medlink learn``: annotated notes in, learned mentions out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from medlink.cli.options import PATH, PATH_OR_NAME, given, settings_options
from medlink.cli.output import Bars
from medlink.files.escapes import visible
from medlink.files.problems import counted
from medlink.notes.options import LearnOptions

_SHOWN = 5  # concepts that are named
_ID = re.compile(r"(?:[A-Za-z]{1,20}[:_]?)?[A-Za-z]?[0-9]{4,}")


@click.command()
@click.argument("bundle", type=PATH)
@click.argument("paths", nargs=-1, required=True, type=PATH_OR_NAME)
@click.option("-o", "--out", required=True, type=PATH, help="File of the learned mentions, .jsonl.")
@settings_options(LearnOptions)
def learn(bundle: Path, paths: tuple[str, ...], out: Path, **options: Any) -> None:
    """Learn what the mentions of annotated notes are, for 'medlink link BUNDLE --learned FILE'.

    PATHS are brat standoff (.ann with its .txt), PubTator, links of 'medlink link' that a reader looked through, files
    that were learned before, or folders with these. What is written holds words of the notes.
    """
    from medlink.notes import learning

    settings = given(options, LearnOptions)
    with Bars() as bars:
        done = learning.learn(bundle, paths, out, progress=lambda n: bars.step("notes", n, 0, " notes"), **settings)
    notes, mentions = counted(done.notes, "note"), counted(done.mentions, "mention")
    click.echo(f"{notes}, {mentions}, {done.entries:,} learned: {visible(str(out))}", err=True)
    click.echo("it holds words of these notes: keep it as you keep them", err=True)
    for number, why in (
        (done.rare, "that too few notes have (--least-seen)"),
        (done.parted, "in several pieces"),
        (done.inside, "that are parts of words"),
    ):
        if number:
            click.echo(f"{counted(number, 'mention')} left out {why}", err=True)
    if done.unknown:
        # an annotator's remark is no id, and may be private
        named = [one for one in sorted(done.unknown) if _ID.fullmatch(one)][:_SHOWN]
        named += ["others"] * (len(done.unknown) > len(named))
        left_out = f"{counted(done.unknown.total(), 'mention')} left out of {counted(len(done.unknown), 'concept')}"
        click.echo(f"{left_out} that the bundle does not have: {', '.join(named)}", err=True)
    if done.left_out:
        kinds = ", ".join(f"{kind} ({files})" for kind, files in sorted(done.left_out.items()))
        click.echo(f"{counted(done.left_out.total(), 'file')} left out: {visible(kinds)}", err=True)
    for line in (*done.problems.left_out(), *done.problems.notes):
        click.echo(visible(line), err=True)
