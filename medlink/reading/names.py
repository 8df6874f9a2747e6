"""Find names in text: exact or inflected names of an index, names of persons, and their placeholders.

De-identified notes contain ``[**Hospital1 18**]`` (MIMIC-III), ``___`` (MIMIC-IV), ``<NAME>`` or ``XXX``. The first
form contains words that may be names of diseases. ``XXX`` after a comma is a karyotype (``47,XXX``). None is a mention.
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
"""Letters up to which a name counts in upper case only: such names are usually abbreviations."""
_CAPITALS = 4  # letters up to which a word in capitals is usually an abbreviation
_FOREIGN = 6  # least letters of a single word in another language: shorter ones often have other meanings
_CACHE_SIZE = 1 << 15  # spans
_PLACEHOLDER = re.compile(
    r"\[\*\*.{0,200}?\*\*\]|<[A-ZÄÖÜÑÁÉÍÓÚ][A-ZÄÖÜÑÁÉÍÓÚ0-9_ -]{1,40}>|(?<![\w,])(?:X{3,}|x{3,}|_{3,})(?!\w)", re.DOTALL
)
_TITLE = 60  # characters before a word that are searched for a title
_NAMES = 4  # most words of a name with its titles
_INITIAL = 2  # characters of an initial with its dot
_ByTag = dict[str, Mapping[int, str]]
"""Names of a span with their routes, by language."""


class NameFinder:
    """Find the names of an index in scanned text of a language (BCP 47), exact or inflected.

    Names of regional variants and names without a language count as names of the language.
    """

    def __init__(self, index: ConceptIndex, language: str, options: FinderOptions | None = None) -> None:
        options = options or FinderOptions()
        self._index, self._language, self._stop_words = index, language, stop_words(language)
        self.own = {tag for tag in index.languages if not tag or base(tag) == base(language)}
        self._of_language = None if options.other_languages else language
        self._selection = index.select(Filter(semantic_types=tuple(sorted(options.semantic_types))))
        self._known: LRUCache[tuple[str, ...], bool] = LRUCache(_CACHE_SIZE)

    def find(self, text: ScannedText, explained: Collection[Place] = ()) -> dict[Place, Match | None]:
        """Find names, at each word the longest of each language, and ``explained`` spans; they may overlap.

        ``None`` stands for names that are not looked up yet.
        """
        places: dict[Place, _ByTag] = defaultdict(dict)
        longest: dict[int, int] = defaultdict(int)  # end of the longest name in the own language, by first word
        for place, tag, names in self._index.find(text, self._of_language):
            known = places[place].get(tag)
            places[place][tag] = {**names, **known} if known else names
            if tag in self.own:
                longest[place[0]] = max(place[1], longest[place[0]])
        matches: dict[Place, Match | None] = dict.fromkeys(explained)
        for place, by_tag in places.items():
            if self._is_mention(text.written(place), by_tag, one_word=place[1] - place[0] == 1):
                known_whole = longest[place[0]] <= place[1]
                matches.setdefault(place, self._match(text.span(place), by_tag) if known_whole else None)
        return matches

    def _match(self, span: tuple[int, int], by_tag: _ByTag) -> Match:
        rows = ((tag, *item) for tag, names in by_tag.items() for item in names.items())
        known = {row: route for tag, row, route in rows if route == "exact" or tag in self.own}
        return Match(*span, self._language, 1, known)

    def _is_mention(self, written: str, by_tag: _ByTag, *, one_word: bool) -> bool:
        key = (written, *by_tag)
        if key not in self._known:
            self._known[key] = self._is_name_of(written, by_tag, one_word=one_word)
        return self._known[key]

    def _is_name_of(self, written: str, by_tag: _ByTag, *, one_word: bool) -> bool:
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
        """Whether a row of the index has a name that ``text`` may stand for.

        An upper-case name needs upper-case text, and short text in capitals is not inflected: *GOT* is not *Gota*.
        """
        entries = (entry for entry in self._index.entries_of(row, self._selection) if entry.language == language)
        upper = text.isupper()
        if upper and len(text) <= _CAPITALS:
            return any(spelling(text) == spelling(entry.text) for entry in entries)
        return any(
            (upper or not entry.text.isupper()) and same_letters(text, entry.text, language) for entry in entries
        )


def in_placeholder(text: str) -> Callable[[int, int], bool]:
    """Return a predicate of start and end, in characters, that tells whether the span overlaps a placeholder."""
    spans = [match.span() for match in _PLACEHOLDER.finditer(text)]

    def inside(start: int, end: int) -> bool:
        at = bisect_right(spans, start, key=lambda span: span[1])
        return at < len(spans) and spans[at][0] < end

    return inside


class PersonNames:
    """Recognises names of persons in one language (BCP 47): *Frau Alzheimer*, *Alzheimer, Anna, geb. 1950*."""

    def __init__(self, language: str) -> None:
        rules = language_data(language).read("persons", Persons)
        self._cues = rules.words | {word.rstrip(".") for word in rules.words if len(word) > _INITIAL}
        births = "|".join(map(re.escape, rules.births)) or "(?!)"
        self._born = re.compile(
            rf"(?:,?[^\S\n]{{1,3}}[A-ZÄÖÜÁÉÍÓÚÑ][\w.-]{{0,40}}){{0,2}},?[^\S\n]{{0,3}}(?:{births})(?!\w)"
        )

    def is_person(self, text: str, start: int, end: int) -> bool:
        """Return whether a capitalised word is a title, or a name after a title or before a date of birth."""
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
