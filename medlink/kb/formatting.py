"""Concepts of a knowledge base as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from medlink.kb.retired import successors
from medlink.kb.store import KnowledgeBase
from medlink.kb.views import ConceptView
from medlink.records import Retired


def select_fields(records: Iterable[object], *names: str) -> list[dict[str, Any]]:
    return [{name: getattr(record, name) for name in names} for record in records]


def concept_to_dict(kb: KnowledgeBase, view: ConceptView, language: str | None, depth: int) -> dict[str, Any]:
    """Return a concept as plain data."""
    ancestors = kb.ancestors(view.concept_id, depth) if depth else []
    labels = kb.preferred_names([concept_id for concept_id, _ in ancestors], language)
    return {
        **select_fields([view], "concept_id", "source")[0],
        "preferred_name": kb.preferred_name(view.concept_id, language),
        "ancestors": [
            {"concept_id": key, "depth": level, "preferred_name": labels.get(key)} for key, level in ancestors
        ],
        "names": select_fields(view.names, "text", "language", "type", "preferred"),
        "definitions": select_fields(view.definitions, "text", "language"),
        "semantic_types": select_fields(view.semantic_types, "semantic_type", "code"),
        "mappings": select_fields(view.mappings, "system", "code", "type"),
    }


def format_concept(kb: KnowledgeBase, view: ConceptView, language: str | None, depth: int) -> Iterator[str]:
    """Format a concept as lines of text, with its parents as a tree."""
    yield f"{view.concept_id}  {kb.preferred_name(view.concept_id, language)}  ({view.source})"
    types = sorted({item.semantic_type + (f" ({item.code})" if item.code else "") for item in view.semantic_types})
    if types:
        yield "semantic type: " + ", ".join(types)
    for item in view.definitions:
        yield f"definition ({item.language or '-'}): {item.text}"
    # level, id, and whether the concept stands above already
    tree: list[tuple[int, str, bool]] = []
    seen, stack = set[str](), [(0, view.concept_id)]
    while stack:
        level, current = stack.pop()
        tree.append((level, current, current in seen))
        if current not in seen and level < depth:
            stack += [(level + 1, parent) for parent in reversed(kb.parents(current))]
        seen.add(current)
    labels = kb.preferred_names([concept_id for _, concept_id, _ in tree], language)
    if tree[1:]:
        yield "parents:"
    for level, concept_id, repeated in tree[1:]:
        yield "  " * level + f"{concept_id}  {labels.get(concept_id, '')}" + ("  (see above)" if repeated else "")
    yield "names:"
    for tag, names in groupby(view.names, lambda name: name.language):
        texts: dict[str, str] = {}
        for name in names:
            texts.setdefault(name.text, "*" * name.preferred)
        yield f"  {tag or '-'}: " + "; ".join(text + mark for text, mark in texts.items())
    if view.mappings:
        yield "maps:"
    for system, mappings in groupby(view.mappings, lambda mapping: mapping.system):
        yield f"  {system}: " + ", ".join(dict.fromkeys(mapping.code for mapping in mappings))


def retired_to_dict(kb: KnowledgeBase, records: Sequence[Retired], language: str | None) -> dict[str, Any]:
    """Return a retired concept as plain data: the records of its retirement, and its current successors."""
    now = successors(kb, records[0].concept_id)
    labels = kb.preferred_names([record.replaced_by for record in now], language)
    return {
        "concept_id": records[0].concept_id,
        "retired": select_fields(records, "type", "replaced_by", "source"),
        "now": [
            {"concept_id": record.replaced_by, "type": record.type, "preferred_name": labels[record.replaced_by]}
            for record in now
        ],
    }


def format_retired(kb: KnowledgeBase, records: Sequence[Retired], language: str | None) -> Iterator[str]:
    """Format a retired concept and its current successors as lines of text."""
    data = retired_to_dict(kb, records, language)
    yield f"{data['concept_id']}  retired  ({', '.join(dict.fromkeys(record.source for record in records))})"
    present = {successor["concept_id"] for successor in data["now"]}
    for record in records:
        if record.replaced_by not in present:
            absent = f" {record.replaced_by}, which is not in this knowledge base" if record.replaced_by else ""
            yield record.type.replace("_", " ") + absent
    for successor in data["now"]:
        yield f"{successor['type'].replace('_', ' ')} {successor['concept_id']}  {successor['preferred_name']}"
