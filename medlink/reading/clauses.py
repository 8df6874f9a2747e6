"""Layout of a note: where clauses end, its headings, and the kind of section that each begins."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, compress, pairwise
from typing import NamedTuple

from medlink.language.cues import RULE, SYSTEM, Phrases, Text, Token, effects, is_number
from medlink.language.scope_rules import ScopeRules

PARAGRAPH = 2
"""Value of :attr:`Layout.lines` for the first word of a paragraph."""
DASHES = ("-", "–", "—")
_VOWELS = frozenset("aeiouyäöüáéíóúàèìòùâêîôû")
_BULLETS = frozenset("-–—•*·→>#+[]()")
_FINAL = frozenset(".;!?")
_LONG = 50  # least characters of a line that may be wrapped
_WIDTH = 130  # most characters of the longest line of a note with wrapped lines
_RAGGED = 8  # most characters by which wrapped lines differ
_WHOLE = 4  # least letters of words that a dot without a blank separates
_ITEM = 4  # most words before a colon that begin a new item of a list
_NUMBER = re.compile(r"[0-9]{1,2}(?:\.[0-9]{1,2})?|[^\W\d_]")  # number or letter of a list item
_MAX_HEADING = 6  # words of a heading that no table has
_EMPTY = 7  # most words and marks in the line of a heading whose section is empty
_DATE = 12  # most words of the date of a heading
_FEW = 3  # least words and marks of a line that begins a new section after one of relatives
_NO_HEADING = frozenset(".,;?!")
_CLOSING = frozenset(".,;")
_COUNTED = re.compile(r"\d+(?:[.,/]\d+)*([^\W\d]*)")  # a number and perhaps its unit
_ROW = re.compile(r"^[^\t\n]+(\t)[^\t\n]+$", re.MULTILINE)  # two cells
_QUESTION = 8  # most words and marks of a question in a form
_REVIEW, _EXAMINATION, _RESULTS, _FAMILY = "review", "examination", "results", "family_history"


class Layout(Text):
    """The words of a note and its lines.

    Attributes:
        lines: for each word 0 inside a line, 1 at the start of a line, 2 after an empty line or at the note's start.
        breaks: first words of lines.
        starts: first characters of words.
        counted: number of words other than marks before each place.
        dots: places of dots that belong to cues and do not end a clause.
        opens: places after cues that act on the following words.
    """

    def __init__(self, text: str, words: Sequence[Token], rules: ScopeRules) -> None:
        super().__init__(words)
        self.rules, self.dots, self.opens = rules, set[int](), set[int]()
        self.starts = [word.start for word in words]
        self.plain = bytearray(b"\1") * len(words)
        for place in (place for low, places in self.places.items() if not low[:1].isalnum() for place in places):
            self.plain[place] = 0
        self.counted = [0, *accumulate(self.plain)]
        self.lines = bytearray(len(words))
        self.breaks = [0] if words else []
        place, newline = 0, text.find("\n")
        while newline >= 0:
            place = bisect_right(self.starts, newline, place)
            if place == len(words):
                break
            if place > self.breaks[-1]:
                self.breaks.append(place)
            self.lines[place] = min(self.lines[place] + 1, PARAGRAPH)
            newline = text.find("\n", newline + 1 if self.lines[place] < PARAGRAPH else self.starts[place])
        self.lines[:1] = bytes([PARAGRAPH] * len(words[:1]))

    def begins_line(self, place: int) -> bool:
        return place < len(self.lines) and self.lines[place] > 0


def answered(text: str, words: Sequence[Token], rules: ScopeRules) -> Sequence[Token]:
    """Read a question mark before an answer as a colon, as in "Fever? no" and "¿Fiebre? – sí" in a form.

    The tab of a row with two cells is such a mark as well.
    """
    read = list(words)
    for at in [at for at, word in enumerate(words) if word.low == "?"] if "?" in text else ():
        dash = at + 1 < len(words) and words[at + 1].low in DASHES
        if _is_answer(text, words, at + 1 + dash, rules) and "\n" not in text[words[at].end : words[at + 1].start]:
            read[at] = words[at]._replace(text=":", low=":")
            if dash:
                read[at + 1] = read[at]
            for opening in range(max(at - _QUESTION, 0), at):
                if words[opening].low == "¿":
                    read[opening] = words[opening]._replace(text=";", low=";")
    tabs = [row.start(1) for row in _ROW.finditer(text)] if "\t" in text else []
    places = [bisect_left(words, tab, key=lambda word: word.start) for tab in tabs]
    marks = [
        Token(t, t + 1, ":", ":") for t, at in zip(tabs, places, strict=True) if _is_answer(text, words, at, rules)
    ]
    return sorted([*read, *marks]) if marks else read


def _is_answer(text: str, words: Sequence[Token], first: int, rules: ScopeRules) -> bool:
    """Whether words that begin at a place are an answer up to a mark or the end of the line."""
    end = first
    while end < len(words) and words[end].low in rules.answers:
        end += 1
    closed = end == len(words) or words[end].is_mark or "\n" in text[words[end - 1].end : words[end].start]
    return end > first and closed


def item_start(layout: Layout, place: int) -> int:
    """Return the first word of a line after list marks: bullets, numbers, letters."""
    words, lines, first = layout.words, layout.lines, place
    while place < len(words) and (place == first or not lines[place]):
        low = words[place].low
        if low[:1] in _BULLETS:
            place += 1
        elif place + 1 < len(words) and words[place + 1].low in (".", ")") and _NUMBER.fullmatch(low):
            place += 2
        else:
            return place
    return first


def stops(layout: Layout) -> bytearray:
    """Return for each word whether a scope ends before it."""
    words, lines = layout.words, layout.lines
    found = bytearray(len(words) + 1)
    spans = list(pairwise([*layout.breaks, len(words)]))
    width = max((words[end - 1].end - words[start].start for start, end in spans), default=0)
    for first, place in spans[:-1]:
        found[place] = lines[place] == PARAGRAPH or _ends_line(layout, first, place, width)
    found[0] = 1
    for place in layout.places_of(_FINAL | {","}):
        if place + 1 < len(words) and not lines[place + 1] and _ends(layout, place):
            found[place + 1] = words[place].low != "," or not _is_answered(layout, found.rfind(1, 0, place), place)
    for place in _numbered(layout):
        found[place] = 1
    for low, places in layout.places.items():
        if len(low) >= RULE and not low[:1].isalnum():
            for place in places:
                found[place] |= lines[place] > 0
                found[place + 1] |= lines[place] > 0 or low[:1] in _FINAL
    del found[len(words) :]
    return found


def _numbered(layout: Layout) -> Iterator[int]:
    following = ""
    for mark in layout.places_of((".", ")")):
        number = layout.words[mark - 1].low if mark else ""
        if mark and number in ("1", following):
            if number != "1":
                yield mark - 1
            following = str(int(number) + 1)


def _ends(layout: Layout, mark: int) -> bool:
    low = layout.words[mark].low
    if low == ",":
        return begins_item(layout, mark + 1)
    return low in (";", "!") or (mark not in layout.dots and _ends_sentence(layout.words, mark, layout.rules))


def _is_answered(layout: Layout, begin: int, comma: int) -> bool:
    """Whether a comma stands in a list with one answer: "cough, fever, rash: no", but not "cough: yes, rash: no"."""
    colons = layout.places.get(":", [])
    at = bisect_left(colons, begin)
    return colons[at] > comma and layout.words[min(colons[at] + 1, len(layout.words) - 1)].low in layout.rules.answers


def _ends_line(layout: Layout, first: int, place: int, width: int) -> bool:
    last, word = layout.words[place - 1], layout.words[place]
    if last.low in _FINAL or item_start(layout, place) > place or begins_item(layout, place):
        return True
    if last.low in ("-", ",") or last.low in layout.rules.joins or opens_line(layout, place):
        return False
    length = last.end - layout.words[first].start
    # in wrapped text the next word did not fit into the width of the longest line
    return width > _WIDTH or length < _LONG or length + 1 + word.end - word.start + _RAGGED < width


def opens_line(layout: Layout, place: int) -> bool:
    """Return whether the line before a place ends with a cue (and perhaps a colon) that acts on the words after it."""
    return place in layout.opens or (layout.words[place - 1].low == ":" and place - 1 in layout.opens)


def begins_item(layout: Layout, place: int) -> bool:
    """Return whether a few words and a colon begin here, as in "keine Rasselgeräusche, Herz: Systolikum"."""
    for behind in range(place, min(place + _ITEM, len(layout.words))):
        if layout.words[behind].low == ":":
            return behind > place
        if (behind > place and layout.lines[behind]) or not layout.plain[behind]:
            return False
    return False


def _ends_sentence(words: Sequence[Token], dot: int, rules: ScopeRules) -> bool:
    before, mark, behind = words[max(dot - 1, 0)], words[dot], words[dot + 1]
    spaced = behind.start > mark.end
    if mark.low == "?":
        # "? sepsis": the mark belongs to what follows
        return spaced and before.end == mark.start and before.low != "("
    if not spaced:
        whole = min(len(before.low), len(behind.low)) >= _WHOLE and before.low not in rules.abbreviated
        return behind.low == "," or (whole and before.low.isalpha() and behind.low.isalpha())
    if before.is_mark or before.end < mark.start or _has_no_dot(words, dot, rules):
        return True
    if is_number(before.low):
        last = before.low.rpartition(".")[2]  # a date: "am 5.11. entlassen"
        begins = behind.text[:1].isupper()
        kind = words[max(dot - 2, 0)].low
        is_age = begins and (kind in rules.numbered or (len(last) == 2 and kind in rules.aged))
        is_dose = begins and dot > 2 and words[dot - 2].low == "-" and is_number(words[dot - 3].low)  # "1-0-1."
        return is_age or is_dose or not (rules.ordinals and len(last) <= 2 and last != "0")
    # "sin bloqueo AV. Ecocardiograma"
    capitals = len(before.low) > 1 and before.text.isupper() and behind.text.istitle()
    short = len(before.low) == 1 or (before.low in rules.abbreviated and not capitals)
    if behind.text[:1].islower():
        opens = "".join(word.low for word in words[dot + 1 : dot + 4]) in rules.opening and len(before.low) > 1
        return opens or (not short and len(before.low) > rules.cut_to)
    closes = behind.text[:1].isupper() and rules.closing.fullmatch(f"{words[max(dot - 2, 0)].text} {before.text}")
    counts = any(map(str.isdecimal, before.low))  # "nocturia x3. Skin intact"
    return bool(closes) or (not short and (counts or before.text.isupper() or not _VOWELS.isdisjoint(before.low)))


def _has_no_dot(words: Sequence[Token], dot: int, rules: ScopeRules) -> bool:
    """Whether a dot after a short word ends a sentence: after a unit or "d/c" ("7 kg. Keine Dyspnoe")."""
    if dot < 2 or words[dot - 1].low in rules.abbreviated or not words[dot + 1].text[:1].isupper():
        return False
    before, last = words[dot - 2], words[dot - 1]
    return before.low[-1:].isdecimal() or (before.low == "/" and before.end == last.start)


class Heading(NamedTuple):
    """A heading up to the word at ``end``, with the kind of its section, empty if unknown."""

    first: int
    end: int
    kind: str


class Sections:
    """The sections of a note by the places of its words.

    A heading stands at the start of a line or sentence before a colon, or fills its line. Its section extends to the
    next heading. A section that begins in the line of its heading and qualifies all its mentions ends with the
    paragraph, because notes do not mark the end of such a section. A section of relatives, risks or prevention ends
    with its line, or before the next label with a colon, because each line or label about relatives names them. So does
    a section of allergies, unless its list goes on with bullets, and before a sentence with a dose.
    """

    def __init__(self, layout: Layout, stops: bytearray, table: Phrases[str]) -> None:
        self.headings, self._starts, self._kinds = list[Heading](), list[int](), list[str]()
        behind, last = 0, len(layout.words) - 1
        items = {comma + 1 for comma in layout.places.get(",", ()) if comma < last}
        dots = {dot + 1 for dot in layout.places.get(".", ()) if dot < last}
        for place in sorted({*compress(range(len(stops)), stops), *items, *dots}):
            if place < behind:
                continue
            is_item = place in items and not stops[place]
            if place in dots and not stops[place] and (not self.headings or self.headings[-1].kind != _FAMILY):
                continue  # else "Großmutter Mamma-Ca. Eigenanamnese: Migräne"
            heading = _heading(layout, place, table, needs_capitals=is_item)
            if heading is not None:
                self.headings.append(heading)
                behind = heading.end
        kind, ends = "", [*(heading.first for heading in self.headings), last + 1][1:]
        for heading, following in zip(self.headings, ends, strict=True):
            kind = (_REVIEW if kind == _REVIEW else _EXAMINATION) if heading.kind == SYSTEM else heading.kind
            end = _end(heading, kind, following, layout, stops)
            if end < following:
                stops[end] = 1
            self._starts += [heading.first, end]
            self._kinds += [kind, ""]

    def kind(self, place: int) -> str:
        """Return the kind of the section of a word, empty for none."""
        at = bisect_right(self._starts, place) - 1
        return self._kinds[at] if at >= 0 else ""

    def in_heading(self, first: int, end: int) -> bool:
        at = bisect_right(self.headings, first, key=lambda heading: heading.first) - 1
        return at >= 0 and end <= self.headings[at].end


def _heading(layout: Layout, place: int, table: Phrases[str], *, needs_capitals: bool) -> Heading | None:
    words, lines = layout.words, layout.lines
    first = item_start(layout, place) if lines[place] else place
    if not (lines[place] or words[first].text[:1].isupper()):
        return None
    found, fills = None, lines[place] > 0
    for end, kinds in table.at(words, first):
        if not any(lines[first + 1 : end]) and (not needs_capitals or _is_upper(words[first:end])):
            closed = _closed(layout, end, fills=fills)
            # "- Koloskopie" is an item of a list, not the heading of its result
            is_item = first > place and kinds[0] == _RESULTS and closed and words[closed - 1].low != ":"
            found = Heading(first, closed, kinds[0]) if closed and not is_item else found
    return found or _unknown(layout, first, fills=fills)


def _closed(layout: Layout, end: int, *, fills: bool) -> int:
    """End of a heading whose words end at ``end``: after its colon, or with its line; 0 if it is not a heading."""
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
    """A heading that no table has: a few words and a colon that fill their line or are in capitals."""
    words, lines = layout.words, layout.lines
    colons = layout.places.get(":", [])
    at = bisect_left(colons, first)
    colon = colons[at] if at < len(colons) else first
    if not first < colon <= first + _MAX_HEADING or any(lines[first + 1 : colon + 1]):
        return None
    if any(word.low[:1] in _NO_HEADING for word in words[first:colon]):
        return None
    alone = fills and (colon + 1 == len(words) or layout.begins_line(colon + 1)) and words[first].text[:1].isupper()
    in_capitals = colon - first > 1 and _is_upper(words[first:colon])
    return Heading(first, colon + 1, "") if (alone or in_capitals) and not opens_line(layout, colon + 1) else None


def _end(heading: Heading, kind: str, following: int, layout: Layout, stops: bytearray) -> int:
    lines, breaks, start, rules = layout.lines, layout.breaks, heading.end, layout.rules
    if not kind or not any(effects()[kind]) or start == following or lines[start]:
        return following
    lows, place = set[str](), start
    while place < following and not (place > start and lines[place]):
        word = layout.words[place]
        if not word.is_mark and word.low not in rules.nothing and word.low not in rules.nothing_known:
            break
        lows.add(word.low)
        place += 1
    if place < following and layout.words[place - 1].low in _CLOSING and lows & rules.nothing:
        return place  # "Allergies: none known. Metformin daily."
    at = bisect_left(breaks, start)
    line = min(breaks[at], following) if at < len(breaks) else following
    inside = {word.low for word in layout.words[start:line]}
    least = 1 if len(inside) <= _EMPTY and not inside.isdisjoint(rules.nothing) else PARAGRAPH
    ends = (breaks[number] for number in range(at, len(breaks)))
    end = min(next((place for place in ends if place >= following or lines[place] >= least), following), following)
    if effects()[kind].allergy:
        # "Allergies: penicillin.\nGiven ceftriaxone"
        ended = (
            place for place in breaks[at:] if place >= end or (stops[place] and item_start(layout, place) == place)
        )
        end = min(next(ended, end), end)
        sentences = [place for place in range(start + 1, end) if stops[place]]
        dosed = (place for place, close in pairwise([*sentences, end]) if _has_dose(layout, place, close))
        return next(dosed, end)
    if effects()[kind].experiencer == "family" or effects()[kind].temporality == "hypothetical":
        stop = stops.find(1, start + 1, end)
        while stop >= 0:
            if _starts_new_section(layout, stop):
                return stop
            stop = stops.find(1, stop + 1, end)
    return end


def _has_dose(layout: Layout, start: int, end: int) -> bool:
    """Whether words give the dose of a drug: "Metformin 500 mg", "Metformin 1-0-1"."""
    lows = [word.low for word in layout.words[start:end]]
    for at, low in enumerate(lows):
        unit, second, dash = [*lows[at + 1 : at + 4], "", "", ""][:3]
        number = _COUNTED.fullmatch(low)
        if number and ((number[1] or unit) in layout.rules.doses or (unit == dash == "-" and is_number(second))):
            return True
    return False


def _starts_new_section(layout: Layout, stop: int) -> bool:
    if layout.lines[stop]:
        rest = layout.lines[stop + 1 : stop + 1 + _FEW]
        return len(rest) == _FEW and not any(rest)
    return layout.words[stop].text[:1].isupper() and begins_item(layout, stop)


def _is_upper(words: Sequence[Token]) -> bool:
    return all(word.is_mark or word.text.isupper() for word in words)
