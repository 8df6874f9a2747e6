"""Select concepts by options: descendants of some concepts, not of others, or by an expression constraint."""

from __future__ import annotations

from collections.abc import Collection

from medlink.errors import ConfigError
from medlink.kb import KnowledgeBase
from medlink.kb.ecl import select_concepts


def select_branches(
    kb: KnowledgeBase,
    *,
    under: Collection[str] = (),
    not_under: Collection[str] = (),
    ecl: str | None = None,
    left_out: Collection[str] = (),
) -> frozenset[str] | None:
    """Return the ids of the selected concepts without those ``left_out``, ``None`` for all concepts.

    Memory grows with the selected concepts.

    Raises:
        ConfigError: a concept does not exist, the constraint cannot be parsed, or no concept is left.
    """
    for concept_id in (*under, *not_under):
        if concept_id not in kb:
            remedy = "check the id, or leave it out"
            raise ConfigError(f"there is no concept {concept_id!r}", path=kb.path, remedy=remedy)
    excluded = set(left_out)
    if not_under:
        excluded |= kb.descendants(not_under) | set(not_under)
    if not (under or excluded or ecl is not None):
        return None
    chosen = [kb.descendants(under) | set(under)] if under else []
    chosen += [] if ecl is None else [select_concepts(kb, ecl)]
    chosen = chosen or [{concept.concept_id for concept in kb.iter_concepts()}]
    remaining = frozenset(set.intersection(*chosen) - excluded)
    if not remaining:
        raise ConfigError("the filters leave no concept", path=kb.path, remedy="remove some of them")
    return remaining
