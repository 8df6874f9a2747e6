"""Determine the language of a note, and warn if medlink lacks its rules, or if most notes contradict a given option."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from medlink.errors import ConfigError
from medlink.files.problems import is_utf8, pluralize
from medlink.language.languages import languages, rows
from medlink.language.lexicon.lexicon import SHIPPED
from medlink.language.tags import base
from medlink.linking.options import parse_language
from medlink.notes.reading import Note

_MAX_CHARACTERS = 10_000  # for detection
# share of a language in which the bundle has no names; of pieces of letters (de, en, es) below 40 characters, 1.5 % at
# most have another language with this share, and none of 40 or more
_CERTAIN = 0.8
_SAMPLE = 4_000  # characters of a note that are checked
_WORD = re.compile(r"[^\W\d_]+")
_CLEAR, _TIMES = 5, 4  # function words of the other language, and their ratio to those of the given language
_NO_BLANKS = frozenset(["bo", "dz", "ja", "km", "ko", "lo", "my", "th", "vi", "yue", "zh"])
"""Languages that do not separate words by blanks alone (Unicode Standard Annex 14, section 5.1; spaCy has special
tokenisers for ja, ko, th, vi and zh)."""


class NoteLanguages:
    """Determine the language of a note: the ``given`` language, else the language that the note states, else the
    detected language.

    Detection chooses among the languages of the bundle's names (``tags``), without regions, and those with rules. A
    language in which the bundle has no names must be clearly the likeliest, because a few words are weak evidence. A
    name without a language allows every language with rules. Raises ConfigError for an unknown ``given`` language.
    """

    def __init__(self, tags: Iterable[str], given: str | None = None) -> None:
        bases = {base(tag) for tag in tags}
        self._named = sorted((bases | set(languages()) if "" in bases else bases) - {""})
        self.candidates = sorted({*self._named, *languages()})
        self.given = base(parse_language(given) or "") or None
        self._detector: Any = None

    def detect(self, note: Note) -> str:
        """Return the language of a note, without region; raises ConfigError if the note states an unknown language."""
        return self.given or base(parse_language(note.language) or "") or self._detect(note.text)

    def _detect(self, text: str) -> str:
        if self._detector is None:
            from lingua import IsoCode639_1, LanguageDetectorBuilder

            codes = {tag: getattr(IsoCode639_1, tag.upper(), None) for tag in self.candidates}
            if not any(map(codes.get, self._named)):
                return self._named[0]
            self._detector = LanguageDetectorBuilder.from_iso_codes_639_1(*filter(None, codes.values())).build()
        found = self._detector.compute_language_confidence_values(text[:_MAX_CHARACTERS])
        shares = {one.language.iso_code_639_1.name.lower(): one.value for one in found}
        first = max(shares, key=shares.__getitem__)
        # without evidence all shares are 0
        return first if shares[first] >= _CERTAIN else max(self._named, key=lambda tag: shares.get(tag, 0.0))


def describe_missing(language: str, tags: Iterable[str]) -> Iterator[str]:
    """Yield warnings on what medlink lacks for a language; ``tags`` are the languages of the bundle's names."""
    if language not in languages():
        yield "medlink has no rules for it: only names of the bundle are found, and no qualifiers are read"
    known = sorted({base(tag) for tag in tags})
    if language not in known and "" not in known:
        yield f"the bundle has no names in it, only in {', '.join(known)}"


def check_word_boundaries(language: str) -> None:
    """Reject a language that does not separate words by blanks."""
    if language in _NO_BLANKS:
        remedy = "give the notes to a spaCy pipeline of that language with medlink's components"
        raise ConfigError(f"the language {language!r} does not separate words by blanks", remedy=remedy)


class InputChecks:
    """Counts the notes that contradict the ``encoding`` and the ``language`` given for all notes."""

    def __init__(self, encoding: str, language: str | None) -> None:
        self._encoding = None if encoding.startswith("utf") else encoding
        self._language, self._words = base(language or ""), _function_words() if language else {}
        self._seen, self._beyond, self._utf8, self._others = 0, 0, 0, Counter[str]()

    def add(self, text: str) -> None:
        self._seen += 1
        sample = text[:_SAMPLE]
        if self._encoding is not None and not sample.isascii():
            self._beyond += 1
            self._utf8 += is_utf8(sample.encode(self._encoding, "ignore"))
        if self._language in self._words:
            words = Counter(_WORD.findall(sample.lower()))
            counts = {tag: sum(map(words.__getitem__, own & words.keys())) for tag, own in self._words.items()}
            other = max(counts, key=counts.__getitem__)
            self._others[other] += counts[other] >= max(_CLEAR, _TIMES * counts[self._language])

    def warnings(self) -> Iterator[str]:
        """Yield a warning about the encoding or the language if most notes contradict it."""
        if self._encoding is not None and 2 * self._utf8 > self._beyond:
            notes = pluralize(self._utf8, "note")
            yield f'{notes} read as {self._encoding.upper()}, but probably UTF-8: give encoding="utf-8"'
        del self._others[self._language]
        for other, count in self._others.most_common(1):
            if 2 * count > self._seen:
                notes = f"{count:,} of {pluralize(self._seen, 'note')}"
                yield f'{notes} probably in {other!r}, not in {self._language!r}: give language="{other}"'


@cache
def _function_words() -> dict[str, frozenset[str]]:
    """Function words of each language that no other language has."""
    table = rows(SHIPPED / "function_words.tsv", "word", "language", "kind")
    pairs = dict.fromkeys((row["language"], row["word"]) for row in table)
    number = Counter(word for _, word in pairs)
    tags = dict.fromkeys(tag for tag, _ in pairs)
    return {tag: frozenset(w for la, w in pairs if la == tag and number[w] == 1) for tag in tags}
