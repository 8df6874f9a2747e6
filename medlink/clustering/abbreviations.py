"""Abbreviations: short terms that join their long form, where the list leaves no choice.

A term that gives both, "long form (ABC)", is evidence where the letters of the short one are found in the long one
(Schwartz and Hearst 2003). Without such a term the initials decide: "COPD" joins "chronic obstructive
pulmonary disease" where exactly one cluster has a name with these initials. A shorter one without such evidence, or
one that already stands with other terms, is left where it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from medlink.clustering.terms import Texts
from medlink.language.languages import language_data
from medlink.language.text import is_short, normalise

_BOTH = re.compile(r"([^()]+?)\s*\(([^()]+)\)")
_BORROWED = ("de", "en", "es")  # "Tic de la Tourette" is an English name too
_FEWEST = 4  # letters that initials alone may explain: of three, two in five were wrong on the open names


def explains(short: str, long: str) -> bool:
    """Whether the characters of an abbreviation stand in this order in a longer form that begins with the first.

    Schwartz and Hearst 2003: read from the right, each character of the short form is found in the long one.

    >>> explains("KHK", "koronare Herzkrankheit"), explains("COPD", "chronic bronchitis")
    (True, False)
    """
    wanted = [letter for letter in normalise(short) if letter.isalnum()]
    text = normalise(long)
    if not wanted or len(text) <= len(wanted):
        return False
    place = len(text)
    for letter in reversed(wanted[1:]):
        place = text.rfind(letter, 1, max(place, 0))
    return place > 0 and text.startswith(wanted[0])


def both_forms(text: str) -> tuple[str, str] | None:
    """Long and short form of a term that gives both.

    >>> both_forms("diabetes mellitus (DM)"), both_forms("KHK (koronare Herzkrankheit)"), both_forms("fever (high)")
    (('diabetes mellitus', 'DM'), ('koronare Herzkrankheit', 'KHK'), None)
    """
    found = _BOTH.fullmatch(text)
    one, other = (part.strip() for part in found.groups()) if found else ("", "")
    return next(((long, sh) for long, sh in ((one, other), (other, one)) if is_short(sh) and explains(sh, long)), None)


def initials(text: str, language: str = "") -> set[str]:
    """First letters of the words of a long form in a language (BCP 47 or ``""``), with and without its small words.

    >>> sorted(initials("carcinoma of the breast"))
    ['cb', 'cotb']
    """
    words = normalise(text).split()
    if len(words) < 2:
        return set()
    small = [language_data(tag).articles.small_words for tag in (*_BORROWED, language)]
    return {"".join(w[0] for w in words), "".join(w[0] for w in words if not any(w in some for some in small))}


def join_abbreviations(
    texts: Texts | Sequence[str], group: NDArray[np.int64], languages: Sequence[str] = ()
) -> list[tuple[int, int]]:
    """Pairs of terms to join: an abbreviation and its long form, or two ways to write the long form.

    Pairs are of places; the first of each joins the cluster of the second. ``group (n,)`` is the cluster of each term,
    ``languages`` are n tags, BCP 47 or ``""``; none is named without them.

    >>> join_abbreviations(["COPD", "chronic obstructive pulmonary disease", "asthma"], np.array([0, 1, 2]))
    [(0, 1)]
    """
    sizes = np.bincount(group)
    short: dict[str, int] = {}
    given: dict[str, list[tuple[int, str]]] = {}
    for place, text in enumerate(texts):
        if is_short(text):
            if sizes[group[place]] == 1:
                short.setdefault(normalise(text), place)
        elif both := both_forms(text):
            given.setdefault(normalise(both[1]), []).append((place, normalise(both[0])))
    wanted_long = {long for pairs in given.values() for _, long in pairs}
    wanted = {form for form in short if len(form) >= _FEWEST and form not in given}
    long_forms: dict[str, int] = {}
    fits: dict[str, dict[int, int]] = {}
    for place, text in enumerate(texts):
        form = normalise(text)
        if form in wanted_long:
            long_forms.setdefault(form, place)
        if wanted and not is_short(text):
            for letters in initials(text, languages[place] if languages else "") & wanted:
                fits.setdefault(letters, {}).setdefault(int(group[place]), place)
    joined = [
        (place, long_forms[long])
        for pairs in given.values()
        for place, long in pairs
        if long in long_forms and group[place] != group[long_forms[long]] and sizes[group[place]] == 1
    ]
    for form, place in short.items():
        if form in given:
            where = {int(group[long_forms.get(long, at)]): long_forms.get(long, at) for at, long in given[form]}
        else:
            where = fits.get(form, {})
        if len(where) == 1:
            joined.append((place, next(iter(where.values()))))
    return joined


def keep_concepts_apart(
    pairs: Iterable[tuple[int, int]], group: NDArray[np.int64], concepts: Sequence[frozenset[str]]
) -> list[tuple[int, int]]:
    """Pairs of :func:`join_abbreviations`, in their order, that bring no names of two known concepts together.

    ``concepts`` are n sets of the known concepts that each term is a name of.

    >>> named = [frozenset(["C1"]), frozenset(["C2"]), frozenset(["C1"])]
    >>> keep_concepts_apart([(0, 1), (0, 2)], np.array([0, 1, 2]), named)
    [(0, 2)]
    """
    into = list(range(int(group.max(initial=-1)) + 1))
    held: dict[int, set[frozenset[str]]] = {}
    for place, ids in enumerate(concepts):
        if ids:
            held.setdefault(int(group[place]), set()).add(ids)

    def whole(one: int) -> int:
        """What a group has become part of."""
        while into[one] != one:
            one = into[one]
        return one

    kept = []
    for pair in pairs:
        one, other = (whole(int(group[place])) for place in pair)
        mine, theirs = held.get(one, set()), held.get(other, set())
        if one != other and any(not ids & more for ids in mine for more in theirs):
            continue
        into[one] = other
        held[other] = mine | theirs
        kept.append(pair)
    return kept
