"""What a knowledge base says of a concept as a whole, and which of its names is shown."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import dataclass

from medlink.records import Definition, Mapping, Name, SemanticType


@dataclass(frozen=True, slots=True)
class ConceptView:
    """A concept with all that its source says of it; ``names`` are ordered by language, preferred first."""

    concept_id: str
    source: str
    preferred_name: str
    names: tuple[Name, ...]
    definitions: tuple[Definition, ...]
    semantic_types: tuple[SemanticType, ...]
    mappings: tuple[Mapping, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """What a concept may be known by in another source: preferred names by language, codes as (system, code).

    Codes are those that no other concept of its source maps to: what several map to is a class of them.
    """

    source: str
    preferred: dict[str, str]
    codes: frozenset[tuple[str, str]]


def name_to_show(by_language: MappingType[str, str], language: str | None) -> str | None:
    """The preferred name to show: see :meth:`~medlink.kb.store.KnowledgeBase.preferred_name`."""

    def distance(tag: str) -> tuple[int, str]:
        """How far a tag is from the language that is wished for."""
        base = tag.partition("-")[0]
        near = (tag == language, language is not None and base == language.partition("-")[0], tag == "en", base == "en")
        return (*near, True).index(True), tag

    best = min(by_language, key=distance, default=None)
    return None if best is None else by_language[best]
