"""Acts: the examination, operation or function that a term names, and what is left of the term without it.

"Liver", "liver biopsy" and "liver function tests" share their noun, which is much of what an embedding sees. The words
and endings stand in ``acts.json`` of each language; :mod:`medlink.clustering.guards` compares what is read here. An
ending is taken off its word, so that of *Nierenbiopsie* is left what *Niere* is, by its stem.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from medlink.language.languages import Language, guarded
from medlink.language.text import Inflector, normalise

ACT = "act"
_SHORTEST = 3  # letters of the shortest word that alone says what an act is done to
_MOST = 262_144  # words that a reader remembers


@dataclass(frozen=True, slots=True)
class Acts:
    """What a term says of acts.

    ``named`` are the acts, without the general ones (*surgery*, *test*) that may be any of them; ``any`` says whether
    there are any, the general ones too; ``rests`` are the other words, by stem and in order, for each language.
    """

    named: frozenset[str]
    any: bool
    rests: frozenset[str]


class ActReader:
    """Reads the acts of terms; it remembers words for as long as it lives."""

    def __init__(self) -> None:
        self._guarded, self._inflector = lru_cache(guarded), lru_cache(Inflector)
        self._may_be_act, self._stems = lru_cache(_MOST)(_may_be_act), lru_cache(_MOST)(_stems)

    def read(self, term: str, language: str = "") -> Acts:
        """Read the acts of a term; without a ``language`` (BCP 47) by the rules of all.

        >>> acts = ActReader().read("CT-guided biopsies of the liver", "en")
        >>> sorted(acts.named), acts.any, sorted(acts.rests)
        (['biopsy', 'ct'], True, ['en guid liver'])
        """
        tongues = self._guarded(language)
        named: set[str] = set()
        general: set[str] = set()
        for tongue in tongues:
            term = tongue.acts.cut.sub(" ", term)
        text = rest = normalise(term)
        words = text.split()
        for tongue in tongues:
            # most terms have no word of an act, and most words were met before
            if any(self._may_be_act(word, tongue) for word in words):
                for act, pattern in tongue.acts.acts.items():
                    if pattern.search(text):
                        (general if act in tongue.acts.general else named).add(act)
                        rest = pattern.sub(" ", rest)
        words = rest.split()
        rests = set()
        for tongue in tongues:
            small, inflector = tongue.articles.small_words, self._inflector(tongue.tag)
            stems = sorted(stem for word in words if word not in small for stem in self._stems(word, inflector))
            if any(len(stem) >= _SHORTEST for stem in stems):
                rests.add(" ".join([tongue.tag, *stems]))
        return Acts(frozenset(named), bool(named or general), frozenset(rests))


def _may_be_act(word: str, tongue: Language) -> bool:
    """Whether a word, or two of which it is one, may be an act."""
    return word in tongue.acts.halves or tongue.acts.some.search(word) is not None


def _stems(word: str, inflector: Inflector) -> tuple[str, ...]:
    """Inflected form of one word."""
    return tuple(inflector.words(word))


def acts_part(one: Acts, other: Acts) -> bool:
    """Whether two terms are apart by their acts: both name some and share none, or one alone does and all else is same.

    >>> liver, biopsy, ct, mass = map(ActReader().read, ("Liver", "liver biopsy", "CT of the liver", "liver mass"))
    >>> acts_part(biopsy, liver), acts_part(biopsy, mass), acts_part(ct, biopsy)
    (True, False, True)
    """
    if one.any != other.any:
        return bool(one.rests & other.rests)
    return bool(one.named and other.named and not one.named & other.named)
