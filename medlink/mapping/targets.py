"""Which concepts may be targets, how files name them, and what a file says about each."""

from __future__ import annotations

from collections.abc import Iterable

from medlink.errors import ConfigError
from medlink.kb import KnowledgeBase
from medlink.kb.ecl import select_concepts
from medlink.mapping.codes import MAPS_TO, Target
from medlink.mapping.options import MapOptions
from medlink.records import CODE, NOT_STANDARD, Candidate

_OMOP = "OMOP:"
NONE = "0"
"""How OMOP and Usagi write that there is no concept."""


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
    """Concepts of a knowledge base as targets.

    Args:
        kb: where they are from.
        day: when proposals are made, in milliseconds since 1970, 0 where nobody says.
    """

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
