"""Concepts that may be targets, their ids in files, and the concepts that codes of other systems mean."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from medlink.kb import KnowledgeBase
from medlink.kb.retired import successors
from medlink.kb.systems import System, system_by_name
from medlink.linking.branches import select_branches
from medlink.mapping.codes import MAPS_TO, Target
from medlink.mapping.options import MapOptions
from medlink.records import CODE, MERGED, NOT_STANDARD, Candidate

_CACHED = 65_536  # concepts
_OMOP = "OMOP:"
NONE = "0"
"""Id of no concept in files of OMOP and Usagi."""
ASSIGNED = "assigned by the list"
_EXACT = frozenset({CODE, "exact", "maps_to"})
"""Types of mappings by which a code means the concept itself, such as OMOP's maps of other codes."""


def allowed_targets(kb: KnowledgeBase, options: MapOptions) -> frozenset[str] | None:
    """Return the ids of the allowed targets, ``None`` for all concepts.

    Of OMOP vocabularies only standard concepts are allowed, unless ``standard`` is off.

    Raises:
        ConfigError: a concept does not exist, a constraint cannot be parsed, or no concept is left.
    """
    left_out = set[str]()
    if options.standard:
        left_out.update(mapping.concept_id for mapping in kb.iter_mappings(types=NOT_STANDARD))
    return select_branches(kb, under=options.under, not_under=options.not_under, ecl=options.ecl, left_out=left_out)


class Targets:
    """Makes targets of concepts; ``day`` is the day of the proposals in milliseconds since 1970, or 0."""

    def __init__(self, kb: KnowledgeBase, day: int = 0) -> None:
        self._kb, self._day = kb, day
        self.domain = lru_cache(_CACHED)(self._find_domain)
        self._is_omop = any(source.name == _OMOP.rstrip(":") for source in kb.sources())

    def parse_id(self, written: str) -> str:
        """Parse an id of a file, ``""`` for no concept; numbers of OMOP get the prefix ``OMOP:``."""
        written = written.strip()
        if not written or written == NONE:
            return ""
        return f"{_OMOP}{written}" if self._is_omop and written.isdecimal() else written

    @staticmethod
    def format_id(concept_id: str) -> str:
        """Format an id for a file: an OMOP concept as its number."""
        return concept_id.removeprefix(_OMOP) or NONE

    def make_targets(self, concept_ids: Iterable[str], kind: str = MAPS_TO) -> list[Target]:
        """Make targets that medlink proposes, with English names where the concepts have any."""
        ids = list(concept_ids)
        names = self._kb.preferred_names(ids, "en")
        origin = ("medlink" if self._day else "", self._day)
        return [Target(item, names.get(item, item), self.domain(item), kind, *origin) for item in ids]

    def decided(self, concept_id: str) -> Target:
        """Make the target of a decision that states only an id; the name is the present one."""
        name = self._kb.preferred_names([concept_id], "en").get(concept_id, "")
        return Target(concept_id, name, self.domain(concept_id))

    def _find_domain(self, concept_id: str) -> str:
        """Return the first semantic type of a concept, which for OMOP is its domain."""
        types = self._kb.semantic_types(concept_id)
        return types[0].semantic_type if types else ""

    def vocabularies(self, concept_ids: Iterable[str]) -> dict[str, str]:
        """Return the vocabulary of each concept: the system of its own code, else its source."""
        ids = list(dict.fromkeys(concept_ids))
        sources = self._kb.sources_of(ids)
        for concept_id, mappings in self._kb.mappings_of(ids).items():
            own = [mapping.system for mapping in mappings if mapping.type in (CODE, *NOT_STANDARD)]
            if own and concept_id.startswith(_OMOP):
                sources[concept_id] = own[0]
        return sources

    def make_candidate(self, concept_id: str, language: str | None, score: float, route: str) -> Candidate:
        """Make a candidate that does not come from linking a name."""
        title = self._kb.preferred_name(concept_id, language) or concept_id
        types = tuple(kind.semantic_type for kind in self._kb.semantic_types(concept_id))
        source = self._kb.sources_of([concept_id]).get(concept_id, "")
        return Candidate(concept_id, title, score, title, language or "", route, source, types)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Concepts of a code: those that it means, and ``related`` ones, such as the concepts under a code of a
    classification. ``sources`` tells what leads to each: a code of a system, or the list itself."""

    exact: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


class CodeEvidence:
    """Finds concepts of codes. ``among`` are allowed targets, ``None`` for all; ``system`` is that of the list."""

    def __init__(self, kb: KnowledgeBase, among: Collection[str] | None, system: str | None) -> None:
        self._kb, self._among, self._system = kb, among, system

    def find(self, code: str, inside: Sequence[tuple[str, str]], assigned: Iterable[str] = ()) -> Evidence:
        """Find the concepts of the code of a row, and of pairs of system and code in its description.

        The code of the row counts if its system is known or it has the prefix of a concept id (``HP:0001945``,
        ``LOINC:718-7``), because a bare number may belong to any system. Concepts that the list has ``assigned`` count
        as well, or what they were merged into.
        """
        exact = {concept_id: ASSIGNED for given in assigned for concept_id in self._find_assigned(given)}
        related: dict[str, str] = {}
        for system, text in (*self._codes_of_row(code), *inside):
            for concept_id, kind in self._find_concepts(system_by_name(system), system, text):
                (exact if kind in _EXACT else related).setdefault(concept_id, f"code {text} of {system}")
        return Evidence(tuple(sorted(exact)), tuple(sorted(related.keys() - exact.keys())), related | exact)

    def knows(self, codes: Iterable[str]) -> bool:
        """Return whether one of the codes leads to a concept in the system of the list."""
        name = self._system or ""
        return any(True for code in codes for _ in self._find_concepts(system_by_name(name), name, code))

    def _find_assigned(self, concept_id: str) -> list[str]:
        found = [concept_id]
        if concept_id not in self._kb:
            found = [gone.replaced_by for gone in successors(self._kb, concept_id) if gone.type in MERGED]
        return [one for one in found if self._is_allowed(one)]

    def _codes_of_row(self, code: str) -> Iterator[tuple[str, str]]:
        if self._system is not None:
            yield self._system, code
        prefix, colon, rest = code.partition(":")
        if colon and prefix and rest and prefix != self._system:
            yield prefix, rest

    def _find_concepts(self, system: System, name: str, code: str) -> Iterator[tuple[str, str]]:
        names = dict.fromkeys((name, system.name, system.prefix, *system.aliases))
        for written in _spellings(code):
            concept_id = system.concept_id(written)
            # in a system without a prefix a bare number is an id only in a knowledge base of that system
            if (
                self._is_allowed(concept_id)
                and concept_id in self._kb
                and (system.prefix or self._kb.sources_of([concept_id]).get(concept_id) in names)
            ):
                yield concept_id, CODE
            mapped = {id_ for name in names if name for id_ in self._kb.concepts_mapped_to(name, written)}
            for concept_id, mappings in sorted(self._kb.mappings_of(mapped).items()) if mapped else ():
                here = [one.type for one in mappings if one.code == written and one.system in names]
                if here and self._is_allowed(concept_id):
                    yield concept_id, min(here, key=lambda kind: (kind not in _EXACT, kind))

    def _is_allowed(self, concept_id: str) -> bool:
        return self._among is None or concept_id in self._among


def _spellings(code: str) -> tuple[str, ...]:
    """Return a code as written, without the marks of ICD-10, and with the point that many lists omit.

    >>> _spellings("I219"), _spellings("E10.30+"), _spellings("718-7")
    (('I219', 'I21.9'), ('E10.30+', 'E10.30'), ('718-7',))
    """
    code = code.strip()
    bare = code.rstrip("+*!")
    spellings = [code, bare]
    if len(bare) > 3 and bare.isalnum() and bare.isascii() and bare[0].isalpha() and bare[1].isdigit():
        spellings.append(f"{bare[:3]}.{bare[3:]}")
    return tuple(dict.fromkeys(spelling for spelling in spellings if spelling))
