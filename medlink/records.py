"""The records that pass between the rooms: plain, immutable, free of any library.

One term for each thing: ``concept_id`` (a CUI, SCTID or HP id), ``preferred_name``,
``synonym``, ``definition``, ``semantic_type``, ``relation(head, type, tail)``, ``mention``, ``candidate``.
Languages are BCP 47 tags in lower case (``de``, ``en``, ``es``; ``""`` where a source names none).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

FSN = "fsn"
"""Type of a fully specified name, such as ``Asthma (disorder)``: nobody writes it, so it is neither indexed nor trained
on."""


class _Plain:
    """A record that is written as JSON."""

    __slots__: tuple[str, ...] = ()  # of a record its fields, in order

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Source:
    """One release of a terminology inside a knowledge base."""

    name: str
    version: str = ""
    title: str = ""
    languages: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        """The name with the version, where there is one."""
        return f"{self.name} {self.version}".rstrip()


@dataclass(frozen=True, slots=True)
class Concept:
    """A meaning with an id of its own, of one source."""

    concept_id: str
    source: str


@dataclass(frozen=True, slots=True)
class Name:
    """One name of a concept.

    ``type`` is the source's own word for the kind of name (``preferred``, ``synonym``, ``fsn``, ``lay``,
    or a UMLS term type such as ``PT``); ``preferred`` marks the one name shown for its language.
    """

    concept_id: str
    text: str
    language: str = ""
    type: str = "synonym"
    source: str = ""
    preferred: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition of a concept."""

    concept_id: str
    text: str
    language: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class SemanticType:
    """One semantic type of a concept; ``code`` is a TUI where the source has one."""

    concept_id: str
    semantic_type: str
    code: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """``head type tail``, read from left to right: ``Relation("A", "isa", "B")`` says that A is a B."""

    head: str
    type: str
    tail: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Mapping:
    """A code in another system that a concept maps to."""

    concept_id: str
    system: str
    code: str
    type: str = "related"
    source: str = ""


CODE: Final = "code"
"""Type of a mapping to the code that a concept has in its own system."""
NOT_STANDARD: Final = ("classification code", "source code")
"""The same for OMOP concepts that are not allowed as targets of a map: those of classifications and of sources."""


@dataclass(frozen=True, slots=True)
class Retired:
    """A concept that its source has withdrawn, and one that its source names in its place.

    ``type`` is one of :data:`RETIREMENTS`; ``replaced_by`` is empty where the source names none. A concept for which
    the source names several has several of these.
    """

    concept_id: str
    type: str
    replaced_by: str = ""
    source: str = ""


RETIREMENTS: Final = (
    "same_as", "replaced_by", "possibly_equivalent_to", "possibly_replaced_by", "partially_equivalent_to", "similar_to",
    "alternative", "consider", "broader", "narrower", "was_a", "related", "moved_from", "moved_to", "deleted",
)  # fmt: skip
"""What a source says of a concept that it has withdrawn, from the surest stand-in to none."""
MERGED: Final = frozenset(RETIREMENTS[:2])
"""Those by which the meaning goes on under another id."""

Record = Source | Concept | Name | Definition | SemanticType | Relation | Mapping | Retired


LINKED: Final = "linked"
AMBIGUOUS: Final = "ambiguous"
NIL: Final = "nil"
Status = Literal["linked", "ambiguous", "nil"]
"""What became of a mention: one concept; a name of several concepts, of which none is said to be meant; nothing."""


Presence = Literal["present", "absent", "uncertain"]
Temporality = Literal["current", "historical", "hypothetical"]
Experiencer = Literal["patient", "family", "other"]


@dataclass(frozen=True, slots=True)
class Qualifiers(_Plain):
    """What a note says of a finding that it mentions, in the words of clinlp and of ConText.

    ``section`` is the kind of the heading that the mention stands under, empty under none.
    """

    presence: Presence = "present"
    temporality: Temporality = "current"
    experiencer: Experiencer = "patient"
    section: str = ""

    @property
    def is_present(self) -> bool:
        """Whether the patient has the finding, or had it: neither absent nor doubtful nor only feared."""
        return (self.presence, self.experiencer) == ("present", "patient") and self.temporality != "hypothetical"


def qualified(qualifiers: Qualifiers | None) -> dict[str, str | None]:
    """Qualifiers as plain data, ready for JSON: ``None`` for what was not read, and for no section."""
    return {name: getattr(qualifiers, name, None) or None for name in Qualifiers.__slots__}


AttributeKind = Literal["laterality", "severity", "course", "other"]


@dataclass(frozen=True, slots=True)
class Attribute(_Plain):
    """What a note says of a finding in words of their own: its side, its degree, its course, or something else.

    ``start`` and ``end`` are characters of the note. ``concept_id`` and ``name`` are those of the concept, and ``None``
    where the terminology has none.
    """

    start: int
    end: int
    text: str
    kind: AttributeKind
    concept_id: str | None = None
    name: str | None = None


def attributed(attributes: tuple[Attribute, ...] | None) -> dict[str, list[dict[str, Any]] | None]:
    """The attributes of a mention as plain data, ready for JSON: ``None`` where they were not read."""
    return {"attributes": None if attributes is None else [one.to_dict() for one in attributes]}


@dataclass(frozen=True, slots=True)
class Value(_Plain):
    """A measured value that is a finding, such as *Hb 7,9*, and by which rule it is one.

    ``number`` and ``limit`` are in ``unit``, whatever unit the note has; ``reads`` is the side of the limit. ``by`` is
    the ``limit`` of a table, of which ``source`` names the origin, or the ``range`` or ``flag`` that the laboratory
    prints.
    """

    measure: str
    number: float
    unit: str
    reads: Literal["low", "high"]
    by: Literal["limit", "range", "flag"]
    limit: float | None = None
    source: str = ""


def valued(value: Value | None) -> dict[str, dict[str, Any] | None]:
    """The value of a mention as plain data, ready for JSON: ``None`` where it is none."""
    return {"value": None if value is None else value.to_dict()}


@dataclass(frozen=True, slots=True)
class Candidate(_Plain):
    """One concept offered for a mention.

    ``score`` lies in [0, 1], higher is better; ``name`` is the dictionary name that matched best and
    ``route`` how it was found: ``exact``, ``inflected``, ``words``, ``dense`` or ``learned``. ``same_as`` are the ids
    under which other sources have the same concept; ``presumed`` are those of them that no mapping, but their names and
    their kind say so of.
    """

    concept_id: str
    preferred_name: str
    score: float
    name: str
    language: str
    route: str
    source: str = ""
    semantic_types: tuple[str, ...] = ()
    same_as: tuple[str, ...] = ()
    presumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A mention with its ranked candidates, best first.

    ``status`` is ``linked``; ``ambiguous`` where the mention is as good as a name of several concepts, the first of the
    candidates, and nothing says which is meant; or ``nil`` where no candidate reached the threshold. Candidates below
    the threshold are kept so that a reader can see them. ``expanded`` is the long form that was linked instead of an
    abbreviation.
    """

    mention: str
    candidates: tuple[Candidate, ...] = ()
    status: Status = NIL
    expanded: str | None = None

    @property
    def nil(self) -> bool:
        """Whether there is no concept to take for the mention, because none fits or because several do."""
        return self.status != LINKED

    @property
    def concept_id(self) -> str | None:
        """Id of the concept, ``None`` where :attr:`nil` says that there is none: a wrong code does harm."""
        return None if self.nil or not self.candidates else self.candidates[0].concept_id

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "mention": self.mention,
            "concept_id": self.concept_id,
            "nil": self.nil,
            "status": self.status,
            "expanded": self.expanded,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
        }
