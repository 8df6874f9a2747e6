"""Determine the language of a note, and describe what medlink lacks to read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from medlink.errors import ConfigError
from medlink.language.languages import languages
from medlink.language.tags import base
from medlink.linking.options import parse_language
from medlink.notes.reading import Note

_MAX_CHARACTERS = 10_000  # for detection
_NO_BLANKS = frozenset(["bo", "dz", "ja", "km", "ko", "lo", "my", "th", "vi", "yue", "zh"])
"""Languages that do not separate words by blanks alone (Unicode Standard Annex 14, section 5.1; spaCy has special
tokenisers for ja, ko, th, vi and zh)."""


class NoteLanguages:
    """Determine the language of a note: the ``given`` language, else the language that the note states, else the
    detected language.

    Detection chooses among the languages of the bundle's names (``tags``), without regions. A name without a language
    allows every language with rules. Raises ConfigError for an unknown ``given`` language.
    """

    def __init__(self, tags: Iterable[str], given: str | None = None) -> None:
        bases = {base(tag) for tag in tags}
        self.candidates = sorted((bases | set(languages()) if "" in bases else bases) - {""})
        self.given = base(parse_language(given) or "") or None
        self._detector: Any = None

    def detect(self, note: Note) -> str:
        """Return the language of a note, without region; raises ConfigError if the note states an unknown language."""
        return self.given or base(parse_language(note.language) or "") or self._detect(note.text)

    def _detect(self, text: str) -> str:
        if len(self.candidates) == 1:
            return self.candidates[0]
        if self._detector is None:
            from lingua import IsoCode639_1, LanguageDetectorBuilder

            codes = [code for tag in self.candidates if (code := getattr(IsoCode639_1, tag.upper(), None))]
            if len(codes) < 2:
                return self.candidates[0]
            self._detector = LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()
        detected = self._detector.detect_language_of(text[:_MAX_CHARACTERS])
        return detected.iso_code_639_1.name.lower() if detected else self.candidates[0]


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
