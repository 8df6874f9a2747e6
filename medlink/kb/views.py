"""What a knowledge base says of a concept as a whole, and which of its names is shown."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from typing import NamedTuple

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


class ProfileName(NamedTuple):
    """One name of a concept: its exact form, its text, and who has it."""

    normal: str
    text: str
    language: str
    source: str
    preferred: bool


@dataclass(frozen=True, slots=True)
class Profile:
    """What tells a concept from others of its names.

    Codes are ``(system, code)`` pairs to which no other concept of its source maps: what several map to is a class of
    them. Relations are counted up to :data:`medlink.kb.queries.COUNTED` in each direction.
    """

    source: str
    names: tuple[ProfileName, ...]
    codes: frozenset[tuple[str, str]]
    relations: int


def name_to_show(by_language: MappingType[str, str], language: str | None) -> str | None:
    """The preferred name to show: see :meth:`~medlink.kb.store.KnowledgeBase.preferred_name`."""

    def distance(tag: str) -> tuple[int, str]:
        base = tag.partition("-")[0]
        near = (tag == language, language is not None and base == language.partition("-")[0], tag == "en", base == "en")
        return (*near, True).index(True), tag

    best = min(by_language, key=distance, default=None)
    return None if best is None else by_language[best]
