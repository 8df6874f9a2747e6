"""What may be brought in place of medlink's own parts of reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from medlink.records import Qualifiers

Span = tuple[int, int]
"""The first character of a span and the one behind its last."""


class MentionFinder(Protocol):
    """What finds mentions in place of medlink, such as a transformer that recognises entities."""

    def find(self, texts: Sequence[str], language: str) -> Sequence[Sequence[Span]]:
        """The mentions of each of n texts in one language, in any order; two may overlap, but not be equal."""


class Qualifier(Protocol):
    """What reads the qualifiers of mentions in place of medlink."""

    def qualify(self, text: str, spans: Sequence[Span]) -> Sequence[Qualifiers | None]:
        """The qualifiers of each span of a text; ``None`` for a span that is no mention, such as a heading."""
