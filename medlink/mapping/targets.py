"""Which concepts may be targets, what a file says about each, and which ones a code of a known system means."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from medlink.errors import ConfigError
from medlink.kb import KnowledgeBase
from medlink.kb.ecl import select_concepts
from medlink.kb.systems import System, named
from medlink.mapping.codes import MAPS_TO, Target
from medlink.mapping.options import MapOptions
from medlink.records import CODE, NOT_STANDARD, Candidate, Mapping

_OMOP = "OMOP:"
NONE = "0"
"""How OMOP and Usagi write that there is no concept."""
_EXACT = frozenset({CODE, "exact", "maps_to"})
"""Types of the mappings by which a code means the concept itself; OMOP's maps of other codes are of them."""


def allowed(kb: KnowledgeBase, options: MapOptions) -> frozenset[str] | None:
    """Ids of the concepts that may be targets; ``None`` where all may be.

    The concepts that hierarchy and constraint select are read once. Of OMOP vocabularies only standard concepts are
    left, unless ``standard`` is switched off. Memory grows with the concepts that are left.

    Raises:
        ConfigError: a concept that is named is not there, a constraint cannot be read, or no concept is left.
    """
    for concept_id in (*options.under, *options.not_under):
        if concept_id not in kb:
            raise ConfigError(
                f"there is no concept {concept_id!r}", path=kb.path, remedy="check the id, or leave it out"
            )
    found: set[str] | None = None
    if options.under:
        found = kb.below(options.under) | set(options.under)
    if options.ecl is not None:
        chosen = select_concepts(kb, options.ecl)
        found = chosen if found is None else found & chosen
    left_out = kb.below(options.not_under) | set(options.not_under) if options.not_under else set[str]()
    if options.standard:
        left_out.update(one.concept_id for one in kb.iter_mappings(types=NOT_STANDARD))
    if found is None and not left_out:
        return None
    kept = frozenset((found if found is not None else {one.concept_id for one in kb.iter_concepts()}) - left_out)
    if not kept:
        raise ConfigError("no concept is allowed as a target", path=kb.path, remedy="remove some of the filters")
    return kept


class Targets:
    """Concepts of a knowledge base as targets; ``day`` is when proposals are made, in milliseconds since 1970, or 0."""

    def __init__(self, kb: KnowledgeBase, day: int = 0) -> None:
        self._kb, self._day = kb, day
        self._is_omop = any(source.name == _OMOP.rstrip(":") for source in kb.sources())

    def id_of(self, written: str) -> str:
        """The id in the knowledge base of a concept as a file names it, ``""`` for none.

        OMOP's numbers are ids that begin with ``OMOP:``.
        """
        written = written.strip()
        if not written or written == NONE:
            return ""
        return f"{_OMOP}{written}" if self._is_omop and written.isdecimal() else written

    @staticmethod
    def written(concept_id: str) -> str:
        """How a file names a concept: an OMOP concept by its number."""
        return concept_id.removeprefix(_OMOP) or NONE

    def made(self, concept_ids: Iterable[str], kind: str = MAPS_TO) -> list[Target]:
        """Targets that medlink proposes; names are English where there are such."""
        asked = list(concept_ids)
        names = self._kb.preferred_names(asked, "en")
        return [
            Target(one, names.get(one, one), self.domain(one), kind, "medlink" if self._day else "", self._day)
            for one in asked
        ]

    def domain(self, concept_id: str) -> str:
        """The domain of an OMOP concept; of another the first of its semantic types."""
        types = self._kb.semantic_types(concept_id)
        return types[0].semantic_type if types else ""

    def vocabularies(self, concept_ids: Iterable[str]) -> dict[str, str]:
        """The vocabulary of each concept: what its own code is of, else its source."""
        asked = list(dict.fromkeys(concept_ids))
        sources = self._kb.sources_of(asked)
        for one, mappings in self._kb.mappings_of(asked).items():
            own = [mapping.system for mapping in mappings if mapping.type in (CODE, *NOT_STANDARD)]
            if own and one.startswith(_OMOP):
                sources[one] = own[0]
        return sources

    def candidate(self, concept_id: str, language: str | None, score: float, route: str) -> Candidate:
        """A concept as a candidate that no name of it brought."""
        shown = self._kb.preferred_name(concept_id, language) or concept_id
        types = tuple(one.semantic_type for one in self._kb.semantic_types(concept_id))
        names = self._kb.names(concept_id)
        source = next((name.source for name in names if name.text == shown), "")
        return Candidate(concept_id, shown, score, shown, language or "", route, source, types)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a code says.

    ``exact`` are concepts that it means, by id; ``related`` are those that a map relates to it, such as the many
    concepts under a code of a classification. ``systems`` has for each the system and the code that say so.
    """

    exact: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    systems: dict[str, str] | None = None

    def said(self, concept_id: str) -> str:
        """Which code speaks for a concept, in words; ``""`` where none does."""
        return (self.systems or {}).get(concept_id, "")


class CodeEvidence:
    """Codes of a knowledge base: ``among`` may be targets, ``None`` for all; ``system`` is that of a list, if known."""

    def __init__(self, kb: KnowledgeBase, among: Collection[str] | None, system: str | None) -> None:
        self._kb, self._among, self._system = kb, among, system

    def of(self, code: str, inside: Sequence[tuple[str, str]]) -> Evidence:
        """What the code of a row says, and codes that its description holds, as pairs of system and code.

        The code of the row counts where its system is known, or where it is the id of a concept with its prefix
        (``HP:0001945``, ``LOINC:718-7``): a bare number may be anything.
        """
        exact: dict[str, str] = {}
        related: dict[str, str] = {}
        for system, text in (*self._own(code), *inside):
            for concept_id, kind in self._known(named(system), system, text):
                said = f"code {text} of {system}"
                (exact if kind in _EXACT else related).setdefault(concept_id, said)
        if not (exact or related):
            return Evidence()
        for concept_id in exact:
            related.pop(concept_id, None)
        return Evidence(tuple(sorted(exact)), tuple(sorted(related)), {**related, **exact})

    def _own(self, code: str) -> Iterator[tuple[str, str]]:
        if self._system is not None:
            yield self._system, code
        prefix, colon, rest = code.partition(":")
        if colon and prefix and rest and prefix != self._system:
            yield prefix, rest

    def _known(self, system: System, said: str, code: str) -> Iterator[tuple[str, str]]:
        names = dict.fromkeys((said, system.name, system.prefix, *system.called))
        for written in _spellings(code):
            concept_id = system.concept_id(written)
            # of a system without a prefix a bare number is an id only in a knowledge base of that very system
            if self._may(concept_id) and concept_id in self._kb and (system.prefix or self._is_of(concept_id, names)):
                yield concept_id, CODE
            if found := {one for name in names if name for one in self._kb.mapped(name, written)}:
                yield from self._types(found, names, written)

    def _is_of(self, concept_id: str, names: Collection[str]) -> bool:
        return self._kb.sources_of([concept_id]).get(concept_id) in names

    def _types(self, concepts: Iterable[str], names: Collection[str], code: str) -> Iterator[tuple[str, str]]:
        for concept_id, mappings in sorted(self._kb.mappings_of(concepts).items()):
            here = [one for one in mappings if one.code == code and one.system in names]
            if here and self._may(concept_id):
                yield concept_id, min(here, key=_sureness).type

    def _may(self, concept_id: str) -> bool:
        return self._among is None or concept_id in self._among


def _sureness(mapping: Mapping) -> tuple[bool, str]:
    return mapping.type not in _EXACT, mapping.type


def _spellings(code: str) -> tuple[str, ...]:
    """A code as it is, without the marks of ICD-10, and with the point that many lists leave out.

    >>> _spellings("I219"), _spellings("E10.30+"), _spellings("718-7")
    (('I219', 'I21.9'), ('E10.30+', 'E10.30'), ('718-7',))
    """
    code = code.strip()
    bare = code.rstrip("+*!")
    found = [code, bare]
    if len(bare) > 3 and bare.isalnum() and bare.isascii() and bare[0].isalpha() and bare[1].isdigit():
        found.append(f"{bare[:3]}.{bare[3:]}")
    return tuple(dict.fromkeys(one for one in found if one))
