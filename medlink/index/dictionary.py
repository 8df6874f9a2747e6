"""Exact and inflected lookup of names, and longest matches in running text, by one memory-mapped trie."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import marisa_trie
import numpy as np
from numpy.typing import NDArray

from medlink.errors import BundleError
from medlink.files.folders import remove
from medlink.index.arrays import REBUILD, RaggedArray, StringArray, StringWriter, save_array
from medlink.index.names import NameTable
from medlink.language.lexicon.forms import SHORT, WORD, LexiconForms
from medlink.language.scan import Place, ScannedText, ScannedWord
from medlink.language.tags import base
from medlink.language.text import Inflector, is_inflection, normalise

_TRIE = "forms.marisa"
_EXACT = "=:"  # prefix of the key of an exact form, which has no language
_LONGEST = 16  # words of the longest name
# Between two words of one name there may be blanks, one line end, hyphens, slashes, apostrophes.
_INSIDE = re.compile(r"(?:[^\S\n]|-|–|/|')*\n?(?:[^\S\n]|-|–|/|')*")
_WIDEST = 20  # characters between two words of one name
_COMMA = re.compile(r"\s*,\s*")
_CACHED_SPANS = 1 << 16
_CACHED_PAIRS = 1 << 18


@dataclass(frozen=True, slots=True)
class Match:
    """A span of text, by character offsets, that is a name of ``language``; ``rows`` maps the keys of the names to
    ``exact`` or ``inflected``."""

    start: int
    end: int
    language: str
    words: int
    rows: dict[int, str]


class NameDictionary:
    """Stemmed forms of all names, each by the rules of its language.

    The key of a stemmed form is ``language:form `` with a blank after every word, so a prefix that is a key ends with a
    word. The key of an exact form is ``=:form``. A region counts as its language, and a name without a language belongs
    to every language.
    """

    def __init__(self, folder: Path, names: NameTable) -> None:
        self._trie, self._rows, self._names = marisa_trie.Trie(), RaggedArray.open(folder, "form_rows"), names
        self._tags: dict[str | None, list[str]] = {}
        try:
            self._trie.mmap(str(folder / _TRIE))
        except (OSError, RuntimeError) as error:
            message = f"the dictionary cannot be read: {error}"
            raise BundleError(message, path=folder / _TRIE, remedy=REBUILD) from error

    @classmethod
    def build(cls, folder: Path, names: NameTable, lexicon: LexiconForms) -> NameDictionary:
        """Fill a folder from a table of names; a file holds the forms until the trie numbers them."""
        draft = folder / "forms"
        draft.mkdir()
        owner = array("i")
        with StringWriter(draft, "forms") as writer:
            for row, form in _iter_keys(names, lexicon):
                writer.append(form)
                owner.append(row)
        forms = StringArray(draft, "forms")
        trie = marisa_trie.Trie(forms)
        (folder / _TRIE).write_bytes(trie.tobytes())
        number = np.fromiter(map(trie.key_id, forms), np.int32, len(forms))
        del forms
        remove(draft)
        width = max(len(names), 1)
        number, rows = np.divmod(np.unique(number.astype(np.int64) * width + np.array(owner, np.int64)), width)
        save_array(folder, "form_rows.ends", np.searchsorted(number, np.arange(len(trie) + 1)))
        save_array(folder, "form_rows.values", rows.astype(np.int32))
        return cls(folder, names)

    def tags(self, language: str | None) -> list[str]:
        """Return the language tags whose names match a language; by default all tags."""
        if language not in self._tags:
            known = self._names.languages
            self._tags[language] = [t for t in known if language is None or not t or base(t) == base(language)]
        return self._tags[language]

    def lookup(
        self, text: str, language: str | None, norm: str, inflector: Callable[[str], Inflector]
    ) -> dict[int, str]:
        """Return the rows of a mention with their routes; see :meth:`medlink.index.ConceptIndex.lookup`."""
        routes = dict.fromkeys(self._rows_of(_EXACT + norm), "exact")
        for tag in self.tags(language):
            routes |= self._inflected(tag, inflector(tag).form(text), text, routes)
        return routes

    def exact_rows(self, norms: Sequence[str]) -> NDArray[np.int64]:
        """Return the rows ``(n,)`` of exact forms, -1 for a form that no name has."""
        rows = np.array([self._trie.get(_EXACT + norm, -1) for norm in norms], np.int64)
        rows[rows >= 0] = self._rows.take(rows[rows >= 0])[1]
        return rows

    def _rows_of(self, key: str) -> Sequence[int]:
        number = self._trie.get(key)
        return () if number is None else self._rows[number]

    def _inflected(self, tag: str, form: str, text: str, exact: Container[int]) -> dict[int, str]:
        rows = (row for row in self._rows_of(f"{tag}:{form} ") if row not in exact)
        spellings = self._names.spellings
        return {row: "inflected" for row in rows if any(is_inflection(text, n, tag) for n in spellings(row, tag))}

    def begins(self, tag: str, forms: Sequence[str]) -> bool:
        """Return whether a name of a language begins with these stemmed words."""
        return next(self._trie.iterkeys(f"{tag}:{' '.join(forms)} "), None) is not None

    def has(self, tag: str, form: str) -> bool:
        """Return whether a name of a language has this stemmed form."""
        return f"{tag}:{form} " in self._trie

    def beginning(self, letters: str, limit: int) -> list[str]:
        """Return at most ``limit`` normalised names that begin with the given letters."""
        return [key[len(_EXACT) :] for key in islice(self._trie.iterkeys(_EXACT + letters), limit)]

    def lengths(self, tag: str, forms: Sequence[str]) -> list[int]:
        """Return the numbers of leading words that together are the stemmed form of a name, largest first."""
        prefixes = self._trie.prefixes(f"{tag}:" + "".join([f"{form} " for form in forms]))
        return [key.count(" ") for key in reversed(prefixes)]

    def named(self, tag: str, form: str, text: str) -> dict[int, str]:
        """Look up a text by its stemmed form; return rows and routes, with exact matches in any language."""
        exact = dict.fromkeys(self._rows_of(_EXACT + normalise(text)), "exact")
        inflected = self._inflected(tag, form, text, exact)
        return exact | inflected if inflected or not exact.keys().isdisjoint(self._rows_of(f"{tag}:{form} ")) else {}


def _iter_keys(names: NameTable, lexicon: LexiconForms) -> Iterator[tuple[int, str]]:
    inflectors = {language: Inflector(language) for language in names.languages}
    languages = [names.languages[code] for code in names.language.tolist()]
    for row, norm in enumerate(names.norms):
        yield row, _EXACT + norm
        for number in names.rows[row]:
            text, tag = names.texts[number], languages[number]
            form = inflectors[tag].form(text)
            # a clipped word has no inflections: Thrombos (platelets) is not a form of Thrombose
            known = lexicon.find(WORD, base(tag), norm) if text.istitle() else ()
            if form and not (known and all(found.marks & SHORT for found in known)):
                yield row, f"{tag}:{form} "


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

    def __init__(self, begins: Callable[[list[str]], bool]) -> None:
        self.forms: list[_WordForms] = []
        self.single: dict[int, dict[int, str]] = {}

        @lru_cache(_CACHED_PAIRS)
        def continues(first: int, second: int) -> bool:
            one, following = self.forms[first].forms, self.forms[second].forms
            if not following or following[0].numeral is not None or one[0].numeral is not None:
                return bool(following)
            return begins([one[0].form, following[0].form])

        self.continues = continues


class NameScanner:
    """Find at each word of a scanned text the longest name of a dictionary with one language ``tag``.

    ``key`` maps rows to keys. A search starts only at a word that begins a name, and continues only if a name begins
    with this word and the next. Both checks are cached, by word and by pair of words.
    """

    def __init__(self, dictionary: NameDictionary, key: Callable[[int], int], tag: str, inflector: Inflector) -> None:
        self._dictionary, self._to_key, self.tag = dictionary, key, tag
        self._inflector, self._key = inflector, (id(self), tag)
        self._cached_names = lru_cache(_CACHED_SPANS)(self._names)

    def find(self, text: ScannedText) -> Iterator[NamedSpan]:
        """Yield the longest names at each word of a text."""
        words, table, numbers = text.words, text.table, text.numbers.tolist()
        cache: _TableCache = table.memo.get(self._key) or _TableCache(partial(self._dictionary.begins, self.tag))
        table.memo[self._key] = cache
        cache.forms += [self._forms(entry.written) for entry in table.entries[len(cache.forms) :]]
        begins = table.column(self._key, lambda entry: cache.forms[entry.number].begins, bool)
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

    def _forms(self, written: str) -> _WordForms:
        forms = tuple([_Form(*form) for form in self._inflector.formed(written)])
        starts = {forms[0].form, forms[0].numeral or forms[0].form} if forms else set()
        begins = any(self._dictionary.begins(self.tag, [form]) for form in starts)
        whole = begins and (len(forms) > 1 or any(self._dictionary.has(self.tag, form) for form in starts))
        return _WordForms(forms, begins, whole)

    def _joined(self, text: ScannedText, at: int, cache: _TableCache) -> bool:
        """Whether one name may contain two adjacent words, by the characters between them."""
        word, following = text.words[at], text.words[at + 1]
        if word.start == following.start:
            return True
        gap = self._inflector.gap(text.text[word.end : following.start])
        if gap in (" ", "-") or (len(gap) <= _WIDEST and _INSIDE.fullmatch(gap)):
            return True
        forms = cache.forms[following.entry.number].forms if len(gap) <= _WIDEST and _COMMA.fullmatch(gap) else ()
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
        words, cues, word_forms = text.words, self._inflector.numeral_cues, cache.forms
        # the forms of the words that a name from here may contain, and the word after each, 0 inside a word
        keys, stops, stop, more = list[str](), list[int](), at, True
        before = word_forms[numbers[at - 1]].forms if at else ()
        previous = before[-1].exact if before else ""
        while more and len(keys) < _LONGEST:
            for form in () if _is_second_part(words, stop) and stop > at else word_forms[numbers[stop]].forms:
                keys.append(form.numeral if form.numeral is not None and previous in cues else form.form)
                stops.append(0)
                previous = form.exact
            stop += 1
            if stops and not (stop < len(words) and _is_second_part(words, stop)):
                stops[-1] = stop  # a name ends at the end of a word
            more = follows if stop == at + 1 else stop < len(words) and self._joined(text, stop - 1, cache)
        for length in self._dictionary.lengths(self.tag, keys):
            end = stops[length - 1]
            written = text.text[words[at].start : words[end - 1].end]
            if end and (names := self._cached_names(" ".join(keys[:length]), written)):
                return NamedSpan((at, end), self.tag, names)
        return None

    def _names(self, form: str, written: str) -> dict[int, str]:
        rows = self._dictionary.named(self.tag, form, written)
        return {self._to_key(int(row)): route for row, route in rows.items()}


def _is_second_part(words: Sequence[ScannedWord], at: int) -> bool:
    """Whether a word comes from the same letters as the word before it."""
    return at > 0 and words[at - 1].start == words[at].start
