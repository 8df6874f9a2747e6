"""The protocol of writers, and how a text stands in a cell."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from medlink.files.escapes import as_cell, visible
from medlink.mapping.codes import CodeMapping
from medlink.mapping.options import MapOptions
from medlink.mapping.targets import Targets

_BLANKS = re.compile(r"\s+")
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?")


@dataclass(frozen=True, slots=True)
class Context:
    """What writers know of a run.

    ``added`` are the names of the list's further columns, ``carried`` says whether there are maps of an earlier
    release, and ``set_id`` stands for list, bundle and options.
    """

    targets: Targets
    options: MapOptions
    added: tuple[str, ...] = ()
    carried: bool = False
    set_id: str = ""


class MapWriter(Protocol):
    """An output for maps: made with a file and a :class:`Context`, ``write`` for each, ``close`` at the end."""

    def write(self, one: CodeMapping) -> None:
        """Add a map, in the order of the work list."""
        ...

    def close(self) -> None:
        """Add what can only be said when all maps are known."""
        ...


def as_text(text: str) -> str:
    """A text as a cell that no spreadsheet takes for a formula, in one line; a number stays as it is.

    >>> as_text("=1+1"), as_text("-12"), as_text("a\\nb")
    ("'=1+1", '-12', 'a b')
    """
    text = visible(_BLANKS.sub(" ", text)).strip()
    return text if _NUMBER.fullmatch(text) else as_cell(text)
