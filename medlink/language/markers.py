"""Markers: the numbers, roman numerals and single letters that tell names apart which are alike otherwise.

"Type 1 diabetes" and "type 2 diabetes" share nearly all n-grams. The static encoder therefore gives the markers of a
name a part of its embedding that does not shrink with the length of the name.
"""

from __future__ import annotations

import re
from functools import cache

from medlink.language.languages import language_data
from medlink.language.text import ROMAN

MARKER_LANGUAGES = ("de", "en", "es")
"""Languages whose single-letter words are no markers: encoders are trained with them, so no other language adds any."""

# Digits, and a letter that stands alone beside them: "b12", "2c", "4q26"; not the letters of "chmp2".
_BESIDE_DIGITS = re.compile(r"\d+|(?<=\d)[a-z](?![^\W\d])|(?<![^\W\d])[a-z](?=\d)")
# "IIb" is a stage in all three languages; beyond four, a letter makes a word ("via", "vic") more often than a stage.
_NUMERALS = {roman: (value,) for roman, value in ROMAN.items() if int(value) <= 20} | {
    roman + letter: (value, letter) for roman, value in ROMAN.items() if int(value) <= 4 for letter in "abc"
}
_PERHAPS = re.compile(r"\d|\b(?:[a-z]|[ivx]+[abc]?)\b")  # what every text with a marker has


@cache
def _words() -> frozenset[str]:
    return frozenset().union(*(language_data(language).words("markers") for language in MARKER_LANGUAGES))


def markers(form: str) -> list[str]:
    """Markers of a normalised text (:func:`medlink.language.text.normalise`), as often as they stand in it.

    Roman numerals up to twenty are numbers, and zeros that lead a number do not count. An "a" is a marker at the end
    of the text alone: elsewhere it is a word more often than a letter.

    >>> markers("type iib diabetes 02"), markers("hepatitis a"), markers("dolor a la presion")
    (['2', 'b', '2'], ['a'], [])
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
