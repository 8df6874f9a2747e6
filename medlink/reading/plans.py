"""Procedures that are still to come, and drugs that are still taken, by the words of their clause."""

from __future__ import annotations

from medlink.reading.clauses import Layout
from medlink.reading.matches import WordSpan

_ITEM, _YEAR = 8, 4  # most words of an item of a plan; digits of a year
_DATE = 6  # words and marks before such an item that may date it
_FEW = 3  # most words of a part between commas that is a member of a list
_REACH = 60  # words and marks read on each side, so that a clause of many procedures takes linear time


def is_expected(layout: Layout, stops: bytearray, place: WordSpan, *, planned: bool) -> bool:
    """Return whether a procedure is still to come.

    If so, its clause has a word such as *tomorrow* or *requested*, or a condition before the procedure, and no word for
    a result or course. In a section for plans (``planned``), a procedure needs no such word.
    """
    rules, words = layout.rules, layout.words
    begin, stop = _clause(stops, place, len(words))
    first, last = place.start, place.end
    while first > begin and words[first - 1].low != ",":
        first -= 1
    while last < stop and words[last].low != ",":
        last += 1
    own = {word.low for word in words[first:last]}
    behind = {word.low for word in words[last + 1 : last + 3]}
    before = words[place.start - 1].low if place.start > begin else ""
    if before in rules.articles and place.start - 1 > begin:
        before = words[place.start - 2].low
    if before in rules.followed or not rules.done.isdisjoint(own | behind):
        return False
    if planned:  # an item, rather than a sentence, or a report with its date
        dated = any(len(word.low) == _YEAR and word.low.isdecimal() for word in words[max(first - _DATE, 0) : last])
        return not dated and layout.counted[last] - layout.counted[first] <= _ITEM and rules.continued.isdisjoint(own)
    if not rules.conditions.isdisjoint(word.low for word in words[begin : place.start]):
        return True
    # a list shares the words at its ends: "colonoscopy, MRI and EEG are planned"
    while last < stop and layout.counted[last] - layout.counted[first] <= _FEW:
        first, last = last + 1, next((at for at in range(last + 1, stop) if words[at].low == ","), stop)
        own |= {word.low for word in words[first:last]}
    return any(rules.expects.fullmatch(low) for low in own)


def is_begun(layout: Layout, stops: bytearray, place: WordSpan) -> bool:
    """Return whether a word of its clause says that a drug was begun at a past time: *started in 2019*."""
    clause = slice(*_clause(stops, place, len(layout.words)))
    return not layout.rules.begun.isdisjoint(word.low for word in layout.words[clause])


def _clause(stops: bytearray, place: WordSpan, size: int) -> tuple[int, int]:
    """Return the words around a mention between two stops."""
    begin, end = max(place.start - _REACH, 0), min(place.end + _REACH, size)
    stop = stops.find(1, place.end, end)
    return max(stops.rfind(1, begin, place.start + 1), begin), stop if stop >= 0 else end
