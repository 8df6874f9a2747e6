"""Which language a note has, and what reads each language."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex, get_lang_class

from medlink.errors import ConfigError
from medlink.language.languages import languages
from medlink.language.tags import base
from medlink.linking.options import known_tag
from medlink.notes.reading import Note

# Punctuation and symbols of every script up to kana, and what word processors write for a bullet. A dot at an end is
# for spaCy, which knows abbreviations, and so is an apostrophe, which may be of a word ("Crohn's").
_MARKS = [c for c in map(chr, range(0x3100)) if unicodedata.category(c)[0] in "PS" and c not in ".'’‘"]
_MARK = f"[\ue000-\uf8ff{re.escape(''.join(_MARKS))}]"
# beside another mark an apostrophe is of no word
_RUN = rf"['’‘]*(?:(?:{_MARK}|\.)['’‘]*)+"
_GLUED = rf"(?<=[^\W\d]){_RUN}(?=\w)|(?<=\w){_RUN}(?=[^\W\d])|(?<=[.,:;])(?=[^\W\d])"
_ENOUGH = 10_000  # characters that tell a language


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
        """The likeliest language; the first of them for no words at all."""
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
    """Refuse a language that spaCy does not know, or whose words it cuts with a tokeniser of its own."""
    try:
        kind = get_lang_class(language)
    except ImportError as error:
        message = f"spaCy has no tokeniser for the language {language!r}"
        raise ConfigError(message, remedy="give a BCP 47 tag such as de, en or es") from error
    if kind.default_config["nlp"]["tokenizer"]["@tokenizers"] != "spacy.Tokenizer.v1":
        message = f"the language {language!r} has a tokeniser of its own, which medlink does not know"
        remedy = "give the notes to a spaCy pipeline of that language with medlink's components"
        raise ConfigError(message, remedy=remedy)


def blank(language: str) -> Language:
    """spaCy's blank pipeline of a language, with its tokeniser parting glued words too.

    Notes lose blanks behind punctuation ("dose.,ALLERGIES"), put marks before words ("-Nierenzyste"), and have tables
    and markup in them ("Fieber|Husten", "<b>Fieber</b>") and signs ("Fieber+", "Fieber(-)"); a mention must not
    take the marks with it.
    """
    check_words(language)
    nlp = spacy.blank(language)
    tokenizer: Any = nlp.tokenizer
    nlp.tokenizer = Tokenizer(
        nlp.vocab,
        # made anew: every pattern that is set on a tokeniser has it read thousands of exceptions again
        rules=tokenizer.rules,
        infix_finditer=compile_infix_regex([*(nlp.Defaults.infixes or ()), _GLUED]).finditer,
        prefix_search=compile_prefix_regex([*(nlp.Defaults.prefixes or ()), _MARK]).search,
        suffix_search=compile_suffix_regex([*(nlp.Defaults.suffixes or ()), _MARK]).search,
        token_match=tokenizer.token_match,
        # "pain.nan" is no address
        url_match=None,
    )
    return nlp
