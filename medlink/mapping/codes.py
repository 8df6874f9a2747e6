"""A local code, its targets, and decisions about it: records of readers, proposals and writers.

Status, equivalence and kind of target have the values of Usagi (https://github.com/OHDSI/Usagi).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from medlink.records import NIL, Candidate, Qualifiers, Status

APPROVED, UNCHECKED, AUTO_MAPPED, AUTO_MAPPED_TO_1, INVALID_TARGET, FLAGGED, IGNORED = (
    "APPROVED", "UNCHECKED", "AUTO_MAPPED", "AUTO_MAPPED_TO_1", "INVALID_TARGET", "FLAGGED", "IGNORED",
)  # fmt: skip
STATUSES: Final = (APPROVED, UNCHECKED, AUTO_MAPPED, AUTO_MAPPED_TO_1, INVALID_TARGET, FLAGGED, IGNORED)
"""Status of a code. ``AUTO_MAPPED_TO_1``: the code itself means one concept; ``AUTO_MAPPED``: it means several."""
DECIDED: Final = frozenset({APPROVED, FLAGGED, IGNORED})
"""Statuses that a person decided."""
EQUAL, EQUIVALENT, WIDER, NARROWER, INEXACT, UNMATCHED, UNREVIEWED = (
    "EQUAL", "EQUIVALENT", "WIDER", "NARROWER", "INEXACT", "UNMATCHED", "UNREVIEWED",
)  # fmt: skip
EQUIVALENCES: Final = (EQUAL, EQUIVALENT, WIDER, NARROWER, INEXACT, UNMATCHED, UNREVIEWED)
"""Relations of the target to the source: a ``WIDER`` target has a wider meaning."""
MAPS_TO, MAPS_TO_VALUE, MAPS_TO_UNIT = "MAPS_TO", "MAPS_TO_VALUE", "MAPS_TO_UNIT"
KINDS: Final = (MAPS_TO, MAPS_TO_VALUE, MAPS_TO_UNIT)
"""Kinds of target: the meaning of the code, the value that it states, its unit."""


@dataclass(frozen=True, slots=True)
class SourceCode:
    """A row of a list with its further columns, and with the concept ids that the list itself assigns."""

    code: str
    name: str
    frequency: int | None = None
    unit: str = ""
    language: str = ""
    added: tuple[tuple[str, str], ...] = ()
    assigned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """A concept that a code is mapped to; ``created_on`` is in milliseconds since 1970, 0 if unknown."""

    concept_id: str
    name: str
    domain: str = ""
    kind: str = MAPS_TO
    created_by: str = ""
    created_on: int = 0


@dataclass(frozen=True, slots=True)
class CodeMapping:
    """A code with its targets and decisions.

    ``score`` is the probability that the first target is right. ``set_by`` set the status, at ``set_on`` (milliseconds
    since 1970). ``link`` is ``linked``, ``ambiguous`` or ``nil``, for the description. ``candidates`` are ranked
    concepts, best first, with the ``evidence`` for the first. ``change`` is the result for the map of an earlier
    release. ``qualifiers`` are those that the description gives the finding, such as history; ``None`` for none.
    """

    source: SourceCode
    targets: tuple[Target, ...] = ()
    score: float = 0.0
    status: str = UNCHECKED
    equivalence: str = UNREVIEWED
    set_by: str = ""
    set_on: int = 0
    comment: str = ""
    reviewer: str = ""
    link: Status = NIL
    candidates: tuple[Candidate, ...] = ()
    evidence: str = ""
    change: str = ""
    qualifiers: Qualifiers | None = None

    @property
    def decided(self) -> bool:
        """Whether a person decided; such a map is never changed."""
        return self.status in DECIDED

    @property
    def target(self) -> Target | None:
        """The concept that the code means, if any."""
        return next((target for target in self.targets if target.kind == MAPS_TO), None)
