"""Which relative has a finding, and since what age: *Vater mit 54 J. an Herzinfarkt verstorben*."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import TypeVar

from medlink.language.cues import Phrases, is_number
from medlink.language.relatives import AGES, DEATH, OF, WHOSE
from medlink.reading.clauses import Layout
from medlink.reading.matches import WordSpan

_MAX_AGE = 110
_NEAR = 100  # words on either side of a mention that are searched, so that cost grows with the text
_V = TypeVar("_V")
_Phrase = tuple[int, int, _V]
"""First word, word after the last, and meaning."""


class FamilyReader:
    """Finds the relatives and ages of a note, for mentions of the family.

    A mention has the relative of its sentence with the fewest commas between the two. Among several of these, a
    relative before the mention comes first.
    """

    def __init__(self, phrases: Phrases[str], layout: Layout, stops: bytearray) -> None:
        self._words, self._commas = layout.words, layout.places.get(",", [])
        ends = [at for at, stop in enumerate(stops) if stop]
        self._bounds = [0, *ends, len(layout.words)]
        self._relatives, self._ages, last, whose = list[_Phrase[str]](), list[_Phrase[int]](), 0, False
        self._deaths = set[int]()
        # the longest of the phrases with the same first word, and none inside another
        for start, end, values in sorted(phrases.found(layout), key=lambda match: (match.start, -match.end)):
            if end <= last:
                continue
            linked, last = last == start and whose, end
            whose = values[0] == WHOSE
            if whose:
                continue
            if values[0] not in AGES:
                before = self._relatives[-1][2] if linked and self._relatives else ""
                code = OF.get((before, values[0]), "FAMMEMB") if before else values[0]
                self._relatives.append((start, end, code))
            elif (age := self._age(start, end, AGES[values[0]])) is not None and not self._is_bare(start, end):
                self._ages.append((start, end, age))
                self._deaths |= {start} if values[0] == DEATH else set()

    def read(self, place: WordSpan, *, speaks: bool = False, passes: bool = True) -> tuple[str, int | None]:
        """Return the code of the relative, empty if unknown, and the age in years, if known.

        If the relative ``speaks`` of a finding, the clause before may name the relative: "Mother says he vomits; she
        too has a cough". Unless the finding ``passes``, an age of death is not its onset.
        """
        number = bisect_right(self._bounds, place.start)
        if speaks and number > 1 and not any(_within(self._relatives, self._bounds[number - 1], place.end)):
            return self.read(WordSpan(self._bounds[number - 1] - 1, self._bounds[number - 1]))[0], None
        first, last = self._bounds[number - 1], self._bounds[min(number, len(self._bounds) - 1)]
        first, last = max(first, place.start - _NEAR), min(max(last, place.end), place.end + _NEAR)
        # "diabetes (mother), asthma": a relative in brackets has what is before it
        inside = _within(self._relatives, first, last)
        near = [own for own in inside if own[0] > place.start or self._words[own[0] - 1].low != "("]
        if not near:
            return "", None
        chosen = min(near, key=lambda own: (self._between(place, own), own[0] > place.start, -own[0]))
        others = [start for start, _, _ in near if start != chosen[0]]
        beside = [
            (abs(start - place.start), age)
            for start, end, age in _within(self._ages, first, last)
            if not self._between(place, (start, end, age))
            and (passes or start not in self._deaths)
            and not start < chosen[0] < place.start
            and not any(min(start, place.start) < other < max(start, place.start) for other in others)
        ]
        return chosen[2], min(beside)[1] if beside else None

    def _between(self, place: WordSpan, own: tuple[int, int, object]) -> int:
        """Commas between a mention and a phrase."""
        low, high = (own[1], place.start) if own[0] < place.start else (place.end, own[0])
        return max(0, bisect_left(self._commas, high) - bisect_left(self._commas, low))

    def _is_bare(self, start: int, end: int) -> bool:
        """Whether an age is that of a relative now: "sister (52) with gout", but not "sister gout (52)"."""
        is_last = bool(self._relatives) and self._relatives[-1][1] == start
        return is_last and self._words[start].low == "(" and end == start + len("(#)")

    def _age(self, start: int, end: int, of_year: int) -> int | None:
        numbers = [word.low for word in self._words[start:end] if is_number(word.low)]
        age = int(numbers[0]) // of_year if numbers and numbers[0].isdecimal() and len(numbers[0]) < 4 else _MAX_AGE + 1
        return age if age <= _MAX_AGE else None


def _within(found: Sequence[_Phrase[_V]], first: int, last: int) -> Iterator[_Phrase[_V]]:
    """The phrases from a word up to another one; ``found`` is in the order of the text."""
    for at in range(bisect_left(found, first, key=lambda own: own[0]), len(found)):
        if found[at][1] > last:
            return
        yield found[at]
