"""What commands share: progress bars on standard error, and what was left out of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from medlink.files.problems import Problems


def say_left_out(problems: Problems) -> None:
    """Say on standard error which rows could not be used, and which were left out on purpose."""
    for kind, count in sorted(problems.bad.items()):
        first = next((one for one in problems.examples if one.kind == kind), None)
        where = "" if first is None else f", the first at {first.path}:{first.line}"
        click.echo(f"rows that cannot be used: {count} ({kind}{where})", err=True)
    for reason, count in sorted(problems.skipped.items()):
        click.echo(f"rows left out: {count} ({reason})", err=True)


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
        self._bar.update(done - self._bar.n)

    def say(self, line: str) -> None:
        """Write a line to standard error, below the bars."""
        self._close()
        click.echo(line, err=True)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
