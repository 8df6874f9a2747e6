"""Scopes: which mentions a cue says something of, and which of several cues counts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, compress
from typing import NamedTuple

from medlink.language.cues import Cue, any_within, is_number
from medlink.reading.clauses import Layout

_FARTHEST = 80  # words and marks of the longest scope
_SHORT = 3  # words of reach with which a cue of both sides looks back no farther than the comma before it
_OVER = ("historical", "past")  # these speak of causes too, and of nothing behind a word that says what is there
_TIGHT = ("uncertain", *_OVER)  # with a reach, these take the next item of a list only where a word joins it
_GAP = 8  # words between members of a list
_ITEM = 2  # words before a mention that is an item of a list without a joining word
_ADVERBS = 10  # words between a mention and the denial behind it
_PARTING = (":", "(", "=", "→")
_DASHES = ("-", "–", "—")
_CLOSING = (".", ",", ";")
_FIELD = {
    **dict.fromkeys(("absent", "uncertain", "present"), "presence"),
    **dict.fromkeys(("historical", "past", "hypothetical"), "temporality"),
    **dict.fromkeys(("family", "other", "patient"), "experiencer"),
}
_RANK = {"absent": 0, "uncertain": 1}  # between cues that are equally near


class Place(NamedTuple):
    """The first of some words and the one behind the last."""

    start: int
    end: int


class Decision(NamedTuple):
    """What a cue says of a field of a mention: its distance and rank, by which the least counts, and its name."""

    distance: int
    rank: int
    reads: str
    cue: str


class Match(NamedTuple):
    """Cues in a text that have one place, from ``start`` to ``end``, in two parts where they are a frame."""

    start: int
    end: int
    parts: tuple[Place, ...]
    cues: Sequence[Cue]


def reading(matches: Sequence[Match]) -> dict[str, list[Match]]:
    """Matches by what their cues say."""
    found: dict[str, list[Match]] = defaultdict(list)
    for match in matches:
        for reads in {cue.reads for cue in match.cues}:
            found[reads].append(match)
    return found


def decide(
    mentions: Sequence[Place], layout: Layout, stops: bytearray, matches: Sequence[Match]
) -> list[dict[str, Decision]]:
    """What the cues of a note decide of each field of mentions, which are given by their words, in order, each once.

    The cues are in order and without overlap; ``stops`` says for each word whether a scope ends before it.
    """
    return _Scopes(mentions, layout, stops, matches).decided if mentions and layout.words else [{} for _ in mentions]


class _Scopes:
    def __init__(self, mentions: Sequence[Place], layout: Layout, stops: bytearray, matches: Sequence[Match]) -> None:
        self._mentions, self._starts, self._stops = mentions, [start for start, _ in mentions], stops
        self._words, self._plain, self._counted, self._rules = layout.words, layout.plain, layout.counted, layout.rules
        self._commas, self._partings = layout.places.get(",", []), layout.places_of(_PARTING)
        self._joins, self._either = layout.places_of(self._rules.joins), layout.places_of(self._rules.either)
        self.decided: list[dict[str, Decision]] = [{} for _ in mentions]
        self._covered, free = bytearray(len(self._plain)), bytearray(self._plain)
        for start, end in mentions:
            self._covered[start:end] = b"\1" * (end - start)
            free[start:end] = bytes(end - start)
        self._free = [0, *accumulate(free)]  # words before each place that are of no mention
        acting = [match for match in matches if not self._is_inside(match)]
        by_reads = reading(acting)
        self._there = [match.start for match in by_reads.get("present", ())]
        self._denials = [match.start for match in by_reads.get("absent", ())]
        ends, causes = ([match.parts[0] for match in by_reads.get(reads, ())] for reads in ("end", "cause"))
        clauses, dashes = list(compress(range(len(stops)), stops)), self._dashes(layout.places_of(_DASHES), acting)
        hard = [*clauses, *dashes, *(start for start, _ in ends), len(self._words)]
        self._over = sorted({*hard, *self._there})
        self._until = sorted({*hard, *(start for start, _ in causes)})
        self._from = sorted({0, *clauses, *(at + 1 for at in dashes), *(end for _, end in ends + causes)})
        self._closed = self._brackets(layout.places_of(("(", ")")), clauses, acting)
        self._bound = {
            match.end
            for match in acting
            if self._words[match.start].low in self._rules.without
            and match.start > 0
            and self._covered[match.start - 1]
        }
        for match in acting:
            for cue in match.cues:
                if cue.side:
                    (self._act if len(match.parts) == 1 else self._act_around)(cue, match)

    def _dashes(self, dashes: Sequence[int], acting: Sequence[Match]) -> list[int]:
        """Those dashes that stand between blanks, but those beside a cue ("Fever - none")."""
        words = self._words
        dashes = [at for at in dashes if 0 < at < len(words) - 1]
        dashes = [at for at in dashes if words[at - 1].end < words[at].start and words[at].end < words[at + 1].start]
        beside = {at for match in acting if dashes for start, end in match.parts for at in (start - 1, end)}
        return [at for at in dashes if at not in beside]

    def _brackets(self, brackets: Sequence[int], clauses: Sequence[int], acting: Sequence[Match]) -> dict[int, int]:
        """Where the brackets close in which cues stand with other words, by the ends of these cues."""
        if not brackets:
            return {}
        own = {place for match in acting for start, end in match.parts for place in range(start, end)}
        ends = {match.start: match.end for match in acting}
        opened, closes, inside = list[int](), dict[int, int](), dict[int, int]()
        clause = 0
        for place in sorted({*brackets, *ends}):
            if any_within(clauses, clause + 1, place + 1):
                opened.clear()
            clause = place
            if place in ends and opened:
                inside[ends[place]] = opened[-1]
            if place in own:
                continue
            if self._words[place].low == "(":
                opened.append(place)
            elif opened:
                closes[opened.pop()] = place
        closing = ((end, bracket, closes[bracket]) for end, bracket in inside.items() if bracket in closes)
        return {end: close for end, bracket, close in closing if ends.get(bracket + 1) != close}

    def _is_inside(self, match: Match) -> bool:
        """Whether a part of a cue is a part of a mention ("Migraine without aura")."""
        return any(
            first <= start and end <= behind and behind - first > end - start
            for start, end in match.parts
            for number in (bisect_right(self._starts, start),)
            for first, behind in self._mentions[max(0, number - 2) : number]
        )

    def _act_around(self, cue: Cue, match: Match) -> None:
        (_, start), (end, _) = match.parts
        for number in self._ahead(cue, start, start - 1, end):
            first, behind = self._mentions[number]
            self._decide(cue, number, min(self._between(start, first), self._between(behind, end)))
        if cue.side == "both":
            self._back(cue, match.start, crossing=False)

    def _act(self, cue: Cue, match: Match) -> None:
        ahead, end = False, match.end
        if cue.side != "after" and not self._answers(cue, match):
            until = self._until[bisect_left(self._until, end)]
            further = self._over[bisect_left(self._over, end)] if cue.reads in _OVER else until
            for number in self._ahead(cue, end, match.start, min(further, self._closed.get(end, further))):
                first = self._mentions[number].start
                # the cause of a finding that is over may last: "Z. n. Apoplex bei Hypertonie"
                lasts = ahead and first >= until
                self._decide(cue._replace(reads="past") if lasts else cue, number, self._between(end, first))
                ahead = True
        if cue.side != "before" or (not ahead and self._turns(cue, match)):
            after = cue.side == "after"
            loose = (after or not ahead) and (cue.reach is None or cue.reach > _SHORT)
            self._back(cue, match.start, crossing=loose or (after and self._words[match.start - 1].low == ","))

    def _turns(self, cue: Cue, match: Match) -> bool:
        """Whether a cue that stands before mentions has nothing behind ("Fever: no", "Edema none")."""
        if cue.reads != "absent":
            return False
        at, last = match.start - 1, len(self._words)
        behind = match.end + (match.end < last and self._words[match.end].low in _CLOSING)
        nothing = behind == last or self._stops[behind]
        answers = at >= 0 and (self._words[at].low == ":" or self._covered_before(match.start))
        return bool(answers and nothing) or self._answers(cue, match)

    def _answers(self, cue: Cue, match: Match) -> bool:
        """Whether a denial stands between a mention and a comma ("Fieber keines, Husten")."""
        comma = match.end < len(self._words) and self._words[match.end].low == ","
        return cue.reads == "absent" and comma and self._covered_before(match.start)

    def _covered_before(self, place: int) -> bool:
        """Whether a mention ends before a place, or before the adverbs that end there ("Fieber derzeit nicht")."""
        at, least, adverb = place - 1, max(place - _ADVERBS, 0), self._rules.adverb
        while at > least and adverb.fullmatch(self._words[at].low):
            at -= 1
        mention = at >= 0 and self._covered[at] and self._plain[at]
        return bool(mention) and self._stops.find(1, at + 1, place) < 0

    def _ahead(self, cue: Cue, start: int, behind: int, until: int) -> Iterator[int]:
        """Mentions from a place on, as far as the cue reaches: words are counted from it or from the mention before."""
        counted, commas, denies = self._counted, self._commas, cue.reads == "absent"
        until = min(until, start + _FARTHEST + 1)
        bracket = start < len(self._words) and self._words[start].low == "("
        anchor, comma = start, bisect_left(commas, start)
        for number in range(bisect_right(self._starts, behind), len(self._mentions)):
            first, end = self._mentions[number]
            if end < start or (end == start and not denies):
                continue  # a mention that a cue ends with is denied by the rest of it
            if first >= until:
                return
            distance = counted[first] - counted[anchor] if first > anchor else 0
            if cue.reach is not None and distance > cue.reach:
                return
            if anchor == start and denies and (bracket or any_within(self._partings, start + 1, first)):
                return  # what it denies is no mention: "sits not yet (delay)"
            while comma < len(commas) and commas[comma] < anchor:
                comma += 1
            if comma < len(commas) and commas[comma] < first:
                if distance > _GAP or (denies and any_within(self._there, start, first)):
                    return  # it says that something is there: "no erythema, +flatus, engorgement"
                if not self._goes_on(cue, start, number, until):
                    return
            yield number
            anchor = max(anchor, end)

    def _goes_on(self, cue: Cue, start: int, number: int, until: int) -> bool:
        """Whether what follows a comma is a member of the list that a cue begins, rather than a new finding.

        It is one where a joining word follows, as in "no fever, cough or rash". In a list without such a word it stands
        right behind the comma, nothing more is said of it ("no murmur, hernia on the left"), and its other members have
        no cues of their own ("no fever, no cough, rash").
        """
        denies = cue.reads == "absent"
        first, end = self._mentions[number]
        comma = self._commas[bisect_left(self._commas, first) - 1]
        denial = bisect_left(self._denials, start)
        if denies and denial < len(self._denials):
            until = min(until, self._denials[denial] + 1)
        until = min(until, start + _FARTHEST)
        nothing = self._free[comma] - self._free[start] == self._counted[comma] - self._counted[start]
        nothing = nothing and _FIELD[cue.reads] != "experiencer"  # what it speaks of is no mention
        either = any_within(self._either, start, until)
        behind = self._words[comma + 1].low
        graded = (behind in self._rules.grades or is_number(behind)) and not either
        if graded or (nothing and cue.reads == "historical"):
            return False  # "s/p stent, asthma and gout"
        if start in self._bound:
            return either
        if any_within(self._joins, start, until):
            # "no fever or cough, rash": a list whose first comma stands behind its last joining word ends there
            return any_within(self._joins, self._commas[bisect_left(self._commas, start)], until)
        tight = cue.reach is not None and cue.reads in _TIGHT
        if nothing or tight or self._between(comma, first) > _ITEM:
            return False  # "no compresible, ascitis"
        more = end < len(self._words) and not self._stops[end] and self._plain[end]
        # the clause has another denial before or behind
        begin, close = self._from[bisect_right(self._from, start) - 1], self._until[bisect_left(self._until, start)]
        each = bisect_left(self._denials, close) - bisect_left(self._denials, begin) > 1
        return not denies or not (more or each)

    def _back(self, cue: Cue, end: int, *, crossing: bool) -> None:
        begin = self._from[bisect_right(self._from, end) - 1]
        anchor, joined = end, False
        for number in range(bisect_left(self._starts, end) - 1, -1, -1):
            first, behind = self._mentions[number]
            if first < begin or end - behind > _FARTHEST:
                return
            if cue.reach is not None and self._between(behind, anchor) > cue.reach:
                return
            joined = joined or any_within(self._joins, behind, anchor)
            if any_within(self._commas, behind, anchor):
                whole = self._free[anchor] == self._free[begin]
                if not (crossing if anchor == end else joined or whole):
                    return
            self._decide(cue, number, self._between(behind, end))
            anchor = min(anchor, first)

    def _decide(self, cue: Cue, number: int, distance: int) -> None:
        reads, decided = cue.reads, self.decided[number]
        if reads == "past":
            # what says of anything that it is over goes before it: "Z. n. Apoplex 2002 (Hemiparese)"
            distance += _FARTHEST
        known = decided.get(_FIELD[reads])
        if known is None or distance <= known.distance:
            new = Decision(distance, _RANK.get(reads, 2), reads, cue.name)
            decided[_FIELD[reads]] = new if known is None else min(known, new)

    def _between(self, start: int, end: int) -> int:
        return self._counted[end] - self._counted[start] if end > start else 0
