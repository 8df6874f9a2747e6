"""Where the clauses of a note end: full stops that are no abbreviations, list items, paragraphs, lines of a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from medlink.language.cues.matcher import Word
from medlink.language.cues.tables import ScopeRules

PARAGRAPH = 2
"""What lies before the first word of a paragraph (:attr:`Layout.lines`)."""
_VOWELS = frozenset("aeiouyäöüáéíóúàèìòùâêîôû")
_BULLETS = frozenset("-–—•*·→>#+[]()")
_LONG = 50  # characters of a line that may be wrapped
_WIDTH = 130  # characters of the longest line of a note whose lines are wrapped
_RAGGED = 8  # characters by which wrapped lines differ
_WHOLE = 4  # letters of a word that a dot without a blank parts from the next
_ITEM = 4  # words before a colon that make a new item of a list in a line


class Layout(NamedTuple):
    """The words of a note, and what stands between them.

    ``lines`` says for each word what lies before it: 0 for nothing, 1 for the end of a line, 2 for an empty line. At
    the places ``dots`` are dots of cues, which end nothing; at ``opens`` are words behind cues that speak of them.
    """

    words: Sequence[Word]
    lines: Sequence[int]
    dots: Collection[int]
    opens: Collection[int]
    rules: ScopeRules


def line_starts(text: str, words: Sequence[Word]) -> list[int]:
    """The ``lines`` of a text for its layout; the first word begins a paragraph."""
    found, end = [], 0
    for word in words:
        found.append(min(text.count("\n", end, word.start), PARAGRAPH))
        end = word.end
    return [PARAGRAPH, *found[1:]] if found else []


def item_start(layout: Layout, place: int) -> int:
    """The first word of the line that begins at a place behind the marks of a list: bullets, numbers, letters."""
    words, lines, first = layout.words, layout.lines, place
    while place < len(words) and (place == first or not lines[place]):
        low, behind = words[place].low, words[place + 1].low if place + 1 < len(words) else ""
        if low in _BULLETS:
            place += 1
        elif ((low.isdigit() and len(low) <= 2) or (low.isalpha() and len(low) == 1)) and behind in (".", ")"):
            place += 2
        else:
            return place
    return first


def stops(layout: Layout) -> list[bool]:
    """For each word whether a scope ends before it."""
    words, lines = layout.words, layout.lines
    found = [False] * len(words)
    firsts = [place for place, line in enumerate(lines) if line]
    width = max((words[end - 1].end - words[start].start for start, end in pairwise([*firsts, len(words)])), default=0)
    line = 0  # where the line began
    following = ""  # the number that the next item of a list in the line has
    for place in range(len(words)):
        number = words[place].low
        if number in ("1", following) and place + 1 < len(words) and words[place + 1].low in (".", ")"):
            found[place], following = number != "1", str(int(number) + 1)
        if lines[place]:
            found[place] |= lines[place] == PARAGRAPH or _ends_line(layout, line, place, width)
            line = place
        elif words[place - 1].low in ";!":
            found[place] = True
        elif words[place - 1].low in ".?":
            found[place] |= place - 1 not in layout.dots and _ends(words, place - 1, layout.rules)
        elif words[place - 1].low == ",":
            found[place] |= begins_item(layout, place)
    return found


def _ends_line(layout: Layout, first: int, place: int, width: int) -> bool:
    """Whether a line, by its first word and the one behind it, ends what it says, or is wrapped there."""
    last, word = layout.words[place - 1], layout.words[place]
    if last.low in ".;!?" or item_start(layout, place) > place or begins_item(layout, place):
        return True
    if last.low in ("-", ",") or last.low in layout.rules.joins or opens_line(layout, place):
        return False
    length = last.end - layout.words[first].start
    # in wrapped text the next word had no room in the line, by the longest line of the note
    return width > _WIDTH or length < _LONG or length + 1 + word.end - word.start + _RAGGED < width


def opens_line(layout: Layout, place: int) -> bool:
    """Whether the line before a place ends with a cue, or a cue and a colon, that speaks of what follows."""
    return place in layout.opens or (layout.words[place - 1].low == ":" and place - 1 in layout.opens)


def begins_item(layout: Layout, place: int) -> bool:
    """Whether some words and a colon begin here, as in "keine Rasselgeräusche, Herz: Systolikum"."""
    for behind in range(place, min(place + _ITEM, len(layout.words))):
        if layout.words[behind].low == ":":
            return behind > place
        if (behind > place and layout.lines[behind]) or layout.words[behind].is_mark:
            return False
    return False


def _ends(words: Sequence[Word], dot: int, rules: ScopeRules) -> bool:
    """Whether a dot or question mark, with a word before and behind it in its line, ends a sentence."""
    before, mark, behind = words[max(dot - 1, 0)], words[dot], words[dot + 1]
    spaced = behind.start > mark.end
    if mark.low == "?":
        # "? sepsis" asks for what follows
        return spaced and before.end == mark.start and before.low != "("
    if not spaced:
        whole = min(len(before.low), len(behind.low)) >= _WHOLE and before.low not in rules.abbreviated
        return behind.low == "," or (whole and before.low.isalpha() and behind.low.isalpha())
    if before.is_mark or before.end < mark.start or _has_no_dot(words, dot, rules):
        return True
    if before.low.isdigit():
        return not (rules.ordinals and len(before.low) <= 2 and before.low != "0")
    short = before.low in rules.abbreviated or len(before.low) == 1
    if behind.text[0].islower():
        return not short and len(before.low) > rules.cut_to
    return not short and (before.text.isupper() or not _VOWELS.isdisjoint(before.low))


def _has_no_dot(words: Sequence[Word], dot: int, rules: ScopeRules) -> bool:
    """Whether a dot is of no abbreviation, as one behind a unit or behind "d/c" ("7 kg. Keine Dyspnoe")."""
    if dot < 2 or words[dot - 1].low in rules.abbreviated or not words[dot + 1].text[0].isupper():
        return False
    before, last = words[dot - 2], words[dot - 1]
    return before.low[-1].isdecimal() or (before.low == "/" and before.end == last.start)
