"""Measured values that are findings: *Hb 7,9 g/dl* is anaemia, *Temp. 39,2 °C* is fever.

A value is a number after the name of a measure, with only words such as *of* or *was* between them. It is a finding if
it is beyond the range that the laboratory prints after it or, without one, beyond a limit of
``resources/language/limits.tsv``, each of which has its source. Doubtful numbers are left out: those that are
impossible or may be in several units, doses, dates, ranges, targets, changes, and values of fluids other than blood.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise, product
from typing import Literal, NamedTuple

from medlink.language.values import (
    BLANK,
    TOKEN,
    Called,
    Conversion,
    Limit,
    Measure,
    ValueWords,
    Who,
    key,
    measures,
    value_words,
)
from medlink.records import Value

_NUMBER = re.compile(r"(?<![\w,/\-])(?<!\d\.)\d+(?:[.,'’]\d+)*")
_THOUSANDS = re.compile(r"\d{1,3}(?:([.,'’])\d{3})(?:\1\d{3})*")
_DECIMAL = re.compile(r"(\d+)(?:[.,](\d+))?")
_SPACED = re.compile(rf"\d{{1,3}}(?:{BLANK}\d{{3}})+(?!\d)")
_GAP = re.compile(rf"(?:{BLANK}|[:=()\[\]–—~≈|.↑↓-])*")  # between a name and its number
_INSIDE = re.compile(rf"(?:{BLANK}|[./(-]){{0,3}}")  # between the words of a name
_BEFORE = re.compile(r"[\w/]-?\Z")  # a name behind it is a part of another one
_TO = r"(?:-|–|bis|to|a|y|and|und)"
_GOES_ON = re.compile(rf"[+\w'’^]|[-–][^\W\d_]|{BLANK}?[-–/:.,]{BLANK}?\d|{BLANK}{_TO}{BLANK}\d|{BLANK}{{1,3}}\d")
_LAST_OF_RANGE = re.compile(rf"{BLANK}?%?{BLANK}?{_TO}{BLANK}?(\d{{1,3}})(?![\d.,/])")
_LOWER = re.compile(rf"{BLANK}?/{BLANK}?(\d{{2,3}})(?![\d/])")
_UNIT_LIKE = re.compile(rf"{BLANK}?(?:[%°º‰^*×·]|x ?10|[^\W\d_]{{1,6}} ?/ ?\w)")
_ROW = re.compile(r"[,;|/\s]{1,4}")  # between values in a row
_ARROWS = {"↓": "low", "↑": "high"}
_REACH = 90  # characters before a number in which its name begins
_LINKS = 5  # words between a name and its number
_SHORT = 6  # letters of a name that may be cut off by a dot
_CLAUSE = re.compile(r"[;,\n](?=\s|$)|(?<=\w{5})\.(?=\s|$)")  # short words have dots of their own
_END = re.compile(r"[.;,\n](?=\s|$)")
_NEAR = 40  # characters of a clause in which a value is said to be aimed at
_MATERIAL = 250  # characters before a value in which it is said what was examined
_ADULT = 18
_MOSTLY = 3  # times that words for one sex must outnumber those for the other


class ValueFinding(NamedTuple):
    """A value that is a finding: its characters, what names the finding, and what was read."""

    start: int
    end: int
    names: tuple[str, ...]
    value: Value


class _Read(NamedTuple):
    """A value as it is written: its characters, its number in the unit of the limits in each way to read it.

    ``after`` is the end of what the laboratory prints behind it: ``flag`` and ``limit``. What is ``doubtful`` is a
    value in a row of values alone.
    """

    start: int
    end: int
    measure: Measure
    numbers: tuple[float, ...]
    after: int
    flag: str = ""
    limit: float | None = None
    doubtful: bool = False


def value_findings(text: str, language: str) -> list[ValueFinding]:
    """The values of a note that are findings, in order and without overlap; none in a language without words of values.

    Raises:
        InputError: the table of the language cannot be read.
    """
    words = value_words(language)
    return [] if words is None else list(_Note(text, words).findings())


class _Note:
    def __init__(self, text: str, words: ValueWords) -> None:
        self._text, self._words = text, words

    def findings(self) -> Iterator[ValueFinding]:
        end, read = 0, list(self._read())
        for at, one in enumerate(read):
            # a number behind a symbol is a value in a row of values: "Na 131, K 5,9"
            beside = [pair for pair in pairwise(read[max(at - 1, 0) : at + 2]) if one.doubtful and self._in_row(*pair)]
            finding = self._finding(one) if one.start >= end and (beside or not one.doubtful) else None
            if finding is not None:
                yield finding
                end = finding.end

    def _read(self) -> Iterator[_Read]:
        end = 0
        for found in _NUMBER.finditer(self._text):
            called = self._name(found.start()) if found.start() >= end else None
            for read in () if called is None else self._values(*called, found):
                yield read
                end = read.end

    def _in_row(self, one: _Read, two: _Read) -> bool:
        return one.measure is not two.measure and _ROW.fullmatch(self._text[one.after : two.start]) is not None

    def _name(self, stop: int) -> tuple[int, Called] | None:
        """Where the name of the measure begins whose number begins at a place, and the measure."""
        text, low = self._text, max(0, stop - _REACH)
        line = text.rfind("\n", low, stop) + 1
        wraps = line > low and not text[line:stop].strip()  # the number stands first in its line
        low = max(low, text.rfind("\n", low, line - 1) + 1 if wraps else line)
        tokens = [(one.start() + low, one.end() + low) for one in TOKEN.finditer(text[low:stop])]
        at, edge, links = len(tokens), stop, 0
        while at:
            between = text[tokens[at - 1][1] : edge]
            if not _GAP.fullmatch(between.replace("\n", " ", wraps)) or not _may_stop(text, tokens[at - 1], between):
                return None
            named = self._called(tokens, at)
            if named is not None:
                return named if not wraps or self._has_unit(named[1].measure, stop) else None
            count = self._link(tokens, at)
            links += 1
            if not count or links > _LINKS:
                return None
            at, edge = at - count, tokens[at - count][0]
        return None

    def _called(self, tokens: list[tuple[int, int]], stop: int) -> tuple[int, Called] | None:
        text, end = self._text, tokens[stop - 1][1]
        for first in range(max(0, stop - self._words.longest), stop):
            start = tokens[first][0]
            written = text[start:end]
            for called in self._words.names.get(key(written), ()):
                gaps = (text[one[1] : two[0]] for one, two in pairwise(tokens[first:stop]))
                as_written = called.written is None or TOKEN.findall(called.written) == TOKEN.findall(written)
                if as_written and all(map(_INSIDE.fullmatch, gaps)):
                    if _BEFORE.search(text[max(0, start - 2) : start]):
                        return None
                    return self._explained(tokens, first, called), called
        return None

    def _explained(self, tokens: list[tuple[int, int]], first: int, called: Called) -> int:
        """Where a name begins, with the longer one before the bracket that it may stand in: *temperatura (T)*."""
        start = tokens[first][0]
        if first and self._text[tokens[first - 1][1] : start].strip() == "(":
            before = self._called(tokens, first)
            if before is not None and before[1].measure is called.measure:
                return before[0]
        return start

    def _link(self, tokens: list[tuple[int, int]], stop: int) -> int:
        said = ((n, self._text[tokens[stop - n][0] : tokens[stop - 1][1]]) for n in range(min(4, stop), 0, -1))
        return next((count for count, written in said if key(written) in self._words.links), 0)

    def _has_unit(self, measure: Measure, start: int) -> bool:
        found = _NUMBER.match(self._text, start)
        return found is not None and measure.unit.match(self._text, found.end()) is not None

    def _values(self, start: int, called: Called, found: re.Match[str]) -> Iterator[_Read]:
        measure, text, end, written = called.measure, self._text, found.end(), found[0]
        if measure.form == "pair":
            yield from self._pair(start, measure, found)
            return
        ends = [written]
        if measure.form == "range" and (last := _LAST_OF_RANGE.match(text, end)):
            ends, end = [written, last[1]], last.end()
        unit = measure.unit.match(text, end)
        if unit is None:
            spaced = _SPACED.match(text, found.start())
            if spaced and (unit := measure.unit.match(text, spaced.end())):
                ends, end = [re.sub(r"\s", "", spaced[0])], spaced.end()
        stop = unit.end() if unit else end
        flag, limit, after = self._said(stop, ends[0], text[start : found.start()])
        if unit is None and not flag and any(one.match(text, end) for one in (_GOES_ON, _UNIT_LIKE, self._words.dose)):
            return
        if measure.form == "hundredths" and len(written.replace(",", ".").partition(".")[2]) < 2:
            return
        units = [list(measure.units)[int((unit.lastgroup or "u0")[1:])]] if unit else list(measure.bare)
        numbers = [_plausible(measure, one, units or list(measure.units)) for one in ends]
        if not all(numbers) or (not units and not flag):
            return
        if limit is not None:
            ways = [measure.units[one] for one in units or measure.units]
            limit = next(
                (_converted(limit, to) for to in ways if _converted(_decimal(ends[0]), to) in numbers[0]), None
            )
        doubtful = called.symbol and unit is None and not flag
        yield _Read(start, stop, measure, tuple(n for some in numbers for n in some), after, flag, limit, doubtful)

    def _pair(self, start: int, measure: Measure, found: re.Match[str]) -> Iterator[_Read]:
        lower = _LOWER.match(self._text, found.end())
        if lower is None or not found[0].isdecimal():
            return
        pair = ((measure, found[0]), (measures()["diastolic pressure"], lower[1]))
        unit = measure.unit.match(self._text, lower.end())
        if unit is None and _UNIT_LIKE.match(self._text, lower.end()):
            return
        stop = unit.end() if unit else lower.end()
        both = [_plausible(one, number, list(one.units)) for one, number in pair]
        if all(both) and int(found[0]) > int(lower[1]):
            for (one, _), pressure in zip(pair, both, strict=True):
                yield _Read(start, stop, one, tuple(pressure), stop)

    def _said(self, start: int, written: str, named: str) -> tuple[str, float | None, int]:
        """What the laboratory prints by a value: ``low``, ``high``, ``normal`` or nothing; its limit; the end.

        ``named`` is what stands before the number, which may have an arrow in it.
        """
        said, end = {kind for arrow, kind in _ARROWS.items() if arrow in named}, start
        limit: float | None = None
        number = _DECIMAL.fullmatch(written)
        while len(said) < 3:
            if flag := self._words.flag.match(self._text, end):
                said.add(flag.lastgroup or "")
                end = flag.end()
            elif number and (printed := self._words.reference.match(self._text, end)):
                side, limit = _outside(_decimal(written), printed)
                said.add(side)
                end = printed.end()
            else:
                break
        return (said.pop() if len(said) == 1 else "normal" if said else ""), limit, end

    def _finding(self, read: _Read) -> ValueFinding | None:
        limit = self._limit(read)
        if limit is None or not self._is_meant(read):
            return None
        by: Literal["limit", "range", "flag"] = "limit" if not read.flag else "flag" if read.limit is None else "range"
        value = Value(
            read.measure.name,
            read.numbers[0],
            read.measure.first_unit,
            "low" if limit.is_low else "high",
            by,
            limit.number if by == "limit" else read.limit,
            limit.source if by == "limit" else "",
        )
        return ValueFinding(read.start, read.end, self._words.finding(limit), value)

    def _limit(self, read: _Read) -> Limit | None:
        limits = read.measure.limits
        if read.flag:
            return next((one for one in limits if read.flag == ("low" if one.is_low else "high")), None)
        beyond = [one for one in limits if all(map(one.holds, read.numbers))]
        mine = [one for one in beyond if one.who == "all" or one.who in self._whose]
        return max(mine, key=lambda one: -(one.number or 0) if one.is_low else one.number or 0, default=None)

    def _is_meant(self, read: _Read) -> bool:
        """Whether a value was measured, now and in blood: what stands around it does not say otherwise."""
        text = self._text
        before = _CLAUSE.split(text[max(0, read.start - _NEAR) : read.start])[-1]
        after = _END.split(text[read.after : read.after + _NEAR])[0]
        if self._words.either.search(before) or self._words.target.search(after):
            return False
        if not read.measure.of_blood:
            return True
        behind = self._words.material.search(after)
        if behind and behind[1] is None:
            return False
        paragraph = text[max(0, read.start - _MATERIAL) : read.start].split("\n\n")[-1]
        said = [found[1] is not None for found in self._words.material.finditer(paragraph)]
        return said[-1] if said else True

    @cached_property
    def _whose(self) -> frozenset[Who]:
        counts, ages = Counter[str](), list[int]()
        for found in self._words.person.finditer(self._text):
            kind = found.lastgroup or ""
            if kind == "years":
                ages.append(int(found[kind]))
            counts[kind] += 1
        if (ages and ages[0] < _ADULT) or (not ages and (counts["young"] or counts["child"])):
            return frozenset()
        who: set[Who] = {"adult"}
        if counts["man"] > _MOSTLY * counts["woman"]:
            who.add("man")
        elif counts["woman"] > _MOSTLY * counts["man"] and not counts["pregnant"]:
            who.add("woman")
        return frozenset(who)


def _may_stop(text: str, word: tuple[int, int], between: str) -> bool:
    return "." not in between or (word[1] - word[0] <= _SHORT and between.strip(" \t")[0] == ".")


def _decimal(written: str) -> float:
    return float(written.replace(",", "."))


def _plausible(measure: Measure, written: str, units: list[str]) -> list[float]:
    """A number in the unit of the limits, in each way to read it that a human being can have."""
    numbers = set[float]()
    if _DECIMAL.fullmatch(written):
        numbers.add(_decimal(written))
    if _THOUSANDS.fullmatch(written):
        numbers.add(float(re.sub(r"\D", "", written)))
    converted = (_converted(number, measure.units[unit]) for number, unit in product(sorted(numbers), units))
    return sorted({one for one in converted if measure.lowest <= one <= measure.highest})


def _converted(number: float, to: Conversion) -> float:
    return round(number * to.factor + to.offset, 4)


def _outside(number: float, printed: re.Match[str]) -> tuple[str, float]:
    if printed["sign"]:
        bound, below = _decimal(printed["bound"]), printed["sign"] in "<≤"
        beyond = number > bound if below else number < bound
        return ("high" if below else "low") if beyond else "normal", bound
    first, last = _decimal(printed["first"]), _decimal(printed["last"])
    if first >= last:
        return "normal", first  # it is no range
    return ("low", first) if number < first else ("high", last) if number > last else ("normal", first)
