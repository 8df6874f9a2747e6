"""Views of a concept as a whole, and the choice of its display name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping as MappingType
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from medlink.records import Definition, Mapping, Name, SemanticType


@dataclass(frozen=True, slots=True)
class ConceptView:
    """A concept with all its records; ``names`` are ordered by language, preferred first."""

    concept_id: str
    source: str
    preferred_name: str
    names: tuple[Name, ...]
    definitions: tuple[Definition, ...]
    semantic_types: tuple[SemanticType, ...]
    mappings: tuple[Mapping, ...]


class ProfileName(NamedTuple):
    """One name of a concept, with its normalised form."""

    normal: str
    text: str
    language: str
    source: str
    preferred: bool


@dataclass(frozen=True, slots=True)
class Profile:
    """Features that distinguish a concept from others with the same names.

    ``codes`` are its ``(system, code)`` pairs, without broad, narrow and related mappings. A code counts only if no
    other concept of the source maps to it, or none exactly: a code of several concepts is a class. Relations are
    counted up to :data:`medlink.kb.queries.MAX_COUNTED_RELATIONS` in each direction.
    """

    source: str
    names: tuple[ProfileName, ...]
    codes: frozenset[tuple[str, str]]
    relations: int


def choose_name(by_language: MappingType[str, str], language: str | None) -> str | None:
    """Choose the display name, as :meth:`~medlink.kb.store.KnowledgeBase.preferred_name` describes."""

    def distance(tag: str) -> tuple[int, str]:
        base = tag.partition("-")[0]
        near = (tag == language, language is not None and base == language.partition("-")[0], tag == "en", base == "en")
        return (*near, True).index(True), tag

    best = min(by_language, key=distance, default=None)
    return None if best is None else by_language[best]


def sum_counts(by_source: Sequence[MappingType[str, Any]]) -> dict[str, Any]:
    """Return the sums of the counts of sources, as :meth:`~medlink.kb.store.KnowledgeBase.counts` describes them."""
    kinds = ("concepts", "definitions", "semantic_types", "relations", "mappings")
    total: dict[str, Any] = {kind: sum(entry[kind] for entry in by_source) for kind in kinds}
    languages = Counter[str]()
    for entry in by_source:
        languages.update(entry["names"])
    named = {entry["source"]["name"]: {kind: entry[kind] for kind in (*kinds, "names")} for entry in by_source}
    return {
        **total, "names": languages.total(), "names_by_language": dict(sorted(languages.items())), "sources": named,
    }  # fmt: skip
