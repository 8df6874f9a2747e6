"""The exact forms of many names at once, and the markers of one.

:func:`normalise_all` gives what :func:`~medlink.language.text.normalise` gives for each name. All names are worked on
as one text. It is first spelt out letter by letter (``ü`` is ``u``, ``ß`` is ``ss``, a dash is a blank). What is then
no plain ASCII, or depends on the letters around it, is normalised by itself.

Markers are the numbers, roman numerals and single letters that tell names apart which are alike otherwise. "Type 1
diabetes" and "type 2 diabetes" share nearly all n-grams. The static encoder therefore gives the markers of a name a
part of its embedding that does not shrink with the length of the name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

from medlink.language.languages import shipped_languages
from medlink.language.text import APOSTROPHE, INVISIBLE, ROMAN, greek_names, normalise, strip_accents, without_marks

# an s before which an apostrophe makes no possessive: it is none before its accent goes
_MARKED_S = re.compile(f"[{APOSTROPHE}][{INVISIBLE}]*[ŚśŜŝŞşŠšȘșṠṡṢṣṤṥṦṧṨṩẛ]")
# Digits, and a letter that stands alone beside them: "b12", "2c", "4q26"; not the letters of "chmp2".
_BESIDE_DIGITS = re.compile(r"\d+|(?<=\d)[a-z](?![^\W\d])|(?<![^\W\d])[a-z](?=\d)")
# "IIb" is a stage in all three languages; beyond four, a letter makes a word ("via", "vic") more often than a stage.
_NUMERALS = {roman: (value,) for roman, value in ROMAN.items() if int(value) <= 20} | {
    roman + letter: (value, letter) for roman, value in ROMAN.items() if int(value) <= 4 for letter in "abc"
}
_PERHAPS = re.compile(r"\d|\b(?:[a-z]|[ivx]+[abc]?)\b")  # what every text with a marker has


def normalise_all(texts: Sequence[str]) -> list[str]:
    """``[normalise(text) for text in texts]``, several times as fast for lists of thousands."""
    lines = [text.replace("\n", " ") for text in texts]
    odd = [place for place, line in enumerate(lines) if not line.isascii()]
    spelt = "\n".join([lines[place] for place in odd]).translate(_letters()).split("\n")
    alone = []
    for place, line in zip(odd, spelt, strict=False):
        depends = not line.isascii() or "`" in lines[place] or _MARKED_S.search(lines[place])
        if depends:
            alone.append(place)
        lines[place] = "" if depends else line
    forms = [" ".join(line.split()) for line in without_marks("\n".join(lines)).split("\n")] if lines else []
    for place in alone:
        forms[place] = normalise(texts[place])
    return forms


class _Letters(dict[int, str]):
    """By code point what a character is spelt as before possessives, numbers and marks are looked at."""

    def __missing__(self, code: int) -> str:
        form = self[code] = _spelt(chr(code))
        return form


@cache
def _letters() -> _Letters:
    return _Letters()


def _spelt(letter: str) -> str:
    """What a character is spelt as in ASCII, itself where that depends on those around it."""
    if letter.isascii():
        return letter
    if letter in INVISIBLE:
        return ""
    form = unicodedata.normalize("NFKC", letter)
    if letter in APOSTROPHE and form in APOSTROPHE:
        return "'"
    folded = "".join(greek_names().get(ord(part), part) for part in form).casefold()
    bare = strip_accents(folded)
    # a grave accent is an apostrophe beside letters beyond ASCII; a mark that stays alone is not the end of a word
    parts = letter + form + folded + bare
    joins = "`" in form or any(unicodedata.category(part)[0] == "M" or unicodedata.combining(part) for part in parts)
    return letter if joins or not bare.isascii() else bare


@cache
def _words() -> frozenset[str]:
    # an encoder is trained with the languages that ship, so that no other folder may add any
    return frozenset().union(*(data.words("markers") for data in shipped_languages()))


def markers(form: str) -> list[str]:
    """Markers of a normalised text (:func:`medlink.language.text.normalise`), as often as they stand in it.

    Roman numerals up to twenty are numbers, and zeros that lead a number do not count. An "a" is a marker at the end
    of the text alone: elsewhere it is a word more often than a letter.
    """
    if not _PERHAPS.search(form):
        return []
    words = form.split()
    found = [marker for word in words for marker in _of_word(word)]
    return [*found, "a"] if words[-1] == "a" else found


def _of_word(word: str) -> tuple[str, ...]:
    if word in _NUMERALS:
        return _NUMERALS[word]
    if len(word) == 1 and "a" <= word <= "z":
        return () if word in _words() else (word,)
    return tuple(marker.lstrip("0") or "0" for marker in _BESIDE_DIGITS.findall(word))
