"""One self-contained page to look through clusters and decide about them.

Style, script and data stand inline, and a Content-Security-Policy lets the page fetch nothing and run nothing else.
The sources are in ``resources/curation``. The script parts are joined in the order of :data:`_SCRIPTS` into one module,
because a page without a server cannot import one file from another.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from importlib import resources
from os import PathLike
from typing import Any

from medlink.curation.decisions import clean, term_hash
from medlink.files.whole import whole_text
from medlink.language.tags import language_tag

_SCRIPTS = ("dom.js", "model.js", "decisions.js", "list.js", "card.js", "dialog.js", "page.js")
_PLACEHOLDER = re.compile(r"(\{\{[a-z]+\}\})")
_FIELDS = {
    "cluster": [
        *("cluster", "representative", "concept_id", "concept_name", "score", "doubtful", "parent_id", "parent_name"),
        *("nearest", "members", "neighbours"),
    ],
    "nearest": ["concept_id", "preferred_name", "score"],
    "member": ["term", "frequency", "language", "id", "similarity", "joined_to", "joined_by", "joined_score", "hash"],
    "neighbour": ["term", "cluster", "similarity", "apart"],
}
"""What the rows of the page's data hold: names stand there once, which halves a page of 50,000 clusters."""
_TERMS = ("representative", "term", "joined_to")


def write_report(
    path: str | PathLike[str], clusters: Iterable[Mapping[str, Any]], *, title: str, summary: Mapping[str, Any]
) -> None:
    """Write the page; it appears under its name when it is complete. Memory does not grow with the clusters.

    Args:
        path: the HTML file to write; an existing one is replaced.
        clusters: clusters as ``Cluster.to_dict`` gives them.
        title, summary: heading of the page, and counts and settings to show, by name.

    Raises:
        ConfigError: the file cannot be written.
    """
    # a title may be the name of a file whose bytes are no UTF-8; the data is plain ASCII
    with whole_text(path, "the page", errors="replace") as file:
        file.writelines(_page(clusters, title, summary))


def _page(clusters: Iterable[Mapping[str, Any]], title: str, summary: Mapping[str, Any]) -> Iterator[str]:
    """The parts of the page, one after the other."""
    style = _source("style.css")
    script = "".join(_source(name) for name in _SCRIPTS)
    values = {"title": escape(title), "policy": _policy(style, script), "style": style, "script": script}
    # one pass, so that a title with a placeholder in it stays as it is
    for part in _PLACEHOLDER.split(_source("page.html")):
        if part == "{{data}}":
            yield from _data(clusters, summary)
        else:
            yield values[part.strip("{}")] if _PLACEHOLDER.fullmatch(part) else part


def _source(name: str) -> str:
    """One of the files that the page is made of."""
    return resources.files("medlink").joinpath(f"resources/curation/{name}").read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """The Content-Security-Policy: exactly this style and this script, and nothing from elsewhere."""
    digests = [b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _data(clusters: Iterable[Mapping[str, Any]], summary: Mapping[str, Any]) -> Iterator[str]:
    """The page's data, one line for each cluster."""
    head = {"fields": _FIELDS, "summary": dict(summary)}
    yield _json(head)[:-1] + ',"clusters":['
    separator = "\n"
    for cluster in clusters:
        row = dict(cluster)
        row["nearest"] = [_row("nearest", one) for one in cluster["nearest"]]
        row["neighbours"] = [_row("neighbour", one) for one in cluster["neighbours"]]
        row["members"] = [
            _row("member", {**one, "language": language_tag(one["language"]) or "", "hash": term_hash(one["term"])})
            for one in cluster["members"]
        ]
        yield separator + _json(_row("cluster", row))
        separator = ",\n"
    yield "\n]}"


def _row(kind: str, record: Mapping[str, Any]) -> list[Any]:
    """The values of a record in the order of its fields, numbers and white space made short."""
    values = [record[field] for field in _FIELDS[kind]]
    return [
        round(value, 4) if isinstance(value, float) else clean(value) if field in _TERMS else value
        for field, value in zip(_FIELDS[kind], values, strict=True)
    ]


def _json(value: Any) -> str:
    """JSON in plain ASCII that cannot end the element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
