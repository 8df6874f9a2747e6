"""Phrases that exclude mentions inside or next to them: *Stroke-Unit*, *screening for X*, *X prophylaxis*."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import accumulate

from medlink.language.cues import Phrases, Text
from medlink.language.languages import Language, alternatives, per_language, rows

_MENTION = "<>"


class NoMentions:
    """The phrases of one language (``no_mentions.tsv``).

    In a phrase, ``<>`` stands for the mention to exclude: ``screening for <>``, ``<> prophylaxis``. If letters follow
    directly, the phrase excludes every word with this ending: ``<>sprechstunde``. A phrase without ``<>`` excludes all
    mentions inside it. Phrases may have alternatives in brackets (:func:`medlink.language.cues.variants`).
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        self._whole, self._before, self._behind = Phrases[None](), Phrases[int](), Phrases[int]()
        self._both = set[int]()
        self._endings: tuple[str, ...] = ()
        for number, phrase in enumerate(phrases):
            before, sign, behind = phrase.partition(_MENTION)
            if not sign:
                self._whole.add(phrase, None)
            elif behind[:1].isalpha():
                self._endings += (behind,)
            else:
                for table, text in ((self._before, before.strip()), (self._behind, behind.strip())):
                    if text:
                        table.add(text, number)
                if before.strip() and behind.strip():
                    self._both.add(number)

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
        # words with one of the endings, together with hyphenated parts: end and start, in characters
        compounds, first, last = dict[int, int](), 0, -1
        for word in text.words if self._endings else ():
            first, last = first if word.start == last else word.start, word.end
            if word.low.endswith(self._endings):
                compounds[last] = first

        def is_excluded(start: int, end: int) -> bool:
            known = bisect_right(starts, start)
            if known > 0 and ends[known - 1] >= end:
                return True
            left, right = before.get(start, set()), behind.get(end, set())
            beside = (left | right) - self._both or left & right
            return bool(beside) or start >= compounds.get(end, end)

        return is_excluded


@per_language
def no_mentions(data: Language) -> NoMentions:
    """Return the phrases of a language, none without a table; raises InputError if a row cannot be read."""
    found = list[str]()
    for row in rows(data.table("no_mentions"), "phrase", "source", "example"):
        phrases = alternatives(row["phrase"])
        if not all(phrases) or not row["source"]:
            raise row.error("a phrase and its source expected", "fill both cells")
        found += phrases
    return NoMentions(found)
