"""Phrases whose words are no finding, whatever name they are: ``no_mentions.tsv`` of a language."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from medlink.errors import InputError
from medlink.language.cues.matcher import Phrases, Text, words
from medlink.language.cues.tables import alternatives, rows
from medlink.language.languages import language_data


class NoMentions:
    """The phrases of one language in which nothing is a mention: *Stroke-Unit*, *Buenos Aires*, *flushed with*."""

    def __init__(self, phrases: Phrases[None]) -> None:
        self._phrases = phrases

    def find(self, text: str | Text) -> list[tuple[int, int]]:
        """Start and end of the phrases in a text, by characters, in order; they may overlap.

        >>> no_mentions("en").find("The joint was flushed with saline.")
        [(14, 26)]
        """
        read = Text(words(text)) if isinstance(text, str) else text
        spans = {(read.words[start].start, read.words[end - 1].end) for start, end, _ in self._phrases.found(read)}
        return sorted(spans)

    def inside(self, text: str | Text) -> Callable[[int, int], bool]:
        """What says whether some characters of a text, from start to end, lie in such a phrase."""
        found = self.find(text)
        starts = [start for start, _ in found]
        ends = list(accumulate((end for _, end in found), max))

        def lies_in(start: int, end: int) -> bool:
            """Whether one of the phrases holds these characters."""
            before = bisect_right(starts, start)
            return before > 0 and ends[before - 1] >= end

        return lies_in


def no_mentions(language: str) -> NoMentions:
    """The phrases of a language, read once in a process; none where it has no table.

    Raises:
        InputError: a row of the table cannot be read.
    """
    return _no_mentions(language_data(language).table("no_mentions"))


@lru_cache(maxsize=8)
def _no_mentions(path: Path | None) -> NoMentions:
    phrases: Phrases[None] = Phrases()
    for line, row in rows(path, ("phrase", "source", "example")) if path else ():
        for phrase in alternatives(row["phrase"]):
            if not phrase or not row["source"]:
                raise InputError("a phrase and its source expected", path=path, line=line, remedy="fill both cells")
            phrases.add(phrase, None)
    return NoMentions(phrases)
