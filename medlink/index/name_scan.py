"""Find the names of an index in scanned text: to the letter or inflected, at each word the longest.

A name is looked for only where the index has names that begin with a word, and where a second word follows, with those
two. Both are known of each word, and of each pair of words, from then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from medlink.index.segment import Part
from medlink.language.scan import Place, ScannedText, ScannedWord, WordTable
from medlink.language.text import Inflector

_LONGEST = 16  # words of the longest name that is looked for
# What may stand between two words of one name: a blank, one line end, hyphens, slashes, apostrophes.
_INSIDE = re.compile(r"(?:[^\S\n]|-|–|/|')*\n?(?:[^\S\n]|-|–|/|')*")
_WIDEST = 20  # characters between two words of one name
_COMMA = re.compile(r"\s*,\s*")
_KEPT = 1 << 16  # spans whose names are kept
_PAIRS = 1 << 18  # pairs of words of which is kept whether names begin with them


class _Form(NamedTuple):
    """A part of a word: its exact and its inflected form, and the form behind a cue of numerals where that differs."""

    exact: str
    form: str
    numeral: str | None


class _WordForms(NamedTuple):
    """The forms of a word in one language of names; whether names begin with the word, and whether one is the word."""

    forms: tuple[_Form, ...]
    begins: bool
    whole: bool


class NamedSpan(NamedTuple):
    """A span that is a name: its words, the language of the names, and their keys with their routes."""

    place: Place
    language: str
    names: dict[int, str]


class _Known:
    """What a scanner knows of the words of one table, by their numbers: the ``forms`` of each word, whether a name
    ``goes_on`` with a second one, and the names that a word is when ``alone``."""

    def __init__(self, continues: Callable[[tuple[_Form, ...], tuple[_Form, ...]], bool]) -> None:
        self.forms: list[_WordForms] = []
        self.alone: dict[int, dict[int, str]] = {}
        self.goes_on = lru_cache(_PAIRS)(lambda one, other: continues(self.forms[one].forms, self.forms[other].forms))


class NameScanner:
    """Find the names of one part of an index in one language, ``tag``, as names state it."""

    def __init__(self, part: Part, tag: str, inflector: Inflector) -> None:
        self._part, self._dictionary, self.tag = part, part.dictionary, tag
        self._inflector = inflector
        self._key = (id(self), tag)
        self._named = lru_cache(_KEPT)(self._names)

    def find(self, text: ScannedText) -> Iterator[NamedSpan]:
        """The longest names at each word of a text."""
        words, known, numbers = text.words, self._known(text.table), text.numbers.tolist()
        begins = text.table.column(self._key, lambda entry: known.forms[entry.number].begins, bool)
        for at in text.where(begins):
            if _is_second_part(words, at):
                continue
            number = numbers[at]
            if at + 1 < len(words) and self._joined(text, at, known) and known.goes_on(number, numbers[at + 1]):
                found = self._longest(text, at, known, numbers)
            elif known.forms[number].whole:
                found = self._by_itself(text, at, known, numbers)
            else:
                continue
            if found is not None:
                yield found

    def _known(self, table: WordTable) -> _Known:
        known: _Known = table.memo.setdefault(self._key, None) or _Known(self._continues)
        table.memo[self._key] = known
        known.forms += [self._forms(entry.written) for entry in table.entries[len(known.forms) :]]
        return known

    def _forms(self, written: str) -> _WordForms:
        forms = tuple([_Form(*form) for form in self._inflector.formed(written)])
        starts = {forms[0].form, forms[0].numeral or forms[0].form} if forms else set()
        begins = any(self._dictionary.begins(self.tag, [form]) for form in starts)
        whole = begins and (len(forms) > 1 or any(self._dictionary.has(self.tag, form) for form in starts))
        return _WordForms(forms, begins, whole)

    def _continues(self, forms: tuple[_Form, ...], following: tuple[_Form, ...]) -> bool:
        """Whether a name may begin with a word and the first part of the next one."""
        if not following or following[0].numeral is not None or forms[0].numeral is not None:
            return bool(following)
        return self._dictionary.begins(self.tag, [forms[0].form, following[0].form])

    def _joined(self, text: ScannedText, at: int, known: _Known) -> bool:
        one, other = text.words[at], text.words[at + 1]
        if one.start == other.start:
            return True
        gap = self._inflector.gap(text.text[one.end : other.start])
        if gap in (" ", "-"):
            return True
        if len(gap) > _WIDEST:
            return False
        if _INSIDE.fullmatch(gap) is not None:
            return True
        if _COMMA.fullmatch(gap) is None:
            return False
        following = known.forms[other.entry.number].forms
        return bool(following) and following[0].exact in self._inflector.numeral_cues

    def _by_itself(self, text: ScannedText, at: int, known: _Known, numbers: list[int]) -> NamedSpan | None:
        words, number = text.words, numbers[at]
        forms = known.forms[number].forms
        if len(forms) > 1 or forms[0].numeral is not None or (at + 1 < len(words) and _is_second_part(words, at + 1)):
            return self._longest(text, at, known, numbers, follows=False)
        names = known.alone.get(number)
        if names is None:
            names = known.alone[number] = self._names(forms[0].form, text.written((at, at + 1)))
        return NamedSpan((at, at + 1), self.tag, names) if names else None

    def _longest(
        self, text: ScannedText, at: int, known: _Known, numbers: list[int], *, follows: bool = True
    ) -> NamedSpan | None:
        keys, stops = self._keys(text, at, known, numbers, follows=follows)
        start = text.words[at].start
        for length in self._dictionary.lengths(self.tag, keys):
            end = stops[length - 1]
            names = self._named(" ".join(keys[:length]), text.text[start : text.words[end - 1].end]) if end else {}
            if names:
                return NamedSpan((at, end), self.tag, names)
        return None

    def _keys(
        self, text: ScannedText, at: int, known: _Known, numbers: list[int], *, follows: bool
    ) -> tuple[list[str], list[int]]:
        """The forms of the words from one on that one name may hold; for each the word behind it, 0 inside a word."""
        words, cues, forms_of = text.words, self._inflector.numeral_cues, known.forms
        keys, stops, stop = list[str](), list[int](), at
        before = forms_of[numbers[at - 1]].forms if at else ()
        previous = before[-1].exact if before else ""
        more = True
        while more and len(keys) < _LONGEST:
            for form in () if _is_second_part(words, stop) and stop > at else forms_of[numbers[stop]].forms:
                keys.append(form.numeral if form.numeral is not None and previous in cues else form.form)
                stops.append(0)
                previous = form.exact
            stop += 1
            if stops and not (stop < len(words) and _is_second_part(words, stop)):
                stops[-1] = stop  # a name ends with a word
            more = follows if stop == at + 1 else stop < len(words) and self._joined(text, stop - 1, known)
        return keys, stops

    def _names(self, form: str, written: str) -> dict[int, str]:
        rows = self._dictionary.named(self.tag, form, written)
        return {self._part.rows.key(int(row)): route for row, route in rows.items()}


def _is_second_part(words: Sequence[ScannedWord], at: int) -> bool:
    """Whether a word is cut out of the same letters as the one before it."""
    return at > 0 and words[at - 1].start == words[at].start
