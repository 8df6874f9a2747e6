"""``CandidateGenerator``: the candidate spans of scanned texts, and the ways to read each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial

from cachetools import LRUCache

from medlink.index import ConceptIndex
from medlink.index.names import Selections
from medlink.language.cues.no_mentions import no_mentions
from medlink.language.cues.tables import scopes
from medlink.language.lexicon.entries import HEADWORDS
from medlink.language.lexicon.organs import Cue
from medlink.language.lexicon.shorthand import LACONIC, Shorthand
from medlink.language.scan import Place, ScannedText, ScannedWord, Scanner
from medlink.language.tags import base
from medlink.language.text import normalise
from medlink.reading.abbreviations import LongForms
from medlink.reading.candidates import CandidateSpan, Shortened, Sources, open_windows
from medlink.reading.columns import SpanColumns, span_columns
from medlink.reading.coordination import ListReader, Member
from medlink.reading.features import UNRANKED
from medlink.reading.learned import Learned
from medlink.reading.names import SHORT, NameFinder
from medlink.reading.options import FinderOptions
from medlink.reading.persons import PersonNames
from medlink.reading.prefilter import SpanFilter, shipped_filter
from medlink.reading.values import ValueFinding, value_findings

_USUAL = 0.5  # share of the uses of an abbreviation from which on it is ranked in any case
_KEPT = 1 << 14  # long forms and the like of which is kept whether they are names
_PERSONS = frozenset(("person", "general"))
_NO_FINDING = _PERSONS | {"body", "function", "quality", "measure", "circumstance"}
_AT_A_TIME = 1 << 13  # spans whose columns are worked out together
_NUMBER = re.compile(r"\s{0,3}[:=<>]?\s{0,3}\d")  # what makes a value of the word before it
_BLANKS = 4  # characters before a word in which a number may end
_CLAUSE = 15  # words of a clause on either side in which another part of the body is looked for
_NO_MENTION = frozenset(("text", "dose", "unit", "person", "place"))
"""Kinds of abbreviations that stand for nothing that a terminology of findings, drugs or procedures has."""


class CandidateGenerator:
    """Find the candidate spans of texts of one language.

    Args:
        index: whose names are looked for.
        language: language of the texts, BCP 47.
        scanner: what scanned the texts.
        names: what finds the names of the index in them.
        options: of finding mentions.
        selection: the concepts that a candidate may be.
        learned: learned mentions.
    """

    def __init__(
        self,
        index: ConceptIndex,
        language: str,
        scanner: Scanner,
        names: NameFinder,
        options: FinderOptions,
        selection: Selections | None,
        learned: Learned | None,
    ) -> None:
        self._index, self._language, self._names, self._options = index, language, names, options
        self._selection, self._learned = selection, learned
        self._shorthand = Shorthand(language) if options.abbreviations != "none" else None
        self._joins, self._either = scopes(language).joins, scopes(language).either
        self._lists = ListReader(self._joins, scanner, index, selection)
        self._no_mentions, self._persons = no_mentions(language), PersonNames(language)
        self._is_english = base(language) == HEADWORDS
        self._known_names: LRUCache[str, bool] = LRUCache(_KEPT)

    def candidates(self, texts: Sequence[ScannedText], explained: Sequence[LongForms]) -> list[list[CandidateSpan]]:
        """The candidate spans of each of n texts that may be selected, in the order of their places."""
        return self._described(texts, self._found(texts, explained), shipped_filter())

    def all_candidates(self, texts: Sequence[ScannedText], explained: Sequence[LongForms]) -> list[list[CandidateSpan]]:
        """The candidate spans of each of n texts, in the order of their places."""
        return self._described(texts, self._found(texts, explained), None)

    def _found(self, texts: Sequence[ScannedText], explained: Sequence[LongForms]) -> list[list[CandidateSpan]]:
        families = self._index.match_families(texts, self._selection)
        columns = zip(texts, explained, families, self._lists.read(texts), strict=True)
        return [
            self._of_text(text, self._sources(text, long_forms, near, members))
            for text, long_forms, near, members in columns
        ]

    def with_given(
        self,
        texts: Sequence[ScannedText],
        candidates: Sequence[Sequence[CandidateSpan]],
        given: Sequence[Sequence[Place]],
    ) -> list[list[CandidateSpan]]:
        """Candidates of texts, and the ``given`` spans that are none of them as they are written."""
        known = [{one.place for one in spans} for spans in candidates]
        new = [
            [CandidateSpan(place) for place in dict.fromkeys(wanted) if place[0] < place[1] and place not in held]
            for wanted, held in zip(given, known, strict=True)
        ]
        both = zip(candidates, self._described(texts, new, None), strict=True)
        return [sorted([*spans, *more], key=lambda one: one.place) for spans, more in both]

    def verbatim(self, text: ScannedText, long_forms: LongForms) -> list[CandidateSpan]:
        """The names of a text as they are written, the longest of those that overlap."""
        explained = {text.place(*span): long for span, long in long_forms.items()}
        names = self._names.find(text, explained)
        found = {place: CandidateSpan(place, explained.get(place), match) for place, match in names.items()}
        silent = set[Place]()  # what was learned to be no mention still hides what it holds
        for place, learned in () if self._learned is None else self._learned.places(text, self._language).items():
            if place not in explained:
                one = learned.candidate(place, names.get(place))
                found[place] = one or CandidateSpan(place)
                silent.update(() if one else (place,))
        return [found[place] for place in _longest(found) if place not in silent]

    def _described(
        self, texts: Sequence[ScannedText], spans: Sequence[Sequence[CandidateSpan]], worth: SpanFilter | None
    ) -> list[list[CandidateSpan]]:
        """The spans of texts with their columns; those alone that are ``worth`` ranking."""
        if not any(spans):
            return [[] for _ in texts]
        kept, known = list[bool](), dict[bytes, tuple[float, ...]]()
        # some at a time: a long note has many more than are kept
        for columns in SpanColumns.of(texts, spans, self._joins).parts(_AT_A_TIME):
            rows = span_columns(columns, self._language)
            likely = [True] * len(rows) if worth is None else worth.kept(rows[:, : len(UNRANKED)])
            for one, is_likely, row in zip(columns.spans, likely, rows, strict=True):
                kept.append(one.sure or is_likely)
                if kept[-1]:
                    # what a note repeats has the same columns
                    key = row.tobytes()
                    one.context = known[key] = known.get(key) or tuple(row.tolist())
        left = iter(kept)
        return [[one for one in found if next(left)] for found in spans]

    def _sources(
        self, text: ScannedText, long_forms: LongForms, families: set[Place], lacking: Sequence[Member]
    ) -> Sources:
        explained = {text.place(*span): long for span, long in long_forms.items()}
        explained = {place: long for place, long in explained.items() if place[0] < place[1]}
        members: dict[Place, list[str]] = {}
        for place, says in lacking:
            members.setdefault(place, []).append(says)
        return Sources(
            names=self._names.find(text, explained),
            explained=explained,
            families=families,
            windows=open_windows(text, families) - families,
            short=self._short(text),
            members=members,
            learned={} if self._learned is None else self._learned.places(text, self._language),
            values=self._values(text),
        )

    def _short(self, text: ScannedText) -> dict[Place, Shortened]:
        """What is short for something in a text, by the tables of its language."""
        found = dict[Place, Shortened]()
        if self._shorthand is not None:
            for place, usual, cue in self._shorthand.laconic(text):
                if place[0] < place[1] and (cue is None or _is_bare(text, place, cue)):
                    found.setdefault(place, Shortened(usual, cue))
            for at, usual in self._shorthand.abbreviations(text):
                if not ((at, at + 1) in found and found[at, at + 1].cue):
                    found[at, at + 1] = Shortened(usual)
        return found

    def _values(self, text: ScannedText) -> dict[Place, ValueFinding]:
        """The measured values that are findings."""
        found = value_findings(text.text, self._language) if self._options.values else ()
        return {text.place(one.start, one.end): one for one in found}

    def _of_text(self, text: ScannedText, sources: Sources) -> list[CandidateSpan]:
        """The candidates of a text."""
        found, lies_in = list[CandidateSpan](), self._no_mentions.inside(text.indexed)
        for place in sources.places:
            start, end = text.span(place)
            if self._persons.are_at(text.text, start, end):
                continue
            if place in sources.learned and place not in sources.explained:
                learned = sources.learned[place].candidate(place, sources.names.get(place))
                if learned is not None:
                    learned.listed = place in sources.names
                    found.append(learned)
            elif place in sources.values:
                value = sources.values[place]
                found += [
                    CandidateSpan(place, name, value=value.value, span=(value.start, value.end)) for name in value.names
                ]
            elif not lies_in(start, end):
                found += self._ways(text, place, sources)
        return found

    def _ways(self, text: ScannedText, place: Place, sources: Sources) -> Iterator[CandidateSpan]:
        """The ways to read a span: with the word it lacks, as what it is short for, in full, as it is written."""
        short, listed, explained = sources.short.get(place), place in sources.names, place in sources.explained
        family, match = place in sources.families, sources.names.get(place)
        apart = family and not listed and short is None and not text.meanings(place)
        way = partial(CandidateSpan, place, match=match, listed=listed, explained=explained, family=family)
        for says in sources.members.get(place, ()):
            yield way(expanded=says, discontinuous=apart)
        is_abbreviation = short is not None and short.usual.kind != LACONIC and not explained
        if short is not None:
            if short.usual.kind in _NO_MENTION:
                return
            if not explained:
                yield from self._in_full(short, way)
        if listed:
            yield way(expanded=sources.explained.get(place), otherwise=short.usual.weight if short else 0.0)
        elif not is_abbreviation and self._is_open(text, place, sources):
            # an abbreviation is its usual meaning, and no rarer one that a family of words has; a name is believed
            yield way(
                expanded=sources.explained.get(place),
                otherwise=short.usual.weight if short else 0.0,
                discontinuous=apart,
                sure=explained,
            )
            for says in () if self._is_english else self._headwords(text, place):
                yield way(expanded=says, discontinuous=apart, sure=self._is_name(says))

    def _in_full(self, short: Shortened, way: partial[CandidateSpan]) -> Iterator[CandidateSpan]:
        """The readings of a span as what it is short for."""
        # many terminologies have more English names than others
        for says in dict.fromkeys((short.usual.long, short.usual.english or short.usual.long)):
            one = way(expanded=says, short=short)
            one.sure = one.listed or short.usual.safe or _is_usual(short) or self._is_name(says)
            yield one

    def _is_open(self, text: ScannedText, place: Place, sources: Sources) -> bool:
        """Whether a span that is no name is one by its words."""
        found = place in sources.families or place in sources.windows
        return found and not self._names_either(text, place) and not _says_nothing(text, place)

    def _is_name(self, says: str) -> bool:
        """Whether what a span is read as is a name of the index."""
        known = self._known_names.get(says)
        if known is None:
            known = self._known_names[says] = bool(self._index.lookup(says, self._language, self._selection))
        return known

    def _headwords(self, text: ScannedText, place: Place) -> list[str]:
        """The English headword of the finding that a span names in whole, by a word or a fixed phrase."""
        forms, meanings = self._index.forms, text.meanings(place)
        if len(meanings) != 1 or forms.kinds[meanings[0]] != "finding":
            return []
        name = forms.names[meanings[0]]
        return [] if "(" in name or normalise(name) == normalise(text.written(place)) else [name]

    def _names_either(self, text: ScannedText, place: Place) -> bool:
        """Whether a span names one finding *or* another, and so none that is made of both."""
        words = text.words
        found = [
            at for at in range(*place) if words[at].function and text.written((at, at + 1)).casefold() in self._either
        ]
        return any(_find(words[place[0] : at]) and _find(words[at : place[1]]) for at in found)


def _is_usual(short: Shortened) -> bool:
    """Whether a span is short for a finding more often than not."""
    return short.usual.kind in ("disease", "finding") and short.usual.weight >= _USUAL


def _says_nothing(text: ScannedText, place: Place) -> bool:
    """Whether a span that is no name is of persons alone, one word for no finding, or one of few small letters.

    *Dr* and *neck* are no mentions, unless the bundle has these names; *tos* is one.
    """
    kinds = [word.kinds for word in text.words[slice(*place)] if not word.function]
    if all(kind and kind <= _PERSONS for kind in kinds) or (len(kinds) == 1 and kinds[0] and kinds[0] <= _NO_FINDING):
        return True
    written = text.written(place)
    return not written.isupper() and len(written) <= SHORT and not any("finding" in kind for kind in kinds)


def _find(words: Sequence[ScannedWord]) -> bool:
    return any(word.finds for word in words)


def _is_bare(text: ScannedText, place: Place, cue: Cue) -> bool:
    """Whether a word leaves its organ out: no other part of the body is in its clause, and no number beside it."""
    start, end = text.span(place)
    if _NUMBER.match(text.text, end) or text.text[max(start - _BLANKS, 0) : start].rstrip()[-1:].isdigit():
        return False
    near, clause = (text.words[max(place[0] - _CLAUSE, 0) : place[1] + _CLAUSE], text.words[place[0]].clause)
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
