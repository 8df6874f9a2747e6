"""The records of a clustering: what is printed, written as JSON, and shown to a reader who decides.

Plain data: nothing here computes a cluster. ``score`` and ``similarity`` are higher for better; ``cluster`` numbers
begin at 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, overload

from medlink.files.escapes import as_cell, visible
from medlink.files.problems import counted
from medlink.records import Candidate

SAME_FORM, EMBEDDING, ABBREVIATION = "same form", "embedding", "abbreviation"
LINKED, DECIDED = "same concept", "decision"
"""Why a member stands in its cluster; ``""`` for the member that the others were joined to."""

CONCEPT = "concept"
"""What keeps two clusters apart that are two known concepts."""
KNOWN, AMBIGUOUS, NEW = "known", "ambiguous", "new"
Shape = Literal["tsv", "jsonl", "groups"]
"""How clusters are written: a line for each term, a JSON object for each cluster, or groups to read."""
COLUMNS = (
    "cluster", "term", "representative", "status", "concept_id", "concept_name", "score", "parent_id", "parent_name",
    "broader", "frequency", "language", "id", "similarity", "joined_to", "joined_by", "joined_score", "maybe",
    "same_as", "candidates",
)  # fmt: skip
"""Columns of the TSV."""
CONCEPT_COLUMNS = (
    "status", "concept_id", "concept_name", "score", "parent_id", "parent_name", "same_as", "candidates",
)  # fmt: skip
"""Columns that hold nothing where no concept is known and no reader decided."""
_OPTIONAL = (*CONCEPT_COLUMNS, "broader", "language", "id", "maybe")
"""Columns that are left out where they hold nothing in any line."""
MAYBE = 0.2
"""Probability from which on two terms of different clusters may be one concept."""
_KEYS = (
    "cluster", "representative", "status", "concept_id", "concept_name", "same_as", "score", "doubtful", "parent_id",
    "parent_name", "broader", "candidates", "nearest", "members", "neighbours",
)  # fmt: skip
_CONCEPT_KEYS = ("concept_id", "preferred_name", "score", "source", "same_as")


@dataclass(frozen=True, slots=True)
class Record:
    """Base of records whose fields are plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Member(Record):
    """One term of a cluster.

    ``similarity`` is its cosine to the representative, in [-1, 1]. ``joined_to`` is the term that it was joined to
    first, ``joined_by`` one of ``same form``, ``embedding``, ``abbreviation``, ``same concept`` and ``decision``,
    ``joined_score`` the probability that the two are one concept; the term that begins a cluster has ``""``, ``""`` and
    ``None``. ``score`` is how well the term itself fits the concept of the cluster, or the nearest where it has none.

    >>> Member("Herzinfarkt", 3, "de").to_dict()["joined_to"]
    ''
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
class Neighbour(Record):
    """A term of another cluster that lies near this one.

    ``probability`` is that of ``term`` and ``member``, a term of this cluster, being one concept. ``apart`` is the kind
    of guard that kept the two apart (``laterality``, ``number`` ...), ``concept`` where both clusters are known ones,
    ``""`` where the probability did.

    >>> Neighbour("left arm", 7, 0.91, "laterality").maybe, Neighbour("Dyspnoe", 8, 0.41, member="Atemnot").maybe
    (False, True)
    """

    term: str
    cluster: int
    probability: float
    apart: str = ""
    member: str = ""

    @property
    def maybe(self) -> bool:
        """Whether the two may be one concept, so that a reader should decide."""
        return not self.apart and self.probability >= MAYBE


@dataclass(frozen=True, slots=True)
class Cluster:
    """Terms that are taken for one concept.

    ``members`` begin with the representative. ``concept_id`` is ``None`` for a new concept, and for a name of several
    known ones, which are then the ``candidates``. ``score``, in [0, 1], is how well the best member fits
    ``concept_id``, the first of the ``candidates`` or, where it is new, of ``nearest``; ``None`` where nothing was
    linked.
    ``doubtful`` asks for a reader: the score is close to the border, or the members speak for several concepts.
    ``broader`` is a term of another cluster than which this one is narrower, with the probability of that.

    >>> one = Cluster(1, "Fieber", (Member("Fieber"),))
    >>> one.status, one.to_dict()["concept_id"]
    ('new', None)
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
        """``known``, ``ambiguous`` or ``new``."""
        return KNOWN if self.concept_id is not None else AMBIGUOUS if self.candidates else NEW

    @property
    def same_as(self) -> tuple[str, ...]:
        """Ids under which other sources have the concept."""
        return next((one.same_as for one in self.nearest if one.concept_id == self.concept_id), ())

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        row: dict[str, Any] = {"cluster": self.number, "same_as": list(self.same_as)}
        row["broader"] = None if self.broader is None else self.broader.to_dict()
        for key in ("candidates", "nearest"):
            row[key] = [{of: one.to_dict()[of] for of in _CONCEPT_KEYS} for one in getattr(self, key)]
        row |= {key: [one.to_dict() for one in getattr(self, key)] for key in ("members", "neighbours")}
        return {key: row[key] if key in row else getattr(self, key) for key in _KEYS}


@dataclass(frozen=True, slots=True)
class Summary(Record):
    """Counts over a clustering.

    ``terms`` are distinct rows, ``forms`` what is left of them after case, accents, hyphens and inflection. ``known``,
    ``ambiguous``, ``new`` and ``doubtful`` count clusters, and ``narrower`` those that are below another one;
    ``maybe`` counts pairs of clusters that may be one, ``guarded`` pairs of terms that a guard kept apart.
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
    """So many clusters that ``at`` makes, by index from 0, when they are asked for."""

    def __init__(self, count: int, at: Callable[[int], Cluster]) -> None:
        self._count, self._at = count, at

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Cluster: ...
    @overload
    def __getitem__(self, index: slice) -> list[Cluster]: ...
    def __getitem__(self, index: int | slice) -> Cluster | list[Cluster]:
        places = range(self._count)[index]
        return self._at(places) if isinstance(places, int) else [self._at(place) for place in places]


@dataclass(frozen=True, slots=True)
class Clustering:
    """All clusters and their counts.

    ``clusters`` is a sequence that may make its records when they are asked for: iterate over it, and do not keep all
    of them where there are millions. Without known concepts to compare with (``judged``) no cluster is known or new.
    ``absent`` are columns of which whoever made the clusters knows that they hold nothing.

    >>> one = Clustering((Cluster(1, "Fieber", (Member("Fieber"),)),), Summary(terms=1, clusters=1))
    >>> one.to_dict()["summary"]["terms"]
    1
    """

    clusters: Sequence[Cluster]
    summary: Summary
    judged: bool = False
    absent: frozenset[str] = frozenset()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {"clusters": [cluster.to_dict() for cluster in self.clusters], "summary": self.summary.to_dict()}

    def lines(self, shape: Shape = "tsv") -> Iterator[str]:
        """The lines of a file: a TSV with the :data:`COLUMNS` that hold anything, JSON lines, or groups to read."""
        if shape == "groups":
            yield from self._groups()
            return
        if shape == "jsonl":
            yield from (visible(json.dumps(one.to_dict(), ensure_ascii=False)) + "\n" for one in self.clusters)
            return
        empty = set(_OPTIONAL) - self.absent
        for one in self.clusters:
            empty.difference_update([column for row in self._rows(one) for column in empty if row[column]])
            if not empty:
                break
        columns = [column for column in COLUMNS if column not in empty | self.absent]
        yield "\t".join(columns) + "\n"
        for one in self.clusters:
            for row in self._rows(one):
                yield "\t".join(_cell(row[column]) for column in columns) + "\n"

    def _rows(self, cluster: Cluster) -> Iterator[dict[str, Any]]:
        head = {name: getattr(cluster, name) for name in ("representative", "concept_id", "concept_name", "parent_id")}
        head |= {"cluster": cluster.number, "parent_name": cluster.parent_name, "same_as": "|".join(cluster.same_as)}
        head["status"] = cluster.status if self.judged else None
        head["broader"] = cluster.broader.cluster if cluster.broader else None
        head["candidates"] = "|".join(candidate.concept_id for candidate in cluster.candidates)
        maybe = [one for one in cluster.neighbours if one.maybe]
        for member in cluster.members:
            near = "|".join(f"{n.cluster}: {n.term} ({n.probability:.2f})" for n in maybe if n.member == member.term)
            yield head | {name: getattr(member, name) for name in Member.__slots__} | {"maybe": near}

    def _groups(self) -> Iterator[str]:
        for one in self.clusters:
            size = f" ({len(one.members)})" if len(one.members) > 1 else ""
            score = "" if one.score is None else f" {one.score:.2f}"
            concept = {
                KNOWN: f"  {one.concept_id} {one.concept_name}{score}",
                AMBIGUOUS: f"  one of {', '.join(candidate.concept_id for candidate in one.candidates)}",
                NEW: f"  new{f', below {one.parent_id} {one.parent_name}' if one.parent_id else ''}",
            }[one.status]
            yield visible(f"{one.number}  {one.representative}{size}{concept if self.judged else ''}") + "\n"
            for member in one.members[1:]:
                yield visible(f"    {member.term}") + "\n"
            if one.broader:
                yield visible(f"    broader: {one.broader.cluster}  {one.broader.term}") + "\n"
            for near in one.neighbours:
                if near.maybe:
                    yield (
                        visible(f"    maybe: {near.cluster}  {near.term} ({near.probability:.2f} with {near.member})")
                        + "\n"
                    )
        yield self.text() + "\n"

    def text(self) -> str:
        """The summary in one line."""
        one = self.summary
        ambiguous = f"{one.ambiguous:,} ambiguous, " if one.ambiguous else ""
        return (
            f"{counted(one.terms, 'term')}, {counted(one.clusters, 'cluster')} ({one.single:,} of one term, "
            f"the largest of {one.largest:,}); {one.narrower:,} narrower than another one, "
            f"{counted(one.maybe, 'pair')} of clusters may be one, {counted(one.guarded, 'near pair')} kept apart by "
            "guards"
            + (f"; {one.known:,} known, {ambiguous}{one.new:,} new, {one.doubtful:,} doubtful" if self.judged else "")
        )


def _cell(value: object) -> str:
    """A value as a cell: no tab, no line end, nothing for ``None``; of a text no formula (:func:`as_cell`)."""
    text = "" if value is None else " ".join(str(value).split())
    return as_cell(text) if isinstance(value, str) else text
