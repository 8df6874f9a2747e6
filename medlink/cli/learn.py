"""``medlink learn``: annotated notes in, learned mentions out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medlink.cli.options import PATH, PATH_OR_NAME, given, settings_options
from medlink.cli.output import Bars
from medlink.files.escapes import visible
from medlink.files.problems import counted
from medlink.notes.options import LearnOptions

if TYPE_CHECKING:
    from medlink.notes.learning import LearnReport

_LEARNED = {
    "concept": "with a concept",
    "no concept": "without a concept",
    "no mention": "no mention",
    "undecided": "undecided",
}
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

    Everything that is to be found must be annotated: where nothing is, words of findings count as no mention.
    """
    from medlink.notes import learning

    settings = given(options, LearnOptions)
    with Bars() as bars:
        done = learning.learn(bundle, paths, out, progress=lambda n: bars.step("notes", n, 0, " notes"), **settings)
    click.echo(f"{counted(done.notes, 'note')}, {counted(done.mentions, 'mention')}{_read(done)}", err=True)
    learned = ", ".join(f"{done.learned[kind]:,} {text}" for kind, text in _LEARNED.items() if done.learned[kind])
    click.echo(f"{done.learned.total():,} learned: {learned}: {visible(str(out))}", err=True)
    if done.learned["no mention"]:
        click.echo("no mention is what stands where nothing is annotated: annotate everything to be found", err=True)
    if done.rare:
        click.echo(f"{done.rare:,} not learned, which too few notes have (--least-seen)", err=True)
    click.echo("the file holds words of these notes: keep it as you keep them", err=True)
    if done.left_out:
        kinds = ", ".join(f"{kind} ({files})" for kind, files in sorted(done.left_out.items()))
        click.echo(f"{counted(done.left_out.total(), 'file')} left out: {visible(kinds)}", err=True)
    for line in (*done.problems.left_out(), *done.problems.notes):
        click.echo(visible(line), err=True)


def _read(done: LearnReport) -> str:
    """What the annotated mentions were; the numbers add up to all of them."""
    parts = [
        f"{number:,} {what}"
        for number, what in (
            (done.counted, "counted"),
            (done.parted, "in several pieces"),
            (done.inside, "that are parts of words or have none"),
            (done.again, "at places that are annotated already"),
        )
        if number
    ]
    if done.unknown:
        # an annotator's remark is no id, and may be private
        named = [one for one in sorted(done.unknown) if _ID.fullmatch(one)][:_SHOWN]
        named += ["others"] * (len(done.unknown) > len(named))
        concepts = f"{counted(len(done.unknown), 'concept')} that the bundle does not have ({', '.join(named)})"
        parts.append(f"{done.unknown.total():,} of {concepts}")
    return f": {', '.join(parts)}" if parts else ""
