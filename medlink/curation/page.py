"""What every page has in common: one file that fetches nothing and runs nothing but its own script.

A page is ``resources/pages/frame.html`` around the ``body.html`` of its folder. Its style and its script stand in that
folder too, behind those that all pages share. They and the data are written into the file. A Content-Security-Policy
names the hashes of the two. Scripts are joined in their order into one module, because a page without a server cannot
import one file from another. Text reaches the document only as text nodes that the script makes.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib import resources
from os import PathLike
from typing import Any

from medlink.files.atomic import whole_text
from medlink.records import Value

LEAST = 0.05
"""Score below which a page does not show a candidate: what readers saw below it was noise."""
_STYLES, _SCRIPTS = ("base.css", "note.css"), ("dom.js", "parts.js", "concept.js", "said.js")
_USUAL = ("present", "current", "patient")
_PLACEHOLDER = re.compile(r"(\{\{[a-z]+\}\})")


def write_page(path: str | PathLike[str], kind: str, scripts: Sequence[str], title: str, data: Iterable[str]) -> None:
    """Write a page, which appears whole and, where it is new, is readable to its owner alone.

    ``kind`` is a folder below ``resources/pages``, ``scripts`` are files of it, each behind those it needs, and
    ``data`` the pieces of one JSON value that :func:`to_json` made. Memory does not grow with them.

    Raises:
        ConfigError: the file cannot be written.
    """
    # a title may be the name of a file whose bytes are no UTF-8; the data is plain ASCII
    with whole_text(path, "the page", errors="replace", private=True) as file:
        file.writelines(page_parts(kind, scripts, title, data))


def page_parts(
    kind: str, scripts: Sequence[str], title: str, data: Iterable[str], *, served: bool = False
) -> Iterator[str]:
    """The pieces of a page; arguments as for :func:`write_page`. One that is ``served`` may ask its own server."""
    style = "".join(map(_source, (*_STYLES, f"{kind}/style.css")))
    script = "".join(map(_source, (*_SCRIPTS, *(f"{kind}/{name}" for name in scripts))))
    policy = _policy(style, script) + "; connect-src 'self'" * served
    values = {"title": escape(title), "policy": policy, "style": style, "script": script}
    frame = _source("frame.html").replace("{{body}}", _source(f"{kind}/body.html"))
    # one pass, so that a title with a placeholder in it stays as it is
    for part in _PLACEHOLDER.split(frame):
        if part == "{{data}}":
            yield from data
        else:
            yield values[part.strip("{}")] if _PLACEHOLDER.fullmatch(part) else part


def to_json(value: Any) -> str:
    """JSON in plain ASCII that cannot end the element it stands in.

    >>> to_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def short(value: Any) -> Any:
    """A value of the data, numbers with four digits.

    >>> short(1 / 3), short("x")
    (0.3333, 'x')
    """
    return round(value, 4) if isinstance(value, float) else value


def unusual(said: Iterable[str | None]) -> list[str] | None:
    """What a note says of a mention, without what is usual; ``None`` where it was not read.

    >>> unusual(["absent", "current", "patient"]), unusual([None, None, None])
    (['absent'], None)
    """
    read = list(said)
    return None if None in read else [one for one in read if one is not None and one not in _USUAL]


def measured(value: Value) -> str:
    """A measured value in words, and why it is a finding.

    >>> measured(Value("temperature", 39.2, "°C", "high", "limit", 38.0, "Marcy et al. 2004"))
    'temperature 39.2 °C, high: limit 38 (Marcy et al. 2004)'
    >>> measured(Value("hemoglobin", 7.9, "g/dl", "low", "flag"))
    'hemoglobin 7.9 g/dl, low: as the laboratory says'
    """
    limit = f"limit {value.limit:g}" if value.limit is not None else ""
    why = limit + (f" ({value.source})" if value.source else "") if value.by == "limit" else "as the laboratory says"
    if value.by == "range" and limit:
        why = f"{limit} of the laboratory"
    return f"{f'{value.measure} {value.number:g} {value.unit}'.rstrip()}, {value.reads}: {why}"


def json_list(values: Iterable[Any]) -> Iterator[str]:
    """The pieces of a list, a line for each value.

    >>> "".join(json_list([1, 2]))
    '[\\n1,\\n2\\n]'
    """
    separator = "[\n"
    for value in values:
        yield separator + to_json(value)
        separator = ",\n"
    yield "\n]" if separator == ",\n" else "[]"


def _source(name: str) -> str:
    return resources.files("medlink").joinpath(f"resources/pages/{name}").read_text("utf-8")


def _policy(style: str, script: str) -> str:
    digests = [b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
