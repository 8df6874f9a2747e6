"""Whether what a note mentions is so: presence, time and person of each mention, by cues and their scopes.

A cue acts on the mentions on its side as far as the clause goes (:mod:`medlink.reading.clauses`), up to a word that
ends scopes, and no farther than its reach (:mod:`medlink.reading.scopes`). Words of a longer cue are no cues of their
own, nor are those inside a mention. Of several cues that speak of one mention the nearest counts. What no cue says the
section says. The idea is that of NegEx (Chapman 2001) and ConText (Harkema 2009).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from medlink.errors import ConfigError
from medlink.language import cues as tables
from medlink.language.cues import Cue, Found, Frame, Word, words
from medlink.language.scan import ScannedText
from medlink.reading import clauses
from medlink.reading.protocols import Span
from medlink.reading.scopes import Decision, Match, Place, decide, reading
from medlink.records import Qualifiers

_GAP = 25  # words between the halves of a frame
_YEAR = re.compile(r"(?:(?P<month>[0-9]{1,2})\.)?(?P<year>(?:19|20)[0-9]{2})")
_UNITS = frozenset(("ml", "mg", "g", "kg", "mm", "e", "ie", "iu", "ui", "kcal", "h", "hours", "uhr", "horas"))
_DATE = 6  # words before a year in which a word may say that something lasts since then
_PASSED = Cue("past", "both", 2, "year")
_TURNED = {"present": "absent", "absent": "present"}  # what cues say of a word that says that a finding is absent


class StatusReader:
    """Reads the notes of one language.

    Raises:
        InputError: a table of the language cannot be read.
        ConfigError: its rules cannot be read.
    """

    def __init__(self, language: str) -> None:
        self.cues, self.headings = tables.cues(language), tables.headings(language)
        self.scopes, self.absences = tables.scopes(language), tables.absences(language)

    def read(self, text: str, words: Sequence[Word] | None = None) -> ReadNote:
        """A note with its clauses, cues and sections; ``words`` are those of the text where they are known already."""
        return ReadNote(text, self, words)

    def read_once(self, text: ScannedText) -> ReadNote:
        """:meth:`read` of a scanned text, which keeps it: qualifiers and learned mentions ask for it."""
        if "note" not in text.memo:
            text.memo["note"] = self.read(text.text, text.tokens)
        note: ReadNote = text.memo["note"]
        return note


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
            remedy="leave present_only out, or give the language a cues.tsv (docs/reference/language.md)",
        )
    return None


class ReadNote:
    """A note, ready to say of any mention what its cues and sections say of it."""

    def __init__(self, text: str, reader: StatusReader, found: Sequence[Word] | None = None) -> None:
        self._words = words(text) if found is None else found
        layout = self._layout = clauses.Layout(text, self._words, reader.scopes)
        cues = [*_ends_of_rows(reader.cues.whole.found(layout)), *_years(layout)]
        firsts, seconds = reader.cues.firsts.found(layout), reader.cues.seconds.found(layout)
        _open(layout, cues, firsts)
        stops = clauses.stops(layout)
        self._sections = clauses.Sections(layout, stops, reader.headings)
        for heading in self._sections.headings:
            stops[heading.first] = 1
            if layout.begins_line(heading.end) and not clauses.opens_line(layout, heading.end):
                stops[heading.end] = 1
        chosen = _chosen([*_beside(cues, stops, layout), *_frames(layout, firsts, seconds)], stops)
        self._stops, self._cues = stops, chosen
        # the longest of those with one start comes last; a mention has no full stop, as "eupn." has
        self._absent = {
            one.start: one._replace(
                end=next((at for at in range(one.end, one.start, -1) if not self._words[at - 1].is_mark), one.end)
            )
            for one in reader.absences.found(layout)
        }
        denials = {part for match in reading(chosen).get("absent", ()) for part in match.parts}
        self._denials = sorted(denials | {Place(start, end) for start, end, _ in self._absent.values()})

    @property
    def headings(self) -> list[tuple[int, int, str]]:
        """The headings of the note by their characters, with the kind of their section, empty for an unknown one."""
        words = self._words
        return [
            (words[one.first].start, words[one.end - 1].end, self._sections.kind(one.first))
            for one in self._sections.headings
        ]

    def qualify(self, mentions: Sequence[Span], loose: Collection[Span] = ()) -> list[Qualifiers | None]:
        """Qualify mentions as :meth:`qualifiers` does; ``None`` for one that lies inside a heading."""
        return [
            None if self._sections.in_heading(*self._place(*mention)) else found
            for mention, found in zip(mentions, self.qualifiers(mentions, loose), strict=True)
        ]

    def qualifiers(self, mentions: Sequence[Span], loose: Collection[Span] = ()) -> list[Qualifiers]:
        """Qualify mentions, which are given by their characters, those in headings as all others.

        Mentions that are ``loose`` too say their finding by their words in any order: a denial among these, as in
        *Milz nicht vergrößert*, is the note's and no part of a name, as in *Migraine without aura*.
        """
        places = [self._place(*mention) for mention in mentions]
        denied = {place for place in (self._place(*mention) for mention in loose) if self._denies_itself(place)}
        found = {place: self._qualified(place, decided) for place, decided in self._decided(places).items()}
        return [replace(found[one], presence="absent") if one in denied else found[one] for one in places]

    def sections(self, mentions: Sequence[Span]) -> list[str]:
        """The kind of the section that each mention stands in, empty in none."""
        return [self._sections.kind(self._place(*mention).start) for mention in mentions]

    def cues(self, mentions: Sequence[Span]) -> list[dict[str, str]]:
        """The cue, as its table writes it, that decides each field of each mention; fields that no cue decides lack."""
        places = [self._place(*mention) for mention in mentions]
        decided = self._decided(places)
        return [{field: one.cue for field, one in decided[place].items()} for place in places]

    def _decided(self, places: Sequence[Place]) -> dict[Place, dict[str, Decision]]:
        ordered = sorted(set(places))
        return dict(zip(ordered, decide(ordered, self._layout, self._stops, self._cues), strict=True))

    def _qualified(self, place: Place, decided: dict[str, Decision]) -> Qualifiers:
        section = self._sections.kind(place.start)
        effect = tables.effects()[section]._asdict() if section else {}
        values: dict[str, Any] = {field: value for field, value in effect.items() if value}
        values.update({field: one.reads for field, one in decided.items()})
        absent = self._absent.get(place.start)
        if absent is not None and (absent.end == place.end or (absent.end < place.end and absent.values[0].of_place)):
            # a word that says that something is absent is no member of a list: "Keine Ödeme, afebril"
            cue = decided.get("presence")
            values["presence"] = _TURNED.get(cue.reads, cue.reads) if cue and not cue.distance else "absent"
        time = values.get("temporality")
        if time in ("past", "historical"):
            # what is absent never was, and what lasts is still there
            mention = " ".join(word.low for word in self._words[place.start : place.end])
            over = time == "historical" or self._layout.rules.passes.match(mention) is not None
            if over and values.get("presence") != "absent":
                values["temporality"] = "historical"
            else:
                del values["temporality"]
        return Qualifiers(**values, section=section)

    def _denies_itself(self, place: Place) -> bool:
        first, last = (bisect_left(self._denials, (at, 0)) for at in place)
        return any(one.end <= place.end and one != place for one in self._denials[first:last])

    def _place(self, start: int, end: int) -> Place:
        starts = self._layout.starts
        first = max(bisect_right(starts, start) - 1, 0)
        if first + 1 < len(starts) and self._words[first].end <= start:
            first += 1
        return Place(first, max(bisect_left(starts, end), first + 1))


def _frames(layout: clauses.Layout, firsts: Sequence[Found[Frame]], seconds: Sequence[Found[int]]) -> Iterator[Match]:
    behind: dict[int, list[Place]] = defaultdict(list)
    for start, end, numbers in seconds:
        for number in numbers:
            behind[number].append(Place(start, end))
    for start, end, frames in firsts:
        for frame in frames:
            halves = behind[frame.number]
            at = bisect_left(halves, (end, end))
            if at < len(halves) and layout.counted[halves[at].start] - layout.counted[end] <= _GAP:
                yield Match(start, halves[at].end, (Place(start, end), halves[at]), [frame.cue])


def _chosen(matches: Sequence[Match], stops: bytearray) -> list[Match]:
    """The longest matches of all, without overlap and each in one clause; of equals the closest, then the first."""

    def preference(match: Match) -> tuple[int, int, int, tuple[Place, ...]]:
        size = sum(end - start for start, end in match.parts)
        return -size, match.end - match.start, len(match.parts), match.parts

    taken, chosen = bytearray(len(stops)), list[Match]()
    for match in sorted(matches, key=preference):
        inside = stops.find(1, match.start + 1, match.end) < 0
        if inside and all(taken.find(1, start, end) < 0 for start, end in match.parts):
            chosen.append(match)
            for start, end in match.parts:
                taken[start:end] = b"\1" * (end - start)
    return sorted(chosen, key=lambda one: one.parts)


def _years(layout: clauses.Layout) -> Iterator[Found[Cue]]:
    words, years, latest = layout.words, dict[int, int](), 0
    for low in layout.places:
        if low[:1].isdecimal() and (found := _YEAR.fullmatch(low)):
            for at in layout.places[low]:
                if at + 1 == len(words) or words[at + 1].low not in _UNITS:
                    years[at] = int(found["year"])
                    if found["month"] or (at > 1 and words[at - 1].low in "./-" and words[at - 2].low.isdecimal()):
                        latest = max(latest, years[at])
    for at, year in sorted(years.items()):
        if year < latest - 1:
            # a word before it says that something lasts since then, or that it is no date but a beginning
            before = (word.low for word in reversed(words[max(at - _DATE, 0) : at]))
            if next((low for low in before if low == "," or low in layout.rules.since), ",") == ",":
                yield Found(at, at + 1, [_PASSED])


def _beside(found: Sequence[Found[Cue]], stops: bytearray, layout: clauses.Layout) -> Iterator[Match]:
    """Cues in a text where those that stand beside mentions stand before or behind them, as the first of a clause does.

    The first one of a clause stands before its mention where nothing, or a colon, is before it.
    """
    begin, behind, clause = 0, 0, -1
    side: tables.Side = ""
    for start, end, values in found:
        cues = values
        if any(cue.side == "beside" for cue in values):
            begin, behind = max(stops.rfind(1, behind, start + 1), begin), start
            if begin != clause:
                opens = begin == start or layout.words[start - 1].low == ":"
                clause, side = begin, "before" if opens else "after"
            cues = [cue._replace(side=side) if cue.side == "beside" else cue for cue in values]
        yield Match(start, end, (Place(start, end),), cues)


def _ends_of_rows(found: Sequence[Found[Cue]]) -> Iterator[Found[Cue]]:
    """Leave out the cues between two equal ones, as in "? ? ? ?", whose first and last act on all that they reach."""
    for number, one in enumerate(found):
        before, behind = found[max(number - 1, 0)], found[min(number + 1, len(found) - 1)]
        is_between = before.end == one.start and one.end == behind.start
        if not (is_between and before.values is one.values is behind.values):
            yield one


def _open(layout: clauses.Layout, found: Sequence[Found[Cue]], firsts: Sequence[Found[Frame]]) -> None:
    """Note the dots that are of a cue and end no sentence, and the ends of cues that speak of what follows.

    The dots are those inside a cue, and the last of one that speaks of what follows. A cue behind a colon speaks of
    what is before it ("Fever: no").
    """
    inside = [(start, end) for start, end, _ in firsts]
    for start, end, cues in found:
        opens = any(cue.side == "before" for cue in cues)
        if opens and (start == 0 or layout.words[start - 1].low != ":"):
            layout.opens.add(end)
        inside.append((start, end if opens or any(cue.reads == "pseudo" for cue in cues) else end - 1))
    layout.dots.update(at for start, end in inside for at in range(start, end) if layout.words[at].low in (".", "?"))
