"""Find where text has names: of an index, to the letter or inflected; of persons, and what stands for one.

De-identified notes have ``[**Hospital1 18**]`` (MIMIC-III), ``___`` (MIMIC-IV), ``<NAME>`` or ``XXX``. The first holds
words, which may be names of diseases. Behind a comma ``XXX`` is a karyotype (``47,XXX``). None of it is a mention.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from cachetools import LRUCache

from medlink.index import ConceptIndex, Filter
from medlink.index.dictionary import Match
from medlink.language.languages import Persons, language_data, stop_words
from medlink.language.scan import Place, ScannedText
from medlink.language.tags import base
from medlink.language.text import same_letters, spelling
from medlink.reading.options import FinderOptions

SHORT = 3
"""Letters of a name that counts in upper case alone: as a rule it is an abbreviation."""
_CAPITALS = 4  # letters of what is as a rule an abbreviation where it is in capitals
_FOREIGN = 6  # letters of a single word of another language's names: shorter ones mean other things elsewhere
_KEPT = 1 << 15  # spans of which is kept whether they stand for what they name
_PLACEHOLDER = re.compile(
    r"\[\*\*.{0,200}?\*\*\]|<[A-ZÄÖÜÑÁÉÍÓÚ][A-ZÄÖÜÑÁÉÍÓÚ0-9_ -]{1,40}>|(?<![\w,])(?:X{3,}|x{3,}|_{3,})(?!\w)", re.DOTALL
)
_TITLE = 60  # characters before a word in which a title is looked for
_NAMES = 4  # words of a name and its titles
_INITIAL = 2  # letters of an initial with its dot
_ByTag = dict[str, Mapping[int, str]]
"""The names of a span with their routes, by the language that states them."""


class NameFinder:
    """Find the names of an index in scanned text of a language (BCP 47), inflected forms included.

    Names of its regions, and names without a language, are its own.
    """

    def __init__(self, index: ConceptIndex, language: str, options: FinderOptions | None = None) -> None:
        options = options or FinderOptions()
        self._index, self._language, self._stop_words = index, language, stop_words(language)
        self.own = {tag for tag in index.languages if not tag or base(tag) == base(language)}
        self._of_language = None if options.other_languages else language
        self._selection = index.select(Filter(semantic_types=tuple(sorted(options.semantic_types))))
        self._known: LRUCache[tuple[str, ...], bool] = LRUCache(_KEPT)

    def find(self, text: ScannedText, explained: Collection[Place] = ()) -> dict[Place, Match | None]:
        """Names in a text, which may overlap: at each word the longest of each language; ``explained`` spans too.

        Those of spans that are ``None`` are to be looked up.
        """
        places: dict[Place, _ByTag] = defaultdict(dict)
        longest: dict[int, int] = defaultdict(int)  # the end of the longest name in the text's own language by its word
        for place, tag, names in self._index.find(text, self._of_language):
            known = places[place].get(tag)
            places[place][tag] = {**names, **known} if known else names
            if tag in self.own:
                longest[place[0]] = max(place[1], longest[place[0]])
        found: dict[Place, Match | None] = dict.fromkeys(explained)
        for place, by_tag in places.items():
            if self._is_mention(text.written(place), by_tag, one_word=place[1] - place[0] == 1):
                known_whole = longest[place[0]] <= place[1]
                found.setdefault(place, self._match(text.span(place), by_tag) if known_whole else None)
        return found

    def _match(self, span: tuple[int, int], by_tag: _ByTag) -> Match:
        rows = {
            row: route
            for tag, names in by_tag.items()
            for row, route in names.items()
            if route == "exact" or tag in self.own
        }
        return Match(*span, self._language, 1, rows)

    def _is_mention(self, written: str, by_tag: _ByTag, *, one_word: bool) -> bool:
        key = (written, *by_tag)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._stands_for(written, by_tag, one_word=one_word)
        return known

    def _stands_for(self, written: str, by_tag: _ByTag, *, one_word: bool) -> bool:
        letters, upper = sum(map(str.isalpha, written)), written.isupper()
        if not letters or len(written) == 1 or (one_word and not upper and letters <= SHORT):
            return False
        if one_word and written.casefold() in self._stop_words and not (upper and letters > 1):
            return False
        return any(
            (letters >= _FOREIGN or not one_word or tag in self.own)
            and any(self._spelt_alike(row, written, tag) for row in names)
            for tag, names in by_tag.items()
        )

    def _spelt_alike(self, row: int, text: str, language: str) -> bool:
        """Whether a row has a name that ``text`` may stand for.

        An upper-case name stands for upper-case text only, and a few capitals have no inflection: *GOT* is not *Gota*.
        """
        entries = (one for one in self._index.entries_of(row, self._selection) if one.language == language)
        upper = text.isupper()
        if upper and len(text) <= _CAPITALS:
            return any(spelling(text) == spelling(one.text) for one in entries)
        return any((upper or not one.text.isupper()) and same_letters(text, one.text, language) for one in entries)


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
        """Whether one capitalised word is a title, or a name behind one or before a date of birth."""
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
