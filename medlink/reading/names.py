"""Find where scanned text has the names of an index, to the letter or inflected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from cachetools import LRUCache

from medlink.index import ConceptIndex, Filter
from medlink.index.dictionary import Match
from medlink.language.languages import stop_words
from medlink.language.scan import Place, ScannedText
from medlink.language.tags import base
from medlink.language.text import same_letters, spelling
from medlink.reading.options import FinderOptions

SHORT = 3
"""Letters of a name that counts in upper case alone: as a rule it is an abbreviation."""
_CAPITALS = 4  # letters of what is as a rule an abbreviation where it is in capitals
_FOREIGN = 6  # letters of a single word of another language's names: shorter ones mean other things elsewhere
_KEPT = 1 << 15  # spans of which is kept whether they stand for what they name

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
        """What a look-up of the mention gives: the names to the letter, and inflected ones of its own language."""
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
