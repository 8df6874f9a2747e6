"""Damage to small valid files, and readers that must bear it.

The number of damaged files that a test tries is ``MEDLINK_FUZZ``, few where it is not set: then they are always the
same ones.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

LONG = "MEDLINK_FUZZ" in os.environ
SECONDS = 30
"""No file here is so large that it may take longer, on the slowest machine."""

_TOKENS = [
    *(b'"', b'""', b'\n"', b"\0", b"\r", b"\n", b"\r\n", b"\t", b"|", b",", b";", b"#", b"[", b"]", b"{", b"}", b"\\"),
    *(
        b"\xff",
        "ä".encode("latin-1"),
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        "\u2028\x85".encode(),
        b"\xed\xa0\x80",
        b"\x1f\x8b",
    ),
    *(rb"\ud800", b"1e999", b"-1", b"NaN", b"null", b"[" * 100_000, b"9" * 5_000, b"x" * 140_000, b" " * 3_000),
]
_STEPS = ("insert", "cut", "flip", "drop line", "copy line", "drop part", "insert", "swap lines", "quotes")
_WHOLE: list[Callable[[bytes], bytes]] = [
    lambda data: data,
    lambda data: data,
    lambda data: data,
    lambda data: data.replace(b"\n", b"\r\n"),
    lambda data: data.replace(b"\n", b"\r"),
    lambda data: b"\xef\xbb\xbf" + data,
    lambda data: data.decode("utf-8", "replace").encode("utf-16"),
    lambda data: data.decode("utf-8", "replace").encode("latin-1", "replace"),
    gzip.compress,
    lambda data: gzip.compress(data)[: len(data) // 2],
]
_WRONG = [None, True, 3, -1.5, 1e999, "", " ", "x", "X:1|Y", "\ud800", [], [[]], {}, [3], {"a": None}, "obsolete x"]

_steps = st.lists(
    st.tuples(st.sampled_from(_STEPS), st.floats(0, 1), st.integers(0, len(_TOKENS) * 8)), min_size=1, max_size=4
)
_place = st.tuples(st.lists(st.integers(0, 9), max_size=9), st.sampled_from(_WRONG))


def tried(examples: int) -> settings:
    """Settings for a property: so many examples, or those that are asked for."""
    count = int(os.environ.get("MEDLINK_FUZZ", examples))
    return settings(max_examples=count, deadline=None, database=None, derandomize=not LONG)


def damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """A file with some damage."""
    return st.builds(lambda steps, whole: whole(_damage(data, steps)), _steps, st.sampled_from(_WHOLE))


def wrong_json(data: Any) -> st.SearchStrategy[Any]:
    """JSON with values of another kind in a few places."""
    return st.builds(
        lambda places: _replaced(json.loads(json.dumps(data)), places), st.lists(_place, min_size=1, max_size=3)
    )


@contextmanager
def in_time() -> Iterator[Path]:
    """A folder to read in, for some seconds; what hangs fails."""

    def end(*_: object) -> None:
        raise TimeoutError(f"not done after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def lines_of(data: bytes, *, universal: bool = False) -> list[bytes]:
    """The lines of a file, counted by other code than the readers'."""
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    if universal or b"\n" not in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = data.split(b"\n")
    return lines if lines.pop() == b"" else data.split(b"\n")


def text_of(line: bytes, *, first: bool = False) -> str | None:
    """A line as a reader sees it, ``None`` where it cannot be decoded."""
    try:
        text = line.removesuffix(b"\r").decode("utf-8").replace("\r", " ")
    except UnicodeDecodeError:
        return None
    return text.removeprefix("\ufeff") if first else text


def with_text(data: bytes) -> int:
    """Number of lines that are not empty."""
    return sum(text_of(line, first=not at) != "" for at, line in enumerate(lines_of(data)))


def _damage(data: bytes, steps: list[tuple[str, float, int]]) -> bytes:
    for step, place, number in steps:
        at, lines = int(place * len(data)), data.splitlines(keepends=True)
        line = int(place * max(0, len(lines) - 1))
        match step:
            case "insert":
                data = data[:at] + _TOKENS[number % len(_TOKENS)] + data[at:]
            case "cut":
                data = data[:at]
            case "flip" if data:
                at = min(at, len(data) - 1)
                data = data[:at] + bytes([data[at] ^ 1 << number % 8]) + data[at + 1 :]
            case "drop line":
                data = b"".join(lines[:line] + lines[line + 1 :])
            case "copy line":
                data = b"".join(lines[: line + 1] + lines[line:])
            case "drop part":
                data = data[:at] + data[at + number :]
            case "quotes" if data.count(b",") > 1:
                marks = [found.start() for found in re.finditer(b",", data)]
                opens = int(place * (len(marks) - 2))
                start, end = marks[opens] + 1, marks[min(opens + 1 + number % 30, len(marks) - 1)]
                data = data[:start] + b'"' + data[start:end] + b'"' + data[end:]
            case "swap lines" if len(lines) > 1:
                other = number % len(lines)
                lines[line], lines[other] = lines[other], lines[line]
                data = b"".join(lines)
    return data


def _replaced(data: Any, places: list[tuple[list[int], Any]]) -> Any:
    for path, value in places:
        holder, key, at = None, None, data
        for number in path:
            keys = list(at) if isinstance(at, dict) else list(range(len(at))) if isinstance(at, list) else []
            if not keys:
                break
            holder, key = at, keys[number % len(keys)]
            at = holder[key]
        if holder is None:
            return deepcopy(value)
        holder[key] = deepcopy(value)
    return data
