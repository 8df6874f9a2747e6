"""What a re-ranker is shown of a candidate: words of the knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from medlink.index import Bundle
from medlink.language.tags import base
from medlink.linking.ranking import Ranked


@dataclass(frozen=True, slots=True)
class Shown:
    """A concept by its preferred name in the language of the mention, the name that was found, and a definition.

    >>> Shown("X:1", "atrial fibrillation", "Vorhofflimmern", "An arrhythmia.").text
    'Vorhofflimmern (atrial fibrillation): An arrhythmia.'
    """

    concept_id: str
    name: str
    matched: str
    definition: str = ""

    @property
    def text(self) -> str:
        """All of it as one text."""
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
    wanted: dict[str | None, set[str]] = {}
    for concept_id, (_, language) in zip(ids, flat, strict=True):
        wanted.setdefault(language, set()).add(concept_id)
    preferred = {language: bundle.kb.preferred_names(sorted(some), language) for language, some in wanted.items()}

    @cache
    def definition(concept_id: str, language: str) -> str:
        found = sorted(bundle.kb.definitions(concept_id), key=lambda one: base(one.language) != language)
        return " ".join(found[0].text.split()) if found else ""

    told = (
        Shown(one, preferred[tag].get(one, text), text, definition(one, base(tag or "")) if definitions else "")
        for one, text, (_, tag) in zip(ids, texts, flat, strict=True)
    )
    return [[next(told) for _ in some] for some in ranked]
