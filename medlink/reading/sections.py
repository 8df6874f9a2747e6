"""The sections of a note: its headings, what kind of section each begins, and how far it goes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

from medlink.language.cues import SYSTEM, Phrases, Word, effects, is_number
from medlink.reading.clauses import PARAGRAPH, Layout, begins_item, item_start, opens_line

_MOST = 6  # words of a heading that no table has
_EMPTY = 7  # words and marks in the line of a heading that says that its section is empty
_DATE = 12  # words of the date of a heading
_FEW = 3  # words and marks of a line that goes on with the line of its heading
_NO_HEADING = frozenset(".,;?!")
_REVIEW, _EXAMINATION = "review", "examination"


class Heading(NamedTuple):
    """A heading by its first word and the one behind it, with the kind of its section, empty for an unknown one."""

    first: int
    end: int
    kind: str


class Sections:
    """The sections of a note, by the places of its words.

    A heading stands at the start of a line or sentence, before a colon, or fills its line. A section goes on to the
    next heading; one that begins in the line of its heading and says something of all its mentions ends with the
    paragraph, for notes do not name the section that follows. What is of relatives ends with its line, or before the
    next label with a colon: each line or label that goes on with them names them.
    """

    def __init__(self, layout: Layout, stops: bytearray, table: Phrases[str]) -> None:
        self.headings, self._starts, self._kinds = list[Heading](), list[int](), list[str]()
        behind, last = 0, len(layout.words) - 1
        items = (comma + 1 for comma in layout.places.get(",", ()) if comma < last)
        for place in sorted({*compress(range(len(stops)), stops), *items}):
            heading = _heading(layout, place, table, loud=not stops[place]) if place >= behind else None
            if heading is not None:
                self.headings.append(heading)
                behind = heading.end
        kind, ends = "", [*(heading.first for heading in self.headings), last + 1][1:]
        for heading, following in zip(self.headings, ends, strict=True):
            kind = (_REVIEW if kind == _REVIEW else _EXAMINATION) if heading.kind == SYSTEM else heading.kind
            end = _end(heading, kind, following, layout, stops)
            self._starts += [heading.first, end]
            self._kinds += [kind, ""]

    def kind(self, place: int) -> str:
        """The kind of the section that a word is in, empty in none."""
        at = bisect_right(self._starts, place) - 1
        return self._kinds[at] if at >= 0 else ""

    def in_heading(self, first: int, end: int) -> bool:
        """Whether a stretch of words lies inside a heading."""
        at = bisect_right(self.headings, first, key=lambda heading: heading.first) - 1
        return at >= 0 and end <= self.headings[at].end


def _heading(layout: Layout, place: int, table: Phrases[str], *, loud: bool) -> Heading | None:
    """The heading that begins at a word, behind the marks of a list; a ``loud`` one counts in capitals alone."""
    words, lines = layout.words, layout.lines
    first = item_start(layout, place) if lines[place] else place
    if not (lines[place] or words[first].text[:1].isupper()):
        return None
    found, fills = None, lines[place] > 0
    for end, kinds in table.at(words, first):
        if not any(lines[first + 1 : end]) and (not loud or _shouted(words[first:end])):
            closed = _closed(layout, end, fills=fills)
            found = Heading(first, closed, kinds[0]) if closed else found
    return found or _unknown(layout, first, fills=fills)


def _closed(layout: Layout, end: int, *, fills: bool) -> int:
    """Where a heading ends whose words end at ``end``: behind its colon, or with its line; 0 where it is none."""
    words, lines = layout.words, layout.lines
    if end < len(words) and not lines[end] and words[end].low == ":":
        return end + 1
    dated = False
    for behind in range(end, min(end + _DATE, len(words) + 1) if fills else end):
        if behind == len(words) or lines[behind]:
            return behind if behind == end or dated or (behind == end + 1 and words[end].low == ".") else 0
        low = words[behind].low
        if low == ":" and dated:
            return behind + 1
        number = is_number(low)
        dated = dated or number
        if not (number or not layout.plain[behind] or low in layout.rules.dated):
            return 0
    return 0


def _unknown(layout: Layout, first: int, *, fills: bool) -> Heading | None:
    """A heading that no table has: some words and a colon that fill their line, or that are in capitals."""
    words, lines = layout.words, layout.lines
    colons = layout.places.get(":", [])
    at = bisect_left(colons, first)
    if at == len(colons) or not first < colons[at] <= first + _MOST:
        return None
    colon = colons[at]
    if any(lines[first + 1 : colon + 1]) or any(word.low[:1] in _NO_HEADING for word in words[first:colon]):
        return None
    alone = fills and (colon + 1 == len(words) or layout.begins_line(colon + 1)) and words[first].text[:1].isupper()
    shouted = colon - first > 1 and _shouted(words[first:colon])
    return Heading(first, colon + 1, "") if (alone or shouted) and not opens_line(layout, colon + 1) else None


def _end(heading: Heading, kind: str, following: int, layout: Layout, stops: bytearray) -> int:
    """Where the section of a heading ends, at the latest before the next heading."""
    lines, breaks, start = layout.lines, layout.breaks, heading.end
    if not kind or not any(effects()[kind]) or start == following or lines[start]:
        return following
    at = bisect_left(breaks, start)
    line = min(breaks[at], following) if at < len(breaks) else following
    inside = {word.low for word in layout.words[start:line]}
    least = 1 if len(inside) <= _EMPTY and not inside.isdisjoint(layout.rules.nothing) else PARAGRAPH
    ends = (breaks[number] for number in range(at, len(breaks)))
    end = min(next((place for place in ends if place >= following or lines[place] >= least), following), following)
    if effects()[kind].experiencer == "family":
        stop = stops.find(1, start + 1, end)
        while stop >= 0:
            if _goes_on(layout, stop):
                return stop
            stop = stops.find(1, stop + 1, end)
    return end


def _goes_on(layout: Layout, stop: int) -> bool:
    if layout.lines[stop]:
        rest = layout.lines[stop + 1 : stop + 1 + _FEW]
        return len(rest) == _FEW and not any(rest)
    return layout.words[stop].text[:1].isupper() and begins_item(layout, stop)


def _shouted(words: Sequence[Word]) -> bool:
    return all(word.is_mark or word.text.isupper() for word in words)
