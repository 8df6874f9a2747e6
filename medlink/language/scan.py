"""Scan texts into tokens, analysed words, clauses and phrases; each distinct word is analysed once.

A token is a word or a mark. Words are split as :func:`medlink.language.text.normalise` splits names: hyphens, slashes
and punctuation separate them, but an apostrophe inside a word does not. A decimal number is one word, and a plus
belongs to a formula (*CD4+*). A run of eight or more equal marks is one token.
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

from medlink.language.cues import Text, Token, parts, spelling
from medlink.language.languages import language_data
from medlink.language.lexicon.forms import SHORT, WORD
from medlink.language.lexicon.name_analysis import AnalysedWord, LexicalAnalyser
from medlink.language.tags import base
from medlink.language.text import Inflector, elision, normalise

# end of a clause between two words: stops, brackets, bars, an empty line, a new list item, a dash
_BREAK = re.compile(r'[.;:!?()\[\]{},|•*"“”„<>=\t]|\n\s*\n|\n\s*[-•]|\s[-–]\s|(?:[^\w\s]|_){8}')
_SIGN = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*){4,}")  # a plus behind such a word marks a present finding
_FORMULA = 5  # letters of the longest formula in capitals ("NADPH+")
_CACHED_WORDS = 1 << 17
_CACHED_PAIRS = 1 << 20
# zero width space, word joiner and byte order mark between two letters may separate words or not
_BEFORE, _LETTERS = re.compile(r"[^\W_]+$"), re.compile(r"[^\W_]+")
_HIDDEN = re.compile(r"(?<=[^\W_])[\u200b\u2060\ufeff]+(?=[^\W_])")
_LONGEST = 100  # characters of the longest word that is cached
_SHORT_GAP = 12  # characters of the longest gap that is cached
_SHORT_WORD = 3  # letters of the longest word that is never an abbreviation

FINDING_KINDS = frozenset(("finding", "change"))
"""Kinds of words that a finding may consist of."""
Place = tuple[int, int]
"""A span of words: the first word, and the word after the last."""


@dataclass(slots=True, eq=False)
class WordEntry:
    """A distinct word: its number in a :class:`WordTable`, its spelling, its exact form and its analysis.

    ``kinds`` are the kinds of all its meanings and parts. ``opens`` are the languages that have phrases beginning with
    the word. ``memo`` caches results of other modules, under their own keys.
    """

    number: int
    written: str
    exact: str
    word: AnalysedWord
    kinds: frozenset[str]
    opens: tuple[str, ...]
    memo: dict[Any, Any] = field(default_factory=dict)


class WordTable:
    """The distinct words that a scanner has seen, by number, with columns of values for each word.

    A column computes the values of new words when it is used. ``pairs`` caches whether a phrase begins with two words.
    ``memo`` caches results of other modules, under their own keys.
    """

    def __init__(self, inflector: Inflector) -> None:
        self.inflector = inflector
        self.entries: list[WordEntry] = []
        self.memo: dict[Any, Any] = {}
        self.pairs: dict[tuple[int, int], bool] = {}
        self._columns: dict[Any, NDArray[Any]] = {}
        self._lists: dict[Any, tuple[array[int], array[int]]] = {}

    def column(self, key: Any, value: Callable[[WordEntry], Any], dtype: DTypeLike) -> NDArray[Any]:
        """Return a value, or a row of values, for each word ``(words, ...)``; ``key`` names the column."""
        column = self._columns.get(key)
        count = 0 if column is None else len(column)
        if column is None or count < len(self.entries):
            new = np.array([value(entry) for entry in self.entries[count:]], dtype)
            column = self._columns[key] = new if column is None or not count else np.concatenate([column, new])
        return column

    def lists(self, key: Any, values: Callable[[WordEntry], Iterable[int]]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a list of numbers for each word, as offsets ``(words + 1,)`` and numbers; ``key`` names the column."""
        offsets, numbers = self._lists.setdefault(key, (array("q", [0]), array("q")))
        for entry in self.entries[len(offsets) - 1 :]:
            numbers.extend(values(entry))
            offsets.append(len(numbers))
        return np.array(offsets, np.int64), np.array(numbers, np.int64)


class ScannedWord(NamedTuple):
    """A word of a text: its character offsets, the number of its clause, its entry, and values of the entry.

    A ``function`` word is an article, preposition or the like. ``meanings`` are the meanings of the word as a whole.
    ``finds`` is true for a word that may name a finding, or turn another word into one.
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
"""The fields of a :class:`ScannedWord` after its clause."""


@dataclass(frozen=True)
class ScannedText:
    """A text with its tokens, its words by clause, and the phrases of the lexicon with their meanings."""

    text: str
    tokens: list[Token]
    words: list[ScannedWord]
    phrases: dict[Place, tuple[int, ...]]
    table: WordTable  # numbers the words
    memo: dict[Any, Any] = field(default_factory=dict)  # results of other modules, under their own keys

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each word in the table."""
        return np.fromiter([word[3].number for word in self.words], np.int64, len(self.words))

    def where(self, column: NDArray[Any]) -> list[int]:
        """Return the positions of the words for which a column of the table is true."""
        positions: list[int] = np.flatnonzero(column[self.numbers]).tolist()
        return positions

    @cached_property
    def indexed(self) -> Text:
        """The tokens, indexed by their lower-case spelling."""
        return Text(self.tokens)

    @cached_property
    def starts(self) -> list[int]:
        """The position of the first character of each word."""
        return [word.start for word in self.words]

    @cached_property
    def ends(self) -> list[int]:
        """The position after the last character of each word."""
        return [word.end for word in self.words]

    def place(self, start: int, end: int) -> Place:
        """Return the span of words that a span of characters overlaps."""
        first = bisect_right(self.ends, start)
        return first, max(bisect_left(self.starts, end), first)

    def span(self, place: Place) -> tuple[int, int]:
        """Return the character offsets of a span of words."""
        return self.words[place[0]].start, self.words[place[1] - 1].end

    def written(self, place: Place) -> str:
        return self.text[self.words[place[0]].start : self.words[place[1] - 1].end]

    def meanings(self, place: Place) -> tuple[int, ...]:
        """Return the meanings of a single word or of a phrase."""
        return self.words[place[0]].meanings if place[1] - place[0] == 1 else self.phrases.get(place, ())


class _Analysed(NamedTuple):
    """A distinct token: its spelling, whether it is a mark, and the columns of its words."""

    plain: str
    low: str
    is_mark: bool
    words: tuple[_Columns, ...]


class Scanner:
    """Scan the texts of one language (BCP 47); analyses of distinct words are cached.

    ``is_name`` returns whether a word with a plus (*Rhesus+*), an allergen or an allergy is a name. A compound of an
    allergen, such as *Penicillinallergie*, has two tokens if the allergen is a name and the whole word is not.
    """

    def __init__(
        self, language: str, analyser: LexicalAnalyser, is_name: Callable[[str], bool] = lambda written: False
    ) -> None:
        self.language, self._analyser, self._base = language, analyser, base(language)
        self._is_name = is_name
        self._elided = elision(language_data(language))
        self._compounds = bool(language_data(language).forms.links)
        reactions = "|".join(language_data(language).forms.reactions)
        self._reaction = re.compile(reactions, re.IGNORECASE) if reactions else None
        # only for single words: in a text, each position would read all letters before a reaction
        self._allergy = re.compile(rf"(\w{{3,}})({reactions})", re.IGNORECASE)
        self._known: dict[tuple[str, ...], dict[str, _Analysed]] = {}
        self._table = WordTable(analyser.inflector(language))
        self._tags = (self._base,) if self._base in analyser.languages else None

    def scan(self, text: str) -> ScannedText:
        """Scan a text in linear time and memory."""
        return self.scan_all([text])[0]

    def scan_all(self, texts: Sequence[str]) -> list[ScannedText]:
        """Scan n texts with one common table of words."""
        if len(self._table.entries) > _CACHED_WORDS or len(self._table.pairs) > _CACHED_PAIRS:
            self._known, self._table = {}, WordTable(self._table.inflector)
        return [self._scan(text) for text in texts]

    def _scan(self, text: str) -> ScannedText:
        tags = self._tags or self._analyser.guess(normalise(text).split())
        known = self._known.setdefault(tags, {})
        written = text
        if _HIDDEN.search(text):  # as many blanks keep the offsets
            text = _HIDDEN.sub(lambda hidden: self._replace_hidden(hidden, tags), written)
        split = parts(text)
        if self._reaction is not None and self._reaction.search(text):
            split = [piece for part in split for piece in self._allergen_apart(part, tags)]
        analysed = [known.get(part) or self._analyse(part, tags) for part in split]
        end, new = 0, tuple.__new__  # faster than the constructor of a NamedTuple
        tokens = list[Token]()
        for part, token in zip(split, analysed, strict=True):
            start = text.find(part, end)  # only blanks lie between two tokens
            end = start + len(part)
            tokens.append(new(Token, (start, end, token.plain, token.low)))
        words = self._words(text, tokens, analysed, tags)
        return ScannedText(written, tokens, words, self._phrases(words, tags), self._table)

    def _allergen_apart(self, written: str, tags: tuple[str, ...]) -> tuple[str, ...]:
        """Split a compound such as *Penicillinallergie* if its allergen is a name, but the whole word is not."""
        compound = self._allergy.fullmatch(written)
        if not compound or not self._is_name(compound[1]):
            return (written,)
        meanings = self._analyser.word(normalise(written), tags).meanings
        is_name = any(map(self._is_name, (written, *(self._analyser.forms.names[one] for one in meanings))))
        return (written,) if is_name else (compound[1], compound[2])

    def _replace_hidden(self, hidden: re.Match[str], tags: tuple[str, ...]) -> str:
        """Replace invisible characters between two words of the lexicon by blanks, unless both together are a word."""
        text, (start, end) = hidden.string, hidden.span()
        before, behind = _BEFORE.search(text, max(start - _LONGEST, 0), start), _LETTERS.match(text, end)
        if before is None or behind is None:
            return hidden[0]
        first, second, both = (normalise(part) for part in (before[0], behind[0], before[0] + behind[0]))
        word = self._analyser.word(both, tags)
        # "Leberzyste" is a word, "FieberHusten" is not
        if word.meanings or (word.known and behind[0][0].islower() and self._compounds):
            return hidden[0]
        are_known = all(self._analyser.word(part, tags).known for part in (first, second))
        return " " * len(hidden[0]) if are_known else hidden[0]

    def _words(
        self, text: str, tokens: Sequence[Token], analysed: Sequence[_Analysed], tags: tuple[str, ...]
    ) -> list[ScannedWord]:
        words, clause, end, elided, new = list[ScannedWord](), 0, 0, self._elided, tuple.__new__
        for (start, stop, _, low), token in zip(tokens, analysed, strict=True):
            if token.is_mark:
                if low == "+":
                    end = self._take_formula(text, words, stop, tags) or end
                continue
            if elided is not None and (cut := elided.match(text, start, stop)):
                start = cut.end()  # noqa: PLW2901 # the word begins behind the elided one
            # the dot of an abbreviation before a small letter ends nothing: "bds. gering"
            if words and (start != end + 1 or text[end] != " ") and _breaks(text[end:start]):
                clause += text[end:start] != ". " or not text[start].islower()
            words += [new(ScannedWord, (start, stop, clause, *columns)) for columns in token.words]
            end = stop
        return words

    def _take_formula(self, text: str, words: list[ScannedWord], stop: int, tags: tuple[str, ...]) -> int:
        """Append the plus before ``stop`` to the last word if it belongs to a formula; return its end, or 0."""
        if not words or words[-1].end != stop - 1 or (stop < len(text) and text[stop].isalnum()):
            return 0
        last = words[-1]
        written = text[last.start : last.end]
        formula = written.isupper() and len(written) <= _FORMULA
        if _SIGN.fullmatch(written) and not formula and not self._is_name(f"{written}+"):
            return 0
        while words and words[-1].end == last.end:
            words.pop()
        for columns in (self._known[tags].get(f"{written}+") or self._analyse(f"{written}+", tags)).words:
            words.append(ScannedWord(last.start, stop, last.clause, *columns))
        return stop

    def _analyse(self, token: str, tags: tuple[str, ...]) -> _Analysed:
        plain, is_mark = spelling(token), not token[0].isalnum()
        cut = None if self._elided is None else self._elided.match(token)
        written = token[cut.end() :] if cut else token
        exact_forms = () if is_mark else normalise(written).split()
        words = tuple([self._columns(exact, written, tags) for exact in exact_forms])
        analysed = _Analysed(plain, plain.lower(), is_mark, words)
        if len(token) <= _LONGEST:
            self._known[tags][token] = analysed
        return analysed

    def _columns(self, exact: str, written: str, tags: tuple[str, ...]) -> _Columns:
        word, forms = self._analyser.word(exact, tags), self._analyser.forms
        meanings = {*word.meanings, *(meaning for part in word.parts for meaning in part)}
        if len(exact) <= _SHORT_WORD:
            # "ms" is not MS
            meanings = {form.meaning for form in forms.find(WORD, self._base, exact) if not form.marks & SHORT}
        kinds = frozenset([forms.kinds[meaning] for meaning in meanings])
        opens = tuple([tag for tag in tags if self._analyser.opens(exact, tag)])
        entry = WordEntry(len(self._table.entries), written, exact, word, kinds, opens)
        self._table.entries.append(entry)
        return entry, word.function, kinds, word.meanings, not FINDING_KINDS.isdisjoint(kinds)

    def opens_phrase(self, first: WordEntry, second: WordEntry) -> bool:
        """Whether phrases of the lexicon begin with two words."""
        pair = first.number, second.number
        opens = self._table.pairs.get(pair)
        if opens is None:
            opens = any(self._analyser.opens_two(first.exact, second.exact, tag) for tag in first.opens)
            self._table.pairs[pair] = opens
        return opens

    def _phrases(self, words: Sequence[ScannedWord], tags: tuple[str, ...]) -> dict[Place, tuple[int, ...]]:
        phrases, behind = dict[Place, tuple[int, ...]](), 0
        for at in [at for at, word in enumerate(words[:-1]) if word[3].opens]:
            clause, following = words[at].clause, words[at + 1]
            if at < behind or following.clause != clause or not self.opens_phrase(words[at].entry, following.entry):
                continue
            behind = at
            while behind < len(words) and words[behind].clause == clause:
                behind += 1
            exact = [word.entry.exact for word in words[at:behind]]
            longest = self._analyser.phrases(exact, tags)
            phrases.update({(at + first, at + stop): meanings for first, stop, meanings in longest})
        return phrases


def _breaks(gap: str) -> bool:
    return _breaks_short(gap) if len(gap) <= _SHORT_GAP else _BREAK.search(gap) is not None


@lru_cache(1 << 14)
def _breaks_short(gap: str) -> bool:
    return _BREAK.search(gap) is not None
