"""Profiles of the concepts that compete for a mention, and their prior probability.

Without context the prior decides which concept a shared name means. It is a conditional logit model (McFadden 1974,
section 2): the share of each concept is ``softmax(weights @ features)`` over the concepts that have the name.
``benchmarks/fit_prior.py`` fits the weights on mentions that people linked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from medlink.files.json import read_json
from medlink.files.resources import RESOURCES
from medlink.index import Bundle
from medlink.kb.systems import system_by_name
from medlink.kb.views import Profile
from medlink.language.text import spelling
from medlink.linking.arrays import Floats
from medlink.linking.kinds import find_kind
from medlink.linking.lru import BatchCache

_CACHE_SIZE = 65_536  # concepts, some 2 KB each
# two sources with one CUI mean the same; a code of any other system may be a class of several meanings
_MEANINGS = "umls"
Names = frozenset[tuple[str, str]]
"""Pairs of language and form of a name."""


@lru_cache(maxsize=8192)
def kinds_of(semantic_types: tuple[str, ...]) -> frozenset[str]:
    """Return the kinds of some semantic types; a type without a kind counts as its own kind.

    >>> sorted(kinds_of(("Finding", "Disease or Syndrome"))), sorted(kinds_of(("Laboratory Procedure", "Zebra")))
    (['finding'], ['Zebra', 'measurement'])
    """
    return frozenset(found.kind if (found := find_kind(name)) else name for name in semantic_types)


@lru_cache(maxsize=4096)
def is_same_system(first: str, second: str) -> bool:
    """Return whether two names mean the same coding system; the longer name may add an edition or a version.

    >>> is_same_system("SNOMEDCT", "SNOMED_CT"), is_same_system("UMLS", "UMLS_CUI"), is_same_system("Orphanet", "ORDO")
    (True, True, True)
    >>> is_same_system("MESH", "ME")
    False
    """
    names = (system_by_name(name).name for name in (first, second))
    short, long = sorted(("".join(filter(str.isalnum, name)).casefold() for name in names), key=len)
    return (len(short) > 2 and long.startswith(short)) or (short == long != "")


class ConceptProfile:
    """A concept of the knowledge base, with the data for its prior.

    ``key`` is its number in the index. ``codes`` are pairs of system and code that mean the same
    (:class:`~medlink.kb.views.Profile`). ``sources`` are its source, or for a concept of a compilation such as the UMLS
    the sources of its names. ``languages`` counts the languages of its names. ``features`` are the prior features that
    do not depend on the name, and ``log_odds`` is their weighted sum.
    """

    def __init__(self, key: float, concept_id: str, types: tuple[str, ...], stored: Profile) -> None:
        self.key, self.concept_id, self.source, self.relations = key, concept_id, stored.source, stored.relations
        self.types, self.kinds, self.codes, self._names = frozenset(types), kinds_of(types), stored.codes, stored.names
        naming = frozenset(name.source for name in self._names)
        self.sources = frozenset((self.source,)) if self.source in naming or not naming else naming
        self.languages = len({name.language for name in self._names})
        self.features = PriorFeatures()
        self.log_odds = 0.0

    @cached_property
    def names(self) -> Names:
        """Exact forms of the concept's names."""
        return frozenset((name.language, name.normal) for name in self._names)

    @cached_property
    def preferred(self) -> Names:
        """Exact forms of the preferred names."""
        return frozenset((name.language, name.normal) for name in self._names if name.preferred)

    @cached_property
    def spellings(self) -> Names:
        """Preferred names of the concept, with accents."""
        return frozenset((name.language, spelling(name.text)) for name in self._names if name.preferred)

    @cached_property
    def forms(self) -> frozenset[str]:
        """Exact forms of the concept's names in any language."""
        return frozenset(name.normal for name in self._names)

    def count_sources(self, form: str) -> int:
        """Return the number of sources that have a name of this exact form."""
        return len({name.source for name in self._names if name.normal == form})

    @cached_property
    def ids(self) -> frozenset[str]:
        """Id of the concept with and without prefix, in lower case."""
        full = self.concept_id.casefold()
        return frozenset((full, full.rpartition(":")[2]))

    @cached_property
    def folded_codes(self) -> frozenset[str]:
        """Codes of the concept without their systems, in lower case."""
        return frozenset(code.casefold() for _, code in self.codes)

    @cached_property
    def cuis(self) -> frozenset[str]:
        """Codes of the concept that are CUIs of the UMLS."""
        return frozenset(code.casefold() for system, code in self.codes if is_same_system(_MEANINGS, system))


class PriorFeatures(NamedTuple):
    """Features of a concept that has the best name of a mention; a higher value makes the concept likelier."""

    preferred: float = 0.0  # whether the name is preferred
    spelt: float = 0.0  # whether the name has exactly the letters of the mention, including accents
    name_sources: float = 0.0  # log of the number of sources that give the concept this name
    names: float = 0.0  # log of the number of names of the concept; likewise the next three
    sources: float = 0.0
    languages: float = 0.0
    relations: float = 0.0
    likeness: float = 0.0  # cosine of the name and the mean of all names of the concept
    kind: float = 0.0  # weight of its kind (Prior.kinds)

    def without_popularity(self) -> PriorFeatures:
        """Return only the features that do not measure how well known the concept is."""
        return PriorFeatures(preferred=self.preferred, spelt=self.spelt, kind=self.kind)


_OF_CONCEPTS = [PriorFeatures._fields.index(name) for name in ("names", "sources", "languages", "relations")]
_KIND = PriorFeatures._fields.index("kind")


@dataclass(frozen=True, slots=True)
class Prior:
    """Weights of the features, and the feature value of each kind."""

    weights: PriorFeatures
    kinds: dict[str, float]

    def concept_features(self, concepts: Sequence[ConceptProfile]) -> Floats:
        """Return the features ``(n, f)`` of n concepts; those that depend on a name are 0."""
        counts = [(len(c.forms), len(c.sources), c.languages, c.relations + 1) for c in concepts]
        features = np.zeros((len(concepts), len(PriorFeatures._fields)))
        features[:, _OF_CONCEPTS] = np.log(np.maximum(counts, 1))
        features[:, _KIND] = [max((self.kinds.get(kind, 0.0) for kind in c.kinds), default=0.0) for c in concepts]
        return features

    def has_several_senses(self, concepts: Iterable[ConceptProfile]) -> bool:
        """Whether concepts that share a name have no kind in common; kinds with a weight do not count."""
        plain = [kinds for concept in concepts if (kinds := {k for k in concept.kinds if not self.kinds.get(k)})]
        return len(plain) > 1 and not set.intersection(*plain)

    def log_odds(self, features: PriorFeatures) -> float:
        return sum(weight * value for weight, value in zip(self.weights, features, strict=True))


@cache
def default_prior() -> Prior:
    """Return the weights that ship with medlink."""
    raw = read_json(RESOURCES / "linking" / "prior.json")
    return Prior(PriorFeatures(**raw["weights"]), raw["kinds"])


class ConceptProfiles:
    """Cached profiles of the concepts of a bundle."""

    def __init__(self, bundle: Bundle, prior: Prior) -> None:
        self.bundle, self.prior = bundle, prior
        self._cache = BatchCache[float, ConceptProfile](_CACHE_SIZE)

    @cached_property
    def counts(self) -> dict[str, dict[str, Any]]:
        """Numbers of concepts, names and semantic types by source, in the order in which sources were loaded."""
        counts = self.bundle.kb.counts()["sources"]
        return {source.name: counts[source.name] for source in self.bundle.kb.sources()}

    @cached_property
    def sources(self) -> list[str]:
        return [source for source, count in self.counts.items() if count["concepts"]]

    @cached_property
    def naming(self) -> list[str]:
        """Sources that have concepts, or at least names for concepts of other sources."""
        return [source for source, count in self.counts.items() if count["concepts"] or count["names"]]

    @cached_property
    def has_several_sources(self) -> bool:
        """Whether a concept may occur twice: in two sources, or in two sources of one compilation."""
        names_itself = any(self.counts[source]["names"] for source in self.sources)
        return len(self.sources) > 1 or (len(self.naming) > 1 and not names_itself)

    def get(self, concepts: Collection[float]) -> dict[float, ConceptProfile]:
        return self._cache.get(sorted(set(concepts)), self._read)

    def _read(self, keys: list[float]) -> list[ConceptProfile]:
        ids, types = self.bundle.index.concept_ids(np.array(keys)), self.bundle.index.concept_types(np.array(keys))
        stored = self.bundle.kb.profiles(ids)
        profiles = [ConceptProfile(*row, stored[row[1]]) for row in zip(keys, ids, types, strict=True)]
        features = self.prior.concept_features(profiles)
        odds = features @ np.array(self.prior.weights)
        for concept, row, log_odds in zip(profiles, features.tolist(), odds.tolist(), strict=True):
            concept.features, concept.log_odds = PriorFeatures(*row), log_odds
        return profiles
