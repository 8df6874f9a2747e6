"""Split compounds into their parts.

The first parts are combining forms (*hepato-*, *Nieren-*) or German nouns with a linking letter; the last part is a
word in any inflection, or an ending (*-itis*). The split with the lowest cost is chosen. Each part costs one, and more
if it is short, ambiguous, or joined by a linking letter that no table has. If only the end of a word is known and has
more than four letters, at least four unknown letters may precede it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

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
    LexiconForms,
)

SHORTEST, LONGEST = 6, 40
"""Letters of the shortest and of the longest word that is split."""
SURE = 4
"""Number of letters from which a part hardly matches by chance."""
_CACHED_FORMS = 16_384
_CACHED_PARTS = 32_768
_SENSES = 3  # meanings of an ambiguous form that count
_RIGHT = 0.03  # cost of each letter of the last part: of several splits with the same number of parts, the latest wins
_STEM = 3  # letters of the shortest stem of a part
_LAST = 3  # letters of the shortest last part


class Split(NamedTuple):
    """A split of a word: its cost, and the meanings and the letters of each part."""

    cost: float
    parts: tuple[tuple[int, ...], ...]
    lengths: tuple[int, ...]


class _Part(NamedTuple):
    """Cost and meanings of a part, its cost if ``linked`` by a letter, and whether it hardly matches by chance."""

    cost: float
    meanings: tuple[int, ...]
    forms: tuple[Form, ...]
    linked: float = 0.0
    sure: bool = True


class CompoundSplitter:
    """Split compounds into forms of a lexicon; ``stem`` gives the stemmed form of a word in a language."""

    def __init__(self, forms: LexiconForms, stem: Callable[[str, str], str]) -> None:
        self._forms, self._stem = forms, stem
        self._links = {language: language_data(language).forms.links for language in forms.languages}
        self._prefix_lengths = cache(self._find_prefix_lengths)
        self._prefix = lru_cache(_CACHED_PARTS)(self._find_prefix)
        self._noun = lru_cache(_CACHED_PARTS)(self._find_noun)
        self._firsts = lru_cache(_CACHED_PARTS)(self._find_firsts)
        self._last = lru_cache(_CACHED_PARTS)(self._find_last)

    def split(self, token: str, language: str) -> Split | None:
        """Split an unknown word; return ``None`` if it is not a compound."""
        return self._best(token, language, known=False) if _is_splittable(token) else None

    def split_known(self, token: str, language: str) -> Split | None:
        """Split a known word, unless a part probably matches by chance."""
        if len(token) < 2 * SURE or not _is_splittable(token) or not self._has_sure_parts(token, language):
            return None
        best = self._best(token, language, known=True)
        return best if best and min(best.lengths) >= SURE else None

    def _best(self, token: str, language: str, *, known: bool) -> Split | None:
        """The split of least cost. A known word does not end in a short affix."""
        length = len(token)
        # the best split of the letters before each position
        splits: dict[int, Split] = {0: Split(0.0, (), ())}
        best: Split | None = None
        for start in range(length - 2):
            split = splits.pop(start, None)
            if split is None:
                continue
            if start:
                last = self._last(token[start:], language)
                if last and (last.sure or not known) and (best is None or split.cost + last.cost < best.cost):
                    lengths = (*split.lengths, length - start)
                    best = Split(split.cost + last.cost, (*split.parts, last.meanings), lengths)
            for stop, first in self._firsts(token[start:], language).items():
                at, cost = start + stop, split.cost + first.cost
                if at not in splits or cost < splits[at].cost:
                    splits[at] = Split(cost, (*split.parts, first.meanings), (*split.lengths, stop))
        return best

    def _has_sure_parts(self, token: str, language: str) -> bool:
        """Whether a known word has a split, at any cost, in which no part matches by chance."""
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

    def split_end(self, token: str, language: str) -> Split | None:
        """Split off the longest known ending of a word whose beginning is unknown."""
        if len(token) <= 2 * SURE or not token.isalpha():
            return None
        for start in range(max(SURE, len(token) - LONGEST), len(token) - SURE):
            last = self._last(token[start:], language)
            if last is not None:
                return Split(last.cost, ((), last.meanings), (start, len(token) - start))
        return None

    def _find_firsts(self, text: str, language: str) -> dict[int, _Part]:
        longest = len(text) - _LAST
        prefixes = self._forms.table(PREFIX, language)
        parts: dict[int, _Part] = {}
        for length in self._prefix_lengths(language).get(text[:2], ()):
            if length > longest:
                break
            if (head := text[:length]) in prefixes:
                parts[length] = self._prefix(head, language)
        links = self._links[language]
        if not links:
            return parts
        firsts = parts.copy()
        for length in self._forms.lengths(WORD, language, text):
            noun = self._noun(text[:length], language) if SURE <= length <= longest else None
            if noun is None:
                continue
            if length in firsts:
                # Unterschenkel- means a leg as well, Unterschenkel does not
                meanings = chosen_meanings((*firsts[length].forms, *noun.forms))
                parts[length] = _Part(parts[length].cost, meanings, ())
            for link in links:
                whole = length + len(link)
                if whole <= longest and text.startswith(link, length):
                    cost = noun.linked if link else noun.cost
                    if whole not in parts or cost < parts[whole].cost:
                        parts[whole] = _Part(cost, noun.meanings, ())
        return parts

    def _find_prefix_lengths(self, language: str) -> dict[str, list[int]]:
        lengths: dict[str, set[int]] = defaultdict(set)
        for form in self._forms.table(PREFIX, language):
            if len(form) > 1:
                lengths[form[:2]].add(len(form))
        return {head: sorted(of_head) for head, of_head in lengths.items()}

    def _find_prefix(self, text: str, language: str) -> _Part:
        forms = self._forms.table(PREFIX, language)[text]
        return _Part(_cost(len(text), forms, 0.0), chosen_meanings(forms), forms)

    def _find_noun(self, text: str, language: str) -> _Part | None:
        words = self._forms.find(WORD, language, text)
        nouns = tuple([form for form in words if not form.marks & (OTHER | SHORT | AFFIX)])
        if not nouns:
            return None
        return _Part(_cost(len(text), nouns, 0.2), chosen_meanings(nouns), nouns, _cost(len(text), nouns, 0.3))

    def _find_last(self, part: str, language: str) -> _Part | None:
        endings = self._forms.table(SUFFIX, language).get(part, ())
        forms = tuple([form for form in endings if not form.marks & AFFIX])
        if not forms and len(part) >= (SURE if self._links[language] else SURE + 1):
            whole = self._forms.find(WORD, language, part)
            if not whole and len(stem := self._stem(part, language)) >= _STEM:
                whole = self._forms.find(STEM, language, stem)
            forms = tuple([form for form in whole if not form.marks & (OTHER | SHORT)])
        sure, forms = bool(forms) or len(part) > SURE, forms or endings
        # Bauchspeicheldrüsen-entzündung, not Bauch-speicheldrüsenentzündung
        cost = _cost(len(part), forms, _RIGHT * len(part)) if forms else 0.0
        return _Part(cost, chosen_meanings(forms), forms, sure=sure) if forms else None


def _is_splittable(token: str) -> bool:
    return SHORTEST <= len(token) <= LONGEST and token.isalpha()


@lru_cache(_CACHED_FORMS)
def chosen_meanings(forms: tuple[Form, ...]) -> tuple[int, ...]:
    """Return the first meanings of forms; prefers unambiguous forms, and among these whole words, if there are any."""
    plain = [form for form in forms if not form.marks & AMBIGUOUS] or forms
    roots = [form for form in plain if not form.marks & AFFIX] or plain
    return tuple(dict.fromkeys(form.meaning for form in roots))[:_SENSES]


def _cost(length: int, forms: tuple[Form, ...], more: float) -> float:
    """Cost of a part: 1, and ``more`` for its kind, its shortness, an affix, and an ambiguous form."""
    short = {2: 1.2, 3: 0.5}.get(length, 0.0)
    affix = 0.2 * all(form.marks & AFFIX for form in forms)
    return 1.0 + more + short + affix + 0.1 * all(form.marks & AMBIGUOUS for form in forms)
