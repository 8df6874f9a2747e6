"""The records that pass between the rooms: plain, immutable, free of any library.

One term for each thing: ``concept_id`` (a CUI, SCTID or HP id), ``preferred_name``,
``synonym``, ``definition``, ``semantic_type``, ``relation(head, type, tail)``, ``mention``, ``candidate``.
Languages are BCP 47 tags in lower case (``de``, ``en``, ``es``; ``""`` where a source names none).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

FSN = "fsn"
"""Type of a fully specified name, such as ``Asthma (disorder)``: nobody writes it, so it is neither indexed nor trained
on."""


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


Record = Source | Concept | Name | Definition | SemanticType | Relation | Mapping


@dataclass(frozen=True, slots=True)
class Candidate:
    """One concept offered for a mention.

    ``score`` lies in [0, 1], higher is better; ``name`` is the dictionary name that matched best and
    ``route`` how it was found: ``exact``, ``inflected``, ``lexical`` or ``dense``.
    """

    concept_id: str
    preferred_name: str
    score: float
    name: str
    language: str
    route: str
    source: str = ""
    semantic_types: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "semantic_types": list(self.semantic_types)}


@dataclass(frozen=True, slots=True)
class Link:
    """A mention with its ranked candidates, best first.

    ``expanded`` is the long form that was linked instead of an abbreviation. ``nil`` says that no
    candidate reached the threshold; the candidates below it are kept so that a reader can see them.
    """

    mention: str
    candidates: tuple[Candidate, ...] = ()
    nil: bool = True
    expanded: str | None = None

    @property
    def concept_id(self) -> str | None:
        """Id of the best candidate, ``None`` for NIL."""
        return None if self.nil or not self.candidates else self.candidates[0].concept_id

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "mention": self.mention,
            "concept_id": self.concept_id,
            "nil": self.nil,
            "expanded": self.expanded,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
        }
