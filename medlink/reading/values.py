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
from itertools import chain, islice, pairwise
from typing import Literal, NamedTuple

from medlink.language.printed import BLANK, decimal
from medlink.language.values import (
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
_GAP = re.compile(rf"(?:{BLANK}|[:=()\[\]–—~≈|.↑↓-]|;(?!\s)|(?<![=-])[<>≤≥]=?)*")  # between a name and its number
_BOUND = re.compile(rf"[<>≤≥](?==?{BLANK}*\Z)")  # before a number that the value is below or above
_INSIDE = re.compile(rf"(?:{BLANK}|[./(-]){{0,3}}")  # between the words of a name
_BEFORE = re.compile(r"[\w/]-?\Z")  # a name behind it is a part of another one
_TO = r"(?:-|–|bis|to|a|y|and|und)"
_CONTINUES = re.compile(rf"[+\w'’^]|[-–][^\W\d_]|{BLANK}?[-–/:.,]{BLANK}?\d|{BLANK}{_TO}{BLANK}\d|{BLANK}{{1,3}}\d")
_RANGE_END = re.compile(rf"{BLANK}?%?{BLANK}?{_TO}{BLANK}?(\d{{1,3}})(?![\d.,/])")
_LOWER = re.compile(rf"{BLANK}?/{BLANK}?(\d{{2,3}})(?![\d/])")
_UNIT_LIKE = re.compile(rf"{BLANK}?(?:[%°º‰^*×·]|x ?10|[^\W\d_]{{1,6}} ?/ ?\w)")
_ROW = re.compile(r"[,;|/\s]{1,4}")  # between values in a row
_ARROWS = {"↓": "low", "↑": "high"}
_ARROW_SET = frozenset(_ARROWS)
_ARROW = re.compile(r"↑+|↓+")
_BEGINS = ",;:(\n"  # before an arrow that belongs to what follows
_WINDOW = 90  # characters before a number that are searched for its name
_LINKS = 5  # most words between a name and its number
_SHORT = 6  # most letters of a name that may be abbreviated by a dot
_CLAUSE = re.compile(r"[;,\n](?=\s|$)|\n(?=\|)|(?<=\w{5})\.(?=\s|$)")  # short words have dots of their own
_END = re.compile(r"[.;,\n](?=\s|$)|\n(?=\|)")
_NEAR = 40  # characters of a clause that are searched for a word that makes the value a target
_MATERIAL = 250  # characters before a value that are searched for the specimen
_FOUND = re.compile(r"(?:[.!?+]|\([+-]+\)|\s-)\s*\Z")  # marks at the end of the line of a finding
_LABEL = re.compile(r"[^.,;:\n]{0,30}:")  # the rest of a label
_SENTENCE = re.compile(
    r"(?<=[^\W\d_]{4})[.!?](?=\s+(?:[^\W\d_a-z]|$))|(?<=\bo\.B)\.|(?<=\bo\. B)\."
)  # short words are cut
_WRAPPED = 50  # least characters of a line whose sentence goes on in the next line
_ADULT = 18
_MAJORITY = 3  # factor by which words for one sex must outnumber those for the other


class ValueFinding(NamedTuple):
    """A value that is a finding: its character offsets, names of the finding, and the value."""

    start: int
    end: int
    names: tuple[str, ...]
    value: Value


class _Measured(NamedTuple):
    """A value in a text, with the ``numbers`` that it may be in the unit of the limits.

    ``after`` is the end of the ``flag`` and ``limit`` that the laboratory prints behind it. If ``doubtful``, it counts
    only in a row of values. ``beyond`` is ``low`` for *< 10*, ``high`` for *> 10*.
    """

    start: int
    end: int
    measure: Measure
    numbers: tuple[float, ...]
    after: int
    flag: str = ""
    limit: float | None = None
    doubtful: bool = False
    beyond: str = ""


def value_findings(text: str, language: str) -> list[ValueFinding]:
    """Find the values of a note that are findings, in order and disjoint; none in a language without words for values.

    Raises:
        InputError: the table of the language cannot be read.
    """
    words = value_words(language)
    return [] if words is None else list(_Note(text, words).findings())


def arrow_findings(text: str, language: str) -> list[tuple[int, int, tuple[str, ...]]]:
    """Find measures with an arrow instead of a number, such as *Hb ↓* and *↑WBC*: start, end, names of the finding."""
    words = value_words(language) if not _ARROW_SET.isdisjoint(text) else None
    return [] if words is None else list(_Note(text, words).arrows())


class _Note:
    def __init__(self, text: str, words: ValueWords) -> None:
        self._text, self._words = text, words

    def findings(self) -> Iterator[ValueFinding]:
        end, values = 0, list(self._values())
        for at, value in enumerate(values):
            # a number behind a bare symbol needs another value beside it: "Na 131, K 5,9"
            neighbours = pairwise(values[max(at - 1, 0) : at + 2])
            counts = not value.doubtful or any(self._in_row(*pair) for pair in neighbours)
            finding = self._finding(value) if value.start >= end and counts else None
            if finding is not None:
                yield finding
                end = finding.end

    def arrows(self) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        text = self._text
        for arrow in _ARROW.finditer(text):
            before, at = self._name(arrow.start()), arrow.start()
            while at and text[at - 1] in " \t":
                at -= 1
            behind = self._name_behind(arrow.end()) if not at or text[at - 1] in _BEGINS else None
            if before is not None and not _NUMBER.match(text, arrow.end() + text.startswith(" ", arrow.end())):
                start, end, called = before[0], arrow.end(), before[1]
            elif behind is not None:
                start, end, called = arrow.start(), *behind
            else:
                continue
            side = _ARROWS[arrow[0][0]]
            limits = [limit for limit in called.measure.limits if side == ("low" if limit.is_low else "high")]
            if limits:
                yield start, end, self._words.finding(limits[0])

    def _name_behind(self, start: int) -> tuple[int, Called] | None:
        """End of the name of a measure that begins right behind an arrow, and the measure."""
        tokens = list(islice(TOKEN.finditer(self._text, start), self._words.longest))
        if not tokens or self._text[start : tokens[0].start()].strip(" "):
            return None
        for last in reversed(tokens):
            for called in self._words.names.get(key(self._text[tokens[0].start() : last.end()]), ()):
                return last.end(), called
        return None

    def _values(self) -> Iterator[_Measured]:
        end = 0
        for number in _NUMBER.finditer(self._text):
            if number.start() < end:
                continue
            called, flag = self._name(number.start()), None
            if called is None:
                flag = self._words.printed.before(self._text, end, number.start())
                called = self._name(flag.start()) if flag else None
            for value in () if called is None else self._values_of(*called, number, flag):
                yield value
                end = value.end

    def _in_row(self, first: _Measured, second: _Measured) -> bool:
        between = self._text[first.after : second.start]
        bounds = first.beyond and second.beyond  # rather criteria: "Temp. > 38, HF > 90"
        return first.measure is not second.measure and not bounds and _ROW.fullmatch(between) is not None

    def _name(self, stop: int) -> tuple[int, Called] | None:
        """Start of the name of a measure whose number starts at ``stop``, and the measure."""
        text, low = self._text, max(0, stop - _WINDOW)
        line = text.rfind("\n", low, stop) + 1
        wraps = line > low and not text[line:stop].strip()  # the number begins its line
        low = max(low, text.rfind("\n", low, line - 1) + 1 if wraps else line)
        tokens = [(token.start() + low, token.end() + low) for token in TOKEN.finditer(text[low:stop])]
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
                gaps = (text[left[1] : right[0]] for left, right in pairwise(tokens[first:stop]))
                as_written = called.written is None or TOKEN.findall(called.written) == TOKEN.findall(written)
                if as_written and all(map(_INSIDE.fullmatch, gaps)):
                    if _BEFORE.search(text[max(0, start - 2) : start]):
                        return None
                    return self._explained(tokens, first, called), called
        return None

    def _explained(self, tokens: list[tuple[int, int]], first: int, called: Called) -> int:
        """Start of a name, including a longer one before the bracket that contains it: *temperatura (T)*."""
        start = tokens[first][0]
        if first and self._text[tokens[first - 1][1] : start].strip() == "(":
            before = self._called(tokens, first)
            if before is not None and before[1].measure is called.measure:
                return before[0]
        return start

    def _link(self, tokens: list[tuple[int, int]], stop: int) -> int:
        end, counts = tokens[stop - 1][1], range(min(4, stop), 0, -1)
        return next((n for n in counts if key(self._text[tokens[stop - n][0] : end]) in self._words.links), 0)

    def _has_unit(self, measure: Measure, start: int) -> bool:
        found = _NUMBER.match(self._text, start)
        return found is not None and measure.unit.match(self._text, found.end()) is not None

    def _values_of(
        self, start: int, called: Called, found: re.Match[str], outer: re.Match[str] | None
    ) -> Iterator[_Measured]:
        measure, text, end, written = called.measure, self._text, found.end(), found[0]
        named = text[start : found.start()]
        bound = _BOUND.search(named)
        if sum(map(named.count, "<>≤≥")) > (bound is not None):
            return
        if measure.form == "pair":
            yield from () if bound else self._pair(start, measure, found)
            return
        ends = [written]
        if measure.form == "range" and (last := _RANGE_END.match(text, end)):
            ends, end = [written, last[1]], last.end()
        unit, inner = measure.unit.match(text, end), None
        if unit is None and (inner := self._words.printed.inside(text, end)):
            unit = measure.unit.match(text, inner.end())
        if unit is None:
            inner, spaced = None, _SPACED.match(text, found.start())
            if spaced and (unit := measure.unit.match(text, spaced.end())):
                ends, end = [re.sub(r"\s", "", spaced[0])], spaced.end()
        stop = unit.end() if unit else end
        if unit is None and (mark := self._words.printed.mark(text, end)):
            end = mark.end()
        units = [list(measure.units)[int((unit.lastgroup or "u0")[1:])]] if unit else list(measure.bare)
        # a number behind which the laboratory prints a flag needs no unit
        readings = [self._readings(measure, number, units or list(measure.units)) for number in ends]
        if not all(readings):
            return
        flags = {kind for arrow, kind in _ARROWS.items() if arrow in named}
        flags |= {match.lastgroup for match in (outer, inner) if match and match.lastgroup}
        flag, limit, after = self._words.printed.behind(text, stop, next(iter(readings[0])), flags)
        continues = (_CONTINUES, _UNIT_LIKE, self._words.dose)
        if not flag and (not units or (unit is None and any(pattern.match(text, end) for pattern in continues))):
            return
        if measure.form == "hundredths" and len(written.replace(",", ".").partition(".")[2]) < 2:
            return
        if limit is not None:
            number, possible = next(iter(readings[0].items()))
            conversions = [measure.units[name] for name in units or measure.units]
            limit = next((_converted(limit, to) for to in conversions if _converted(number, to) in possible), None)
        numbers = tuple(chain.from_iterable(chain.from_iterable(one.values()) for one in readings))
        doubtful = not flag and (bound is not None or (called.symbol and unit is None))
        beyond = "" if bound is None else "low" if bound[0] in "<≤" else "high"
        yield _Measured(start, stop, measure, numbers, after, flag, limit, doubtful, beyond)

    def _pair(self, start: int, measure: Measure, found: re.Match[str]) -> Iterator[_Measured]:
        lower = _LOWER.match(self._text, found.end())
        if lower is None or not found[0].isdecimal():
            return
        pair = ((measure, found[0]), (measures()["diastolic pressure"], lower[1]))
        unit = measure.unit.match(self._text, lower.end())
        if unit is None and _UNIT_LIKE.match(self._text, lower.end()):
            return
        stop = unit.end() if unit else lower.end()
        both = [self._readings(each, number, list(each.units)).get(float(number)) for each, number in pair]
        if all(both) and int(found[0]) > int(lower[1]):
            for (each, _), pressure in zip(pair, both, strict=True):
                yield _Measured(start, stop, each, tuple(pressure or ()), stop)

    def _readings(self, measure: Measure, written: str, units: list[str]) -> dict[float, list[float]]:
        """What a written number may be, with its values in the unit of the limits that a human being can have.

        *1.350* is first a thousand in German, a decimal in English. The mark of thousands of the language decides
        unless no human being can have the value.
        """
        numbers = dict.fromkeys([decimal(written)] if _DECIMAL.fullmatch(written) else ())
        if grouped := _THOUSANDS.fullmatch(written):
            thousands = float(re.sub(r"\D", "", written))
            if grouped[1] in self._words.thousands and _plausible(measure, thousands, units):
                numbers.clear()
            numbers[thousands] = None
        found = {number: _plausible(measure, number, units) for number in numbers}
        return {number: possible for number, possible in found.items() if possible}

    def _finding(self, read: _Measured) -> ValueFinding | None:
        limit = self._limit(read)
        if limit is None or (read.beyond == "high" if limit.is_low else read.beyond == "low"):
            return None
        if not self._is_meant(read):
            return None
        by: Literal["limit", "range", "flag"] = "limit" if not read.flag else "flag" if read.limit is None else "range"
        number, source = (limit.number, limit.source) if by == "limit" else (read.limit, "")
        reads: Literal["low", "high"] = "low" if limit.is_low else "high"
        value = Value(read.measure.name, read.numbers[0], read.measure.first_unit, reads, by, number, source)
        return ValueFinding(read.start, read.end, self._words.finding(limit), value)

    def _limit(self, read: _Measured) -> Limit | None:
        limits = read.measure.limits
        if read.flag:
            return next((limit for limit in limits if read.flag == ("low" if limit.is_low else "high")), None)
        exceeded = [limit for limit in limits if all(map(limit.holds, read.numbers))]
        own = [limit for limit in exceeded if limit.who == "all" or limit.who in self._groups]
        return max(own, key=lambda limit: -(limit.number or 0) if limit.is_low else limit.number or 0, default=None)

    def _is_meant(self, read: _Measured) -> bool:
        """Whether the context leaves the value a current measurement in blood."""
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
        bloods = [found.span() for found in self._words.specimens.finditer(paragraph)]
        for found in reversed(list(self._words.material.finditer(paragraph))):
            if found[1] or any(start <= found.start() < end for start, end in bloods):
                return True
            if self._reaches(found):
                return False
        return True

    def _reaches(self, fluid: re.Match[str]) -> bool:
        """Whether a fluid in a text is the specimen of a value at the end of this text.

        It is so in its sentence, in a line that it labels with a colon, and below a line of its own, unless a mark
        makes this line a finding: "Aszites."
        """
        text, end = fluid.string, fluid.end()
        line, broken, _ = text[text.rfind("\n", 0, fluid.start()) + 1 :].partition("\n")
        is_finding = self._words.effusion.fullmatch(fluid[0]) is not None and _FOUND.search(line) is not None
        alone = not any(map(str.isalpha, self._words.heading.sub("", line))) and not is_finding
        if broken and (line.rstrip().endswith(":") or alone):
            return True
        if broken and len(line) < _WRAPPED:
            return False
        return (not broken and _LABEL.match(text, end) is not None) or not _SENTENCE.search(text, end)

    @cached_property
    def _groups(self) -> frozenset[Who]:
        counts, ages = Counter[str](), list[int]()
        for found in self._words.person.finditer(self._text):
            kind = found.lastgroup or ""
            if kind == "years":
                ages.append(int(found[kind]))
            counts[kind] += 1
        if (ages and ages[0] < _ADULT) or (not ages and (counts["young"] or counts["child"])):
            return frozenset()
        who: set[Who] = {"adult"}
        if counts["man"] > _MAJORITY * counts["woman"]:
            who.add("man")
        elif counts["woman"] > _MAJORITY * counts["man"] and not counts["pregnant"]:
            who.add("woman")
        return frozenset(who)


def _may_stop(text: str, word: tuple[int, int], between: str) -> bool:
    return "." not in between or (word[1] - word[0] <= _SHORT and between.strip(" \t")[0] == ".")


def _plausible(measure: Measure, number: float, units: list[str]) -> list[float]:
    """A number in the unit of the limits, converted from each possible unit, if a human being can have it."""
    converted = (_converted(number, measure.units[unit]) for unit in units)
    return sorted({number for number in converted if measure.lowest <= number <= measure.highest})


def _converted(number: float, to: Conversion) -> float:
    return round(number * to.factor + to.offset, 4)
