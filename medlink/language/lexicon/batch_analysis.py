"""Analyse many names at once, as arrays.

Each distinct word is analysed once and gets a number; a name becomes a list of numbers. Two steps depend on other words
of the name, so they run name by name: the sense of an ambiguous word, and phrases.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.language.exact import normalise_all
from medlink.language.lexicon.name_analysis import AnalysedWord, LexicalAnalyser

_CACHED = 65_536  # words
_BITS = 26  # of the number of a word
_LANGUAGES = 63 - 2 * _BITS  # a bit for each language and the numbers of two words fill an integer
_MASK = (1 << _BITS) - 1
_Ints = NDArray[np.int64]
_Languages = Sequence[str | None] | None
_FoundPhrases = list[tuple[int, int, int, tuple[int, ...]]]


class AnalysedBatch(NamedTuple):
    """n analysed names: the words of name i have the numbers ``word[ends[i]:ends[i + 1]]`` in ``words``.

    Numbers stay valid as long as ``words`` is the same list. ``phrases`` are tuples of the name, the position of the
    first word, the position after the last word, and the meanings, in the order of names.
    """

    ends: _Ints
    word: _Ints
    words: list[AnalysedWord]
    phrases: _FoundPhrases

    @property
    def owner(self) -> _Ints:
        """The index of the name to which each word belongs ``(words,)``."""
        return np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))


class WordValues:
    """Weighted numbers for each distinct word, such as its features; computed once for each word."""

    def __init__(self, values: Callable[[AnalysedWord], Iterable[tuple[int, float]]]) -> None:
        self._values_of = values
        self._clear([])

    def _clear(self, words: list[AnalysedWord]) -> None:
        self._words, self._ends = words, array("q", [0])
        self._values, self._weights = array("q"), array("f")

    def of(self, batch: AnalysedBatch) -> tuple[_Ints, _Ints, NDArray[np.float32]]:
        """Return the values of the words of a batch: position of the word, value and weight ``(m,)``, by position."""
        if batch.words is not self._words:
            self._clear(batch.words)
        for word in batch.words[len(self._ends) - 1 :]:
            for value, weight in self._values_of(word):
                self._values.append(value)
                self._weights.append(weight)
            self._ends.append(len(self._values))
        ends = np.frombuffer(self._ends, np.int64)
        counts = np.diff(ends)[batch.word]
        at = np.repeat(ends[batch.word] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        position = np.repeat(np.arange(len(batch.word)), counts)
        return position, np.frombuffer(self._values, np.int64)[at], np.frombuffer(self._weights, np.float32)[at]


class _Vocabulary(dict[str, int]):
    """Numbers of distinct words in the order of appearance, and the words by number."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self.texts)
        self.texts.append(text)
        return number


class BatchAnalyser:
    """Analyse many names at once, with the same results as :meth:`LexicalAnalyser.read`; caches words."""

    def __init__(self, analyser: LexicalAnalyser) -> None:
        self._analyser, self.forms = analyser, analyser.forms
        self._languages = analyser.languages
        if len(self._languages) > _LANGUAGES:
            message = f"a lexicon of {len(self._languages)} languages, at most {_LANGUAGES} allowed"
            raise ConfigError(message, remedy="leave out folders of languages")
        self._clear()

    def _clear(self) -> None:
        self._tokens = _Vocabulary()
        self._numbers: dict[Any, int] = {}  # of words, by token and languages, or by word and sense
        self._words: list[AnalysedWord] = []
        self._depends, self._opens = bytearray(), bytearray()  # by number
        self._knowing = array("b")  # by token and language
        self._begins = lru_cache(_CACHED)(self._find_begins)

    def read(self, texts: Sequence[str], languages: _Languages = None) -> AnalysedBatch:
        """Analyse names in their languages; without a language, in the languages that have most of the name's words."""
        return self.read_tokens([form.split() for form in normalise_all(texts)], languages)

    def read_tokens(self, tokens: Sequence[Sequence[str]], languages: _Languages = None) -> AnalysedBatch:
        """Analyse names like :meth:`read`, from the words of their exact forms."""
        if max(len(self._tokens), len(self._words)) >= _CACHED:
            self._clear()
        ends = np.cumsum([0, *map(len, tokens)])
        token = np.fromiter(map(self._tokens.__getitem__, chain.from_iterable(tokens)), np.int64, int(ends[-1]))
        bits = self._language_bits(token, ends, languages)
        owner = np.repeat(np.arange(len(tokens)), np.diff(ends))
        key = (bits[owner] << _BITS) | token
        new, at = np.unique(key, return_inverse=True)
        number = np.array([self._number(word_key) for word_key in new.tolist()], np.int64)[at]
        phrases = self._phrases(tokens, ends, key, number, bits)
        for position in np.flatnonzero(_as_array(self._depends)[number]).tolist():
            name = int(owner[position])
            number[position] = self._disambiguate(int(number[position]), tokens[name], self._tags(int(bits[name])))
        return AnalysedBatch(ends, number, self._words, phrases)

    def _language_bits(self, token: _Ints, ends: _Ints, languages: _Languages) -> _Ints:
        bit_of = {tag: 1 << at for at, tag in enumerate(self._languages)}
        bits = np.zeros(len(ends) - 1, np.int64)
        if languages is not None:
            known = {tag: bit_of.get((tag or "").partition("-")[0], 0) for tag in set(languages)}
            bits[:] = [known[tag] for tag in languages]
        unknown = np.flatnonzero(bits == 0)
        if len(unknown) and self._languages:
            for text in self._tokens.texts[len(self._knowing) // len(self._languages) :]:
                self._knowing.extend(self._analyser.knowing(text))
            knowing = _as_array(self._knowing).reshape(-1, len(self._languages))[token]
            sums = np.concatenate([np.zeros((1, len(self._languages)), np.int64), np.cumsum(knowing, axis=0)])
            counts = sums[ends[unknown + 1]] - sums[ends[unknown]]
            most = counts == counts.max(axis=1, keepdims=True)
            bits[unknown] = most @ np.array(list(bit_of.values()))
        return bits

    def _tags(self, bits: int) -> tuple[str, ...]:
        return tuple([tag for at, tag in enumerate(self._languages) if bits >> at & 1])

    def _number(self, key: int) -> int:
        number = self._numbers.get(key)
        if number is None:
            tags, analyser = self._tags(key >> _BITS), self._analyser
            token = self._tokens.texts[key & _MASK]
            word = analyser.word(token, tags)
            depends = analyser.depends(word, tags)
            if len(word.meanings) > 1 and not depends:
                word = analyser.disambiguate(word, (token,), tags)
            number = self._add(key, word, depends=depends, opens=any(analyser.opens(token, tag) for tag in tags))
        return number

    def _add(self, key: Any, word: AnalysedWord, *, depends: bool = False, opens: bool = False) -> int:
        number = self._numbers[key] = len(self._words)
        self._words.append(word)
        self._depends.append(depends)
        self._opens.append(opens)
        return number

    def _disambiguate(self, number: int, tokens: Sequence[str], tags: tuple[str, ...]) -> int:
        word = self._analyser.disambiguate(self._words[number], tokens, tags)
        key = (number, word.meanings)
        known = self._numbers.get(key)
        return self._add(key, word) if known is None else known

    def _phrases(
        self, tokens: Sequence[Sequence[str]], ends: _Ints, key: _Ints, number: _Ints, bits: _Ints
    ) -> _FoundPhrases:
        opens = _as_array(self._opens)[number].astype(bool)
        opens[ends[1:][np.diff(ends) > 0] - 1] = False  # the last word of a name
        at = np.flatnonzero(opens)
        phrases: _FoundPhrases = []
        if not len(at):
            return phrases
        name = np.searchsorted(ends, at, "right") - 1
        pairs, which = np.unique((key[at] << _BITS) | (key[at + 1] & _MASK), return_inverse=True)
        begins = np.array([self._begins(pair) for pair in pairs.tolist()])[which]
        behind, starts = 0, ends.tolist()
        for position, owner in zip(at[begins].tolist(), name[begins].tolist(), strict=True):
            if position < behind:
                continue
            start = starts[owner]
            phrase = self._analyser.phrase(tokens[owner], position - start, self._tags(int(bits[owner])))
            if phrase is not None:
                phrases.append((owner, position - start, phrase.stop, phrase.meanings))
                behind = start + phrase.stop
        return phrases

    def _find_begins(self, pair: int) -> bool:
        """Whether a phrase begins with two words."""
        first, second = self._tokens.texts[pair >> _BITS & _MASK], self._tokens.texts[pair & _MASK]
        return any(self._analyser.opens_two(first, second, tag) for tag in self._tags(pair >> 2 * _BITS))


def _as_array(column: bytearray | array[int]) -> NDArray[np.int8]:
    """View a growing column; it cannot grow while the view lives."""
    return np.frombuffer(column, np.int8)
