"""What is known of concepts that compete for a mention, read from the knowledge base when they are first met."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from cachetools import LRUCache

from medlink.index import Bundle
from medlink.language.text import spelling
from medlink.linking.kinds import kinds_of

_KEPT = 65_536  # concepts that are kept, some 2 KB each
Names = frozenset[tuple[str, str]]
"""Pairs of language and form of a name."""


@dataclass(frozen=True, slots=True, eq=False)
class ConceptProfile:
    """A concept.

    Attributes:
        key: its number in the index.
        concept_id: its id.
        source: what it is loaded from.
        sources: who names it: ``source``, or where that is a compilation such as the UMLS the sources of its names.
        names: exact forms of its names.
        preferred: those of its preferred names.
        labels: preferred names as they are written.
        says: for each exact form the sources that name it so.
        types: semantic types.
        kinds: what kinds of thing these are.
        codes: codes of other systems that no other concept of its source maps to.
        relations: how many relations it has, counted up to a hundred at each end.
    """

    key: float
    concept_id: str
    source: str
    sources: frozenset[str]
    names: Names
    preferred: Names
    labels: tuple[tuple[str, str], ...]
    says: dict[str, frozenset[str]]
    types: frozenset[str]
    kinds: frozenset[str]
    codes: frozenset[tuple[str, str]]
    relations: int

    @property
    def spellings(self) -> Names:
        """Preferred names letter by letter."""
        return frozenset((language, spelling(text)) for language, text in self.labels)


class ConceptProfiles:
    """Profiles of the concepts of a bundle.

    Args:
        bundle: where the concepts are from.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self._kept: LRUCache[float, ConceptProfile] = LRUCache(_KEPT)
        self._lock = Lock()

    @cached_property
    def counts(self) -> dict[str, dict[str, Any]]:
        """Numbers of concepts, names and semantic types by source, in the order in which these were loaded."""
        counts = self.bundle.kb.counts()["sources"]
        return {source.name: counts[source.name] for source in self.bundle.kb.sources()}

    @cached_property
    def sources(self) -> list[str]:
        """The sources that have concepts."""
        return [source for source, count in self.counts.items() if count["concepts"]]

    @cached_property
    def naming(self) -> list[str]:
        """The sources that have concepts or names."""
        return [source for source, count in self.counts.items() if count["concepts"] or count["names"]]

    @cached_property
    def several(self) -> bool:
        """Whether one concept may be there twice: in two sources, or in two of those that a compilation names."""
        names_itself = any(self.counts[source]["names"] for source in self.sources)
        return len(self.sources) > 1 or (len(self.naming) > 1 and not names_itself)

    def of(self, concepts: Collection[float]) -> dict[float, ConceptProfile]:
        """The profiles of some concepts."""
        with self._lock:
            found = {key: self._kept[key] for key in concepts if key in self._kept}
        new = sorted(set(concepts) - found.keys())
        if new:
            read = self._read(new)
            with self._lock:
                self._kept.update(read)
            found.update(read)
        return found

    def _read(self, keys: list[float]) -> dict[float, ConceptProfile]:
        index = self.bundle.index
        ids, types = index.concept_ids(np.array(keys)), index.concept_types(np.array(keys))
        known, out = self.bundle.kb.profiles(ids), {}
        for key, concept_id, tags in zip(keys, ids, types, strict=True):
            one = known[concept_id]
            says: dict[str, set[str]] = {}
            for name in one.names:
                says.setdefault(name.normal, set()).add(name.source)
            naming = {name.source for name in one.names}
            preferred = [name for name in one.names if name.preferred]
            out[key] = ConceptProfile(
                key,
                concept_id,
                one.source,
                frozenset((one.source,) if one.source in naming or not naming else naming),
                frozenset((name.language, name.normal) for name in one.names),
                frozenset((name.language, name.normal) for name in preferred),
                tuple((name.language, name.text) for name in preferred),
                {form: frozenset(sources) for form, sources in says.items()},
                frozenset(tags),
                kinds_of(tags),
                one.codes,
                one.relations,
            )
        return out
