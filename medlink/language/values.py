"""The tables of measured values: what is measured, in which units, and from which limit on a value is a finding.

``measures.tsv``, ``units.tsv`` and ``limits.tsv`` hold for all languages; ``values.tsv`` of a language has its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from medlink.errors import InputError
from medlink.language.cues.tables import alternatives, rows
from medlink.language.languages import SHIPPED, language_data

Form = Literal["number", "hundredths", "range", "pair", "part"]
"""How a value is written: a number, one with two decimals at least, one or both ends of a range, systolic before
diastolic pressure, or the second half of that."""
Side = Literal["below", "to", "above", "from"]
"""On which side of the limit a value is a finding; with ``to`` and ``from`` the limit itself is one."""
Who = Literal["all", "adult", "woman", "man"]
Context = Literal[
    "link", "target", "change", "fluid", "blood", "years", "months", "child", "woman", "man", "pregnant", "high", "low",
    "normal", "reference", "dose",
]  # fmt: skip
_NAMES = ("measure", "symbol", "finding")
_SAME_CASE = 2  # letters of a name that is another word in other capitals: FE, Fe
_REMEDY = "mend the row as docs/finding.md says"
BLANK = "[ \t\xa0\u2009\u202f]"
"""A pattern of the blanks that notes have between numbers and words."""
TOKEN = re.compile(r"[^\W_]+|\+")


class Conversion(NamedTuple):
    """From a unit to that of the limits: ``number * factor + offset``."""

    factor: float = 1.0
    offset: float = 0.0


class Limit(NamedTuple):
    """Beyond which number a value is a finding, for whom, and by which source; without one the laboratory decides."""

    side: Side
    number: float | None
    who: Who
    finding: tuple[str, ...]
    source: str

    @property
    def is_low(self) -> bool:
        """Whether it is a lower limit."""
        return self.side in ("below", "to")

    def holds(self, number: float) -> bool:
        """Whether a value, in the unit of the limits, is beyond the limit.

        >>> limit = Limit("from", 38.0, "all", ("fever",), "")
        >>> limit.holds(38.0), limit.holds(37.9)
        (True, False)
        """
        if self.number is None:
            return False
        if number == self.number:
            return self.side in ("to", "from")
        return (number < self.number) == self.is_low


class Measure(NamedTuple):
    """What is measured; ``bare`` are the units that a number without one may be in, ``lowest`` and ``highest`` the
    bounds of what a human being can have, in the first of the ``units``."""

    name: str
    of_blood: bool
    form: Form
    units: dict[str, Conversion]
    bare: tuple[str, ...]
    lowest: float
    highest: float
    limits: tuple[Limit, ...]
    unit: re.Pattern[str]

    @property
    def first_unit(self) -> str:
        """The unit of the limits."""
        return next(iter(self.units))


class Called(NamedTuple):
    """A measure by one of its names; a ``symbol`` may be something else where no unit or flag stands behind it."""

    measure: Measure
    symbol: bool
    written: str | None


class ValueWords:
    """The words of one language (:func:`value_words`)."""

    def __init__(self, path: Path) -> None:
        self.names: dict[tuple[str, ...], list[Called]] = {}
        self._findings: dict[str, tuple[str, ...]] = {}
        self._phrases: dict[str, list[str]] = {kind: [] for kind in get_args(Context)}
        for line, row in rows(path, ("kind", "name", "words", "source")):
            kind, name, words = row["kind"], row["name"], [one for one in alternatives(row["words"]) if one]
            if not words or not row["source"] or kind not in (*_NAMES, *self._phrases):
                said = ", ".join((*_NAMES, *self._phrases))
                raise _bad(path, line, f"a kind ({said}), words and a source are expected")
            if kind in self._phrases:
                self._phrases[kind] += words
            elif kind == "finding":
                self._findings[name] = tuple(words)
            elif name not in measures():
                raise _bad(path, line, f"{name!r} is none of the measures of measures.tsv")
            else:
                self._call(measures()[name], words, symbol=kind == "symbol")
        self.longest = max(map(len, self.names), default=0)
        self.links = frozenset(map(key, self._phrases["link"]))

    def _call(self, measure: Measure, words: Iterable[str], *, symbol: bool) -> None:
        for word in words:
            written = word if sum(map(str.isalpha, word)) <= _SAME_CASE else None
            self.names.setdefault(key(word), []).append(Called(measure, symbol, written))

    def finding(self, limit: Limit) -> tuple[str, ...]:
        """Names of what a value beyond a limit is, in the language and in English."""
        return (*self._findings.get(limit.finding[0], ()), *limit.finding)

    def phrases(self, *kinds: str) -> str:
        """A pattern of the words of some kinds, the longest first, without borders."""
        return any_phrase(word for kind in kinds for word in self._phrases[kind])

    @cached_property
    def either(self) -> re.Pattern[str]:
        """Words before a number that was not measured: what is aimed at, and by how much something changed."""
        return re.compile(rf"(?<!\w)(?:{self.phrases('target', 'change')})(?!\w)", re.IGNORECASE)

    @cached_property
    def target(self) -> re.Pattern[str]:
        """Words that say behind a value that it is aimed at."""
        return re.compile(rf"(?<!\w)(?:{self.phrases('target')})(?!\w)", re.IGNORECASE)

    @cached_property
    def material(self) -> re.Pattern[str]:
        """Words for what was examined: blood as a group, another fluid without one."""
        blood, fluid = self.phrases("blood"), self.phrases("fluid")
        return re.compile(rf"(?<!\w)(?:({blood})|(?:{fluid}))(?!\w)", re.IGNORECASE)

    @cached_property
    def dose(self) -> re.Pattern[str]:
        """Words behind a number that is no value but a dose, a time or a length."""
        return re.compile(rf"{BLANK}?(?:{self.phrases('dose')})(?!\w)", re.IGNORECASE)

    @cached_property
    def person(self) -> re.Pattern[str]:
        """Words that say who the patient is: ``years`` (the number), ``young``, ``child``, ``pregnant``, a sex."""
        years, months = self.phrases("years"), self.phrases("months")
        groups = "|".join(f"(?P<{kind}>{self.phrases(kind)})" for kind in ("pregnant", "child", "woman", "man"))
        young = rf"\d{{1,3}}[ \t-]{{0,2}}(?:{months})"
        return re.compile(
            rf"(?<!\w)(?:(?P<years>\d{{1,3}})[ \t-]{{0,2}}(?:{years})|(?P<young>{young})|{groups})(?!\w)",
            re.IGNORECASE,
        )

    @cached_property
    def flag(self) -> re.Pattern[str]:
        """What the laboratory prints behind a value: groups ``low``, ``high`` and ``normal``."""
        said = "|".join(f"(?P<{kind}>{self.phrases(kind)})" for kind in ("low", "high", "normal"))
        return re.compile(rf"[ \t]*([(\[]?)[ \t]*(?:{said})[ \t]*(?=[)\],;|\t\n.]|$|  )[)\]]?")

    @cached_property
    def reference(self) -> re.Pattern[str]:
        """A printed range: groups ``first`` and ``last``, or ``sign`` and ``bound``."""
        number, to = r"\d+(?:[.,]\d+)?", r"(?:-|–|bis|to|a)"
        bounds = rf"(?P<first>{number})[ \t]*{to}[ \t]*(?P<last>{number})|(?P<sign>[<>≤≥])[ \t]*(?P<bound>{number})"
        words = rf"(?:{self.phrases('reference')})"
        opened = rf"(?:[(\[][ \t]*(?:{words}[.:]?[ \t]*)?|{words}[.:]?[ \t]*)"
        return re.compile(rf"[ \t,|]*{opened}(?:{bounds})[^()\[\]\n]{{0,15}}[)\]]?", re.IGNORECASE)


def key(text: str) -> tuple[str, ...]:
    """The words of a name as they are compared.

    >>> key("Temp."), key("γ-GT"), key("K+")
    (('temp',), ('γ', 'gt'), ('k', '+'))
    """
    return tuple(TOKEN.findall(text.casefold()))


def any_phrase(words: Iterable[str]) -> str:
    """A pattern of any of some words, the longest first; blanks may be left out, and there are several µ."""
    ordered = sorted(set(words), key=lambda word: (-len(word), word))
    return "|".join(map(_spelt, ordered)) or "(?!)"


def _spelt(word: str) -> str:
    return re.escape(word).replace(r"\ ", f"{BLANK}?").replace("µ", "[µμu]")


def value_words(language: str) -> ValueWords | None:
    """The words of a language, read once in a process; ``None`` where it has no ``values.tsv``.

    Raises:
        InputError: a row of the table cannot be read.
    """
    path = language_data(language).table("values")
    return None if path is None else _value_words(path)


@lru_cache(maxsize=8)
def _value_words(path: Path) -> ValueWords:
    return ValueWords(path)


@cache
def measures() -> dict[str, Measure]:
    """All measures with their limits, by name."""
    spellings = dict(_spellings(SHIPPED / "units.tsv"))
    limits = dict[str, list[Limit]]()
    for line, row in rows(SHIPPED / "limits.tsv", ("measure", "side", "limit", "who", "finding", "source")):
        if row["side"] not in get_args(Side) or row["who"] not in get_args(Who) or not row["source"]:
            raise _bad(SHIPPED / "limits.tsv", line, "a side, whose limit it is and a source are expected")
        number = float(row["limit"]) if row["limit"] else None
        # side and who were looked at above
        limit = Limit(row["side"], number, row["who"], tuple(alternatives(row["finding"])), row["source"])  # type: ignore[arg-type]
        limits.setdefault(row["measure"], []).append(limit)
    found = dict[str, Measure]()
    for _, row in rows(SHIPPED / "measures.tsv", ("measure", "of", "form", "units", "bare", "lowest", "highest")):
        name, units = row["measure"], dict(map(_conversion, alternatives(row["units"])))
        bare = tuple(filter(None, alternatives(row["bare"])))
        groups = "|".join(f"(?P<u{at}>{any_phrase(spellings.get(unit, []))})" for at, unit in enumerate(units))
        pattern = re.compile(rf"{BLANK}{{0,2}}(?:[x×*·]{BLANK}?)?(?:{groups})(?:(?<!\w)|(?![\w/^]))", re.IGNORECASE)
        bounds = float(row["lowest"]), float(row["highest"])
        of_blood, form = row["of"] == "blood", row["form"]
        # the forms of the table that ships are those of Form: a test reads it
        found[name] = Measure(name, of_blood, form, units, bare, *bounds, tuple(limits.get(name, ())), pattern)  # type: ignore[arg-type]
    return found


def _spellings(path: Path) -> Iterator[tuple[str, list[str]]]:
    for _, row in rows(path, ("unit", "spellings")):
        yield row["unit"], alternatives(row["spellings"])


def _conversion(cell: str) -> tuple[str, Conversion]:
    unit, *numbers = cell.split()
    return unit, Conversion(*map(float, numbers))


def _bad(path: Path, line: int, message: str) -> InputError:
    return InputError(message, path=path, line=line, remedy=_REMEDY)
