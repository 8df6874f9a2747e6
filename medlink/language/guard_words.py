"""Guard words: what a term says of side, number, amount and the like, and which words it negates.

The words stand in ``guards.json`` of each language with their source; :mod:`medlink.clustering.guards` compares what is
read here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from medlink.language.acts import ActReader, Acts
from medlink.language.languages import Language, guarded
from medlink.language.text import ROMAN, Inflector, normalise

NUMBER, LETTER, NEGATION = "number", "letter", "negation"
"""Kinds that are read by code, not by the patterns of a data file alone."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_STAGED = re.compile(r"(x{0,3}(?:ix|iv|v?i{1,3}|v))([a-d])")  # IIb, IVa
_PERHAPS = re.compile(r"\d|\b(?:\w\b|[ivx]+(?:\b|[a-d]))")  # what every term with a number or a letter has
_SHORTEST = 4  # letters of the shortest word that a prefix negates
_MOST = 262_144  # words that a reader remembers at a time
_TERMS = 16_384  # terms that it remembers

Values = frozenset[tuple[str, str]]
"""Pairs of kind and value."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a term says: values by kind, the words that it may negate, those that it says, and its acts."""

    values: dict[str, frozenset[str]]
    negated: frozenset[str]
    said: frozenset[str]
    acts: Acts


class GuardReader:
    """Reads what terms say; it remembers words and terms for as long as it lives, and no longer."""

    def __init__(self) -> None:
        self._guarded, self._inflector = lru_cache(guarded), lru_cache(Inflector)
        self._of_word, self._inflected = lru_cache(_MOST)(_of_word), lru_cache(_MOST)(_inflected)
        self._terms: dict[tuple[str, str], Reading] = {}
        self.acts = ActReader().read

    def read(self, term: str, language: str = "") -> Reading:
        """All that a term says; ``language`` is BCP 47 or ``""``."""
        found = self._terms.get((term, language))
        if found is None:
            by_kind: dict[str, set[str]] = {}
            for kind, value in self.values(term, language):
                by_kind.setdefault(kind, set()).add(value)
            values = {kind: frozenset(some) for kind, some in by_kind.items()}
            found = Reading(values, *self.negated(term, language), self.acts(term, language))
            if len(self._terms) >= _TERMS:
                self._terms.clear()
            self._terms[term, language] = found
        return found

    def values(self, term: str, language: str = "") -> Values:
        """What a term says that guards compare.

        Args:
            term: the term.
            language: BCP 47; without one the rules of all languages count, but for words that mean something else in
                one.

        Returns:
            Pairs of kind and value, the same in every language. Negation is compared by pairs and has none.

        >>> read = GuardReader().values
        >>> sorted(read("Akute linksseitige Otitis media")) == sorted(read("otitis media izquierda aguda"))
        True
        >>> sorted(read("Otosklerose, Stadium IIb")), sorted(read("diabetes tipo 2"))
        ([('letter', 'b'), ('number', '2')], [('number', '2')])
        """
        tongues = self._guarded(language)
        found: set[tuple[str, str]] = set()
        for tongue in tongues:
            term = tongue.guards.cut.sub(" ", term)
        plain = normalise(term).split()
        for word in plain:
            found |= self._of_word(word, tongues)
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
        prefix of negation counts as said, and what is behind the prefix as negated: whether the prefix is one shows
        only in the other term.

        >>> negated, said = GuardReader().negated("non-small cell carcinoma", "en")
        >>> sorted(negated), sorted(said)
        (['small'], ['carcinoma', 'cell'])
        """
        negated: set[str] = set()
        said: set[str] = set()
        plain = normalise(term).split()
        tongues = self._guarded(language)
        # Spanish "no" is English too: without a language no tongue knows which words stand between
        between = frozenset[str]().union(*(tongue.guards.negation.between for tongue in tongues))
        for tongue in tongues:
            before, inflector = tongue.guards.negation.before, self._inflector(tongue.tag)
            open_ = False
            for place, word in enumerate(plain):
                if word in before:
                    open_ = True
                    continue
                if open_ and word in between and place < len(plain) - 1:
                    continue
                whole, rests = self._inflected(word, tongue, tongues, inflector)
                (negated if open_ else said).update(whole, (word,))
                negated.update(rests)
                open_ = False
        return frozenset(negated), frozenset(said - negated)


def _of_word(word: str, tongues: Sequence[Language]) -> Values:
    """Values of one word in its exact form."""
    return frozenset(
        (kind, value)
        for rules in (tongue.guards for tongue in tongues)
        for kind, patterns in rules.kinds.items()
        for value, pattern in patterns.items()
        if pattern.fullmatch(word) and (len(tongues) == 1 or word not in rules.only_here)
    )


def _kinds_alone(words: Sequence[str], tongues: Sequence[Language]) -> set[str]:
    """Kinds that do not count in a term, since no word of it is one that they need."""
    company = [item for tongue in tongues for item in tongue.guards.company.items()]
    met = {kind for kind, pattern in company if any(pattern.fullmatch(word) for word in words)}
    return {kind for kind, _ in company} - met


def _numbers_and_letters(words: Sequence[str], term: str, tongues: Sequence[Language]) -> Values:
    """Numbers and single letters of a term, by its words in the inflected form of one language."""
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


def _inflected(
    word: str, tongue: Language, tongues: Sequence[Language], inflector: Inflector
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Inflected form of a word, and of what is left of it behind each prefix of negation."""
    rests: list[str] = []
    if not any(one.guards.unnegated.fullmatch(word) for one in tongues):
        for prefix in tongue.guards.negation.prefixes:
            rest = word.removeprefix(prefix)
            if rest != word and len(rest) >= _SHORTEST:
                rests += inflector.words(rest)
    return tuple(inflector.words(word)), tuple(rests)
