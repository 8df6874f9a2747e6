"""What a code itself says of its concepts: it is a code of a system that the knowledge base has, or maps to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from medlink.kb import KnowledgeBase
from medlink.kb.systems import System, named
from medlink.records import CODE, Mapping

_EXACT = frozenset({CODE, "exact", "maps_to"})
"""Types of the mappings by which a code means the concept itself; OMOP's maps of other codes are of them."""


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
    """Codes of a knowledge base.

    Args:
        kb: where concepts and their codes are.
        among: concepts that may be targets, ``None`` for all.
        system: the system that the codes of a list are of, where it is known.
    """

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
