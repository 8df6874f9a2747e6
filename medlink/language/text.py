"""The two forms under which names and mentions meet.

``normalise`` is the *exact* form: the same words in another typography (case, accents, ß, hyphens, apostrophes, Greek
letters, possessives) get the same string. :meth:`Inflector.form` is the *inflected* form: a plural or another case of
the same words, a roman numeral and a digit, also get the same string. Numbers survive both, so ``type 1`` never meets
``type 2``. The exact form does not depend on the language; the inflected form does, by ``forms.json`` and
``articles.json``. Nothing here remembers a text but an :class:`Inflector`.
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
# what no reader sees: soft hyphen, zero width
INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
_UNSEEN = re.compile(f"[{INVISIBLE}]")
_POSSESSIVE = re.compile(r"'(?:(?<=\w')s\b|(?<=s')(?!\w))")
# Marks that are meaning: decimal points and commas, and '+' right behind a word ("CD4+", "HER2+"). In a folded text a
# capital can stand for each, and a pattern that begins with its mark is searched fast.
_MEANT = (
    (re.compile(r"\.(?<=\d\.)(?=\d)"), "D"),
    (re.compile(r",(?<=\d,)(?=\d)"), "D"),
    (re.compile(r"\+(?<=[^\W_]\+)(?![^\W_])"), "P"),
)
_MARKS = re.compile(r"[^\w\s]|_")
_ASCII_MARKS = {code: " " for code in range(128) if not chr(code).isalnum() and chr(code) != "\n"}
_SPELT = 5  # letters of the shortest word that may be written in another spelling
_LATIN_END = 0x250  # behind Latin Extended-B
_STEMMED = 4  # letters of the shortest word that is stemmed
_MOST = 262_144  # words whose forms an inflector remembers
# letters may be followed by combining marks (decomposed text) and by what no reader sees
_LETTERS = rf"(?:[^\W_][\u0300-\u036f{INVISIBLE}]*)+"
_WORD = re.compile(rf"\d+(?:[.,]\d+)+|{_LETTERS}(?:[{APOSTROPHE}]{_LETTERS})*(?:\+(?![^\W_]))?")
_DIGIT_EDGE = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SHORT = re.compile(r"[^\W\d_](?=\w*[^\W\d_])[\w-]{1,9}")
_MAYBE_NUMBER = re.compile(r"\d|\b[ivx]+\b")


ROMAN = {
    tens + ones: str(10 * len(tens) + value)
    for tens in ("", "x", "xx", "xxx")
    for value, ones in enumerate(("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"))
    if tens + ones
}
"""Arabic digits of the roman numerals up to 39, in the exact form."""


class Token(NamedTuple):
    """A word of a text with its character offsets; :meth:`Inflector.tokens` gives its inflected form as ``text``."""

    start: int
    end: int
    text: str


@cache
def greek_names() -> dict[int, str]:
    """Greek letters to their Latin names, taken from the Unicode names themselves."""
    names = {code: unicodedata.name(chr(code), "") for code in range(0x370, 0x400)}
    letter = re.compile(r"GREEK (?:SMALL|CAPITAL) LETTER (?:FINAL )?([A-Z]+)(?: WITH .*)?")
    # Unicode spells lambda without its b, as ISO 10646 does.
    return {c: found[1].lower().replace("lamda", "lambda") for c, n in names.items() if (found := letter.fullmatch(n))}


@cache
def _marks_above() -> re.Pattern[str]:
    """All nonspacing marks (general category Mn) as one class: a pattern is ten times quicker than asking for each."""
    # the combining blocks of the basic plane up to kana, and the half marks
    marks = [c for c in (*range(0x300, 0x3100), *range(0xFE20, 0xFE30)) if unicodedata.category(chr(c)) == "Mn"]
    return re.compile("[" + "".join(map(chr, marks)) + "]+")


def strip_accents(text: str) -> str:
    """A text without the marks above and below its letters (``é`` is ``e``)."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _marks_above().sub("", unicodedata.normalize("NFD", text)))


def normalise(text: str) -> str:
    """The exact form of a name: NFKC, case folded, without accents, hyphens, apostrophes and possessives.

    Greek letters become their names, ß becomes ss, a decimal comma becomes a point.
    """
    text = unicodedata.normalize("NFKC", text)
    if not text.isascii():
        text = _APOSTROPHES.sub("'", _UNSEEN.sub("", text).translate(greek_names()))
    return " ".join(without_marks(text).split())


def without_marks(text: str) -> str:
    """A text of the letters of exact forms, case folded, with blanks for its marks but for those that are meaning."""
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
    """A name letter by letter, in lower case: ä is not a, and ñ is not n."""
    return unicodedata.normalize("NFC", text).lower().strip()


@lru_cache(maxsize=64)
def elision(data: Language) -> re.Pattern[str] | None:
    """What an apostrophe cuts off before a word; ``None`` where a language has no elision."""
    if not data.articles.elision:
        return None
    return re.compile(f"(?:{'|'.join(map(re.escape, data.articles.elision))})[{APOSTROPHE}]", re.IGNORECASE)


def _words(text: str, elided: re.Pattern[str] | None) -> list[tuple[int, int, str]]:
    # plain tuples: of each word of each note, several times
    if elided is None:
        return [(*found.span(), found[0]) for found in _WORD.finditer(text)]
    words = []
    for found in _WORD.finditer(text):
        cut = elided.match(found[0])
        start = cut.end() if cut else 0
        words.append((found.start() + start, found.end(), found[0][start:]))
    return words


@cache
def _latin() -> dict[int, str]:
    """Exact forms of the Latin letters beyond ASCII, but for those that stand for a letter and a mark (Ŀ, ŉ)."""
    letters = (chr(code) for code in range(0xAA, _LATIN_END))
    whole = (c for c in letters if all(d.isalpha() and ord(d) < _LATIN_END for d in unicodedata.normalize("NFKC", c)))
    return {ord(letter): normalise(letter) for letter in whole}


def _parts(word: str) -> list[str]:
    # a letter alone has the form that it has in a word: most words need no more than that
    plain = word if word.isascii() else word.translate(_latin())
    if plain.isascii() and plain.isalpha() and word.isalpha():
        return [plain.lower()]
    found: list[str] = []
    for part in normalise(word).split():
        found += (part,) if part.isalpha() or _NUMBER.fullmatch(part) else _DIGIT_EDGE.sub(" ", part).split()
    return found


def _all_parts(text: str, data: Language) -> list[str]:
    return [part for _, _, word in _words(text, elision(data)) for part in _parts(word)]


def exact_words(text: str, language: str) -> list[Token]:
    """The words of a running text in their exact form, as :func:`normalise` parts them, without what is elided."""
    found = _words(text, elision(language_data(language)))
    return [Token(start, end, part) for start, end, word in found for part in normalise(word).split()]


class _Spelling:
    """Spelling and stems of one language; it remembers no word, and neither does its stemmer."""

    def __init__(self, data: Language) -> None:
        forms = data.forms
        self._stemmer = Stemmer.Stemmer(forms.stemmer, 0) if forms.stemmer else None
        self._transcribe, self._mend = _replacer(forms.transcriptions), _replacer(forms.endings)

    def plain(self, word: str) -> str:
        # LAE is no other spelling of LA
        return self._transcribe(word) if len(word) >= _SPELT else word

    def stem(self, word: str) -> str:
        if self._stemmer is None or len(word) < _STEMMED or not word.isalpha():
            return word
        return strip_accents(str(self._stemmer.stemWord(self._mend(self.plain(word)))))


def _replacer(pairs: Sequence[tuple[re.Pattern[str], str]]) -> Callable[[str], str]:
    """What puts the second of each pair in place of the first, one after the other."""
    some = any_of(pattern for pattern, _ in pairs)  # most words have nothing to mend

    def replaced(word: str) -> str:
        if some.search(word):
            for pattern, to in pairs:
                word = pattern.sub(to, word)
        return word

    return replaced


_spelling = lru_cache(maxsize=64)(_Spelling)


class Inflector:
    """Inflected forms of texts of one language (BCP 47); one without a folder has the rules that all have in common.

    It keeps the forms of the words that it met for as long as it lives, so that texts of a clinic leave nothing behind
    once it is dropped. ``formed`` gives the parts of a word, each with its form, and its form behind a cue of numerals
    if that differs.
    """

    def __init__(self, language: str) -> None:
        data = language_data(language)
        self.numeral_cues = data.forms.numeral_cues
        self._elided = elision(data)
        self._stem = _spelling(data).stem
        self.formed = lru_cache(_MOST)(self._formed)

    def tokens(self, text: str) -> list[Token]:
        """The inflected form of a running text, word by word, with the offsets each comes from.

        Letters and digits are parted (``T2`` is ``t 2``), roman numerals become digits: of two and more letters
        everywhere, a single I, V or X only after a word such as *type* or *Stadium* (``numeral_cues``), because
        vitamin C and factor X are names. Words of four and more letters are stemmed (Snowball).
        """
        return [Token(*one) for one in self._read(text)]

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
        """The inflected form of a text, word by word."""
        return [form for _, _, form in self._read(text)]

    def form(self, text: str) -> str:
        """The inflected form of a text as one string."""
        return " ".join(self.words(text))

    def word(self, word: str) -> str:
        """The inflected form of a single word in its exact form: :meth:`form`, and quicker; it is not remembered."""
        if not (word.isascii() and word.isalpha()):
            return self.form(word)
        return ROMAN[word] if len(word) > 1 and word in ROMAN else self._stem(word)

    def gap(self, between: str) -> str:
        """What stands between two words of a text, without what elision left there."""
        return between if self._elided is None else self._elided.sub("", between)


def variants(text: str, language: str | None = None) -> list[str]:
    """Exact forms under which a name may be written (``transcriptions`` of the language, or of all), plain first."""
    plain = normalise(text)
    spellings = [_spelling(language_data(tag)) for tag in (languages() if language is None else (language,))]
    others = (" ".join(map(spelling.plain, plain.split())) for spelling in spellings)
    return list(dict.fromkeys([plain, *others]))


def is_inflection(one: str, other: str, language: str) -> bool:
    """Whether two strings with the same inflected form differ by inflection alone.

    A stemmer also joins a noun with the adjectives and verbs made from it (*pain* and *painful*). Here every pair of
    words must be the same up to one of the ``inflections`` of the language (without accents), or the same number.
    """
    data = language_data(language)
    endings, spelling = data.forms.inflections, _spelling(data)
    words_one, words_other = _all_parts(one, data), _all_parts(other, data)
    if len(words_one) != len(words_other):
        return False
    for a, b in zip(words_one, words_other, strict=True):
        if a != b and ROMAN.get(a, a) != ROMAN.get(b, b):
            left, right = spelling.plain(a), spelling.plain(b)
            differ = (i for i, (c, d) in enumerate(zip(left, right, strict=False)) if c != d)
            shared = next(differ, min(len(left), len(right)))
            # an ending may begin inside the shared part: zystE and zystEN share the e of the ending
            if not any(left[i:] in endings and right[i:] in endings for i in range(max(3, shared - 2), shared + 1)):
                return False
    return True


def same_letters(one: str, other: str, language: str) -> bool:
    """Whether two strings have the same letters that a language counts apart though the exact form folds them."""
    folded = [unicodedata.normalize("NFC", text).casefold() for text in (one, other)]
    return all(folded[0].count(letter) == folded[1].count(letter) for letter in language_data(language).forms.letters)


def may_speak_of_numbers(norm: str) -> bool:
    """Whether an exact form has a digit or a word that looks like a roman numeral: quicker than :func:`numerals`."""
    return _MAYBE_NUMBER.search(norm) is not None


def numerals(text: str, language: str = "") -> frozenset[str]:
    """The numbers a text speaks of, roman ones as digits: what must agree between a mention and a name."""
    data = language_data(language or "en")
    found, previous = set[str](), ""
    for part in _all_parts(text, data):
        number = ROMAN.get(part) if len(part) > 1 or previous in data.forms.numeral_cues else None
        if number is not None or _NUMBER.fullmatch(part):
            found.add(number or part)
        previous = part
    return frozenset(found)
