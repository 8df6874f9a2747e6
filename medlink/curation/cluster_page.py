"""The page to look through clusters and decide about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Protocol

from medlink.curation.decisions import clean, term_hash
from medlink.curation.page import LEAST, short, write_page
from medlink.curation.review_page import SCRIPTS, review_data
from medlink.language.tags import language_tag

FIELDS = {
    "cluster": [
        *("cluster", "representative", "concept_id", "concept_name", "score", "doubtful", "parent_id", "parent_name"),
        *("nearest", "members", "neighbours", "broader", "status"),
    ],
    "nearest": ["concept_id", "preferred_name", "score", "source", "same_as"],
    "member": [
        "term",
        "frequency",
        "language",
        "id",
        "similarity",
        "joined_to",
        "joined_by",
        "joined_score",
        "score",
        "hash",
    ],
    "neighbour": ["term", "cluster", "probability", "apart", "member"],
}
"""What the rows of the page's data hold: names stand there once, which halves a page of 50,000 clusters. The
``broader`` of a cluster is a neighbour, too."""
_TERMS = ("representative", "term", "joined_to", "member")


class Naming(Protocol):
    """What the page needs to name concepts in the language of a list."""

    def preferred_names(self, concept_ids: Iterable[str], language: str | None = None) -> dict[str, str]:
        """The name to show for each concept."""


def write_report(
    path: str | PathLike[str],
    clusters: Iterable[Mapping[str, Any]],
    *,
    title: str,
    summary: Mapping[str, Any],
    kb: Naming | None = None,
    language: str | None = None,
) -> None:
    """Write the page; it appears under its name when it is complete. Memory does not grow with the clusters.

    Candidates with a score below :data:`~medlink.curation.page.LEAST` are left out, and the page says so. Those that
    share the name of an ambiguous cluster stay.

    Args:
        path: the HTML file to write; an existing one is replaced.
        clusters: clusters as ``Cluster.to_dict`` gives them.
        title, summary: heading of the page, and counts and settings to show, by name.
        kb: names the concepts in the language of the representative; without it their names stay as they are.
        language: BCP 47, of terms that name none.

    Raises:
        ConfigError: the file cannot be written.
    """
    rows = (cluster_row(one, kb, language) for one in clusters)
    write_page(path, "review", SCRIPTS, title, review_data("cluster", FIELDS, rows, summary))


def cluster_row(cluster: Mapping[str, Any], kb: Naming | None, language: str | None) -> list[Any]:
    """What the page shows of a cluster, as a row of its data; arguments as for :func:`write_report`."""
    row = dict(cluster)
    equal = [one["concept_id"] for one in cluster["candidates"]]
    nearest = [one for one in cluster["nearest"] if one["score"] >= LEAST or one["concept_id"] in equal]
    if kb is not None:
        ids = {row["concept_id"] or "", row["parent_id"] or "", *(one["concept_id"] for one in nearest)}
        names = kb.preferred_names(ids, cluster["members"][0]["language"] or language)
        nearest = [{**one, "preferred_name": names.get(one["concept_id"], one["preferred_name"])} for one in nearest]
        for concept in ("concept", "parent"):
            row[f"{concept}_name"] = names.get(row[f"{concept}_id"] or "", row[f"{concept}_name"])
    row["nearest"] = [_row("nearest", one) for one in nearest]
    row["neighbours"] = [_row("neighbour", one) for one in cluster["neighbours"]]
    row["broader"] = cluster["broader"] and _row("neighbour", cluster["broader"])
    row["members"] = [
        _row("member", {**one, "language": language_tag(one["language"]) or "", "hash": term_hash(one["term"])})
        for one in cluster["members"]
    ]
    return _row("cluster", row)


def _row(kind: str, record: Mapping[str, Any]) -> list[Any]:
    """The values of a record in the order of its fields, numbers and white space made short."""
    values = ((field, record[field]) for field in FIELDS[kind])
    return [clean(value) if field in _TERMS else short(value) for field, value in values]
