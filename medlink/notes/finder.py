"""``MentionFinder``: the mentions of notes, and what the linker is told of them.

Stretches of a note that may be mentions (:mod:`medlink.notes.names`, :mod:`medlink.index.heard`,
:mod:`medlink.notes.windows`) are linked, and by the links and the words around them it is decided which are mentions
(:mod:`medlink.notes.choice`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc

from medlink.index import Bundle
from medlink.index.heard import Heard, hear
from medlink.index.heard import Place as Words
from medlink.language.cues.tables import scopes
from medlink.language.languages import stop_words
from medlink.language.lexicon import Abbreviation
from medlink.language.lexicon.reading import FamilyReader
from medlink.language.lexicon.shorthand import Shorthand
from medlink.linking import Linker, Mention
from medlink.linking.candidates import LEARNED
from medlink.notes.abbreviations import LongForms, Place
from medlink.notes.attributes import AttributeReader, asks_for_attributes
from medlink.notes.choice import Choice, Chosen, Found, Judged, Stretch, shipped_choice
from medlink.notes.learned import Learned, Taught
from medlink.notes.names import SHORT, NameFinder, Names
from medlink.notes.options import FinderOptions
from medlink.notes.windows import open_windows

_AROUND = 200  # characters of context on each side
_PERSONS = frozenset(("person", "general"))
_NO_FINDING = _PERSONS | {"body", "function", "quality", "measure", "circumstance"}


# Kinds of abbreviations that stand for nothing that a terminology of findings, drugs or procedures has.
_NO_MENTION = frozenset(("text", "dose", "unit", "person", "place"))


Mentions = dict[Place, Found]
"""Mentions by their token offsets, in order and without overlap."""
_FOUND = Found()


class MentionFinder:
    """Find the mentions of notes of one language.

    Args:
        bundle: whose names are looked for.
        language: language of the notes, BCP 47.
        options: further options; their ``language`` is not looked at.
        choice: what decides which stretches are mentions; the weights that ship when left out.
        linker: what links them; who links the mentions anyway gives it, so that nothing is ranked twice and what is
            judged is what will be linked. One for the options when left out.
        learned: mentions of notes that were read; what they were there they are here.
    """

    def __init__(
        self,
        bundle: Bundle,
        language: str,
        options: FinderOptions | None = None,
        choice: Choice | None = None,
        linker: Linker | None = None,
        learned: Learned | None = None,
    ) -> None:
        options = options or FinderOptions()
        self._index, self._language, self._verbatim = bundle.index, language, options.verbatim
        self._names = NameFinder(bundle.index, language, stop_words(language), options)
        self._shorthand = Shorthand(language) if options.abbreviations != "none" else None
        if linker is None or not options.other_languages:
            own = () if options.other_languages else tuple(sorted(filter(None, self._names.own)))
            linker = Linker(bundle, language=language, languages=own, semantic_types=options.semantic_types)
        self._linker = linker
        self._choice, self._joins, self._learned = choice, scopes(language).joins, learned
        self._attributes = AttributeReader(bundle, language, self._linker)
        self._wanted = asks_for_attributes(self._linker.options.semantic_types)

    def find(self, docs: Sequence[Doc], long_forms: Sequence[LongForms]) -> list[Mentions]:
        """The mentions of tokenised notes, each with the long forms of the abbreviations that it explains."""
        if self._verbatim:
            pairs = zip(docs, long_forms, strict=True)
            return [_verbatim(self._names.find(doc, known), known, self._taught(doc, doc.text)) for doc, known in pairs]
        reader = FamilyReader(self._index.forms)  # of these notes alone: it remembers their words
        noted = [self.note(doc, explained, reader) for doc, explained in zip(docs, long_forms, strict=True)]
        told = self._told_apart(noted)
        chosen = [(self._choice or shipped_choice()).chosen(judged) for judged, _ in told]
        return [self._found(*one, reader) for one in zip(noted, chosen, (one for _, one in told), strict=True)]

    def _found(self, note: Noted, kept: Sequence[Chosen], told: Sequence[Judged], reader: FamilyReader) -> Mentions:
        """The mentions of a note with their attributes, from stretches that say attributes."""
        said = self._attributes.read(note.doc, note.text, note.heard, kept, told, reader)
        pairs = zip(kept, said, strict=True)
        return {one.place: replace(one.known, likely=one.likely, attributes=tuple(own)) for one, own in pairs}

    def judged(self, notes: Sequence[Noted]) -> list[list[Judged]]:
        """All stretches of notes that may be mentions, by place, with the concept that is the likeliest for each."""
        return [judged for judged, _ in self._told_apart(notes)]

    def _told_apart(self, notes: Sequence[Noted]) -> list[tuple[list[Judged], list[Judged]]]:
        """What :meth:`judged` gives, and the stretches whose likeliest concept is an attribute."""
        mentions = [
            describe(note.doc, note.text, one.place, self._language, one.known).mention
            for note in notes
            for one in note.stretches
        ]
        best = self._linker.best(mentions)
        names = np.array([found.ranked.name for found in best if found is not None])
        known = iter(best)
        attribute = iter((self._index.attributes(names) & (not self._wanted)).tolist())
        told = []
        for note in notes:
            apart: tuple[list[Judged], list[Judged]] = [], []
            for one in note.stretches:
                if (found := next(known)) is not None:
                    judged, says_one = _taught(Judged(one, found)), next(attribute)
                    if judged is not None:
                        apart[says_one].append(judged)
            told.append(apart)
        return told

    def note(self, doc: Doc, explained: LongForms, reader: FamilyReader | None = None) -> Noted:
        """A note with the stretches that may be mentions; ``reader`` is one that several notes share."""
        text, words = doc.text, dict[Place, Words]()
        heard = hear(text, self._language, reader or FamilyReader(self._index.forms))
        said = self._index.places_of_names(heard, self._linker.selection)
        for first, stop in sorted(said | open_windows(heard, said)):
            span = doc.char_span(heard.words[first].start, heard.words[stop - 1].end, alignment_mode="expand")
            if span is not None:
                words.setdefault((span.start, span.end), (first, stop))
        names, short = self._names.find(doc, explained), self._short(doc, text)
        taught = self._taught(doc, text)
        stretches = []
        starts = doc.to_array("IDX").tolist()  # of all tokens at once
        ends = [start + length for start, length in zip(starts, doc.to_array("LENGTH").tolist(), strict=True)]
        for place in sorted({*names, *words, *short, *taught}):
            start, end = starts[place[0]], ends[place[1] - 1]
            if self._names.names_a_person(text, start, end):
                continue
            long, usual = explained.get(place), short.get(place)
            at = words[place] if place in words else heard.place(start, end)
            if place in taught and long is None:
                learned = taught[place].found(names.get(place))
                if learned is not None:
                    unread = text[start:end], at, heard, False, None, place in names, self._joins
                    stretches.append(Stretch.of(place, learned, *unread))
                continue
            if place not in names and usual is None and _says_nothing(text[start:end], heard, at):
                continue
            ways: list[tuple[str | None, Abbreviation | None]] = []
            if usual is not None and long is None and usual.kind not in _NO_MENTION:
                ways.append((usual.long, usual))
            if (place in words or place in names) and (usual is None or usual.kind not in _NO_MENTION):
                ways.append((long, None))
            for expanded, meant in ways:
                known = Found(names.get(place), expanded)
                of_note = place in explained, meant, place in names, self._joins
                stretches.append(Stretch.of(place, known, text[start:end], at, heard, *of_note))
        return Noted(doc, text, stretches, heard)

    def _taught(self, doc: Doc, text: str) -> dict[Place, Taught]:
        return {} if self._learned is None else self._learned.places(doc, text, self._language)

    def _short(self, doc: Doc, text: str) -> dict[Place, Abbreviation]:
        """What is short for something in a note, by the tables of its language."""
        if self._shorthand is None:
            return {}
        found = dict[Place, Abbreviation]()
        for start, end, one in self._shorthand.laconic(text):
            span = doc.char_span(start, end, alignment_mode="expand")
            if span is not None:
                found.setdefault((span.start, span.end), one)
        known = ((token.i, self._shorthand.abbreviation(token.text)) for token in doc)
        return found | {(at, at + 1): one for at, one in known if one is not None}


class Noted(NamedTuple):
    """A note with the stretches that may be mentions."""

    doc: Doc
    text: str
    stretches: list[Stretch]
    heard: Heard


def _verbatim(names: Names, explained: LongForms, taught: Mapping[Place, Taught]) -> Mentions:
    found = {at: Found(match, explained.get(at)) for at, match in names.items()}
    learned = {at: one.found(names.get(at)) for at, one in taught.items() if at not in explained}
    found |= {at: one for at, one in learned.items() if one is not None}
    return {at: found[at] for at in _longest([at for at in found if learned.get(at, _FOUND) is not None])}


def _taught(one: Judged) -> Judged | None:
    """A stretch, with the score that was learned for it; ``None`` where the learned concept may be no candidate."""
    known, best = one.stretch.known, one.best
    if not known.taught:
        return one
    return None if best.ranked.route != LEARNED else Judged(one.stretch, best._replace(score=known.likely or 0.0))


def _says_nothing(mention: str, heard: Heard, words: Words) -> bool:
    """Whether a stretch that is no name is of persons alone, one word for no finding, or one of few small letters.

    *Dr* and *neck* are no mentions, unless the bundle has these names; *tos* is one.
    """
    kinds = [heard.words[at].kinds for at in range(*words) if not heard.words[at].function]
    if all(kind and kind <= _PERSONS for kind in kinds) or (len(kinds) == 1 and kinds[0] and kinds[0] <= _NO_FINDING):
        return True
    return not mention.isupper() and len(mention) <= SHORT and not any("finding" in kind for kind in kinds)


def _longest(places: Collection[Place]) -> list[Place]:
    """The longest of places that overlap, between equals the first; in order."""
    taken, kept = set[int](), []
    for start, end in sorted(places, key=lambda place: (place[0] - place[1], place[0])):
        if taken.isdisjoint(range(start, end)):
            taken.update(range(start, end))
            kept.append((start, end))
    return sorted(kept)


@dataclass(frozen=True, slots=True)
class Described:
    """A mention as the linker takes it, with its character offsets and the text around it."""

    start: int
    end: int
    mention: Mention
    context: str


def describe(doc: Doc, text: str, place: Place, language: str, found: Found = _FOUND) -> Described:
    """Describe a mention of a document whose text is ``text``, by its token offsets."""
    start, end = doc[place[0]].idx, doc[place[1] - 1].idx + len(doc[place[1] - 1])
    match = None if found.expanded else found.match
    mention = Mention(text[start:end], language, found.expanded, match, found.likely, found.taught or None)
    return Described(start, end, mention, text[max(0, start - _AROUND) : end + _AROUND])
