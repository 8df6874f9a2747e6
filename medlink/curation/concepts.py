"""Concepts as the pages show them: one concept for its card, and the results of a search."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from medlink.language.tags import language_tag

if TYPE_CHECKING:
    from medlink.kb import KnowledgeBase
    from medlink.linking import Linker

CONCEPT = ("language", "concept_id", "source", "names", "definitions", "semantic_types", "parents")
"""Columns of :func:`concept_row`; ``language`` is the language of the parents' names."""
_MAX_NAMES = 12  # of a concept in each language
MAX_HITS = 20
_MAX_QUERY = 500  # characters


def concept_row(kb: KnowledgeBase, language: str, concept_id: str) -> list[Any] | None:
    """Return a concept for its card; the names of each language begin with the preferred name."""
    concept = kb.get(concept_id)
    if concept is None:
        return None
    names = [
        (tag, list(dict.fromkeys(name.text for name in found)))
        for tag, found in groupby(concept.names, key=lambda name: name.language)
    ]
    return [
        *(language, concept_id, concept.source),
        [[tag, texts[:_MAX_NAMES], max(0, len(texts) - _MAX_NAMES)] for tag, texts in names],
        list(dict.fromkeys(definition.text for definition in concept.definitions)),
        sorted({kind.semantic_type for kind in concept.semantic_types}),
        list(kb.preferred_names(kb.parents(concept_id), language).values()),
    ]


def concept_card(kb: KnowledgeBase, language: str, concept_id: str) -> dict[str, Any] | None:
    """Return :func:`concept_row` with the names of its columns."""
    row = concept_row(kb, language, concept_id)
    return None if row is None else dict(zip(CONCEPT, row, strict=True))


def search_concepts(linker: Linker, text: str, language: str, limit: int = MAX_HITS) -> list[dict[str, Any]]:
    """Find concepts by id, by linking the text, and by names that contain its words; the exact id comes first."""
    from medlink.linking import Mention

    text, kb, tag = text.strip()[:_MAX_QUERY], linker.kb, language_tag(language) or None
    if not text:
        return []
    link = linker.link([Mention(text, tag)], k=limit)[0]
    linked = {candidate.concept_id: candidate.to_dict() for candidate in link.candidates}
    # the linker splits compounds, and a search at each key must not read all words of the names
    named = [text] * (text in kb) + [name.concept_id for name in kb.search(text, limit, inside=False)]
    ids = dict.fromkeys([*named, *linked])
    names = kb.preferred_names(ids, tag)
    empty: dict[str, Any] = {"score": None, "source": "", "name": "", "language": "", "route": "", "same_as": []}
    hits = [linked.get(id_) or {**empty, "concept_id": id_, "preferred_name": names.get(id_, id_)} for id_ in ids]
    # linked concepts by score, then other names
    return sorted(hits, key=lambda hit: (hit["concept_id"] != text, -(hit["score"] or 0)))[:limit]
