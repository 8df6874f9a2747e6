"""Acts: the examination, operation or function that a term names, and what is left of the term without it.

"Liver", "liver biopsy" and "liver function tests" share their noun, which is much of what an embedding sees. The words
and endings stand under ``act`` in ``resources/language/guards.*.json``; :mod:`medlink.clustering.guards` compares what
is read here. An ending is taken off its word, so that of *Nierenbiopsie* is left what *Niere* is, by its stem.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

from medlink.language.guard_words import guard_rules, tongues
from medlink.language.text import match_words, normalise

ACT = "act"
_SHORTEST = 3  # letters of the shortest word that alone says what an act is done to


@dataclass(frozen=True, slots=True)
class Acts:
    """What a term says of acts.

    ``named`` are the acts, without the general ones (*surgery*, *test*) that may be any of them; ``any`` says whether
    there are any, the general ones too; ``rests`` are the other words, by stem and in order, for each language.
    """

    named: frozenset[str]
    any: bool
    rests: frozenset[str]


@dataclass(frozen=True, slots=True)
class ActRules:
    """Acts of one language.

    ``patterns`` find each act in an exact form, ``some`` any of them; ``general`` acts may be any other; ``unread`` is
    cut out of a term as it is written; ``halves`` are words that are an act with the word beside them alone.
    """

    patterns: tuple[tuple[str, re.Pattern[str]], ...]
    some: re.Pattern[str]
    general: frozenset[str]
    unread: re.Pattern[str]
    halves: frozenset[str]


@cache
def act_rules(language: str) -> ActRules:
    """Rules of one of the house's languages.

    >>> rules = act_rules("de")
    >>> [act for act, pattern in rules.patterns if pattern.search("leberbiopsie")], sorted(rules.general)
    (['biopsy'], ['surgery', 'test'])
    """
    path = resources.files("medlink").joinpath(f"resources/language/guards.{language}.json")
    entry = json.loads(path.read_text("utf-8"))[ACT]
    return ActRules(
        tuple((act, re.compile(pattern)) for act, pattern in entry["value"].items()),
        re.compile("|".join(entry["value"].values())),
        frozenset(entry["general"]),
        re.compile("|".join(entry["unread"])),
        frozenset(entry["halves"]),
    )


@lru_cache(maxsize=16_384)
def acts_of(term: str, language: str = "") -> Acts:
    """Read the acts of a term.

    Args:
        term: the term.
        language: BCP 47; without one the rules of all languages are read.

    >>> acts = acts_of("CT-guided biopsies of the liver", "en")
    >>> sorted(acts.named), acts.any, sorted(acts.rests)
    (['biopsy', 'ct'], True, ['en guid liver'])
    >>> acts_of("Nierenbiopsie", "de").rests == acts_of("Niere", "de").rests
    True
    """
    read = tongues(language)
    named: set[str] = set()
    general: set[str] = set()
    for tongue in read:
        term = act_rules(tongue).unread.sub(" ", term)
    text = rest = normalise(term)
    for tongue in read:
        rules = act_rules(tongue)
        # most terms have no word of an act, and most words were met before
        if any(_may_be_act(word, tongue) for word in text.split()):
            for act, pattern in rules.patterns:
                if pattern.search(text):
                    (general if act in rules.general else named).add(act)
                    rest = pattern.sub(" ", rest)
    rests = set()
    for tongue in read:
        small = guard_rules(tongue).small_words
        words = sorted(stem for word in rest.split() if word not in small for stem in _stems(word, tongue))
        if any(len(word) >= _SHORTEST for word in words):
            rests.add(" ".join([tongue, *words]))
    return Acts(frozenset(named), bool(named or general), frozenset(rests))


@lru_cache(maxsize=262_144)
def _may_be_act(word: str, tongue: str) -> bool:
    """Whether a word, or two of which it is one, may be an act."""
    rules = act_rules(tongue)
    return word in rules.halves or rules.some.search(word) is not None


@lru_cache(maxsize=262_144)
def _stems(word: str, tongue: str) -> tuple[str, ...]:
    """Inflected form of one word."""
    return tuple(match_words(word, tongue))


def acts_part(one: Acts, other: Acts) -> bool:
    """Whether two terms are apart by their acts: both name some and share none, or one alone does and all else is same.

    >>> acts_part(acts_of("liver biopsy"), acts_of("Liver")), acts_part(acts_of("liver biopsy"), acts_of("liver mass"))
    (True, False)
    >>> acts_part(acts_of("CT of the liver"), acts_of("liver biopsy"))
    True
    """
    if one.any != other.any:
        return bool(one.rests & other.rests)
    return bool(one.named and other.named and not one.named & other.named)
