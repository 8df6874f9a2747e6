"""One concept in several sources: which of the concepts that compete for a mention are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from medlink.errors import ConfigError
from medlink.linking.lru import Memo
from medlink.linking.profiles import ConceptProfile, ConceptProfiles, kinds, same_system

_REMEMBERED = 65_536  # sets of concepts whose groups are kept
# Concepts with a type from which on two sources without a type in common use other words for the same.
_TYPED = 100

Rivals = tuple[float, ...]
"""Concepts that compete for a mention, by key, ascending."""


class Same(NamedTuple):
    """Concepts that are one: keys, the one to show first; ``presumed`` are those that only their names say so of."""

    concepts: tuple[float, ...]
    presumed: frozenset[float] = frozenset()


class ConceptEquivalence:
    """Groups concepts by what they are.

    Two concepts of different sources are one

    - where one is mapped to the id of the other, or both to one CUI of the UMLS, and no other concept of their sources
      is;
    - *presumed*: where they share a preferred name in a language, or half of their names, neither is mapped to another
      concept of the other source, and their kinds agree (:func:`~medlink.linking.profiles.kinds_of`). A concept without
      a semantic type fits every kind. Where two sources have a hundred concepts with a type each and no type in common,
      their types are other words for the same things and say nothing.

    The concepts of a compilation such as the UMLS have the sources of their names. Two concepts of one source are never
    one, and a concept that fits two of another source is neither. Of concepts that are one, ``prefer`` decides which is
    shown, then the order in which their sources were loaded, then the prior, then their ids.

    ``prefer`` are sources of concepts or names, semantic types or kinds; ``presume`` says whether names alone make two
    concepts one.

    Raises:
        ConfigError: nothing in the bundle has that source, type or kind.
    """

    def __init__(self, profiles: ConceptProfiles, prefer: Sequence[str] = (), *, presume: bool = True) -> None:
        self._profiles, self._presume = profiles, presume
        self._prefer = {name: place for place, name in reversed([*enumerate(prefer)])}
        self._known = Memo[Rivals, tuple[Same, ...]](_REMEMBERED)
        known = {*profiles.naming, *profiles.bundle.index.semantic_types, *kinds()} if prefer else set()
        for name in prefer:
            if name not in known:
                raise ConfigError(
                    f"no source, semantic type or kind {name!r} in this knowledge base",
                    remedy=f"known: {', '.join([*profiles.naming[:12], *sorted(kinds())])}, and the semantic types",
                )

    @cached_property
    def _words(self) -> dict[str, set[str]]:
        return self._profiles.bundle.kb.type_words()

    @cached_property
    def _order(self) -> dict[str, int]:
        return {source: place for place, source in enumerate(self._profiles.sources)}

    def preference(self, concept: ConceptProfile) -> int:
        """The place of the first of ``prefer`` that a concept fits, else a greater number."""
        names = {*concept.sources, concept.source, *concept.types, *concept.kinds}
        return min((self._prefer[name] for name in names & self._prefer.keys()), default=len(self._prefer))

    def groups(self, rivals: Collection[Rivals]) -> dict[Rivals, tuple[Same, ...]]:
        """Which of the concepts that compete are one; a group for each concept that is no other."""
        if not self._profiles.several:
            return {each: tuple(Same((concept,)) for concept in each) for each in rivals}

        def grouped(new: list[Rivals]) -> Iterator[tuple[Same, ...]]:
            concepts = self._profiles.of({concept for each in new for concept in each})
            return (self._grouped([concepts[concept] for concept in each]) for each in new)

        return self._known.get(rivals, grouped)

    def _grouped(self, rivals: Sequence[ConceptProfile]) -> tuple[Same, ...]:
        pairs = [pair for pair in combinations(rivals, 2) if _may_be_one(*pair)]
        mapped = [pair for pair in pairs if _mapped(*pair)]
        alike = [pair for pair in pairs if self._alike(*pair)] if self._presume else []
        if not (mapped or alike):
            return tuple(Same((concept.key,)) for concept in rivals)
        groups = {concept.key: [concept] for concept in rivals}
        presumed: set[float] = set()
        spelt_alike = [(one, other) for one, other in alike if not one.spellings.isdisjoint(other.spellings)]
        for pairs, fit in ((mapped, _may_be_one), (spelt_alike, self._fit), (alike, self._fit)):
            for one, other in _only(pairs):
                mine, theirs = groups[one.key], groups[other.key]
                # names that two share with a third do not make the two one
                if mine is not theirs and all(fit(a, b) for a in mine for b in theirs):
                    mine += theirs
                    groups.update((concept.key, mine) for concept in theirs)
                    if pairs is not mapped:
                        presumed |= {one.key, other.key}
        ordered = {}
        for group in groups.values():
            best = sorted(group, key=self._shown_first) if len(group) > 1 else group
            keys = tuple(concept.key for concept in best)
            ordered[id(group)] = Same(keys, frozenset(keys) & presumed)
        return tuple(ordered.values())

    def _fit(self, one: ConceptProfile, other: ConceptProfile) -> bool:
        return _may_be_one(one, other) and (_mapped(one, other) or self._alike(one, other))

    def _shown_first(self, concept: ConceptProfile) -> tuple[int, int, float, str]:
        return self.preference(concept), self._order[concept.source], -concept.standing, concept.concept_id

    def _alike(self, one: ConceptProfile, other: ConceptProfile) -> bool:
        if not _share_names(one, other) or self._elsewhere(one, other) or self._elsewhere(other, one):
            return False
        return (
            not (one.kinds and other.kinds)
            or not one.kinds.isdisjoint(other.kinds)
            or self._foreign(one.source, other.source)
        )

    def _elsewhere(self, one: ConceptProfile, other: ConceptProfile) -> bool:
        """Whether a concept is mapped to a concept of the source of another one, and not to that one."""
        if one.source == other.source:
            return False
        prefix = other.concept_id.rpartition(":")[0]
        codes = {c for system, c in one.codes if same_system(other.source, system) or same_system(prefix, system)}
        if not codes or any(_names(*code, other) for code in one.codes):
            return False
        found = self._profiles.bundle.kb.sources_of([*codes, *(f"{prefix}:{code}" for code in codes)])
        return other.source in found.values()

    def _foreign(self, one: str, other: str) -> bool:
        if min(self._profiles.counts[source]["semantic_types"] for source in (one, other)) < _TYPED:
            return False
        return self._words.get(one, set()).isdisjoint(self._words.get(other, set()))


Pair = tuple[ConceptProfile, ConceptProfile]


def _mapped(one: ConceptProfile, other: ConceptProfile) -> bool:
    """Whether one concept maps to the other, or both map to one CUI."""
    return not one.meanings.isdisjoint(other.meanings) or _maps_to(one, other) or _maps_to(other, one)


def _maps_to(one: ConceptProfile, other: ConceptProfile) -> bool:
    return not one.folded.isdisjoint(other.ids) and any(_names(*code, other) for code in one.codes)


def _may_be_one(one: ConceptProfile, other: ConceptProfile) -> bool:
    """Whether no source tells two concepts apart."""
    return one.source != other.source or one.sources.isdisjoint(other.sources)


def _share_names(one: ConceptProfile, other: ConceptProfile) -> bool:
    """Whether two concepts share a preferred name, or so many names that one cannot be part of the other.

    That is half of the names of each; or half of those of one, two at least. A preferred name of either is among them.
    """
    if one.names.isdisjoint(other.names):
        return False
    if not one.preferred.isdisjoint(other.preferred):
        return True
    shared = one.names & other.names
    fewer, more = sorted((len(one.names), len(other.names)))
    many = 2 * len(shared) >= more or (len(shared) > 1 and 2 * len(shared) >= fewer)
    return many and not shared.isdisjoint(one.preferred | other.preferred)


def _only(pairs: Sequence[Pair]) -> list[Pair]:
    partners = Counter(seen for pair in pairs for seen in _partners(*pair))
    return [pair for pair in pairs if all(partners[seen] == 1 for seen in _partners(*pair))]


def _partners(one: ConceptProfile, other: ConceptProfile) -> Iterator[tuple[float, str]]:
    """Each end of a pair with the sources of its partner; within a compilation these are the sources of its names."""
    for end, partner in ((one, other), (other, one)):
        for source in partner.sources if partner.source == end.source else (partner.source,):
            yield end.key, source


def _names(system: str, code: str, concept: ConceptProfile) -> bool:
    """Whether a code of a system is the id of a concept, with or without its prefix."""
    prefix, _, local = concept.concept_id.rpartition(":")
    if prefix and code.casefold() == concept.concept_id.casefold():
        return True
    return code.casefold() == local.casefold() and (same_system(prefix, system) or same_system(concept.source, system))
