"""Presence, temporality and experiencer of each mention, by cues and their scopes.

A cue acts on mentions on its side within the clause (:mod:`medlink.reading.clauses`), up to a word that ends scopes and
within its scope limit (:mod:`medlink.reading.scopes`). Words of a longer cue or inside a mention are not cues. Of
several cues for one mention the nearest counts. If no cue applies to a mention, its section determines the qualifier.
The approach is that of NegEx (Chapman 2001) and ConText (Harkema 2009).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from datetime import date
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

from medlink.errors import ConfigError
from medlink.language import cues as tables
from medlink.language.cues import Cue, Frame, PhraseMatch, Phrases, Token, words
from medlink.language.relatives import relatives
from medlink.language.scan import ScannedText
from medlink.language.scope_rules import scopes
from medlink.reading import clauses
from medlink.reading.family import FamilyReader
from medlink.reading.matches import Match, WordSpan, by_effect
from medlink.reading.plans import is_begun, is_expected
from medlink.reading.protocols import Span
from medlink.reading.scope_structure import OVER
from medlink.reading.scopes import CueEffect, Scopes
from medlink.reading.signs import answers, columns, person_columns, questions, signs
from medlink.records import Qualifiers

_GAP = 25  # most words between the two parts of a frame
_YEAR = re.compile(r"(?:(?P<month>[0-9]{1,2})\.)?(?P<year>(?:19|20)[0-9]{2})")
_UNITS = frozenset(("ml", "mg", "g", "kg", "mm", "ie", "iu", "ui", "kcal", "h", "hours", "uhr", "horas"))
_DATE = 6  # words before a year that are searched for a word such as *since*
_PAST_YEAR = Cue("past", "both", 2, "year")
_REMOVED = Cue("historical", "before", 3, "year")
_PLAN = "plan"
_STOP = Token(0, 0, ".", ".")
_CLOSING = 8  # most words and marks of a cue at the end of a line
_WRAPPED = 50  # least characters of a line that may go on in the next line
_TIMES = {"gone": "historical", "avoided": "hypothetical"}
_INVERTED = {"present": "absent", "absent": "present"}  # effect of a cue on a word that itself denies a finding


class QualifierReader:
    """Reads the notes of one language.

    Raises:
        InputError: a table of the language cannot be read.
        ConfigError: its rules cannot be read.
    """

    def __init__(self, language: str) -> None:
        self.cues, self.headings = tables.cues(language), tables.headings(language)
        self.scopes, self.absences = scopes(language), tables.absences(language)
        self.relatives = relatives(language)

    def read(self, text: str, words: Sequence[Token] | None = None, day: date | None = None) -> ParsedNote:
        """Parse clauses, cues and sections of a note; ``words`` are its words if known already, ``day`` its date."""
        return ParsedNote(text, self, words, day)

    def read_once(self, text: ScannedText) -> ParsedNote:
        """Parse a note like :meth:`read`, but only once: qualifiers and learned mentions share the result."""
        if "note" not in text.memo:
            text.memo["note"] = self.read(text.text, text.tokens, text.memo.get("day"))
        return cast(ParsedNote, text.memo["note"])


def qualifier_reader(language: str, *, present_only: bool = False) -> QualifierReader | None:
    """Return the reader of a language, ``None`` if it has no cues, so that findings are not claimed to be present.

    Raises:
        ConfigError: ``present_only`` is set, and the language has no cues.
    """
    if tables.has_cues(language):
        return QualifierReader(language)
    if present_only:
        raise ConfigError(
            f"present_only cannot be had in the language {language!r}, which has no cues",
            remedy="leave present_only out, or give the language a cues.tsv (docs/reference/language.md)",
        )
    return None


class ParsedNote:
    """A note with its clauses, cues and sections."""

    def __init__(
        self, text: str, reader: QualifierReader, found: Sequence[Token] | None = None, day: date | None = None
    ) -> None:
        self._words = clauses.answered(text, words(text) if found is None else found, reader.scopes)
        layout = self._layout = clauses.Layout(text, self._words, reader.scopes)
        rows = list(person_columns(text, layout, reader.relatives))
        in_table = {at for row in rows for at in range(row.start, row.end)}
        cues = [*_acting(layout, reader.cues.whole.found(layout)), *_years(layout, day)]
        cues = [cue for cue in cues if cue.start not in in_table] if rows else cues
        firsts, seconds = reader.cues.firsts.found(layout), reader.cues.seconds.found(layout)
        _mark_open_cues(layout, cues, firsts)
        stops = clauses.stops(layout)
        for row in rows:
            if row.end < len(stops):
                stops[row.end] = 1
        self._sections = clauses.Sections(layout, stops, reader.headings)
        for heading in self._sections.headings:
            stops[heading.first] = 1
            if layout.begins_line(heading.end) and not clauses.opens_line(layout, heading.end):
                stops[heading.end] = 1
        cues += _before_ends(layout, stops, reader.cues.whole)
        frames = _frames(layout, firsts, seconds, cues)
        marks = (*rows, *signs(text, layout), *answers(layout), *questions(layout), *columns(text, layout))
        chosen = _chosen([*marks, *_removed(layout, cues), *_beside(cues, stops, layout), *frames], stops)
        self._stops, self._cues, self._relatives = stops, chosen, reader.relatives
        # the longest of spans with the same start comes last; the full stop of "eupn." is not part of a mention
        self._absent = {
            match.start: match._replace(
                end=next((at for at in range(match.end, match.start, -1) if not self._words[at - 1].is_mark), match.end)
            )
            for match in reader.absences.found(layout)
        }
        denials = {part for match in by_effect(chosen).get("absent", ()) for part in match.parts}
        denials |= {WordSpan(at, end) for at, end, values in self._absent.values() if values[0].reads == "absent"}
        self._denials = sorted(denials)

    @property
    def headings(self) -> list[tuple[int, int, str]]:
        """Character spans of the headings, each with the kind of its section, empty if unknown."""
        sections = self._sections
        return [(*self._layout.span(h.first, h.end), sections.kind(h.first)) for h in sections.headings]

    def qualify(self, mentions: Sequence[Span], acts: Collection[Span] | None = None) -> list[Qualifiers | None]:
        """Return qualifiers as :meth:`qualifiers` does, but ``None`` for a mention inside a heading."""
        found = zip(mentions, self.qualifiers(mentions, acts=acts), strict=True)
        return [None if self.in_heading(*mention) else qualifiers for mention, qualifiers in found]

    def in_heading(self, start: int, end: int) -> bool:
        """Return whether a mention, given by its characters, is inside a heading."""
        return self._sections.in_heading(*self._place(start, end))

    def qualifiers(
        self,
        mentions: Sequence[Span],
        discontinuous: Collection[Span] = (),
        acts: Collection[Span] | None = None,
        procedures: Collection[Span] = (),
    ) -> list[Qualifiers]:
        """Return the qualifiers of mentions, given by their characters, including those in headings.

        A negation among the words of a ``discontinuous`` mention, as in *Milz nicht vergrößert*, belongs to the note;
        in a name, as in *Migraine without aura*, it does not. ``acts``, the spans of drugs and procedures, enable
        rules for these: a drug to be avoided is also absent, and only drugs and procedures are planned or stopped.
        ``procedures`` are over if the text has them in the past, and still to come if a plan only names them.
        """
        places, done = self._places(mentions), set(self._places(procedures))
        decided, drugs = self._decided(places, acts, done), set(self._places(acts or ())) - done
        found = {place: self._qualified(place, effects, done, drugs) for place, effects in decided.items()}
        for place in filter(self._denies_itself, found.keys() & self._places(discontinuous)):
            found[place] = replace(found[place], presence="absent")
        return [found[place] for place in places]

    def sections(self, mentions: Sequence[Span]) -> list[str]:
        """Return the kind of the section of each mention, empty for none."""
        return [self._sections.kind(place.start) for place in self._places(mentions)]

    def cues(self, mentions: Sequence[Span], acts: Collection[Span] | None = None) -> list[dict[str, str]]:
        """Return for each field and mention the cue that determines the field, as written in its table."""
        places = self._places(mentions)
        decided = self._decided(places, acts)
        return [{field: effect.cue for field, effect in decided[place].items()} for place in places]

    def _decided(
        self, places: Sequence[WordSpan], acts: Collection[Span] | None, procedures: Collection[WordSpan] = ()
    ) -> dict[WordSpan, dict[str, CueEffect]]:
        ordered, known = sorted(set(places)), None if acts is None else set(self._places(acts))
        scopes = Scopes(ordered, self._layout, self._stops, self._cues, known, procedures)
        return dict(zip(ordered, scopes.decide(), strict=True))

    def _qualified(
        self, place: WordSpan, decided: dict[str, CueEffect], procedures: Set[WordSpan], drugs: Set[WordSpan]
    ) -> Qualifiers:
        rules, is_procedure, section = self._layout.rules, place in procedures, self._sections.kind(place.start)
        default = tables.effects()[section]._asdict() if section else {}
        values: dict[str, Any] = {field: value for field, value in default.items() if value}
        values |= {field: effect.reads for field, effect in decided.items()}
        absent = self._absent.get(place.start)
        if absent is not None and (absent.end == place.end or (absent.end < place.end and absent.values[0].of_place)):
            # a word that itself denies or doubts a finding is not a member of a list: "Keine Ödeme, afebril"
            cue, reads = decided.get("presence"), str(absent.values[0].reads)
            if cue and not cue.distance:
                reads = _INVERTED.get(cue.reads, cue.reads) if reads == "absent" else cue.reads
            values["presence"] = reads
        untold = is_procedure and decided.keys().isdisjoint(("presence", "temporality"))
        if untold and is_expected(self._layout, self._stops, place, planned=section == _PLAN):
            values["temporality"] = "hypothetical"
        time = values.get("temporality")
        if time in _TIMES:
            values["temporality"] = _TIMES[time]
        mention = " ".join(word.low for word in self._words[place.start : place.end])
        tells_past = rules.tells_past.match(mention) is not None
        if time in (None, "past") and tells_past:
            time = "historical"  # "Apendicectomizado", "defervesced"
        if time in OVER:
            # an absent finding was never there, and a lasting one still is
            over = time == "historical" or rules.passes.match(mention) is not None
            over = over or (is_procedure and "temporality" in decided and rules.lasts.search(mention) is None)
            over = over or (place in drugs and self._was_taken(place, decided))
            values.pop("temporality", None)
            if over and (values.get("presence") != "absent" or (tells_past and absent is not None)):
                values["temporality"] = "historical"
        values["allergy"] = values.get("allergy") == "allergy"
        if values.get("experiencer") == "family":
            passes = rules.passes.match(mention) is not None
            speaks = "experiencer" in decided and tables.BETWEEN in decided["experiencer"].cue
            values["relative"], values["onset_age"] = self._family.read(place, speaks=speaks, passes=passes)
            if time == "past" and values["onset_age"] is not None:
                values.pop("temporality", None)  # "a los 30 años" is the age of the relative
        return Qualifiers(**values, section=section)

    def _was_taken(self, place: WordSpan, decided: dict[str, CueEffect]) -> bool:
        """Whether a drug was taken at a time of the past right beside it, rather than begun then."""
        is_beside = "temporality" in decided and decided["temporality"].distance <= 1
        return is_beside and not is_begun(self._layout, self._stops, place)

    @cached_property
    def _family(self) -> FamilyReader:
        return FamilyReader(self._relatives, self._layout, self._stops)

    def _denies_itself(self, place: WordSpan) -> bool:
        first, last = (bisect_left(self._denials, (at, 0)) for at in place)
        return any(
            denial.end <= place.end and denial != place and not self._names_deficit(denial, place)
            for denial in self._denials[first:last]
        )

    def _names_deficit(self, denial: WordSpan, place: WordSpan) -> bool:
        """Whether a denial at the edge of a mention is a part of its name: "absent reflexes", "sweating absent"."""
        at_edge = denial.start == place.start or denial.end == place.end
        lows = {word.low for word in self._words[denial.start : denial.end]}
        return at_edge and not lows.isdisjoint(self._layout.rules.deficits)

    def _places(self, mentions: Iterable[Span]) -> list[WordSpan]:
        return [self._place(*mention) for mention in mentions]

    def _place(self, start: int, end: int) -> WordSpan:
        starts = self._layout.starts
        first = max(bisect_right(starts, start) - 1, 0)
        if first + 1 < len(starts) and self._words[first].end <= start:
            first += 1
        return WordSpan(first, max(bisect_left(starts, end), first + 1))


def _frames(
    layout: clauses.Layout,
    firsts: Sequence[PhraseMatch[Frame]],
    seconds: Sequence[PhraseMatch[int]],
    cues: Sequence[PhraseMatch[Cue]],
) -> Iterator[Match]:
    """Match frames, except with a second half that ends a longer pseudo cue ("nicht zurückgebildet")."""
    no_cues = {end: start for start, end, values in cues if values[0].reads == "pseudo"}
    behind: dict[int, list[WordSpan]] = defaultdict(list)
    for start, end, numbers in seconds:
        for number in numbers if no_cues.get(end, start) >= start else ():
            behind[number].append(WordSpan(start, end))
    for start, end, frames in firsts:
        found: dict[WordSpan, list[Cue]] = defaultdict(list)
        for frame in frames:
            halves = behind[frame.number]
            at = bisect_left(halves, (end, end))
            # "as needed: morphine for pain, ondansetron for nausea"
            several = frame.cue.side == "before" and frame.cue.reads == "hypothetical"
            for half in halves[at:] if several else halves[at : at + 1]:
                if layout.counted[half.start] - layout.counted[end] > _GAP:
                    break
                found[half].append(frame.cue)
        for half, own in found.items():
            yield Match(start, half.end, (WordSpan(start, end), half), own)


def _chosen(matches: Sequence[Match], stops: bytearray) -> list[Match]:
    """The longest matches, each in one clause, disjoint except for means; ties: the most compact, then the first."""

    def preference(match: Match) -> tuple[int, int, int, tuple[WordSpan, ...]]:
        size = sum(end - start for start, end in match.parts)
        return -size, match.end - match.start, len(match.parts), match.parts

    taken, chosen = bytearray(len(stops)), list[Match]()
    for match in sorted(matches, key=preference):
        stop = stops.find(1, match.start + 1, match.end)
        crosses = {"other": match.parts[-1].start, "family": match.parts[-1].start, "gone": match.start + 1}
        if stop == crosses.get(match.cues[0].reads):
            # "Brought in by his wife. She also has", "cough and rash; both have gone"
            stop = stops.find(1, stop + 1, match.end)
        inside = stop < 0
        means = match.cues[0].reads == "means"  # it may share words with a cue: "ruled out by CT"
        # "risks of surgery, such as bleeding": the second half alone acts on what follows
        opens = len(match.parts) > 1 and all(cue.side == "before" for cue in match.cues)
        own = () if means else match.parts[-1:] if opens else match.parts
        if inside and all(taken.find(1, start, end) < 0 for start, end in own):
            chosen.append(match)
            for start, end in own:
                taken[start:end] = b"\1" * (end - start)
    return sorted(chosen, key=lambda match: match.parts)


def _years(layout: clauses.Layout, day: date | None) -> Iterator[PhraseMatch[Cue]]:
    """Past years: before the year of the note; if that is unknown, two years before the latest date in the text.

    A day of last year may belong to the episode of the note, which is a few days old at the turn of the year.
    """
    words, years, begins, dated = layout.words, dict[int, int](), dict[int, int](), set[int]()
    for low in layout.places:
        if low[:1].isdecimal() and (found := _YEAR.fullmatch(low)):
            for at in layout.places[low]:
                if at + 1 == len(words) or words[at + 1].low not in _UNITS:
                    years[at], start = int(found["year"]), at
                    while at - 4 < start > 1 and words[start - 1].low in "./-" and words[start - 2].low.isdecimal():
                        start -= 2
                    begins[at] = start
                    if found["month"] or start < at:
                        dated.add(at)
    latest = max((years[at] for at in dated), default=0) if day is None else day.year
    for at, year in sorted(years.items()):
        # in a text without any date a year is over
        if not latest or year < latest - (day is None or at in dated):
            # a word before it may mark the start of a lasting condition ("since")
            before = (word.low for word in reversed(words[max(at - _DATE, 0) : at]))
            if next((low for low in before if low == "," or low in layout.rules.since), ",") == ",":
                yield PhraseMatch(begins[at], at + 1, [_PAST_YEAR])


def _removed(layout: clauses.Layout, cues: Sequence[PhraseMatch[Cue]]) -> Iterator[Match]:
    """Words before the reason of an operation that removed it in a past year: "hysterectomy 2011 for fibroids"."""
    words, rules = layout.words, layout.rules
    for start, end, values in cues:
        first, behind = start - 1, end + (end < len(words) and words[end].low == ")")
        if values[0] is not _PAST_YEAR or first < 0 or behind >= len(words):
            continue
        first -= words[first].low == "(" or words[first].low in rules.prepositions
        if words[behind].low in rules.reasons and rules.removes.search(words[first].low):
            yield Match(behind, behind + 1, (WordSpan(behind, behind + 1),), [_REMOVED])


def _before_ends(layout: clauses.Layout, stops: bytearray, cues: Phrases[Cue]) -> Iterator[PhraseMatch[Cue]]:
    """Cues at the end of a line that stands for a full stop: "Pneumonia, history of", "Hyponatremia corrected".

    The end of a short line is a stop then, also behind a word that would act on the next line.
    """
    words = layout.words
    for start, end in pairwise([*layout.breaks, len(words)]):
        is_short = words[end - 1].end - words[start].start < _WRAPPED
        if not (is_short or end == len(words) or stops[end]):
            continue
        for first in range(max(end - _CLOSING, start) + 1, end):
            if words[first].low not in cues.first_words:
                continue
            closed = [*words[first:end], _STOP]
            for behind, found in cues.at(closed, 0):
                if behind == len(closed):
                    stops[end : end + 1] = b"\1" if end < len(stops) else b""
                    yield PhraseMatch(first, end, found)


def _beside(found: Sequence[PhraseMatch[Cue]], stops: bytearray, layout: clauses.Layout) -> Iterator[Match]:
    """Matches of cues; cues for either side get the side of the first such cue in their clause.

    This first cue precedes its mention if it begins the clause or follows a colon; else it follows its mention.
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
        yield Match(start, end, (WordSpan(start, end),), cues)


def _acting(layout: clauses.Layout, found: Sequence[PhraseMatch[Cue]]) -> Iterator[PhraseMatch[Cue]]:
    """Drop cues that act on nothing.

    These are cues between two equal ones, as in "? ? ? ?", where the first and the last act on all that they can reach,
    and a bullet with the word behind it, as in "- Ausschluss Embolie" beside "TVT-Ausschluss".
    """
    for number, cue in enumerate(found):
        before, behind = found[max(number - 1, 0)], found[min(number + 1, len(found) - 1)]
        is_between = before.end == cue.start and cue.end == behind.start
        is_between = is_between and before.values is cue.values is behind.values
        is_bullet = (
            layout.begins_line(cue.start) and layout.words[cue.start].low == "-" and cue.values[0].side == "after"
        )
        if not (is_between or is_bullet):
            yield cue


def _mark_open_cues(
    layout: clauses.Layout, found: Sequence[PhraseMatch[Cue]], firsts: Sequence[PhraseMatch[Frame]]
) -> None:
    """Record dots that belong to cues and end no sentence, and the ends of cues that act on what follows.

    The dots are those inside a cue, and the last one of a cue that acts on what follows. A cue after a colon acts on
    what precedes it ("Fever: no"), and so does a question mark behind a word ("Sepsis? No fever").
    """
    inside = [(start, end) for start, end, _ in firsts]
    for start, end, cues in found:
        opens = any(cue.side == "before" for cue in cues) and not _asks(layout.words, start)
        if opens and (start == 0 or layout.words[start - 1].low != ":"):
            layout.opens.add(end)
        inside.append((start, end if opens or any(cue.reads == "pseudo" for cue in cues) else end - 1))
    layout.dots.update(at for start, end in inside for at in range(start, end) if layout.words[at].low in (".", "?"))


def _asks(words: Sequence[Token], at: int) -> bool:
    """Whether a mark ends a question about the words before it: "Sepsis? No fever", not "hears voices? psychosis"."""
    is_behind = words[at].low == "?" and at > 0 and words[at - 1].end == words[at].start
    return is_behind and at + 1 < len(words) and words[at + 1].text[:1].isupper()
