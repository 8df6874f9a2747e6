"""JSON files, written the same way every time, and TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from math import isinf
from pathlib import Path
from typing import Any

from medlink.errors import InputError
from medlink.files.atomic import whole_text
from medlink.files.folders import StrPath
from medlink.files.streams import LineFile


def json_text(data: Any) -> str:
    """JSON that a person reads: sorted keys, two blanks, a final line end."""
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def write_json(path: StrPath, data: Any, what: str = "the output") -> None:
    """Write a JSON file that appears whole, or raise :class:`ConfigError`."""
    with whole_text(path, what) as file:
        file.write(json_text(data))


def read_json(path: StrPath) -> Any:
    """Read a JSON file; raises :class:`ValueError` as :func:`parse_json` does, and where it is not UTF-8."""
    return parse_json(Path(path).read_text("utf-8"))


def parse_json(text: str) -> Any:
    """The value of a JSON text.

    Raises :class:`ValueError`, whose message holds nothing of the text, for what is no JSON or nested too deeply, a
    number of too many digits, a key that is twice in one object, and half a surrogate pair, which nothing can write.
    """
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_float=_float)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(data, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair") from None
    return data


def read_whole(lines: LineFile) -> Any:
    """The value of a JSON file of others, packed or not; an :class:`InputError` where there is none to use."""
    try:
        return parse_json(lines.text())
    except json.JSONDecodeError as error:
        raise lines.refused(f"is no JSON, or is cut off: {error.msg}", "fetch it again", error.lineno) from error
    except ValueError as error:
        raise lines.refused(f"cannot be used: {error}", "fetch or export it again") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key is there twice")
    return data


def _float(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise ValueError("a number is too large")
    return number


def json_line(data: Any) -> str:
    """One line of a file of JSON lines: the keys in their own order, a final line end."""
    return json.dumps(data, ensure_ascii=False) + "\n"


def read_json_lines(lines: LineFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and objects of a file of JSON lines; a line that is no JSON object is counted as a bad row."""
    for number, text in lines:
        if not text.strip():
            lines.no_rows += 1
            continue
        data, reason = None, ""
        try:
            data = parse_json(text)
        except json.JSONDecodeError:
            if lines.cut:
                lines.cut_off("")
        except ValueError as error:
            reason = str(error)
        if isinstance(data, dict):
            yield number, data
        else:
            lines.bad("no JSON object", number, reason)


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file says; an :class:`InputError` where it cannot be read, or is not TOML."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not TOML: {error}", path=path, remedy="mend the file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path=path, remedy="name a TOML file in UTF-8") from error
