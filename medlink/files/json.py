"""Reading and writing JSON and JSON lines, and reading TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from math import isinf
from pathlib import Path
from typing import Any

from medlink.errors import InputError
from medlink.files.atomic import atomic_text_writer
from medlink.files.escapes import escape_controls
from medlink.files.folders import StrPath
from medlink.files.streams import LineFile


def json_text(data: Any) -> str:
    """Format JSON deterministically: sorted keys, an indent of two, a final newline."""
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def write_json(path: StrPath, data: Any, what: str = "the output") -> None:
    """Write a JSON file atomically; raises :class:`ConfigError`."""
    with atomic_text_writer(path, what) as file:
        file.write(json_text(data))


def read_json(path: StrPath) -> Any:
    """Read a JSON file; raises :class:`ValueError` like :func:`parse_json`, and for a file that is not UTF-8."""
    return parse_json(Path(path).read_text("utf-8"))


def parse_json(text: str) -> Any:
    """Parse JSON more strictly than :mod:`json`.

    Raises :class:`ValueError` for invalid or too deeply nested JSON, numbers that are too large, repeated keys in an
    object, and half a surrogate pair, which cannot be encoded. The message quotes nothing of the text.
    """

    def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(object_ := dict(pairs)) < len(pairs):
            raise ValueError("a key occurs twice")
        return object_

    def finite_float(digits: str) -> float:
        if isinf(number := float(digits)):
            raise ValueError("a number is too large")
        return number

    try:
        data = json.loads(text, object_pairs_hook=unique_keys, parse_float=finite_float)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(data, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair") from None
    return data


def read_json_input(lines: LineFile) -> Any:
    """Parse an input file as one JSON value; raises :class:`InputError`."""
    try:
        return parse_json(lines.read_text())
    except json.JSONDecodeError as error:
        raise lines.error(f"is not JSON, or is cut off: {error.msg}", "fetch it again", error.lineno) from error
    except ValueError as error:
        raise lines.error(f"cannot be used: {error}", "fetch or export it again") from error


def json_line(data: Any) -> str:
    """Format one line of a JSON lines file; keys keep their order, and control characters are escaped."""
    return escape_controls(json.dumps(data, ensure_ascii=False)) + "\n"


def read_json_lines(lines: LineFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line numbers and objects of a JSON lines file; other lines are bad rows."""
    for number, text in lines:
        if not text.strip():
            lines.lines_without_row += 1
            continue
        data, reason = None, ""
        try:
            data = parse_json(text)
        except json.JSONDecodeError:
            if lines.unterminated:
                lines.report_truncated()
        except ValueError as error:
            reason = str(error)
        if isinstance(data, dict):
            yield number, data
        else:
            lines.bad_row("no JSON object", number, reason)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raises :class:`InputError`."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not TOML: {error}", path=path, remedy="correct the file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path=path, remedy="name a TOML file in UTF-8") from error
