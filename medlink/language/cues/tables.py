"""The tables ``cues.tsv`` and ``sections.tsv`` of a language, and what their rows mean."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from medlink.errors import InputError
from medlink.files.json import read_json
from medlink.files.problems import Problems
from medlink.files.tables import open_table
from medlink.language.cues.matcher import Phrases
from medlink.language.languages import SHIPPED, Rules, any_of, language_data

_Says = Literal["absent", "uncertain", "present", "historical", "past", "hypothetical", "family", "other", "patient"]
Reads = Literal[_Says, "pseudo", "end", "cause"]
"""What a cue says of the mentions in its scope.

``past`` is *historical* for what passes by (:attr:`ScopeRules.passing`) and nothing for what lasts. ``pseudo`` looks
like a cue and is none, ``end`` ends scopes, and ``cause`` ends those that do not speak of time.
"""
Side = Literal["before", "after", "both", "around", "beside", ""]
"""Where a cue stands: before the mention, after it, either, around it as the two halves of a frame do, or beside it.

Check boxes stand ``beside``: before their mentions in a line that begins with one, else behind them.
"""
_INERT = ("pseudo", "end", "cause")
_BETWEEN = " … "
_REMEDY = "mend the row as docs/status.md says"
SYSTEM = "system"
"""Kind of a heading that is a part of the body: of the review of systems where that is open, else of the findings."""


class Cue(NamedTuple):
    """One row of ``cues.tsv``; ``reach`` is the number of words it may be away from the mention, ``None`` for any."""

    reads: Reads
    side: Side
    reach: int | None
    name: str


class Frame(NamedTuple):
    """A cue in two halves, the second of them one of the phrases of :attr:`Cues.seconds`."""

    number: int
    cue: Cue


class Cues(NamedTuple):
    """The cues of a language: whole ones, and the halves of frames."""

    whole: Phrases[Cue]
    firsts: Phrases[Frame]
    seconds: Phrases[int]


class ScopeRules(Rules):
    """``scopes.json``: how clauses and headings of a language are told apart.

    ``joins`` are words that join members of a list, those of ``either`` members one of which may be meant. ``grades``
    are words that begin a finding that is there, behind a comma too ("no rales, mild edema"). A dot behind one of the
    words ``abbreviated`` ends no sentence, nor one before a small letter behind a word of at most ``cut_to`` letters,
    nor, with ``ordinals``, one behind a number. ``dated`` are words that may stand in the date of a heading.
    ``without`` are denials that stand by one word of a list ("nausea without emesis, vertigo"). ``passing`` are
    patterns of findings that pass by, as an infarct does and diabetes does not, and ``lasting`` of those among them
    that last ("chronic sinusitis"). ``since`` are words before the year in which something began that lasts.
    ``nothing`` are words that say in the line of a heading that its section is empty. ``adverbs`` are patterns of words
    that may stand between a mention and the denial behind it ("fever currently none").
    """

    joins: frozenset[str] = frozenset()
    either: frozenset[str] = frozenset()
    grades: frozenset[str] = frozenset()
    abbreviated: frozenset[str] = frozenset()
    cut_to: int = 3
    ordinals: bool = False
    dated: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    passing: tuple[str, ...] = ()
    lasting: tuple[str, ...] = ()
    since: frozenset[str] = frozenset()
    nothing: frozenset[str] = frozenset()
    adverbs: tuple[str, ...] = ()

    @cached_property
    def adverb(self) -> re.Pattern[str]:
        """``adverbs`` as one pattern of whole words, in lower case."""
        return any_of(map(re.compile, self.adverbs))

    @cached_property
    def passes(self) -> re.Pattern[str]:
        """``passing`` and ``lasting`` as one pattern that matches what passes by, in lower case."""
        passing, lasting = (any_of(map(re.compile, one)).pattern for one in (self.passing, self.lasting))
        return re.compile(rf"(?!.*(?:{lasting}))(?=.*(?:{passing}))")


class Effect(NamedTuple):
    """What a kind of section says of mentions that no cue says otherwise of; empty for nothing."""

    temporality: str
    experiencer: str


def has_cues(language: str) -> bool:
    """Whether a language has a table of cues.

    >>> has_cues("de-AT"), has_cues("fr")
    (True, False)
    """
    return language_data(language).table("cues") is not None


def cues(language: str) -> Cues:
    """The cues of a language, read once in a process; none where it has no table.

    Raises:
        InputError: a row of the table cannot be read.
    """
    return _cues(language_data(language).table("cues"))


def headings(language: str) -> Phrases[str]:
    """The headings of a language with their kinds of section.

    Raises:
        InputError: a row of the table cannot be read.
    """
    return _headings(language_data(language).table("sections"))


def scopes(language: str) -> ScopeRules:
    """How clauses and headings of a language are told apart."""
    return language_data(language).read("scopes", ScopeRules)


@cache
def effects() -> dict[str, Effect]:
    """All kinds of section and what they say."""
    return {
        kind: Effect(entry.get("temporality", ""), entry.get("experiencer", ""))
        for kind, entry in read_json(SHIPPED / "sections.json").items()
    }


def cue_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a table of cues with their lines, checked.

    Raises:
        InputError: a column is missing, or a cell is none of the values that it may have.
    """
    for line, row in rows(path, ("cue", "reads", "side", "reach", "source", "example")):
        halves = row["cue"].count(_BETWEEN)
        inert = row["reads"] in _INERT
        _one_of(path, line, "reads", row["reads"], get_args(Reads))
        _one_of(path, line, "side", row["side"], ("",) if inert else [one for one in get_args(Side) if one])
        if not row["cue"] or halves > 1 or (halves and inert) or (row["side"] == "around" and not halves):
            raise _bad(path, line, f"{row['cue']!r} is no cue of that side")
        if row["reach"] and not row["reach"].isdecimal():
            raise _bad(path, line, f"the reach is {row['reach']!r}, a number of words or nothing expected")
        yield line, row


@lru_cache(maxsize=8)
def _cues(path: Path | None) -> Cues:
    found = Cues(Phrases(), Phrases(), Phrases())
    if path is None:
        return found
    for number, row in cue_rows(path):
        reach = int(row["reach"]) if row["reach"] else None
        cue = Cue(row["reads"], row["side"], reach, row["cue"])  # type: ignore[arg-type]  # cue_rows has checked both
        first, _, second = row["cue"].partition(_BETWEEN)
        if second:
            found.firsts.add(first, Frame(number, cue))
            found.seconds.add(second, number)
        else:
            found.whole.add(first, cue)
    return found


@lru_cache(maxsize=8)
def _headings(path: Path | None) -> Phrases[str]:
    found: Phrases[str] = Phrases()
    if path is None:
        return found
    for line, row in rows(path, ("heading", "kind", "source")):
        _one_of(path, line, "kind", row["kind"], [*effects(), SYSTEM])
        for heading in alternatives(row["heading"]):
            found.add(heading, row["kind"])
    return found


def alternatives(cell: str) -> list[str]:
    """The phrases of a cell, between bars that stand outside of brackets."""
    found, depth = [""], 0
    for letter in cell:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]


def rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a table with their lines."""
    table = open_table(path, Problems(0, adjustable=False), separator="\t")
    table.places(columns)
    for line, cells in table.rows:
        yield line, dict(zip(table.header, map(str.strip, cells), strict=True))


def _one_of(path: Path, line: int, column: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        said = ", ".join(known) or "nothing"
        raise _bad(path, line, f"{column} is {value!r}, one of {said} expected" if value else f"{column} is empty")


def _bad(path: Path, line: int, message: str) -> InputError:
    return InputError(message, path=path, line=line, remedy=_REMEDY)
