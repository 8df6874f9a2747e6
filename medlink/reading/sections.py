"""The sections of a note: its headings, what kind of section each begins, and how far it goes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from medlink.language.cues.matcher import Phrases, Word
from medlink.language.cues.tables import SYSTEM, effects
from medlink.reading.clauses import PARAGRAPH, Layout, begins_item, item_start, opens_line

_MOST = 6  # words of a heading that no table has
_EMPTY = 7  # words and marks in the line of a heading that says that its section is empty
_DATE = 12  # words of the date of a heading
_FEW = 3  # words and marks of a line that goes on with the line of its heading
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

    def __init__(self, layout: Layout, stops: Sequence[bool], table: Phrases[str]) -> None:
        self.headings: list[Heading] = []
        behind = 0
        for place in range(len(stops)):
            after_comma = place > 0 and layout.words[place - 1].low == ","
            if place >= behind and (stops[place] or after_comma):
                heading = _heading(layout, place, table, loud=not stops[place])
                if heading is not None:
                    self.headings.append(heading)
                    behind = heading.end
        self._starts, self._kinds = _spans(self.headings, layout, stops)

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
    if not (lines[place] or words[first].text[0].isupper()):
        return None
    found = None
    for end, kinds in table.at(words, first):
        if not any(lines[first + 1 : end]) and (not loud or _shouted(words[first:end])):
            closed = _closed(layout, end, fills=lines[place] > 0)
            found = Heading(first, closed, kinds[0]) if closed else found
    return found or _unknown(layout, first, fills=lines[place] > 0)


def _closed(layout: Layout, end: int, *, fills: bool) -> int:
    """Where a heading ends whose words end at ``end``: behind its colon, or with its line; 0 where it is none."""
    words, lines = layout.words, layout.lines
    if end < len(words) and not lines[end] and words[end].low == ":":
        return end + 1
    dated = False
    for behind in range(end, min(end + _DATE, len(words) + 1) if fills else end):
        if behind == len(words) or lines[behind]:
            return behind if behind == end or dated or (behind == end + 1 and words[end].low == ".") else 0
        word = words[behind]
        if word.low == ":" and dated:
            return behind + 1
        dated = dated or word.low.isdigit()
        if not (word.low.isdigit() or word.is_mark or word.low in layout.rules.dated):
            return 0
    return 0


def _unknown(layout: Layout, first: int, *, fills: bool) -> Heading | None:
    """A heading that no table has: some words and a colon that fill their line, or that are in capitals."""
    words, lines = layout.words, layout.lines
    for behind in range(first, min(first + _MOST + 1, len(words))):
        low = words[behind].low
        if low in ".,;?!" or (behind > first and lines[behind]):
            return None
        if low == ":":
            alone = fills and (behind + 1 == len(words) or lines[behind + 1] > 0) and words[first].text[0].isupper()
            shouted = behind - first > 1 and _shouted(words[first:behind])
            says = opens_line(layout, behind + 1)
            return Heading(first, behind + 1, "") if (alone or shouted) and behind > first and not says else None
    return None


def _goes_on(layout: Layout, stops: Sequence[bool], place: int) -> bool:
    """Whether a note goes on to something else at a word: in a line of more than a few words, or at a label."""
    if not stops[place]:
        return False
    if layout.lines[place]:
        rest = layout.lines[place + 1 : place + 1 + _FEW]
        return len(rest) == _FEW and not any(rest)
    return layout.words[place].text[0].isupper() and begins_item(layout, place)


def _shouted(words: Sequence[Word]) -> bool:
    """Whether words are in capitals."""
    return all(word.is_mark or word.text.isupper() for word in words)


def _spans(headings: list[Heading], layout: Layout, stops: Sequence[bool]) -> tuple[list[int], list[str]]:
    """Where sections start, with their kinds."""
    words, lines, nothing = layout.words, layout.lines, layout.rules.nothing
    starts, kinds, kind = list[int](), list[str](), ""
    ends = [one.first for one in headings[1:]] + [len(lines)]
    for heading, following in zip(headings, ends, strict=False):
        kind = (_REVIEW if kind == _REVIEW else _EXAMINATION) if heading.kind == SYSTEM else heading.kind
        starts.append(heading.first)
        kinds.append(kind)
        if kind and any(effects()[kind]) and heading.end < following and not lines[heading.end]:
            line = next((place for place in range(heading.end, following) if lines[place]), following)
            said = {word.low for word in words[heading.end : line]}
            least = 1 if len(said) <= _EMPTY and not said.isdisjoint(nothing) else PARAGRAPH
            of_family = effects()[kind].experiencer == "family"
            end = next(
                (
                    place
                    for place in range(heading.end, following)
                    if lines[place] >= least or (of_family and place > heading.end and _goes_on(layout, stops, place))
                ),
                None,
            )
            if end is not None:
                starts.append(end)
                kinds.append("")
    return starts, kinds
