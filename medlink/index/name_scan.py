"""Find the longest name of an index, exact or inflected, at each word of a scanned text.

A search starts only at a word that begins a name, and continues only if a name begins with this word and the next. Both
checks are cached, by word and by pair of words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from medlink.index.segment import Segment
from medlink.language.scan import Place, ScannedText, ScannedWord, WordTable
from medlink.language.text import Inflector

_LONGEST = 16  # words of the longest name
# Between two words of one name there may be blanks, one line end, hyphens, slashes, apostrophes.
_INSIDE = re.compile(r"(?:[^\S\n]|-|–|/|')*\n?(?:[^\S\n]|-|–|/|')*")
_WIDEST = 20  # characters between two words of one name
_COMMA = re.compile(r"\s*,\s*")
_CACHED_SPANS = 1 << 16
_CACHED_PAIRS = 1 << 18


class _Form(NamedTuple):
    """A part of a word: exact form, inflected form, and the form behind a numeral cue if it differs."""

    exact: str
    form: str
    numeral: str | None


class _WordForms(NamedTuple):
    """The forms of a word in one language of names; whether a name ``begins`` with it or is the ``whole`` word."""

    forms: tuple[_Form, ...]
    begins: bool
    whole: bool


class NamedSpan(NamedTuple):
    """A span that is a name: its words, the language of the names, and the routes of the names by key."""

    place: Place
    language: str
    names: dict[int, str]


class _TableCache:
    """Cached lookups for the words of one table, by number: the ``forms`` of a word, the names of a ``single`` word,
    and whether a name ``continues`` with a second word."""

    def __init__(self, continues: Callable[[tuple[_Form, ...], tuple[_Form, ...]], bool]) -> None:
        self.forms: list[_WordForms] = []
        self.single: dict[int, dict[int, str]] = {}
        self.continues = lru_cache(_CACHED_PAIRS)(
            lambda first, second: continues(self.forms[first].forms, self.forms[second].forms)
        )


class NameScanner:
    """Find the names of one segment of an index with one language ``tag``."""

    def __init__(self, segment: Segment, tag: str, inflector: Inflector) -> None:
        self._segment, self._dictionary, self.tag = segment, segment.dictionary, tag
        self._inflector = inflector
        self._key = (id(self), tag)
        self._cached_names = lru_cache(_CACHED_SPANS)(self._names)

    def find(self, text: ScannedText) -> Iterator[NamedSpan]:
        """Yield the longest names at each word of a text."""
        words, cache, numbers = text.words, self._cache_of(text.table), text.numbers.tolist()
        begins = text.table.column(self._key, lambda entry: cache.forms[entry.number].begins, bool)
        for at in text.where(begins):
            if _is_second_part(words, at):
                continue
            number = numbers[at]
            if at + 1 < len(words) and self._joined(text, at, cache) and cache.continues(number, numbers[at + 1]):
                span = self._longest(text, at, cache, numbers)
            elif cache.forms[number].whole:
                span = self._single(text, at, cache, numbers)
            else:
                continue
            if span is not None:
                yield span

    def _cache_of(self, table: WordTable) -> _TableCache:
        cache: _TableCache = table.memo.get(self._key) or _TableCache(self._continues)
        table.memo[self._key] = cache
        cache.forms += [self._forms(entry.written) for entry in table.entries[len(cache.forms) :]]
        return cache

    def _forms(self, written: str) -> _WordForms:
        forms = tuple([_Form(*form) for form in self._inflector.formed(written)])
        starts = {forms[0].form, forms[0].numeral or forms[0].form} if forms else set()
        begins = any(self._dictionary.begins(self.tag, [form]) for form in starts)
        whole = begins and (len(forms) > 1 or any(self._dictionary.has(self.tag, form) for form in starts))
        return _WordForms(forms, begins, whole)

    def _continues(self, forms: tuple[_Form, ...], following: tuple[_Form, ...]) -> bool:
        """Whether a name may begin with a word and the first part of the next."""
        if not following or following[0].numeral is not None or forms[0].numeral is not None:
            return bool(following)
        return self._dictionary.begins(self.tag, [forms[0].form, following[0].form])

    def _joined(self, text: ScannedText, at: int, cache: _TableCache) -> bool:
        """Whether one name may contain two adjacent words, by the characters between them."""
        word, following = text.words[at], text.words[at + 1]
        if word.start == following.start:
            return True
        gap = self._inflector.gap(text.text[word.end : following.start])
        if gap in (" ", "-"):
            return True
        if len(gap) > _WIDEST:
            return False
        if _INSIDE.fullmatch(gap) is not None:
            return True
        if _COMMA.fullmatch(gap) is None:
            return False
        forms = cache.forms[following.entry.number].forms
        return bool(forms) and forms[0].exact in self._inflector.numeral_cues

    def _single(self, text: ScannedText, at: int, cache: _TableCache, numbers: list[int]) -> NamedSpan | None:
        words, number = text.words, numbers[at]
        forms = cache.forms[number].forms
        if len(forms) > 1 or forms[0].numeral is not None or (at + 1 < len(words) and _is_second_part(words, at + 1)):
            return self._longest(text, at, cache, numbers, follows=False)
        names = cache.single.get(number)
        if names is None:
            names = cache.single[number] = self._names(forms[0].form, text.written((at, at + 1)))
        return NamedSpan((at, at + 1), self.tag, names) if names else None

    def _longest(
        self, text: ScannedText, at: int, cache: _TableCache, numbers: list[int], *, follows: bool = True
    ) -> NamedSpan | None:
        """The longest name that begins at a word; the word alone unless another ``follows``."""
        keys, stops = self._keys(text, at, cache, numbers, follows=follows)
        start = text.words[at].start
        for length in self._dictionary.lengths(self.tag, keys):
            end = stops[length - 1]
            if end and (
                names := self._cached_names(" ".join(keys[:length]), text.text[start : text.words[end - 1].end])
            ):
                return NamedSpan((at, end), self.tag, names)
        return None

    def _keys(
        self, text: ScannedText, at: int, cache: _TableCache, numbers: list[int], *, follows: bool
    ) -> tuple[list[str], list[int]]:
        """Forms of the words that a name from here may contain, each with the next word, 0 inside a word."""
        words, cues, word_forms = text.words, self._inflector.numeral_cues, cache.forms
        keys, stops, stop = list[str](), list[int](), at
        before = word_forms[numbers[at - 1]].forms if at else ()
        previous = before[-1].exact if before else ""
        more = True
        while more and len(keys) < _LONGEST:
            for form in () if _is_second_part(words, stop) and stop > at else word_forms[numbers[stop]].forms:
                keys.append(form.numeral if form.numeral is not None and previous in cues else form.form)
                stops.append(0)
                previous = form.exact
            stop += 1
            if stops and not (stop < len(words) and _is_second_part(words, stop)):
                stops[-1] = stop  # a name ends at the end of a word
            more = follows if stop == at + 1 else stop < len(words) and self._joined(text, stop - 1, cache)
        return keys, stops

    def _names(self, form: str, written: str) -> dict[int, str]:
        rows = self._dictionary.named(self.tag, form, written)
        return {self._segment.rows.key(int(row)): route for row, route in rows.items()}


def _is_second_part(words: Sequence[ScannedWord], at: int) -> bool:
    """Whether a word comes from the same letters as the word before it."""
    return at > 0 and words[at - 1].start == words[at].start
