"""``medlink``: the entry point. Commands are imported on first use, so that ``medlink --help`` is fast."""

from __future__ import annotations

import errno
import importlib
import io
import logging
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

import click

from medlink import __version__
from medlink.cli.output import as_typed
from medlink.errors import MedlinkError, MissingLibraryError
from medlink.files.atomic import redirect_to_devnull
from medlink.files.escapes import escape_controls

# Help of each command, which is in the module of its name: listing commands imports none of them.
COMMANDS = {
    "cluster": "Group a term list into concepts, known and new.",
    "demo": "Build the demo bundle, link one note per language, write a page.",
    "evaluate": "Measure encoders, bundles and clusterings by published protocols.",
    "impact": "Say which links of notes a new release would code differently, and why.",
    "index": "Build the index of a bundle, add to it, or describe it.",
    "kb": "Build a knowledge base from release files, search it, show a concept.",
    "learn": "Learn the concepts of mentions from annotated notes.",
    "lexicon": "Show the lexicon of clinical words.",
    "link": "Link the notes of files, folders or standard input.",
    "map": "Map a list of local codes to concepts, as Usagi does by hand.",
    "review": "Review links, codes or clusters on a page, and keep the decisions.",
    "serve": "Link notes over HTTP, and on a page.",
    "train": "Train an encoder on the names of a knowledge base.",
}


class _LazyGroup(click.Group):
    """A group that imports the module of a command on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = cmd_name in COMMANDS
        return getattr(importlib.import_module(f"medlink.cli.{cmd_name}"), cmd_name) if known else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="medlink")
def app() -> None:
    """Map what clinicians write, in English, German and Spanish, to concepts of a terminology."""


def main(args: list[str] | None = None, **extra: Any) -> None:
    """Run the command line and exit; an error prints one line on standard error (docs/reference/exit-codes.md)."""
    words = sys.argv[1:] if args is None else args
    out: TextIO | None = sys.stdout
    if out is None:
        # without a stream, click would drop its output silently
        sys.stdout = out = io.StringIO()
        out.close()
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_MessageFormatter())
    for stream in (sys.stdout, sys.stderr):
        # UTF-8 in any locale, as in the files of -o
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    try:
        code = app.main(args=words, prog_name="medlink", standalone_mode=False, **extra)
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except MedlinkError as error:
        *_, command = _typed_commands(words)
        error.message, error.remedy = as_typed(error.message, command), as_typed(error.remedy or "", command)
        _exit_with(_with_relative_paths(str(error), words), 2 if isinstance(error, MissingLibraryError) else 1)
    except Exception as error:
        # click wraps an interrupt and the end of a file
        cause = error.__cause__ if isinstance(error, click.Abort) and error.__cause__ is not None else error
        _exit_with(*_explain(cause, words, out))


def _explain(error: BaseException, words: list[str], out: TextIO) -> tuple[str, int]:
    """Return the message and exit code of an error that is not a :class:`MedlinkError`."""
    if isinstance(error, KeyboardInterrupt):
        notes = getattr(error, "__notes__", [])
        return as_typed(" ".join(["interrupted." if notes else "interrupted", *notes])), 130
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        # errors of files are MedlinkErrors
        redirect_to_devnull(sys.stdout)
        return "standard output cannot be written: no space is left. Remedy: send it to a place with room.", 1
    if isinstance(error, ValueError) and out.closed:
        return "standard output is closed. Remedy: send it to a file, or to /dev/null.", 1
    broken = [word for word in words if word.encode(errors="replace").decode() != word]
    if isinstance(error, UnicodeEncodeError) and broken:
        return f"an argument is not UTF-8: {broken[0]!r}. Remedy: type it in UTF-8.", 1
    from medlink.cli.crash_report import report_crash

    names = [str(command.name) for command in _typed_commands(words)[1:]]
    return report_crash(error, " ".join(["medlink", *names])), 70


class _MessageFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return as_typed(super().format(record))


def _exit_with(message: str, code: int) -> NoReturn:
    click.echo(f"medlink: {escape_controls(message)}", err=True)
    sys.exit(code)


def _typed_commands(words: list[str]) -> list[click.Command]:
    """Return the commands among the words, from the outermost to the innermost."""
    commands: list[click.Command] = [app]
    for word in words:
        group = commands[-1]
        inner = group.get_command(click.Context(group), word) if isinstance(group, click.Group) else None
        if inner is None:
            break
        commands.append(inner)
    return commands


def _with_relative_paths(message: str, words: list[str]) -> str:
    """Make paths relative to the working folder, unless the user typed the full path."""
    with suppress(FileNotFoundError):  # the working folder was deleted
        here = f"{Path.cwd()}{os.sep}"
        if not any(here in word for word in words):
            return re.sub(rf"(?<![\w/.]){re.escape(here)}", "", message)
    return message
