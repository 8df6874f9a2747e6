"""Whether what a note mentions is so: presence, time and person of each mention, by cues and their scopes.

A cue acts on the mentions on its side as far as the clause goes (:mod:`medlink.reading.clauses`), up to a word that
ends scopes, and no farther than its reach (:mod:`medlink.reading.scopes`). Words of a longer cue are no cues of their
own, nor are those inside a mention. Of several cues that speak of one mention the nearest counts. What no cue says the
section says (:mod:`medlink.reading.sections`). The idea is that of NegEx (Chapman 2001) and ConText (Harkema 2009).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, TypeVar

from medlink.errors import ConfigError
from medlink.language.cues import tables
from medlink.language.cues.absences import absences
from medlink.language.cues.matcher import Word, words
from medlink.language.cues.tables import Cue, Frame, ScopeRules
from medlink.reading import clauses
from medlink.reading.scopes import Marked, Match, Place, Said, said_of
from medlink.reading.sections import Sections
from medlink.records import Qualifiers

_GAP = 25  # words between the halves of a frame
_CENTURIES = ("19", "20")
_YEAR = re.compile("[0-9]{4}")
_UNITS = frozenset(("ml", "mg", "g", "kg", "mm", "e", "ie", "iu", "ui", "kcal", "h", "hours", "uhr", "horas"))
_DATE = 7  # words before a year in which a word may say that something lasts since then
_PASSED = Cue("past", "both", 2, "year")
_TURNED = {"present": "absent", "absent": "present"}  # what cues say of a word that says that a finding is absent
_UNSAID = (1, 0, "", "")
_V = TypeVar("_V")
_Found = list[tuple[int, int, list[_V]]]
"""First word, word behind the last, and values of the phrases in a text."""


class StatusReader:
    """Reads the notes of one language.

    Raises:
        InputError: a table of the language cannot be read.
        ConfigError: its rules cannot be read.
    """

    def __init__(self, language: str) -> None:
        self.cues, self.headings = tables.cues(language), tables.headings(language)
        self.scopes, self.absences = tables.scopes(language), absences(language)

    def read(self, text: str) -> ReadNote:
        """A note with its clauses, cues and sections."""
        return ReadNote(text, self)


def status_reader(language: str, *, present_only: bool = False) -> StatusReader | None:
    """What reads the notes of a language; ``None`` where it has no cues, as what is not read is not said to be there.

    Raises:
        ConfigError: the language has no cues, so that nobody knows which mentions are ``present_only``.
    """
    if tables.has_cues(language):
        return StatusReader(language)
    if present_only:
        raise ConfigError(
            f"present_only cannot be had in the language {language!r}, which has no cues",
            remedy="leave present_only out, or give the language a cues.tsv (docs/status.md)",
        )
    return None


def is_kept(qualifiers: Qualifiers | None, *, present_only: bool) -> bool:
    """Whether a mention is one, by what :meth:`ReadNote.said_of` says of it, and is wanted."""
    return qualifiers is not None and (qualifiers.is_present or not present_only)


class ReadNote:
    """A note, ready to say of any mention what its cues and sections say of it."""

    def __init__(self, text: str, reader: StatusReader) -> None:
        self._words, self._passes = words(text), reader.scopes.passes
        self._starts = [word.start for word in self._words]
        lines = clauses.line_starts(text, self._words)
        whole = [*reader.cues.whole.found(self._words), *_years(self._words, reader.scopes)]
        firsts = reader.cues.firsts.found(self._words)
        seconds = reader.cues.seconds.found(self._words)
        layout = clauses.Layout(self._words, lines, *_dots(self._words, whole, firsts), reader.scopes)
        stops = clauses.stops(layout)
        self._sections = Sections(layout, stops, reader.headings)
        for heading in self._sections.headings:
            stops[heading.first] = True
            if heading.end < len(lines) and lines[heading.end] and not clauses.opens_line(layout, heading.end):
                stops[heading.end] = True
        matches = [Match(found, ((start, end),)) for start, end, found in _beside(whole, stops, self._words)]
        chosen = self._chosen([*matches, *self._frames(firsts, seconds)], stops)
        self._marked = Marked(self._words, stops, chosen, reader.scopes)
        # the longest of those with one start comes last
        self._absent = {start: (end, found[0]) for start, end, found in reader.absences.phrases.found(self._words)}
        denials = {part for match in chosen if any(cue.reads == "absent" for cue in match.cues) for part in match.parts}
        self._denials = sorted(denials | {(start, end) for start, (end, _) in self._absent.items()})

    @property
    def headings(self) -> list[tuple[int, int, str]]:
        """The headings of the note by their characters, with the kind of their section, empty for an unknown one."""
        found = self._sections.headings if self._words else []
        ends = [self._words[one.end - 1].end for one in found]
        return [(self._starts[h.first], end, self._sections.kind(h.first)) for h, end in zip(found, ends, strict=True)]

    def said_of(
        self, mentions: Sequence[tuple[int, int]], loose: Collection[tuple[int, int]] = ()
    ) -> list[Qualifiers | None]:
        """What the note says of each mention, as :meth:`qualifiers`; ``None`` for one that lies inside a heading."""
        said = zip(mentions, self.qualifiers(mentions, loose), strict=True)
        return [None if self._words and self._sections.in_heading(*self._place(*at)) else q for at, q in said]

    def qualifiers(
        self, mentions: Sequence[tuple[int, int]], loose: Collection[tuple[int, int]] = ()
    ) -> list[Qualifiers]:
        """What the note says of each mention, which is given by its characters, headings as everything else.

        Mentions that are ``loose`` too say their finding by their words in any order: a denial among these, as in
        *Milz nicht vergrößert*, is the note's and no part of a name, as in *Migraine without aura*.
        """
        if not self._words:
            return [Qualifiers() for _ in mentions]
        places = [self._place(*mention) for mention in mentions]
        said = self._said(places)
        denied = {self._place(*mention) for mention in loose}
        denied = {place for place in denied if self._denies_itself(place)}
        read = [self._qualified(place, said[place]) for place in places]
        return [
            replace(one, presence="absent") if place in denied else one for place, one in zip(places, read, strict=True)
        ]

    def sections(self, mentions: Sequence[tuple[int, int]]) -> list[str]:
        """The kind of the section that each mention stands in, empty in none."""
        return [self._sections.kind(self._place(*mention)[0]) if self._words else "" for mention in mentions]

    def cues(self, mentions: Sequence[tuple[int, int]]) -> list[dict[str, str]]:
        """The cue, as its table writes it, that decides each field of each mention; fields that no cue decides lack."""
        places = [self._place(*mention) for mention in mentions] if self._words else []
        said = self._said(places)
        return [{field: one[3] for field, one in said[place].items()} for place in places]

    def _said(self, places: list[Place]) -> dict[Place, Said]:
        ordered = sorted(set(places))
        return dict(zip(ordered, said_of(ordered, self._marked), strict=True))

    def _qualified(self, place: Place, said: Said) -> Qualifiers:
        section = self._sections.kind(place[0])
        effect = tables.effects()[section]._asdict() if section else {}
        values: dict[str, Any] = {field: value for field, value in effect.items() if value}
        values.update({field: value for field, (_, _, value, _) in said.items()})
        if self._is_absence(place):
            # it is no member of a list: "Keine Ödeme, afebril"
            distance, _, presence, _ = said.get("presence", _UNSAID)
            values["presence"] = "absent" if distance else _TURNED.get(presence, presence)
        if values.get("temporality") in ("past", "historical") and not self._is_over(place, values):
            del values["temporality"]
        elif values.get("temporality") == "past":
            values["temporality"] = "historical"
        return Qualifiers(**values, section=section)

    def _denies_itself(self, place: Place) -> bool:
        """Whether a denial, or a word that says that something is absent, stands among other words of a mention."""
        inside = self._denials[bisect_left(self._denials, (place[0], 0)) : bisect_left(self._denials, (place[1], 0))]
        return any(end <= place[1] and (start, end) != place for start, end in inside)

    def _is_absence(self, place: Place) -> bool:
        """Whether a mention is a word that says that something is absent, with or without the place where it is so."""
        end, found = self._absent.get(place[0], (0, None))
        return found is not None and (end == place[1] or (end < place[1] and found.of_place))

    def _is_over(self, place: Place, values: dict[str, str]) -> bool:
        """Whether a finding of the past is over: one that is absent never was, and what lasts is still there."""
        if values.get("presence") == "absent":
            return False
        said = " ".join(word.low for word in self._words[slice(*place)])
        return values["temporality"] == "historical" or self._passes.match(said) is not None

    def _place(self, start: int, end: int) -> Place:
        """The words of a stretch of characters."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        if self._words[first].end <= start and first + 1 < len(self._words):
            first += 1
        return first, max(bisect_left(self._starts, end), first + 1)

    def _frames(self, firsts: _Found[Frame], seconds: _Found[int]) -> Iterator[Match]:
        """Frames: a first half and the nearest second one of the same row behind it."""
        counted = [0, *accumulate(not word.is_mark for word in self._words)]
        behind: dict[int, list[Place]] = {}
        for start, end, numbers in seconds:
            for number in numbers:
                behind.setdefault(number, []).append((start, end))
        for start, end, frames in firsts:
            for frame in frames:
                halves = behind.get(frame.number, [])
                at = bisect_left(halves, (end, end))
                if at < len(halves) and counted[halves[at][0]] - counted[end] <= _GAP:
                    yield Match([frame.cue], ((start, end), halves[at]))

    def _chosen(self, matches: list[Match], stops: list[bool]) -> list[Match]:
        """The longest matches of all, without overlap and each in one clause; of equals the closest, then the first."""
        clause = list(accumulate(stops))
        taken, chosen = bytearray(len(self._words)), []
        for match in sorted(matches, key=lambda one: (-one.size, one.end - one.start, len(one.parts), one.parts)):
            inside = clause[match.start] == clause[match.end - 1]
            if inside and not any(taken[place] for part in match.parts for place in range(*part)):
                chosen.append(match)
                for start, end in match.parts:
                    taken[start:end] = b"\1" * (end - start)
        return sorted(chosen, key=lambda one: one.parts)


def _years(text: list[Word], rules: ScopeRules) -> Iterator[tuple[int, int, list[Cue]]]:
    """Years two or more before the latest date of the note, but those since which something lasts."""
    years = {
        at: int(word.low)
        for at, word in enumerate(text)
        if word.low[:2] in _CENTURIES
        and _YEAR.fullmatch(word.low)
        and not (at + 1 < len(text) and text[at + 1].low in _UNITS)
    }
    dated = (
        year for at, year in years.items() if at > 1 and text[at - 1].low in "./-" and text[at - 2].low.isdecimal()
    )
    latest = max(dated, default=0)
    for at, year in years.items():
        if year < latest - 1 and not _lasts(text, at, rules):
            yield at, at + 1, [_PASSED]


def _lasts(text: list[Word], at: int, rules: ScopeRules) -> bool:
    """Whether a word before a date says that something lasts since then, or is no date but a beginning."""
    for place in range(at - 1, max(at - _DATE, -1), -1):
        if text[place].low in rules.since:
            return True
        if text[place].low == ",":
            return False
    return False


def _beside(found: _Found[Cue], stops: Sequence[bool], text: list[Word]) -> Iterator[tuple[int, int, list[Cue]]]:
    """Cues in a text where those that stand beside mentions stand before or behind them, as the first of a clause does.

    The first one of a clause stands before its mention where nothing, or a colon, is before it.
    """
    clause = -1
    side: tables.Side = ""
    begin = list(accumulate((at * stop for at, stop in enumerate(stops)), max))
    for start, end, cues in sorted(found, key=lambda one: one[:2]):
        if any(cue.side == "beside" for cue in cues):
            if begin[start] != clause:
                opens = begin[start] == start or text[start - 1].low == ":"
                clause, side = begin[start], "before" if opens else "after"
            yield start, end, [cue._replace(side=side) if cue.side == "beside" else cue for cue in cues]
        else:
            yield start, end, cues


def _dots(text: list[Word], whole: _Found[Cue], firsts: _Found[Frame]) -> tuple[set[int], set[int]]:
    """Dots that are of a cue and end no sentence, and the ends of cues that speak of what follows.

    The dots are those inside a cue, and the last of one that speaks of what follows. A cue behind a colon speaks of
    what is before it ("Fever: no").
    """
    dots, ends = set[int](), set[int]()
    for start, end, cues in whole:
        opens = any(cue.side == "before" for cue in cues)
        if opens and (start == 0 or text[start - 1].low != ":"):
            ends.add(end)
        last = end if opens or any(cue.reads == "pseudo" for cue in cues) else end - 1
        dots.update(place for place in range(start, last) if text[place].low in ".?")
    for start, end, _ in firsts:
        dots.update(place for place in range(start, end) if text[place].low in ".?")
    return dots, ends
