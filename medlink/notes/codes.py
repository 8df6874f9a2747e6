"""Codes of concepts in other systems, as the mappings of the knowledge base have them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from medlink.kb import KnowledgeBase
from medlink.kb.systems import named
from medlink.records import Candidate, Mapping

_REMEMBERED = 65_536  # concepts


class Codes:
    """The codes of concepts in some systems; a system is known under each of its names (``ICD10CM``, ``ICD-10-CM``)."""

    def __init__(self, kb: KnowledgeBase, systems: Sequence[str]) -> None:
        self._kb = kb
        self._systems = {named(system).name: number for number, system in enumerate(systems)}
        self._of = lru_cache(_REMEMBERED)(self._mappings)

    def of(self, candidate: Candidate) -> tuple[Mapping, ...]:
        """The codes of a candidate, and those under its ids of other sources: by system as asked for, then by code."""
        if not self._systems:
            return ()
        found = {one: None for concept in (candidate.concept_id, *candidate.same_as) for one in self._of(concept)}
        # two ids of one concept may have one code
        distinct = {(named(one.system).name, one.code): one for one in reversed(found)}
        return tuple(sorted(distinct.values(), key=lambda one: (self._systems[named(one.system).name], one.code)))

    def _mappings(self, concept_id: str) -> list[Mapping]:
        return [one for one in self._kb.mappings(concept_id) if named(one.system).name in self._systems]
