"""The exact forms of many names at once: what :func:`~medlink.language.text.normalise` gives for each, in bulk.

All names are worked on as one text. It is first spelt out letter by letter (``ü`` is ``u``, ``ß`` is ``ss``, a dash is
a blank). What is then no plain ASCII, or depends on the letters around it, is normalised by itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

from medlink.language.text import APOSTROPHE, INVISIBLE, greek_names, normalise, strip_accents, without_marks

# an s before which an apostrophe makes no possessive: it is none before its accent goes
_MARKED_S = re.compile(f"[{APOSTROPHE}][{INVISIBLE}]*[ŚśŜŝŞşŠšȘșṠṡṢṣṤṥṦṧṨṩẛ]")


def normalise_all(texts: Sequence[str]) -> list[str]:
    """``[normalise(text) for text in texts]``, several times as fast for lists of thousands.

    >>> normalise_all(["Crohn’s disease", "α-Thalassämie", "1,25-Dihydroxy", ""])
    ['crohn disease', 'alpha thalassamie', '1.25 dihydroxy', '']
    """
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
