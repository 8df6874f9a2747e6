"""Immutable records that the packages exchange.

``concept_id`` is a CUI, SCTID or HP id. Languages are BCP 47 tags in lower case; ``""`` if the source gives none.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

FSN = "fsn"
"""Type of a fully specified name, such as ``Asthma (disorder)``: it is neither indexed nor used in training."""


class _Serializable:
    __slots__: tuple[str, ...] = ()  # the fields of a record, in order

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Result:
    """Base of results: their fields are plain values, or further results."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Source:
    """One release of a terminology inside a knowledge base."""

    name: str
    version: str = ""
    title: str = ""
    languages: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        return f"{self.name} {self.version}".rstrip()


@dataclass(frozen=True, slots=True)
class Concept:
    """A concept of one source, with its id."""

    concept_id: str
    source: str


@dataclass(frozen=True, slots=True)
class Name:
    """A name of a concept in one language; ``preferred`` marks the name to show in it.

    ``type`` is the source's own: ``preferred``, ``synonym``, ``fsn``, ``lay``, or a UMLS term type such as ``PT``.
    """

    concept_id: str
    text: str
    language: str = ""
    type: str = "synonym"
    source: str = ""
    preferred: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition of a concept in one language."""

    concept_id: str
    text: str
    language: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class SemanticType:
    """A semantic type of a concept; ``code`` is a TUI if the source has one."""

    concept_id: str
    semantic_type: str
    code: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """``head type tail``: ``Relation("A", "isa", "B")`` means that A is a B."""

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
"""Type of a mapping to the code of a concept in its own system."""
NOT_STANDARD: Final = ("classification code", "source code")
"""Types of OMOP concepts that must not be the target of a map: classification concepts and source codes."""


@dataclass(frozen=True, slots=True)
class Retired:
    """A concept that its source has withdrawn, with one replacement; several replacements are several records.

    ``type`` is one of :data:`RETIREMENTS`; ``replaced_by`` is empty if the source names no replacement.
    """

    concept_id: str
    type: str
    replaced_by: str = ""
    source: str = ""


RETIREMENTS: Final = (
    "same_as", "replaced_by", "possibly_equivalent_to", "possibly_replaced_by", "partially_equivalent_to", "similar_to",
    "alternative", "consider", "broader", "narrower", "was_a", "related", "moved_from", "moved_to", "deleted",
)  # fmt: skip
"""Relations of a withdrawn concept to its replacement, the most certain first."""
MERGED: Final = frozenset(RETIREMENTS[:2])
"""Relations to a replacement with the same meaning."""

Record = Source | Concept | Name | Definition | SemanticType | Relation | Mapping | Retired


LINKED: Final = "linked"
AMBIGUOUS: Final = "ambiguous"
NIL: Final = "nil"
Status = Literal["linked", "ambiguous", "nil"]
"""Result for a mention: linked to one concept; ambiguous between several with the same name; or no concept."""


Presence = Literal["present", "absent", "uncertain"]
Temporality = Literal["current", "historical", "hypothetical"]
Experiencer = Literal["patient", "family", "other"]


@dataclass(frozen=True, slots=True)
class Qualifiers(_Serializable):
    """Presence, temporality and experiencer of a mentioned finding, with the values of clinlp and ConText.

    Attributes:
        section: kind of the heading above the mention, empty for none.
        relative: HL7 v3 RoleCode of the relative who has or had the finding, as in FHIR's FamilyMemberHistory.
        onset_age: age in years at which the relative had the finding or died of it.
        allergy: a substance that the person is allergic to and does not take, unlike the finding *penicillin allergy*.
    """

    presence: Presence = "present"
    temporality: Temporality = "current"
    experiencer: Experiencer = "patient"
    section: str = ""
    relative: str = ""
    onset_age: int | None = None
    allergy: bool = False

    @property
    def unusual(self) -> list[str]:
        """The values that differ from those of a present, current finding of the patient."""
        values = self.presence, self.temporality, self.experiencer, "allergy" * self.allergy
        return [value for value in values if value not in ("present", "current", "patient", "")]

    @property
    def is_present(self) -> bool:
        """Whether the patient has or had the finding, or takes or took the drug."""
        return self.is_affirmed and self.experiencer == "patient" and not self.allergy

    @property
    def is_affirmed(self) -> bool:
        """Whether the patient or another person has or had the finding."""
        return self.presence == "present" and self.temporality != "hypothetical"


AttributeKind = Literal["laterality", "severity", "course", "other"]


@dataclass(frozen=True, slots=True)
class Attribute(_Serializable):
    """A word that describes a finding, with its character offsets and, if the terminology has one, its concept."""

    start: int
    end: int
    text: str
    kind: AttributeKind
    concept_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Value(_Serializable):
    """A measured value that is a finding, such as *Hb 7,9*, and the rule that makes it one.

    Attributes:
        number, limit: converted to ``unit``. The number of a value such as *< 10* is its bound.
        reads: ``low`` if the value is below the lower limit, ``high`` if it is above the upper limit.
        by: the basis of the decision: the ``limit`` of medlink's table, or the ``range`` or ``flag`` that the
            laboratory prints.
        source: the source that medlink's table gives for its limit.
    """

    measure: str
    number: float
    unit: str
    reads: Literal["low", "high"]
    by: Literal["limit", "range", "flag"]
    limit: float | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Candidate(_Serializable):
    """A concept offered for a mention.

    Attributes:
        score: in [0, 1], higher is better.
        name: the best matching name of the dictionary.
        route: how it was found: ``exact``, ``inflected``, ``words``, ``dense`` or ``learned``.
        source: that of the concept, which may differ from that of the name.
        same_as: ids of the same concept in other sources.
        presumed: the ids in ``same_as`` that were inferred from names and kind, not from a mapping.
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

    Attributes:
        candidates: all candidates, including those below the threshold.
        status: ``linked``; ``ambiguous`` if the first candidates share the name and nothing decides between them;
            ``nil`` if no candidate reached the threshold.
        expanded: long form that was linked in place of an abbreviation.
    """

    mention: str
    candidates: tuple[Candidate, ...] = ()
    status: Status = NIL
    expanded: str | None = None

    @property
    def nil(self) -> bool:
        """Whether the mention has no concept, because no concept fits or the mention is ambiguous."""
        return self.status != LINKED

    @property
    def concept_id(self) -> str | None:
        """Id of the linked concept, ``None`` if :attr:`nil`."""
        return None if self.nil or not self.candidates else self.candidates[0].concept_id

    def to_dict(self) -> dict[str, Any]:
        return {
            "mention": self.mention, "concept_id": self.concept_id, "nil": self.nil, "status": self.status,
            "expanded": self.expanded, "candidates": [candidate.to_dict() for candidate in self.candidates],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class LinkedMention:
    """A mention by its character offsets in the note, with its link.

    ``qualifiers`` and ``attributes`` are ``None`` if nothing read them, as in a language without cues. ``codes`` are
    the codes of the concept in the systems of the option ``map``.
    """

    start: int
    end: int
    link: Link
    qualifiers: Qualifiers | None = None
    attributes: tuple[Attribute, ...] | None = None
    value: Value | None = None
    codes: tuple[Mapping, ...] = ()

    def readings(self) -> dict[str, Any]:
        """Return qualifiers, attributes and value as plain data; ``None`` for what is empty or was not read."""
        qualifiers = {name: getattr(self.qualifiers, name, None) for name in Qualifiers.__slots__}
        return {
            **{name: None if value == "" else value for name, value in qualifiers.items()},
            "attributes": None if self.attributes is None else [attribute.to_dict() for attribute in self.attributes],
            "value": None if self.value is None else self.value.to_dict(),
        }
