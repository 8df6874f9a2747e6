"""``CandidateGenerator``: find the candidate spans of texts, and the readings of each.

A candidate is a name of the index, a match by word families, a window around a word of a finding, an abbreviation or a
word that leaves something out, a name with words cut short, a member of a list that lacks a word, a measured value, or
a learned mention.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from typing import NamedTuple

from medlink.index import ConceptIndex
from medlink.index.dictionary import Match
from medlink.index.names import Selections
from medlink.language.cues import Phrases, cues, has_cues
from medlink.language.lexicon.abbreviation_table import LACONIC, AbbreviationTable, BodySiteCue, body_sites
from medlink.language.lexicon.tables import Abbreviation
from medlink.language.no_mentions import no_mentions
from medlink.language.relatives import AGES, WHOSE, relatives
from medlink.language.scan import Place, ScannedText, ScannedWord, Scanner
from medlink.language.scope_rules import scopes
from medlink.reading.abbreviations import LongForms, SlashReader
from medlink.reading.candidates import (
    SHORT_FOR_FINDING,
    CandidateSpan,
    LearnedSpan,
    Paraphrase,
    Shortened,
    headword,
    open_windows,
)
from medlink.reading.classifier import default_span_filter
from medlink.reading.features import UNRANKED, SpanColumns
from medlink.reading.learned import Learned
from medlink.reading.names import SHORT, NameFinder, PersonNames
from medlink.reading.options import FinderOptions
from medlink.reading.paraphrases import ParaphraseReader, names_finding
from medlink.reading.truncation import TruncationReader
from medlink.reading.values import arrow_findings, value_findings

_USUAL = 0.5  # least share of uses with a meaning, for an abbreviation to be always ranked
_CACHE_SIZE = 1 << 14  # lookups of long forms
_SITES = frozenset(("body", "function", "measure"))
_ANY_SITE = frozenset((
    "basis", "blood", "bone", "bundle", "cell", "gland", "interstitium", "intramural", "joint", "limb", "lobe",
    "lymph node", "mucosa", "muscle", "parenchyma", "peduncle", "sensation", "skin", "stalk", "subserosa", "tissue",
    "vein", "wall",
))  # fmt: skip
"""Parts that several organs have: beside a word they tell no organ."""
_MAX_SITE = 4  # words behind a word that may name its site
_PERSONS = frozenset(("person", "general"))
_NO_FINDING = _PERSONS | {"body", "function", "quality", "measure", "circumstance"}
_NUMBER = re.compile(r"\s{0,3}[:=<>]?\s{0,3}\d")  # the word before it is a measured value
_BLANKS = 4  # characters before a word that may end with a number
_CLAUSE = 15  # words on either side that are searched for another body part
_EXPECT = frozenset(("absent", "uncertain", "hypothetical", "historical"))
"""What the cues say behind which an abbreviation is a finding if it often is."""
_NO_MENTION = frozenset(("text", "dose", "unit", "person", "place"))
"""Kinds of abbreviations whose meaning no terminology of findings, drugs or procedures has."""


class _Sources(NamedTuple):
    names: Mapping[Place, Match | None]
    explained: Mapping[Place, str]
    families: Collection[Place]
    windows: Collection[Place]
    short: Mapping[Place, Shortened]
    reworded: Mapping[Place, Sequence[str]]
    bodies: Mapping[int, int]
    """The first word of the name of a body part, by each word inside it."""
    misspelt: frozenset[int]


class CandidateGenerator:
    """Find the candidate spans of scanned texts of one language (BCP 47).

    Args:
        names: finds the names of the index in a text.
        selection: names of concepts that may be candidates.
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
        self._scanner, self._selection, self._learned = scanner, selection, learned
        self._shorthand = AbbreviationTable(language, index.forms) if options.abbreviations != "none" else None
        self._slashes = SlashReader(language, self._shorthand) if self._shorthand is not None else None
        self._joins, self._either = scopes(language).joins, scopes(language).either
        self._paraphrases = ParaphraseReader(scanner, index, selection, self._shorthand)
        self._truncation = TruncationReader(scanner, index, selection)
        self._no_mentions, self._persons = no_mentions(language), PersonNames(language)
        self._relatives = relatives(language)
        self._any_site = {meaning for meaning, name in enumerate(index.forms.names) if name in _ANY_SITE}
        self._sites_in = lru_cache(_CACHE_SIZE)(self._find_sites)
        self._is_name = self._paraphrases.is_name

    def candidates(
        self,
        texts: Sequence[ScannedText],
        explained: Sequence[LongForms],
        given: Sequence[Sequence[Place]] | None = None,
        *,
        filtered: bool = True,
    ) -> list[list[CandidateSpan]]:
        """Find the candidate spans of each of n texts, in the order of their places.

        Adds ``given`` spans as they are written. If ``filtered``, drops other spans whose words alone show that they
        are hardly mentions.
        """
        families, paraphrases = self._index.match_families(texts, self._selection), self._paraphrases.read(texts)
        found = list(map(self._of_text, texts, explained, families, paraphrases))
        likely = self._with_columns(texts, found, filtered=filtered)
        if given is None:
            return likely
        known = [{span.place for span in spans} for spans in likely]
        new = [
            [CandidateSpan(place) for place in dict.fromkeys(wanted) if place[0] < place[1] and place not in places]
            for wanted, places in zip(given, known, strict=True)
        ]
        both = zip(likely, self._with_columns(texts, new, filtered=False), strict=True)
        return [sorted([*spans, *more], key=lambda span: span.place) for spans, more in both]

    def verbatim(self, text: ScannedText, long_forms: LongForms) -> list[CandidateSpan]:
        """Find the names of a text as they are written, the longest of overlapping names."""
        explained = {text.place(*span): long for span, long in long_forms.items()}
        names = self._names.find(text, explained)
        found = {place: CandidateSpan(place, explained.get(place), match) for place, match in names.items()}
        hidden = set[Place]()  # learned as no mention; still covers what it contains
        for place, learned in self._learned_in(text).items():
            if place not in explained:
                candidate = learned.candidate(place, names.get(place))
                found[place] = candidate or CandidateSpan(place)
                hidden.update(() if candidate else (place,))
        taken, disjoint = set[int](), list[CandidateSpan]()
        for place in sorted(found, key=lambda place: (place[0] - place[1], place[0])):
            if taken.isdisjoint(range(*place)):
                taken.update(range(*place))
                disjoint += [] if place in hidden else [found[place]]
        return sorted(disjoint, key=lambda span: span.place)

    def _learned_in(self, text: ScannedText) -> dict[Place, LearnedSpan]:
        return {} if self._learned is None else self._learned.places(text, self._language)

    def _with_columns(
        self, texts: Sequence[ScannedText], spans: Sequence[Sequence[CandidateSpan]], *, filtered: bool
    ) -> list[list[CandidateSpan]]:
        if not any(spans):
            return [[] for _ in texts]
        known = dict[bytes, tuple[float, ...]]()
        model, least = default_span_filter()
        for part, rows in SpanColumns(texts, spans, self._joins, self._language).rows():
            probabilities = model.predict_proba(rows[:, : len(UNRANKED)]) if filtered else [1.0] * len(part)
            for span, probability, row in zip(part, probabilities, rows, strict=True):
                if span.sure or probability >= least:
                    # repeated text has the same columns: share the tuple
                    key = row.tobytes()
                    span.context = known[key] = known.get(key) or tuple(row.tolist())
        return [[span for span in own if span.context] for own in spans]

    def _of_text(
        self, text: ScannedText, long_forms: LongForms, families: set[Place], paraphrases: Sequence[Paraphrase]
    ) -> list[CandidateSpan]:
        explained = {text.place(*span): long for span, long in long_forms.items()}
        explained = {place: long for place, long in explained.items() if place[0] < place[1]}
        reworded: dict[Place, list[str]] = defaultdict(list)
        for place, wording in chain(paraphrases, self._truncation.read(text)):
            # the text is a name already: a shorter wording would only lose words, unless it is a name itself
            if place not in families or len(wording) >= len(text.written(place)) or self._paraphrases.named(wording):
                reworded[place].append(wording)
        names = self._names.find(text, explained)
        # a longer name goes before an expression with other words inside: "knee jerks are very brisk"
        named = [*families, *reworded]
        short = {
            place: own
            for place, own in self._short(text).items()
            if not (own.apart and any(a <= place[0] and place[1] <= b and (a, b) != place for a, b in named))
        }
        windows, kinds = open_windows(text, families) - families, self._index.forms.kinds
        parts = (place for place, meanings in text.phrases.items() if all(kinds[one] == "body" for one in meanings))
        bodies = {at: first for first, stop in parts for at in range(first + 1, stop)}
        is_mended = text.table.column("mended", lambda entry: entry.word.text != entry.exact, bool)
        misspelt = frozenset(text.where(is_mended))
        sources = _Sources(names, explained, families, windows, short, reworded, bodies, misspelt)
        measured = value_findings(text.text, self._language) if self._options.values else ()
        values = {text.place(value.start, value.end): value for value in measured}
        found_arrows = arrow_findings(text.text, self._language)
        arrows = {text.place(start, end): ((start, end), names) for start, end, names in found_arrows}
        learned, in_fixed_phrase = self._learned_in(text), self._no_mentions.inside(text.indexed)
        kin = _relatives_like_organs(text, self._relatives)
        found = list[CandidateSpan]()
        for place in sorted({*names, *families, *sources.windows, *short, *reworded, *learned, *values, *arrows}):
            start, end = text.span(place)
            if self._persons.is_person(text.text, start, end):
                continue
            if place in learned and place not in explained:
                candidate = learned[place].candidate(place, names.get(place))
                if candidate is not None:
                    candidate.listed = place in names
                    found.append(candidate)
            elif place in values:
                value = values[place]
                span = value.start, value.end
                found += [CandidateSpan(place, name, value=value.value, span=span) for name in value.names]
            elif place in arrows:
                span, terms = arrows[place]
                found += [CandidateSpan(place, term, span=span) for term in terms]
            elif not in_fixed_phrase(start, end) and kin.isdisjoint(range(*place)):
                found += self._readings(text, place, sources)
        return found

    def _short(self, text: ScannedText) -> dict[Place, Shortened]:
        found = dict[Place, Shortened]()
        if self._shorthand is not None:
            for place, usual, cue, apart in self._shorthand.laconic(text):
                if place[0] == place[1]:
                    continue
                if _refers_to_cue(text, place, cue) if cue else not self._is_elsewhere(text, place, usual.long):
                    found.setdefault(place, Shortened(usual, cue, apart=apart))
            abbreviations = [
                own for own in self._shorthand.abbreviations(text) if own[2] or not _is_heading(text, own[0])
            ]
            expected = self._behind_cues(text) if any(not own.safe for _, own, _ in abbreviations) else set()
            for at, usual, certain in abbreviations:
                if certain or not ((at, at + 1) in found and found[at, at + 1].cue):
                    long = _as_finding(usual) if text.words[at].start in expected else usual
                    found[at, at + 1] = Shortened(long, certain=certain)
        if self._slashes is not None:
            found.update((place, Shortened(usual)) for place, usual in self._slashes.read(text))
        return found

    def _is_elsewhere(self, text: ScannedText, place: Place, long: str) -> bool:
        """Whether the text names a body part beside a short word, and its long form another: *opacity of the sinus*."""
        sites, organs = self._sites_in(long)
        own = sites.difference(*map(_meanings, text.words[slice(*place)]))
        beside = _beside(text, place, self._joins | self._either) if own else ()
        near = [word for word in beside if self._bodies(word) - self._any_site]
        if not near or any(own & _meanings(word) for word in near):
            return False
        first, last = near[0].start, near[-1].end
        return not any(first <= cue.start < last and cue.organ in organs for cue in body_sites(text, self._language))

    def _bodies(self, word: ScannedWord) -> set[int]:
        return {m for m in _meanings(word) if self._index.forms.kinds[m] == "body"} if "body" in word.kinds else set()

    def _find_sites(self, long: str) -> tuple[frozenset[int], frozenset[str]]:
        """The body parts and measures that a long form names, and their organs."""
        text, forms = self._scanner.scan(long), self._index.forms
        meanings = {m for word in text.words for m in _meanings(word) if forms.kinds[m] in _SITES}
        return frozenset(meanings - self._any_site), frozenset(cue.organ for cue in body_sites(text, self._language))

    def _behind_cues(self, text: ScannedText) -> set[int]:
        """Where, in characters, the words of a finding are expected: behind *r/o*, *negative for*, *V. a.*"""
        if not has_cues(self._language):
            return set()
        found = cues(self._language).whole.found(text.indexed)
        ends = (end for _, end, own in found if any(cue.reads in _EXPECT and cue.side != "after" for cue in own))
        return {text.tokens[end].start for end in ends if end < len(text.tokens)}

    def _readings(self, text: ScannedText, place: Place, sources: _Sources) -> Iterator[CandidateSpan]:
        short, listed, explained = sources.short.get(place), place in sources.names, place in sources.explained
        if not (listed or short or explained) and self._names_two(text, place):
            return
        family, match = place in sources.families, sources.names.get(place)
        if short is not None:
            discontinuous = short.apart
        else:
            apart = family or place in sources.reworded
            discontinuous = apart and not listed and not text.meanings(place)
        reading = partial(CandidateSpan, place, match=match, listed=listed, explained=explained, family=family)
        for wording in sources.reworded.get(place, ()):
            yield reading(expanded=wording, discontinuous=discontinuous)
        if short is not None:
            if short.usual.kind in _NO_MENTION:
                return
            if not explained:
                yield from self._in_full(short, partial(reading, discontinuous=discontinuous))
            if short.certain and short.usual.kind not in SHORT_FOR_FINDING and not explained:
                return
        usual = short.usual if short else self._with_numbers(text, place) if listed else None
        as_written = partial(reading, expanded=sources.explained.get(place), otherwise=usual.weight if usual else 0.0)
        if listed:
            yield as_written()
            return
        # an abbreviation has its usual meaning, not a rarer one by word family; but a name of the index is trusted
        is_abbreviation = short is not None and short.usual.kind != LACONIC and not explained
        is_open = place in sources.families or place in sources.windows
        if short is not None and short.cue and self._shorthand and self._shorthand.is_bound(text.written(place)):
            return
        is_cut = sources.bodies.get(place[1], place[0]) > place[0]  # "agenesia de la vesícula" before "seminal"
        if is_open and not (
            is_abbreviation or is_cut or self._names_either(text, place) or _cannot_be_finding(text, place)
        ):
            misspelt = not sources.misspelt.isdisjoint(range(*place))
            yield as_written(discontinuous=discontinuous, misspelt=misspelt, sure=explained)
            name = headword(text, place, self._index.forms, self._language)
            if name is not None:
                yield reading(expanded=name, discontinuous=discontinuous, sure=self._is_name(name))

    def _with_numbers(self, text: ScannedText, place: Place) -> Abbreviation | None:
        """The usual meaning of an abbreviation of several words, such as *COVID-19*."""
        written = text.written(place)
        if place[1] - place[0] == 1 or not written.isupper() or self._shorthand is None:
            return None
        return self._shorthand.abbreviation(written)

    def _in_full(self, short: Shortened, reading: partial[CandidateSpan]) -> Iterator[CandidateSpan]:
        usual, known = short.usual, _as_finding(short.usual).safe
        # many terminologies have more English names than others
        for long in dict.fromkeys((usual.long, usual.english or usual.long)):
            candidate = reading(expanded=long, short=short)
            candidate.sure = candidate.listed or known or self._is_name(long)
            yield candidate

    def _names_either(self, text: ScannedText, place: Place) -> bool:
        """Whether a span names one finding *or* another, and so is not a single finding."""
        words, (first, stop) = text.words, place
        joins = (
            at for at in range(*place) if words[at].function and words[at].entry.written.casefold() in self._either
        )
        return any(names_finding(words[first:at]) and names_finding(words[at:stop]) for at in joins)

    def _names_two(self, text: ScannedText, place: Place) -> bool:
        """Whether a span joins two names of findings, and so is not a single finding: *Übelkeit und Erbrechen*."""
        words, (first, stop) = text.words, place
        joins = (at for at in range(first + 1, stop - 1) if words[at].entry.written.casefold() in self._joins)
        pairs = (((first, at), (at + 1, stop)) for at in joins)
        return any(
            all(names_finding(words[slice(*p)]) and self._is_name(text.written(p)) for p in pair) for pair in pairs
        )


def _meanings(word: ScannedWord) -> set[int]:
    return {*word.meanings, *(meaning for part in word.entry.word.parts for meaning in part)}


def _beside(text: ScannedText, place: Place, joins: Collection[str]) -> Iterator[ScannedWord]:
    """The content word before a span, and those behind it with the words that join them, in its clause."""
    words, clause = text.words, text.words[place[0]].clause
    if place[0] and words[place[0] - 1].clause == clause and not words[place[0] - 1].function:
        yield words[place[0] - 1]
    content = 0
    for word in words[place[1] : place[1] + _MAX_SITE]:
        if word.clause != clause or text.text[word.start : word.end].casefold() in joins or content > 1:
            return
        content += not word.function
        if not word.function:
            yield word


def _as_finding(usual: Abbreviation) -> Abbreviation:
    return replace(usual, safe=True) if usual.kind in ("disease", "finding") and usual.weight >= _USUAL else usual


def _relatives_like_organs(text: ScannedText, relatives: Phrases[str]) -> set[int]:
    """The words for relatives that are read like a body part: *mamá*, not *mama*."""
    found = (match for match in relatives.found(text.indexed) if match.values[0] not in (*AGES, WHOSE))
    starts = {text.indexed.words[match.start].start for match in found}
    return {at for at, word in enumerate(text.words) if word.start in starts and "body" in word.kinds}


def _is_heading(text: ScannedText, at: int) -> bool:
    """Whether an abbreviation is a common word in a line of capitals: *ALL EXTREMITIES*."""
    if not text.words[at].function:
        return False
    beside = [text.written((near, near + 1)) for near in (at - 1, at + 1) if 0 <= near < len(text.words)]
    return any(len(word) > SHORT and word.isupper() for word in beside)


def _cannot_be_finding(text: ScannedText, place: Place) -> bool:
    """Whether a span that is not a name cannot be a finding.

    It cannot if it has only words for persons, one word of another kind, or a few lower-case letters: *Dr* and *neck*
    are mentions only if the bundle has these names; *tos* may be one.
    """
    kinds = [word.kinds for word in text.words[slice(*place)] if not word.function]
    if all(kind and kind <= _PERSONS for kind in kinds) or (len(kinds) == 1 and kinds[0] and kinds[0] <= _NO_FINDING):
        return True
    written = text.written(place)
    return not written.isupper() and len(written) <= SHORT and not any("finding" in kind for kind in kinds)


def _refers_to_cue(text: ScannedText, place: Place, cue: BodySiteCue) -> bool:
    """Whether an elliptical word refers to the organ of the cue: no number and no other body part is near."""
    start, end = text.span(place)
    if _NUMBER.match(text.text, end) or text.text[max(start - _BLANKS, 0) : start].rstrip()[-1:].isdigit():
        return False
    near, clause = (text.words[max(place[0] - _CLAUSE, 0) : place[1] + _CLAUSE], text.words[place[0]].clause)
    others = (word for word in near if word.clause == clause and (word.end <= start or word.start >= end))
    return not any("body" in word.kinds for word in others if not cue.start <= word.start < cue.end)
