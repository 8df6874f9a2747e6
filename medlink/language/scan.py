"""Scan texts: tokens, words with what the lexicon knows of them, clauses and phrases, each word analysed once.

This is the one tokeniser of running text. A token is a word or a mark. Words are cut as
:func:`medlink.language.text.normalise` cuts names: hyphens, slashes and punctuation part them, an apostrophe inside one
does not, a decimal number is one word, and so is a plus that belongs to a formula (*CD4+*). A run of eight and more of
one mark is one token.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from medlink.language.cues import Text, parts, spelling
from medlink.language.cues import Word as Token
from medlink.language.languages import language_data
from medlink.language.lexicon.forms import SHORT, WORD
from medlink.language.lexicon.reading import FamilyReader, Word
from medlink.language.tags import base
from medlink.language.text import Inflector, elision, normalise

# What ends a clause between two words: stops, brackets, bars, an empty line, a new item of a list, a dash.
_BREAK = re.compile(r'[.;:!?()\[\]{},|•*"“”„<>=\t]|\n\s*\n|\n\s*[-•]|\s[-–]\s|(?:[^\w\s]|_){8}')
_SIGN = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*){4,}")  # a plus behind such a word says that a finding is there
_FORMULA = 5  # letters of the longest word in capitals that a plus belongs to ("NADPH+")
_WORDS = 1 << 17  # distinct words whose analysis is kept
# Between two letters, where it may part words or stand within one: zero width space, word joiner, byte order mark.
_BEFORE, _LETTERS = re.compile(r"[^\W_]+$"), re.compile(r"[^\W_]+")
_HIDDEN = re.compile(r"(?<=[^\W_])[\u200b\u2060\ufeff]+(?=[^\W_])")
_PAIRS = 1 << 20  # pairs of words of which is kept whether phrases begin with them
_LONGEST = 100  # characters of the longest word that is kept
_SHORT_GAP = 12  # characters between two words whose meaning is kept
_SHORT_WORD = 3  # letters of a word whose kind is that of the words of its language, not of abbreviations

FINDS = frozenset(("finding", "change"))
"""Kinds of the words of findings."""
Place = tuple[int, int]
"""A span by its first word and the word behind its last."""


class WordEntry:
    """A distinct word, analysed once: its number in its table, how it is written, its exact form, its reading.

    ``kinds`` are those of all its meanings and parts; ``opens`` the languages that have phrases that begin with it;
    ``memo`` holds what others worked out for it, under keys of their own.
    """

    __slots__ = ("exact", "kinds", "memo", "number", "opens", "word", "written")

    def __init__(
        self, number: int, written: str, exact: str, word: Word, kinds: frozenset[str], opens: tuple[str, ...]
    ) -> None:
        self.number, self.written, self.exact, self.word = number, written, exact, word
        self.kinds, self.opens = kinds, opens
        self.memo: dict[Any, Any] = {}


class WordTable:
    """The distinct words that a scanner met, by number, and columns of what is known of each.

    A column is worked out for the words that came since it was asked for the last time. ``pairs`` says whether phrases
    begin with two words; ``memo`` holds what others worked out for the table, under keys of their own.
    """

    def __init__(self, inflector: Inflector) -> None:
        self.inflector = inflector
        self.entries: list[WordEntry] = []
        self.memo: dict[Any, Any] = {}
        self.pairs: dict[tuple[int, int], bool] = {}
        self._columns: dict[Any, NDArray[Any]] = {}
        self._lists: dict[Any, tuple[array[int], array[int]]] = {}

    def column(self, key: Any, value: Callable[[WordEntry], Any], dtype: DTypeLike) -> NDArray[Any]:
        """A value, or a row of values, for each word ``(words, ...)``; ``key`` names the column."""
        held = self._columns.get(key)
        count = 0 if held is None else len(held)
        if held is None or count < len(self.entries):
            new = np.array([value(entry) for entry in self.entries[count:]], dtype)
            held = self._columns[key] = new if held is None or not count else np.concatenate([held, new])
        return held

    def lists(self, key: Any, values: Callable[[WordEntry], Iterable[int]]) -> tuple[NDArray[Any], NDArray[Any]]:
        """A list of numbers for each word: where each begins and the last ends ``(words + 1,)``, and the numbers."""
        ends, held = self._lists.setdefault(key, (array("q", [0]), array("q")))
        for entry in self.entries[len(ends) - 1 :]:
            held.extend(values(entry))
            ends.append(len(held))
        return np.array(ends, np.int64), np.array(held, np.int64)


class ScannedWord(NamedTuple):
    """A word of a text: its characters, the number of its clause, its entry, and columns of that.

    ``function`` words are articles, prepositions and the like. ``meanings`` are those of the word as a whole. A word
    ``finds`` that may name a finding, or make one of what it stands by.
    """

    start: int
    end: int
    clause: int
    entry: WordEntry
    function: bool
    kinds: frozenset[str]
    meanings: tuple[int, ...]
    finds: bool


_Columns = tuple[WordEntry, bool, frozenset[str], tuple[int, ...], bool]
"""The columns of a :class:`ScannedWord` behind its clause."""


@dataclass(frozen=True)
class ScannedText:
    """A text with its tokens, its words by clause, and the phrases of the lexicon with their meanings.

    Its words have numbers in a ``table``. ``memo`` holds what others worked out for the text, under keys of their own.
    """

    text: str
    tokens: list[Token]
    words: list[ScannedWord]
    phrases: dict[Place, tuple[int, ...]]
    table: WordTable
    memo: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each word in the table."""
        return np.fromiter([word[3].number for word in self.words], np.int64, len(self.words))

    def where(self, column: NDArray[Any]) -> list[int]:
        """The words for which a column of the table is true."""
        found: list[int] = np.flatnonzero(column[self.numbers]).tolist()
        return found

    @cached_property
    def indexed(self) -> Text:
        """The tokens, and the places of each of them."""
        return Text(self.tokens)

    @cached_property
    def starts(self) -> list[int]:
        """The first character of each word."""
        return [word.start for word in self.words]

    @cached_property
    def ends(self) -> list[int]:
        """The character behind the last of each word."""
        return [word.end for word in self.words]

    def place(self, start: int, end: int) -> Place:
        """The words that a span of characters touches."""
        first = bisect_right(self.ends, start)
        return first, max(bisect_left(self.starts, end), first)

    def span(self, place: Place) -> tuple[int, int]:
        """The characters of some words."""
        return self.words[place[0]].start, self.words[place[1] - 1].end

    def written(self, place: Place) -> str:
        """The text of some words."""
        return self.text[self.words[place[0]].start : self.words[place[1] - 1].end]

    def meanings(self, place: Place) -> tuple[int, ...]:
        """What some words mean as a whole: a word by itself, or a phrase."""
        return self.words[place[0]].meanings if place[1] - place[0] == 1 else self.phrases.get(place, ())


class _Analysed(NamedTuple):
    """A token as it is written: its columns, whether it is a mark, and the columns of the words that it holds."""

    plain: str
    low: str
    is_mark: bool
    words: tuple[_Columns, ...]


class Scanner:
    """Scan the texts of one language (BCP 47); distinct words are analysed once and kept, within a bound.

    ``is_name`` says of a word with a plus (*Rhesus+*) whether it is a name.
    """

    def __init__(
        self, language: str, reader: FamilyReader, is_name: Callable[[str], bool] = lambda written: False
    ) -> None:
        self.language, self._reader, self._base = language, reader, base(language)
        self._is_name = is_name
        self._elided = elision(language_data(language))
        self._compounds = bool(language_data(language).forms.links)
        self._known: dict[tuple[str, ...], dict[str, _Analysed]] = {}
        self._table = WordTable(reader.inflector(language))
        self._asked = (self._base,) if self._base in reader.languages else None

    def scan(self, text: str) -> ScannedText:
        """Scan a text; time and memory grow with its length alone."""
        return self.scan_all([text])[0]

    def scan_all(self, texts: Sequence[str]) -> list[ScannedText]:
        """Scan n texts, whose words are numbered in one table."""
        if len(self._table.entries) > _WORDS or len(self._table.pairs) > _PAIRS:
            self._known, self._table = {}, WordTable(self._table.inflector)
        return [self._scan(text) for text in texts]

    def _scan(self, text: str) -> ScannedText:
        asked = self._asked or self._reader.guess(normalise(text).split())
        known = self._known.setdefault(asked, {})
        written = text
        if _HIDDEN.search(text):  # the offsets stay those of the text as it is written
            text = _HIDDEN.sub(lambda one: " " * len(one[0]) if self._parts_words(one, asked) else one[0], written)
        read = parts(text)
        analysed = [known.get(part) or self._analyse(part, asked) for part in read]
        end, new = 0, tuple.__new__  # a NamedTuple without the call of its constructor
        tokens = list[Token]()
        for part, one in zip(read, analysed, strict=True):
            start = text.find(part, end)  # only blanks lie between two tokens
            end = start + len(part)
            tokens.append(new(Token, (start, end, one.plain, one.low)))
        words = self._words(text, tokens, analysed, asked)
        return ScannedText(written, tokens, words, self._phrases(words, asked), self._table)

    def _parts_words(self, hidden: re.Match[str], asked: tuple[str, ...]) -> bool:
        """Whether two words of the lexicon meet where nothing is seen, which are no word together."""
        text, (start, end) = hidden.string, hidden.span()
        before, behind = _BEFORE.search(text, max(start - _LONGEST, 0), start), _LETTERS.match(text, end)
        if before is None or behind is None:
            return False
        one, other, both = (normalise(part) for part in (before[0], behind[0], before[0] + behind[0]))
        word = self._reader.word(both, asked)
        # "Leberzyste" is a word, "FieberHusten" is none
        if word.meanings or (word.known and behind[0][0].islower() and self._compounds):
            return False
        return all(self._reader.word(part, asked).known for part in (one, other))

    def _words(
        self, text: str, tokens: Sequence[Token], analysed: Sequence[_Analysed], asked: tuple[str, ...]
    ) -> list[ScannedWord]:
        words, clause, end, elided, new = list[ScannedWord](), 0, 0, self._elided, tuple.__new__
        for (start, stop, _, low), one in zip(tokens, analysed, strict=True):
            if one.is_mark:
                if low == "+":
                    end = self._take_formula(text, words, stop, asked) or end
                continue
            if elided is not None and (cut := elided.match(text, start, stop)):
                start = cut.end()  # noqa: PLW2901 # the word begins behind what is elided
            if words and (start != end + 1 or text[end] != " ") and _breaks(text[end:start]):
                clause += 1
            words += [new(ScannedWord, (start, stop, clause, *columns)) for columns in one.words]
            end = stop
        return words

    def _take_formula(self, text: str, words: list[ScannedWord], stop: int, asked: tuple[str, ...]) -> int:
        """Give the last word a plus that ends at a character where it is of a formula; the end of the word, or 0."""
        if not words or words[-1].end != stop - 1 or (stop < len(text) and text[stop].isalnum()):
            return 0
        last = words[-1]
        written = text[last.start : last.end]
        formula = written.isupper() and len(written) <= _FORMULA
        if _SIGN.fullmatch(written) and not formula and not self._is_name(f"{written}+"):
            return 0
        while words and words[-1].end == last.end:
            words.pop()
        for columns in (self._known[asked].get(f"{written}+") or self._analyse(f"{written}+", asked)).words:
            words.append(ScannedWord(last.start, stop, last.clause, *columns))
        return stop

    def _analyse(self, token: str, asked: tuple[str, ...]) -> _Analysed:
        plain = spelling(token)
        low = plain.lower()
        if not token[0].isalnum():
            words: tuple[_Columns, ...] = ()
        else:
            cut = None if self._elided is None else self._elided.match(token)
            written = token[cut.end() :] if cut else token
            words = tuple([self._columns(exact, written, asked) for exact in normalise(written).split()])
        found = _Analysed(plain, low, not token[0].isalnum(), words)
        if len(token) <= _LONGEST:
            self._known[asked][token] = found
        return found

    def _columns(self, exact: str, written: str, asked: tuple[str, ...]) -> _Columns:
        word, forms = self._reader.word(exact, asked), self._reader.forms
        meant = {*word.meanings, *(meaning for part in word.parts for meaning in part)}
        if len(exact) <= _SHORT_WORD:
            # "ms" is not MS
            meant = {form.meaning for form in forms.find(WORD, self._base, exact) if not form.marks & SHORT}
        kinds = frozenset([forms.kinds[meaning] for meaning in meant])
        opens = tuple([tag for tag in asked if self._reader.opens(exact, tag)])
        entry = WordEntry(len(self._table.entries), written, exact, word, kinds, opens)
        self._table.entries.append(entry)
        return entry, word.function, kinds, word.meanings, not FINDS.isdisjoint(kinds)

    def _opens_two(self, one: WordEntry, other: WordEntry) -> bool:
        pair = one.number, other.number
        found = self._table.pairs.get(pair)
        if found is None:
            found = any(self._reader.opens_two(one.exact, other.exact, tag) for tag in one.opens)
            self._table.pairs[pair] = found
        return found

    def _phrases(self, words: Sequence[ScannedWord], asked: tuple[str, ...]) -> dict[Place, tuple[int, ...]]:
        found: dict[Place, tuple[int, ...]] = {}
        reader, behind = self._reader, 0
        for at in [at for at, word in enumerate(words[:-1]) if word[3].opens]:
            clause, other = words[at].clause, words[at + 1]
            if at < behind or other.clause != clause or not self._opens_two(words[at].entry, other.entry):
                continue
            behind = at
            while behind < len(words) and words[behind].clause == clause:
                behind += 1
            exact = [word.entry.exact for word in words[at:behind]]
            found.update({(at + first, at + stop): meant for first, stop, meant in reader.phrases(exact, asked)})
        return found


def _breaks(gap: str) -> bool:
    return _breaks_short(gap) if len(gap) <= _SHORT_GAP else _BREAK.search(gap) is not None


@lru_cache(1 << 14)
def _breaks_short(gap: str) -> bool:
    return _BREAK.search(gap) is not None
