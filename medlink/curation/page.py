"""HTML pages in one file that loads nothing and runs only its own script.

A page is ``resources/pages/frame.html`` around its body, with the styles and scripts that all pages share, then its own
ones, and the data. A Content-Security-Policy lists the hashes of style and script. The scripts are one module, because
a page without a server cannot import files. Scripts insert text as text nodes only.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from os import PathLike
from typing import Any

from medlink.files.atomic import atomic_text_writer
from medlink.files.resources import RESOURCES
from medlink.records import Value

MIN_SCORE = 0.05
"""Lowest score of a candidate on a page; reviewers found only noise below it."""
_SHARED = ("base.css", "note.css", "dom.js", "parts.js", "concept.js", "qualifiers.js")
_DEFAULT_QUALIFIERS = ("present", "current", "patient")
_PLACEHOLDER = re.compile(r"(\{\{[a-z]+\}\})")


def write_page(path: str | PathLike[str], files: Sequence[str], title: str, data: Iterable[str]) -> None:
    """Write a page atomically; a new file is readable by its owner only.

    ``files`` are bodies, styles and scripts below ``resources/pages`` in the order of their dependencies, and ``data``
    are the pieces of one JSON value made by :func:`to_json`. Memory does not grow with the data.
    """
    # a title may be a file name that is not UTF-8; the data is plain ASCII
    with atomic_text_writer(path, "the page", errors="replace", private=True) as file:
        file.writelines(iter_page(files, title, data))


def iter_page(files: Sequence[str], title: str, data: Iterable[str], *, served: bool = False) -> Iterator[str]:
    """Yield the pieces of a page; see :func:`write_page`. A ``served`` page may send requests to its own server."""
    body, style, script = (
        "".join(_source(name) for name in (*_SHARED, *files) if name.endswith(kind))
        for kind in (".html", ".css", ".js")
    )
    digests = [b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    policy = f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; img-src data:; "
    policy += "base-uri 'none'; form-action 'none'" + "; connect-src 'self'" * served
    values = {"title": escape(title), "policy": policy, "style": style, "script": script}
    frame = _source("frame.html").replace("{{body}}", body)
    # one pass, so that placeholders in a title stay
    for part in _PLACEHOLDER.split(frame):
        if part == "{{data}}":
            yield from data
        else:
            yield values[part.strip("{}")] if _PLACEHOLDER.fullmatch(part) else part


def to_json(value: Any) -> str:
    """Return JSON in plain ASCII that cannot close its HTML element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def round_score(value: Any) -> Any:
    """Round a float to four digits, and return other values as they are."""
    return round(value, 4) if isinstance(value, float) else value


def unusual_qualifiers(values: Iterable[str | None]) -> list[str] | None:
    """Return the qualifiers of a mention that are not the default; ``None`` if they were not read."""
    found = list(values)
    return None if None in found else [one for one in found if one and one not in _DEFAULT_QUALIFIERS]


def describe_value(value: Value) -> str:
    """Describe a measured value, and why it is a finding.

    >>> describe_value(Value("temperature", 39.2, "°C", "high", "limit", 38.0, "Marcy et al. 2004"))
    'temperature 39.2 °C, high: limit 38 (Marcy et al. 2004)'
    >>> describe_value(Value("hemoglobin", 7.9, "g/dl", "low", "flag"))
    'hemoglobin 7.9 g/dl, low: as the laboratory says'
    """
    limit, why = "" if value.limit is None else f"limit {value.limit:g}", "as the laboratory says"
    if value.by == "limit":
        why = limit + (f" ({value.source})" if value.source else "")
    elif value.by == "range" and limit:
        why = f"{limit} of the laboratory"
    return f"{f'{value.measure} {value.number:g} {value.unit}'.rstrip()}, {value.reads}: {why}"


def json_object(head: Mapping[str, Any], **lists: Iterable[Any]) -> Iterator[str]:
    """Yield the pieces of a JSON object: ``head``, and further lists, which are read in this order.

    >>> "".join(json_object({"a": 1}, b=[2, 3], c=[]))
    '{"a":1,"b":[\\n2,\\n3\\n],"c":[]}'
    """
    yield to_json(head)[:-1]
    for name, values in lists.items():
        yield f',"{name}":['
        separator = "\n"
        for value in values:
            yield separator + to_json(value)
            separator = ",\n"
        yield "\n]" if separator == ",\n" else "]"
    yield "}"


def _source(name: str) -> str:
    return (RESOURCES / "pages" / name).read_text("utf-8")
