"""``CandidateGenerator``: the candidate spans of scanned texts, and the ways to read each.

A span is a candidate as a name of the index, by word families, around a word of a finding, as an abbreviation or
another word that leaves something out, as a member of a list that lacks a word, as a measured value, or as a learned
mention.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from medlink.index import ConceptIndex
from medlink.index.dictionary import Match
from medlink.index.names import Selections
from medlink.language.cues import no_mentions, scopes
from medlink.language.lexicon.abbreviation_table import LACONIC, Cue, Shorthand
from medlink.language.lexicon.tables import HEADWORDS
from medlink.language.scan import Place, ScannedText, Scanner
from medlink.language.tags import base
from medlink.language.text import normalise
from medlink.reading.abbreviations import LongForms
from medlink.reading.candidates import CandidateSpan, LearnedSpan, Shortened, open_windows
from medlink.reading.classifier import shipped_filter
from medlink.reading.coordination import ListReader, find
from medlink.reading.features import UNRANKED, SpanColumns
from medlink.reading.learned import Learned
from medlink.reading.names import SHORT, NameFinder, PersonNames
from medlink.reading.options import FinderOptions
from medlink.reading.values import value_findings

_USUAL = 0.5  # share of the uses of an abbreviation from which on it is ranked in any case
_KEPT = 1 << 14  # long forms and the like of which is kept whether they are names
_PERSONS = frozenset(("person", "general"))
_NO_FINDING = _PERSONS | {"body", "function", "quality", "measure", "circumstance"}
_NUMBER = re.compile(r"\s{0,3}[:=<>]?\s{0,3}\d")  # what makes a value of the word before it
_BLANKS = 4  # characters before a word in which a number may end
_CLAUSE = 15  # words of a clause on either side in which another part of the body is looked for
_NO_MENTION = frozenset(("text", "dose", "unit", "person", "place"))
"""Kinds of abbreviations that stand for nothing that a terminology of findings, drugs or procedures has."""


class _Sources(NamedTuple):
    names: Mapping[Place, Match | None]
    explained: Mapping[Place, str]
    families: Collection[Place]
    windows: Collection[Place]
    short: Mapping[Place, Shortened]
    members: Mapping[Place, Sequence[str]]


class CandidateGenerator:
    """Find the candidate spans of texts of one language (BCP 47) that a scanner scanned.

    They are of the concepts of a ``selection``; ``names`` finds the names of the index in the texts.
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
        self._is_name = lru_cache(_KEPT)(lambda says: bool(index.lookup(says, language, selection)))

    def candidates(
        self,
        texts: Sequence[ScannedText],
        explained: Sequence[LongForms],
        given: Sequence[Sequence[Place]] | None = None,
        *,
        filtered: bool = True,
    ) -> list[list[CandidateSpan]]:
        """The candidate spans of each of n texts, in the order of their places, and the ``given`` ones, as they are
        written. Where it is ``filtered``, others that are hardly mentions by their words alone are left out."""
        families, members = self._index.match_families(texts, self._selection), self._lists.read(texts)
        found = list(map(self._of_text, texts, explained, families, members))
        described = self._described(texts, found, filtered=filtered)
        if given is None:
            return described
        known = [{one.place for one in spans} for spans in described]
        new = [
            [CandidateSpan(place) for place in dict.fromkeys(wanted) if place[0] < place[1] and place not in held]
            for wanted, held in zip(given, known, strict=True)
        ]
        both = zip(described, self._described(texts, new, filtered=False), strict=True)
        return [sorted([*spans, *more], key=lambda one: one.place) for spans, more in both]

    def verbatim(self, text: ScannedText, long_forms: LongForms) -> list[CandidateSpan]:
        """The names of a text as they are written, the longest of those that overlap."""
        explained = {text.place(*span): long for span, long in long_forms.items()}
        names = self._names.find(text, explained)
        found = {place: CandidateSpan(place, explained.get(place), match) for place, match in names.items()}
        silent = set[Place]()  # what was learned to be no mention still hides what it holds
        for place, learned in self._learned_in(text).items():
            if place not in explained:
                one = learned.candidate(place, names.get(place))
                found[place] = one or CandidateSpan(place)
                silent.update(() if one else (place,))
        taken, kept = set[int](), list[CandidateSpan]()
        for place in sorted(found, key=lambda place: (place[0] - place[1], place[0])):
            if taken.isdisjoint(range(*place)):
                taken.update(range(*place))
                kept += [] if place in silent else [found[place]]
        return sorted(kept, key=lambda one: one.place)

    def _learned_in(self, text: ScannedText) -> dict[Place, LearnedSpan]:
        return {} if self._learned is None else self._learned.places(text, self._language)

    def _described(
        self, texts: Sequence[ScannedText], spans: Sequence[Sequence[CandidateSpan]], *, filtered: bool
    ) -> list[list[CandidateSpan]]:
        if not any(spans):
            return [[] for _ in texts]
        known = dict[bytes, tuple[float, ...]]()
        judge, least = shipped_filter()
        for part, rows in SpanColumns(texts, spans, self._joins, self._language).rows():
            likely = judge.probabilities(rows[:, : len(UNRANKED)]) if filtered else [1.0] * len(part)
            for one, probability, row in zip(part, likely, rows, strict=True):
                if one.sure or probability >= least:
                    # what a note repeats has the same columns
                    key = row.tobytes()
                    one.context = known[key] = known.get(key) or tuple(row.tolist())
        return [[one for one in found if one.context] for found in spans]

    def _of_text(
        self, text: ScannedText, long_forms: LongForms, families: set[Place], lacking: Sequence[tuple[Place, str]]
    ) -> list[CandidateSpan]:
        explained = {text.place(*span): long for span, long in long_forms.items()}
        explained = {place: long for place, long in explained.items() if place[0] < place[1]}
        members: dict[Place, list[str]] = defaultdict(list)
        for place, says in lacking:
            members[place].append(says)
        names, short = self._names.find(text, explained), self._short(text)
        sources = _Sources(names, explained, families, open_windows(text, families) - families, short, members)
        values = {
            text.place(one.start, one.end): one
            for one in (value_findings(text.text, self._language) if self._options.values else ())
        }
        taught, lies_in = self._learned_in(text), self._no_mentions.inside(text.indexed)
        found = list[CandidateSpan]()
        for place in sorted({*names, *families, *sources.windows, *short, *members, *taught, *values}):
            start, end = text.span(place)
            if self._persons.are_at(text.text, start, end):
                continue
            if place in taught and place not in explained:
                learned = taught[place].candidate(place, names.get(place))
                if learned is not None:
                    learned.listed = place in names
                    found.append(learned)
            elif place in values:
                value = values[place]
                found += [
                    CandidateSpan(place, name, value=value.value, span=(value.start, value.end)) for name in value.names
                ]
            elif not lies_in(start, end):
                found += self._ways(text, place, sources)
        return found

    def _short(self, text: ScannedText) -> dict[Place, Shortened]:
        found = dict[Place, Shortened]()
        if self._shorthand is not None:
            for place, usual, cue in self._shorthand.laconic(text):
                if place[0] < place[1] and (cue is None or _is_bare(text, place, cue)):
                    found.setdefault(place, Shortened(usual, cue))
            for at, usual in self._shorthand.abbreviations(text):
                if not ((at, at + 1) in found and found[at, at + 1].cue):
                    found[at, at + 1] = Shortened(usual)
        return found

    def _ways(self, text: ScannedText, place: Place, sources: _Sources) -> Iterator[CandidateSpan]:
        short, listed, explained = sources.short.get(place), place in sources.names, place in sources.explained
        family, match = place in sources.families, sources.names.get(place)
        apart = family and not listed and short is None and not text.meanings(place)
        way = partial(CandidateSpan, place, match=match, listed=listed, explained=explained, family=family)
        for says in sources.members.get(place, ()):
            yield way(expanded=says, discontinuous=apart)
        if short is not None:
            if short.usual.kind in _NO_MENTION:
                return
            if not explained:
                yield from self._in_full(short, way)
        as_written = partial(way, expanded=sources.explained.get(place), otherwise=short.usual.weight if short else 0.0)
        if listed:
            yield as_written()
            return
        # an abbreviation is its usual meaning, and no rarer one that a family of words has; a name is believed
        is_abbreviation = short is not None and short.usual.kind != LACONIC and not explained
        is_open = place in sources.families or place in sources.windows
        if is_open and not (is_abbreviation or self._names_either(text, place) or _says_nothing(text, place)):
            yield as_written(discontinuous=apart, sure=explained)
            for says in self._headwords(text, place):
                yield way(expanded=says, discontinuous=apart, sure=self._is_name(says))

    def _in_full(self, short: Shortened, way: partial[CandidateSpan]) -> Iterator[CandidateSpan]:
        usual = short.usual
        known = usual.safe or (usual.kind in ("disease", "finding") and usual.weight >= _USUAL)
        # many terminologies have more English names than others
        for says in dict.fromkeys((usual.long, usual.english or usual.long)):
            one = way(expanded=says, short=short)
            one.sure = one.listed or known or self._is_name(says)
            yield one

    def _headwords(self, text: ScannedText, place: Place) -> list[str]:
        forms, meanings = self._index.forms, text.meanings(place)
        if base(self._language) == HEADWORDS or len(meanings) != 1 or forms.kinds[meanings[0]] != "finding":
            return []
        name = forms.names[meanings[0]]
        return [] if "(" in name or normalise(name) == normalise(text.written(place)) else [name]

    def _names_either(self, text: ScannedText, place: Place) -> bool:
        """Whether a span names one finding *or* another, and so none that is made of both."""
        words = text.words
        return any(
            words[at].function
            and text.written((at, at + 1)).casefold() in self._either
            and find(words[place[0] : at])
            and find(words[at : place[1]])
            for at in range(*place)
        )


def _says_nothing(text: ScannedText, place: Place) -> bool:
    """Whether a span that is no name is of persons alone, one word for no finding, or one of few small letters.

    *Dr* and *neck* are no mentions, unless the bundle has these names; *tos* is one.
    """
    kinds = [word.kinds for word in text.words[slice(*place)] if not word.function]
    if all(kind and kind <= _PERSONS for kind in kinds) or (len(kinds) == 1 and kinds[0] and kinds[0] <= _NO_FINDING):
        return True
    written = text.written(place)
    return not written.isupper() and len(written) <= SHORT and not any("finding" in kind for kind in kinds)


def _is_bare(text: ScannedText, place: Place, cue: Cue) -> bool:
    start, end = text.span(place)
    if _NUMBER.match(text.text, end) or text.text[max(start - _BLANKS, 0) : start].rstrip()[-1:].isdigit():
        return False
    near, clause = (text.words[max(place[0] - _CLAUSE, 0) : place[1] + _CLAUSE], text.words[place[0]].clause)
    others = (word for word in near if word.clause == clause and (word.end <= start or word.start >= end))
    return not any("body" in word.kinds for word in others if not cue.start <= word.start < cue.end)
