"""Phrases that exclude mentions inside or next to them: *Stroke-Unit*, *screening for X*, *X prophylaxis*."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from itertools import accumulate

from medlink.language.cues import Phrases, Text
from medlink.language.languages import Language, alternatives, per_language, rows

_MENTION = "<>"


class NoMentions:
    """The phrases of one language (``no_mentions.tsv``).

    In a phrase, ``<>`` stands for the mention to exclude: ``screening for <>``, ``<> prophylaxis``. If letters follow
    directly, the phrase excludes every word with this ending: ``<>sprechstunde``. A phrase without ``<>`` excludes all
    mentions inside it.
    """

    def __init__(self) -> None:
        self._whole = Phrases[None]()
        self._before, self._behind = Phrases[int](), Phrases[int]()
        self._both = set[int]()
        self._endings: tuple[str, ...] = ()
        self._count = 0

    def add(self, phrase: str) -> None:
        """Add a phrase; it may have alternatives in brackets, see :func:`medlink.language.cues.variants`."""
        before, sign, behind = phrase.partition(_MENTION)
        if not sign:
            self._whole.add(phrase, None)
        elif behind[:1].isalpha():
            self._endings += (behind,)
        else:
            self._count += 1
            if before.strip() and behind.strip():
                self._both.add(self._count)
            if before.strip():
                self._before.add(before.strip(), self._count)
            if behind.strip():
                self._behind.add(behind.strip(), self._count)

    def inside(self, text: Text) -> Callable[[int, int], bool]:
        """Return a function of start and end, in characters, that tells whether a mention there is excluded."""
        spans = sorted({text.span(start, end) for start, end, _ in self._whole.found(text)})
        starts = [start for start, _ in spans]
        ends = list(accumulate((end for _, end in spans), max))
        before, behind = defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
        for _, last, numbers in self._before.found(text):
            if last < len(text.words):
                before[text.words[last].start].update(numbers)
        for first, _, numbers in self._behind.found(text):
            if first:
                behind[text.words[first - 1].end].update(numbers)

        compounds = self._compounds(text) if self._endings else {}

        def is_excluded(start: int, end: int) -> bool:
            known = bisect_right(starts, start)
            if known > 0 and ends[known - 1] >= end:
                return True
            left, right = before.get(start, set()), behind.get(end, set())
            beside = (left | right) - self._both or left & right
            return bool(beside) or start >= compounds.get(end, end)

        return is_excluded

    def _compounds(self, text: Text) -> dict[int, int]:
        """Words with one of the endings, together with hyphenated parts: end and start, in characters."""
        found, start = dict[int, int](), 0
        for at, word in enumerate(text.words):
            start = start if at and text.words[at - 1].end == word.start else word.start
            if word.low.endswith(self._endings):
                found[word.end] = start
        return found


@per_language
def no_mentions(data: Language) -> NoMentions:
    """Return the phrases of a language, none without a table; raises InputError if a row cannot be read."""
    found = NoMentions()
    for row in rows(data.table("no_mentions"), "phrase", "source", "example"):
        phrases = alternatives(row["phrase"])
        if not all(phrases) or not row["source"]:
            raise row.error("a phrase and its source expected", "fill both cells")
        for phrase in phrases:
            found.add(phrase)
    return found
