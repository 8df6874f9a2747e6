"""Concepts that compete for a mention: their kinds, what the knowledge base says of them, and how likely each is.

The prior says which concept a name means where several have it, before anything is known of the text around it. It is a
conditional logit model (McFadden 1974, section 2): the share of each concept is ``softmax(weights @ features)`` over
the concepts that have the name. ``benchmarks/fit_prior.py`` fits the weights on mentions that people linked.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.index import Bundle
from medlink.kb.views import Profile
from medlink.language.text import spelling
from medlink.linking.lru import Memo

_KEPT = 65_536  # concepts that are kept, some 2 KB each
# A CUI is a meaning, and what two sources give it is what they mean. A code of another system may be a class.
_MEANINGS = "umls"
Names = frozenset[tuple[str, str]]
"""Pairs of language and form of a name."""


def _resource(name: str) -> str:
    return resources.files("medlink").joinpath(f"resources/linking/{name}").read_text("utf-8")


@cache
def _kinds() -> dict[str, str]:
    """The kind of each semantic type.

    The kinds follow the semantic groups of the UMLS (McCray et al. 2001, table 2) and the semantic tags of SNOMED CT
    (Editorial Guide, "Semantic tag"); attributes of a patient that are measured have a kind of their own.
    """
    rows = csv.DictReader(_resource("kinds.tsv").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return {row["semantic_type"].casefold(): row["kind"] for row in rows}


def kinds() -> frozenset[str]:
    """All kinds."""
    return frozenset(_kinds().values())


@lru_cache(maxsize=8192)
def kinds_of(semantic_types: tuple[str, ...]) -> frozenset[str]:
    """The kinds of some semantic types; a type that no kind is known of stands for itself.

    >>> sorted(kinds_of(("Finding", "Disease or Syndrome"))), sorted(kinds_of(("Laboratory Procedure", "Zebra")))
    (['finding'], ['Zebra', 'measurement'])
    """
    return frozenset(_kinds().get(one.casefold(), one) for one in semantic_types)


@lru_cache(maxsize=4096)
def same_system(one: str, other: str) -> bool:
    """Whether two names mean one system; the longer may add an edition or a version.

    >>> same_system("SNOMEDCT", "SNOMED_CT"), same_system("UMLS", "UMLS_CUI"), same_system("MESH", "ME")
    (True, True, False)
    """
    short, long = sorted(("".join(filter(str.isalnum, name)).casefold() for name in (one, other)), key=len)
    return (len(short) > 2 and long.startswith(short)) or (short == long != "")


class ConceptProfile:
    """A concept by its number in the index, and what is worked out of it when it is first asked for."""

    def __init__(self, key: float, concept_id: str, types: tuple[str, ...], stored: Profile) -> None:
        self.key, self.concept_id, self.source, self.relations = key, concept_id, stored.source, stored.relations
        self.types, self.kinds, self.codes, self._names = frozenset(types), kinds_of(types), stored.codes, stored.names
        naming = frozenset(name.source for name in self._names)
        self.sources = frozenset((self.source,)) if self.source in naming or not naming else naming
        """Who names it: its own source, or where that is a compilation such as the UMLS the sources of its names."""
        self.languages = len({name.language for name in self._names})
        self.known = PriorFeatures()
        """What speaks for it, whatever its name, and ``standing``, the log odds of that."""
        self.standing = 0.0

    @cached_property
    def names(self) -> Names:
        """Exact forms of its names."""
        return frozenset((name.language, name.normal) for name in self._names)

    @cached_property
    def preferred(self) -> Names:
        """Those of its preferred names."""
        return frozenset((name.language, name.normal) for name in self._names if name.preferred)

    @cached_property
    def spellings(self) -> Names:
        """Preferred names letter by letter."""
        return frozenset((name.language, spelling(name.text)) for name in self._names if name.preferred)

    @cached_property
    def forms(self) -> frozenset[str]:
        """Exact forms of its names in whatever language."""
        return frozenset(name.normal for name in self._names)

    def says(self, form: str) -> int:
        """How many sources name it so."""
        return len({name.source for name in self._names if name.normal == form})

    @cached_property
    def ids(self) -> frozenset[str]:
        """Its id with and without a prefix, in small letters."""
        full = self.concept_id.casefold()
        return frozenset((full, full.rpartition(":")[2]))

    @cached_property
    def folded(self) -> frozenset[str]:
        """Codes of other systems that no other concept of its source maps to, in small letters."""
        return frozenset(code.casefold() for _, code in self.codes)

    @cached_property
    def meanings(self) -> frozenset[str]:
        """Those that are CUIs of the UMLS."""
        return frozenset(code.casefold() for system, code in self.codes if same_system(_MEANINGS, system))


class PriorFeatures(NamedTuple):
    """What speaks for a concept; each is higher for the likelier one.

    ``preferred``: the name is a preferred one. ``spelt``: it is written with the letters of the mention, accents
    included. Logarithms of how many ``name_sources`` name the concept so, and how many ``names``, ``sources``,
    ``languages`` and ``relations`` it has. ``likeness``: cosine of the name and the mean of all its names. ``kind``:
    what its kind of thing counts (:attr:`Prior.kinds`).
    """

    preferred: float = 0.0
    spelt: float = 0.0
    name_sources: float = 0.0
    names: float = 0.0
    sources: float = 0.0
    languages: float = 0.0
    relations: float = 0.0
    likeness: float = 0.0
    kind: float = 0.0

    def of_the_name(self) -> PriorFeatures:
        """Without what says how well known the concept is."""
        return PriorFeatures(preferred=self.preferred, spelt=self.spelt, kind=self.kind)


_OF_CONCEPTS = [PriorFeatures._fields.index(name) for name in ("names", "sources", "languages", "relations")]
_KIND = PriorFeatures._fields.index("kind")


@dataclass(frozen=True, slots=True)
class Prior:
    """Weights of the features."""

    weights: PriorFeatures
    kinds: dict[str, float]

    def known(self, concepts: Sequence[ConceptProfile]) -> NDArray[np.float64]:
        """The features ``(n, f)`` of n concepts that no name decides; the others are 0."""
        counts = [(len(c.forms), len(c.sources), c.languages, c.relations + 1) for c in concepts]
        found = np.zeros((len(concepts), len(PriorFeatures._fields)))
        found[:, _OF_CONCEPTS] = np.log(np.maximum(counts, 1))
        found[:, _KIND] = [max((self.kinds.get(kind, 0.0) for kind in c.kinds), default=0.0) for c in concepts]
        return found

    def tells_senses(self, concepts: Iterable[ConceptProfile]) -> bool:
        """Whether concepts of one name are different kinds of thing, none of which counts less than the others."""
        plain = [kinds for concept in concepts if (kinds := {k for k in concept.kinds if not self.kinds.get(k)})]
        return len(plain) > 1 and not set.intersection(*plain)

    def log_odds(self, features: PriorFeatures) -> float:
        """The weighted sum of the features."""
        return sum(weight * value for weight, value in zip(self.weights, features, strict=True))


@cache
def default_prior() -> Prior:
    """The weights that ship with medlink."""
    raw = json.loads(_resource("prior.json"))
    return Prior(PriorFeatures(**raw["weights"]), raw["kinds"])


class ConceptProfiles:
    """Profiles of the concepts of a bundle, by a prior which of them are likelier."""

    def __init__(self, bundle: Bundle, prior: Prior) -> None:
        self.bundle, self.prior = bundle, prior
        self._kept = Memo[float, ConceptProfile](_KEPT)

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
        return self._kept.get(sorted(set(concepts)), self._read)

    def _read(self, keys: list[float]) -> list[ConceptProfile]:
        ids, types = self.bundle.index.concept_ids(np.array(keys)), self.bundle.index.concept_types(np.array(keys))
        stored = self.bundle.kb.profiles(ids)
        found = [ConceptProfile(*one, stored[one[1]]) for one in zip(keys, ids, types, strict=True)]
        known = self.prior.known(found)
        odds = known @ np.array(self.prior.weights)
        for concept, row, standing in zip(found, known.tolist(), odds.tolist(), strict=True):
            concept.known, concept.standing = PriorFeatures(*row), standing
        return found
