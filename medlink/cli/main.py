"""``medlink``: the entry point. Groups are imported when they are used, so ``medlink --help`` stays quick."""

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
from medlink.errors import MedlinkError
from medlink.files.atomic import turn_away
from medlink.files.escapes import visible

# command -> (module, one-line help): the help stands here so that listing commands imports none of them.
COMMANDS: dict[str, tuple[str, str]] = {
    "cluster": ("medlink.cli.cluster", "Group a term list into concepts, known and new."),
    "demo": ("medlink.cli.demo", "Build the demo bundle, link one note per language, write a page."),
    "evaluate": ("medlink.cli.evaluate", "Measure encoders, bundles and clusterings by published protocols."),
    "impact": ("medlink.cli.impact", "Say which links of notes a new release would code differently, and why."),
    "index": ("medlink.cli.index", "Build the index of a bundle, add to it, or describe it."),
    "kb": ("medlink.cli.kb", "Build a knowledge base from release files, search it, show a concept."),
    "learn": ("medlink.cli.learn", "Learn from annotated notes what their mentions are."),
    "lexicon": ("medlink.cli.lexicon", "Show what medlink knows of the words of clinicians."),
    "link": ("medlink.cli.link", "Link the notes of files, folders or standard input."),
    "map": ("medlink.cli.map", "Map a list of local codes to concepts, as Usagi does by hand."),
    "review": ("medlink.cli.review", "Review links, codes or clusters on a page, and keep the decisions."),
    "train": ("medlink.cli.train", "Train an encoder on the names of a knowledge base."),
}


class _LazyGroup(click.Group):
    """A group whose commands live in modules that are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, by name."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command, ``None`` for a name that is none."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the help, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(COMMANDS.items())])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="medlink")
def app() -> None:
    """Map what clinicians write, in English, German and Spanish, to concepts of a terminology."""


def main(args: list[str] | None = None, **extra: Any) -> None:
    """Run the command line and exit: with 0, or with one line on standard error and another code.

    That is 1 for a :class:`MedlinkError`, 2 for what cannot be parsed, 3 for a run that left out notes, 130 for an
    interrupt, and 70 for an error that nobody foresaw, which :mod:`medlink.cli.crash_report` writes down
    (docs/reference/exit-codes.md).
    """
    given = sys.argv[1:] if args is None else args
    out: TextIO | None = sys.stdout
    if out is None:
        # click would leave out what it cannot print
        sys.stdout = out = io.StringIO()
        out.close()
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_AsTyped())
    for stream in (sys.stdout, sys.stderr):
        # as the files of -o, whatever the terminal's language says; what is no such stream stays as it is
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    try:
        code = app.main(args=given, prog_name="medlink", standalone_mode=False, **extra)
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except MedlinkError as error:
        *_, command = _commands(given)
        error.message, error.remedy = as_typed(error.message, command), as_typed(error.remedy or "", command)
        _stop(_from_here(str(error), given), 1)
    except Exception as error:
        # click makes one of an interrupt and of the end of a file
        found = error.__cause__ if isinstance(error, click.Abort) and error.__cause__ is not None else error
        if isinstance(found, KeyboardInterrupt):
            _stop(
                as_typed(" ".join(["interrupted.", *found.__notes__]))
                if hasattr(found, "__notes__")
                else "interrupted",
                130,
            )
        if isinstance(found, OSError) and found.errno == errno.ENOSPC:
            # files have their own error
            turn_away(sys.stdout)
            _stop("standard output cannot be written: no space is left. Remedy: send it to a place with room.", 1)
        if isinstance(found, ValueError) and out.closed:
            _stop("standard output is closed. Remedy: send it to a file, or to /dev/null.", 1)
        broken = [arg for arg in given if arg.encode(errors="replace").decode() != arg]
        if isinstance(found, UnicodeEncodeError) and broken:
            _stop(f"an argument is not UTF-8: {broken[0]!r}. Remedy: type it in UTF-8.", 1)
        from medlink.cli.crash_report import tell

        _stop(tell(found, " ".join(["medlink", *(str(command.name) for command in _commands(given)[1:])])), 70)


class _AsTyped(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return as_typed(super().format(record))


def _stop(line: str, code: int) -> NoReturn:
    click.echo(f"medlink: {visible(line)}", err=True)
    sys.exit(code)


def _commands(args: list[str]) -> list[click.Command]:
    """The commands that were typed, one inside the other."""
    found: list[click.Command] = [app]
    for arg in args:
        group = found[-1]
        inner = group.get_command(click.Context(group), arg) if isinstance(group, click.Group) else None
        if inner is None:
            break
        found.append(inner)
    return found


def _from_here(text: str, args: list[str]) -> str:
    """A message with paths below the working folder as they are typed there, unless one was typed whole."""
    with suppress(FileNotFoundError):  # the folder is gone
        here = f"{Path.cwd()}{os.sep}"
        if not any(here in arg for arg in args):
            return re.sub(rf"(?<![\w/.]){re.escape(here)}", "", text)
    return text
