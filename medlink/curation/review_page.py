"""What the page holds on which clusters, mentions of notes and codes are decided about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol

from medlink.clustering.clusters import MAYBE
from medlink.curation.decisions import clean, term_hash
from medlink.curation.page import LEAST, json_list, short, to_json, write_page
from medlink.language.tags import language_tag

if TYPE_CHECKING:
    from medlink.kb import KnowledgeBase

Kind = Literal["cluster", "mention", "code"]
SCRIPTS = (
    *("model.js", "clusters.js", "decisions.js", "places.js", "list.js", "notes.js", "card.js", "dialog.js", "keep.js"),
    "page.js",
)
NOTE = ("item", "language", "text", "problem")
"""What the row of a note holds."""
CONCEPT = ("language", "concept_id", "source", "names", "definitions", "semantic_types", "parents")
"""What :func:`concept_row` gives, in this order; ``language`` is that in which parents are named."""
_NAMES = 12  # of a concept that the card shows in each language
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
"""What the rows of the page's data hold: names stand there once, which halves a page of 50,000 clusters. The
``broader`` of a cluster is a neighbour, too."""
_TERMS = ("representative", "term", "joined_to", "member")


def review_data(
    kind: Kind,
    fields: Mapping[str, list[str]],
    rows: Iterable[Any],
    summary: Mapping[str, Any],
    *,
    notes: Iterable[Any] = (),
    concepts: Iterable[Any] = (),
    decisions: str = "",
    served: bool = False,
) -> Iterator[str]:
    """The pieces of the data, one line for each row; memory does not grow with them.

    ``fields`` name what ``rows`` (clusters, mentions or codes), and the records in them, hold; ``notes`` have
    :data:`NOTE` and ``concepts``, which are read after all other rows, :data:`CONCEPT`. The page begins with the table
    ``decisions``; one that is ``served`` has a server that knows concepts and decisions.
    """
    named = {**fields, "concept": CONCEPT, "note": NOTE}
    head = {"kind": kind, "served": served, "decisions": decisions, "fields": named}
    limits = {"least": LEAST, "maybe": MAYBE}
    yield to_json({**head, **limits, "summary": dict(summary)})[:-1] + ',"clusters":'
    yield from json_list(rows)
    yield ',"notes":'
    yield from json_list(notes)
    yield ',"concepts":'
    yield from json_list(concepts)
    yield "}"


def concept_row(kb: KnowledgeBase, language: str, concept_id: str) -> list[Any] | None:
    """What the card says of a concept; the names of a language begin with the preferred one."""
    concept = kb.get(concept_id)
    if concept is None:
        return None
    names = [
        (tag, list(dict.fromkeys(name.text for name in found)))
        for tag, found in groupby(concept.names, key=lambda name: name.language)
    ]
    return [
        *(language, concept_id, concept.source),
        [[tag, texts[:_NAMES], max(0, len(texts) - _NAMES)] for tag, texts in names],
        list(dict.fromkeys(definition.text for definition in concept.definitions)),
        sorted({one.semantic_type for one in concept.semantic_types}),
        list(kb.preferred_names(kb.parents(concept_id), language).values()),
    ]


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
    share the name of an ambiguous cluster stay. ``clusters`` are those of ``Cluster.to_dict``. ``kb`` names concepts in
    the language of the representative, ``language`` where it names none; without it their names stay as they are.

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
