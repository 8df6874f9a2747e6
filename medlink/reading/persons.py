"""Names of persons, which are no mentions: *Frau Alzheimer*, *Dr. Anna Alzheimer*, *Alzheimer, Anna, geb. 1950*."""

from __future__ import annotations

import re

from medlink.language.languages import Persons, language_data

_TITLE = 60  # characters before a word in which a title is looked for
_NAMES = 4  # words of a name and its titles
_INITIAL = 2  # letters of an initial with its dot


class PersonNames:
    """Where the texts of one language (BCP 47) name persons."""

    def __init__(self, language: str) -> None:
        rules = language_data(language).read("persons", Persons)
        self._cues = rules.words | {word.rstrip(".") for word in rules.words if len(word) > _INITIAL}
        births = "|".join(map(re.escape, rules.births))
        self._born = (
            re.compile(rf"(?:,?[^\S\n]{{1,3}}[A-ZÄÖÜÁÉÍÓÚÑ][\w.-]{{0,40}}){{0,2}},?[^\S\n]{{0,3}}(?:{births})(?!\w)")
            if births
            else None
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
        if self._born is not None and self._born.match(text, end):
            return True
        before = text[max(0, start - _TITLE) : start].rpartition("\n")[2].split()
        for word in reversed(before[-_NAMES:]):
            if word in self._cues:
                return True
            if not word[0].isupper() or not (word[-1].isalpha() or len(word) == _INITIAL):
                return False
        return False
