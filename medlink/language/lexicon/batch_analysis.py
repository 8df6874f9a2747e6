"""Many names, read at once: what a :class:`FamilyReader` reads of each, as arrays.

Names are made of few words. Each word is read once; then it is a number, and names are lists of numbers. Only what
depends on the words beside it is looked at name by name: the sense of an ambiguous word, and phrases where two words
begin one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medlink.errors import ConfigError
from medlink.language.exact import normalise_all
from medlink.language.lexicon.reading import FamilyReader, Word

_MOST = 65_536  # words that are remembered at a time
_BITS = 26  # of the number of a word
_LANGUAGES = 63 - 2 * _BITS  # with a bit for each and two words a number is full
_MASK = (1 << _BITS) - 1


class Read(NamedTuple):
    """What n names say: the words of name i have the numbers ``word[ends[i]:ends[i + 1]]``.

    What is remembered of a number is void once ``words`` is another list. ``phrases`` are name, first word, the one
    behind the last, and meanings; in the order of names.
    """

    ends: NDArray[np.int64]
    word: NDArray[np.int64]
    words: list[Word]
    phrases: list[tuple[int, int, int, tuple[int, ...]]]

    @property
    def owner(self) -> NDArray[np.int64]:
        """The name of each word ``(words,)``."""
        return np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))


class WordValues:
    """Numbers with weights that words have, such as features with their shares; worked out once for each word."""

    def __init__(self, values: Callable[[Word], Iterable[tuple[int, float]]]) -> None:
        self._values_of = values
        self._clear([])

    def _clear(self, words: list[Word]) -> None:
        self._words, self._ends = words, array("q", [0])
        self._values, self._weights = array("q"), array("f")

    def of(self, read: Read) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """The values of the words of names: place among the words, value and weight ``(m,)``, in the order of words."""
        if read.words is not self._words:
            self._clear(read.words)
        for word in read.words[len(self._ends) - 1 :]:
            for value, weight in self._values_of(word):
                self._values.append(value)
                self._weights.append(weight)
            self._ends.append(len(self._values))
        ends = np.frombuffer(self._ends, np.int64)
        counts = np.diff(ends)[read.word]
        at = np.repeat(ends[read.word] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        place = np.repeat(np.arange(len(read.word)), counts)
        return place, np.frombuffer(self._values, np.int64)[at], np.frombuffer(self._weights, np.float32)[at]


class _Tokens(dict[str, int]):
    """Numbers of words, given in the order in which they come, and the words by number."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self.texts)
        self.texts.append(text)
        return number


class BulkReader:
    """Reads many names as :meth:`FamilyReader.read` reads each; remembers words for as long as it lives.

    Raises:
        ConfigError: the lexicon has more languages than can be told apart.
    """

    def __init__(self, reader: FamilyReader) -> None:
        self.reader = reader
        self._languages = reader.languages
        if len(self._languages) > _LANGUAGES:
            raise ConfigError(
                f"a lexicon of {len(self._languages)} languages, {_LANGUAGES} at most",
                remedy="leave out folders of languages",
            )
        self._clear()

    def _clear(self) -> None:
        self._tokens = _Tokens()
        self._numbers: dict[Any, int] = {}  # of words, by token and languages, or by word and sense
        self._words: list[Word] = []
        self._depends, self._opens = bytearray(), bytearray()  # by number
        self._knowing = array("b")  # by token and language
        self._pairs: dict[int, bool] = {}  # whether two words begin a phrase

    def read(self, texts: Sequence[str], languages: Sequence[str | None] | None = None) -> Read:
        """Read names in their languages, those without one in the languages that know most of their words."""
        return self.read_tokens([form.split() for form in normalise_all(texts)], languages)

    def read_tokens(self, tokens: Sequence[Sequence[str]], languages: Sequence[str | None] | None = None) -> Read:
        """Read names as :meth:`read` does, of each the words in their exact form."""
        if max(len(self._tokens), len(self._words), len(self._pairs)) >= _MOST:
            self._clear()
        ends = np.cumsum([0, *map(len, tokens)])
        total = int(ends[-1])
        token = np.fromiter(map(self._tokens.__getitem__, chain.from_iterable(tokens)), np.int64, total)
        asked = self._asked(token, ends, languages)
        owner = np.repeat(np.arange(len(tokens)), np.diff(ends))
        key = (asked[owner] << _BITS) | token
        new, at = np.unique(key, return_inverse=True)
        number = np.array([self._number(one) for one in new.tolist()], np.int64)[at]
        phrases = self._phrases(tokens, ends, key, number, asked)
        for place in np.flatnonzero(_of(self._depends)[number]).tolist():
            name = int(owner[place])
            number[place] = self._in_sense(int(number[place]), tokens[name], self._tags(int(asked[name])))
        return Read(ends, number, self._words, phrases)

    def _asked(
        self, token: NDArray[np.int64], ends: NDArray[np.int64], languages: Sequence[str | None] | None
    ) -> NDArray[np.int64]:
        """The languages in which each name is read ``(n,)``, a bit for each."""
        bits = {tag: 1 << at for at, tag in enumerate(self._languages)}
        asked = np.zeros(len(ends) - 1, np.int64)
        if languages is not None:
            known = {tag: bits.get((tag or "").partition("-")[0], 0) for tag in set(languages)}
            asked[:] = [known[tag] for tag in languages]
        open_ = np.flatnonzero(asked == 0)
        if len(open_) and self._languages:
            for text in self._tokens.texts[len(self._knowing) // len(self._languages) :]:
                self._knowing.extend(self.reader.knowing(text))
            knowing = _of(self._knowing).reshape(-1, len(self._languages))[token]
            sums = np.concatenate([np.zeros((1, len(self._languages)), np.int64), np.cumsum(knowing, axis=0)])
            counts = sums[ends[open_ + 1]] - sums[ends[open_]]
            most = counts == counts.max(axis=1, keepdims=True)
            asked[open_] = most @ np.array(list(bits.values()))
        return asked

    def _tags(self, asked: int) -> tuple[str, ...]:
        return tuple([tag for at, tag in enumerate(self._languages) if asked >> at & 1])

    def _number(self, key: int) -> int:
        found = self._numbers.get(key)
        if found is None:
            tags, reader = self._tags(key >> _BITS), self.reader
            token = self._tokens.texts[key & _MASK]
            word = reader.word(token, tags)
            depends = reader.depends(word, tags)
            if len(word.meanings) > 1 and not depends:
                word = reader.meant(word, (token,), tags)
            found = self._added(key, word, depends=depends, opens=any(reader.opens(token, tag) for tag in tags))
        return found

    def _added(self, key: Any, word: Word, *, depends: bool = False, opens: bool = False) -> int:
        found = self._numbers[key] = len(self._words)
        self._words.append(word)
        self._depends.append(depends)
        self._opens.append(opens)
        return found

    def _in_sense(self, number: int, tokens: Sequence[str], tags: tuple[str, ...]) -> int:
        word = self.reader.meant(self._words[number], tokens, tags)
        key = (number, word.meanings)
        found = self._numbers.get(key)
        return self._added(key, word) if found is None else found

    def _phrases(
        self,
        tokens: Sequence[Sequence[str]],
        ends: NDArray[np.int64],
        key: NDArray[np.int64],
        number: NDArray[np.int64],
        asked: NDArray[np.int64],
    ) -> list[tuple[int, int, int, tuple[int, ...]]]:
        first = _of(self._opens)[number].astype(bool)
        first[ends[1:][np.diff(ends) > 0] - 1] = False  # the last word of a name
        at = np.flatnonzero(first)
        found: list[tuple[int, int, int, tuple[int, ...]]] = []
        if not len(at):
            return found
        name = np.searchsorted(ends, at, "right") - 1
        pair = (key[at] << _BITS) | (key[at + 1] & _MASK)
        pairs, which = np.unique(pair, return_inverse=True)
        begins = np.array([self._begins(one) for one in pairs.tolist()])[which]
        behind, starts = 0, ends.tolist()
        for place, one in zip(at[begins].tolist(), name[begins].tolist(), strict=True):
            start = starts[one]
            phrase = (
                self.reader.phrase(tokens[one], place - start, self._tags(int(asked[one]))) if place >= behind else None
            )
            if phrase is not None:
                found.append((one, place - start, phrase.stop, phrase.meanings))
                behind = start + phrase.stop
        return found

    def _begins(self, pair: int) -> bool:
        begins = self._pairs.get(pair)
        if begins is None:
            texts = self._tokens.texts
            one, other = texts[pair >> _BITS & _MASK], texts[pair & _MASK]
            tags = self._tags(pair >> 2 * _BITS)
            begins = self._pairs[pair] = any(self.reader.opens_two(one, other, tag) for tag in tags)
        return begins


def _of(column: bytearray | array[int]) -> NDArray[np.int8]:
    """A growing column as an array, for a moment: it cannot grow meanwhile."""
    return np.frombuffer(column, np.int8)
