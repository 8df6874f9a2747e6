"""What is linked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mention:
    """A stretch of text to link.

    ``expanded`` is the long form of an abbreviation where the text gives one: it is linked in place of ``text``.
    ``found`` are the names that ``text`` is, with their routes, where somebody has looked them up already
    (:attr:`medlink.index.dictionary.Match.rows` of :meth:`medlink.index.ConceptIndex.find`).
    """

    text: str
    language: str | None = None
    expanded: str | None = None
    found: Mapping[float, str] | None = None
