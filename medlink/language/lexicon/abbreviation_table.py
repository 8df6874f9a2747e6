"""Expand abbreviations, and elliptical words, in notes of one language.

In *Abdomen: weich, kein DS*, *DS* (tenderness) does not name the abdomen. This module therefore also finds the body
site of a passage. In *CTPA negative for PE*, other words of the sentence tell the meaning of *PE*.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from typing import NamedTuple, TypeVar, cast

from medlink.language.cues import Text, absences, cues, has_cues, is_number
from medlink.language.cues import words as split_words
from medlink.language.languages import ROW_REMEDY, Language, language_data, per_language, rows
from medlink.language.lexicon.forms import AMBIGUOUS, SHORT, STEM, WORD, LexiconForms
from medlink.language.lexicon.lexicon import SHIPPED
from medlink.language.lexicon.tables import ABBREVIATIONS, Abbreviation, read_abbreviations, share, shortened
from medlink.language.scan import Place, ScannedText, WordEntry
from medlink.language.scope_rules import ScopeRules, scopes
from medlink.language.tags import base
from medlink.language.text import Inflector, is_inflection, is_short, normalise

ORGANS = frozenset((
    "head", "brain", "eye", "ear", "nose", "throat", "neck", "thyroid", "chest", "heart", "coronary", "breast",
    "abdomen", "liver", "urinary", "male", "female", "rectum", "back", "limb", "joint", "skin", "lymph", "vessel",
    "neuro", "psych", "blood", "general",
))  # fmt: skip
"""Organs and systems that the tables may name."""
_LONGEST = 3  # words of the longest expression
_MOST_BETWEEN = 4  # words inside an expression that do not belong to it
# end of a sentence: a mark with a blank behind it, or an empty line
_ENDS = re.compile(r"[.!?;]\s|\n\s*\n")
_CLAUSE = re.compile(r"[,;:.!?\n]")
# a few words before a colon, or alone in a line, are the label of the text that follows
_LABEL = re.compile(r"(?:^|[.;,(\-•*])[^\S\n]*+([^\s.:;,][^\n.:;,]{0,47}):", re.MULTILINE)
_HEADING = re.compile(r"^[^\S\n]*+([^\s.:;,][^\n.:;,]{0,39})$", re.MULTILINE)
_LABEL_LIMIT = 500  # a label applies to this many characters after it
_BEFORE = 250  # characters between a cue and a word behind it, in one sentence
_BEHIND = 60  # characters between a word and a cue behind it
_CACHED = 1 << 15  # pairs of words
_NO_FINDINGS = frozenset(("body", "person", "quality", "substance"))  # kinds of words
_V = TypeVar("_V")
LACONIC = "laconic"
"""Kind of an elliptical word, or of a word that negates its long form: *afebrile*."""
_COLUMNS = ("word", "organ", "long", "english", "weight")
_SENSES = ("abbreviation", "long", "beside")
_SURE = 0.95  # weight of a meaning that words in the sentence tell
_STOP = re.compile(r"(?<!\d)(?<!\b\w)[.!?;]\s|\n\s*\n")  # end of a sentence, not of "34." or "Z. n."
_BESIDE = 80  # characters between an abbreviation and such a word
_LOWER = 3  # least letters of an abbreviation in lower case
_DENIES = 0.9  # weight of the finding that a word such as "afebrile" negates


class BodySiteCue(NamedTuple):
    """The character span of a word that names a body site; ``near`` if it is in the same sentence."""

    start: int
    end: int
    organ: str
    near: bool = True


class BodySiteContext:
    """The body sites to which the passages of a text refer."""

    def __init__(self, language: str, scanned: ScannedText) -> None:
        self._text = text = scanned.text
        self._cues = body_sites(scanned, language)
        self._starts = [cue.start for cue in self._cues]
        self._ends = [match.start() for match in _ENDS.finditer(text)]
        labels, headings = (
            [(match.span(1), self._last_within(*match.span(1))) for match in pattern.finditer(text)]
            for pattern in (_LABEL, _HEADING)
        )
        named = (heading for heading in headings if heading[1])
        self._labels = sorted([*labels, *named], key=lambda label: label[0])
        self._label_starts = [span[0] for span, _ in self._labels]

    def cue_for(self, start: int, end: int) -> BodySiteCue | None:
        """Find the cue for a character span: the next in its clause, else the last in its sentence, else its label."""
        at = bisect_left(self._starts, start)
        before = self._cues[at - 1] if at else None
        while at < len(self._cues) and self._cues[at].start < end:
            at += 1
        behind = self._cues[at] if at < len(self._cues) else None
        if behind and behind.start - end <= _BEHIND and not _CLAUSE.search(self._text, end, behind.start):
            return behind
        in_sentence = before and bisect_left(self._ends, before.start) == bisect_left(self._ends, start)
        if before and in_sentence and start - before.end <= _BEFORE:
            return before
        label = bisect_right(self._label_starts, start) - 1
        if label < 0 or start - self._labels[label][0][1] > _LABEL_LIMIT:
            return None
        cue = self._labels[label][1]
        return cue and cue._replace(near=False)

    def _last_within(self, start: int, end: int) -> BodySiteCue | None:
        at = bisect_left(self._starts, end) - 1
        return self._cues[at] if at >= 0 and self._cues[at].start >= start else None


def body_sites(text: ScannedText, language: str) -> list[BodySiteCue]:
    """Return the words of a text that name a body site; computed once."""
    if "body sites" in text.memo:
        return cast(list[BodySiteCue], text.memo["body sites"])
    text.memo["body sites"] = cues = list[BodySiteCue]()
    behind = 0
    for place, organs in _organs(language).find(text, "organ"):
        if place[0] >= behind:
            organ = next((organ for word, organ in organs if _matches(text.written(place), word, language)), None)
            if organ is not None:
                cues.append(BodySiteCue(*text.span(place), organ))
                behind = place[1]
    return cues


class Expressions(dict[str, list[_V]]):
    """Words and expressions of a language with their values, by stemmed form."""

    @cached_property
    def _firsts(self) -> frozenset[str]:
        return frozenset(key.partition(" ")[0] for key in self)

    def find(self, text: ScannedText, name: str) -> Iterator[tuple[Place, list[_V]]]:
        """Yield the expressions in a text with their values, the longest first among those with the same first word.

        ``name`` is the column of the text's word table that marks the words with which an expression begins.
        """
        if not self:
            return
        inflector, firsts = text.table.inflector, self._firsts
        begins = text.table.column(name, lambda entry: _form(entry, inflector).partition(" ")[0] in firsts, bool)
        for at in text.where(begins):
            forms = [_form(word.entry, inflector) for word in text.words[at : at + _LONGEST]]
            for count in range(len(forms), 0, -1):
                values = self.get(" ".join(forms[:count]))
                if values is not None:
                    yield (at, at + count), values


class LaconicExpressions(Expressions[tuple[str, Abbreviation]]):
    """Elliptical words and expressions with their organs and long forms."""

    @cached_property
    def _beginnings(self) -> dict[tuple[str, ...], str | None]:
        """The beginnings of expressions of several words, and the whole with its key; those of two in both orders."""
        found: dict[tuple[str, ...], str | None] = {}
        for key in self:
            words = tuple(key.split(" "))
            orders = {1: (), 2: (words, words[::-1])}.get(len(words), (words,))
            for order in orders:
                found.update((order[:stop], None) for stop in range(1, len(order)) if order[:stop] not in found)
                found[order] = key if order == words else found.get(order) or key
        return found

    def find_apart(self, text: ScannedText, rules: ScopeRules) -> Iterator[tuple[list[int], str]]:
        """Yield positions and key of the expressions that other words interrupt, or that are reversed."""
        inflector, beginnings = text.table.inflector, self._beginnings
        first = text.table.column("laconic apart", lambda entry: (_form(entry, inflector),) in beginnings, bool)
        for at in text.where(first):
            yield from self._continued(text, rules, [at])

    def _continued(self, text: ScannedText, rules: ScopeRules, taken: list[int]) -> Iterator[tuple[list[int], str]]:
        words, inflector = text.words, text.table.inflector
        begun = tuple(_form(words[at].entry, inflector) for at in taken)
        key = self._beginnings.get(begun)
        is_interrupted = taken[-1] - taken[0] >= len(taken)
        # "weint es" is no "es weint", and "alta presión" no "presión alta"
        if key is not None and key != " ".join(begun):
            is_line = "\n" not in text.text[words[taken[0]].end : words[taken[-1]].start]
            fits = is_line and (is_interrupted or not rules.head_first)
            yield from [(taken, key)] if fits and not any(words[at].function for at in taken) else []
        elif key is not None and is_interrupted:
            yield taken, key
        for at in range(taken[-1] + 1, min(taken[0] + len(taken) + _MOST_BETWEEN + 1, len(words))):
            word = words[at]
            if word.clause != words[taken[0]].clause:
                return
            if (*begun, _form(word.entry, inflector)) in self._beginnings:
                yield from self._continued(text, rules, [*taken, at])
            if not (word.entry.written.casefold() in rules.between or is_number(word.entry.written)):
                return


def _form(entry: WordEntry, inflector: Inflector) -> str:
    if "form" not in entry.memo:
        entry.memo["form"] = inflector.form(entry.written)
    return cast(str, entry.memo["form"])


@lru_cache(maxsize=_CACHED)
def _denies(expression: str, language: str) -> bool:
    """Whether an expression has a negation of its own: *isst nicht*."""
    found = cues(language).whole.found(Text(split_words(expression))) if has_cues(language) else ()
    return any(cue.reads == "absent" for _, _, own in found for cue in own)


@lru_cache(maxsize=_CACHED)
def _matches(written: str, word: str, language: str) -> bool:
    """Whether words of a text match those of a table: abbreviations in capitals, nouns with a first capital."""
    if word.isupper() and len(word) > 1:
        return written.isupper()
    if word[0].isupper():
        return not written[0].islower() and is_inflection(written, word, language)
    # "eng" is about pupils in "Pupillen eng", not in "enge Verhältnisse"
    predicate = language_data(language).forms.bare_predicates and " " not in word
    return written.casefold() == word.casefold() if predicate else is_inflection(written, word, language)


@per_language
def _organs(data: Language) -> Expressions[tuple[str, str]]:
    inflector, organs = Inflector(data.tag), Expressions[tuple[str, str]]()
    for row in rows(data.table("organs"), "word", "organ"):
        if not row["word"] or row["organ"] not in ORGANS:
            raise row.error(f"a word and one of the organs {', '.join(sorted(ORGANS))} are expected", ROW_REMEDY)
        organs.setdefault(inflector.form(row["word"]), []).append((row["word"], row["organ"]))
    return organs


class AbbreviationTable:
    """The abbreviations and elliptical words of one language (BCP 47); empty without tables.

    ``abbreviations_XX.tsv`` of the lexicon has the abbreviations; ``abbreviations.tsv`` of the language has the words
    beside which they have one of their meanings. ``laconic.tsv`` has the elliptical words: *Hypertonie* in a note means
    arterial hypertension, and *Resistenz* near *Abdomen* means an abdominal mass. A word of ``absences.tsv`` negates a
    finding; its long form is that finding. With the ``forms`` of the lexicon, a word in lower case that no language
    knows is an abbreviation too (*htn*).
    """

    def __init__(self, language: str, forms: LexiconForms | None = None) -> None:
        self._language, self._forms = language, forms
        self._abbreviations, self._laconic = most_frequent(base(language)), _laconic(language)
        self._senses = _senses(language)
        self._inflector = Inflector(language)

    def abbreviation(self, word: str) -> Abbreviation | None:
        """Return the most frequent meaning of a word with two capitals or more."""
        return self._abbreviations.get(shortened(word)) if is_short(word) else None

    def slashed(self, written: str) -> Abbreviation | None:
        """Return the most frequent meaning of words with slashes, in upper or lower case: *N/V*, *n/v*."""
        found = map(self._abbreviations.get, (written, written.upper(), written.lower()))
        return max(filter(None, found), key=lambda short: short.weight, default=None)

    def abbreviations(self, text: ScannedText) -> Iterator[tuple[int, Abbreviation, bool]]:
        """Yield position and meaning of each abbreviation, and whether the sentence determines the meaning."""
        known = text.table.column("abbreviation", lambda entry: self._of_word(entry) is not None, bool)
        found = [(at, short) for at in text.where(known) if (short := self._of_word(text.words[at].entry)) is not None]
        several = {form for _, short in found for form in short.short_forms} & self._senses.short_forms
        beside = list(self._senses.find(text, "senses")) if several else []
        for at, short in found:
            told = self._sense(text, at, beside)
            yield at, told or short, told is not None

    def _of_word(self, entry: WordEntry) -> Abbreviation | None:
        written = entry.written
        return self.abbreviation(written) or (self._lower(entry) if written.islower() else None)

    def _lower(self, entry: WordEntry) -> Abbreviation | None:
        """The finding that an abbreviation in lower case means, unless it is a word of the language."""
        short = self._abbreviations.get(shortened(entry.written).upper())
        if self._forms is None or short is None or len(entry.exact) < _LOWER or not short.safe:
            return None
        tag = base(self._language)
        marks = [form.marks for form in self._forms.find(WORD, tag, entry.exact)]
        is_word = (
            entry.word.function
            or any(not mark & SHORT for mark in marks)
            or (bool(marks) and all(mark & AMBIGUOUS for mark in marks))
            or bool(self._forms.find(STEM, tag, self._inflector.word(entry.exact)))
        )
        return short if short.kind in ("disease", "finding") and not is_word else None

    def _sense(self, text: ScannedText, at: int, beside: list[tuple[Place, list[_Sense]]]) -> Abbreviation | None:
        """The meaning of an abbreviation by the nearest word of the sentence that decides it."""
        word, nearest = text.words[at], (_BESIDE, 0)
        own, best = shortened(word.entry.written), None
        for place, senses in beside:
            start, end = text.span(place)
            before = end <= word.start
            gap = (end, word.start) if before else (word.end, start)
            distance = (gap[1] - gap[0], before)  # negative for an expression with the abbreviation: "on PE"
            if distance >= nearest or _STOP.search(text.text, *gap):
                continue
            for written, short in senses:
                if own in short.short_forms and _matches(text.written(place), written, self._language):
                    best, nearest = short, distance
                    break
        return best

    def is_bound(self, written: str) -> bool:
        """Whether an elliptical word has its literal meaning only near one organ: *Taubheit* near the ear."""
        known = self._laconic.get(self._inflector.form(written), ())
        return any(organ and short.long == short.forms[0] for organ, short in known)

    def laconic(self, text: ScannedText) -> Iterator[tuple[Place, Abbreviation, BodySiteCue | None, bool]]:
        """Yield the elliptical words and expressions of a text with their long forms; the same words may have several.

        If the omitted word is a body site (*Abdomen: kein Druckschmerz*), the cue is the word that names it. The last
        value tells whether words inside, such as a negation, are no part of it: *Bauchdecke nicht hart*.
        """
        denying = absences(self._language)
        for start, end, term in denying.find(text.indexed):
            place = text.place(start, end)
            finds = any("finding" in word.kinds for word in text.words[slice(*place)])
            if not finds and denying.is_derived(text.text[start:end]):
                continue
            yield (place, _short(text.written(place), self._language, term, term, _DENIES, safe=True), None, False)
        context: BodySiteContext | None = None
        for place, written, known, apart in self._expressions(text):
            if all(word.function for word in text.words[slice(*place)]):
                continue  # "para" is not a plural of "paro"
            by_organ = {
                organ: short
                for organ, short in known
                if _matches(written, short.forms[0], self._language)
                and not self._is_other_word(written, short.forms[0])
            }
            if by_organ.keys() - {""}:
                context = context or BodySiteContext(self._language, text)
                cue = context.cue_for(*text.span(place))
                if cue is not None and cue.organ in by_organ:
                    yield place, by_organ[cue.organ], cue, apart
            if "" in by_organ:
                yield place, by_organ[""], None, apart

    def _is_other_word(self, written: str, word: str) -> bool:
        """Whether a word only looks like an inflected one, and names no finding: *Blut* beside *Bluter*."""
        if self._forms is None or written.casefold() == word.casefold():
            return False
        tag = base(self._language)
        own, that = ({form.meaning for form in self._forms.find(WORD, tag, normalise(one))} for one in (written, word))
        return bool(own) and own.isdisjoint(that) and _NO_FINDINGS.issuperset(self._forms.kinds[one] for one in own)

    def _expressions(self, text: ScannedText) -> Iterator[tuple[Place, str, list[tuple[str, Abbreviation]], bool]]:
        """Yield place, words, values, and whether they stand apart, of all elliptical expressions of a text."""
        whole = dict(self._laconic.find(text, "laconic"))
        yield from ((place, text.written(place), known, False) for place, known in whole.items())
        for positions, key in self._laconic.find_apart(text, scopes(self._language)):
            place, forms = (positions[0], positions[-1] + 1), key.split(" ")
            if place not in whole:
                ordered = sorted(positions, key=lambda at: forms.index(_form(text.words[at].entry, self._inflector)))
                written = " ".join(text.words[at].entry.written for at in ordered)
                yield place, written, self._laconic[key], not _denies(written, self._language)


@cache
def most_frequent(language: str, kind: str | None = None, field: str | None = None) -> dict[str, Abbreviation]:
    """Return the most frequent meaning of each form, optionally among meanings of one kind (``drug``) or field."""
    best: dict[str, Abbreviation] = {}
    for short in _meanings(language):
        if kind in (None, short.kind) or field in short.fields:
            for form in short.short_forms:
                if form not in best or best[form].weight < short.weight:
                    best[form] = short
    return best


def _meanings(language: str) -> Iterable[Abbreviation]:
    path = SHIPPED / ABBREVIATIONS.format(base(language))
    return read_abbreviations(path, language) if path.is_file() else ()


@per_language
def _laconic(data: Language) -> LaconicExpressions:
    inflector, expressions = Inflector(data.tag), LaconicExpressions()
    for row in rows(data.table(LACONIC), *_COLUMNS):
        weight = share(row["weight"])
        filled = weight and all(row[column] for column in _COLUMNS if column != "organ")
        if not filled or row["organ"] not in {"", *ORGANS}:
            message = "a word, its long form in both languages, a share of its uses above 0, and an organ or nothing"
            raise row.error(f"{message} are expected", ROW_REMEDY)
        short = _short(row["word"], data.tag, row["long"], row["english"], weight)
        expressions.setdefault(inflector.form(row["word"]), []).append((row["organ"], short))
    return expressions


_Sense = tuple[str, Abbreviation]
"""A word beside which an abbreviation has a meaning."""


class _Senses(Expressions[_Sense]):
    short_forms: frozenset[str] = frozenset()


@per_language
def _senses(data: Language) -> _Senses:
    known = {(form, short.long): short for short in _meanings(data.tag) for form in short.short_forms}
    inflector, senses, forms = Inflector(data.tag), _Senses(), set[str]()
    for row in rows(data.table("abbreviations"), *_SENSES):
        form = shortened(row["abbreviation"])
        if (form, row["long"]) not in known or not row["beside"]:
            message = "an abbreviation of the lexicon, one of its long forms and words beside it are expected"
            raise row.error(message, ROW_REMEDY)
        short = replace(known[form, row["long"]], weight=_SURE, safe=True)
        forms.add(form)
        for word in map(str.strip, row["beside"].split("|")):
            senses.setdefault(inflector.form(word), []).append((word, short))
    senses.short_forms = frozenset(forms)
    return senses


def _short(word: str, language: str, long: str, english: str, weight: float, *, safe: bool = False) -> Abbreviation:
    return Abbreviation((word,), language, long, english, LACONIC, weight, (), safe)
