"""Decide which competing concepts of a mention are the same concept in several sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from medlink.errors import ConfigError
from medlink.linking.kinds import kinds
from medlink.linking.lru import BatchCache
from medlink.linking.profiles import ConceptProfile, ConceptProfiles, is_same_system

_CACHE_SIZE = 65_536  # sets of concepts
_MIN_TYPED = 100  # typed concepts from which on sources without a common type use different words

ConceptSet = tuple[float, ...]
"""Keys of the concepts that compete for a mention, in ascending order."""


class ConceptGroup(NamedTuple):
    """Keys of equivalent concepts, the representative first; ``presumed`` keys are equivalent only by name."""

    concepts: tuple[float, ...]
    presumed: frozenset[float] = frozenset()


class ConceptEquivalence:
    """Groups equivalent concepts.

    Two concepts of different sources are equivalent

    - if one maps to the id of the other, or both map to the same CUI of the UMLS, and other concepts of their sources
      do so only inexactly (not ``skos:exactMatch``), if at all;
    - *presumed*: if they share a preferred name in a language, or half of their names, neither maps to another concept
      of the other source, and their kinds agree (:func:`~medlink.linking.profiles.kinds_of`). A concept without a
      semantic type agrees with every kind. If two sources have a hundred typed concepts each and no type in common,
      they name types differently, and their types are ignored.

    A concept of a compilation such as the UMLS has the sources of its names. Two concepts of one source are never
    equivalent. A concept that matches two concepts of another source is equivalent to neither. The representative is
    chosen by ``prefer``, then by the order in which sources were loaded, the prior, and the id.

    Args:
        prefer: sources of concepts or names, semantic types or kinds.
        presume: whether names alone make concepts equivalent.

    Raises:
        ConfigError: the bundle has no such source, type or kind.
    """

    def __init__(self, profiles: ConceptProfiles, prefer: Sequence[str] = (), *, presume: bool = True) -> None:
        self._profiles, self._presume = profiles, presume
        self._prefer = {name: position for position, name in reversed([*enumerate(prefer)])}
        self._cache = BatchCache[ConceptSet, tuple[ConceptGroup, ...]](_CACHE_SIZE)
        known = {*profiles.naming, *profiles.bundle.index.semantic_types, *kinds()} if prefer else set()
        for name in prefer:
            if name not in known:
                raise ConfigError(
                    f"no source, semantic type or kind {name!r} in this knowledge base",
                    remedy=f"known: {', '.join([*profiles.naming[:12], *sorted(kinds())])}, and the semantic types",
                )

    @cached_property
    def _type_words(self) -> dict[str, set[str]]:
        return self._profiles.bundle.kb.semantic_types_by_source()

    @cached_property
    def _source_order(self) -> dict[str, int]:
        return {source: position for position, source in enumerate(self._profiles.sources)}

    def preference(self, concept: ConceptProfile) -> int:
        """Return the position of the first item of ``prefer`` that matches a concept, else the number of items."""
        names = {*concept.sources, concept.source, *concept.types, *concept.kinds}
        return min((self._prefer[name] for name in names & self._prefer.keys()), default=len(self._prefer))

    def groups(self, competing: Collection[ConceptSet]) -> dict[ConceptSet, tuple[ConceptGroup, ...]]:
        """Partition each set of concepts into groups of equivalent concepts."""
        if not self._profiles.has_several_sources:
            return {concepts: tuple(ConceptGroup((key,)) for key in concepts) for concepts in competing}

        def compute(missing: list[ConceptSet]) -> Iterator[tuple[ConceptGroup, ...]]:
            profiles = self._profiles.get({key for concepts in missing for key in concepts})
            return (self._group([profiles[key] for key in concepts]) for concepts in missing)

        return self._cache.get(competing, compute)

    def _group(self, concepts: Sequence[ConceptProfile]) -> tuple[ConceptGroup, ...]:
        pairs = [pair for pair in combinations(concepts, 2) if _may_be_equivalent(*pair)]
        mapped = [pair for pair in pairs if _is_mapped(*pair)]
        alike = [pair for pair in pairs if self._is_alike(*pair)] if self._presume else []
        if not (mapped or alike):
            return tuple(ConceptGroup((concept.key,)) for concept in concepts)
        groups = {concept.key: [concept] for concept in concepts}
        presumed: set[float] = set()
        same_spelling = [(a, b) for a, b in alike if not a.spellings.isdisjoint(b.spellings)]
        for pairs, fit in ((mapped, _may_be_equivalent), (same_spelling, self._fit), (alike, self._fit)):
            for first, second in _unique_pairs(pairs):
                mine, theirs = groups[first.key], groups[second.key]
                # two concepts that share names with a third need not be equivalent to each other
                if mine is not theirs and all(fit(a, b) for a in mine for b in theirs):
                    mine += theirs
                    groups.update((concept.key, mine) for concept in theirs)
                    if pairs is not mapped:
                        presumed |= {first.key, second.key}
        ordered = {}
        for group in groups.values():
            best = sorted(group, key=self._display_order) if len(group) > 1 else group
            keys = tuple(concept.key for concept in best)
            ordered[id(group)] = ConceptGroup(keys, frozenset(keys) & presumed)
        return tuple(ordered.values())

    def _fit(self, first: ConceptProfile, second: ConceptProfile) -> bool:
        return _may_be_equivalent(first, second) and (_is_mapped(first, second) or self._is_alike(first, second))

    def _display_order(self, concept: ConceptProfile) -> tuple[int, int, float, str]:
        return self.preference(concept), self._source_order[concept.source], -concept.log_odds, concept.concept_id

    def _is_alike(self, first: ConceptProfile, second: ConceptProfile) -> bool:
        if not _share_names(first, second):
            return False
        if self._maps_elsewhere(first, second) or self._maps_elsewhere(second, first):
            return False
        return (
            not (first.kinds and second.kinds)
            or not first.kinds.isdisjoint(second.kinds)
            or self._use_different_types(first.source, second.source)
        )

    def _maps_elsewhere(self, concept: ConceptProfile, target: ConceptProfile) -> bool:
        """Whether a concept maps to the source of ``target``, but not to ``target``."""
        if concept.source == target.source:
            return False
        prefix = target.concept_id.rpartition(":")[0]
        codes = {
            code
            for system, code in concept.codes
            if is_same_system(target.source, system) or is_same_system(prefix, system)
        }
        if not codes or any(_is_code_of(*code, target) for code in concept.codes):
            return False
        sources = self._profiles.bundle.kb.sources_of([*codes, *(f"{prefix}:{code}" for code in codes)])
        return target.source in sources.values()

    def _use_different_types(self, first: str, second: str) -> bool:
        if min(self._profiles.counts[source]["semantic_types"] for source in (first, second)) < _MIN_TYPED:
            return False
        return self._type_words.get(first, set()).isdisjoint(self._type_words.get(second, set()))


Pair = tuple[ConceptProfile, ConceptProfile]


def _is_mapped(first: ConceptProfile, second: ConceptProfile) -> bool:
    """Whether one concept maps to the other, or both to one CUI."""
    return not first.cuis.isdisjoint(second.cuis) or _maps_to(first, second) or _maps_to(second, first)


def _maps_to(concept: ConceptProfile, other: ConceptProfile) -> bool:
    return not concept.folded_codes.isdisjoint(other.ids) and any(_is_code_of(*code, other) for code in concept.codes)


def _may_be_equivalent(first: ConceptProfile, second: ConceptProfile) -> bool:
    """Whether no source distinguishes two concepts."""
    return first.source != second.source or first.sources.isdisjoint(second.sources)


def _share_names(first: ConceptProfile, second: ConceptProfile) -> bool:
    """Whether two concepts share a preferred name, or so many names that neither is a part of the other.

    This means half of the names of both, or at least two names that are half of the names of one; one of them must be
    preferred.
    """
    if first.names.isdisjoint(second.names):
        return False
    if not first.preferred.isdisjoint(second.preferred):
        return True
    shared = first.names & second.names
    fewer, more = sorted((len(first.names), len(second.names)))
    many = 2 * len(shared) >= more or (len(shared) > 1 and 2 * len(shared) >= fewer)
    return many and not shared.isdisjoint(first.preferred | second.preferred)


def _unique_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs whose concepts have no second partner in the same source."""
    partners = Counter(end for pair in pairs for end in _ends(*pair))
    return [pair for pair in pairs if all(partners[end] == 1 for end in _ends(*pair))]


def _ends(first: ConceptProfile, second: ConceptProfile) -> Iterator[tuple[float, str]]:
    """Each concept of a pair with the sources of its partner; in a compilation, these are the sources of its names."""
    for concept, partner in ((first, second), (second, first)):
        for source in partner.sources if partner.source == concept.source else (partner.source,):
            yield concept.key, source


def _is_code_of(system: str, code: str, concept: ConceptProfile) -> bool:
    """Whether a code of a system is the id of a concept, with or without its prefix."""
    prefix, _, local = concept.concept_id.rpartition(":")
    if prefix and code.casefold() == concept.concept_id.casefold():
        return True
    return code.casefold() == local.casefold() and (
        is_same_system(prefix, system) or is_same_system(concept.source, system)
    )
