"""What the card of a page says of a concept."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a page of clusters alone needs no SQLAlchemy
    from medlink.kb import KnowledgeBase

CONCEPT = ("language", "concept_id", "source", "names", "definitions", "semantic_types", "parents")
"""What :func:`concept_row` gives, in this order; ``language`` is that in which parents are named."""
_NAMES = 12  # of a concept that the card shows in each language


def concept_row(kb: KnowledgeBase, language: str, concept_id: str) -> list[Any] | None:
    """What the card says of a concept; the names of a language begin with the preferred one."""
    concept = kb.get(concept_id)
    if concept is None:
        return None
    names = [
        (tag, list(dict.fromkeys(name.text for name in found)))
        for tag, found in groupby(concept.names, key=lambda name: name.language)
    ]
    return [
        *(language, concept_id, concept.source),
        [[tag, texts[:_NAMES], max(0, len(texts) - _NAMES)] for tag, texts in names],
        list(dict.fromkeys(definition.text for definition in concept.definitions)),
        sorted({one.semantic_type for one in concept.semantic_types}),
        list(kb.preferred_names(kb.parents(concept_id), language).values()),
    ]
