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

SAME_FORM, EMBEDDING, ABBREVIATION, DECIDED = "same form", "embedding", "abbreviation", "decision"
"""Why a member stands in its cluster; ``""`` for the member that the others were joined to."""

KNOWN, AMBIGUOUS, NEW = "known", "ambiguous", "new"
Shape = Literal["tsv", "jsonl"]
"""How clusters are written: a line for each term, or a JSON object for each cluster."""
COLUMNS = (
    "cluster", "term", "representative", "status", "concept_id", "concept_name", "score", "parent_id", "parent_name",
    "frequency", "language", "id", "similarity", "joined_to", "joined_by", "joined_score", "same_as", "candidates",
)  # fmt: skip
"""Columns of the TSV."""
_KEYS = (
    "cluster", "representative", "status", "concept_id", "concept_name", "same_as", "score", "doubtful", "parent_id",
    "parent_name", "candidates", "nearest", "members", "neighbours",
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
    first, ``joined_by`` one of ``same form``, ``embedding`` and ``abbreviation``, ``joined_score`` the likeness of the
    two; the term that begins a cluster has ``""``, ``""`` and ``None``.

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


@dataclass(frozen=True, slots=True)
class Neighbour(Record):
    """A term of another cluster that lies near this one.

    ``apart`` is the kind of guard that kept the two apart (``laterality``, ``number`` ...), ``""`` where the cut did.

    >>> Neighbour("left arm", 7, 0.91, "laterality").to_dict()["apart"]
    'laterality'
    """

    term: str
    cluster: int
    similarity: float
    apart: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Terms that are taken for one concept.

    ``members`` begin with the representative. ``concept_id`` is ``None`` for a new concept, and for a name of several
    known ones, which are then the ``candidates``. ``score``, in [0, 1], is how well the cluster fits ``concept_id``,
    the first of the ``candidates`` or, where it is new, of ``nearest``; ``None`` where nothing was linked.
    ``doubtful`` asks for a reader: the score is close to the border, or the members speak for several concepts.

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
        for key in ("candidates", "nearest"):
            row[key] = [{of: one.to_dict()[of] for of in _CONCEPT_KEYS} for one in getattr(self, key)]
        row |= {key: [one.to_dict() for one in getattr(self, key)] for key in ("members", "neighbours")}
        return {key: row[key] if key in row else getattr(self, key) for key in _KEYS}


@dataclass(frozen=True, slots=True)
class Summary(Record):
    """Counts over a clustering.

    ``terms`` are distinct rows, ``forms`` what is left of them after case, accents, hyphens and inflection. ``known``,
    ``ambiguous``, ``new`` and ``doubtful`` count clusters; ``guarded`` counts near pairs of terms that a guard kept
    apart.
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
    guarded: int = 0
    abbreviations: int = 0
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

    >>> one = Clustering((Cluster(1, "Fieber", (Member("Fieber"),)),), Summary(terms=1, clusters=1))
    >>> one.to_dict()["summary"]["terms"]
    1
    """

    clusters: Sequence[Cluster]
    summary: Summary
    judged: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {"clusters": [cluster.to_dict() for cluster in self.clusters], "summary": self.summary.to_dict()}

    def lines(self, shape: Shape = "tsv") -> Iterator[str]:
        """The lines of a file: a TSV with :data:`COLUMNS`, or JSON lines."""
        if shape == "jsonl":
            yield from (visible(json.dumps(one.to_dict(), ensure_ascii=False)) + "\n" for one in self.clusters)
            return
        yield "\t".join(COLUMNS) + "\n"
        for one in self.clusters:
            head = one.to_dict() | ({} if self.judged else {"status": None})
            head["same_as"] = "|".join(one.same_as)
            head["candidates"] = "|".join(candidate.concept_id for candidate in one.candidates)
            for member in head.pop("members"):
                row = head | member
                yield "\t".join(_cell(row[column]) for column in COLUMNS) + "\n"

    def text(self) -> str:
        """The summary in one line."""
        one = self.summary
        ambiguous = f"{one.ambiguous:,} ambiguous, " if one.ambiguous else ""
        return (
            f"{counted(one.terms, 'term')}, {counted(one.clusters, 'cluster')} ({one.single:,} of one term, "
            f"the largest of {one.largest:,}); {counted(one.guarded, 'near pair')} kept apart by guards, "
            f"{counted(one.abbreviations, 'abbreviation')} joined"
            + (f"; {one.known:,} known, {ambiguous}{one.new:,} new, {one.doubtful:,} doubtful" if self.judged else "")
        )


def _cell(value: object) -> str:
    """A value as a cell: no tab, no line end, nothing for ``None``; of a text no formula (:func:`as_cell`)."""
    text = "" if value is None else " ".join(str(value).split())
    return as_cell(text) if isinstance(value, str) else text
