"""Cues: phrases with alternatives, found by a prefix tree over words and marks, and the tables that hold them.

The tables ``cues.tsv`` and others of a language have the words that qualify mentions. A function that reads one finds
nothing where a language has no table, and raises InputError where a column is missing or a row cannot be read.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, cached_property
from itertools import accumulate
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast, get_args

from medlink.files.json import read_json
from medlink.language.languages import (
    SHIPPED,
    Language,
    Row,
    Rules,
    alternatives,
    any_of,
    language_data,
    per_language,
    rows,
)
from medlink.language.text import APOSTROPHE, INVISIBLE

RULE = 8
"""Characters from which a run of one mark is a single word, as in ``--------``."""
LETTERS = rf"[^\W_]+(?:[\u0300-\u036f{INVISIBLE}]+[^\W_]*)*"
DECIMAL = r"(?<!\d[.,])\d++[.,]\d++(?![.,]\d)"  # no part of a date such as 12.03.2010
_PLAIN = re.compile(rf"{DECIMAL}|{LETTERS}(?:[{APOSTROPHE}]{LETTERS})*|[^\w\s]|_")
_TOKEN = re.compile(rf"([^\w\s]|_)\1{{{RULE - 1},}}|{_PLAIN.pattern}")
_RUN = re.compile(rf"([^\w\s]|_)\1{{{RULE - 1}}}")
_APOSTROPHE, _INVISIBLE = re.compile(f"[{APOSTROPHE}]"), re.compile(f"[{INVISIBLE}]")
_SEGMENT = re.compile(r"(?:\[[^\]]*\]|[^\s\[])+")
_CHOICE = re.compile(r"\[([^\]]*)\]")

_V = TypeVar("_V")
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
_REMEDY = "mend the row as docs/reference/language.md says"
SYSTEM = "system"
"""Kind of a heading that is a part of the body: of the review of systems where that is open, else of the findings."""


class Word(NamedTuple):
    """A word or a mark of a text with its character offsets; ``low`` is ``text`` in lower case."""

    start: int
    end: int
    text: str
    low: str

    @property
    def is_mark(self) -> bool:
        """Whether it has neither letters nor digits."""
        return not self.low[:1].isalnum()


def parts(text: str) -> list[str]:
    """Words and marks of a text: hyphens, slashes and dots part words, an apostrophe inside one does not.

    A number with one decimal comma or dot is a word, and so is a run of at least :data:`RULE` equal marks. Only blanks
    lie between two parts.
    """
    return [found[0] for found in _TOKEN.finditer(text)] if _RUN.search(text) else _PLAIN.findall(text)


def words(text: str) -> list[Word]:
    """The :func:`parts` of a text."""
    found, end, new = list[Word](), 0, tuple.__new__  # a NamedTuple without the call of its constructor
    read = parts(text)
    known = {part: (part if part.isascii() else spelling(part)) for part in set(read)}
    lower = {part: plain.lower() for part, plain in known.items()}
    for part in read:
        start = text.find(part, end)
        end = start + len(part)
        found.append(new(Word, (start, end, known[part], lower[part])))
    return found


def spelling(token: str) -> str:
    """How a token is compared: composed, with straight apostrophes and without invisible characters."""
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", _APOSTROPHE.sub("'", token))) or token


def is_number(low: str) -> bool:
    """Whether a word is a whole or decimal number without letters: ``7`` or ``7,5``, not ``7h``."""
    return low[:1].isdecimal() and (low.isdecimal() or low.replace(",", "").replace(".", "").isdecimal())


class Text:
    """The words of a text, and the places at which each of them stands, by its lower case."""

    def __init__(self, found: Sequence[Word]) -> None:
        self.words = found
        self.places = defaultdict[str, list[int]](list)
        for at, word in enumerate(found):
            self.places[word.low].append(at)

    def places_of(self, lows: Collection[str]) -> list[int]:
        """The places of all these words, in order."""
        return sorted([at for low in self.places.keys() & lows for at in self.places[low]])

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The characters of some words, by the first and the one behind the last."""
        return self.words[start].start, self.words[end - 1].end


def any_within(places: Sequence[int], start: int, end: int) -> bool:
    """Whether one of some places, which are in order, lies from ``start`` to before ``end``."""
    at = bisect_left(places, start)
    return at < len(places) and places[at] < end


def variants(text: str) -> list[str]:
    """What brackets stand for.

    >>> variants("kein[e|er|]")
    ['keine', 'keiner', 'kein']
    """
    found = [""]
    for number, part in enumerate(_CHOICE.split(text)):
        found = [one + choice for one in found for choice in (part.split("|") if number % 2 else (part,))]
    return found


class Found(NamedTuple, Generic[_V]):
    """A phrase in a text: its first word, the one behind its last, and its values."""

    start: int
    end: int
    values: list[_V]


class Phrases(Generic[_V]):
    """Phrases with a value each. A word with a capital stands for itself alone, any other for all its spellings."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}

    def add(self, phrase: str, value: _V) -> None:
        """Add a phrase; brackets in it hold alternatives, between bars, that may be empty."""
        nodes = [self._root]
        for segment in _SEGMENT.findall(phrase):
            reached = {}
            for variant in variants(segment):
                keys = [word.text for word in words(variant)]
                for node in nodes:
                    end = node
                    for key in keys:
                        end = end.setdefault(key, {})
                    reached[id(end)] = end
            nodes = list(reached.values())
        for node in nodes:
            node.setdefault("", []).append(value)
        self.__dict__.pop("_followers", None)

    def found(self, text: Text) -> list[Found[_V]]:
        """Find all phrases in a text, in the order of their first words; of one first word the shortest comes first."""
        words, starts, last = text.words, list[int](), len(text.words) - 1
        for low in text.places.keys() & self._followers.keys():
            follow = self._followers[low]
            starts += [at for at in text.places[low] if "" in follow or (at < last and words[at + 1].low in follow)]
        return [Found(start, end, values) for start in sorted(starts) for end, values in self.at(words, start)]

    @cached_property
    def _followers(self) -> dict[str, set[str]]:
        followers = dict[str, set[str]]()
        for first, node in self._root.items():
            followers.setdefault(first.lower(), set()).update(map(str.lower, node))
        return followers

    def at(self, words: Sequence[Word], start: int) -> Iterator[tuple[int, list[_V]]]:
        """Find where phrases that begin at a word end, with their values."""
        nodes = [self._root]
        for place in range(start, len(words)):
            _, _, text, low = words[place]
            reached = []
            for node in nodes:
                if low in node:
                    reached.append(node[low])
                if text != low and text in node:
                    reached.append(node[text])
            for node in reached:
                if "" in node:
                    yield place + 1, node[""]
            if not reached:
                return
            nodes = reached


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


class Absent(NamedTuple):
    """One row of ``absences.tsv``: ``terms`` of what is absent, and whether a noun behind it is only the place."""

    terms: tuple[str, ...]
    of_place: bool


class Absences(Phrases[Absent]):
    """The words of one language that by themselves deny a finding, as *afebrile* does (``absences.tsv``)."""

    def find(self, text: Text) -> list[tuple[int, int, str]]:
        """Start and end of such words in a text, by characters, in order; once for each finding that they deny."""
        found = self.found(text)
        longest = {start: end for start, end, _ in found}  # the ends of one start come in order
        return [
            (*text.span(start, end), term)
            for start, end, values in found
            if longest[start] == end
            for term in values[0].terms
        ]


class NoMentions(Phrases[None]):
    """The phrases of one language in which nothing is a mention, as *Stroke-Unit* (``no_mentions.tsv``)."""

    def inside(self, text: Text) -> Callable[[int, int], bool]:
        """What says whether some characters of a text, from start to end, lie in such a phrase."""
        found = sorted({text.span(start, end) for start, end, _ in self.found(text)})
        starts = [start for start, _ in found]
        ends = list(accumulate((end for _, end in found), max))

        def lies_in(start: int, end: int) -> bool:
            before = bisect_right(starts, start)
            return before > 0 and ends[before - 1] >= end

        return lies_in


def has_cues(language: str) -> bool:
    """Whether a language has a table of cues."""
    return language_data(language).table("cues") is not None


@per_language
def cues(data: Language) -> Cues:
    """The cues of a language."""
    found = Cues(Phrases(), Phrases(), Phrases())
    for row in rows(data.table("cues"), "cue", "reads", "side", "reach", "source", "example"):
        _check_cue(row)
        reach = int(row["reach"]) if row["reach"] else None
        cue = Cue(cast(Reads, row["reads"]), cast(Side, row["side"]), reach, row["cue"])
        first, _, second = row["cue"].partition(_BETWEEN)
        if second:
            found.firsts.add(first, Frame(row.line, cue))
            found.seconds.add(second, row.line)
        else:
            found.whole.add(first, cue)
    return found


def _check_cue(row: Row) -> None:
    halves = row["cue"].count(_BETWEEN)
    inert = row["reads"] in _INERT
    _one_of(row, "reads", get_args(Reads))
    _one_of(row, "side", ("",) if inert else [one for one in get_args(Side) if one])
    if not row["cue"] or halves > 1 or (halves and inert) or (row["side"] == "around" and not halves):
        raise row.error(f"{row['cue']!r} is no cue of that side", _REMEDY)
    if row["reach"] and not row["reach"].isdecimal():
        raise row.error(f"the reach is {row['reach']!r}, a number of words or nothing expected", _REMEDY)


@per_language
def headings(data: Language) -> Phrases[str]:
    """The headings of a language with their kinds of section."""
    found: Phrases[str] = Phrases()
    for row in rows(data.table("sections"), "heading", "kind", "source"):
        _one_of(row, "kind", [*effects(), SYSTEM])
        for heading in alternatives(row["heading"]):
            found.add(heading, row["kind"])
    return found


@per_language
def absences(data: Language) -> Absences:
    """The words of a language that deny a finding."""
    found = Absences()
    for row in rows(data.table("absences"), "word", "finding", "before", "source"):
        words, terms = alternatives(row["word"]), alternatives(row["finding"])
        if not all(words + terms):
            raise row.error("a word and a finding expected", "fill both cells")
        for word in words:
            found.add(word, Absent(tuple(terms), row["before"] == "place"))
    return found


@per_language
def no_mentions(data: Language) -> NoMentions:
    """The phrases of a language in which nothing is a mention."""
    found = NoMentions()
    for row in rows(data.table("no_mentions"), "phrase", "source", "example"):
        phrases = alternatives(row["phrase"])
        if not all(phrases) or not row["source"]:
            raise row.error("a phrase and its source expected", "fill both cells")
        for phrase in phrases:
            found.add(phrase, None)
    return found


def scopes(language: str) -> ScopeRules:
    """The rules of a language for the ends of clauses and headings."""
    return language_data(language).read("scopes", ScopeRules)


@cache
def effects() -> dict[str, Effect]:
    """All kinds of section and what they say."""
    return {
        kind: Effect(entry.get("temporality", ""), entry.get("experiencer", ""))
        for kind, entry in read_json(SHIPPED / "sections.json").items()
    }


def _one_of(row: Row, column: str, known: Collection[str]) -> None:
    if row[column] not in known:
        expected = f"is {row[column]!r}, one of {', '.join(known) or 'nothing'} expected"
        raise row.error(f"{column} {expected if row[column] else 'is empty'}", _REMEDY)
