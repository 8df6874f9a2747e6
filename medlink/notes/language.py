"""Which language a note has, and which languages can be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from medlink.errors import ConfigError
from medlink.language.languages import languages
from medlink.language.tags import base
from medlink.linking.options import known_tag
from medlink.notes.reading import Note

_ENOUGH = 10_000  # characters that tell a language
_NO_BLANKS = frozenset(["bo", "dz", "ja", "km", "ko", "lo", "my", "th", "vi", "yue", "zh"])
"""Languages whose words blanks do not part, or not alone (Unicode Standard Annex 14, section 5.1; spaCy has tokenisers
of their own for ja, ko, th, vi and zh)."""


class NoteLanguages:
    """Tells the language of each note: the one given for all, else the one the note names, else the likeliest.

    The likeliest is one of the languages of the bundle's names (``tags``), regions counted as their language. Names
    without a language may belong to any: with them every language that medlink has rules for is looked at too.
    ConfigError for a ``given`` language that is unknown.
    """

    def __init__(self, tags: Iterable[str], given: str | None = None) -> None:
        bases = {base(tag) for tag in tags}
        self.candidates = sorted((bases | set(languages()) if "" in bases else bases) - {""})
        self.given = base(known_tag(given) or "") or None
        self._detector: Any = None

    def of(self, note: Note) -> str:
        """A note's language, without a region; ConfigError where the note names one that is unknown."""
        return self.given or base(known_tag(note.language) or "") or self._found_out(note.text)

    def _found_out(self, text: str) -> str:
        if len(self.candidates) == 1:
            return self.candidates[0]
        if self._detector is None:
            from lingua import IsoCode639_1, LanguageDetectorBuilder

            codes = [code for tag in self.candidates if (code := getattr(IsoCode639_1, tag.upper(), None))]
            if len(codes) < 2:
                return self.candidates[0]
            self._detector = LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()
        found = self._detector.detect_language_of(text[:_ENOUGH])
        return found.iso_code_639_1.name.lower() if found else self.candidates[0]


def gaps(language: str, tags: Iterable[str]) -> Iterator[str]:
    """What is missing for the notes of a language, a sentence each; ``tags`` are those of the bundle's names."""
    if language not in languages():
        yield "medlink has no rules for it: words are found as the bundle has them, and no status is read"
    held = sorted({base(tag) for tag in tags})
    if language not in held and "" not in held:
        yield f"the bundle has no names in it, only in {', '.join(held)}"


def check_words(language: str) -> None:
    """Refuse a language whose words are not parted by blanks."""
    if language in _NO_BLANKS:
        message = f"words of the language {language!r} are not parted by blanks, and medlink cannot tell them"
        raise ConfigError(
            message, remedy="give the notes to a spaCy pipeline of that language with medlink's components"
        )
