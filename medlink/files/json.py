"""JSON files, written the same way every time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from medlink.files.whole import StrPath, whole_text


def json_text(data: Any) -> str:
    r"""JSON that a person reads: sorted keys, two blanks, a final line end.

    >>> json_text({"b": 1, "a": "ä"})
    '{\n  "a": "ä",\n  "b": 1\n}\n'
    """
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def write_json(path: StrPath, data: Any, what: str = "the output") -> None:
    """Write a JSON file that appears whole.

    Raises:
        ConfigError: the file cannot be written.
    """
    with whole_text(path, what) as file:
        file.write(json_text(data))


def read_json(path: StrPath) -> Any:
    """Read a JSON file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no JSON in UTF-8.
    """
    return json.loads(Path(path).read_text("utf-8"))
