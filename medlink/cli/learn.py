"""``medlink learn``: learn mentions from annotated notes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medlink.cli.options import PATH, PATH_OR_NAME, Command, explicit_options, settings_options
from medlink.cli.output import ProgressBars, print_lines
from medlink.files.problems import pluralize
from medlink.notes.options import LearnOptions

if TYPE_CHECKING:
    from medlink.notes.learning import LearnReport

_OUTCOMES = {
    "concept": "with a concept", "no concept": "without a concept", "no mention": "no mention",
    "undecided": "undecided",
}  # fmt: skip
_MAX_IDS = 5  # unknown concepts in the report
_ID = re.compile(r"(?:[A-Za-z]{1,20}[:_]?)?[A-Za-z]?[0-9]{4,}")


@click.command(cls=Command)
@click.argument("bundle", type=PATH)
@click.argument("paths", nargs=-1, required=True, type=PATH_OR_NAME)
@click.option("-o", "--out", required=True, type=PATH, help="File of the learned mentions, .jsonl.")
@settings_options(LearnOptions)
def learn(bundle: Path, paths: tuple[str, ...], out: Path, **options: Any) -> None:
    """Learn the concepts of mentions from annotated notes, for 'medlink link BUNDLE --learned FILE'.

    PATHS are brat standoff (.ann with its .txt), PubTator, reviewed links of 'medlink link', files of learned mentions,
    or folders with these. The output contains words of the notes.

    Annotate every finding: unannotated words count as no mention.
    """
    from medlink.notes import learning

    settings = explicit_options(options, LearnOptions)
    with ProgressBars() as bars:
        done = learning.learn(bundle, paths, out, progress=lambda n: bars.step("notes", n, 0, " notes"), **settings)
    print_lines(_lines(done, out), err=True)


def _lines(done: LearnReport, out: Path) -> Iterator[str]:
    yield f"{pluralize(done.notes, 'note')}, {pluralize(done.mentions, 'mention')}{_mention_counts(done)}"
    learned = ", ".join(f"{done.learned[kind]:,} {text}" for kind, text in _OUTCOMES.items() if done.learned[kind])
    yield f"{done.learned.total():,} learned: {learned}: {out}"
    if done.learned["no mention"]:
        yield "words that are not annotated count as no mention: annotate every finding"
    if done.rare:
        yield f"{done.rare:,} not learned, which too few notes have (--least-seen)"
    yield "the file holds words of these notes: keep it as you keep them"
    if done.left_out:
        kinds = ", ".join(f"{kind} ({files})" for kind, files in sorted(done.left_out.items()))
        yield f"{pluralize(done.left_out.total(), 'file')} left out: {kinds}"
    yield from done.problems.summary_lines()
    yield from done.problems.notes


def _mention_counts(done: LearnReport) -> str:
    counts = {
        "counted": done.counted, "in several pieces": done.discontinuous,
        "that are parts of words or have none": done.partial_words,
        "at places that are annotated already": done.duplicates,
    }  # fmt: skip
    parts = [f"{number:,} {what}" for what, number in counts.items() if number]
    if done.unknown:
        # a remark of an annotator may be private
        named = [concept_id for concept_id in sorted(done.unknown) if _ID.fullmatch(concept_id)][:_MAX_IDS]
        named += ["others"] * (len(done.unknown) > len(named))
        concepts = f"{pluralize(len(done.unknown), 'concept')} that the bundle does not have ({', '.join(named)})"
        parts.append(f"{done.unknown.total():,} of {concepts}")
    return f": {', '.join(parts)}" if parts else ""
