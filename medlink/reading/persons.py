"""Names of persons, and what stands for a name that was taken out of a note. Neither is a mention.

De-identified notes have ``[**Hospital1 18**]`` (MIMIC-III), ``___`` (MIMIC-IV), ``<NAME>`` or ``XXX``. The first holds
words, which may be names of diseases. Behind a comma ``XXX`` is a karyotype (``47,XXX``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

from medlink.language.languages import Persons, language_data

_PLACEHOLDER = re.compile(
    r"\[\*\*.{0,200}?\*\*\]|<[A-ZÄÖÜÑÁÉÍÓÚ][A-ZÄÖÜÑÁÉÍÓÚ0-9_ -]{1,40}>|(?<![\w,])(?:X{3,}|x{3,}|_{3,})(?!\w)", re.DOTALL
)
_TITLE = 60  # characters before a word in which a title is looked for
_NAMES = 4  # words of a name and its titles
_INITIAL = 2  # letters of an initial with its dot


def in_placeholder(text: str) -> Callable[[int, int], bool]:
    """Says of two character offsets of a text whether a part of a placeholder is between them."""
    found = [one.span() for one in _PLACEHOLDER.finditer(text)]

    def inside(start: int, end: int) -> bool:
        at = bisect_right(found, start, key=lambda span: span[1])
        return at < len(found) and found[at][0] < end

    return inside


class PersonNames:
    """Where the texts of one language (BCP 47) name persons: *Frau Alzheimer*, *Alzheimer, Anna, geb. 1950*."""

    def __init__(self, language: str) -> None:
        rules = language_data(language).read("persons", Persons)
        self._cues = rules.words | {word.rstrip(".") for word in rules.words if len(word) > _INITIAL}
        births = "|".join(map(re.escape, rules.births)) or "(?!)"
        self._born = re.compile(
            rf"(?:,?[^\S\n]{{1,3}}[A-ZÄÖÜÁÉÍÓÚÑ][\w.-]{{0,40}}){{0,2}},?[^\S\n]{{0,3}}(?:{births})(?!\w)"
        )

    def are_at(self, text: str, start: int, end: int) -> bool:
        """Whether one capitalised word is a title, or a name behind one or before a date of birth.

        >>> text = "Prof. Dr. med Anna Alzheimer, Kawasaki, Mitsou, geb. am 1.1.2000"
        >>> names = PersonNames("de")
        >>> names.are_at(text, 19, 28), names.are_at(text, 30, 38), names.are_at("bei Alzheimer", 4, 13)
        (True, True, False)
        """
        word = text[start:end]
        if word in self._cues:
            return True
        if not word[0].isupper() or word.isupper() or " " in word:
            return False
        if self._born.match(text, end):
            return True
        before = text[max(0, start - _TITLE) : start].rpartition("\n")[2].split()
        for word in reversed(before[-_NAMES:]):
            if word in self._cues:
                return True
            if not word[0].isupper() or not (word[-1].isalpha() or len(word) == _INITIAL):
                return False
        return False
