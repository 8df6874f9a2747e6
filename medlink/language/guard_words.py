"""Guard words: what a term says of side, number, amount and the like, and which words it negates.

The words stand in ``resources/language/guards.*.json`` with their source; :mod:`medlink.clustering.guards` compares
what is read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

from medlink.language.text import LANGUAGES, match_words, normalise

NUMBER, LETTER, NEGATION = "number", "letter", "negation"
"""Kinds that are read by code, not by the patterns of a data file alone."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_STAGED = re.compile(r"(x{0,3}(?:ix|iv|v?i{1,3}|v))([a-d])")  # IIb, IVa
_SMALL_WORDS = frozenset("aeouy")  # letters that are words in Spanish, and a in English
_SHORTEST = 4  # letters of the shortest word that a prefix negates


@dataclass(frozen=True, slots=True)
class GuardRules:
    """Guard words of one language, all in the exact form.

    ``patterns`` hold kind, value and the words; a kind of ``company`` counts only in terms with a word of that pattern;
    ``negators`` negate the word behind them, ``between`` not counted; ``prefixes`` negate the rest of a word, but in
    the ``exceptions``; ``unread`` is cut out of a term as it is written before its words are read; ``only_here`` lists
    what counts in terms of a stated language alone; ``small_words`` have no letter in an abbreviation.
    """

    language: str
    patterns: tuple[tuple[str, str, re.Pattern[str]], ...]
    company: tuple[tuple[str, re.Pattern[str]], ...]
    negators: frozenset[str]
    between: frozenset[str]
    prefixes: tuple[str, ...]
    exceptions: tuple[str, ...]
    unread: tuple[str, ...]
    only_here: frozenset[str]
    small_words: frozenset[str]


@cache
def guard_rules(language: str) -> GuardRules:
    """Rules of one of the house's languages.

    >>> {kind for kind, value, pattern in guard_rules("de").patterns if pattern.fullmatch("linksseitig")}
    {'laterality'}
    """
    path = resources.files("medlink").joinpath(f"resources/language/guards.{language}.json")
    raw = json.loads(path.read_text("utf-8"))
    only, small, unread, negation, _ = (
        raw.pop(key)["value"] for key in ("only_here", "small_words", "unread", NEGATION, "act")
    )
    patterns = tuple((kind, value, re.compile(p)) for kind, entry in raw.items() for value, p in entry["value"].items())
    return GuardRules(
        language,
        patterns,
        tuple((kind, re.compile(entry["with"])) for kind, entry in raw.items() if "with" in entry),
        frozenset(negation["before"]),
        frozenset(negation["between"]),
        tuple(negation["prefixes"]),
        tuple(negation["exceptions"]),
        tuple(unread),
        frozenset(only),
        frozenset(small),
    )


@cache
def _of_all(part: str) -> re.Pattern[str]:
    """The patterns of one part of the rules of all languages: what is no guard word in one is none in the others."""
    return re.compile("|".join(pattern for language in LANGUAGES for pattern in getattr(guard_rules(language), part)))


def tongues(language: str) -> tuple[str, ...]:
    """Languages whose rules a term is read by: its own, or all where it names none that the house knows."""
    base = language.partition("-")[0].lower()
    return (base,) if base in LANGUAGES else LANGUAGES


@lru_cache(maxsize=262_144)
def _of_word(word: str, language: str) -> frozenset[tuple[str, str]]:
    """Values of one word in its exact form."""
    read = tongues(language)
    return frozenset(
        (kind, value)
        for tongue in read
        for kind, value, pattern in guard_rules(tongue).patterns
        if pattern.fullmatch(word) and (len(read) == 1 or word not in guard_rules(tongue).only_here)
    )


def _kinds_alone(words: Sequence[str], language: str) -> frozenset[str]:
    """Kinds that do not count in a term, since no word of it is one that they need."""
    needed: dict[str, bool] = {}
    for tongue in tongues(language):
        for kind, pattern in guard_rules(tongue).company:
            needed[kind] = needed.get(kind, False) or any(pattern.fullmatch(word) for word in words)
    return frozenset(kind for kind, found in needed.items() if not found)


def _stands_out(letter: str, place: int, words: Sequence[str], term: str) -> bool:
    """Whether a letter that may be a word is none: "hepatitis A" has a letter, "edema a tensión" a preposition."""
    return place == len(words) - 1 or f"{letter.upper()} " in term


def guard_values(term: str, language: str = "") -> frozenset[tuple[str, str]]:
    """What a term says that guards compare.

    Args:
        term: the term.
        language: BCP 47; without one the rules of all languages count, but for words that mean something else in one.

    Returns:
        Pairs of kind and value; the values are the same in every language. Negation is compared by pairs and has none.

    >>> sorted(guard_values("Akute linksseitige Otitis media")) == sorted(guard_values("otitis media izquierda aguda"))
    True
    >>> sorted(guard_values("Otosklerose, Stadium IIb")), sorted(guard_values("diabetes tipo 2"))
    ([('letter', 'b'), ('number', '2')], [('number', '2')])
    """
    found: set[tuple[str, str]] = set()
    term = _of_all("unread").sub(" ", term)
    plain = normalise(term).split()
    for word in plain:
        found |= _of_word(word, language)
    alone = _kinds_alone(plain, language) if found else frozenset()
    found = {(kind, value) for kind, value in found if kind not in alone}
    for tongue in tongues(language):
        words = match_words(term, tongue)
        for place, word in enumerate(words):
            staged = _STAGED.fullmatch(word) if len(word) > 2 else None
            if _NUMBER.fullmatch(word):
                found.add((NUMBER, word))
            elif staged:
                found |= {(NUMBER, match_words(f"type {staged[1]}", "en")[1]), (LETTER, staged[2])}
            elif (
                len(word) == 1
                and word.isalpha()
                and (word not in _SMALL_WORDS or _stands_out(word, place, words, term))
            ):
                found.add((LETTER, word))
    return frozenset(found)


def negated_words(term: str, language: str = "") -> tuple[frozenset[str], frozenset[str]]:
    """Words that a term may negate and words that it says.

    Both in the inflected form and as they stand: "sin hematuria" meets English "hematuria", whose stem is another.

    A negator reaches the next word; words between ("no evidence of", "kein akuter") are passed over, unless one ends
    the term. A word with a prefix of negation counts as said, and what is behind the prefix as negated: whether the
    prefix is one shows only in the other term.

    >>> negated, said = negated_words("non-small cell carcinoma", "en")
    >>> sorted(negated), sorted(said)
    (['small'], ['carcinoma', 'cell'])
    >>> sorted(negated_words("no acute fracture", "en")[0])
    ['fractur', 'fracture']
    """
    negated: set[str] = set()
    said: set[str] = set()
    plain = normalise(term).split()
    read = tongues(language)
    # Spanish "no" is English too: without a language no tongue knows which words stand between
    between = frozenset().union(*(guard_rules(tongue).between for tongue in read))
    for tongue in read:
        rules = guard_rules(tongue)
        open_ = False
        for place, word in enumerate(plain):
            if word in rules.negators:
                open_ = True
                continue
            if open_ and word in between and place < len(plain) - 1:
                continue
            whole, rests = _inflected(word, tongue)
            (negated if open_ else said).update(whole, (word,))
            negated.update(rests)
            open_ = False
    return frozenset(negated), frozenset(said - negated)


@lru_cache(maxsize=262_144)
def _inflected(word: str, tongue: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Inflected form of a word, and of what is left of it behind each prefix of negation."""
    rests: list[str] = []
    prefixes = () if _of_all("exceptions").fullmatch(word) else guard_rules(tongue).prefixes
    for prefix in prefixes:
        rest = word.removeprefix(prefix)
        if rest != word and len(rest) >= _SHORTEST:
            rests += match_words(rest, tongue)
    return tuple(match_words(word, tongue)), tuple(rests)
