"""What commands share: JSON on standard output, progress bars on standard error, remedies as a user types them."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from medlink.files.escapes import visible

COMMANDS_OF = {
    "build_kb": "kb build", "build_bundle": "index build", "extend_bundle": "index add", "Bundle": "index info",
    "verify_bundle": "index verify", "link_notes": "link", "learn": "learn", "cluster_list": "cluster",
    "RankerTrainer": "train ranker",
    "Review.write_gold": "review BUNDLE LINKS --notes NOTES -o TABLE --gold",
}  # fmt: skip
"""The command for each call of the library that a message may name: ``build_kb(PATH, table=FILE)``."""
_CALL = re.compile(rf"\b({'|'.join(map(re.escape, COMMANDS_OF))})\(([^()]*)\)")
_OPTION = re.compile(r'\b([a-z][a-z_]*)=(?:\.\.\.|"([^"]*)")')


def as_typed(text: str, command: click.Command | None = None) -> str:
    """A message of the library, which names its calls and parameters, with commands and options in their place."""

    def call(found: re.Match[str]) -> str:
        words = re.sub(r"(?:^|, )([a-z_]+)=", r" --\1 ", found[2]).replace(", ...", " ...").strip()
        return f"'medlink {COMMANDS_OF[found[1]]}{' ' * bool(words)}{words}'"

    def parameter(found: re.Match[str]) -> str:
        return f"--{found[1].replace('_', '-')}{' ' * bool(found[2])}{found[2] or ''}"

    text = _OPTION.sub(parameter, _CALL.sub(call, text))
    for option in command.params if command is not None else ():
        if isinstance(option, click.Option) and option.name and not option.name.startswith("_"):
            # one word may be a word of the message, but where a message begins with it or says to leave it out
            word = rf"^{option.name}(?= is )|(?<=without ){option.name}(?= to )|(?<=leave ){option.name}(?= out)"
            place = rf"(?<![\w'\"/.-]){option.name}\b" if "_" in option.name else word
            text = re.sub(place, max(option.opts, key=len), text)
    return text


class Bars:
    """One progress bar for each step of some work, none where standard error is no terminal.

    >>> with Bars() as bars:
    ...     bars.step("names embedded", 1, 2)
    """

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def step(self, name: str, done: int, whole: int, unit: str = "it") -> None:
        """Show how far a step is, in ``unit``; its first call opens the bar. Nobody knows a ``whole`` of 0."""
        if self._bar is None or self._bar.desc != name:
            from tqdm import tqdm

            self._close()
            self._bar = tqdm(desc=name, total=whole or None, unit=unit, unit_scale=True, disable=None)
            self._bar.desc = name
        # the estimate of the whole may change
        self._bar.total = whole or None
        self._bar.update(done - self._bar.n)

    def say(self, line: str) -> None:
        """Write a line to standard error, below the bars."""
        self._close()
        say(line)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def print_json(value: Any) -> None:
    """Write a value to standard output as JSON that a person reads."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    click.echo("\n".join(map(visible, text.split("\n"))))


def say(line: str) -> None:
    """Write a line to standard error, where no bars are."""
    click.echo(as_typed(line), err=True)
