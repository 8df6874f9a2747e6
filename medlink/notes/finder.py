"""``MentionFinder``: mentions by longest match with the names of an index, and what the linker is told of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from spacy.tokens import Doc

from medlink.index import ConceptIndex, Filter
from medlink.index.dictionary import Match
from medlink.language.languages import language_data
from medlink.language.tags import base
from medlink.language.text import same_letters
from medlink.linking import Mention
from medlink.notes.abbreviations import Place
from medlink.notes.options import FinderOptions

Mentions = dict[Place, Match | None]
"""Mentions by their token offsets, with the names of the index they are; ``None`` where these are to be looked up."""
# A name of so few letters is as a rule an abbreviation: it counts only in upper case.
_SHORT = 3
# A single word of another language's names must be so long, because short words mean other things elsewhere.
_FOREIGN = 6
# Characters before a mention in which a title is looked for.
_TITLE = 60
_AROUND = 200  # characters of context on each side


@dataclass(slots=True)
class _Matches:
    """All matches at one stretch of text."""

    start: int
    end: int
    words: int
    by_language: dict[str, Match] = field(default_factory=dict)


class MentionFinder:
    """Find the names of an index in a tokenised text, inflected forms included.

    At each place the longest name wins; between equals the first.

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
        self._own = {tag for tag in tags if not tag or base(tag) == base(language)}
        others = sorted({base(tag) for tag in tags if tag not in self._own}) if options.other_languages else []
        self._languages = [language, *others]
        self._person_cues = language_data(language).persons
        self._selection = index.select(Filter(semantic_types=tuple(sorted(options.semantic_types))))

    def find(self, doc: Doc, long_forms: Collection[Place] = ()) -> Mentions:
        """Mentions by their token offsets, in order and without overlap.

        Args:
            doc: a tokenised text.
            long_forms: places of abbreviations, which are mentions too.

        Returns:
            The mentions with what :class:`medlink.Mention` takes as ``found``.
        """
        text = doc.text  # made anew by spaCy at every call
        places: dict[tuple[int, int], _Matches] = {}
        longest: dict[int, int] = {}  # for each start the end of the longest name in the text's own language
        for language in self._languages:
            for match in self._index.find(text, language):
                place = places.setdefault((match.start, match.end), _Matches(match.start, match.end, match.words))
                place.by_language[match.language] = match
                if match.language in self._own:
                    longest[match.start] = max(match.end, longest.get(match.start, 0))
        found: Mentions = dict.fromkeys(long_forms)
        for matches in places.values():
            if not self._is_mention(text, matches):
                continue
            span = doc.char_span(matches.start, matches.end, alignment_mode="expand")
            if span is None:
                continue
            whole = (span.start_char, span.end_char) == (matches.start, matches.end)
            known = whole and longest.get(matches.start, 0) <= matches.end
            found.setdefault((span.start, span.end), self._match(matches) if known else None)
        kept: Mentions = {}
        taken = bytearray(len(doc))
        for start, end in sorted(found, key=lambda place: (place[0] - place[1], place[0])):
            if not any(taken[start:end]):
                taken[start:end] = b"\1" * (end - start)
                kept[start, end] = found[start, end]
        return dict(sorted(kept.items()))

    def _match(self, matches: _Matches) -> Match:
        """What a look-up of the mention gives: the names to the letter, and inflected ones of its own language."""
        rows = {
            row: route
            for tag, match in matches.by_language.items()
            for row, route in match.rows.items()
            if route == "exact" or tag in self._own
        }
        return Match(matches.start, matches.end, self._language, matches.words, rows)

    def _is_mention(self, text: str, matches: _Matches) -> bool:
        """Whether a stretch of text stands for what it names."""
        mention = text[matches.start : matches.end]
        letters = sum(map(str.isalpha, mention))
        if not letters or len(mention) == 1:
            return False
        if matches.words == 1:
            if mention.casefold() in self._stop_words and not (mention.isupper() and letters > 1):
                return False
            if letters <= _SHORT and not mention.isupper():
                return False
        return any(
            (letters >= _FOREIGN or matches.words > 1 or tag in self._own)
            and any(self._spelt_so(row, mention, tag) for row in match.rows)
            for tag, match in matches.by_language.items()
        ) and not self._names_a_person(text, matches)

    def _spelt_so(self, row: float, text: str, language: str) -> bool:
        """Whether a row has a name that ``text`` may stand for: an upper-case name stands for upper-case text only."""
        return any(
            entry.language == language
            and (text.isupper() or not entry.text.isupper())
            and same_letters(text, entry.text, language)
            for entry in self._index.entries_of(row, self._selection)
        )

    def _names_a_person(self, text: str, matches: _Matches) -> bool:
        """Whether one capitalised word follows a title ("Frau Alzheimer", "Dr. med. Anna Alzheimer")."""
        word = text[matches.start : matches.end]
        if matches.words > 1 or not word[0].isupper() or word.isupper():
            return False
        before = text[max(0, matches.start - _TITLE) : matches.start].rpartition("\n")[2].split()
        for word in reversed(before[-4:]):
            if word in self._person_cues:
                return True
            if not word[0].isupper() or not word[-1].isalpha():
                return False
        return False


@dataclass(frozen=True, slots=True)
class Described:
    """A mention as the linker takes it, with its character offsets and the text around it."""

    start: int
    end: int
    mention: Mention
    context: str


def describe(
    doc: Doc, text: str, place: Place, language: str, long_form: str | None, found: Match | None = None
) -> Described:
    """Describe a mention of a document whose text is ``text``, by its token offsets."""
    span = doc[place[0] : place[1]]
    start, end = span.start_char, span.end_char
    mention = Mention(text[start:end], language, long_form, None if long_form else found)
    return Described(start, end, mention, text[max(0, start - _AROUND) : end + _AROUND])
