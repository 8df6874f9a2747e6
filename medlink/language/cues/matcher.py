"""Phrases with alternatives, and where a text has them: a prefix tree over words and marks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

_LETTERS = "(?:[^\\W_][\u0300-\u036f\u00ad]*)+"
_WORD = re.compile(rf"{_LETTERS}(?:['’]{_LETTERS})*|[^\w\s]|_")
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
        return not self.low[0].isalnum()


def words(text: str) -> list[Word]:
    """Words and marks of a text: hyphens, slashes and dots part words, an apostrophe inside one does not.

    >>> [word.low for word in words("V.a. Sepsis, doesn’t help")]
    ['v', '.', 'a', '.', 'sepsis', ',', "doesn't", 'help']
    """
    found, seen = [], dict[str, tuple[str, str]]()
    for match in _WORD.finditer(text):
        word = match[0]
        if word not in seen:
            plain = unicodedata.normalize("NFC", word.replace("’", "'").replace("\u00ad", ""))
            seen[word] = plain, plain.lower()
        found.append(Word(match.start(), match.end(), *seen[word]))
    return found


def variants(text: str) -> list[str]:
    """What brackets stand for.

    >>> variants("kein[e|er|]")
    ['keine', 'keiner', 'kein']
    """
    found = [""]
    for number, part in enumerate(_CHOICE.split(text)):
        found = [one + choice for one in found for choice in (part.split("|") if number % 2 else (part,))]
    return found


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

    def found(self, text: Sequence[Word]) -> list[tuple[int, int, list[_V]]]:
        """First word, word behind the last, and values of all phrases in a text."""
        root = self._root
        begins = (at for at, word in enumerate(text) if word.low in root or word.text in root)
        return [(start, end, values) for start in begins for end, values in self.at(text, start)]

    def at(self, text: Sequence[Word], start: int) -> Iterator[tuple[int, list[_V]]]:
        """Where phrases that begin at a word end, with their values."""
        nodes, place = [self._root], start
        while nodes and place < len(text):
            word = text[place]
            keys = (word.low,) if word.text == word.low else (word.low, word.text)
            nodes = [node[key] for node in nodes for key in keys if key in node]
            place += 1
            for node in nodes:
                if "" in node:
                    yield place, node[""]
