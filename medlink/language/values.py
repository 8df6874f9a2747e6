"""Tables for measured values: measures, their units, and the limits beyond which a value is a finding.

All languages share ``measures.tsv``, ``units.tsv`` and ``limits.tsv``. Each language has its own words in
``values.tsv``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

from medlink.language.languages import ROW_REMEDY, SHIPPED, Language, alternatives, per_language, rows
from medlink.language.printed import BLANK, CELL_ENDS, COLUMN, Printed
from medlink.language.text import strip_accents

Form = Literal["number", "hundredths", "range", "pair", "part"]
"""Form of a value: a number, a number with at least two decimals, one or both ends of a range, systolic before
diastolic pressure, or only the second half of such a pair."""
Side = Literal["below", "to", "above", "from"]
"""Side of the limit on which a value is a finding; ``to`` and ``from`` include the limit."""
Who = Literal["all", "adult", "woman", "man"]
Context = Literal[
    "link", "target", "change", "fluid", "effusion", "blood", "specimen", "and", "label", "years", "period", "months",
    "child", "woman", "man", "pregnant", "high", "low", "normal", "reference", "dose", "thousands",
]  # fmt: skip
_NAMES = ("measure", "symbol", "finding")
_SAME_CASE = 2  # letters of a name that is another word in other capitals: FE, Fe
_DIGRAPHS = {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}  # DIN 5007-2
TOKEN = re.compile(r"[^\W_]+|\+")


class Conversion(NamedTuple):
    """Conversion of a unit to the unit of the limits: ``number * factor + offset``."""

    factor: float = 1.0
    offset: float = 0.0


class Limit(NamedTuple):
    """A limit beyond which a value is a finding; its ``number`` is ``None`` if only the laboratory decides."""

    side: Side
    number: float | None
    who: Who
    finding: tuple[str, ...]
    source: str

    @property
    def is_low(self) -> bool:
        return self.side in ("below", "to")

    def holds(self, number: float) -> bool:
        """Return whether a value, in the unit of the limits, is beyond the limit."""
        if self.number is None:
            return False
        if number == self.number:
            return self.side in ("to", "from")
        return (number < self.number) == self.is_low


class Measure(NamedTuple):
    """A measure, such as body temperature, with its units and the range of plausible values."""

    name: str
    of_blood: bool  # whether it is measured in blood
    form: Form
    units: dict[str, Conversion]  # the first is that of the limits
    bare: tuple[str, ...]  # possible units of a number without a unit
    lowest: float  # lowest possible value in a human being, in the first unit
    highest: float
    limits: tuple[Limit, ...]
    unit: re.Pattern[str]  # a unit that follows a number

    @property
    def first_unit(self) -> str:
        return next(iter(self.units))


class Called(NamedTuple):
    """A name of a measure; a ``symbol`` without a unit or flag after it may mean something else.

    ``written`` is the required spelling, if the name would be another word in other capitals (*FE*, *Fe*).
    """

    measure: Measure
    symbol: bool
    written: str | None


class ValueWords:
    """The words of one language (:func:`value_words`)."""

    def __init__(self, path: Path) -> None:
        self.names: dict[tuple[str, ...], list[Called]] = {}
        self._findings: dict[str, tuple[str, ...]] = {}
        self._phrases: dict[str, list[str]] = {kind: [] for kind in get_args(Context)}
        for row in rows(path, "kind", "name", "words", "source"):
            kind, name, words = row["kind"], row["name"], [word for word in alternatives(row["words"]) if word]
            if not words or not row["source"] or kind not in (*_NAMES, *self._phrases):
                kinds = ", ".join((*_NAMES, *self._phrases))
                raise row.error(f"a kind ({kinds}), words and a source are expected", ROW_REMEDY)
            if kind in self._phrases:
                self._phrases[kind] += words
            elif kind == "finding":
                self._findings[name] = tuple(words)
            elif name not in measures():
                raise row.error(f"{name!r} is none of the measures of measures.tsv", ROW_REMEDY)
            else:
                self._call(measures()[name], words, symbol=kind == "symbol")
        self.longest = max(map(len, self.names), default=0)
        self.links = frozenset(key(spelt) for word in self._phrases["link"] for spelt in _spellings(word))
        self.thousands = frozenset(self._phrases["thousands"])
        """Marks between thousands: ``.`` in German and Spanish, ``,`` in English."""
        phrases = self.phrases
        self.either = _whole(phrases("target", "change"))  # words before a number that was not measured
        self.target = _whole(phrases("target"))  # words after a target value
        # words for the examined material; only blood has a group of the pattern
        self.material = _whole(f"({phrases('blood')})|{phrases('fluid')}")
        one = rf"(?:{phrases('blood', 'fluid')})(?!\w)"
        joined = rf"(?:[ \t,;/&()|-]| \+ )+(?:(?:{phrases('and')})[ \t]+)?"
        listed = rf"(?:{one}{joined})*(?:{phrases('specimen')})(?!\w)(?:{joined}{one})*"
        self.specimens = re.compile(rf"(?<!\w){listed}(?=[^,;:\n]{{0,30}}[:\n])", re.IGNORECASE)
        """A heading that names blood, perhaps among other specimens: "Serum, EDTA-Blut, Urin:"."""
        self.heading = _whole(phrases("blood", "fluid", "label"))  # words of a heading that only names the specimen
        self.effusion = _whole(phrases("effusion"))  # fluids that are findings by themselves
        # words after a dose, a time or a length
        self.dose = re.compile(rf"{BLANK}?(?:{phrases('dose')})(?!\w)", re.IGNORECASE)
        period = phrases("period")  # words around a number of years that is not an age: "hace 5 años"
        after = rf"[ \t-]{{0,2}}(?:{phrases('years')})(?! (?:{period}))"
        years = rf"(?:{period}){BLANK}\d{{1,3}}|(?P<years>\d{{1,3}}){after}"
        young = rf"(?P<young>\d{{1,3}}[ \t-]{{0,2}}(?:{phrases('months')}))"
        self.person = _whole(f"{years}|{young}|{self._groups('pregnant', 'child', 'woman', 'man')}")
        """Words about the patient: groups ``years`` (a number), ``young``, ``child``, ``pregnant`` and a sex."""
        self.printed = Printed(phrases)

    def _call(self, measure: Measure, words: Iterable[str], *, symbol: bool) -> None:
        for word in words:
            written = word if sum(map(str.isalpha, word)) <= _SAME_CASE else None
            for spelt in sorted({key(spelt): spelt for spelt in _spellings(word)}.values()):
                self.names.setdefault(key(spelt), []).append(Called(measure, symbol, written and spelt))

    def _groups(self, *kinds: str) -> str:
        return "|".join(f"(?P<{kind}>{self.phrases(kind)})" for kind in kinds)

    def finding(self, limit: Limit) -> tuple[str, ...]:
        """Return the names of the finding beyond a limit, in the language and in English."""
        return (*self._findings.get(limit.finding[0], ()), *limit.finding)

    def phrases(self, *kinds: str) -> str:
        """Build a pattern of the words of some kinds, the longest first, without word boundaries."""
        return any_phrase(word for kind in kinds for word in self._phrases[kind])


def _whole(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE)


def key(text: str) -> tuple[str, ...]:
    """Return the words of a name in a form for comparison.

    >>> key("Temp."), key("γ-GT"), key("K+")
    (('temp',), ('γ', 'gt'), ('k', '+'))
    """
    return tuple(TOKEN.findall(text.casefold()))


def _spellings(word: str) -> set[str]:
    """A word as written, without accents, and with German digraphs: *Sättigung*, *Sattigung*, *Saettigung*."""
    return {word, strip_accents(word), strip_accents("".join(_DIGRAPHS.get(letter, letter) for letter in word))}


def any_phrase(words: Iterable[str]) -> str:
    """Build a pattern of any of the words, the longest first.

    Blanks and accents are optional, umlauts may be digraphs, and µ has several characters.
    """
    spelt = {spelling for word in words for spelling in _spellings(word)}
    ordered = sorted(spelt, key=lambda word: (-len(word), word))
    return "|".join(re.escape(word).replace(r"\ ", f"{BLANK}?").replace("µ", "[µμu]") for word in ordered) or "(?!)"


@per_language
def value_words(data: Language) -> ValueWords | None:
    """Return the words of a language, ``None`` without ``values.tsv``; raises InputError if a row cannot be read."""
    path = data.table("values")
    return ValueWords(path) if path else None


@cache
def measures() -> dict[str, Measure]:
    """Return all measures with their limits, by name."""
    units_table = rows(SHIPPED / "units.tsv", "unit", "spellings")
    spellings = {row["unit"]: alternatives(row["spellings"]) for row in units_table}
    limits = dict[str, list[Limit]]()
    for row in rows(SHIPPED / "limits.tsv", "measure", "side", "limit", "who", "finding", "source"):
        number = float(row["limit"]) if row["limit"] else None
        side, who = cast(Side, row["side"]), cast(Who, row["who"])
        limit = Limit(side, number, who, tuple(alternatives(row["finding"])), row["source"])
        limits.setdefault(row["measure"], []).append(limit)
    by_name = dict[str, Measure]()
    for row in rows(SHIPPED / "measures.tsv", "measure", "of", "form", "units", "bare", "lowest", "highest"):
        name, cells = row["measure"], (cell.split() for cell in alternatives(row["units"]))
        units = {unit: Conversion(*map(float, numbers)) for unit, *numbers in cells}
        groups = "|".join(f"(?P<u{at}>{any_phrase(spellings.get(unit, []))})" for at, unit in enumerate(units))
        gap, ends = rf"(?:{BLANK}{{0,2}}|(?P<column>{COLUMN}))", r"(?:(?<!\w)|(?![\w/^]))"
        one = rf"{gap}(?:[x×*·]{BLANK}?)?(?:{groups}){ends}(?(column){CELL_ENDS})"
        pattern = re.compile(one, re.IGNORECASE)
        bare, form = tuple(filter(None, alternatives(row["bare"]))), cast(Form, row["form"])
        lowest, highest, known = float(row["lowest"]), float(row["highest"]), tuple(limits.get(name, ()))
        by_name[name] = Measure(name, row["of"] == "blood", form, units, bare, lowest, highest, known, pattern)
    return by_name
