"""Signs that the encoding or the language that a user gave for all notes is wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from medlink.files.problems import is_utf8, pluralize
from medlink.language.languages import rows
from medlink.language.lexicon.lexicon import SHIPPED
from medlink.language.tags import base

_SAMPLE = 4_000  # characters of a note
_WORD = re.compile(r"[^\W\d_]+")
_CLEAR, _TIMES = 5, 4  # function words of the other language, and their ratio to those of the given language


class InputChecks:
    """Counts the notes that contradict the ``encoding`` and the ``language`` given for all notes."""

    def __init__(self, encoding: str, language: str | None) -> None:
        self._encoding = None if encoding.startswith("utf") else encoding
        self._language, self._words = base(language or ""), _function_words() if language else {}
        self._seen, self._beyond, self._utf8, self._others = 0, 0, 0, Counter[str]()

    def add(self, text: str) -> None:
        self._seen += 1
        sample = text[:_SAMPLE]
        if self._encoding is not None and not sample.isascii():
            self._beyond += 1
            self._utf8 += is_utf8(sample.encode(self._encoding, "ignore"))
        if self._language in self._words:
            words = Counter(_WORD.findall(sample.lower()))
            counts = {tag: sum(map(words.__getitem__, own & words.keys())) for tag, own in self._words.items()}
            other = max(counts, key=counts.__getitem__)
            self._others[other] += counts[other] >= max(_CLEAR, _TIMES * counts[self._language])

    def warnings(self) -> Iterator[str]:
        """Yield a warning about the encoding or the language if most notes contradict it."""
        if self._encoding is not None and 2 * self._utf8 > self._beyond:
            notes = pluralize(self._utf8, "note")
            yield f'{notes} read as {self._encoding.upper()}, but probably UTF-8: give encoding="utf-8"'
        del self._others[self._language]
        for other, count in self._others.most_common(1):
            if 2 * count > self._seen:
                notes = f"{count:,} of {pluralize(self._seen, 'note')}"
                yield f'{notes} probably in {other!r}, not in {self._language!r}: give language="{other}"'


@cache
def _function_words() -> dict[str, frozenset[str]]:
    """Function words of each language that no other language has."""
    languages: dict[str, set[str]] = {}
    for row in rows(SHIPPED / "function_words.tsv", "word", "language", "kind"):
        languages.setdefault(row["word"], set()).add(row["language"])
    own: dict[str, set[str]] = {}
    for word, tags in languages.items():
        if len(tags) == 1:
            own.setdefault(tags.pop(), set()).add(word)
    return {tag: frozenset(words) for tag, words in own.items()}
