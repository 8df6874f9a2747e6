"""Names that assert what a mention negates: *nicht-hämolytische Anämie* is no haemolytic anaemia."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medlink.index import ConceptIndex
from medlink.language.guard_words import GuardReader
from medlink.linking.ranking import RankedConcept

_SHORTEST = 4  # letters of a negated word; a shorter one may be a preposition: *ni a alimentos*


class NegatedNames:
    """Find the names that assert what a mention negates; only the names of the few mentions with a negation are read.

    A mention that begins with a denial (*no fever*) still names the denied finding, and keeps its concepts.
    """

    def __init__(self, index: ConceptIndex) -> None:
        self._index, self._reader = index, GuardReader()

    def mark(self, text: str, language: str | None, ranked: Sequence[RankedConcept]) -> Sequence[RankedConcept]:
        """Return the concepts of a mention; ``adds`` is set where the best name asserts what the mention negates."""
        if not ranked or not self._reader.negates_a_part(text):
            return ranked
        negated = {word for word in self._reader.negated(text, language or "")[0] if len(word) >= _SHORTEST}
        names, tags, _ = self._index.describe(np.array([concept.entry for concept in ranked], dtype=np.int64))
        return [
            concept._replace(adds=True) if negated & self._reader.negated(name, tag)[1] else concept
            for concept, name, tag in zip(ranked, names, tags, strict=True)
        ]
