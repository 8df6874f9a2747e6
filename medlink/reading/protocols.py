"""Interfaces for replacing parts of reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from medlink.records import Qualifiers

Span = tuple[int, int]
"""Start and end of a span, in characters; the end is exclusive."""


class MentionFinder(Protocol):
    """Finds mentions in place of medlink, such as a transformer for named entity recognition."""

    def find(self, texts: Sequence[str], language: str) -> Sequence[Sequence[Span]]:
        """Find the mentions of each of n texts in one language, in any order; they may overlap, but must differ."""


class Qualifier(Protocol):
    """Determines the qualifiers of mentions in place of medlink."""

    def qualify(self, text: str, spans: Sequence[Span]) -> Sequence[Qualifiers | None]:
        """Return the qualifiers of each span of a text; ``None`` drops a span, such as a heading."""
