"""What a laboratory prints around a number: columns of a table, flags, marks and the range of normal values."""

from __future__ import annotations

import re
from collections.abc import Callable, Set

BLANK = "[ \t\xa0\u2009\u202f]"
"""Pattern of the blanks between numbers and words in notes."""
COLUMN = rf"(?:{BLANK}*(?:\||;(?! )){BLANK}*|\t{BLANK}*|{BLANK}{{2,}})"
"""Pattern of what separates two columns: a bar, a semicolon without a blank, a tab or several blanks."""
CELL_ENDS = rf"(?={BLANK}*(?:[|;,)\n]|$)|{BLANK}{{2}}|\t|{BLANK}?[\[(<>≤≥*!↑↓\d])"
"""Pattern of what may follow a cell."""
_NUMBER, _TO = r"\d+(?:[.,]\d+)?", r"[ \t]*(?:-|–|bis|to|a)[ \t]*"
_BOUNDS = rf"(?P<first>{_NUMBER}){_TO}(?P<last>{_NUMBER})|(?P<sign>[<>≤≥])=?[ \t]*(?P<bound>{_NUMBER})"
_GAP = r"(?:[ \t|]*+|;++)"
_MARK = r"[(\[]?[*!]+[)\]]?"  # of a value outside its range
_MOST = 24  # characters of a flag and the blanks around it


class Printed:
    """The flags and ranges of a language; ``phrases`` builds the pattern of the words of some kinds."""

    def __init__(self, phrases: Callable[..., str]) -> None:
        kinds = ("low", "high", "normal")
        flags = "|".join(f"(?P<{kind}>{phrases(kind)})" for kind in kinds)
        one = rf"[(\[]?(?:(?:{flags})[*!]*|[*!-]+)[)\]]?"
        self._flag = re.compile(rf"{_GAP}(?:[(\[][ \t]*+)?(?:{flags})[*!]*[ \t]*(?=[)\],;|\t\n.]|$|  )[)\]]?")
        self._mark = re.compile(rf"{_GAP}{_MARK}(?={BLANK}*(?:[\[(|;,\n]|$)|{BLANK}{{2}}|\t)")
        self._inner = re.compile(rf"(?:{COLUMN}|{BLANK}?){one}")
        self._outer = re.compile(rf"(?:{COLUMN}{one}(?:{COLUMN}|{BLANK}+)|{BLANK}*{_MARK}{BLANK}*)\Z")
        printed = rf"(?:{phrases('reference')})"
        opened = rf"(?:[(\[][ \t]*(?:{printed}[.:]?[ \t]*)?|{printed}[.:]?[ \t]*)"
        self._range = re.compile(rf"[ \t,;|]*{opened}(?:{_BOUNDS})[^()\[\]\n]{{0,15}}[)\]]?", re.IGNORECASE)
        # without brackets it is a cell, or right behind a unit
        ends = rf"(?:[ \t]{{2}}|[ \t]*(?:[\n|\t;,)*!]|\.(?!\d)|$|{phrases(*kinds)}(?!\w)))"
        self._cell = re.compile(rf"(?:(?<=[^\W\d]|%) +|  +| *[\t|][ \t|]*|;+)(?:{_BOUNDS})(?={ends})", re.IGNORECASE)

    def before(self, text: str, start: int, end: int) -> re.Match[str] | None:
        """Return a flag in a column of its own, or a mark, that ends at ``end``, before a number."""
        return self._outer.search(text, max(start, end - _MOST), end)

    def inside(self, text: str, start: int) -> re.Match[str] | None:
        """Return a flag or mark between a number and its unit: *6,4 H mmol/l*."""
        return self._inner.match(text, start)

    def mark(self, text: str, start: int) -> re.Match[str] | None:
        """Return a mark behind a value: ``7,9 *``."""
        return self._mark.match(text, start)

    def behind(self, text: str, start: int, number: float, flags: Set[str]) -> tuple[str, float | None, int]:
        """Return the flag of a number (``low``, ``high``, ``normal`` or empty), its limit, and the end of both.

        ``flags`` are those before ``start``, such as an arrow before the number.
        """
        found, end = set(flags), start
        limit: float | None = None
        while len(found) < 3:
            if flag := self._flag.match(text, end):
                found.add(flag.lastgroup or "")
                end = flag.end()
            elif printed := self._range.match(text, end) or self._cell.match(text, end):
                side, limit = _outside(number, printed)
                found.add(side)
                end = printed.end()
            elif mark := self._mark.match(text, end):
                end = mark.end()
            else:
                break
        return (found.pop() if len(found) == 1 else "normal" if found else ""), limit, end


def decimal(written: str) -> float:
    """Return a number with a decimal comma or point."""
    return float(written.replace(",", "."))


def _outside(number: float, printed: re.Match[str]) -> tuple[str, float]:
    if printed["sign"]:
        bound, below = decimal(printed["bound"]), printed["sign"] in "<≤"
        beyond = number > bound if below else number < bound
        return ("high" if below else "low") if beyond else "normal", bound
    first, last = decimal(printed["first"]), decimal(printed["last"])
    if first >= last:
        return "normal", first  # it is not a range
    return ("low", first) if number < first else ("high", last) if number > last else ("normal", first)
