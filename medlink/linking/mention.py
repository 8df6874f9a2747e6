"""What is linked."""

from __future__ import annotations

from dataclasses import dataclass

from medlink.index.dictionary import Match


@dataclass(frozen=True, slots=True)
class Mention:
    """A stretch of text to link.

    ``expanded`` is the long form of an abbreviation where the text gives one: it is linked in place of ``text``.
    ``found`` is what :meth:`medlink.index.ConceptIndex.find` found there: ``text`` is not looked up again. ``likely``
    is how likely its best concept is right where that was judged by the text around it: the score of that concept.
    ``taught`` is the id of the concept that it is known to be: the first candidate, unless it may be none.
    """

    text: str
    language: str | None = None
    expanded: str | None = None
    found: Match | None = None
    likely: float | None = None
    taught: str | None = None
