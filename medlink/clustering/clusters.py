"""Records of a clustering, and their output formats.

A higher ``score`` or ``similarity`` is better; cluster numbers begin at 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, overload

from medlink.files.escapes import escape_cell, escape_controls
from medlink.files.problems import pluralize
from medlink.processes import MIN_FORKED, forked
from medlink.records import Candidate, Result

SAME_FORM, EMBEDDING, ABBREVIATION = "same form", "embedding", "abbreviation"
SAME_CONCEPT, DECISION = "same concept", "decision"
"""Why a member belongs to its cluster; ``""`` for the member that begins it."""
TWO_CONCEPTS = "concept"
"""Value of :attr:`Neighbour.apart` for clusters of two different known concepts."""
KNOWN, AMBIGUOUS, NEW = "known", "ambiguous", "new"
Shape = Literal["tsv", "jsonl", "groups"]
"""Output formats: a line for each term, a JSON object for each cluster, or groups for people to read."""
_CONCEPT = ("status", "concept_id", "concept_name", "score", "parent_id", "parent_name")
COLUMNS = (
    "cluster", "term", "representative", *_CONCEPT, "broader", "frequency", "language", "id", "similarity",
    "joined_to", "joined_by", "joined_score", "maybe", "same_as", "candidates",
)  # fmt: skip
"""Columns of the TSV."""
CONCEPT_COLUMNS = (*_CONCEPT, "same_as", "candidates")
"""Columns that are empty without a terminology and without decisions."""
_OPTIONAL = (*CONCEPT_COLUMNS, "broader", "language", "id", "maybe")  # left out if they are empty in every line
MAYBE = 0.2
"""Lowest probability at which two terms of different clusters may be one concept."""
_KEYS = (
    "cluster", "representative", "status", "concept_id", "concept_name", "same_as", "score", "doubtful", "parent_id",
    "parent_name", "broader", "candidates", "nearest", "members", "neighbours",
)  # fmt: skip
_CONCEPT_KEYS = ("concept_id", "preferred_name", "score", "source", "same_as")


@dataclass(frozen=True, slots=True)
class Member(Result):
    """One term of a cluster.

    ``similarity`` is its cosine to the representative, in [-1, 1]. ``joined_to`` is the term that it was first joined
    to, ``joined_by`` the reason (``same form``, ``embedding``, ``abbreviation``, ``same concept`` or ``decision``), and
    ``joined_score`` the probability that the two are one concept. The term that begins a cluster has ``""``, ``""`` and
    ``None``. ``score`` rates the term itself for the concept of the cluster, or for the nearest one.
    """

    term: str
    frequency: int = 1
    language: str = ""
    id: str = ""
    similarity: float = 1.0
    joined_to: str = ""
    joined_by: str = ""
    joined_score: float | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Neighbour(Result):
    """A term of another cluster that is close to this cluster.

    ``probability`` rates whether ``term`` and ``member``, a term of this cluster, are one concept. ``apart`` is the
    kind of guard that separates the two (``laterality``, ``number`` ...), ``concept`` if both clusters are known
    concepts, and ``""`` if the probability alone was too low.
    """

    term: str
    cluster: int
    probability: float
    apart: str = ""
    member: str = ""

    @property
    def maybe(self) -> bool:
        """Whether the two may be one concept, so that a reviewer should decide."""
        return not self.apart and self.probability >= MAYBE


@dataclass(frozen=True, slots=True)
class Cluster:
    """Terms of one concept.

    ``members`` begin with the representative. ``concept_id`` is ``None`` for a new concept, and for a name that several
    known concepts share: these are the ``candidates``. ``score``, in [0, 1], is that of the best member for
    ``concept_id``, for the first of the ``candidates``, or for the first of ``nearest``; ``None`` without a link.
    ``doubtful`` asks for a review: the score is close to the threshold, or the members suggest several concepts.
    ``broader`` is a term of a broader cluster, with the probability of that relation.
    """

    number: int = 0
    representative: str = ""
    members: tuple[Member, ...] = ()
    concept_id: str | None = None
    concept_name: str = ""
    score: float | None = None
    nearest: tuple[Candidate, ...] = ()
    parent_id: str | None = None
    parent_name: str = ""
    broader: Neighbour | None = None
    doubtful: bool = False
    neighbours: tuple[Neighbour, ...] = ()
    candidates: tuple[Candidate, ...] = ()

    @property
    def status(self) -> str:
        """Status of the cluster: ``known``, ``ambiguous`` or ``new``."""
        return KNOWN if self.concept_id is not None else AMBIGUOUS if self.candidates else NEW

    @property
    def same_as(self) -> tuple[str, ...]:
        """Ids of the concept in other sources."""
        return next((near.same_as for near in self.nearest if near.concept_id == self.concept_id), ())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        row: dict[str, Any] = {"cluster": self.number, "same_as": list(self.same_as)}
        row["broader"] = self.broader and self.broader.to_dict()
        for key in ("candidates", "nearest"):
            row[key] = [{of: candidate.to_dict()[of] for of in _CONCEPT_KEYS} for candidate in getattr(self, key)]
        row |= {key: [record.to_dict() for record in getattr(self, key)] for key in ("members", "neighbours")}
        return {key: row[key] if key in row else getattr(self, key) for key in _KEYS}


@dataclass(frozen=True, slots=True)
class Summary(Result):
    """Counts over a clustering.

    ``terms`` counts distinct rows, ``forms`` distinct terms regardless of case, accents, hyphens and inflection.
    ``known``, ``ambiguous``, ``new``, ``doubtful`` and ``narrower`` count clusters. ``maybe`` counts pairs of clusters
    that may be one, and ``guarded`` counts pairs of terms that a guard separated.
    """

    terms: int = 0
    forms: int = 0
    clusters: int = 0
    single: int = 0
    largest: int = 0
    known: int = 0
    ambiguous: int = 0
    new: int = 0
    doubtful: int = 0
    maybe: int = 0
    narrower: int = 0
    guarded: int = 0
    threshold: float = 0.0
    encoder: str = ""


class LazyClusters(Sequence[Cluster]):
    """``count`` clusters that ``build`` makes from their index when they are needed."""

    def __init__(self, count: int, build: Callable[[int], Cluster]) -> None:
        self._count, self._build = count, build

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Cluster: ...
    @overload
    def __getitem__(self, index: slice) -> list[Cluster]: ...
    def __getitem__(self, index: int | slice) -> Cluster | list[Cluster]:
        numbers = range(self._count)[index]
        return self._build(numbers) if isinstance(numbers, int) else [self._build(number) for number in numbers]


@dataclass(frozen=True, slots=True)
class Clustering:
    """All clusters and their counts.

    ``clusters`` may build its records on demand: iterate over it, and do not keep millions of records. Without known
    concepts (``has_concepts``) no cluster is known or new. ``empty_columns`` are empty in every row.
    """

    clusters: Sequence[Cluster]
    summary: Summary
    has_concepts: bool = False
    empty_columns: frozenset[str] = frozenset()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {"clusters": [cluster.to_dict() for cluster in self.clusters], "summary": self.summary.to_dict()}

    def lines(self, shape: Shape = "tsv") -> Iterator[str]:
        """Yield the lines of a file: a TSV without its empty columns, JSON lines, or groups to read."""
        if shape != "tsv":
            objects = (json.dumps(cluster.to_dict(), ensure_ascii=False) for cluster in self.clusters)
            lines = objects if shape == "jsonl" else chain(self._groups(), [self.text()])
            yield from (escape_controls(line) + "\n" for line in lines)
            return
        empty = set(_OPTIONAL) - self.empty_columns
        for cluster in self.clusters:
            empty.difference_update([column for row in self._rows(cluster) for column in empty if row[column]])
            if not empty:
                break
        columns = [column for column in COLUMNS if column not in empty | self.empty_columns]
        yield "\t".join(columns) + "\n"

        def rows(numbers: range) -> Iterator[str]:
            for number in numbers:
                for row in self._rows(self.clusters[number]):
                    yield "\t".join([_cell(row[column]) for column in columns]) + "\n"

        # the first clusters have more terms
        count = len(self.clusters)
        part = 2 * count // 5
        with forked(lambda: list(rows(range(part, count))), wanted=count >= MIN_FORKED) as others:
            yield from rows(range(part))
            yield from others()

    def _rows(self, cluster: Cluster) -> Iterator[dict[str, Any]]:
        head = {name: getattr(cluster, name) for name in ("representative", *_CONCEPT[1:])}
        head |= {"cluster": cluster.number, "status": cluster.status if self.has_concepts else None}
        head |= {"broader": cluster.broader and cluster.broader.cluster, "same_as": "|".join(cluster.same_as)}
        head["candidates"] = "|".join(candidate.concept_id for candidate in cluster.candidates)
        maybe = [neighbour for neighbour in cluster.neighbours if neighbour.maybe]
        for member in cluster.members:
            near = "|".join(f"{n.cluster}: {n.term} ({n.probability:.2f})" for n in maybe if n.member == member.term)
            yield head | {name: getattr(member, name) for name in Member.__slots__} | {"maybe": near}

    def _groups(self) -> Iterator[str]:
        for cluster in self.clusters:
            size = f" ({len(cluster.members)})" if len(cluster.members) > 1 else ""
            score = "" if cluster.score is None else f" {cluster.score:.2f}"
            concept = {
                KNOWN: f"  {cluster.concept_id} {cluster.concept_name}{score}",
                AMBIGUOUS: f"  one of {', '.join(candidate.concept_id for candidate in cluster.candidates)}",
                NEW: f"  new{f', below {cluster.parent_id} {cluster.parent_name}' if cluster.parent_id else ''}",
            }[cluster.status]
            yield f"{cluster.number}  {cluster.representative}{size}{concept if self.has_concepts else ''}"
            for member in cluster.members[1:]:
                yield f"    {member.term}"
            if cluster.broader:
                yield f"    broader: {cluster.broader.cluster}  {cluster.broader.term}"
            for near in cluster.neighbours:
                if near.maybe:
                    yield f"    maybe: {near.cluster}  {near.term} ({near.probability:.2f} with {near.member})"

    def text(self) -> str:
        """Return the summary in one line."""
        counts = self.summary
        parts = [
            f"{pluralize(counts.terms, 'term')}, {pluralize(counts.clusters, 'cluster')} "
            f"({counts.single:,} of one term, the largest of {counts.largest:,})",
            f"{counts.narrower:,} narrower than another one, {pluralize(counts.maybe, 'pair')} of clusters may be one, "
            f"{pluralize(counts.guarded, 'near pair')} kept apart by guards",
        ]
        if self.has_concepts:
            ambiguous = f"{counts.ambiguous:,} ambiguous, " if counts.ambiguous else ""
            parts.append(f"{counts.known:,} known, {ambiguous}{counts.new:,} new, {counts.doubtful:,} doubtful")
        return "; ".join(parts)


def _cell(value: object) -> str:
    # tabs and line ends become blanks
    if isinstance(value, str):
        return escape_cell(" ".join(value.split())) if value else value
    return "" if value is None else str(value)
