"""Phrases with alternatives, and where a text has them: a prefix tree over words and marks."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from medlink.language.text import APOSTROPHE, INVISIBLE

RULE = 8
"""Characters from which a run of one mark is a single word, as in ``--------``."""
LETTERS = rf"[^\W_]+(?:[\u0300-\u036f{INVISIBLE}]+[^\W_]*)*"
DECIMAL = r"(?<!\d[.,])\d++[.,]\d++(?![.,]\d)"  # no part of a date such as 12.03.2010
_PLAIN = re.compile(rf"{DECIMAL}|{LETTERS}(?:[{APOSTROPHE}]{LETTERS})*|[^\w\s]|_")
_TOKEN = re.compile(rf"([^\w\s]|_)\1{{{RULE - 1},}}|{_PLAIN.pattern}")
_RUN = re.compile(rf"([^\w\s]|_)\1{{{RULE - 1}}}")
_APOSTROPHE, _INVISIBLE = re.compile(f"[{APOSTROPHE}]"), re.compile(f"[{INVISIBLE}]")
_SEGMENT = re.compile(r"(?:\[[^\]]*\]|[^\s\[])+")
_CHOICE = re.compile(r"\[([^\]]*)\]")

_V = TypeVar("_V")


class Word(NamedTuple):
    """A word or a mark of a text with its character offsets; ``low`` is ``text`` in lower case."""

    start: int
    end: int
    text: str
    low: str

    @property
    def is_mark(self) -> bool:
        """Whether it has neither letters nor digits."""
        return not self.low[:1].isalnum()


def parts(text: str) -> list[str]:
    """Words and marks of a text: hyphens, slashes and dots part words, an apostrophe inside one does not.

    A number with one decimal comma or dot is a word, and so is a run of at least :data:`RULE` equal marks. Only blanks
    lie between two parts.
    """
    return [found[0] for found in _TOKEN.finditer(text)] if _RUN.search(text) else _PLAIN.findall(text)


def words(text: str) -> list[Word]:
    """The :func:`parts` of a text.

    >>> [word.low for word in words("V.a. Sepsis, doesn’t help 7,5 mg am 1.2.2010 ----------")]
    ['v', '.', 'a', '.', 'sepsis', ',', "doesn't", 'help', '7,5', 'mg', 'am', '1', '.', '2', '.', '2010', '----------']
    """
    found, end, new = list[Word](), 0, tuple.__new__  # a NamedTuple without the call of its constructor
    read = parts(text)
    known = {part: (part if part.isascii() else spelling(part)) for part in set(read)}
    lower = {part: plain.lower() for part, plain in known.items()}
    for part in read:
        start = text.find(part, end)
        end = start + len(part)
        found.append(new(Word, (start, end, known[part], lower[part])))
    return found


def spelling(token: str) -> str:
    """How a token is compared: composed, with straight apostrophes and without invisible characters."""
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", _APOSTROPHE.sub("'", token))) or token


def is_number(low: str) -> bool:
    """Whether a word is a whole or decimal number without letters: ``7`` or ``7,5``, not ``7h``."""
    return low[:1].isdecimal() and (low.isdecimal() or low.replace(",", "").replace(".", "").isdecimal())


class Text:
    """The words of a text, and the places at which each of them stands, by its lower case."""

    def __init__(self, found: Sequence[Word]) -> None:
        self.words = found
        self.places = defaultdict[str, list[int]](list)
        for at, word in enumerate(found):
            self.places[word.low].append(at)

    def places_of(self, lows: Collection[str]) -> list[int]:
        """The places of all these words, in order."""
        return sorted([at for low in self.places.keys() & lows for at in self.places[low]])

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The characters of some words, by the first and the one behind the last."""
        return self.words[start].start, self.words[end - 1].end


def any_within(places: Sequence[int], start: int, end: int) -> bool:
    """Whether one of some places, which are in order, lies from ``start`` to before ``end``."""
    at = bisect_left(places, start)
    return at < len(places) and places[at] < end


def variants(text: str) -> list[str]:
    """What brackets stand for.

    >>> variants("kein[e|er|]")
    ['keine', 'keiner', 'kein']
    """
    found = [""]
    for number, part in enumerate(_CHOICE.split(text)):
        found = [one + choice for one in found for choice in (part.split("|") if number % 2 else (part,))]
    return found


class Found(NamedTuple, Generic[_V]):
    """A phrase in a text: its first word, the one behind its last, and its values."""

    start: int
    end: int
    values: list[_V]


class Phrases(Generic[_V]):
    """Phrases with a value each. A word with a capital stands for itself alone, any other for all its spellings.

    >>> phrases = Phrases()
    >>> phrases.add("V.[ |]a.", 1)
    >>> phrases.add("kein[e|]", 2)
    >>> [list(phrases.at(words(text), 0)) for text in ("V. a. Sepsis", "v.a. nachts", "KEIN Fieber")]
    [[(4, [1])], [], [(1, [2])]]
    """

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}

    def add(self, phrase: str, value: _V) -> None:
        """Add a phrase; brackets in it hold alternatives, between bars, that may be empty."""
        nodes = [self._root]
        for segment in _SEGMENT.findall(phrase):
            reached = {}
            for variant in variants(segment):
                keys = [word.text for word in words(variant)]
                for node in nodes:
                    end = node
                    for key in keys:
                        end = end.setdefault(key, {})
                    reached[id(end)] = end
            nodes = list(reached.values())
        for node in nodes:
            node.setdefault("", []).append(value)
        self.__dict__.pop("_followers", None)

    def found(self, text: Text) -> list[Found[_V]]:
        """Find all phrases in a text, in the order of their first words; of one first word the shortest comes first."""
        words, starts, last = text.words, list[int](), len(text.words) - 1
        for low in text.places.keys() & self._followers.keys():
            follow = self._followers[low]
            starts += [at for at in text.places[low] if "" in follow or (at < last and words[at + 1].low in follow)]
        return [Found(start, end, values) for start in sorted(starts) for end, values in self.at(words, start)]

    @cached_property
    def _followers(self) -> dict[str, set[str]]:
        followers = dict[str, set[str]]()
        for first, node in self._root.items():
            followers.setdefault(first.lower(), set()).update(map(str.lower, node))
        return followers

    def at(self, words: Sequence[Word], start: int) -> Iterator[tuple[int, list[_V]]]:
        """Find where phrases that begin at a word end, with their values."""
        nodes = [self._root]
        for place in range(start, len(words)):
            _, _, text, low = words[place]
            reached = []
            for node in nodes:
                if low in node:
                    reached.append(node[low])
                if text != low and text in node:
                    reached.append(node[text])
            for node in reached:
                if "" in node:
                    yield place + 1, node[""]
            if not reached:
                return
            nodes = reached
