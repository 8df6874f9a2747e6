"""Print JSON to standard output, and progress bars and messages to standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

import click

from medlink.files.escapes import escape_controls

COMMANDS = {
    "build_kb": "kb build", "build_bundle": "index build", "extend_bundle": "index add", "Bundle": "index info",
    "update_bundle": "index update", "verify_bundle": "index verify", "link_notes": "link", "map_codes": "map",
    "learn": "learn", "cluster_list": "cluster", "RankerTrainer": "train ranker",
    "Review.write_gold": "review BUNDLE LINKS --notes NOTES -o TABLE --gold",
}  # fmt: skip
"""The command that replaces a call of the library in messages, such as ``build_kb(PATH, table=FILE)``."""
_CALL = re.compile(rf"\b({'|'.join(map(re.escape, COMMANDS))})\(([^()]*)\)")
_PYTHON = re.compile(r", in Python with [^()]*\([^()]*\)")
_OPTION = re.compile(r'\b([a-z][a-z_]*)=(?:\.\.\.|"([^"]*)"|(\d+))')


def as_typed(text: str, command: click.Command | None = None) -> str:
    """Replace the calls and parameters of the library in a message by the commands and options of the command line.

    Default of ``command``: the running command.
    """
    if command is None and (context := click.get_current_context(silent=True)):
        command = context.command

    def call(match: re.Match[str]) -> str:
        words = re.sub(r"(?:^|, )([a-z_]+)=", r" --\1 ", match[2]).replace(", ...", " ...").strip()
        return f"'medlink {COMMANDS[match[1]]}{' ' * bool(words)}{words}'"

    def parameter(match: re.Match[str]) -> str:
        value = match[2] or match[3] or ""
        return f"--{match[1].replace('_', '-')}{' ' * bool(value)}{value}"

    text = _OPTION.sub(parameter, _CALL.sub(call, _PYTHON.sub("", text)))
    for option in command.params if command is not None else ():
        if isinstance(option, click.Option) and option.name and not option.name.startswith("_"):
            # "epochs" may be a plain word of a message, unless it begins "epochs is" or contains "leave epochs out"
            word = rf"^{option.name}(?= is )|(?<=without ){option.name}(?= to )|(?<=leave ){option.name}(?= out)"
            pattern = rf"(?<![\w'\"/.-]){option.name}\b" if "_" in option.name else word
            text = re.sub(pattern, max(option.opts, key=len), text)
    return text


class ProgressBars:
    """A progress bar for each step of a run; shows nothing if standard error is not a terminal."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> ProgressBars:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def step(self, name: str, done: int, whole: int, unit: str = "it") -> None:
        """Show the progress of a step; a ``whole`` of 0 means unknown."""
        if self._bar is None or self._bar.desc != name:
            from tqdm import tqdm

            self._close()
            self._bar = tqdm(desc=name, total=whole or None, unit=unit, unit_scale=True, disable=None)
            self._bar.desc = name
        # the estimate may change
        self._bar.total = whole or None
        self._bar.update(done - self._bar.n)

    def say(self, line: str) -> None:
        self._close()
        say(line)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    stdout: TextIO | None = sys.stdout  # None or closed if it was closed before Python started
    return stdout is not None and not stdout.closed and stdout.isatty()


def print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Write lines with their control characters escaped."""
    for line in lines:
        click.echo(escape_controls(line), err=err)


def print_json(value: Any) -> None:
    print_lines(json.dumps(value, ensure_ascii=False, indent=2, default=str).split("\n"))


def print_report(report: Any, as_json: bool) -> None:
    if as_json:
        print_json(report.to_dict())
    else:
        print_lines(report.lines())


def say(line: str) -> None:
    click.echo(as_typed(line), err=True)
