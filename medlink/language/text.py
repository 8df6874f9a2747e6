"""Pure string functions: the two forms under which names and mentions meet.

``normalise`` is the *exact* form: the same words in another typography (case, accents, ß, hyphens,
apostrophes, Greek letters, possessives) get the same string. ``match_form`` is the *inflected* form:
a plural or another case of the same words, a roman numeral and a digit, also get the same string.
Numbers survive both, so ``type 1`` never meets ``type 2``.

What depends on a language stands in ``resources/language/*.json`` with its source.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

import Stemmer

LANGUAGES = ("de", "en", "es")
"""Languages with rules of their own; any other language is handled by the common rules alone."""

_APOSTROPHE = "'\u2018\u2019\u201b\u02bc\u00b4\u0060\u2032\uff07"
_APOSTROPHES = re.compile(f"[{_APOSTROPHE}]")
_POSSESSIVE = re.compile(r"(?<=\w)'s\b|(?<=s)'(?!\w)")
_DECIMAL = re.compile(r"(?<=\d)[.,](?=\d)")
# '+' right behind a word is meaning ("CD4+", "HER2+"), every other mark only parts words.
_PLUS = re.compile(r"(?<=[^\W_])\+(?![^\W_])")
_MARKS = re.compile("[^\\w\\s\ue000\ue001]|_")
_SPELT = 5  # letters of the shortest word that may be written in another spelling
_SPACE = re.compile(r"\s+")
# Letters may be followed by combining marks (decomposed text) and by what no reader sees (soft hyphen, zero width).
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
_UNSEEN = re.compile(f"[{_INVISIBLE}]")
_LETTERS = rf"(?:[^\W_][\u0300-\u036f{_INVISIBLE}]*)+"
_WORD = re.compile(rf"\d+(?:[.,]\d+)+|{_LETTERS}(?:[{_APOSTROPHE}]{_LETTERS})*(?:\+(?![^\W_]))?")
_DIGIT_EDGE = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_ROMAN = re.compile(r"(?=[ivx])x{0,3}(?:ix|iv|v?i{0,3})")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_MAYBE_NUMBER = re.compile(r"\d|\b[ivx]+\b")


@dataclass(frozen=True, slots=True)
class LanguageRules:
    """Rules of one language, read from its data file."""

    language: str
    stemmer: str
    numeral_cues: frozenset[str]
    endings: tuple[tuple[re.Pattern[str], str], ...]
    inflections: frozenset[str]
    transcriptions: tuple[tuple[re.Pattern[str], str], ...]
    letters: frozenset[str]
    person_cues: frozenset[str]


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a text with its character offsets; in :func:`match_tokens` ``text`` is its inflected form."""

    start: int
    end: int
    text: str


@cache
def language_rules(language: str) -> LanguageRules | None:
    """Rules of ``language`` (BCP 47; a region is ignored), ``None`` where the house has none.

    >>> language_rules("es-MX").stemmer
    'spanish'
    >>> language_rules("fr") is None
    True
    """
    base = language.partition("-")[0].lower()
    if base not in LANGUAGES:
        return None
    raw = json.loads(resources.files("medlink").joinpath(f"resources/language/{base}.json").read_text("utf-8"))
    return LanguageRules(
        language=base,
        stemmer=raw["stemmer"]["value"],
        numeral_cues=frozenset(raw["numeral_cues"]["value"]),
        endings=tuple((re.compile(pattern), to) for pattern, to in raw["endings"]["value"]),
        inflections=frozenset(raw["inflections"]["value"]),
        transcriptions=tuple((re.compile(pattern), to) for pattern, to in raw["transcriptions"]["value"]),
        letters=frozenset(raw["letters"]["value"]),
        person_cues=frozenset(raw["person_cues"]["value"]),
    )


@cache
def _greek_names() -> dict[int, str]:
    """Greek letters to their Latin names, taken from the Unicode names themselves."""
    table: dict[int, str] = {}
    for code in range(0x370, 0x400):
        name = unicodedata.name(chr(code), "")
        found = re.fullmatch(r"GREEK (?:SMALL|CAPITAL) LETTER (?:FINAL )?([A-Z]+)(?: WITH .*)?", name)
        if found:
            # Unicode spells lambda without its b, as ISO 10646 does.
            table[code] = {"lamda": "lambda"}.get(found[1].lower(), found[1].lower())
    return table


@cache
def _marks_above() -> re.Pattern[str]:
    """All nonspacing marks (general category Mn) as one class: a pattern is ten times quicker than asking for each."""
    # the combining blocks of the basic plane up to kana, and the half marks
    marks = [c for c in (*range(0x300, 0x3100), *range(0xFE20, 0xFE30)) if unicodedata.category(chr(c)) == "Mn"]
    return re.compile("[" + "".join(map(chr, marks)) + "]+")


def _strip_accents(text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _marks_above().sub("", unicodedata.normalize("NFD", text)))


def normalise(text: str) -> str:
    """The exact form of a name: NFKC, case folded, without accents, hyphens, apostrophes and possessives.

    Greek letters become their names, ß becomes ss, a decimal comma becomes a point. The form does not
    depend on the language, so that a name is found before its language is known.

    >>> normalise("Crohn’s disease"), normalise("Graves' Disease")
    ('crohn disease', 'graves disease')
    >>> normalise("α-Thalassämie"), normalise("Gefäßverschluß"), normalise("1,25-Dihydroxy")
    ('alpha thalassamie', 'gefassverschluss', '1.25 dihydroxy')
    >>> normalise("CD4+ T-Zellen"), normalise("Síndrome de Sjögren")
    ('cd4+ t zellen', 'sindrome de sjogren')
    """
    text = unicodedata.normalize("NFKC", text)
    if not text.isascii():
        text = _UNSEEN.sub("", text)
        text = text.translate(_greek_names())
        text = _APOSTROPHES.sub("'", text)
    text = text.casefold()
    if "'" in text:
        text = _POSSESSIVE.sub("", text).replace("'", "")
    text = _PLUS.sub("\ue000", _DECIMAL.sub("\ue001", text))
    text = _MARKS.sub(" ", _strip_accents(text))
    return _SPACE.sub(" ", text).strip().replace("\ue000", "+").replace("\ue001", ".")


def words(text: str) -> list[Token]:
    """Words of a running text with offsets; hyphens, slashes and punctuation part them.

    >>> [(t.start, t.text) for t in words("Typ-2-Diabetes, Crohn's")]
    [(0, 'Typ'), (4, '2'), (6, 'Diabetes'), (16, "Crohn's")]
    """
    return [Token(found.start(), found.end(), found[0]) for found in _WORD.finditer(text)]


def variants(text: str, language: str | None = None) -> list[str]:
    """Exact forms under which a name may also be written (``transcriptions`` of the language's data file).

    The plain form comes first. With ``language=None`` the variants of every language are given.

    >>> variants("Krampfanfaelle", "de")
    ['krampfanfaelle', 'krampfanfalle']
    """
    plain = normalise(text)
    found = [plain]
    for tag in LANGUAGES if language is None else (language,):
        rules = language_rules(tag)
        other = " ".join(_plain_spelling(word, rules) for word in plain.split())
        if other not in found:
            found.append(other)
    return found


def _roman_value(word: str) -> str | None:
    """Arabic digits of a roman numeral up to 39 in lower case, ``None`` for any other word."""
    if not _ROMAN.fullmatch(word):
        return None
    values = {"i": 1, "v": 5, "x": 10}
    numbers = [values[letter] for letter in word]
    return str(sum(-n if n < m else n for n, m in zip(numbers, [*numbers[1:], 0], strict=True)))


@lru_cache(maxsize=8)
def _stemmer(name: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(name)


@lru_cache(maxsize=262_144)
def _stem(word: str, language: str) -> str:
    rules = language_rules(language)
    if rules is None or len(word) < 4 or not word.isalpha():
        return word
    word = _plain_spelling(word, rules)
    for pattern, to in rules.endings:
        word = pattern.sub(to, word)
    return _strip_accents(str(_stemmer(rules.stemmer).stemWord(word)))


@lru_cache(maxsize=262_144)
def _parts(word: str) -> tuple[str, ...]:
    """Normalised parts of one word, letters and digits parted; a decimal number stays whole."""
    found: list[str] = []
    for part in normalise(word).split():
        found += (part,) if part.isalpha() or _NUMBER.fullmatch(part) else _DIGIT_EDGE.sub(" ", part).split()
    return tuple(found)


def match_tokens(text: str, language: str) -> list[Token]:
    """The inflected form of a running text, word by word, with the offsets each comes from.

    Letters and digits are parted (``T2`` is ``t 2``), roman numerals become digits: of two and more letters
    everywhere, a single I, V or X only after a word such as *type* or *Stadium* (``numeral_cues``), because
    vitamin C and factor X are names. Words of four and more letters are stemmed (Snowball).

    >>> [(t.start, t.end, t.text) for t in match_tokens("Typ-II-Diabetes", "de")]
    [(0, 3, 'typ'), (4, 6, '2'), (7, 15, 'diabet')]
    """
    rules = language_rules(language)
    cues = rules.numeral_cues if rules else frozenset()
    out: list[Token] = []
    previous = ""
    for token in words(text):
        for part in _parts(token.text):
            roman = _roman_value(part)
            form = roman if roman and (len(part) > 1 or previous in cues) else _stem(part, language)
            out.append(Token(token.start, token.end, form))
            previous = part
    return out


def match_words(text: str, language: str) -> list[str]:
    """The inflected form of ``text``, word by word (:func:`match_tokens` without offsets).

    >>> match_words("Infecciones respiratorias", "es") == match_words("infección respiratoria", "es")
    True
    >>> match_words("Diabetes mellitus Typ II", "de") == match_words("diabetes mellitus typ 2", "de")
    True
    >>> match_words("Typ 1", "de") == match_words("Typ 2", "de")
    False
    """
    return [token.text for token in match_tokens(text, language)]


def match_form(text: str, language: str) -> str:
    """``match_words`` as one string.

    >>> match_form("Nierenzysten", "de")
    'nierenzyst'
    """
    return " ".join(match_words(text, language))


def _plain_spelling(word: str, rules: LanguageRules | None) -> str:
    """A word in one of the spellings its language has for it (German: umlauts written out, c for k and z, ph for f)."""
    if rules is None or len(word) < _SPELT:  # LAE is no other spelling of LA
        return word
    for pattern, to in rules.transcriptions:
        word = pattern.sub(to, word)
    return word


def is_inflection(one: str, other: str, language: str) -> bool:
    """Whether two strings with the same inflected form differ by inflection alone.

    A stemmer also joins a noun with the adjectives and verbs made from it (*pain* and *painful*, *general* and
    *generalized*). Here every pair of words must be the same up to an ending of the language's inflection
    (``inflections`` of its data file, compared without accents), or the same number.

    >>> is_inflection("Nierenzysten", "Nierenzyste", "de"), is_inflection("painful", "pain", "en")
    (True, False)
    >>> is_inflection("derechos", "derecha", "es"), is_inflection("Typ II", "Typ 2", "de")
    (True, True)
    """
    rules = language_rules(language)
    endings = rules.inflections if rules else frozenset({""})
    words_one, words_other = ([p for t in words(text) for p in _parts(t.text)] for text in (one, other))
    if len(words_one) != len(words_other):
        return False
    for a, b in zip(words_one, words_other, strict=True):
        if a != b and (_roman_value(a) or a) != (_roman_value(b) or b):
            left, right = _plain_spelling(a, rules), _plain_spelling(b, rules)
            shared = next(
                (i for i, (c, d) in enumerate(zip(left, right, strict=False)) if c != d), min(len(left), len(right))
            )
            # an ending may begin inside the shared part: zystE and zystEN share the e of the ending
            if not any(left[i:] in endings and right[i:] in endings for i in range(max(3, shared - 2), shared + 1)):
                return False
    return True


def same_letters(one: str, other: str, language: str) -> bool:
    """Whether two strings have the same letters that a language counts apart though the exact form folds them.

    >>> same_letters("una pequeña", "Uña pequeña", "es"), same_letters("niño", "NIÑO", "es")
    (False, True)
    """
    rules = language_rules(language)
    folded = [unicodedata.normalize("NFC", text).casefold() for text in (one, other)]
    return all(folded[0].count(c) == folded[1].count(c) for c in (rules.letters if rules else ()))


def may_speak_of_numbers(norm: str) -> bool:
    """Whether an exact form has a digit or a word that looks like a roman numeral: quicker than :func:`numerals`.

    >>> may_speak_of_numbers("cin 3"), may_speak_of_numbers("factor viii"), may_speak_of_numbers("anemia")
    (True, True, False)
    """
    return _MAYBE_NUMBER.search(norm) is not None


def numerals(text: str, language: str = "") -> frozenset[str]:
    """The numbers a text speaks of, roman ones as digits: what must agree between a mention and a name.

    >>> sorted(numerals("Glycogen storage disease type II")), sorted(numerals("CIN 3"))
    (['2'], ['3'])
    """
    return frozenset(word for word in match_words(text, language or "en") if _NUMBER.fullmatch(word))
