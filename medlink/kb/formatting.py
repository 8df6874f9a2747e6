"""A concept of a knowledge base as it is shown, as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from medlink.kb.retired import successors
from medlink.kb.store import KnowledgeBase
from medlink.kb.views import ConceptView
from medlink.records import Retired


def fields(records: Iterable[object], *names: str) -> list[dict[str, Any]]:
    """Some fields of each record."""
    return [{name: getattr(record, name) for name in names} for record in records]


def _above(kb: KnowledgeBase, concept_id: str, depth: int) -> Iterator[tuple[int, str, bool]]:
    shown: set[str] = set()
    waiting = [(0, concept_id)]
    while waiting:
        level, current = waiting.pop()
        again = current in shown
        if level:
            yield level, current, again
        shown.add(current)
        if not again and level < depth:
            waiting += [(level + 1, parent) for parent in reversed(kb.parents(current))]


def concept_facts(kb: KnowledgeBase, view: ConceptView, language: str | None, depth: int) -> dict[str, Any]:
    """A concept as plain data."""
    ancestors = kb.ancestors(view.concept_id, depth) if depth else []
    shown = kb.preferred_names([concept_id for concept_id, _ in ancestors], language)
    return {
        **fields([view], "concept_id", "source")[0],
        "preferred_name": kb.preferred_name(view.concept_id, language),
        "ancestors": [
            {"concept_id": above, "depth": level, "preferred_name": shown.get(above)} for above, level in ancestors
        ],
        "names": fields(view.names, "text", "language", "type", "preferred"),
        "definitions": fields(view.definitions, "text", "language"),
        "semantic_types": fields(view.semantic_types, "semantic_type", "code"),
        "mappings": fields(view.mappings, "system", "code", "type"),
    }


def concept_lines(kb: KnowledgeBase, view: ConceptView, language: str | None, depth: int) -> Iterator[str]:
    """A concept as text: parents as a tree, names by language, definitions, semantic types, maps."""
    yield f"{view.concept_id}  {kb.preferred_name(view.concept_id, language)}  ({view.source})"
    types = sorted({item.semantic_type + (f" ({item.code})" if item.code else "") for item in view.semantic_types})
    if types:
        yield "semantic type: " + ", ".join(types)
    for item in view.definitions:
        yield f"definition ({item.language or '-'}): {item.text}"
    above = list(_above(kb, view.concept_id, depth))
    shown = kb.preferred_names([concept_id for _, concept_id, _ in above], language)
    if above:
        yield "parents:"
    for level, concept_id, again in above:
        yield "  " * level + f"{concept_id}  {shown.get(concept_id, '')}" + ("  (see above)" if again else "")
    yield "names:"
    for tag, names in groupby(view.names, lambda name: name.language):
        texts: dict[str, str] = {}
        for name in names:
            texts.setdefault(name.text, "*" * name.preferred)
        yield f"  {tag or '-'}: " + "; ".join(text + mark for text, mark in texts.items())
    if view.mappings:
        yield "maps:"
    for system, mapped in groupby(view.mappings, lambda one: one.system):
        yield f"  {system}: " + ", ".join(dict.fromkeys(one.code for one in mapped))


def retired_facts(kb: KnowledgeBase, said: Sequence[Retired], language: str | None) -> dict[str, Any]:
    """A retired concept as plain data: what its source says, and the concepts that stand for it now."""
    now = successors(kb, said[0].concept_id)
    shown = kb.preferred_names([one.replaced_by for one in now], language)
    return {
        "concept_id": said[0].concept_id,
        "retired": fields(said, "type", "replaced_by", "source"),
        "now": [
            {"concept_id": one.replaced_by, "type": one.type, "preferred_name": shown[one.replaced_by]} for one in now
        ],
    }


def retired_lines(kb: KnowledgeBase, said: Sequence[Retired], language: str | None) -> Iterator[str]:
    """A retired concept as text: what its source says, and the concepts that stand for it now."""
    facts = retired_facts(kb, said, language)
    yield f"{facts['concept_id']}  retired  ({', '.join(dict.fromkeys(one.source for one in said))})"
    known = {one["concept_id"] for one in facts["now"]}
    for one in said:
        if one.replaced_by not in known:
            away = f" {one.replaced_by}, which is not in this knowledge base" if one.replaced_by else ""
            yield one.type.replace("_", " ") + away
    for one in facts["now"]:
        yield f"{one['type'].replace('_', ' ')} {one['concept_id']}  {one['preferred_name']}"
