"""Abbreviations of a term list, paired with the terms that write them out.

"CMT4D" and "Charcot-Marie-Tooth disease type 4D" share a number, and *CMT* is the initials of three consecutive words.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray

from medlink.language.exact import normalise_all
from medlink.language.languages import language_data
from medlink.language.text import ROMAN, is_short, normalise

_BORROWED_FROM = ("de", "en", "es")  # "Tic de la Tourette" is an English name too
_SHORT = re.compile(r"(?<![^\W\d_])(?=[A-Z]\w*[A-Z])[A-Za-z]{2,6}(?![a-zA-Z])")  # CMT of CMT4D, GSD; not Gaucher
_PIECE = re.compile(r"\d+(?:\.\d+)*[a-z]?|[^\W\d_]+")
_NUMERAL = re.compile(r"([ivx]+)([a-z]?)")
_LONG_SHORT = re.compile(r"([^()]+?)\s*\(([^()]+)\)")
_CACHED_PIECES = 65_536
_MAX_WORDS = 6  # of a run of words whose initials are compared
_MAX_PAIRS = 4_000  # an abbreviation with more pairs is too ambiguous in this list
MIN_EXPLAINED = 0.6
"""Lowest explained share of both terms for a pair to be compared."""


def _piece(word: str) -> str:
    found = _NUMERAL.fullmatch(word)
    return ROMAN[found[1]] + found[2] if found and found[1] in ROMAN else word


def is_abbreviation_of(short: str, long: str) -> bool:
    """Return whether a longer form has the characters of an abbreviation in order, and begins with the same one.

    The search goes from the right (Schwartz and Hearst 2003).
    """
    wanted = [letter for letter in normalise(short) if letter.isalnum()]
    text = normalise(long)
    if not wanted or len(text) <= len(wanted):
        return False
    at = len(text)
    for letter in reversed(wanted[1:]):
        at = text.rfind(letter, 1, max(at, 0))
    return at > 0 and text.startswith(wanted[0])


def split_long_short(text: str) -> tuple[str, str] | None:
    """Return the long and the short form of a term that contains both, else ``None``."""
    found = _LONG_SHORT.fullmatch(text)
    parts = [part.strip() for part in found.groups()] if found else ["", ""]
    return next(((a, b) for a, b in permutations(parts) if is_short(b) and is_abbreviation_of(b, a)), None)


def stated_pairs(texts: Sequence[str], norms: Sequence[str]) -> set[tuple[int, int]]:
    """Return pairs of rows, the lower first, that a term such as "long form (ABC)" of the list states to be equal.

    This term, the long form and the abbreviation equal each other. An abbreviation with several long forms in the list
    equals none of them. ``norms`` are the exact forms of ``texts``.
    """
    with_both = [(row, both) for row, text in enumerate(texts) if "(" in text and (both := split_long_short(text))]
    forms = {normalise(form) for _, both in with_both for form in both}
    rows: dict[tuple[str, bool], int] = {}
    for row, (text, form) in enumerate(zip(texts, norms, strict=True)) if forms else ():
        if form in forms:
            rows.setdefault((form, is_short(text)), row)
    long_forms: dict[int, dict[str, set[int]]] = {}  # of each abbreviation, with the rows that have them
    pairs: set[tuple[int, int]] = set()
    for row, (long, short) in with_both:
        same = {row, rows.get((normalise(long), False), row)}
        pairs.add((min(same), max(same)))
        if (short_row := rows.get((normalise(short), True))) is not None:
            long_forms.setdefault(short_row, {}).setdefault(normalise(long), set()).update(same)
    for short_row, of in long_forms.items():
        if len(of) == 1:
            pairs.update((min(short_row, row), max(short_row, row)) for row in next(iter(of.values())))
    return {(one, other) for one, other in pairs if one != other}


class AbbreviationPairs:
    """Pairs of terms: one has an abbreviation, the other has consecutive words with these initials.

    Function words of ``languages`` (BCP 47 or ``""``), and of German, English and Spanish, do not count.

    Attributes:
        one, other: ``(p,)`` row numbers, the lower first, sorted.
        letters: ``(p,)`` letters of the abbreviation.
        explained: ``(p,)`` share of a term, by weight of its words, that the other one has or explains; the lower of
            the two shares.
        stated: ``(p,)`` whether a term of the list states the pair (:func:`stated_pairs`).
    """

    def __init__(self, texts: Sequence[str], languages: Iterable[str] = (), norms: Sequence[str] | None = None) -> None:
        norms = normalise_all(texts) if norms is None else norms
        tags = dict.fromkeys([*_BORROWED_FROM, *languages])
        small = {"type"}.union(*(language_data(tag).articles.small_words for tag in tags))
        # most texts have none: a million empty sets would take 200 MB
        short = [{letters.lower() for letters in _SHORT.findall(text)} or () for text in texts]
        wanted = set().union(*short)
        interned: dict[str, str] = {}  # one object for equal words
        piece = lru_cache(_CACHED_PIECES)(_piece)
        self._words = [
            [interned.setdefault(word, word) for word in map(piece, _PIECE.findall(norm)) if word not in small]
            for norm in norms
        ]
        count = Counter(word for words in self._words for word in set(words))
        weight = self._weight = {word: 1 + float(np.log((1 + len(texts)) / (1 + df))) for word, df in count.items()}
        self._whole = [sum([weight[word] for word in words]) for words in self._words]
        abbreviated, written_out = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        for row, words in enumerate(self._words):
            for letters in short[row]:
                abbreviated[letters].append(row)
            heads = "".join(word[0] for word in words)
            for letters in {heads[at : at + n] for at in range(len(heads)) for n in range(2, _MAX_WORDS + 1)} & wanted:
                written_out[letters].append(row)
        best: dict[tuple[int, int], tuple[float, int]] = {}
        for letters, rows in abbreviated.items():
            if len(rows) * len(written_out[letters]) > _MAX_PAIRS:
                continue
            for row, long_row in product(rows, written_out[letters]):
                if row != long_row and (share := self._explained(letters, row, long_row)) >= MIN_EXPLAINED:
                    pair = min(row, long_row), max(row, long_row)
                    best[pair] = max(best.get(pair, (0.0, 0)), (share, len(letters)))
        stated = stated_pairs(texts, norms)
        for pair in stated:
            best[pair] = (1.0, best.get(pair, (0.0, 0))[1])
        self._count, pairs = max(len(texts), 1), sorted(best)
        self.one, self.other = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        self.explained, self.letters = np.array([best[pair] for pair in pairs], dtype=float).reshape(-1, 2).T
        self.stated = np.array([pair in stated for pair in pairs], dtype=bool)
        del self._words, self._weight, self._whole

    def lookup(
        self, one: NDArray[np.int64], other: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        """Return for each pair the share explained, the letters, and whether a term states the pair, ``(p,)`` each."""
        wanted = np.minimum(one, other) * self._count + np.maximum(one, other)
        keys = self.one * self._count + self.other
        at = np.searchsorted(keys, wanted)
        found = np.append(keys, -1)[at] == wanted
        explained, letters, stated = (np.append(x, 0)[at] * found for x in (self.explained, self.letters, self.stated))
        return explained, letters, stated > 0

    def _explained(self, letters: str, row: int, long_row: int) -> float:
        mine, theirs = self._words[row], self._words[long_row]
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
        return min((shared + self._weight[letters]) / self._whole[row], (shared + written) / self._whole[long_row])
