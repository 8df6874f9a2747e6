"""Compounds and the parts that they are made of.

A compound is parted into forms of the lexicon: the first parts are combining forms (*hepato-*, *Nieren-*) or German
nouns with a linking letter, the last is a word, in any inflection, or an ending (*-itis*). Of all ways the one of the
least cost counts: one for each part, more for what is short, ambiguous or linked without the table saying so. A rest of
four letters and more that nothing knows may begin a word of whose end more than four are known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

from medlink.language.languages import language_data
from medlink.language.lexicon.forms import AFFIX, AMBIGUOUS, OTHER, PREFIX, SHORT, STEM, SUFFIX, WORD, Form, Forms

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
_LAST = 3  # letters of the shortest last part

_PARTS = 32_768  # parts of words that are remembered at a time


class Way(NamedTuple):
    """A way to part a word: its cost, the meanings of each part, the letters of each."""

    cost: float
    parts: tuple[tuple[int, ...], ...]
    lengths: tuple[int, ...]


class _Part(NamedTuple):
    """What a part costs and means; a ``linked`` one has a linking letter, a ``sure`` one is hardly an accident."""

    cost: float
    meanings: tuple[int, ...]
    forms: tuple[Form, ...]
    linked: float = 0.0
    sure: bool = True


class Parting:
    """Parts compounds by the forms of a lexicon; ``stem`` gives the inflected form of a word in a language."""

    def __init__(self, forms: Forms, stem: Callable[[str, str], str]) -> None:
        self._forms, self._stem = forms, stem
        self._links = {language: language_data(language).forms.links for language in forms.languages}
        self._prefix_lengths = cache(self._find_prefix_lengths)
        self._prefix = lru_cache(_PARTS)(self._find_prefix)
        self._noun = lru_cache(_PARTS)(self._find_noun)
        self._firsts = lru_cache(_PARTS)(self._find_firsts)
        self._last = lru_cache(_PARTS)(self._find_last)

    def parted(self, token: str, language: str) -> Way | None:
        """The best way to part a compound; ``None`` where it is none."""
        return self._best(token, language, known=False) if _may_be_parted(token) else None

    def surely_parted(self, token: str, language: str) -> Way | None:
        """The best way to part a known word, where none of its parts is likely to be there by accident."""
        if len(token) < 2 * SURE or not _may_be_parted(token) or not self._has_sure_parts(token, language):
            return None
        best = self._best(token, language, known=True)
        return best if best and min(best.lengths) >= SURE else None

    def _best(self, token: str, language: str, *, known: bool) -> Way | None:
        """The way of the least cost. A known word does not end in a short affix."""
        length = len(token)
        # the best way to each place, by which the parts before it are parted
        ways: dict[int, Way] = {0: Way(0.0, (), ())}
        best: Way | None = None
        for start in range(length - 2):
            way = ways.pop(start, None)
            if way is None:
                continue
            if start:
                last = self._last(token[start:], language)
                if last and (last.sure or not known) and (best is None or way.cost + last.cost < best.cost):
                    lengths = (*way.lengths, length - start)
                    best = Way(way.cost + last.cost, (*way.parts, last.meanings), lengths)
            for stop, first in self._firsts(token[start:], language).items():
                at, cost = start + stop, way.cost + first.cost
                if at not in ways or cost < ways[at].cost:
                    ways[at] = Way(cost, (*way.parts, first.meanings), (*way.lengths, stop))
        return best

    def _has_sure_parts(self, token: str, language: str) -> bool:
        """Whether there is a way to part a known word into parts that are no accident, whatever it costs."""
        length, starts, seen = len(token), [0], set[int]()
        while starts:
            start = starts.pop()
            last = self._last(token[start:], language) if start else None
            if last and last.sure:
                return True
            for stop in self._firsts(token[start:], language):
                if stop >= SURE <= length - start - stop and start + stop not in seen:
                    seen.add(start + stop)
                    starts.append(start + stop)
        return False

    def ended(self, token: str, language: str) -> Way | None:
        """The parts of a word of which only the end is known: the longest one."""
        if len(token) <= 2 * SURE or not token.isalpha():
            return None
        for start in range(max(SURE, len(token) - LONGEST), len(token) - SURE):
            last = self._last(token[start:], language)
            if last is not None:
                return Way(last.cost, ((), last.meanings), (start, len(token) - start))
        return None

    def _find_firsts(self, text: str, language: str) -> dict[int, _Part]:
        most = len(text) - _LAST  # letters of the longest
        prefixes = self._forms.table(PREFIX, language)
        found: dict[int, _Part] = {}
        for length in self._prefix_lengths(language).get(text[:2], ()):
            if length > most:
                break
            if (head := text[:length]) in prefixes:
                found[length] = self._prefix(head, language)
        links = self._links[language]
        if not links:
            return found
        firsts = found.copy()
        for length in self._forms.lengths(WORD, language, text):
            noun = self._noun(text[:length], language) if SURE <= length <= most else None
            if noun is None:
                continue
            if length in firsts:
                # Unterschenkel- is a leg as well, Unterschenkel is not
                meanings = chosen((*firsts[length].forms, *noun.forms))
                found[length] = _Part(found[length].cost, meanings, ())
            for link in links:
                whole = length + len(link)
                if whole <= most and text.startswith(link, length):
                    cost = noun.linked if link else noun.cost
                    if whole not in found or cost < found[whole].cost:
                        found[whole] = _Part(cost, noun.meanings, ())
        return found

    def _find_prefix_lengths(self, language: str) -> dict[str, list[int]]:
        lengths: dict[str, set[int]] = defaultdict(set)
        for form in self._forms.table(PREFIX, language):
            if len(form) > 1:
                lengths[form[:2]].add(len(form))
        return {head: sorted(found) for head, found in lengths.items()}

    def _find_prefix(self, text: str, language: str) -> _Part:
        forms = self._forms.table(PREFIX, language)[text]
        return _Part(_cost(len(text), forms, 0.0), chosen(forms), forms)

    def _find_noun(self, text: str, language: str) -> _Part | None:
        found = self._forms.find(WORD, language, text)
        nouns = tuple([form for form in found if not form.marks & (OTHER | SHORT | AFFIX)])
        if not nouns:
            return None
        return _Part(_cost(len(text), nouns, 0.2), chosen(nouns), nouns, _cost(len(text), nouns, 0.3))

    def _find_last(self, part: str, language: str) -> _Part | None:
        endings = self._forms.table(SUFFIX, language).get(part, ())
        found = tuple([form for form in endings if not form.marks & AFFIX])
        if not found and len(part) >= (SURE if self._links[language] else SURE + 1):
            whole = self._forms.find(WORD, language, part)
            if not whole and len(stem := self._stem(part, language)) >= _STEM:
                whole = self._forms.find(STEM, language, stem)
            found = tuple([form for form in whole if not form.marks & (OTHER | SHORT)])
        sure, found = bool(found) or len(part) > SURE, found or endings
        # Bauchspeicheldrüsen-entzündung, not Bauch-speicheldrüsenentzündung
        cost = _cost(len(part), found, _RIGHT * len(part)) if found else 0.0
        return _Part(cost, chosen(found), found, sure=sure) if found else None


def _may_be_parted(token: str) -> bool:
    return SHORTEST <= len(token) <= LONGEST and token.isalpha()


@lru_cache(_FORMS)
def chosen(forms: tuple[Form, ...]) -> tuple[int, ...]:
    """The meanings that count: those of which a form is no ambiguous one, all where it is one of each."""
    plain = [form for form in forms if not form.marks & AMBIGUOUS] or forms
    roots = [form for form in plain if not form.marks & AFFIX] or plain
    return tuple(dict.fromkeys(form.meaning for form in roots))[:_SENSES]


def _cost(length: int, forms: tuple[Form, ...], more: float) -> float:
    """What a part costs: 1, and more for a short one, an affix, or one that is ambiguous."""
    short = {2: 1.2, 3: 0.5}.get(length, 0.0)
    affix = 0.2 * all(form.marks & AFFIX for form in forms)
    return 1.0 + more + short + affix + 0.1 * all(form.marks & AMBIGUOUS for form in forms)
