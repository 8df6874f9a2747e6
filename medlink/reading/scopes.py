"""Scopes: which mentions a cue says something of, and which of several cues counts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from medlink.language.cues.matcher import Word
from medlink.language.cues.tables import Cue, ScopeRules

_FARTHEST = 80  # words and marks of the longest scope
_SHORT = 3  # words of reach with which a cue of both sides looks back no farther than the comma before it
_OVER = ("historical", "past")  # these speak of causes too, and of nothing behind a word that says what is there
_TIGHT = ("uncertain", *_OVER)  # with a reach, these take the next item of a list only where a word joins it
_GAP = 8  # words between members of a list
_ITEM = 2  # words before a mention that is an item of a list without a joining word
_PARTING = (":", "(", "=", "→")
_DASHES = ("-", "–", "—")
_FIELD = {
    "absent": "presence",
    "uncertain": "presence",
    "present": "presence",
    "historical": "temporality",
    "past": "temporality",
    "hypothetical": "temporality",
    "family": "experiencer",
    "other": "experiencer",
    "patient": "experiencer",
}
_RANK = {"absent": 0, "uncertain": 1}  # between cues that are equally near

Place = tuple[int, int]
"""The first of some words and the one behind them."""
Said = dict[str, tuple[int, int, str, str]]
"""What counts for each field: distance and rank of the cue, what it says, and its name."""


class Match(NamedTuple):
    """Cues in a text that have one place, in two parts where they are a frame."""

    cues: Sequence[Cue]
    parts: tuple[Place, ...]

    @property
    def start(self) -> int:
        """The first word."""
        return self.parts[0][0]

    @property
    def end(self) -> int:
        """The word behind the last."""
        return self.parts[-1][1]

    @property
    def size(self) -> int:
        """Words of the cue."""
        return sum(end - start for start, end in self.parts)


class Marked(NamedTuple):
    """A text with its cues, in order and without overlap, and for each word whether a scope ends before it."""

    words: Sequence[Word]
    stops: Sequence[bool]
    matches: Sequence[Match]
    rules: ScopeRules


def said_of(mentions: Sequence[Place], text: Marked) -> list[Said]:
    """What the cues of a text say of mentions, which are given by their words, in order and each once."""
    return _Scopes(mentions, text).said


class _Scopes:
    def __init__(self, mentions: Sequence[Place], text: Marked) -> None:
        words, stops, matches, self._rules = text
        self._mentions, self._words, self._stops = mentions, words, stops
        self._starts = [start for start, _ in mentions]
        self.said: list[Said] = [{} for _ in mentions]
        self._counted = [0, *accumulate(not word.is_mark for word in words)]
        covered = bytearray(len(words))
        for start, end in mentions:
            covered[start:end] = b"\1" * (end - start)
        self._free = [
            0,
            *accumulate(not word.is_mark and not inside for word, inside in zip(words, covered, strict=True)),
        ]
        acting = [match for match in matches if not self._is_inside(match)]
        ends = [match.parts[0] for match in acting if any(cue.reads == "end" for cue in match.cues)]
        causes = [match.parts[0] for match in acting if any(cue.reads == "cause" for cue in match.cues)]
        self._there = [match.start for match in acting if any(cue.reads == "present" for cue in match.cues)]
        hard = [place for place, stop in enumerate(stops) if stop]
        ends += _dashes(words, acting)
        self._denials = [match.start for match in acting if any(cue.reads == "absent" for cue in match.cues)]
        self._over = sorted({*hard, *self._there, *(start for start, _ in ends), len(words)})
        self._until = sorted({*hard, *(start for start, _ in ends + causes), len(words)})
        self._from = sorted({0, *hard, *(end for _, end in ends + causes)})
        self._closed = _brackets(words, stops, acting)
        self._bound = {
            match.end
            for match in acting
            if words[match.start].low in self._rules.without and match.start > 0 and covered[match.start - 1]
        }
        for match in acting:
            for cue in match.cues:
                if cue.side:
                    self._act(cue, match)

    def _is_inside(self, match: Match) -> bool:
        """Whether a part of a cue is a part of a mention ("Migraine without aura")."""
        return any(
            one[0] <= start and end <= one[1] and one[1] - one[0] > end - start
            for start, end in match.parts
            for one in self._mentions[max(0, bisect_right(self._starts, start) - 2) : bisect_right(self._starts, start)]
        )

    def _act(self, cue: Cue, match: Match) -> None:
        if len(match.parts) > 1:
            (_, start), (end, _) = match.parts
            for number in self._ahead(cue, start, start - 1, end):
                self._say(cue, number, min(self._distance(number, start), self._distance(number, end)))
            if cue.side == "both":
                self._back(cue, match.start, crossing=False)
            return
        ahead = 0
        if cue.side in ("before", "both") and not self._answers(cue, match):
            until = self._until[bisect_left(self._until, match.end)]
            further = self._over[bisect_left(self._over, match.end)] if cue.reads in _OVER else until
            closed = self._closed.get(match.end, further)
            for number in self._ahead(cue, match.end, match.start, min(further, closed)):
                # the cause of a finding that is over may last: "Z. n. Apoplex bei Hypertonie"
                lasts = ahead and self._mentions[number][0] >= until
                self._say(cue._replace(reads="past") if lasts else cue, number, self._distance(number, match.end))
                ahead += 1
        if cue.side in ("after", "both") or (not ahead and self._turns(cue, match)):
            loose = (cue.side == "after" or not ahead) and (cue.reach is None or cue.reach > _SHORT)
            loose = loose or (cue.side == "after" and self._words[match.start - 1].low == ",")
            self._back(cue, match.start, crossing=loose)

    def _turns(self, cue: Cue, match: Match) -> bool:
        """Whether a cue that stands before mentions has nothing behind ("Fever: no", "Edema none")."""
        at = match.start - 1
        behind = match.end + (match.end < len(self._words) and self._words[match.end].low in ".,;")
        nothing = behind == len(self._words) or self._stops[behind]
        answers = at >= 0 and (self._words[at].low == ":" or self._covered_before(match.start))
        return cue.reads == "absent" and ((answers and nothing) or self._answers(cue, match))

    def _answers(self, cue: Cue, match: Match) -> bool:
        """Whether a denial stands between a mention and a comma ("Fieber keines, Husten")."""
        comma = match.end < len(self._words) and self._words[match.end].low == ","
        return cue.reads == "absent" and comma and self._covered_before(match.start)

    def _covered_before(self, place: int) -> bool:
        """Whether a mention ends before a place, or before the adverbs that end there ("Fieber derzeit nicht")."""
        at = place - 1
        while at > 0 and self._rules.adverb.fullmatch(self._words[at].low):
            at -= 1
        inside = at >= 0 and self._free[at] == self._free[at + 1]
        return inside and not self._words[at].is_mark and not any(self._stops[at + 1 : place])

    def _ahead(self, cue: Cue, start: int, behind: int, until: int) -> Iterator[int]:
        """Mentions from a place on, as far as the cue reaches: words are counted from it or from the mention before."""
        anchor = start
        for number in range(bisect_right(self._starts, behind), len(self._mentions)):
            first, end = self._mentions[number]
            if end <= start and not (cue.reads == "absent" and end == start):
                continue  # a mention that a cue ends with is denied by the rest of it
            if first >= until or first - start > _FARTHEST:
                return
            if cue.reach is not None and self._between(anchor, first) > cue.reach:
                return
            if anchor == start and cue.reads == "absent" and self._parted(start, first):
                return
            comma = self._last_comma(anchor, first)
            if comma is not None and cue.reads == "absent" and self._affirmed(start, first):
                return
            far = self._between(anchor, first) > _GAP
            if comma is not None and (far or not self._goes_on(cue, start, comma, number, until)):
                return
            yield number
            anchor = max(anchor, end)

    def _goes_on(self, cue: Cue, start: int, comma: int, number: int, until: int) -> bool:
        """Whether what follows a comma is a member of the list that a cue begins, rather than a new finding.

        It is one where a joining word follows, as in "no fever, cough or rash". In a list without such a word it stands
        right behind the comma, nothing more is said of it ("no murmur, hernia on the left"), and its other members have
        no cues of their own ("no fever, no cough, rash").
        """
        first, end = self._mentions[number]
        denial = bisect_left(self._denials, start)
        if cue.reads == "absent" and denial < len(self._denials):
            until = min(until, self._denials[denial] + 1)
        nothing = self._free[comma] - self._free[start] == self._counted[comma] - self._counted[start]
        nothing = nothing and _FIELD[cue.reads] != "experiencer"  # what it speaks of is no mention
        rest = {word.low for word in self._words[start : min(until, start + _FARTHEST)]}
        behind = self._words[comma + 1].low
        graded = (behind in self._rules.grades or behind.isdecimal()) and rest.isdisjoint(self._rules.either)
        if graded or (nothing and cue.reads == "historical"):
            return False  # "s/p stent, asthma and gout"
        if start in self._bound:
            return not rest.isdisjoint(self._rules.either)
        if not rest.isdisjoint(self._rules.joins):
            # "no fever or cough, rash": a list whose first comma stands behind its last joining word ends there
            first_comma = next(at for at in range(start, comma + 1) if self._words[at].low == ",")
            further = (word.low for word in self._words[first_comma : min(until, start + _FARTHEST)])
            return not self._rules.joins.isdisjoint(further)
        tight = cue.reach is not None and cue.reads in _TIGHT
        if nothing or tight or self._between(comma, first) > _ITEM:
            return False  # "no compresible, ascitis"
        more = end < len(self._words) and not (self._stops[end] or self._words[end].is_mark)
        return cue.reads != "absent" or not (more or self._each_denied(start))

    def _parted(self, start: int, first: int) -> bool:
        """Whether a mark parts what a cue denies, which is no mention, from one ("sits not yet (delay)")."""
        behind = any(self._words[at].low in _PARTING for at in range(start + 1, first))
        return behind or self._words[start].low == "("

    def _affirmed(self, start: int, end: int) -> bool:
        """Whether a cue between two places says that something is there ("no erythema, +flatus, engorgement")."""
        return bisect_left(self._there, start) < bisect_left(self._there, end)

    def _each_denied(self, start: int) -> bool:
        """Whether the clause of a denial has another one before or behind it."""
        begin = self._from[bisect_right(self._from, start) - 1]
        until = self._until[bisect_left(self._until, start)]
        return bisect_left(self._denials, until) - bisect_left(self._denials, begin) > 1

    def _back(self, cue: Cue, end: int, *, crossing: bool) -> None:
        """Mentions before a place: over a comma only members of one list, or, where ``crossing``, the nearest."""
        begin = self._from[bisect_right(self._from, end) - 1]
        anchor, joined = end, False
        for number in range(bisect_left(self._starts, end) - 1, -1, -1):
            first, behind = self._mentions[number]
            if first < begin or end - behind > _FARTHEST:
                return
            if cue.reach is not None and self._between(behind, anchor) > cue.reach:
                return
            joined = joined or any(word.low in self._rules.joins for word in self._words[behind:anchor])
            if self._last_comma(behind, anchor) is not None:
                whole = self._free[anchor] == self._free[begin]
                if not (crossing if anchor == end else joined or whole):
                    return
            self._say(cue, number, self._between(behind, end))
            anchor = min(anchor, first)

    def _say(self, cue: Cue, number: int, distance: int) -> None:
        field, said = _FIELD[cue.reads], self.said[number]
        # what says of anything that it is over goes before what goes by the finding: "Z. n. Apoplex 2002 (Hemiparese)"
        distance += _FARTHEST * (cue.reads == "past")
        new = (distance, _RANK.get(cue.reads, 2), cue.reads, cue.name)
        said[field] = min(said.get(field, new), new)

    def _distance(self, number: int, place: int) -> int:
        """Words between a mention and a place."""
        first, end = self._mentions[number]
        return self._between(place, first) if first >= place else self._between(end, place)

    def _between(self, start: int, end: int) -> int:
        return self._counted[end] - self._counted[start] if end > start else 0

    def _last_comma(self, start: int, end: int) -> int | None:
        return next((place for place in range(end - 1, start - 1, -1) if self._words[place].low == ","), None)


def _dashes(words: Sequence[Word], matches: Sequence[Match]) -> list[Place]:
    """Dashes between blanks, but those beside a cue ("Fever - none")."""
    beside = {at for match in matches for start, end in match.parts for at in (start - 1, end)}
    return [
        (at, at + 1)
        for at in range(1, len(words) - 1)
        if words[at].low in _DASHES
        and at not in beside
        and words[at - 1].end < words[at].start
        and words[at].end < words[at + 1].start
    ]


def _brackets(words: Sequence[Word], stops: Sequence[bool], matches: Sequence[Match]) -> dict[int, int]:
    """For the ends of cues that stand in brackets with other words, where their bracket closes."""
    own = {place for match in matches for start, end in match.parts for place in range(start, end)}
    opened, closes = list[int](), dict[int, int]()
    inside: dict[int, int] = {}
    starts = {match.start: match.end for match in matches}
    ends = dict[int, int]()
    for place, word in enumerate(words):
        if stops[place]:
            opened.clear()
        if place in starts and opened:
            inside[starts[place]] = opened[-1]
        if place in own:
            continue
        if word.low == "(":
            opened.append(place)
        elif word.low == ")" and opened:
            closes[opened.pop()] = place
    for end, bracket in inside.items():
        if bracket in closes and not (bracket + 1 in starts and closes[bracket] == starts[bracket + 1]):
            ends[end] = closes[bracket]
    return ends
