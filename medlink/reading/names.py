"""``NameFinder``: where a text has the names of an index, to the letter or inflected."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import replace

from spacy.tokens import Doc

from medlink.index import ConceptIndex, Filter
from medlink.index.dictionary import Match
from medlink.language.tags import base
from medlink.language.text import Inflector, same_letters, spelling
from medlink.reading.abbreviations import Place
from medlink.reading.options import FinderOptions
from medlink.reading.persons import PersonNames

Names = dict[Place, Match | None]
"""Places by their token offsets, with the names of the index they are; ``None`` where these are to be looked up."""
SHORT = 3
"""Letters of a name that counts in upper case alone: as a rule it is an abbreviation."""
_CAPITALS = 4  # letters of what is as a rule an abbreviation where it is in capitals
_FOREIGN = 6  # letters of a single word of another language's names: shorter ones mean other things elsewhere
# A plus behind a word is meaning in a name ("CD4+"); in a note it may say that a finding is there ("Fieber+"). Formulas
# are short, or in capitals.
_SIGN = re.compile(r"(?<![^\W_])((?:[^\W\d_][\u0300-\u036f]*){4,})\+(?![^\W_])")
_FORMULA = 5  # letters of the longest word in capitals that may be a formula ("NADPH+")

_Matches = dict[str, Match]  # all matches at one stretch of text, by language


class NameFinder:
    """Find the names of an index in a tokenised text, inflected forms included.

    Args:
        index: names to look for.
        language: language of the texts, BCP 47. Names of its regions, and names without a language, are its own.
        stop_words: words, in lower case, that are no mention on their own.
        options: further options; their ``language`` is not looked at.
    """

    def __init__(
        self,
        index: ConceptIndex,
        language: str,
        stop_words: Collection[str] = (),
        options: FinderOptions | None = None,
    ) -> None:
        options = options or FinderOptions()
        self._index, self._language, self._stop_words = index, language, stop_words
        tags = index.languages
        self.own = {tag for tag in tags if not tag or base(tag) == base(language)}
        others = sorted({base(tag) for tag in tags if tag not in self.own}) if options.other_languages else []
        self._languages = [language, *others]
        self._persons = PersonNames(language)
        self._selection = index.select(Filter(semantic_types=tuple(sorted(options.semantic_types))))

    def find(
        self, doc: Doc, text: str, long_forms: Collection[Place] = (), inflector: Callable[[str], Inflector] = Inflector
    ) -> Names:
        """Names in a tokenised text, which may overlap: at each start the longest of each language.

        ``text`` is that of the ``doc``, which spaCy makes anew whenever it is asked for. Places of ``long_forms`` are
        names too; ``inflector`` gives the inflector of a language.
        """
        places: dict[tuple[int, int], _Matches] = defaultdict(dict)
        longest: dict[int, int] = {}  # for each start the end of the longest name in the text's own language
        for reading in dict.fromkeys((text, _SIGN.sub(_without_sign, text))):
            for language in self._languages:
                for match in self._index.find(reading, language, inflector):
                    places[match.start, match.end][match.language] = match
                    if match.language in self.own:
                        longest[match.start] = max(match.end, longest.get(match.start, 0))
        found: Names = dict.fromkeys(long_forms)
        for (start, end), matches in places.items():
            span = doc.char_span(start, end, alignment_mode="expand") if self._is_mention(text, matches) else None
            if span is not None:
                known = (span.start_char, span.end_char) == (start, end) and longest.get(start, 0) <= end
                found.setdefault((span.start, span.end), self._match(matches) if known else None)
        return found

    def _match(self, matches: _Matches) -> Match:
        """What a look-up of the mention gives: the names to the letter, and inflected ones of its own language."""
        rows = {
            row: route
            for tag, match in matches.items()
            for row, route in match.rows.items()
            if route == "exact" or tag in self.own
        }
        return replace(next(iter(matches.values())), language=self._language, rows=rows)

    def _is_mention(self, text: str, matches: _Matches) -> bool:
        """Whether a stretch of text stands for what it names."""
        first = next(iter(matches.values()))
        mention, one_word = text[first.start : first.end], first.words == 1
        letters, upper = sum(map(str.isalpha, mention)), mention.isupper()
        if not letters or len(mention) == 1 or (one_word and not upper and letters <= SHORT):
            return False
        if one_word and mention.casefold() in self._stop_words and not (upper and letters > 1):
            return False
        return any(
            (letters >= _FOREIGN or not one_word or tag in self.own)
            and any(self._spelt_so(row, mention, tag) for row in match.rows)
            for tag, match in matches.items()
        )

    def _spelt_so(self, row: float, text: str, language: str) -> bool:
        """Whether a row has a name that ``text`` may stand for.

        An upper-case name stands for upper-case text only, and a few capitals have no inflection: *GOT* is not *Gota*.
        """
        entries = (one for one in self._index.entries_of(row, self._selection) if one.language == language)
        upper = text.isupper()
        if upper and len(text) <= _CAPITALS:
            return any(spelling(text) == spelling(one.text) for one in entries)
        return any((upper or not one.text.isupper()) and same_letters(text, one.text, language) for one in entries)

    def names_a_person(self, text: str, start: int, end: int) -> bool:
        """Whether one capitalised word is a title, or the name of a person by what stands before or behind it."""
        return self._persons.are_at(text, start, end)


def _without_sign(found: re.Match[str]) -> str:
    """A word with a mark that is of no word in place of its plus, unless it may be a formula."""
    word = found[1]
    return found[0] if word.isupper() and len(word) <= _FORMULA else f"{word}|"
