"""Guard words: the side, number, amount and similar values of a term, the words that the term negates, and its acts.

An act is an examination, operation or function. "Liver", "liver biopsy" and "liver function tests" share the noun, so
their embeddings are similar. An act at the end of a compound is cut off: *Nierenbiopsie* leaves the stem of *Niere*.
``guards.json`` and ``acts.json`` of each language hold the words with their sources; :mod:`medlink.clustering.guards`
compares the results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from medlink.language.languages import Language, any_of, guarded, language_data, languages
from medlink.language.text import ROMAN, Inflector, normalise

NUMBER, LETTER, NEGATION, ACT = "number", "letter", "negation", "act"
"""Kinds of values that need code besides the patterns of a data file."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_STAGED = re.compile(r"(x{0,3}(?:ix|iv|v?i{1,3}|v))([a-d])")  # IIb, IVa
_SUBTYPE = re.compile(r"(\b[Tt](?:ype?|ipo)[ -]|[A-Z]-)([IVX]{1,5})([a-z]|[A-Z](?<![IVX]))\b")  # type Iy, CDG-IIL
_MAY_HAVE_NUMBER = re.compile(r"\d|\b(?:\w\b|[ivx]+(?:\b|[a-d]))")  # or a letter
_SHORTEST = 4  # letters of the shortest word that a prefix negates, and of the shortest end of a compound
_SHORTEST_START = 3  # letters of its shortest beginning
SHORTEST_REST = 3  # letters of the shortest word that alone is the object of an act
_REACH = 2  # words behind a negator in which it may negate a value
_NOT = "not"  # value of a kind that is negated
_CACHED_WORDS = 262_144
_CACHED_TERMS = 16_384

Values = frozenset[tuple[str, str]]
"""Pairs of kind and value."""


class Acts(NamedTuple):
    """The acts of a term."""

    named: frozenset[str]  # without general acts (*surgery*, *test*), which may stand for any act
    any: bool  # whether it has acts, including general acts
    rests: frozenset[str]  # for each language, the sorted stems of its other words

    def differ(self, other: Acts) -> bool:
        """Whether both terms have named acts but share none, or only one has acts and their other words are equal."""
        if self.any != other.any:
            return bool(self.rests & other.rests)
        return bool(self.named and other.named and not self.named & other.named)


class Parts(NamedTuple):
    """Exact forms of terms that are less than a term: of several terms (*nausea and vomiting*), and of a compound."""

    combination: tuple[str, ...]
    compound: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """The values of a term by kind, the words that it may negate, the words that it asserts, its acts and parts."""

    values: dict[str, frozenset[str]]
    negated: frozenset[str]
    asserted: frozenset[str]
    acts: Acts
    whole: str
    parts: Parts


class Word(NamedTuple):
    """A word in its exact form, by the rules of one or more languages."""

    values: Values
    accompanies: frozenset[str]  # kinds that need another word, and count beside this one
    may_be_number: bool  # or a letter
    asserted: tuple[tuple[str, ...], ...]  # its forms in each language
    negated: tuple[tuple[str, ...], ...]  # for each language, the forms of the rest after a negating prefix
    stems: tuple[tuple[str, ...], ...]  # in each language, for comparing the objects of acts; none for a small word
    is_negator: bool  # negates the next word
    ends_negated: bool  # at the end of a term, negates the word before it
    may_be_act: bool  # or a part of one


class GuardReader:
    """Find the guard words of terms; caches words and terms.

    Without a ``language`` (BCP 47) the rules of all languages apply, except those for words that mean something else
    in another language.
    """

    def __init__(self) -> None:
        self.languages, self._inflector = lru_cache(guarded), lru_cache(Inflector)
        self._unread, self._part_rules = lru_cache(_unread), lru_cache(_part_rules)
        self._exact = lru_cache(16)(normalise)  # of the term that is being read
        self._word = lru_cache(_CACHED_WORDS)(self._find_word)
        self.read = lru_cache(_CACHED_TERMS)(self._read)

    def _read(self, term: str, language: str = "") -> Reading:
        whole = self._exact(term)
        return Reading(
            by_kind(self.values(term, language)), *self.negated(term, language), self.acts(term, language), whole,
            self.parts(term, whole, language),
        )  # fmt: skip

    def word(self, word: str, language: str = "") -> Word:
        return self._word(word, self.languages(language))

    def is_read_otherwise(self, term: str, language: str = "") -> bool:
        """Whether a term means less or more than the words of its exact form."""
        return any(pattern.search(term) for pattern in (*self._unread(self.languages(language)), _SUBTYPE))

    def values(self, term: str, language: str = "") -> Values:
        """Return the values of a term, the same in every language; negation needs a pair of terms and is left out."""
        languages = self.languages(language)
        if self._unread(languages)[0].search(term):
            for data in languages:
                term = data.guards.unread.sub(" ", term)
        # only behind a type or an abbreviation: Is and If are words
        term = _SUBTYPE.sub(lambda part: f"{part[1]}{ROMAN.get(part[2].lower(), part[2])}{part[3]}", term)
        plain = self._exact(term).split()
        values = set(values_of_words([self._word(word, languages) for word in plain], languages))
        for data in languages if _MAY_HAVE_NUMBER.search(" ".join(plain)) else ():
            words = self._inflector(data.tag).forms([term], [" ".join(plain)])[0].split()
            values |= _numbers_and_letters(words, term, languages)
        return frozenset(values)

    def negated(self, term: str, language: str = "") -> tuple[frozenset[str], frozenset[str]]:
        """Return the words that a term may negate and the words that it asserts, each in stemmed and exact form.

        The exact form lets "sin hematuria" match English "hematuria", which has another stem. A negator applies to the
        next word, skipping words such as "evidence of" and "akuter" unless one of them ends the term. A word with a
        negating prefix is asserted, and its rest is negated: only the other term shows whether the prefix negates.
        """
        negated, asserted, plain = set[str](), set[str](), self._exact(term).split()
        languages = self.languages(language)
        words = [self._word(word, languages) for word in plain]
        if not any(word.is_negator or word.ends_negated for word in words):
            for word in words:
                asserted.update(*word.asserted)
                negated.update(*word.negated)
            return frozenset(negated), frozenset(asserted - negated)
        # "no" is Spanish and English: without a language the words to skip are those of all
        skipped = frozenset[str]().union(*(data.guards.negation.between for data in languages))
        for number, data in enumerate(languages):
            is_open = False
            for at, text in enumerate(plain):
                if text in data.guards.negation.endings and 0 < at == len(plain) - 1:
                    negated.update(words[at - 1].asserted[number])
                elif text in data.guards.negation.before:
                    is_open = True
                elif not (is_open and text in skipped and at < len(plain) - 1):
                    (negated if is_open else asserted).update(words[at].asserted[number])
                    negated.update(words[at].negated[number])
                    is_open = False
        return frozenset(negated), frozenset(asserted - negated)

    def parts(self, term: str, whole: str, language: str = "") -> Parts:
        """Return the parts of a term whose exact form is ``whole``: around *and*, and behind the start of a word."""
        conjunction, redundant, exceptions = self._part_rules(self.languages(language))
        ends = [(found.start(), found.end()) for found in conjunction.finditer(term)]
        sides = (normalise(side) for side in (term[: ends[0][0]], term[ends[-1][1] :])) if ends else ()
        is_word = whole.isalpha() and not exceptions.fullmatch(whole)
        starts = range(_SHORTEST_START, len(whole) - _SHORTEST + 1) if is_word else ()
        behind = [whole[at:] for at in starts if whole[:at] not in redundant]
        return Parts(tuple(filter(None, sides)), tuple(behind))

    def denies(self, term: str) -> bool:
        """Whether a term begins with a negation, as *no fever* does, and not with a prefix of names (*non*)."""
        return self._exact(term).partition(" ")[0] in _negators()[2]

    def negates_a_part(self, term: str) -> bool:
        """Whether a term negates one of its words, as *non-hemolytic anemia* does, and is not a denial."""
        words, prefixes, _ = _negators()
        parts = self._exact(term).split()
        return any(part in words or part.startswith(prefixes) for part in parts) and not self.denies(term)

    def acts(self, term: str, language: str = "") -> Acts:
        languages = self.languages(language)
        acts: set[str] = set()
        if self._unread(languages)[1].search(term):
            for data in languages:
                term = data.acts.unread.sub(" ", term)
        text = rest = self._exact(term)
        # most terms have no act, and most words are cached
        if any(self._word(word, languages).may_be_act for word in text.split()):
            for data in languages:
                for act, pattern in data.acts.acts.items():
                    if pattern.search(text):
                        acts.add(act)
                        rest = pattern.sub(" ", rest)
        words = [self._word(word, languages).stems for word in rest.split()]
        rests = set()
        for number, data in enumerate(languages):
            stems = sorted([stem for word in words for stem in word[number]])
            if any(len(stem) >= SHORTEST_REST for stem in stems):
                rests.add(" ".join([data.tag, *stems]))
        named = acts.difference(*(data.acts.general for data in languages)) if acts else acts
        return Acts(frozenset(named), bool(acts), frozenset(rests))

    def _find_word(self, word: str, languages: tuple[Language, ...]) -> Word:
        inflectors = [self._inflector(data.tag) for data in languages]
        forms = [tuple(inflector.word(word).split()) for inflector in inflectors]
        is_code = any(map(str.isdigit, word))  # ADCA2 is a code, and its A no prefix
        negates = not is_code and not any(data.guards.negation.exceptions.fullmatch(word) for data in languages)
        rests: list[tuple[str, ...]] = []
        for data, inflector in zip(languages, inflectors, strict=True):
            prefixes = data.guards.negation.prefixes if negates else ()
            cut = [len(prefix) for prefix in prefixes if word.startswith(prefix)]
            behind = [word[length:] for length in cut if len(word) - length >= _SHORTEST]
            ends = data.guards.negation.endings if negates else ()
            behind += [word[: -len(end)] for end in ends if word.endswith(end) and len(word) - len(end) >= _SHORTEST]
            rests.append(tuple([part for rest in behind for part in inflector.word(rest).split()]))
        own = zip(languages, forms, strict=True)
        values = frozenset(
            (kind, value)
            for rules in (data.guards for data in languages)
            if rules.some.fullmatch(word) and (len(languages) == 1 or word not in rules.only_here)
            for kind, patterns in rules.kinds.items()
            for value, pattern in patterns.items()
            if pattern.fullmatch(word)
        )
        return Word(
            values,
            frozenset(kind for kind, pattern in _company(languages) if pattern.fullmatch(word)),
            _MAY_HAVE_NUMBER.search(word) is not None,
            tuple([(*form, word) for form in forms]),
            tuple(rests),
            tuple([() if word in data.articles.small_words else form for data, form in own]),
            any(word in data.guards.negation.before for data in languages),
            any(word in data.guards.negation.endings for data in languages),
            any(word in data.acts.halves or data.acts.some.search(word) is not None for data in languages),
        )


def by_kind(values: Values) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for kind, value in values:
        found[kind] = found.get(kind, frozenset()) | {value}
    return found


def _unread(languages: tuple[Language, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    # text that any language cuts: most terms have none
    return any_of(data.guards.unread for data in languages), any_of(data.acts.unread for data in languages)


def _part_rules(languages: tuple[Language, ...]) -> tuple[re.Pattern[str], frozenset[str], re.Pattern[str]]:
    # conjunctions, beginnings of words that add nothing, and words that are no compounds
    rules = [data.guards for data in languages]
    redundant = frozenset(start for rule in rules for start in rule.redundant)
    exceptions = any_of(rule.negation.exceptions for rule in rules)
    return any_of(rule.conjunction for rule in rules), redundant, exceptions


def values_of_words(words: Sequence[Word], languages: Sequence[Language]) -> Values:
    """Return the values of the words of a term, without kinds that need another word, which the term lacks."""
    values = set[tuple[str, str]]()
    negator = -_REACH - 1
    for at, word in enumerate(words):
        # "not enlarged" is no size that a spleen has in splenomegaly
        values |= {(kind, _NOT) for kind, _ in word.values} if at - negator <= _REACH else word.values
        negator = at if word.is_negator else negator if not word.values else -_REACH - 1
    if not values:
        return frozenset()
    lacking = {kind for kind, _ in _company(languages)}.difference(*(word.accompanies for word in words))
    return frozenset(value for value in values if value[0] not in lacking)


def _company(languages: Sequence[Language]) -> list[tuple[str, re.Pattern[str]]]:
    return [item for data in languages for item in data.guards.company.items()]


def _numbers_and_letters(words: Sequence[str], term: str, languages: Sequence[Language]) -> Values:
    values: set[tuple[str, str]] = set()
    for at, word in enumerate(words):
        staged = _STAGED.fullmatch(word) if len(word) > 2 else None
        if _NUMBER.fullmatch(word):
            values.add((NUMBER, word))
        elif staged:
            values |= {(NUMBER, ROMAN[staged[1]]), (LETTER, staged[2])}
        elif len(word) == 1 and word.isalpha():
            # "hepatitis A" has a letter, "edema a tensión" a preposition
            stands_out = at == len(words) - 1 or f"{word.upper()} " in term
            if stands_out or not any(word in data.guards.letter_words for data in languages):
                values.add((LETTER, word))
    return frozenset(values)


@cache
def _negators() -> tuple[frozenset[str], tuple[str, ...], frozenset[str]]:
    """Words of all languages that negate; those that are also prefixes; those that are not in their own language."""
    rules = [language_data(tag).guards.negation for tag in languages()]
    words = frozenset(word for rule in rules for word in rule.before)
    prefixes = words.intersection(word for rule in rules for word in rule.prefixes)
    deniers = frozenset(word for rule in rules for word in rule.before if word not in rule.prefixes)
    return words, tuple(word for word in prefixes if len(word) >= SHORTEST_REST), deniers  # *no* begins too many words
