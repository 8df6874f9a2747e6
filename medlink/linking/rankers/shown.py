"""What a re-ranker is shown of a candidate: words of the knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medlink.index import Bundle
from medlink.language.tags import base
from medlink.linking.ranking import Ranked


@dataclass(frozen=True, slots=True)
class Shown:
    """A concept by its preferred name in the language of the mention, the name that was found, and a definition."""

    concept_id: str
    name: str
    matched: str
    definition: str = ""

    @property
    def text(self) -> str:
        """All of it as one text.

        >>> Shown("X:1", "atrial fibrillation", "Vorhofflimmern", "An arrhythmia.").text
        'Vorhofflimmern (atrial fibrillation): An arrhythmia.'
        >>> Shown("X:1", "Vorhofflimmern", "Vorhofflimmern").text
        'Vorhofflimmern'
        """
        both = self.matched if self.name == self.matched else f"{self.matched} ({self.name})"
        return f"{both}: {self.definition}" if self.definition else both


def shown(
    bundle: Bundle, ranked: Sequence[Sequence[Ranked]], languages: Sequence[str | None], *, definitions: bool = False
) -> list[list[Shown]]:
    """Candidates of n mentions as they are shown; ``definitions`` adds those of the knowledge base.

    Of several definitions the first in the language of the mention is shown, else the first.
    """
    flat = [(one, language) for some, language in zip(ranked, languages, strict=True) for one in some]
    ids = bundle.index.concept_ids(np.array([one.concept for one, _ in flat]))
    texts = bundle.index.describe(np.array([one.entry for one, _ in flat], dtype=np.int64))[0]
    preferred: dict[str | None, dict[str, str]] = {}
    for language in dict.fromkeys(language for _, language in flat):
        wanted = {one for one, (_, own) in zip(ids, flat, strict=True) if own == language}
        preferred[language] = bundle.kb.preferred_names(sorted(wanted), language)
    defined: dict[tuple[str, str], str] = {}
    if definitions:
        for concept_id, (_, language) in zip(ids, flat, strict=True):
            key = concept_id, base(language or "")
            if key not in defined:
                defined[key] = _definition(bundle, *key)
    found = iter(zip(ids, texts, flat, strict=True))
    out: list[list[Shown]] = []
    for some in ranked:
        mine: list[Shown] = []
        for _ in some:
            concept_id, text, (_, language) = next(found)
            definition = defined.get((concept_id, base(language or "")), "")
            mine.append(Shown(concept_id, preferred[language].get(concept_id, text), text, definition))
        out.append(mine)
    return out


def _definition(bundle: Bundle, concept_id: str, language: str) -> str:
    found = sorted(bundle.kb.definitions(concept_id), key=lambda one: base(one.language) != language)
    return " ".join(found[0].text.split()) if found else ""
