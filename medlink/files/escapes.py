"""Text that other programs would not take as text: in a terminal, and in a table that is opened as a spreadsheet."""

from __future__ import annotations

import json
import re

# C0, DEL and C1, among them what begins a terminal's commands; the separators of lines and paragraphs; what turns the
# direction of text, so that it reads as another one.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MARK = "'"
# What begins a formula, and a quoted cell; the mark itself, so that reading takes off what writing put before a cell.
_TAKEN = ("=", "+", "-", "@", '"', _MARK)


def visible(text: str) -> str:
    """A text with its control characters and those that turn its direction as JSON writes them.

    A line of JSON holds the same afterwards.
    """
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def as_cell(text: str) -> str:
    """A text as a cell of a TSV that spreadsheets and CSV readers take for text.

    What begins with one of ``= + - @``, a formula, with a quote or an apostrophe stands behind an apostrophe;
    :func:`from_cell` takes it off.
    """
    return _MARK + text if text.startswith(_TAKEN) else text


def from_cell(cell: str) -> str:
    """What :func:`as_cell` was given."""
    return cell[1:] if cell.startswith(_MARK) and cell[1:].startswith(_TAKEN) else cell
