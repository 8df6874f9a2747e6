"""Initials: which terms say as an abbreviation what others write out.

"CMT4D" and "Charcot-Marie-Tooth disease type 4D" share a number; what is left of the one is *CMT*, the initials of
three words in a row of what is left of the other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from medlink.language.exact import normalise_all
from medlink.language.languages import language_data
from medlink.language.text import ROMAN, is_short, normalise

_BORROWED = ("de", "en", "es")  # "Tic de la Tourette" is an English name too
_SHORT = re.compile(r"(?<![^\W\d_])(?=[A-Z]\w*[A-Z])[A-Za-z]{2,6}(?![a-zA-Z])")  # CMT of CMT4D, GSD; not Gaucher
_PIECE = re.compile(r"\d+(?:\.\d+)*[a-z]?|[^\W\d_]+")
_NUMERAL = re.compile(r"([ivx]+)([a-z]?)")
_PIECES = 65_536  # pieces that are remembered at a time
_RUN = 6  # words of the longest run whose initials are looked at
_BOTH = re.compile(r"([^()]+?)\s*\(([^()]+)\)")
_MANY = 4_000  # pairs of one abbreviation: it says too little in such a list
ENOUGH = 0.6
"""Share of both terms that is explained where they are a pair to look at."""


def _piece(word: str) -> str:
    found = _NUMERAL.fullmatch(word)
    return ROMAN[found[1]] + found[2] if found and found[1] in ROMAN else word


def explains(short: str, long: str) -> bool:
    """Whether the characters of an abbreviation stand in this order in a longer form that begins with the first.

    Schwartz and Hearst 2003: read from the right, each character of the short form is found in the long one.

    >>> explains("KHK", "koronare Herzkrankheit"), explains("COPD", "chronic bronchitis")
    (True, False)
    """
    wanted = [letter for letter in normalise(short) if letter.isalnum()]
    text = normalise(long)
    if not wanted or len(text) <= len(wanted):
        return False
    place = len(text)
    for letter in reversed(wanted[1:]):
        place = text.rfind(letter, 1, max(place, 0))
    return place > 0 and text.startswith(wanted[0])


def both_forms(text: str) -> tuple[str, str] | None:
    """Long and short form of a term that gives both.

    >>> both_forms("diabetes mellitus (DM)"), both_forms("KHK (koronare Herzkrankheit)"), both_forms("fever (high)")
    (('diabetes mellitus', 'DM'), ('koronare Herzkrankheit', 'KHK'), None)
    """
    found = _BOTH.fullmatch(text)
    one, other = (part.strip() for part in found.groups()) if found else ("", "")
    return next(((long, sh) for long, sh in ((one, other), (other, one)) if is_short(sh) and explains(sh, long)), None)


def stated(texts: Sequence[str], norms: Sequence[str]) -> set[tuple[int, int]]:
    """Places of pairs that a term of the list says to be the same, the lower first; ``norms`` are their exact forms.

    Such a term gives both, "long form (ABC)": it is the long form, and both are the abbreviation. An abbreviation for
    which terms give several long forms is of none.

    >>> texts = ["DM", "diabetes mellitus (DM)", "diabetes mellitus", "MS"]
    >>> sorted(stated(texts, normalise_all(texts)))
    [(0, 1), (0, 2), (1, 2)]
    """
    given = [(place, both) for place, text in enumerate(texts) if "(" in text and (both := both_forms(text))]
    forms = {normalise(form) for _, both in given for form in both}
    places: dict[tuple[str, bool], int] = {}
    for place, (text, form) in enumerate(zip(texts, norms, strict=True)) if forms else ():
        if form in forms:
            places.setdefault((form, is_short(text)), place)
    long_of: dict[int, dict[str, set[int]]] = {}
    pairs: set[tuple[int, int]] = set()
    for place, (long, short) in given:
        written = places.get((normalise(long), False))
        if written is not None and written != place:
            pairs.add((min(place, written), max(place, written)))
        if (brief := places.get((normalise(short), True))) is not None:
            same = long_of.setdefault(brief, {}).setdefault(normalise(long), set())
            same.update((place,) if written is None else (place, written))
    sure = {brief: next(iter(of.values())) for brief, of in long_of.items() if len(of) == 1}
    return pairs | {(min(brief, place), max(brief, place)) for brief, places in sure.items() for place in places}


class Initials:
    """Pairs of terms of which one has an abbreviation and the other words in a row with its initials.

    The small words of ``languages``, BCP 47 or ``""``, are left out, beside those of German, English and Spanish.

    Attributes:
        one, other: ``(p,)`` places of the two, the lower first, sorted.
        letters: ``(p,)`` letters of the abbreviation.
        explained: ``(p,)`` share of both terms, by weight of their words, that is the same or explained; the lower one.
        stated: ``(p,)`` whether a term of the list says so (:func:`stated`).

    >>> found = Initials(["CMT4D", "Charcot-Marie-Tooth disease type 4D", "Charcot-Marie-Tooth disease type 1A"])
    >>> found.one.tolist(), found.other.tolist(), found.letters.tolist()
    ([0], [1], [3.0])
    """

    def __init__(self, texts: Sequence[str], languages: Iterable[str] = (), norms: Sequence[str] | None = None) -> None:
        norms = normalise_all(texts) if norms is None else norms
        tags = dict.fromkeys([*_BORROWED, *languages])
        small = {"type"}.union(*(language_data(tag).articles.small_words for tag in tags))
        short = [{letters.lower() for letters in _SHORT.findall(text)} for text in texts]
        wanted = set().union(*short)
        one_of: dict[str, str] = {}  # each word is held once
        piece = lru_cache(_PIECES)(_piece)
        self._words = [
            [one_of.setdefault(word, word) for word in map(piece, _PIECE.findall(norm)) if word not in small]
            for norm in norms
        ]
        count = Counter(word for words in self._words for word in set(words))
        weight = self._weight = {word: 1 + float(np.log((1 + len(texts)) / (1 + df))) for word, df in count.items()}
        self._whole = [sum([weight[word] for word in words]) for words in self._words]
        has: dict[str, list[int]] = {}
        runs: dict[str, list[int]] = {}
        for place, words in enumerate(self._words):
            for letters in sorted(short[place]):
                has.setdefault(letters, []).append(place)
            heads = "".join(word[0] for word in words)
            found = {heads[at : at + n] for at in range(len(heads)) for n in range(2, _RUN + 1)} & wanted
            for letters in sorted(found):
                runs.setdefault(letters, []).append(place)
        best: dict[tuple[int, int], tuple[float, int]] = {}
        for letters in sorted(has.keys() & runs.keys()):
            if len(has[letters]) * len(runs[letters]) > _MANY:
                continue
            for one in has[letters]:
                for other in runs[letters]:
                    if one != other and (share := self._explained(letters, one, other)) >= ENOUGH:
                        pair = min(one, other), max(one, other)
                        best[pair] = max(best.get(pair, (0.0, 0)), (share, len(letters)))
        told = stated(texts, norms)
        for pair in told:
            best[pair] = (1.0, best.get(pair, (0.0, 0))[1])
        self._count = max(len(texts), 1)
        ends = np.array(sorted(best), dtype=np.int64).reshape(-1, 2)
        self.one, self.other = ends[:, 0], ends[:, 1]
        said = np.array([best[one, other] for one, other in ends.tolist()]).reshape(-1, 2)
        self.explained: NDArray[np.float64] = said[:, 0]
        self.letters: NDArray[np.float64] = said[:, 1]
        self.stated: NDArray[np.bool_] = np.array([tuple(pair) in told for pair in ends.tolist()], dtype=bool)

    def of(
        self, one: NDArray[np.int64], other: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        """``(p,)`` share explained, letters of the abbreviation, and whether it is stated, of each of p pairs."""
        asked = np.minimum(one, other) * self._count + np.maximum(one, other)
        keys = self.one * self._count + self.other
        at = np.searchsorted(keys, asked)
        found = np.append(keys, -1)[at] == asked
        explained, letters, told = (np.append(x, 0)[at] * found for x in (self.explained, self.letters, self.stated))
        return explained, letters, told > 0

    def _explained(self, letters: str, one: int, other: int) -> float:
        mine, theirs = self._words[one], self._words[other]
        if letters not in mine or letters in theirs:
            return 0.0
        alone, left, shared = list(mine), [], 0.0
        for word in theirs:
            if word in alone:
                alone.remove(word)
                shared += self._weight[word]
            else:
                left.append(word)
        at = "".join(word[0] for word in left).find(letters)
        if at < 0:
            return 0.0
        written = sum(self._weight[word] for word in left[at : at + len(letters)])
        return min((shared + self._weight[letters]) / self._whole[one], (shared + written) / self._whole[other])
