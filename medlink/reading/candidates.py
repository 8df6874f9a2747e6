"""Candidate spans: where a text may have a mention, and how to read it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from medlink.index.dictionary import Match
from medlink.language.lexicon.abbreviation_table import LACONIC, BodySiteCue
from medlink.language.lexicon.forms import LexiconForms
from medlink.language.lexicon.tables import HEADWORDS, Abbreviation
from medlink.language.scan import FINDING_KINDS, Place, ScannedText, ScannedWord
from medlink.language.tags import base
from medlink.language.text import normalise
from medlink.reading.protocols import Span
from medlink.records import Value

_OF_FINDINGS = FINDING_KINDS | {"body", "function", "substance", "organism", "quality", ""}
"""Kinds of the first and last word of a finding; an unknown word may be of any kind."""
_MAX_CONTENT = 5  # content words of an open window
_MAX_SIDE = 12  # words of a window on each side, function words included
Paraphrase = tuple[Place, str]
"""A span, and its text in other words."""
SHORT_FOR_FINDING = frozenset(("disease", "finding", LACONIC))
"""Kinds of abbreviations that stand for findings."""
_SHORT_FOR_THING = frozenset(("test", "procedure", "drug", "device", "organism"))
NO_CONCEPT, NO_MENTION = "no concept", "no mention"
"""Labels of learned mentions other than a concept; no concept id contains a blank."""


class Shortened(NamedTuple):
    """The long form of a span, the organ if the span omits it, whether the sentence makes the meaning certain, and
    whether words inside do not belong to it.
    """

    usual: Abbreviation
    cue: BodySiteCue | None = None
    certain: bool = False
    apart: bool = False


@dataclass(slots=True)
class CandidateSpan:
    """A reading of a span of a text.

    Attributes:
        expanded: long form, or other wording, that is linked in place of its text.
        match: names of the index that are equal to it.
        listed: whether the index has it as it is written.
        explained: the text defines it as an abbreviation.
        family: whether it matches a name of the index by word families.
        otherwise: for a literal reading, the share of uses in which the same word is an abbreviation.
        learned: id of the learned concept; empty if it was learned to have none.
        learned_share: share of its learned occurrences with that concept.
        span: character offsets, set if the span does not end with a word (*88 %*).
        discontinuous: it is neither a name nor a fixed phrase, so that a negation inside it (*Milz nicht vergrößert*)
            belongs to the note.
        misspelt: a typing error was corrected in one of its words.
        sure: it is ranked even if the span filter rejects it.
        context: columns :data:`medlink.reading.features.SPAN`.
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
    misspelt: bool = False
    sure: bool = True
    context: tuple[float, ...] = ()

    @property
    def is_short_for_other_kind(self) -> bool:
        """Whether it is read as an abbreviation of something other than a finding."""
        return self.short is not None and self.short.usual.kind not in SHORT_FOR_FINDING

    @property
    def is_short_for_thing(self) -> bool:
        """Whether it is read as an abbreviation of a test, a procedure, a drug, a device or an organism."""
        return self.short is not None and self.short.usual.kind in _SHORT_FOR_THING


def headword(text: ScannedText, place: Place, forms: LexiconForms, language: str) -> str | None:
    """Return the lexicon's English name of the finding that a span in another language denotes; else ``None``."""
    meanings = text.meanings(place)
    if base(language) == HEADWORDS or len(meanings) != 1 or forms.kinds[meanings[0]] != "finding":
        return None
    name = forms.names[meanings[0]]
    return None if "(" in name or normalise(name) == normalise(text.written(place)) else name


class LearnedSpan(NamedTuple):
    """The most frequent label of a learned span, and its smoothed share."""

    label: str
    share: float

    def candidate(self, place: Place, match: Match | None) -> CandidateSpan | None:
        """Return the span as a candidate, ``None`` if it is not a mention; ``match`` has the names that equal it."""
        if self.label == NO_MENTION:
            return None
        label, share = ("", 0.0) if self.label == NO_CONCEPT else self
        return CandidateSpan(place, match=match, learned=label, learned_share=share)


def open_windows(text: ScannedText, covered: Collection[Place]) -> set[Place]:
    """Return spans of up to five content words of a clause, around each word of a finding outside ``covered``.

    One end of a span is a word of a finding; the other end is a word of a kind that occurs in names of findings.
    """
    inside, words = {at for place in covered for at in range(*place)}, text.words
    finds = text.table.column(
        "finds", lambda entry: not entry.word.function and bool(FINDING_KINDS & entry.kinds), bool
    )
    return {
        (first, last + 1)
        for at in text.where(finds)
        if at not in inside
        for (first, before), (last, behind) in product(_ends(at, words, -1), _ends(at, words, 1))
        if before + behind < _MAX_CONTENT and (words[first].finds or words[last].finds)
    }


def _ends(at: int, words: Sequence[ScannedWord], step: int) -> Iterator[tuple[int, int]]:
    content, clause, limit = 0, words[at].clause, at + step * _MAX_SIDE
    while 0 <= at < len(words) and words[at].clause == clause and content < _MAX_CONTENT and at != limit:
        word = words[at]
        if not word.function:
            if not word.kinds or word.kinds & _OF_FINDINGS:
                yield at, content
            content += 1
        at += step
