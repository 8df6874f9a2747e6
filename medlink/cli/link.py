"""``medlink link``: notes in, their mentions with concepts out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medlink.bundles.paths import MANIFEST
from medlink.cli.options import PATH, PATH_OR_INPUT, PATH_OR_NAME, note_fields, number, passed, settings_options
from medlink.cli.output import Bars, say
from medlink.errors import ConfigError
from medlink.files.escapes import visible
from medlink.files.problems import counted
from medlink.notes.options import NoteOptions, OutputOptions
from medlink.notes.reading import KINDS, Note, ending

if TYPE_CHECKING:
    from medlink.notes.link import Report

_UNREAD = 3  # exit code of a run that is whole but for notes that could not be read
_SHOWN = 5  # notes with a problem, and endings of files that were left out, that are named


@click.command()
@click.argument("bundle", type=PATH)
@click.argument("paths", nargs=-1, type=PATH_OR_INPUT)
@click.option(
    "-o", "--out", type=PATH_OR_NAME, help="Output: a file or folder, or a database  [default: standard output]"
)
@settings_options(OutputOptions)
@settings_options(NoteOptions)
@click.option("--sql", metavar="ADDRESS", help="Database with the notes, such as postgresql://USER@HOST/DATABASE.")
@click.option("--table", help="Table with the notes in the database of --sql, such as note or cdm.note.")
@click.option("--query", help="Query that returns the notes from the database of --sql.")
@note_fields("JSONL field or column")
@click.option("--failures", type=PATH, help="File for the notes that could not be linked, without their text.")
@number("--processes", 1, "Worker processes.", least=1, most=256)
@click.option("--resume", is_flag=True, help="Go on where a killed run with the same options stopped; needs --out.")
def link(
    bundle: Path, paths: tuple[str, ...], out: str | None, sql: str | None, table: str | None, query: str | None,
    **options: Any,
) -> None:  # fmt: skip
    """Link the notes in PATHS, or in a database, to the concepts of BUNDLE.

    PATHS are text files, JSON lines, CSV, TSV or Parquet, folders with them, or - for standard input. For each mention
    its note, character offsets, language, concept, score, and the hash of the bundle are written;
    docs/reference/notes.md lists the formats. The exit code is 3 if some notes could not be read.
    """
    from medlink.notes.database import SqlNotes
    from medlink.notes.link import link_notes

    if paths and sql:
        raise click.UsageError("PATHS and --sql cannot both be given.")
    if not paths and not sql:
        context = click.get_current_context()
        asked = next(one for one in context.command.params if one.name == "paths")
        raise click.MissingParameter(ctx=context, param=asked, param_hint="'PATHS...'")
    if (table or query) and not sql:
        raise ConfigError("--table and --query need a database", remedy="name it with --sql, or leave them out")
    with suppress(OSError):  # a name that is too long is found below
        others = [] if (bundle / MANIFEST).exists() else [path for path in paths if (Path(path) / MANIFEST).is_file()]
        if others:
            raise ConfigError(f"is no bundle, but {others[0]} looks like one", path=bundle, remedy="name it first")
    inputs = SqlNotes(sql, table, query) if sql else paths
    with Bars() as bars:
        # the bar appears with the first notes: no thread of it is there when workers are forked
        progress = None if out is None else lambda done, whole: bars.step("notes", done, whole, " notes")
        found = passed(options, NoteOptions, OutputOptions)
        report = link_notes(bundle, inputs, out=out, progress=progress, say=bars.say, **found)
    _tell(report, paths)
    if report.problems:
        click.get_current_context().exit(_UNREAD)


def _tell(report: Report, paths: tuple[str, ...]) -> None:
    """Say what was linked, what could not be read, and what was left out."""
    click.echo(
        f"{counted(report.notes, 'note')}, {counted(report.mentions, 'mention')}, {report.linked:,} linked"
        + (f", {counted(len(report.problems), 'note')} could not be read" if report.problems else "")
        + (f"; {counted(report.before, 'note')} of before" if report.before else ""),
        err=True,
    )
    for note in report.problems[:_SHOWN]:
        say(f"  {_place(note)}: {note.problem}")
    if len(report.problems) > _SHOWN:
        click.echo(f"  and {len(report.problems) - _SHOWN:,} more", err=True)
    for remedy in dict.fromkeys(note.remedy for note in report.problems if note.remedy):
        say(f"  remedy: {visible(remedy)}")
    if report.first_same_id is not None:
        has = "note has" if report.same_id == 1 else "notes have"
        click.echo(
            f"{report.same_id:,} {has} the id of an earlier note, the first: {_place(report.first_same_id)}; "
            "the output does not tell them apart",
            err=True,
        )
    unread = {note.note_id for note in report.problems}
    for path in dict.fromkeys(paths):
        if path not in unread and ending(path) not in ("", *KINDS) and Path(path).is_file():
            click.echo(f"{visible(path)}: taken for plain text, one note", err=True)
    if report.left_out:
        kinds = sorted(report.left_out.items(), key=lambda found: (-found[1], found[0]))
        named = [f"{kind} ({count})" if count > 1 else kind for kind, count in kinds]
        named[_SHOWN:] = ["others"] * (len(named) > _SHOWN)
        number = report.left_out.total()
        click.echo(f"{counted(number, 'file')} left out: {visible(', '.join(named))}", err=True)


def _place(note: Note) -> str:
    """Where a note is, and its id where that does not say so."""
    return visible(note.note_id if note.place in (None, note.note_id) else f"{note.place}: {note.note_id}")
