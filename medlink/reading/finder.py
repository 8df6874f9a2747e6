"""``MentionFinder``: the mentions of notes, and what the linker is told of them.

Stretches of a note that may be mentions (:mod:`medlink.reading.names`, :mod:`medlink.index.heard`,
:mod:`medlink.reading.windows`) are linked, and by the links and the words around them it is decided which are mentions
(:mod:`medlink.reading.choice`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc

from medlink.index import Bundle
from medlink.index.heard import Heard, hear
from medlink.index.heard import Place as Words
from medlink.language.cues.no_mentions import no_mentions
from medlink.language.cues.tables import scopes
from medlink.language.languages import stop_words
from medlink.language.lexicon.entries import HEADWORDS
from medlink.language.lexicon.organs import Cue
from medlink.language.lexicon.reading import FamilyReader
from medlink.language.lexicon.shorthand import LACONIC, Shorthand
from medlink.language.tags import base
from medlink.language.text import Inflector, normalise
from medlink.linking import Linker, Mention
from medlink.linking.candidates import LEARNED
from medlink.reading.abbreviations import LongForms, Place
from medlink.reading.attributes import AttributeReader, asks_for_attributes, says_an_attribute
from medlink.reading.choice import Choice, Chosen, Found, Judged, Shortened, Stretch, by_first_names, shipped_choice
from medlink.reading.coordination import members
from medlink.reading.learned import Learned, Taught
from medlink.reading.names import SHORT, NameFinder, Names
from medlink.reading.options import FinderOptions
from medlink.reading.placeholders import in_placeholder
from medlink.reading.values import ValueFinding, value_findings
from medlink.reading.windows import open_windows
from medlink.records import Value

_AROUND = 200  # characters of context on each side
_PERSONS = frozenset(("person", "general"))
_NO_FINDING = _PERSONS | {"body", "function", "quality", "measure", "circumstance"}


_NUMBER = re.compile(r"\s{0,3}[:=<>]?\s{0,3}\d")  # what makes a value of the word before it
_BLANKS = 4  # characters before a word in which a number may end
_CLAUSE = 15  # words of a clause on either side that are looked at
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
        self._values = options.values
        self._shorthand = Shorthand(language) if options.abbreviations != "none" else None
        if linker is None or not options.other_languages:
            own = () if options.other_languages else tuple(sorted(filter(None, self._names.own)))
            linker = Linker(bundle, language=language, languages=own, semantic_types=options.semantic_types)
        self._linker = linker
        self._choice, self._joins, self._or = choice, scopes(language).joins, scopes(language).either
        self._learned, self._no_mentions = learned, no_mentions(language)
        self._attributes = AttributeReader(bundle, language, self._linker)
        self._english = base(language) == HEADWORDS
        self._wanted = asks_for_attributes(self._linker.options.semantic_types)

    def find(self, docs: Sequence[Doc], long_forms: Sequence[LongForms]) -> list[Mentions]:
        """The mentions of tokenised notes, each with the long forms of the abbreviations that it explains.

        What stands for a name or a date that was taken out of a note is none.
        """
        inflector = lru_cache(Inflector)  # of these notes alone, as the reader: they remember their words
        if self._verbatim:
            return [
                _written(doc, text, self._as_names(doc, text, known, inflector))
                for doc, text, known in zip(docs, (doc.text for doc in docs), long_forms, strict=True)
            ]
        reader = FamilyReader(self._index.forms)
        pairs = zip(docs, long_forms, strict=True)
        noted = [self.note(doc, explained, reader, inflector) for doc, explained in pairs]
        told = self._told_apart(noted, reader)
        chosen = [(self._choice or shipped_choice()).chosen(judged) for judged, _ in told]
        return [self._found(*one) for one in zip(noted, chosen, (one for _, one in told), strict=True)]

    def _found(self, note: Noted, kept: Sequence[Chosen], told: Sequence[Judged]) -> Mentions:
        """The mentions of a note with their attributes, from stretches that say attributes."""
        said = self._attributes.read(note.doc, note.text, note.heard, kept, told)
        pairs = zip(kept, said, strict=True)
        found = {one.place: replace(one.known, likely=one.likely, attributes=tuple(own)) for one, own in pairs}
        return _written(note.doc, note.text, found)

    def _as_names(self, doc: Doc, text: str, known: LongForms, inflector: Callable[[str], Inflector]) -> Mentions:
        """The mentions of a note that are names as they are written."""
        return _verbatim(self._names.find(doc, text, known, inflector), known, self._taught(doc, text))

    def judged(self, notes: Sequence[Noted]) -> list[list[Judged]]:
        """All stretches of notes that may be mentions, by place, with the concept that is the likeliest for each."""
        return [judged for judged, _ in self._told_apart(notes)]

    def _told_apart(
        self, notes: Sequence[Noted], reader: FamilyReader | None = None
    ) -> list[tuple[list[Judged], list[Judged]]]:
        """What :meth:`judged` gives, and the stretches whose likeliest concept is an attribute."""
        mentions = [
            describe(note.doc, note.text, one.place, self._language, one.known).mention
            for note in notes
            for one in note.stretches
        ]
        best = self._linker.best(mentions, reader)
        names = np.array([found.ranked.name for found in best if found is not None])
        known = iter(best)
        listed = np.array([says_an_attribute(found.concept_id) for found in best if found is not None], dtype=bool)
        attribute = iter(((self._index.attributes(names) | listed) & (not self._wanted)).tolist())
        told = []
        for note in notes:
            apart: tuple[list[Judged], list[Judged]] = [], []
            for one in note.stretches:
                if (found := next(known)) is not None:
                    judged, says_one = _taught(Judged(one, found)), next(attribute)
                    if judged is not None:
                        apart[says_one].append(judged)
            told.append((by_first_names(self._as_written(apart[0])), apart[1]))
        return told

    def _as_written(self, judged: list[Judged]) -> list[Judged]:
        """Stretches, without other words for concepts that have what is written as a name too.

        So *Herzinfarkt* is read as the name that two terminologies have, not as the *Myokardinfarkt* of one of them.
        Abbreviations are read as their long forms, which say more.
        """
        others = {one.stretch.place for one in judged if _is_reworded(one)}
        named = {
            one.stretch.place: self._named(one.stretch.known)
            for one in judged
            if one.stretch.known.expanded is None and one.is_name and one.stretch.place in others
        }
        return [
            one for one in judged if not (_is_reworded(one) and one.best.concept_id in named.get(one.stretch.place, ()))
        ]

    def _named(self, known: Found) -> set[str]:
        """The concepts that have a mention as a name."""
        rows = () if known.match is None else known.match.rows
        return {entry.concept_id for row in rows for entry in self._index.entries_of(row, self._linker.selection)}

    def note(
        self,
        doc: Doc,
        explained: LongForms,
        reader: FamilyReader | None = None,
        inflector: Callable[[str], Inflector] = Inflector,
    ) -> Noted:
        """A note with the stretches that may be mentions; ``reader`` and ``inflector`` may be of several notes."""
        text, words = doc.text, dict[Place, Words]()
        reader = reader or FamilyReader(self._index.forms)
        heard = hear(text, self._language, reader)
        said = self._index.places_of_names(heard, self._linker.selection)
        for first, stop in sorted(said | open_windows(heard, said)):
            span = doc.char_span(heard.words[first].start, heard.words[stop - 1].end, alignment_mode="expand")
            if span is not None:
                words.setdefault((span.start, span.end), (first, stop))
        starts = doc.to_array("IDX").tolist()  # of all tokens at once
        ends = [start + length for start, length in zip(starts, doc.to_array("LENGTH").tolist(), strict=True)]
        tokens = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        names = self._names.find(doc, text, explained, inflector)
        short = self._short(doc, text, heard, inflector, tokens)
        lacking = self._lacking(doc, text, heard, reader)
        taught, values = self._taught(doc, text), self._measured(doc, text)
        stretches, is_none = [], self._no_mentions.inside(text)
        for place in sorted({*names, *words, *short, *lacking, *taught, *values}):
            start, end = starts[place[0]], ends[place[1] - 1]
            if self._names.names_a_person(text, start, end):
                continue
            at = words[place] if place in words else heard.place(start, end)
            if place in taught and place not in explained:
                learned = taught[place].found(names.get(place))
                if learned is not None:
                    unread = text[start:end], at, heard, False, None, 0.0, place in names, self._joins
                    stretches.append(Stretch.of(place, learned, *unread))
                continue
            if place in values:
                for name in values[place].names:
                    measured = Found(None, name, value=values[place].value)
                    unread = text[start:end], at, heard, False, None, 0.0, False, self._joins
                    stretches.append(Stretch.of(place, measured, *unread))
                continue
            if is_none(start, end):
                continue
            usual, ways = short.get(place), [_Way(says) for says in lacking.get(place, ())]
            is_stretch = place in names or (place in words and not self._either(text, heard, at))
            nothing = usual is not None and usual.usual.kind in _NO_MENTION
            if usual is not None and usual.usual.kind != LACONIC and place not in explained:
                # an abbreviation is its usual meaning, and no rarer one that a family of words has; a name is believed
                is_stretch = place in names
            loose = at in said and place not in names and place not in short and not heard.meanings(at)
            if usual is not None and not nothing and place not in explained:
                # many terminologies have more English names than others
                says = dict.fromkeys((usual.usual.long, usual.usual.english or usual.usual.long))
                ways += [_Way(one, usual) for one in says]
            if is_stretch and not nothing and (place in names or not _says_nothing(text[start:end], heard, at)):
                ways.append(_Way(explained.get(place), None, usual.usual.weight if usual else 0.0))
                if place not in names and not self._english:
                    ways += [_Way(one) for one in self._headwords(text[start:end], at, heard)]
            for way in ways:
                known = Found(names.get(place), way.expanded, loose=loose)
                of_note = place in explained, way.short, way.otherwise, place in names, self._joins
                stretches.append(Stretch.of(place, known, text[start:end], at, heard, *of_note))
        return Noted(doc, text, stretches, heard)

    def _headwords(self, written: str, at: Words, heard: Heard) -> list[str]:
        """The English headword of the finding that a stretch names in whole, by a word or a fixed phrase."""
        forms, meanings = self._index.forms, heard.meanings(at) if at[0] < at[1] else ()
        if len(meanings) != 1 or forms.kinds[meanings[0]] != "finding":
            return []
        name = forms.names[meanings[0]]
        return [] if "(" in name or normalise(name) == normalise(written) else [name]

    def _measured(self, doc: Doc, text: str) -> dict[Place, ValueFinding]:
        """The measured values that are findings."""
        found = dict[Place, ValueFinding]()
        for one in value_findings(text, self._language) if self._values else ():
            span = doc.char_span(one.start, one.end, alignment_mode="expand")
            if span is not None:
                found[span.start, span.end] = one
        return found

    def _taught(self, doc: Doc, text: str) -> dict[Place, Taught]:
        return {} if self._learned is None else self._learned.places(doc, text, self._language)

    def _short(
        self, doc: Doc, text: str, heard: Heard, inflector: Callable[[str], Inflector], tokens: Sequence[str]
    ) -> dict[Place, Shortened]:
        """What is short for something in a note, by the tables of its language."""
        if self._shorthand is None:
            return {}
        found = dict[Place, Shortened]()
        for start, end, one, cue in self._shorthand.laconic(text, inflector):
            span = doc.char_span(start, end, alignment_mode="expand")
            if span is not None and (cue is None or _is_bare(text, heard, start, end, cue)):
                found.setdefault((span.start, span.end), Shortened(one, cue))
        for at, token in enumerate(tokens):
            known, place = self._shorthand.abbreviation(token), (at, at + 1)
            if known is not None and not (place in found and found[place].cue):
                found[place] = Shortened(known)
        return found

    def _lacking(self, doc: Doc, text: str, heard: Heard, reader: FamilyReader) -> dict[Place, list[str]]:
        """Members of lists that lack a word, and what they say with it."""
        found: dict[Place, list[str]] = {}
        asked = self._joins, self._language, reader, self._index, self._linker.selection
        for (first, stop), says in members(text, heard, *asked):
            span = doc.char_span(heard.words[first].start, heard.words[stop - 1].end, alignment_mode="expand")
            if span is not None:
                found.setdefault((span.start, span.end), []).append(says)
        return found

    def _either(self, text: str, heard: Heard, words: Words) -> bool:
        """Whether a stretch names one finding *or* another, and so none that is made of both."""
        found = [n for n in range(*words) if text[heard.words[n].start : heard.words[n].end].casefold() in self._or]
        return any(_find(heard, words[0], at) and _find(heard, at, words[1]) for at in found)


class _Way(NamedTuple):
    """A way to read a stretch: in full, as what it is short for, or as it is written.

    ``otherwise`` says how often it is short for something where it is read as it is written.
    """

    expanded: str | None
    short: Shortened | None = None
    otherwise: float = 0.0


class Noted(NamedTuple):
    """A note with the stretches that may be mentions."""

    doc: Doc
    text: str
    stretches: list[Stretch]
    heard: Heard


def _written(doc: Doc, text: str, mentions: Mentions) -> Mentions:
    """The mentions of a note that are no part of a placeholder."""
    inside = in_placeholder(text)
    return {
        (first, stop): known
        for (first, stop), known in mentions.items()
        if not inside(doc[first].idx, doc[stop - 1].idx + len(doc[stop - 1]))
    }


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


def _is_reworded(one: Judged) -> bool:
    """Whether a stretch is read as other words that say the same, and is no abbreviation."""
    return one.stretch.known.expanded is not None and not one.is_short


def _says_nothing(mention: str, heard: Heard, words: Words) -> bool:
    """Whether a stretch that is no name is of persons alone, one word for no finding, or one of few small letters.

    *Dr* and *neck* are no mentions, unless the bundle has these names; *tos* is one.
    """
    kinds = [heard.words[at].kinds for at in range(*words) if not heard.words[at].function]
    if all(kind and kind <= _PERSONS for kind in kinds) or (len(kinds) == 1 and kinds[0] and kinds[0] <= _NO_FINDING):
        return True
    return not mention.isupper() and len(mention) <= SHORT and not any("finding" in kind for kind in kinds)


def _find(heard: Heard, first: int, stop: int) -> bool:
    return any(word.finds for word in heard.words[first:stop])


def _is_bare(text: str, heard: Heard, start: int, end: int, cue: Cue) -> bool:
    """Whether a word leaves its organ out: no other part of the body is in its clause, and no number beside it."""
    if _NUMBER.match(text, end) or text[max(start - _BLANKS, 0) : start].rstrip()[-1:].isdigit():
        return False
    first, stop = heard.place(start, end)
    near = heard.words[max(first - _CLAUSE, 0) : stop + _CLAUSE]
    clause = heard.words[first].clause if first < len(heard.words) else -1
    others = (word for word in near if word.clause == clause and (word.end <= start or word.start >= end))
    return not any("body" in word.kinds for word in others if not cue.start <= word.start < cue.end)


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
    """A mention as the linker takes it, with its character offsets, the text around it, and the value that it is."""

    start: int
    end: int
    mention: Mention
    context: str
    value: Value | None = None


def describe(doc: Doc, text: str, place: Place, language: str, found: Found = _FOUND) -> Described:
    """Describe a mention of a document whose text is ``text``, by its token offsets."""
    start, end = doc[place[0]].idx, doc[place[1] - 1].idx + len(doc[place[1] - 1])
    match = None if found.expanded else found.match
    mention = Mention(text[start:end], language, found.expanded, match, found.likely, found.taught or None)
    return Described(start, end, mention, text[max(0, start - _AROUND) : end + _AROUND], found.value)
