"""One concept in several sources: which of the concepts that share a name are the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.language.text import normalise, spelling

_REMEMBERED = 65_536  # sets of concepts that share a name whose groups are kept
# Concepts with a type from which on two sources without a type in common use other words for the same.
_TYPED = 100
# A CUI is a meaning, and what two sources give it is what they mean. A code of another system may be a class.
_MEANINGS = "umls"

Tie = tuple[float, ...]
"""Concepts that share a name, by key, ascending."""
Groups = tuple[tuple[float, ...], ...]
"""The same concepts: those that are one stand together, the one that is shown first."""


@dataclass(frozen=True, slots=True)
class _Concept:
    """What says whether a concept is another one as well.

    ``names`` are the exact forms of the preferred ones, with their languages, ``spellings`` the same letter by letter;
    ``codes`` what no other concept of its source maps to.
    """

    key: float
    concept_id: str
    source: str
    spellings: frozenset[tuple[str, str]]
    names: frozenset[tuple[str, str]]
    types: frozenset[str]
    codes: frozenset[tuple[str, str]]


class Equals:
    """Groups concepts that share a name by what they are.

    Two concepts of different sources are one where one is mapped to the id of the other, or both to one CUI of the
    UMLS, and no other concept of their sources is; or where they share a preferred name in a language, letter by letter
    or else but for accents and marks, and a semantic type unless one of them has none, and neither is mapped to another
    concept of the other source. Where both sources have a hundred concepts with a type, and no type in common,
    their types are other words for the same things and say nothing. Two concepts of one source are never one: what may
    be either of them is neither.

    The knowledge base is asked once for each set of concepts; what is kept are keys of concepts.

    Args:
        bundle: where the concepts are from.
        prefer: sources whose concept is shown first, before the others in the order in which they were loaded.

    Raises:
        ConfigError: no source of that name has concepts.
    """

    def __init__(self, bundle: Bundle, prefer: Sequence[str] = ()) -> None:
        self._bundle, self._prefer = bundle, prefer
        self._known: dict[Tie, Groups] = {}
        for source in prefer:
            if source not in self._order:
                raise ConfigError(
                    f"no source {source!r} in this knowledge base", remedy=f"known: {', '.join(self._loaded[:12])}"
                )

    @cached_property
    def _counts(self) -> dict[str, dict[str, int]]:
        """Numbers of concepts and semantic types by source."""
        return dict(self._bundle.kb.counts()["sources"])

    @cached_property
    def _words(self) -> dict[str, set[str]]:
        """Semantic types by source."""
        return self._bundle.kb.type_words()

    @cached_property
    def _loaded(self) -> list[str]:
        """The sources that have concepts, in the order in which they were loaded."""
        return [source.name for source in self._bundle.kb.sources() if self._counts[source.name]["concepts"]]

    @cached_property
    def _order(self) -> dict[str, int]:
        """Places of the sources among equals."""
        wanted = [source for source in self._prefer if source in self._loaded]
        return {source: place for place, source in enumerate(dict.fromkeys((*wanted, *self._loaded)))}

    def groups(self, ties: Collection[Tie]) -> dict[Tie, Groups]:
        """Which concepts of each tie are one."""
        new = {tie for tie in ties if tie not in self._known}
        found = {tie: self._known[tie] for tie in ties if tie not in new}
        if new and len(self._loaded) < 2:
            return found | {tie: tuple((concept,) for concept in tie) for tie in new}
        if new:
            concepts = self._read(sorted({concept for tie in new for concept in tie}))
            found |= {tie: self._grouped([concepts[concept] for concept in tie]) for tie in new}
            if len(self._known) + len(new) > _REMEMBERED:
                self._known.clear()
            self._known.update((tie, found[tie]) for tie in new)
        return found

    def _read(self, keys: list[float]) -> dict[float, _Concept]:
        """What is known of concepts."""
        index, kb = self._bundle.index, self._bundle.kb
        ids, types = index.concept_ids(np.array(keys)), index.concept_types(np.array(keys))
        known, out = kb.identities(ids), {}
        for key, concept_id, kinds in zip(keys, ids, types, strict=True):
            one = known[concept_id]
            spellings = frozenset((language, spelling(text)) for language, text in one.preferred.items())
            names = frozenset((language, normalise(text)) for language, text in one.preferred.items())
            out[key] = _Concept(key, concept_id, one.source, spellings, names, frozenset(kinds), one.codes)
        return out

    def _grouped(self, tie: Sequence[_Concept]) -> Groups:
        """A tie as groups, each in the order of its sources, the groups in that of their first keys."""
        pairs = [pair for pair in combinations(tie, 2) if pair[0].source != pair[1].source]
        groups = {concept.key: [concept] for concept in tie}
        for same in (self._mapped, self._spelt_alike, self._alike):
            for one, other in _only([pair for pair in pairs if same(*pair)]):
                mine, theirs = groups[one.key], groups[other.key]
                if {c.source for c in mine}.isdisjoint(c.source for c in theirs):
                    mine += theirs
                    groups.update((concept.key, mine) for concept in theirs)
        ordered = {
            id(group): tuple(c.key for c in sorted(group, key=lambda c: (self._order[c.source], c.concept_id)))
            for group in groups.values()
        }
        return tuple(ordered.values())

    def _mapped(self, one: _Concept, other: _Concept) -> bool:
        """Whether one of two concepts, and no other of its source, maps to the other one, or both to one CUI."""
        if any(_names(*code, other) for code in one.codes) or any(_names(*code, one) for code in other.codes):
            return True
        meanings = [{code for system, code in of.codes if _like(_MEANINGS, system)} for of in (one, other)]
        return not meanings[0].isdisjoint(meanings[1])

    def _spelt_alike(self, one: _Concept, other: _Concept) -> bool:
        """Whether two concepts are alike, and a preferred name is the same letter by letter."""
        return not one.spellings.isdisjoint(other.spellings) and self._alike(one, other)

    def _alike(self, one: _Concept, other: _Concept) -> bool:
        """Whether two concepts share a preferred name, and a type where their types can be compared."""
        if one.names.isdisjoint(other.names) or self._elsewhere(one, other) or self._elsewhere(other, one):
            return False
        return (
            not (one.types and other.types) or bool(one.types & other.types) or self._foreign(one.source, other.source)
        )

    def _elsewhere(self, one: _Concept, other: _Concept) -> bool:
        """Whether a concept is mapped to a concept of the source of another one, and not to that one."""
        prefix = other.concept_id.rpartition(":")[0]
        codes = {c for system, c in one.codes if _like(other.source, system) or _like(prefix, system)}
        if not codes or any(_names(*code, other) for code in one.codes):
            return False
        found = self._bundle.kb.identities([*codes, *(f"{prefix}:{code}" for code in codes)])
        return any(identity.source == other.source for identity in found.values())

    def _foreign(self, one: str, other: str) -> bool:
        """Whether two sources have types enough to see that they use other words."""
        if min(self._counts[source]["semantic_types"] for source in (one, other)) < _TYPED:
            return False
        return self._words.get(one, set()).isdisjoint(self._words.get(other, set()))


def _only(pairs: Iterable[tuple[_Concept, _Concept]]) -> Iterator[tuple[_Concept, _Concept]]:
    """Pairs whose ends have no other partner of the same source."""
    partners: dict[tuple[float, str], int] = {}
    listed = list(pairs)
    for one, other in listed:
        for end in ((one.key, other.source), (other.key, one.source)):
            partners[end] = partners.get(end, 0) + 1
    for one, other in listed:
        if partners[one.key, other.source] == partners[other.key, one.source] == 1:
            yield one, other


def _names(system: str, code: str, concept: _Concept) -> bool:
    """Whether a code of a system is the id of a concept, with or without its prefix.

    >>> thyroid = _Concept(0.0, "DOID:1459", "DOID", *[frozenset()] * 4)
    >>> _names("doid", "1459", thyroid), _names("DO", "DOID:1459", thyroid), _names("MESH", "1459", thyroid)
    (True, True, False)
    """
    prefix, _, local = concept.concept_id.rpartition(":")
    if prefix and code.casefold() == concept.concept_id.casefold():
        return True
    return code.casefold() == local.casefold() and (_like(prefix, system) or _like(concept.source, system))


def _like(one: str, other: str) -> bool:
    """Whether two names of a system are one, of which one may say more: an edition, a version.

    >>> _like("SNOMEDCT", "SNOMED_CT"), _like("UMLS", "UMLS_CUI"), _like("MESH", "ME"), _like("", "MESH")
    (True, True, False, False)
    """
    short, long = sorted(("".join(filter(str.isalnum, name)).casefold() for name in (one, other)), key=len)
    return (len(short) > 2 and long.startswith(short)) or (short == long != "")
