"""Escapes for text shown in a terminal or opened as a spreadsheet."""

from __future__ import annotations

import json
import re

# C0, DEL and C1, which begin terminal commands; line and paragraph separators; marks that change the text direction
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MARK = "'"
# the beginnings of a formula or a quoted cell, and the mark itself: unescaping restores every cell
_ESCAPED_STARTS = ("=", "+", "-", "@", '"', _MARK)


def escape_controls(text: str) -> str:
    """Escape control characters and direction marks as JSON does; a line of JSON keeps its meaning."""
    return _CONTROLS.sub(lambda match: json.dumps(match[0])[1:-1], text)


def escape_cell(text: str) -> str:
    """Put an apostrophe before a TSV cell that a spreadsheet would take for a formula, or a CSV reader for a quote.

    :func:`unescape_cell` removes it.
    """
    return _MARK + text if text.startswith(_ESCAPED_STARTS) else text


def unescape_cell(cell: str) -> str:
    """Invert :func:`escape_cell`."""
    return cell[1:] if cell.startswith(_MARK) and cell[1:].startswith(_ESCAPED_STARTS) else cell
