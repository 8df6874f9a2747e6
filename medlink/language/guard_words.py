"""Guard words: what a term says of side, number, amount and the like, which words it negates, and its acts.

"Liver", "liver biopsy" and "liver function tests" share their noun, which is much of what an embedding sees: an act is
the examination, operation or function that a term names. An ending is taken off its word, so that of *Nierenbiopsie*
is left what *Niere* is, by its stem. The words stand in ``guards.json`` and ``acts.json`` of each language with their
source; :mod:`medlink.clustering.guards` compares what is read here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from medlink.language.languages import Language, guarded
from medlink.language.text import ROMAN, Inflector, normalise

NUMBER, LETTER, NEGATION, ACT = "number", "letter", "negation", "act"
"""Kinds that are read by code, not by the patterns of a data file alone."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_STAGED = re.compile(r"(x{0,3}(?:ix|iv|v?i{1,3}|v))([a-d])")  # IIb, IVa
_SUBTYPE = re.compile(r"(\b[Tt](?:ype?|ipo)[ -]|[A-Z]-)([IVX]{1,5})([a-z]|[A-Z](?<![IVX]))\b")  # type Iy, CDG-IIL
_PERHAPS = re.compile(r"\d|\b(?:\w\b|[ivx]+(?:\b|[a-d]))")  # what every term with a number or a letter has
_SHORTEST = 4  # letters of the shortest word that a prefix negates
_SHORTEST_REST = 3  # letters of the shortest word that alone says what an act is done to
_MOST = 262_144  # words that a reader remembers at a time
_TERMS = 16_384  # terms that it remembers

Values = frozenset[tuple[str, str]]
"""Pairs of kind and value."""


@dataclass(frozen=True, slots=True)
class Acts:
    """What a term says of acts: those it names, without the general ones (*surgery*, *test*) that may be any of them,
    whether there are any, the general ones too, and the other words, by stem and in order, for each language."""

    named: frozenset[str]
    any: bool
    rests: frozenset[str]

    def part(self, other: Acts) -> bool:
        """Whether acts part two terms: both name some and share none, or one alone does and all else is the same."""
        if self.any != other.any:
            return bool(self.rests & other.rests)
        return bool(self.named and other.named and not self.named & other.named)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a term says: values by kind, the words that it may negate, those that it says, and its acts."""

    values: dict[str, frozenset[str]]
    negated: frozenset[str]
    said: frozenset[str]
    acts: Acts


class _Word(NamedTuple):
    """What a word in its exact form says by itself, in the languages by which a term is read.

    ``said`` and ``negated`` are for each language its forms, and those of what is left behind a prefix of negation;
    ``stems`` are for each language those by which acts are compared, none for a small word.
    """

    values: Values
    said: tuple[tuple[str, ...], ...]
    negated: tuple[tuple[str, ...], ...]
    stems: tuple[tuple[str, ...], ...]
    is_negator: bool
    may_be_act: bool


class GuardReader:
    """Reads what terms say; it remembers words and terms for as long as it lives, and no longer.

    A ``language`` is BCP 47; without one the rules of all languages count, but for words that mean something else in
    one.
    """

    def __init__(self) -> None:
        self._guarded, self._inflector = lru_cache(guarded), lru_cache(Inflector)
        self._word = lru_cache(_MOST)(self._find_word)
        self.read = lru_cache(_TERMS)(self._read)

    def _read(self, term: str, language: str = "") -> Reading:
        values: dict[str, frozenset[str]] = {}
        for kind, value in self.values(term, language):
            values[kind] = values.get(kind, frozenset()) | {value}
        return Reading(values, *self.negated(term, language), self.acts(term, language))

    def values(self, term: str, language: str = "") -> Values:
        """What a term says that guards compare, the same in every language; negation is compared by pairs."""
        tongues = self._guarded(language)
        for tongue in tongues:
            term = tongue.guards.unread.sub(" ", term)
        # behind a type or an abbreviation, since Is and If are words
        term = _SUBTYPE.sub(lambda part: f"{part[1]}{ROMAN.get(part[2].lower(), part[2])}{part[3]}", term)
        plain = _exact(term).split()
        found = {value for word in plain for value in self._word(word, tongues).values}
        if found:
            alone = _kinds_alone(plain, tongues)
            found = {(kind, value) for kind, value in found if kind not in alone}
        for tongue in tongues if _PERHAPS.search(" ".join(plain)) else ():
            found |= _numbers_and_letters(self._inflector(tongue.tag).words(term), term, tongues)
        return frozenset(found)

    def negated(self, term: str, language: str = "") -> tuple[frozenset[str], frozenset[str]]:
        """Words that a term may negate and words that it says, in the inflected form and as they stand.

        Both forms, so that "sin hematuria" meets English "hematuria", whose stem is another. A negator reaches the next
        word; words between ("no evidence of", "kein akuter") are passed over, unless one ends the term. A word with a
        prefix counts as said, and what is behind it as negated: only the other term shows whether it negates.
        """
        negated, said, plain = set[str](), set[str](), _exact(term).split()
        tongues = self._guarded(language)
        words = [self._word(word, tongues) for word in plain]
        if not any(word.is_negator for word in words):
            for word in words:
                said.update(*word.said)
                negated.update(*word.negated)
            return frozenset(negated), frozenset(said - negated)
        # Spanish "no" is English too: without a language no tongue knows which words stand between
        between = frozenset[str]().union(*(tongue.guards.negation.between for tongue in tongues))
        for at, tongue in enumerate(tongues):
            open_ = False
            for place, text in enumerate(plain):
                if text in tongue.guards.negation.before:
                    open_ = True
                elif not (open_ and text in between and place < len(plain) - 1):
                    (negated if open_ else said).update(words[place].said[at])
                    negated.update(words[place].negated[at])
                    open_ = False
        return frozenset(negated), frozenset(said - negated)

    def acts(self, term: str, language: str = "") -> Acts:
        """The acts of a term."""
        tongues = self._guarded(language)
        found: set[str] = set()
        for tongue in tongues:
            term = tongue.acts.unread.sub(" ", term)
        text = rest = _exact(term)
        # most terms have no word of an act, and most words were met before
        if any(self._word(word, tongues).may_be_act for word in text.split()):
            for tongue in tongues:
                for act, pattern in tongue.acts.acts.items():
                    if pattern.search(text):
                        found.add(act)
                        rest = pattern.sub(" ", rest)
        words = [self._word(word, tongues).stems for word in rest.split()]
        rests = set()
        for at, tongue in enumerate(tongues):
            stems = sorted([stem for word in words for stem in word[at]])
            if any(len(stem) >= _SHORTEST_REST for stem in stems):
                rests.add(" ".join([tongue.tag, *stems]))
        named = found.difference(*(tongue.acts.general for tongue in tongues)) if found else found
        return Acts(frozenset(named), bool(found), frozenset(rests))

    def _find_word(self, word: str, tongues: tuple[Language, ...]) -> _Word:
        inflectors = [self._inflector(tongue.tag) for tongue in tongues]
        forms = [tuple(inflector.word(word).split()) for inflector in inflectors]
        # ADCA2 is a code, which negates nothing
        code = any(letter.isdigit() for letter in word)
        negates = not code and not any(tongue.guards.negation.exceptions.fullmatch(word) for tongue in tongues)
        rests: list[tuple[str, ...]] = []
        for tongue, inflector in zip(tongues, inflectors, strict=True):
            prefixes = tongue.guards.negation.prefixes if negates else ()
            cut = [len(prefix) for prefix in prefixes if word.startswith(prefix)]
            behind = [word[length:] for length in cut if len(word) - length >= _SHORTEST]
            rests.append(tuple([part for rest in behind for part in inflector.word(rest).split()]))
        return _Word(
            _of_word(word, tongues),
            tuple([(*form, word) for form in forms]),
            tuple(rests),
            tuple([() if word in tongue.articles.small_words else forms[at] for at, tongue in enumerate(tongues)]),
            any(word in tongue.guards.negation.before for tongue in tongues),
            any(word in tongue.acts.halves or tongue.acts.some.search(word) is not None for tongue in tongues),
        )


_exact = lru_cache(16)(normalise)  # of the term that is being read


def _of_word(word: str, tongues: Sequence[Language]) -> Values:
    return frozenset(
        (kind, value)
        for rules in (tongue.guards for tongue in tongues)
        if rules.some.fullmatch(word) and (len(tongues) == 1 or word not in rules.only_here)
        for kind, patterns in rules.kinds.items()
        for value, pattern in patterns.items()
        if pattern.fullmatch(word)
    )


def _kinds_alone(words: Sequence[str], tongues: Sequence[Language]) -> set[str]:
    """Kinds that do not count in a term, since no word of it is one that they need."""
    company = [item for tongue in tongues for item in tongue.guards.company.items()]
    met = {kind for kind, pattern in company if any(pattern.fullmatch(word) for word in words)}
    return {kind for kind, _ in company} - met


def _numbers_and_letters(words: Sequence[str], term: str, tongues: Sequence[Language]) -> Values:
    found: set[tuple[str, str]] = set()
    for place, word in enumerate(words):
        staged = _STAGED.fullmatch(word) if len(word) > 2 else None
        if _NUMBER.fullmatch(word):
            found.add((NUMBER, word))
        elif staged:
            found |= {(NUMBER, ROMAN[staged[1]]), (LETTER, staged[2])}
        elif len(word) == 1 and word.isalpha():
            # "hepatitis A" has a letter, "edema a tensión" a preposition
            stands_out = place == len(words) - 1 or f"{word.upper()} " in term
            if stands_out or not any(word in tongue.guards.letter_words for tongue in tongues):
                found.add((LETTER, word))
    return frozenset(found)
