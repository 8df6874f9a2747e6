"""What commands share: JSON on standard output, progress bars on standard error."""

from __future__ import annotations

import json
from typing import Any

import click

from medlink.files.escapes import visible


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
        click.echo(line, err=True)

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
    click.echo(line, err=True)
