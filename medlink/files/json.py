"""JSON files, written the same way every time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medlink.errors import InputError
from medlink.files.folders import StrPath
from medlink.files.streams import LineFile
from medlink.files.whole import whole_text


def json_text(data: Any) -> str:
    r"""JSON that a person reads: sorted keys, two blanks, a final line end.

    >>> json_text({"b": 1, "a": "ä"})
    '{\n  "a": "ä",\n  "b": 1\n}\n'
    """
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def write_json(path: StrPath, data: Any, what: str = "the output") -> None:
    """Write a JSON file that appears whole, or raise :class:`ConfigError`."""
    with whole_text(path, what) as file:
        file.write(json_text(data))


def read_json(path: StrPath) -> Any:
    """Read a JSON file; raises :class:`ValueError` where it is no JSON in UTF-8."""
    return json.loads(Path(path).read_text("utf-8"))


def json_line(data: Any) -> str:
    r"""One line of a file of JSON lines: the keys in their own order, a final line end.

    >>> json_line({"b": "ä", "a": [1]})
    '{"b": "ä", "a": [1]}\n'
    """
    return json.dumps(data, ensure_ascii=False) + "\n"


def read_json_lines(lines: LineFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and objects of a file of JSON lines; a line that is no JSON object is counted as a bad row.

    Raises:
        InputError: the file cannot be read, its last line is cut off, or too many lines are bad.
    """
    for number, text in lines:
        if not text.strip():
            continue
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            if lines.cut and lines.problems.max_bad_share < 1:
                raise InputError(
                    "the last line is cut off", path=lines.path, line=number, remedy="fetch the file again"
                ) from None
            data = None
        if isinstance(data, dict):
            yield number, data
        else:
            lines.bad("no JSON object", number)
