"""Candidate spans: where a scanned text may have a mention, and a way to read it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from medlink.index.dictionary import Match
from medlink.language.lexicon.abbreviation_table import LACONIC, Cue
from medlink.language.lexicon.tables import Abbreviation
from medlink.language.scan import FINDS, Place, ScannedText, ScannedWord
from medlink.reading.protocols import Span
from medlink.records import Value

_OF_FINDINGS = FINDS | {"body", "function", "substance", "organism", "quality", ""}
"""Kinds of the words that a finding begins and ends with; a word that is not known may be any."""
_MOST = 5  # words of content of an open window
_WIDEST = 12  # words of one on each side, those of the grammar included
NO_CONCEPT, NO_MENTION = "no concept", "no mention"
"""What a learned mention may have been beside a concept; no id has a blank."""


class Shortened(NamedTuple):
    """What a span is short for, and the word that names the organ where that is what the span leaves out."""

    usual: Abbreviation
    cue: Cue | None = None


@dataclass(slots=True)
class CandidateSpan:
    """A way to read a span of a text.

    Attributes:
        place: its words.
        expanded: what it is read as, where it is not read as it is written.
        match: the names of the index that it is.
        listed: whether it is a name of the index as it is written.
        explained: whether the text explains it.
        family: whether it is a name of the index by word families.
        short: what it is read as, where it is read as short for something.
        otherwise: how often it is short for something where it is read as it is written.
        learned: id of the concept that was learned for it; empty where it was learned to have none.
        learned_share: the share of its learned occurrences that had the concept.
        value: the measured value that it is.
        span: its characters, where it does not end with a word (*88 %*).
        discontinuous: whether it is no name and no fixed phrase, so that a denial among its words (*Milz nicht
            vergrößert*) is the note's.
        sure: whether it is worth ranking whatever its words are.
        context: the columns :data:`medlink.reading.features.SPAN`.
    """

    place: Place
    expanded: str | None = None
    match: Match | None = None
    listed: bool = False
    explained: bool = False
    family: bool = False
    short: Shortened | None = None
    otherwise: float = 0.0
    learned: str | None = None
    learned_share: float | None = None
    value: Value | None = None
    span: Span | None = None
    discontinuous: bool = False
    sure: bool = True
    context: tuple[float, ...] = ()

    @property
    def of_thing(self) -> bool:
        """Whether it is read as an abbreviation of something else than a finding."""
        return self.short is not None and self.short.usual.kind not in ("disease", "finding", LACONIC)


class LearnedSpan(NamedTuple):
    """What a span was most often in the notes that were learned from, and the share of that, smoothed."""

    what: str
    share: float

    def candidate(self, place: Place, match: Match | None) -> CandidateSpan | None:
        """The span as a candidate, ``None`` where it is no mention; ``match`` are the names that it is."""
        if self.what == NO_MENTION:
            return None
        what, share = ("", 0.0) if self.what == NO_CONCEPT else self
        return CandidateSpan(place, match=match, learned=what, learned_share=share)


def open_windows(text: ScannedText, covered: Collection[Place]) -> set[Place]:
    """Spans around words of findings that lie in no name: up to five words of one clause.

    They begin or end with a word of a finding, and at the other end stands what findings are named by.
    """
    inside = {at for place in covered for at in range(*place)}
    finds = text.table.column("finds", lambda entry: not entry.word.function and bool(FINDS & entry.kinds), bool)
    return {place for at in text.where(finds) if at not in inside for place in _around(at, text.words)}


def _around(at: int, words: Sequence[ScannedWord]) -> Iterator[Place]:
    before, behind = list(_ends(at, words, -1)), list(_ends(at, words, 1))
    for first, more in before:
        for last, further in behind:
            if more + further < _MOST and (words[first].finds or words[last].finds):
                yield first, last + 1


def _ends(at: int, words: Sequence[ScannedWord], step: int) -> Iterator[tuple[int, int]]:
    content, clause, limit = 0, words[at].clause, at + step * _WIDEST
    while 0 <= at < len(words) and words[at].clause == clause and content < _MOST and at != limit:
        word = words[at]
        if not word.function:
            if not word.kinds or word.kinds & _OF_FINDINGS:
                yield at, content
            content += 1
        at += step
