"""A local code, what it is mapped to, and what was decided: the records that readers, proposals and writers share.

The words for status, equivalence and kind of target are those of Usagi
(https://github.com/OHDSI/Usagi), so that its files hold the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from medlink.records import NIL, Candidate, Status

APPROVED, UNCHECKED, AUTO_MAPPED, AUTO_MAPPED_TO_1, INVALID_TARGET, FLAGGED, IGNORED = (
    "APPROVED", "UNCHECKED", "AUTO_MAPPED", "AUTO_MAPPED_TO_1", "INVALID_TARGET", "FLAGGED", "IGNORED",
)  # fmt: skip
STATUSES: Final = (APPROVED, UNCHECKED, AUTO_MAPPED, AUTO_MAPPED_TO_1, INVALID_TARGET, FLAGGED, IGNORED)
"""What became of a code. ``AUTO_MAPPED_TO_1`` says that the code itself means one concept, ``AUTO_MAPPED`` that it
means several."""
DECIDED: Final = frozenset({APPROVED, FLAGGED, IGNORED})
"""What a person decided."""
EQUAL, EQUIVALENT, WIDER, NARROWER, INEXACT, UNMATCHED, UNREVIEWED = (
    "EQUAL", "EQUIVALENT", "WIDER", "NARROWER", "INEXACT", "UNMATCHED", "UNREVIEWED",
)  # fmt: skip
EQUIVALENCES: Final = (EQUAL, EQUIVALENT, WIDER, NARROWER, INEXACT, UNMATCHED, UNREVIEWED)
"""What the target is to the source: ``WIDER`` is a target of a wider meaning."""
MAPS_TO, MAPS_TO_VALUE, MAPS_TO_UNIT = "MAPS_TO", "MAPS_TO_VALUE", "MAPS_TO_UNIT"
KINDS: Final = (MAPS_TO, MAPS_TO_VALUE, MAPS_TO_UNIT)
"""What a target is to its code: its meaning, the value that it states, the unit in which it is measured."""


@dataclass(frozen=True, slots=True)
class SourceCode:
    """A row of a list.

    ``frequency`` is ``None`` where the list has none; ``added`` are its other columns, in their order;
    ``assigned`` are concepts that the list names itself, by the ids that it has for them.
    """

    code: str
    name: str
    frequency: int | None = None
    unit: str = ""
    language: str = ""
    added: tuple[tuple[str, str], ...] = ()
    assigned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """A concept that a code is mapped to; ``created_on`` is in milliseconds since 1970, 0 where nobody says."""

    concept_id: str
    name: str
    domain: str = ""
    kind: str = MAPS_TO
    created_by: str = ""
    created_on: int = 0


@dataclass(frozen=True, slots=True)
class CodeMapping:
    """A code with its targets, and who decided what about it.

    Attributes:
        source: the code.
        targets: its concepts, none where nothing is proposed.
        score: how likely the first target is right, 0 to 1.
        status, equivalence: one of :data:`STATUSES` and of :data:`EQUIVALENCES`.
        set_by, set_on: who set the status, and when, in milliseconds since 1970.
        comment, reviewer: what a person wrote, and whose turn it is.
        link: whether the description was ``linked``, is ``ambiguous``, or ``nil``.
        candidates: ranked concepts, best first.
        evidence: what speaks for the first of them, in words.
        change: what became of the map of an earlier release, in words.
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

    @property
    def decided(self) -> bool:
        """Whether a person decided, which is never written over."""
        return self.status in DECIDED

    @property
    def target(self) -> Target | None:
        """The concept that the code means, without those of value and unit."""
        return next((one for one in self.targets if one.kind == MAPS_TO), None)
