"""``medlink``: the entry point. Groups are imported when they are used, so ``medlink --help`` stays quick."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from medlink import __version__
from medlink.errors import MedlinkError

# command -> (module, one-line help): the help stands here so that listing commands imports none of them.
COMMANDS: dict[str, tuple[str, str]] = {
    "cluster": ("medlink.cli.cluster", "Group a term list into concepts, known and new."),
    "demo": ("medlink.cli.demo", "Build the demo bundle, link one note per language, write a page."),
    "evaluate": ("medlink.cli.evaluate", "Measure encoders and clusterings by published protocols."),
    "index": ("medlink.cli.index", "Build the index of a bundle, add to it, or describe it."),
    "kb": ("medlink.cli.kb", "Build a knowledge base from release files, search it, show a concept."),
    "link": ("medlink.cli.link", "Link the notes of files, folders or standard input."),
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
    """Run the command line; a :class:`MedlinkError` becomes one line on standard error and exit code 1."""
    try:
        app.main(args=args, prog_name="medlink", **extra)
    except MedlinkError as error:
        click.echo(f"medlink: {error}", err=True)
        sys.exit(1)
