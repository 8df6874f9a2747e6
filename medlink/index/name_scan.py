"""Find the names of an index in scanned text: to the letter or inflected, at each word the longest.

A name is looked for only where the index has names that begin with a word, and where a second word follows, with those
two. Both are known of each word, and of each pair of words, from then on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from medlink.index.part import Part
from medlink.language.scan import Place, ScannedText, ScannedWord, WordEntry
from medlink.language.text import Inflector

_LONGEST = 16  # words of the longest name that is looked for
# What may stand between two words of one name: a blank, one line end, hyphens, slashes, apostrophes.
_INSIDE = re.compile(r"(?:[^\S\n]|-|–|/|')*\n?(?:[^\S\n]|-|–|/|')*")
_WIDEST = 20  # characters between two words of one name
_COMMA = re.compile(r"\s*,\s*")
_KEPT = 1 << 16  # spans and pairs of words whose names are kept


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
    names: dict[float, str]


class NameScanner:
    """Find the names of one part of an index in one language, as names state it.

    Args:
        part: whose names are looked for.
        tag: the language of the names, by whose rules words are inflected.
    """

    def __init__(self, part: Part, tag: str) -> None:
        self._part, self._dictionary, self.tag = part, part.dictionary, tag
        self._inflector = Inflector(tag)
        self._key = (id(self), tag)
        self._named = lru_cache(_KEPT)(self._names)
        self._continue = lru_cache(_KEPT)(self._continues)

    def find(self, text: ScannedText) -> Iterator[NamedSpan]:
        """The longest names at each word of a text."""
        words, known = text.words, self._forms
        begins = text.table.column((self._key, "begins"), lambda entry: self._forms(entry).begins, bool)
        for at in text.where(begins):
            if _is_second_part(words, at):
                continue
            word_forms = known(words[at].entry)
            follows = at + 1 < len(words) and self._joined(text, at)
            if word_forms.whole or (follows and self._continue(word_forms.forms, known(words[at + 1].entry).forms[:1])):
                found = self._longest(text, at, follows=follows)
                if found is not None:
                    yield found

    def _forms(self, entry: WordEntry) -> _WordForms:
        """The forms of a word, which its entry keeps."""
        found: _WordForms | None = entry.memo.get(self._key)
        if found is not None:
            return found
        forms = tuple([_Form(*form) for form in self._inflector.formed(entry.written)])
        starts = {forms[0].form, forms[0].numeral or forms[0].form} if forms else set()
        begins = any(self._dictionary.begins(self.tag, [form]) for form in starts)
        whole = begins and (len(forms) > 1 or any(self._dictionary.has(self.tag, form) for form in starts))
        found = entry.memo[self._key] = _WordForms(forms, begins, whole)
        return found

    def _continues(self, forms: tuple[_Form, ...], following: tuple[_Form, ...]) -> bool:
        """Whether a name may begin with a word and the first part of the next one."""
        if not following or following[0].numeral is not None or forms[0].numeral is not None:
            return bool(following)
        return self._dictionary.begins(self.tag, [forms[0].form, following[0].form])

    def _joined(self, text: ScannedText, at: int) -> bool:
        """Whether a word and the next one may stand in one name."""
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
        following = self._forms(other.entry).forms
        return bool(following) and following[0].exact in self._inflector.numeral_cues

    def _longest(self, text: ScannedText, at: int, *, follows: bool) -> NamedSpan | None:
        """The longest name that begins at a word."""
        words, cues = text.words, self._inflector.numeral_cues
        keys, stops, stop = list[str](), list[int](), at
        before = self._forms(words[at - 1].entry).forms if at else ()
        previous = before[-1].exact if before else ""
        more = True
        while more and len(keys) < _LONGEST:
            for form in () if _is_second_part(words, stop) and stop > at else self._forms(words[stop].entry).forms:
                keys.append(form.numeral if form.numeral is not None and previous in cues else form.form)
                stops.append(0)
                previous = form.exact
            stop += 1
            if stops and not (stop < len(words) and _is_second_part(words, stop)):
                stops[-1] = stop  # a name ends with a word
            more = follows if stop == at + 1 else stop < len(words) and self._joined(text, stop - 1)
        start = words[at].start
        for length in self._dictionary.lengths(self.tag, keys):
            end = stops[length - 1]
            names = self._named(" ".join(keys[:length]), text.text[start : words[end - 1].end]) if end else {}
            if names:
                return NamedSpan((at, end), self.tag, names)
        return None

    def _names(self, form: str, written: str) -> dict[float, str]:
        """The keys of the names that a span is, with their routes."""
        rows = self._dictionary.named(self.tag, form, written)
        return {self._part.rows.key(int(row)): route for row, route in rows.items()}


def _is_second_part(words: Sequence[ScannedWord], at: int) -> bool:
    """Whether a word is cut out of the same letters as the one before it."""
    return at > 0 and words[at - 1].start == words[at].start
