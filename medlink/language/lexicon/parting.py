"""Compounds and the parts that they are made of.

A compound is parted into forms of the lexicon: the first parts are combining forms (*hepato-*, *Nieren-*) or German
nouns with a linking letter, the last is a word, in any inflection, or an ending (*-itis*). Of all ways the one of the
least cost counts: one for each part, more for what is short, ambiguous or linked without the table saying so. A rest of
four letters and more that nothing knows may begin a word of whose end more than four are known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from medlink.language.languages import language_data
from medlink.language.lexicon.forms import (
    AFFIX,
    AMBIGUOUS,
    OTHER,
    PREFIX,
    SHORT,
    STEM,
    SUFFIX,
    WORD,
    Form,
    Forms,
)

SHORTEST = 6
"""Letters of the shortest word that is parted."""
LONGEST = 40
"""Letters of the longest."""
SURE = 4
"""Letters of a part that is hardly there by accident."""
_FORMS = 16_384  # lists of forms whose meanings and costs are kept; these hold numbers and no words
_SENSES = 3  # meanings of one ambiguous form that are looked at
_RIGHT = 0.03  # what each letter of the last part costs: of two ways with as many parts the one that parts late counts
_STEM = 3  # letters of the shortest stem of a part

Way = tuple[float, tuple[tuple[int, ...], ...], tuple[int, ...]]
"""A way to part a word: its cost, the meanings of each part, the letters of each."""


class Parting:
    """Parts compounds by the forms of a lexicon.

    Args:
        forms: of the lexicon.
        stem: gives the inflected form of a word in a language.
    """

    def __init__(self, forms: Forms, stem: Callable[[str, str], str]) -> None:
        self._forms, self._stem = forms, stem
        self._links = {language: language_data(language).forms.links for language in forms.languages}

    def parted(self, token: str, language: str, *, known: bool = False) -> Way | None:
        """The best way to part a compound; ``None`` where it is none. A known word does not end in a short affix."""
        length = len(token)
        if not (SHORTEST <= length <= LONGEST and token.isalpha()):
            return None
        # the best way to each place, by which the parts before it are parted
        ways: dict[int, Way] = {0: (0.0, (), ())}
        best: Way | None = None
        for start in range(length - 2):
            way = ways.pop(start, None)
            if way is None:
                continue
            if start:
                last = self._last(token[start:], language, short=not known)
                if last is not None and (best is None or way[0] + last[0] < best[0]):
                    best = (way[0] + last[0], (*way[1], last[1]), (*way[2], length - start))
            for stop, (cost, meanings) in self._firsts(token[start:], language).items():
                at = start + stop
                if at < length - 2 and (at not in ways or way[0] + cost < ways[at][0]):
                    ways[at] = (way[0] + cost, (*way[1], meanings), (*way[2], stop))
        return best

    def ended(self, token: str, language: str) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]] | None:
        """The parts of a word of which only the end is known, and their letters: the longest one."""
        if len(token) <= 2 * SURE or not token.isalpha():
            return None
        for start in range(max(SURE, len(token) - LONGEST), len(token) - SURE):
            last = self._last(token[start:], language)
            if last is not None:
                return ((), last[1]), (start, len(token) - start)
        return None

    def _firsts(self, text: str, language: str) -> dict[int, tuple[float, tuple[int, ...]]]:
        """Cost and meanings of each part that a text may begin with and that others follow, by its length."""
        found: dict[int, tuple[float, tuple[int, ...]]] = {}
        firsts = dict(self._forms.beginnings(PREFIX, language, text, 2))
        for length, forms in firsts.items():
            found[length] = _cost(length, forms, 0.0), chosen(forms)
        links = self._links[language]
        for length, forms in self._forms.beginnings(WORD, language, text, SURE) if links else ():
            nouns = _nouns(forms)
            if not nouns:
                continue
            if length in firsts:
                # Unterschenkel- is a leg as well, Unterschenkel is not
                found[length] = found[length][0], chosen((*firsts[length], *nouns))
            meant = chosen(nouns)
            for link in links:
                whole = length + len(link)
                if text.startswith(link, length):
                    cost = _cost(length, nouns, 0.3 if link else 0.2)
                    if whole not in found or cost < found[whole][0]:
                        found[whole] = cost, meant
        return found

    def _last(self, part: str, language: str, *, short: bool = True) -> tuple[float, tuple[int, ...]] | None:
        """Cost and meanings of a part that ends a word: an ending of a family, a word, or an affix."""
        endings = self._forms.find(SUFFIX, language, part)
        found = tuple([form for form in endings if not form.marks & AFFIX])
        if not found and len(part) >= (SURE if self._links[language] else SURE + 1):
            whole = self._forms.find(WORD, language, part)
            if not whole and len(stem := self._stem(part, language)) >= _STEM:
                whole = self._forms.find(STEM, language, stem)
            found = tuple([form for form in whole if not form.marks & (OTHER | SHORT)])
        found = found or (endings if short or len(part) > SURE else ())
        # Bauchspeicheldrüsen-entzündung, not Bauch-speicheldrüsenentzündung
        return (_cost(len(part), found, _RIGHT * len(part)), chosen(found)) if found else None


@lru_cache(_FORMS)
def _nouns(forms: tuple[Form, ...]) -> tuple[Form, ...]:
    """The forms that may be nouns or adjectives before another word."""
    return tuple([form for form in forms if not form.marks & (OTHER | SHORT | AFFIX)])


@lru_cache(_FORMS)
def chosen(forms: tuple[Form, ...]) -> tuple[int, ...]:
    """The meanings that count: those of which a form is no ambiguous one, all where it is one of each."""
    plain = [form for form in forms if not form.marks & AMBIGUOUS] or forms
    roots = [form for form in plain if not form.marks & AFFIX] or plain
    return tuple(dict.fromkeys(form.meaning for form in roots))[:_SENSES]


@lru_cache(_FORMS)
def _cost(length: int, forms: tuple[Form, ...], more: float) -> float:
    """What a part costs: 1, and more for a short one, an affix, or one that is ambiguous."""
    short = {2: 1.2, 3: 0.5}.get(length, 0.0)
    affix = 0.2 * all(form.marks & AFFIX for form in forms)
    return 1.0 + more + short + affix + 0.1 * all(form.marks & AMBIGUOUS for form in forms)
