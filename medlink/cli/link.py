"""``medlink link``: link the mentions of notes to concepts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from medlink.bundles.paths import MANIFEST
from medlink.cli.options import (
    OUTPUT_OR_NAME,
    PATH,
    PATH_OR_INPUT,
    Command,
    integer_option,
    make_settings,
    note_field_options,
    settings_options,
    without_unset,
)
from medlink.cli.output import ProgressBars, as_typed, is_terminal, print_lines
from medlink.errors import ConfigError
from medlink.files.problems import pluralize
from medlink.notes.options import NoteOptions, OutputOptions
from medlink.notes.reading import NOTE_SUFFIXES, Note, file_suffix

if TYPE_CHECKING:
    from medlink.notes.link import Report

_MAX_LISTED = 5  # problems, and endings of files left out


@click.command(cls=Command)
@click.argument("bundle", type=PATH)
@click.argument("paths", nargs=-1, type=PATH_OR_INPUT)
@click.option(
    "-o", "--out", type=OUTPUT_OR_NAME, help="Output: a file or folder, or a database  [default: standard output]"
)
@settings_options(OutputOptions)
@settings_options(NoteOptions)
@click.option("--sql", metavar="ADDRESS", help="Database with the notes, such as postgresql://USER@HOST/DATABASE.")
@click.option("--table", help="Table with the notes in the database of --sql, such as note or cdm.note.")
@click.option("--query", help="Query that returns the notes from the database of --sql.")
@note_field_options("JSONL field or column")
@click.option("--date-field", default="", help="JSONL field or column with the date of the note, such as 2026-11-30.")
@click.option("--failures", type=PATH, help="File for the notes that could not be linked, without their text.")
@integer_option("--processes", 1, "Worker processes.", minimum=1, maximum=256)
@click.option(
    "--page", type=PATH, help="Page of the linked notes, .html; it has their texts, and they fit into memory."
)
@click.option("--resume", is_flag=True, help="Resume a killed run with the same options; needs --out.")
def link(
    bundle: Path, paths: tuple[str, ...], out: str | None, sql: str | None, table: str | None, query: str | None,
    page: Path | None, failures: Path | None, **options: Any,
) -> None:  # fmt: skip
    """Link the notes in PATHS, or in a database, to the concepts of BUNDLE.

    PATHS are text files, JSON lines, CSV, TSV or Parquet, folders with them, or - for standard input. Writes the note,
    character offsets, language, concept and score of each mention, and the hash of the bundle; docs/reference/notes.md
    lists the formats. On a terminal, prints the notes with their findings as readable text. The exit code is 3 if some
    notes could not be read.
    """
    from medlink.curation.note_page import PageWriter
    from medlink.index import Bundle
    from medlink.notes.database import SqlNotes
    from medlink.notes.link import link_notes
    from medlink.notes.writers import Failures, Writer, create_writer

    class TypedFailures(Failures):
        def add(self, number: int, note: Note) -> None:
            super().add(number, replace(note, remedy=note.remedy and as_typed(note.remedy)))

    if paths and sql:
        raise click.UsageError("PATHS and --sql cannot both be given.")
    if not paths and not sql:
        message = "Missing argument 'PATHS...'. Name files or folders, or - for standard input."
        raise click.UsageError(message, click.get_current_context())
    if (table or query) and not sql:
        raise ConfigError("--table and --query need a database", remedy="name it with --sql, or leave them out")
    with suppress(OSError):  # link_notes refuses a name that is too long
        others = [] if (bundle / MANIFEST).exists() else [path for path in paths if (Path(path) / MANIFEST).is_file()]
        if others:
            raise ConfigError("is not a bundle", path=bundle, remedy=f"name {others[0]} first")
    inputs = SqlNotes(sql, table, query) if sql else paths
    with ProgressBars() as bars:
        # the bar, which has a thread, appears with the first notes, after workers are forked
        progress = None if out is None else lambda done, whole: bars.step("notes", done, whole, " notes")
        given = without_unset(options, NoteOptions, OutputOptions)
        if out is None and is_terminal():
            given.setdefault("format", "text")
        opened: Path | Bundle = bundle
        sink: str | Writer | None = out
        if page is not None:
            opened = Bundle(bundle)
            title = Path(paths[0]).name if len(paths) == 1 else pluralize(len(paths), "input")
            sink = PageWriter(create_writer(out, make_settings(OutputOptions, given)), page, opened.kb, title=title)
        failed = None if failures is None else TypedFailures(failures)
        report = link_notes(opened, inputs, out=sink, failures=failed, progress=progress, on_message=bars.say, **given)
    if not report.finished:
        print_lines(_report_lines(report, paths), err=True)
    if report.problems:
        click.get_current_context().exit(3)


def _report_lines(report: Report, paths: tuple[str, ...]) -> Iterator[str]:
    yield (
        f"{pluralize(report.notes, 'note')}, {pluralize(report.mentions, 'mention')}, {report.linked:,} linked"
        + (f", {pluralize(len(report.problems), 'note')} could not be read" if report.problems else "")
        + (f"; {pluralize(report.already_done, 'note')} of before" if report.already_done else "")
    )
    for note in report.problems[:_MAX_LISTED]:
        yield as_typed(f"  {_location(note)}: {note.problem}")
    if len(report.problems) > _MAX_LISTED:
        yield f"  and {len(report.problems) - _MAX_LISTED:,} more"
    for remedy in dict.fromkeys(note.remedy for note in report.problems if note.remedy):
        yield as_typed(f"  remedy: {remedy}")
    if report.first_duplicate is not None:
        verb = "note has" if report.duplicate_ids == 1 else "notes have"
        first = f"the first: {_location(report.first_duplicate)}; the output does not tell them apart"
        yield f"{report.duplicate_ids:,} {verb} the id of an earlier note, {first}"
    unread = {note.note_id for note in report.problems}
    for path in dict.fromkeys(paths):
        if path not in unread and file_suffix(path) not in ("", *NOTE_SUFFIXES) and Path(path).is_file():
            yield f"{path}: taken for plain text, one note"
    if report.left_out:
        kinds = sorted(report.left_out.items(), key=lambda item: (-item[1], item[0]))
        named = [f"{kind} ({count})" if count > 1 else kind for kind, count in kinds]
        named[_MAX_LISTED:] = ["others"] * (len(named) > _MAX_LISTED)
        yield f"{pluralize(report.left_out.total(), 'file')} left out: {', '.join(named)}"


def _location(note: Note) -> str:
    return note.note_id if note.location in (None, note.note_id) else f"{note.location}: {note.note_id}"
