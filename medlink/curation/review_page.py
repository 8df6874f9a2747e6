"""Data of the page to review clusters, mentions of notes, and codes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from medlink.clustering.clusters import MAYBE
from medlink.curation.concepts import CONCEPT
from medlink.curation.decisions import term_hash
from medlink.curation.page import MIN_SCORE, json_object, round_score, write_page
from medlink.kb.decision_table import collapse_whitespace
from medlink.language.tags import language_tag

if TYPE_CHECKING:
    from medlink.kb import KnowledgeBase

Kind = Literal["cluster", "mention", "code"]
PAGE_FILES = tuple(
    f"review/{name}"
    for name in (
        *("body.html", "concept-dialog.html", "dialog.css", "style.css", "model.js", "clusters.js", "decisions.js"),
        *("places.js", "list.js", "notes.js", "card.js", "dialog.js", "server.js", "page.js"),
    )
)
"""Files of the page, below ``resources/pages``."""
NOTE = ("item", "language", "text", "problem")
"""Columns of the rows of notes."""
FIELDS = {
    "cluster": [
        *("cluster", "representative", "concept_id", "concept_name", "score", "doubtful", "parent_id", "parent_name"),
        *("nearest", "members", "neighbours", "broader", "status"),
    ],
    "nearest": ["concept_id", "preferred_name", "score", "source", "same_as"],
    "member": [
        *("term", "frequency", "language", "id", "similarity", "joined_to", "joined_by", "joined_score", "score"),
        "hash",
    ],
    "neighbour": ["term", "cluster", "probability", "apart", "member"],
}
"""Columns of the rows of the page's data; listing them once halves a page of 50,000 clusters. ``broader`` is a
neighbour, too.
"""
_TERM_FIELDS = ("representative", "term", "joined_to", "member")


def review_data(
    kind: Kind, fields: Mapping[str, list[str]], rows: Iterable[Any], summary: Mapping[str, Any], *,
    notes: Iterable[Any] = (), concepts: Iterable[Any] = (), decisions: str = "", served: bool = False,
) -> Iterator[str]:  # fmt: skip
    """Return the data of the page in pieces, one line for each row; memory does not grow with the rows.

    ``fields`` lists the columns of ``rows`` (clusters, mentions or codes) and of the records in them. ``notes`` have
    the columns :data:`NOTE`; ``concepts``, which are read last, have the columns
    :data:`~medlink.curation.concepts.CONCEPT`. The page starts with the table ``decisions``. A ``served`` page gets
    concepts and decisions from its server.
    """
    named = {**fields, "concept": CONCEPT, "note": NOTE}
    head: dict[str, Any] = {"kind": kind, "served": served, "decisions": decisions, "fields": named}
    head |= {"least": MIN_SCORE, "maybe": MAYBE, "summary": dict(summary)}
    return json_object(head, clusters=rows, notes=notes, concepts=concepts)


def write_cluster_page(
    path: str | PathLike[str], clusters: Iterable[Mapping[str, Any]], *, title: str, summary: Mapping[str, Any],
    kb: KnowledgeBase | None = None, language: str | None = None,
) -> None:  # fmt: skip
    """Write the page of clusters; the file appears when it is complete. Memory does not grow with the clusters.

    The page leaves out candidates with a score below :data:`~medlink.curation.page.MIN_SCORE`, except those of an
    ambiguous cluster, and says so. ``clusters`` are from ``Cluster.to_dict``. ``kb`` names concepts in the language of
    the representative, or in ``language`` if that is unknown; without ``kb``, names stay unchanged.
    """
    rows = (cluster_row(cluster, kb, language) for cluster in clusters)
    write_page(path, PAGE_FILES, title, review_data("cluster", FIELDS, rows, summary))


def cluster_row(cluster: Mapping[str, Any], kb: KnowledgeBase | None, language: str | None) -> list[Any]:
    """Return a cluster as a row of the page's data; arguments are those of :func:`write_cluster_page`."""
    row = dict(cluster)
    equal = [near["concept_id"] for near in cluster["candidates"]]
    nearest = [near for near in cluster["nearest"] if near["score"] >= MIN_SCORE or near["concept_id"] in equal]
    if kb is not None:
        ids = {row["concept_id"] or "", row["parent_id"] or "", *(near["concept_id"] for near in nearest)}
        names = kb.preferred_names(ids, cluster["members"][0]["language"] or language)
        nearest = [near | {"preferred_name": names.get(near["concept_id"], near["preferred_name"])} for near in nearest]
        for concept in ("concept", "parent"):
            row[f"{concept}_name"] = names.get(row[f"{concept}_id"] or "", row[f"{concept}_name"])
    row["nearest"] = [_row("nearest", near) for near in nearest]
    row["neighbours"] = [_row("neighbour", near) for near in cluster["neighbours"]]
    row["broader"] = cluster["broader"] and _row("neighbour", cluster["broader"])
    row["members"] = []
    for member in cluster["members"]:
        tag = language_tag(member["language"]) or ""
        row["members"].append(_row("member", member | {"language": tag, "hash": term_hash(member["term"])}))
    return _row("cluster", row)


def _row(kind: str, record: Mapping[str, Any]) -> list[Any]:
    values = ((field, record[field]) for field in FIELDS[kind])
    return [collapse_whitespace(value) if field in _TERM_FIELDS else round_score(value) for field, value in values]
