"""``BuiltinFinder``: the mentions of texts, and what the linker is told of them.

Candidate spans (:mod:`medlink.reading.candidates`) are ranked together, and by their concepts and the words around them
it is decided which are mentions (:mod:`medlink.reading.classifier`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from cachetools import LRUCache

from medlink.index import Bundle
from medlink.language.cues.no_mentions import no_mentions
from medlink.language.cues.tables import scopes
from medlink.language.languages import stop_words
from medlink.language.lexicon.entries import HEADWORDS
from medlink.language.lexicon.organs import Cue
from medlink.language.lexicon.reading import shared_reader
from medlink.language.lexicon.shorthand import LACONIC, Shorthand
from medlink.language.scan import Place, ScannedText, ScannedWord, Scanner
from medlink.language.tags import base
from medlink.language.text import normalise
from medlink.linking import Linker, Mention
from medlink.linking.candidates import LEARNED
from medlink.reading.abbreviations import LongForms
from medlink.reading.attributes import (
    AttributeReader,
    asks_for_attributes,
    says_an_attribute,
)
from medlink.reading.candidates import CandidateSpan, Shortened, Sources, open_windows
from medlink.reading.classifier import (
    SelectedSpan,
    SpanClassifier,
    best_apart,
    by_first_names,
    shipped_classifier,
)
from medlink.reading.columns import SpanColumns, context_columns, filter_columns
from medlink.reading.coordination import ListReader, Member
from medlink.reading.features import ScoredSpan
from medlink.reading.learned import Learned
from medlink.reading.names import SHORT, NameFinder
from medlink.reading.options import FinderOptions
from medlink.reading.persons import PersonNames
from medlink.reading.placeholders import in_placeholder
from medlink.reading.prefilter import shipped_filter
from medlink.reading.protocols import Span
from medlink.reading.values import ValueFinding, value_findings
from medlink.records import Attribute, Value

_USUAL = 0.5  # share of the uses of an abbreviation from which on it is ranked in any case
_KEPT = 1 << 14  # long forms and the like of which is kept whether they are names
_AROUND = 200  # characters of context on each side
_PERSONS = frozenset(("person", "general"))
_NO_FINDING = _PERSONS | {"body", "function", "quality", "measure", "circumstance"}
_NUMBER = re.compile(r"\s{0,3}[:=<>]?\s{0,3}\d")  # what makes a value of the word before it
_BLANKS = 4  # characters before a word in which a number may end
_CLAUSE = 15  # words of a clause on either side in which another part of the body is looked for
_NO_MENTION = frozenset(("text", "dose", "unit", "person", "place"))
"""Kinds of abbreviations that stand for nothing that a terminology of findings, drugs or procedures has."""


@dataclass(frozen=True, slots=True)
class FoundMention:
    """A mention of a text, as the linker takes it.

    Attributes:
        start: its first character.
        end: the character behind its last.
        mention: what is linked.
        context: the text around it.
        value: the measured value that it is.
        attributes: its attributes, ``None`` where they were not read.
        discontinuous: whether its words are no name and no fixed phrase.
    """

    start: int
    end: int
    mention: Mention
    context: str
    value: Value | None = None
    attributes: tuple[Attribute, ...] | None = None
    discontinuous: bool = False


class BuiltinFinder:
    """Find the mentions of texts of one language.

    Args:
        bundle: whose names are looked for.
        language: language of the texts, BCP 47.
        options: further options; their ``language`` is not looked at.
        classifier: what decides which spans are mentions; the weights that ship when left out.
        linker: what links them; who links the mentions anyway gives it, so that nothing is ranked twice and what is
            judged is what will be linked. A linker for the options when left out.
        learned: mentions of notes that were read; what they were there they are here.
    """

    def __init__(
        self,
        bundle: Bundle,
        language: str,
        options: FinderOptions | None = None,
        classifier: SpanClassifier | None = None,
        linker: Linker | None = None,
        learned: Learned | None = None,
    ) -> None:
        options = options or FinderOptions()
        self._index, self._language, self._options = bundle.index, language, options
        self._names = NameFinder(bundle.index, language, stop_words(language), options)
        self._shorthand = Shorthand(language) if options.abbreviations != "none" else None
        if linker is None or not options.other_languages:
            own = () if options.other_languages else tuple(sorted(filter(None, self._names.own)))
            linker = Linker(
                bundle,
                language=language,
                languages=own,
                semantic_types=options.semantic_types,
            )
        self._linker, self._classifier, self._learned = (
            linker,
            classifier,
            learned,
        )
        self._joins, self._either = scopes(language).joins, scopes(language).either
        self._scanner = Scanner(
            language, shared_reader(bundle.index.forms), lambda word: bool(bundle.index.lookup(word))
        )
        self._lists = ListReader(self._joins, self._scanner, bundle.index, linker.selection)
        self._no_mentions, self._persons = no_mentions(language), PersonNames(language)
        self._attributes = AttributeReader(bundle, language, linker)
        self._is_english = base(language) == HEADWORDS
        self._known_names: LRUCache[str, bool] = LRUCache(_KEPT)
        self._wants_attributes = asks_for_attributes(linker.options.semantic_types)

    def scan(self, texts: Sequence[str]) -> list[ScannedText]:
        """Scan texts together, as :meth:`find` takes them."""
        return self._scanner.scan_all(texts)

    def find(self, texts: Sequence[ScannedText], explained: Sequence[LongForms]) -> list[list[FoundMention]]:
        """The mentions of texts, in order and without overlap.

        Args:
            texts: n texts.
            explained: the long forms of the abbreviations that each explains.
        """
        if self._options.verbatim:
            return [self._verbatim(text, known) for text, known in zip(texts, explained, strict=True)]
        scored, attributes = self.scored(texts, self.candidates(texts, explained))
        selected = (self._classifier or shipped_classifier()).select(scored)
        columns = zip(texts, selected, attributes, strict=True)
        return [self._described(text, spans, self._attributes.read(text, spans, of)) for text, spans, of in columns]

    def judge(
        self,
        texts: Sequence[ScannedText],
        explained: Sequence[LongForms],
        given: Sequence[Sequence[Span]],
    ) -> list[list[FoundMention]]:
        """The given spans of texts as mentions, each with the score that :meth:`find` would give it.

        Args:
            texts: n texts.
            explained: the long forms of the abbreviations that each explains.
            given: the spans of each by their characters.

        Returns:
            A mention for each given span, in their order.
        """
        places = [[text.place(*span) for span in spans] for text, spans in zip(texts, given, strict=True)]
        candidates = self.candidates(texts, explained)
        for wanted, spans in zip(places, candidates, strict=True):
            new = {place for place in wanted if place[0] < place[1]} - {one.place for one in spans}
            spans.extend(map(CandidateSpan, sorted(new)))
            spans.sort(key=lambda one: one.place)
        self._describe(texts, candidates)
        scored, attributes = self.scored(texts, candidates)
        found = []
        for text, ranked, wanted, own, of in zip(texts, scored, places, given, attributes, strict=True):
            held = sorted([*ranked, *of], key=lambda one: one.candidate.place)
            selected = (self._classifier or shipped_classifier()).score_given(held, wanted)
            apart = best_apart(list(selected.values()), 0.0)  # what has attributes does not overlap
            read = dict(
                zip(
                    (one.place for one in apart),
                    self._attributes.read(text, apart, of),
                    strict=True,
                )
            )
            pairs = zip(own, wanted, strict=True)
            found.append([self._found(text, span, selected.get(place), read.get(place, ())) for span, place in pairs])
        return found

    def candidates(self, texts: Sequence[ScannedText], explained: Sequence[LongForms]) -> list[list[CandidateSpan]]:
        """The candidate spans of each of n texts that may be selected, in the order of their places."""
        found = self.all_candidates(texts, explained)
        kept = iter(shipped_filter().kept([one.cheap for spans in found for one in spans if one.cheap is not None]))
        return [[one for one in spans if one.cheap is None or next(kept)] for spans in found]

    def all_candidates(self, texts: Sequence[ScannedText], explained: Sequence[LongForms]) -> list[list[CandidateSpan]]:
        """The candidate spans of each of n texts, in the order of their places."""
        families = self._index.match_families(texts, self._linker.selection)
        members = self._lists.read(texts)
        columns = zip(texts, explained, families, members, strict=True)
        found = [self._of_text(text, self._sources(text, *of)) for text, *of in columns]  # type: ignore[arg-type]
        self._describe(texts, found)
        return found

    def _describe(self, texts: Sequence[ScannedText], spans: Sequence[Sequence[CandidateSpan]]) -> None:
        """Fill in the columns of the spans of texts."""
        if not any(spans):
            return
        columns = SpanColumns.of(texts, spans, self._joins)
        context = context_columns(columns)
        cheap = filter_columns(columns, context)
        for one, row, filtered in zip(columns.spans, context.tolist(), cheap.tolist(), strict=True):
            one.context, one.cheap = tuple(row), None if one.sure else tuple(filtered)

    def _sources(
        self,
        text: ScannedText,
        long_forms: LongForms,
        families: set[Place],
        lacking: Sequence[Member],
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
        short, listed, explained = (
            sources.short.get(place),
            place in sources.names,
            place in sources.explained,
        )
        family, match = place in sources.families, sources.names.get(place)
        apart = family and not listed and short is None and not text.meanings(place)
        way = partial(
            CandidateSpan,
            place,
            match=match,
            listed=listed,
            explained=explained,
            family=family,
        )
        nothing = short is not None and short.usual.kind in _NO_MENTION
        for says in sources.members.get(place, ()):
            yield way(expanded=says, discontinuous=apart)
        if short is not None and not nothing and not explained:
            # many terminologies have more English names than others
            for says in dict.fromkeys((short.usual.long, short.usual.english or short.usual.long)):
                sure = listed or _is_usual(short) or self._is_name(says)
                yield way(expanded=says, short=short, sure=sure)
        if short is not None and short.usual.kind != LACONIC and not explained:
            # an abbreviation is its usual meaning, and no rarer one that a family of words has; a name is believed
            is_span = listed
        else:
            is_span = listed or ((family or place in sources.windows) and not self._names_either(text, place))
        if is_span and not nothing and (listed or not _says_nothing(text, place)):
            long, weight = (
                sources.explained.get(place),
                short.usual.weight if short else 0.0,
            )
            yield way(
                expanded=long,
                otherwise=weight,
                discontinuous=apart,
                sure=listed or explained,
            )
            for says in () if listed or self._is_english else self._headwords(text, place):
                yield way(expanded=says, discontinuous=apart, sure=self._is_name(says))

    def _is_name(self, says: str) -> bool:
        """Whether what a span is read as is a name of the index."""
        known = self._known_names.get(says)
        if known is None:
            known = self._known_names[says] = bool(self._index.lookup(says, self._language, self._linker.selection))
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

    def scored(
        self,
        texts: Sequence[ScannedText],
        candidates: Sequence[Sequence[CandidateSpan]],
    ) -> tuple[list[list[ScoredSpan]], list[list[ScoredSpan]]]:
        """The spans of each of n texts with their likeliest concepts, and those whose concept is an attribute."""
        pairs = [(text, one) for text, spans in zip(texts, candidates, strict=True) for one in spans]
        best = self._linker.best([self._mention(text, one) for text, one in pairs])
        known = [found for found in best if found is not None]
        names = self._index.attributes(np.array([found.ranked.name for found in known]))
        concepts = np.array([says_an_attribute(found.concept_id) for found in known], dtype=bool)
        attribute = iter(((names | concepts) & (not self._wants_attributes)).tolist())
        ranked, spans_of, attributes_of = (
            iter(best),
            list[list[ScoredSpan]](),
            list[list[ScoredSpan]](),
        )
        for spans in candidates:
            apart: tuple[list[ScoredSpan], list[ScoredSpan]] = [], []
            for one in spans:
                if (found := next(ranked)) is not None:
                    is_attribute, scored = (
                        next(attribute),
                        _learned(ScoredSpan(one, found)),
                    )
                    if scored is not None:
                        apart[is_attribute].append(scored)
            spans_of.append(by_first_names(self._without_rewordings(apart[0])))
            attributes_of.append(apart[1])
        return spans_of, attributes_of

    def _without_rewordings(self, spans: list[ScoredSpan]) -> list[ScoredSpan]:
        """Spans, without other words for concepts that have what is written as a name too.

        So *Herzinfarkt* is read as the name that two terminologies have, not as the *Myokardinfarkt* of one of them.
        Abbreviations are read as their long forms, which say more.
        """
        others = {one.candidate.place for one in spans if _is_reworded(one)}
        named = {
            one.candidate.place: self._named(one.candidate)
            for one in spans
            if one.candidate.expanded is None and one.is_name and one.candidate.place in others
        }
        return [
            one
            for one in spans
            if not (_is_reworded(one) and one.best.concept_id in named.get(one.candidate.place, ()))
        ]

    def _named(self, candidate: CandidateSpan) -> set[str]:
        """The concepts that have a span as a name."""
        rows = () if candidate.match is None else candidate.match.rows
        return {entry.concept_id for row in rows for entry in self._index.entries_of(row, self._linker.selection)}

    def _verbatim(self, text: ScannedText, long_forms: LongForms) -> list[FoundMention]:
        """The mentions of a text that are names as they are written."""
        explained = {text.place(*span): long for span, long in long_forms.items()}
        names = self._names.find(text, explained)
        found = {place: CandidateSpan(place, explained.get(place), match) for place, match in names.items()}
        silent = set[Place]()  # what was learned to be no mention still hides what it holds
        for place, learned in () if self._learned is None else self._learned.places(text, self._language).items():
            if place not in explained:
                one = learned.candidate(place, names.get(place))
                found[place] = one or CandidateSpan(place)
                silent.update(() if one else (place,))
        return self._described(
            text,
            [SelectedSpan(found[place], None) for place in _longest(found) if place not in silent],
        )

    def _described(
        self,
        text: ScannedText,
        spans: Sequence[SelectedSpan],
        attributes: Sequence[Sequence[Attribute]] | None = None,
    ) -> list[FoundMention]:
        """Mentions as the linker takes them, without what stands for a name or a date that was taken out of a text."""
        inside = in_placeholder(text.text)
        pairs = zip(
            spans,
            [None] * len(spans) if attributes is None else attributes,
            strict=True,
        )
        described = (self._found(text, _span(text, one.candidate), one, own) for one, own in pairs)
        return [one for one in described if not inside(one.start, one.end)]

    def _found(
        self,
        text: ScannedText,
        span: Span,
        one: SelectedSpan | None,
        attributes: Sequence[Attribute] | None,
    ) -> FoundMention:
        """A mention as the linker takes it; a span without words has no candidate."""
        start, end = span
        context = around(text.text, start, end)
        if one is None:
            return FoundMention(start, end, Mention(text.text[start:end], self._language), context)
        mention = self._mention(text, one.candidate)
        mention = mention if one.score is None else replace(mention, likely=one.score)
        own = None if attributes is None else tuple(attributes)
        return FoundMention(
            start,
            end,
            mention,
            context,
            one.candidate.value,
            own,
            one.candidate.discontinuous,
        )

    def _mention(self, text: ScannedText, one: CandidateSpan) -> Mention:
        match = None if one.expanded else one.match
        written = text.text[slice(*_span(text, one))]
        return Mention(
            written,
            self._language,
            one.expanded,
            match,
            one.learned_share,
            one.learned or None,
        )


def _span(text: ScannedText, one: CandidateSpan) -> Span:
    """The characters of a candidate."""
    return text.span(one.place) if one.span is None else one.span


def around(text: str, start: int, end: int) -> str:
    """The context of a mention."""
    return text[max(0, start - _AROUND) : end + _AROUND]


def _learned(one: ScoredSpan) -> ScoredSpan | None:
    """A span, with the score that was learned for it; ``None`` where the learned concept may be no candidate."""
    if not one.candidate.learned:
        return one
    score = one.candidate.learned_share or 0.0
    return None if one.best.ranked.route != LEARNED else ScoredSpan(one.candidate, one.best._replace(score=score))


def _is_usual(short: Shortened) -> bool:
    """Whether a span is short for a finding more often than not."""
    return short.usual.kind in ("disease", "finding") and short.usual.weight >= _USUAL


def _is_reworded(one: ScoredSpan) -> bool:
    """Whether a span is read as other words that say the same, and is no abbreviation."""
    return one.candidate.expanded is not None and not one.is_short


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
    near, clause = (
        text.words[max(place[0] - _CLAUSE, 0) : place[1] + _CLAUSE],
        text.words[place[0]].clause,
    )
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
