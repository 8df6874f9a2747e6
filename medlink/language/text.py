"""Compute the exact and the inflected form of names and mentions, for comparison.

:func:`normalise` gives the *exact* form, which ignores typography (case, accents, ß, hyphens, apostrophes, Greek
letters, possessives). :meth:`Inflector.form` gives the *inflected* form, which also ignores number and case of words,
and whether a numeral is roman. Both forms keep numbers: ``type 1`` never equals ``type 2``. Only the inflected form
depends on the language (``forms.json``, ``articles.json``), and only an :class:`Inflector` caches text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import Stemmer

from medlink.language.languages import Language, any_of, language_data, languages

APOSTROPHE = "'\u2018\u2019\u201b\u02bc\u00b4\u0060\u2032\uff07"
_APOSTROPHES = re.compile(f"[{APOSTROPHE}]")
# soft hyphen and characters of zero width
INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
_UNSEEN = re.compile(f"[{INVISIBLE}]")
_POSSESSIVE = re.compile(r"'(?:(?<=\w')s\b|(?<=s')(?!\w))")
# Marks with a meaning: decimal points and commas, and '+' right behind a word ("CD4+", "HER2+"). A capital replaces
# them, which no case-folded text has. A pattern that begins with its mark is searched fast.
_MEANT = (
    (re.compile(r"\.(?<=\d\.)(?=\d)"), "D"),
    (re.compile(r",(?<=\d,)(?=\d)"), "D"),
    (re.compile(r"\+(?<=[^\W_]\+)(?![^\W_])"), "P"),
)
_MARKS = re.compile(r"[^\w\s]|_")
_ASCII_MARKS = {code: " " for code in range(128) if not chr(code).isalnum() and chr(code) != "\n"}
_SPELT = 5  # letters of the shortest word with another spelling
_STEMMED = 4  # letters of the shortest word that is stemmed
_CACHED = 262_144  # words of an inflector
# combining marks (decomposed text) and invisible characters may follow a letter
_LETTERS = rf"(?:[^\W_][\u0300-\u036f{INVISIBLE}]*)+"
_WORD = re.compile(rf"\d+(?:[.,]\d+)+|{_LETTERS}(?:[{APOSTROPHE}]{_LETTERS})*(?:\+(?![^\W_]))?")
_DIGIT_EDGE = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SHORT = re.compile(r"[^\W\d_](?=\w*[^\W\d_])[\w-]{1,9}")
_MAYBE_NUMBER = re.compile(r"\d|\b[ivx]+\b")
_MAYBE_CUED = re.compile(r"\.|\b[ivx](?![^\W\d])")  # or a decimal point, which the text may not have


ROMAN = {
    tens + ones: str(10 * len(tens) + value)
    for tens in ("", "x", "xx", "xxx")
    for value, ones in enumerate(("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"))
    if tens + ones
}
"""Digits of the roman numerals up to 39, in the exact form."""


class Token(NamedTuple):
    """A word of a text with its character offsets; ``text`` is its exact or inflected form."""

    start: int
    end: int
    text: str


@cache
def greek_names() -> dict[int, str]:
    """Return the Latin names of the Greek letters, from their Unicode names."""
    names = {code: unicodedata.name(chr(code), "") for code in range(0x370, 0x400)}
    letter = re.compile(r"GREEK (?:SMALL|CAPITAL) LETTER (?:FINAL )?([A-Z]+)(?: WITH .*)?")
    # Unicode, like ISO 10646, spells lambda without its b
    return {c: match[1].lower().replace("lamda", "lambda") for c, n in names.items() if (match := letter.fullmatch(n))}


@cache
def _marks_above() -> re.Pattern[str]:
    """All nonspacing marks (general category Mn) as one class: ten times faster than testing each character."""
    # the combining blocks of the basic plane up to kana, and the half marks
    marks = [c for c in (*range(0x300, 0x3100), *range(0xFE20, 0xFE30)) if unicodedata.category(chr(c)) == "Mn"]
    return re.compile("[" + "".join(map(chr, marks)) + "]+")


def strip_accents(text: str) -> str:
    """Remove the marks above and below letters (``é`` becomes ``e``)."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _marks_above().sub("", unicodedata.normalize("NFD", text)))


def normalise(text: str) -> str:
    """Return the exact form of a name: NFKC, case folded, without accents, hyphens, apostrophes and possessives.

    Greek letters become names, ß becomes ss, a decimal comma becomes a point.
    """
    text = unicodedata.normalize("NFKC", text)
    if not text.isascii():
        text = _APOSTROPHES.sub("'", _UNSEEN.sub("", text).translate(greek_names()))
    return " ".join(without_marks(text).split())


def without_marks(text: str) -> str:
    """Case-fold a transliterated text, and replace punctuation marks by blanks unless they have a meaning."""
    text = text.casefold()
    if "'" in text:
        text = _POSSESSIVE.sub("", text).replace("'", "")
    for mark, stand_in in _MEANT:
        text = mark.sub(stand_in, text)
    text = text.translate(_ASCII_MARKS) if text.isascii() else _MARKS.sub(" ", strip_accents(text))
    return text.replace("D", ".").replace("P", "+")


def is_short(text: str) -> bool:
    """Whether a term looks like an abbreviation: one word of two to ten characters with two capitals or more."""
    return bool(_SHORT.fullmatch(text)) and sum(letter.isupper() for letter in text) > 1


def spelling(text: str) -> str:
    """Return the spelling of a name in lower case; accents stay, so ä differs from a."""
    return unicodedata.normalize("NFC", text).lower().strip()


@lru_cache(maxsize=64)
def elision(data: Language) -> re.Pattern[str] | None:
    """Return the pattern of an elided word and its apostrophe; ``None`` for a language without elision."""
    words = "|".join(map(re.escape, data.articles.elision))
    return re.compile(f"(?:{words})[{APOSTROPHE}]", re.IGNORECASE) if words else None


def _words(text: str, elided: re.Pattern[str] | None) -> list[tuple[int, int, str]]:
    # tuples: this runs several times for each word of each note
    if elided is None:
        return [(*match.span(), match[0]) for match in _WORD.finditer(text)]
    words = []
    for match in _WORD.finditer(text):
        cut = elided.match(match[0])
        start = cut.end() if cut else 0
        words.append((match.start() + start, match.end(), match[0][start:]))
    return words


class _Transliterations(dict[int, str]):
    """ASCII spellings by code point; possessives, numbers and marks are handled later."""

    def __missing__(self, code: int) -> str:
        form = self[code] = _transliterate(chr(code))
        return form


transliterations = _Transliterations()


def _transliterate(letter: str) -> str:
    """The ASCII spelling of a character, or itself where the spelling depends on its neighbours."""
    if letter.isascii():
        return letter
    if letter in INVISIBLE:
        return ""
    form = unicodedata.normalize("NFKC", letter)
    if letter in APOSTROPHE and form in APOSTROPHE:
        return "'"
    folded = "".join(greek_names().get(ord(part), part) for part in form).casefold()
    bare = strip_accents(folded)
    # a grave accent is an apostrophe in a text beyond ASCII; a mark that remains alone is not the end of a word
    parts = letter + form + folded + bare
    joins = "`" in form or any(unicodedata.category(part)[0] == "M" or unicodedata.combining(part) for part in parts)
    return letter if joins or not bare.isascii() else bare


def _parts(word: str) -> list[str]:
    # for most words the exact form is that of each letter
    plain = word if word.isascii() else word.translate(transliterations)
    if plain.isascii() and plain.isalpha() and word.isalpha():
        return [plain.lower()]
    parts: list[str] = []
    for part in normalise(word).split():
        parts += (part,) if part.isalpha() or _NUMBER.fullmatch(part) else _DIGIT_EDGE.sub(" ", part).split()
    return parts


def _all_parts(text: str, data: Language) -> list[str]:
    return [part for _, _, word in _words(text, elision(data)) for part in _parts(word)]


def exact_words(text: str, language: str) -> list[Token]:
    """Return the words of a running text in exact form, split as :func:`normalise` does, without elided words."""
    words = _words(text, elision(language_data(language)))
    return [Token(start, end, part) for start, end, word in words for part in normalise(word).split()]


class _Spelling:
    """Spelling and stems of one language, without a cache."""

    def __init__(self, data: Language) -> None:
        forms = data.forms
        self._stemmer = Stemmer.Stemmer(forms.stemmer, 0) if forms.stemmer else None
        self._transcribe, self._mend = _replacer(forms.transcriptions), _replacer(forms.endings)

    def plain(self, word: str) -> str:
        # LAE is not another spelling of LA with an umlaut
        return self._transcribe(word) if len(word) >= _SPELT else word

    def stem(self, word: str) -> str:
        if self._stemmer is None or len(word) < _STEMMED or not word.isalpha():
            return word
        return strip_accents(str(self._stemmer.stemWord(self._mend(self.plain(word)))))


def _replacer(pairs: Sequence[tuple[re.Pattern[str], str]]) -> Callable[[str], str]:
    """A function that applies pairs of a pattern and its replacement, one after the other."""
    any_pattern = any_of(pattern for pattern, _ in pairs)  # most words match none

    def replace(word: str) -> str:
        if any_pattern.search(word):
            for pattern, to in pairs:
                word = pattern.sub(to, word)
        return word

    return replace


_spelling = lru_cache(maxsize=64)(_Spelling)


class Inflector:
    """Compute inflected forms in one language (BCP 47); a language without a folder has the common rules.

    Words are cached during the lifetime of the inflector only, because they may come from notes. ``formed``
    gives, for each part of a word, its exact form, its inflected form, and its form after a numeral cue if different.
    """

    def __init__(self, language: str) -> None:
        data = language_data(language)
        self.numeral_cues = data.forms.numeral_cues
        self._elided = elision(data)
        self._stem = _spelling(data).stem
        self.formed, self._cached_word = lru_cache(_CACHED)(self._formed), lru_cache(_CACHED)(self.word)

    def tokens(self, text: str) -> list[Token]:
        """Return the inflected form of a running text, word by word, with offsets.

        Letters and digits are separated (``T2`` is ``t 2``). Roman numerals become digits; a single I, V or X does so
        only after a word such as *type* or *Stadium* (``numeral_cues``), because vitamin C and factor X are names.
        Words of four and more letters are stemmed (Snowball).
        """
        return [Token(*token) for token in self._read(text)]

    def _read(self, text: str) -> Iterator[tuple[int, int, str]]:
        cues, previous = self.numeral_cues, ""
        for start, end, word in _words(text, self._elided):
            for part, form, numeral in self.formed(word):
                yield start, end, form if numeral is None or previous not in cues else numeral
                previous = part

    def _formed(self, word: str) -> tuple[tuple[str, str, str | None], ...]:
        numerals = [(part, ROMAN.get(part)) for part in _parts(word)]
        return tuple(
            (part, numeral, None) if numeral and len(part) > 1 else (part, self._stem(part), numeral)
            for part, numeral in numerals
        )

    def words(self, text: str) -> list[str]:
        return [form for _, _, form in self._read(text)]

    def form(self, text: str) -> str:
        return " ".join(self.words(text))

    def forms(self, texts: Sequence[str], norms: Sequence[str]) -> list[str]:
        """Compute ``[self.form(text) for text in texts]``, several times as fast, given their exact forms."""
        if self._elided is not None:
            return list(map(self.form, texts))
        return [
            self.form(text) if _MAYBE_CUED.search(norm) else " ".join(map(self._cached_word, norm.split()))
            for text, norm in zip(texts, norms, strict=True)
        ]

    def word(self, word: str) -> str:
        """Return the inflected form of a word given in its exact form, like :meth:`form`, but faster and uncached."""
        if not (word.isascii() and word.isalpha()):
            return self.form(word)
        return ROMAN[word] if len(word) > 1 and word in ROMAN else self._stem(word)

    def gap(self, between: str) -> str:
        """Return the text between two words, with any elided word removed."""
        return between if self._elided is None else self._elided.sub("", between)


def variants(text: str, language: str | None = None) -> list[str]:
    """Return the exact forms of a name and of its other spellings in the language, or in all languages."""
    plain = normalise(text)
    spellings = [_spelling(language_data(tag)) for tag in (languages() if language is None else (language,))]
    others = (" ".join(map(spelling.plain, plain.split())) for spelling in spellings)
    return list(dict.fromkeys([plain, *others]))


def is_inflection(first: str, second: str, language: str) -> bool:
    """Return whether two strings with the same inflected form differ only by inflection.

    A stemmer gives a noun and its derived adjectives and verbs the same stem (*pain*, *painful*). Here, each pair of
    words must differ only by an ending in ``inflections`` of the language (without accents), or be the same number.
    """
    data = language_data(language)
    endings, spelling = data.forms.inflections, _spelling(data)
    first_words, second_words = _all_parts(first, data), _all_parts(second, data)
    if len(first_words) != len(second_words):
        return False
    for a, b in zip(first_words, second_words, strict=True):
        if a != b and ROMAN.get(a, a) != ROMAN.get(b, b):
            left, right = spelling.plain(a), spelling.plain(b)
            differ = (i for i, (c, d) in enumerate(zip(left, right, strict=False)) if c != d)
            shared = next(differ, min(len(left), len(right)))
            # zystE and zystEN share the e of the ending
            if not any(left[i:] in endings and right[i:] in endings for i in range(max(3, shared - 2), shared + 1)):
                return False
    return True


def same_letters(first: str, second: str, language: str) -> bool:
    """Whether two strings agree in the ``letters`` of a language, which the exact form folds."""
    folded = [unicodedata.normalize("NFC", text).casefold() for text in (first, second)]
    return all(folded[0].count(letter) == folded[1].count(letter) for letter in language_data(language).forms.letters)


def has_number(norm: str) -> bool:
    """Whether an exact form has a digit, or seems to have a roman numeral; faster than :func:`numerals`."""
    return _MAYBE_NUMBER.search(norm) is not None


def numerals(text: str, language: str = "") -> frozenset[str]:
    """Return the numbers in a text, roman numerals as digits; a mention and its name must have the same numbers."""
    data = language_data(language or "en")
    numbers, previous = set[str](), ""
    for part in _all_parts(text, data):
        number = ROMAN.get(part) if len(part) > 1 or previous in data.forms.numeral_cues else None
        if number is not None or _NUMBER.fullmatch(part):
            numbers.add(number or part)
        previous = part
    return frozenset(numbers)
