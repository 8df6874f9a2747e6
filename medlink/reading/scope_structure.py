"""Where scopes end: clauses, lists, attributes and brackets of a text, seen from its cues and mentions."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import accumulate, compress

from medlink.language.cues import Cue, Token, any_within, is_number
from medlink.reading.clauses import DASHES, Layout
from medlink.reading.matches import Match, WordSpan, by_effect

MAX_SCOPE = 80  # words and marks
OVER = ("historical", "past")  # these include causes, and end at a word that states a present finding
_TIGHT = ("uncertain", *OVER)  # with a scope limit, these include a further item of a list only after a joining word
_ITEM = 2  # most words before an item of a list without a joining word
_ADVERBS = 10  # most words between a mention and the negation after it
_PHRASE = 4  # most words of a phrase between the two
_SEPARATORS = (":", "(", "=", "→")
_CLOSING = (".", ",", ";")
FIELD = {
    **dict.fromkeys(("absent", "uncertain", "sought", "present", "declined"), "presence"),
    **dict.fromkeys(("historical", "past", "gone", "stopped", "hypothetical", "planned", "avoided"), "temporality"),
    **dict.fromkeys(("family", "other", "patient"), "experiencer"),
    **dict.fromkeys(("allergy", "taken"), "allergy"),
}
DENIES = ("absent", "gone")
TURNS = (*DENIES, "uncertain")  # these act on what precedes them if nothing follows
_OPEN = 4  # most words between a denial and the suspicion that it denies ("no lesions suspicious for")
_RESULT = 3  # most words from a procedure to the verb of its result
_CLAUSE = 8  # most words from the subject of a new clause to its verb
_MAX_APART = 16  # most words and marks between such a cue and its object
_ATTRIBUTE = 4  # most words from a preposition to the mention that it makes an attribute


def _ends_finding(match: Match) -> bool:
    """Whether a cue is the predicate of a finding, and no part of its name: "aphasia has completely resolved"."""
    return any(cue.reads == "gone" and cue.side == "after" for cue in match.cues)


def _without_dots(stops: bytearray, mentions: Sequence[WordSpan], words: Sequence[Token]) -> bytearray:
    """The stops without those behind the full stop of a shortened word inside a mention."""
    inside = {at for start, end in mentions for at in range(start + 1, end) if stops[at] and words[at - 1].low == "."}
    return bytearray(stop and at not in inside for at, stop in enumerate(stops)) if inside else stops


class ScopeStructure:
    """The structure of a text around its mentions and matches.

    ``mentions`` are distinct, in order, and given by their words. ``stops`` tells for each word whether a scope ends
    before it. ``matches`` are in order and disjoint. ``acts`` are the mentions of drugs and procedures, if they are
    known, and ``procedures`` the mentions of procedures.
    """

    def __init__(
        self,
        mentions: Sequence[WordSpan],
        layout: Layout,
        stops: bytearray,
        matches: Sequence[Match],
        acts: Collection[WordSpan] | None,
        procedures: Collection[WordSpan],
    ) -> None:
        # "Epil. Anfälle traten nicht auf"
        stops = _without_dots(stops, mentions, layout.words)
        self._mentions, self._starts, self._stops = mentions, [start for start, _ in mentions], stops
        self._procedures = procedures
        self._acts, self._knows_acts = acts or (), acts is not None
        self._words, self._plain, self._counted, self._rules = layout.words, layout.plain, layout.counted, layout.rules
        slashes = self._listing(layout.places.get("/", ()), matches)
        self._commas = sorted([*layout.places.get(",", ()), *slashes])
        self._separators = layout.places_of(_SEPARATORS)
        self._colons = layout.places.get(":", [])
        self._either = layout.places_of(self._rules.either)
        self._ands = self._rules.joins - self._rules.either
        self._covered, free = bytearray(len(self._plain)), bytearray(self._plain)
        for start, end in mentions:
            self._covered[start:end] = b"\1" * (end - start)
            free[start:end] = bytes(end - start)
        self._free = [0, *accumulate(free)]  # cumulative count of words outside mentions
        sums = [at for at in layout.places.get("+", ()) if at and self._covered[at - 1]]  # "chemo + radiation"
        joins = [at for at in layout.places_of(self._rules.joins) if at not in slashes]
        # "120/min"
        rates = {at for at in joins if at and not self._plain[at] and self._words[at - 1].low[:1].isdecimal()}
        self._joins = sorted({*joins, *sums} - rates.difference(sums))
        self._acting = acting = [match for match in matches if _ends_finding(match) or not self._is_inside(match)]
        by_reads = by_effect(acting)
        self._there = [match.start for match in by_reads.get("present", ())]
        # a denial ends behind a comma at "Z. n." and at a relative: "Kein Asthma, Mutter mit Gicht"
        others = [match.start for match in acting if self._words[match.start].low in self._rules.resumes]
        others += [match.start for match in by_reads.get("family", ())]
        others = [at for at in others if at and self._words[at - 1].low == ","]
        others += [match.start for match in by_reads.get("planned", ())]  # "no fever, the team recommends gastroscopy"
        self._resumes = sorted({*self._there, *others})
        self._denials = [match.start for match in by_reads.get("absent", ())]
        self._denied = [m.end for m in by_reads.get("absent", ()) if any(cue.side == "before" for cue in m.cues)]
        self._means = {at for match in by_reads.get("means", ()) for at in range(match.start, match.end + 1)}
        ends, causes = ([match.parts[0] for match in by_reads.get(reads, ())] for reads in ("end", "cause"))
        # "no driving should syncope recur"
        inverted = (m.start for m in by_reads.get("hypothetical", ()) if len(m.parts) > 1 or self._is_condition(m))
        clauses, dashes = list(compress(range(len(stops)), stops)), self._dashes(layout.places_of(DASHES), acting)
        hard = [*clauses, *dashes, *(start for start, _ in ends), len(self._words)]
        self._over = sorted({*hard, *self._there}.difference(sums))
        self._until = sorted({*hard, *(start for start, _ in causes), *inverted})
        # "his father has gout but no asthma"
        single = {m.start for m in by_reads.get("absent", ()) if m.end == m.start + 1}
        curt = single.intersection(layout.places_of(self._rules.curt))
        self._elliptic = {start for start, end in ends if end in curt}
        self._of_person = [at for at in self._until if at not in self._elliptic]
        self._sentences = sorted({0, *clauses, *(at + 1 for at in dashes), *(end for _, end in ends)})
        self._from = sorted({*self._sentences, *(end for _, end in causes)})
        self._closed = self._brackets(layout.places_of(("(", ")")), clauses, acting)
        behind = (match for match in acting if match.start and self._covered[match.start - 1])
        self._bound = {match.end for match in behind if self._words[match.start].low in self._rules.without}

    def _listing(self, slashes: Sequence[int], matches: Sequence[Match]) -> set[int]:
        """Slashes between blanks that separate denials like commas: "kein Fieber / kein Husten / Müdigkeit"."""
        words, found = self._words, set[int]()
        denials = [match.start for match in matches if any(cue.reads == "absent" for cue in match.cues)]
        for at in slashes if denials else ():
            if 0 < at < len(words) - 1 and words[at - 1].end < words[at].start and words[at].end < words[at + 1].start:
                close = self._stops.find(1, at, at + MAX_SCOPE)
                begin = self._stops.rfind(1, max(at - MAX_SCOPE, 0), at)
                if any_within(denials, max(begin, 0), close if close >= 0 else at + MAX_SCOPE):
                    found.add(at)
        return found

    def _is_condition(self, match: Match) -> bool:
        return not self._rules.conditions.isdisjoint(word.low for word in self._words[match.start : match.end])

    @cached_property
    def _breaks(self) -> list[int]:
        return sorted(at for at in {*self._commas, *self._joins} if not self._covered[at])

    def _dashes(self, dashes: Sequence[int], acting: Sequence[Match]) -> list[int]:
        """Dashes between blanks, except those beside a cue ("Fever - none")."""
        words = self._words
        dashes = [at for at in dashes if 0 < at < len(words) - 1 and words[at - 1].end < words[at].start]
        dashes = [at for at in dashes if words[at].end < words[at + 1].start]
        beside = {at for match in acting if dashes for start, end in match.parts for at in (start - 1, end)}
        return [at for at in dashes if at not in beside]

    def _brackets(self, brackets: Sequence[int], clauses: Sequence[int], acting: Sequence[Match]) -> dict[int, int]:
        """Where brackets close that contain a cue and other words, by the end of the cue."""
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
        """Whether a part of a cue lies inside a mention ("Migraine without aura")."""
        return any(
            first <= start and end <= behind and behind - first > end - start
            for start, end in match.parts
            for number in (bisect_right(self._starts, start),)
            for first, behind in self._mentions[max(0, number - 2) : number]
        )

    def _apart(self, start: int, end: int) -> int:
        """Words between two places, except articles, joining words, doses and a short attribute before the second."""
        if end - start > _MAX_APART:
            return end - start
        lows, rules = [word.low for word in self._words[start:end]], self._rules
        phrase = next((at for at, low in enumerate(lows) if low in rules.prepositions), len(lows))
        skipped = rules.joins | rules.articles | rules.doses
        return sum(low[:1].isalpha() and low not in skipped for low in lows[:phrase])

    def _phrase(self, number: int) -> str:
        return " ".join(word.low for word in self._words[slice(*self._mentions[number])])

    def _low(self, at: int) -> str:
        return self._words[at].low if at < len(self._words) else ""

    def _attribute(self, mention: int, begin: int) -> int | None:
        """Where the attribute that ends with a mention starts, not before ``begin``; ``None`` if there is none."""
        words, rules = self._words, self._rules
        for at in range(mention - 1, max(begin, mention - _ATTRIBUTE) - 1, -1):
            low, before = words[at].low, words[at - 1].low if at > begin else ""
            if low in rules.prepositions:
                return None if before in rules.therapies else at
            if low in rules.genitives and before and before not in rules.joins:
                return at - (before in rules.prepositions)
            joined = words[at + 1].low in rules.joins  # "bei Niereninsuffizienz und Azidose"
            if not self._plain[at] or (not joined and (self._covered[at] or words[at].text[:1].isupper())):
                return None
        return None

    def _is_attribute(self, number: int, start: int, anchor: int) -> bool:
        """Whether a mention is an attribute of the one before, which ends at ``anchor`` and is of another kind.

        That is a drug or an act beside a finding, or the reverse: "no bleeding on warfarin", "no warfarin because of
        bleeding". What begins at ``start`` need not be a mention; then only a drug or an act is such an attribute.
        """
        place, is_act = self._mentions[number].start, self._mentions[number] in self._acts
        listed = anchor > start
        before = self._mentions[number - 1] if number else self._mentions[number]
        if listed and (before.start < start or (before in self._acts) == is_act):
            return False
        begin = self._attribute(place, anchor if listed else start) if listed or is_act else None
        if begin is None or not is_act:
            return begin is not None
        # "no allergy to penicillin" is not a circumstance
        return self._words[begin].low in self._rules.circumstances and (listed or any(self._plain[start:begin]))

    def _turns(self, cue: Cue, match: Match) -> bool:
        """Whether nothing follows a cue that normally precedes its mentions ("Fever: no", "Pneumonia suspected")."""
        if cue.reads not in TURNS:
            return False
        at, last = match.start - 1, len(self._words)
        if self._is_question(match):
            return True
        behind = match.end + (match.end < last and self._words[match.end].low in _CLOSING)
        nothing = behind == last or self._stops[behind] or self._is_dash(behind)
        mark = self._words[at].low if at >= 0 else ""
        answers = at >= 0 and (mark == ":" or self._covered_before(self._before_dash(match.start) - (mark == ",")))
        return bool(answers and nothing) or self._answers(cue, match)

    def _is_question(self, match: Match) -> bool:
        """Whether a question mark is attached to a mention: "Barrett's oesophagus? biopsies taken"."""
        before, mark = self._words[max(match.start - 1, 0)], self._words[match.start]
        return mark.low == "?" and before.end == mark.start and self._covered[match.start - 1] > 0

    def _answers(self, cue: Cue, match: Match) -> bool:
        """Whether such a cue stands between a mention and a comma ("Fieber keines, Husten")."""
        comma = self._low(match.end) == ","
        return cue.reads in TURNS and comma and self._covered_before(self._before_dash(match.start))

    def _before_dash(self, place: int) -> int:
        return place - (place > 1 and self._is_dash(place - 1))

    def _is_dash(self, place: int) -> bool:
        """Whether a dash behind a blank stands at a place: "vertigo – denies", not "non-tender"."""
        return self._words[place].low in DASHES and self._words[place - 1].end < self._words[place].start

    def _covered_before(self, place: int) -> bool:
        """Whether a mention ends at a place, or before adverbs or a phrase that end there ("Fieber derzeit nicht")."""
        at, least, adverb = place - 1, max(place - _ADVERBS, 0), self._rules.adverb
        while at > least and (adverb.fullmatch(self._words[at].low) or self._is_cut(at, place, adverb)):
            at -= 1
        # "Ödeme an den Beinen keine"
        begin = next((n for n in range(at, max(at - _PHRASE, 0), -1) if self._low(n) in self._rules.prepositions), 0)
        if begin and all(self._plain[begin : at + 1]) and not any(self._covered[begin : at + 1]):
            at = begin - 1
        mention = at >= 0 and self._covered[at] and self._plain[at]
        return bool(mention) and self._stops.find(1, at + 1, place) < 0

    def _is_cut(self, at: int, place: int, adverb: re.Pattern[str]) -> bool:
        """Whether the dot of an adverb stands at a place ("Retinopathie lt. Augenarzt keine")."""
        return self._words[at].low == "." and at + 1 < place and adverb.fullmatch(self._words[at - 1].low) is not None

    def _begins_clause(self, start: int, number: int) -> bool:
        """Whether a mention is in a new clause with its verb: "no fever, and the cough was dry", "und es besteht"."""
        rules, (first, end) = self._rules, self._mentions[number]
        at = bisect_left(self._breaks, first) - 1
        if at < 0 or self._breaks[at] < start or self._words[self._breaks[at]].low in rules.either:
            return False
        opening = self._breaks[at] + 1
        opening += self._words[opening].low in self._ands
        if any(self._words[place].low in rules.finite for place in range(opening, min(opening + 2, first))):
            return True
        if self._words[opening].low not in rules.definite or opening - 2 in self._commas:
            return self._words[opening].low in rules.definite  # ", and the rash fades"
        stop = self._stops.find(1, end)
        lows = [word.low for word in self._words[end : min(end + _CLAUSE, len(self._words) if stop < 0 else stop)]]
        verb = next((place for place, low in enumerate(lows) if low == "," or low in rules.finite), len(lows))
        return lows[verb : verb + 1] not in ([], [","]) and rules.evident.isdisjoint(lows[verb + 1 : verb + 2])

    def _is_subject(self, number: int) -> bool:
        """Whether an act is the subject of a verb that reports a finding: "neither CT nor MRI showed"."""
        at = self._mentions[number].end
        while at < len(self._words) and (
            self._covered[at] or self._words[at].low in self._rules.joins or self._words[at].low in self._rules.articles
        ):
            at += 1
        return self._low(at) in self._rules.reports

    def _is_result(self, number: int) -> bool:
        """Whether a finding may follow a condition, rather than be the next of several: "if CT is normal, the pain"."""
        end = self._mentions[number].end
        close = self._until[bisect_left(self._until, end)]
        return self._mentions[number] not in self._acts and not any_within(self._either, end, close)

    def _has_result(self, number: int) -> bool:
        """Whether the next words after a procedure tell what it found: "repeat ECG without AV block"."""
        rules, at = self._rules, self._mentions[number].end
        for place in range(at, min(at + _RESULT, len(self._words))):
            low = self._low(place)
            if low in rules.reports or low in rules.done or low in rules.without:
                return True
            if self._stops[place] or not self._plain[place] or low in rules.prepositions or low in rules.conditions:
                return False
        return False

    def _is_reason(self, number: int, start: int) -> bool:
        """Whether a finding is the reason of what a denial denies: "never had radiation for her mesothelioma"."""
        begin = self._attribute(self._mentions[number].start, start)
        if begin is None or not any(self._plain[start:begin]):
            return False
        return self._low(begin) in self._rules.purposes and self._low(begin + 1) in self._rules.possessives

    def _is_denied(self, cue: Cue, match: Match) -> bool:
        """Whether a denial right before a suspicion denies it: "no lesions suspicious for"."""
        if cue.reads != "uncertain" or cue.side != "before":
            return False
        at = bisect_right(self._denied, match.start) - 1
        begin = self._denied[at] if at >= 0 else -1
        if begin < max(match.start - _OPEN, 0) or self._words[match.end - 1].low not in self._rules.prepositions:
            return False
        return all(self._plain[begin : match.start]) and self._stops.find(1, begin, match.end) < 0

    def _is_of_adjective(self, start: int, first: int) -> bool:
        """Whether a bare denial between two mentions denies the adjective of the former: "no infectada y celulitis"."""
        if start < 2 or not self._covered[start - 2] or self._words[start - 1].low not in self._rules.curt:
            return False
        return any(self._words[at].low in self._ands for at in range(start + 1, first))

    def _begins_head(self, start: int, end: int, number: int) -> bool:
        """Whether a new subject follows what is denied: "no effusion or edema and the nodule is unchanged".

        Behind a single member, it may begin with a degree: "no fever, and severe headache".
        """
        joint = end + (self._low(end) == ",")
        if joint + 1 >= len(self._words) or self._words[joint].low not in self._ands:
            return False
        alternatives = any_within(self._either, start - 1, end)
        if joint == end and alternatives and self._words[end + 1].low in self._rules.articles:
            return True
        single = not any_within(self._breaks, start, end) and self._low(start) not in self._rules.grades
        return single and self._has_degree(joint + 1, self._mentions[number].end)

    def _has_degree(self, start: int, end: int) -> bool:
        """Whether a degree begins a finding or, where the adjective follows, ends it: "mild edema", "edema leve"."""
        grades, behind = self._rules.grades, self._rules.head_first and end > start
        return self._low(start) in grades or (behind and bool(grades & {self._low(end - 1), self._low(end)}))

    def _continues_list(self, cue: Cue, start: int, number: int, until: int) -> bool:
        """Whether what follows a comma is a member of the list that a cue begins, rather than a new finding.

        It is a member if a joining word follows, as in "no fever, cough or rash". In a list without a joining word it
        must stand right after the comma, have no further description ("no murmur, hernia on the left"), and other
        members must have no cues of their own ("no fever, no cough, rash").
        """
        denies, (first, end) = cue.reads in DENIES, self._mentions[number]
        comma = self._commas[bisect_left(self._commas, first) - 1]
        denial = bisect_left(self._denials, start)
        if denies and denial < len(self._denials):
            until = min(until, self._denials[denial] + 1)
        until = min(until, start + MAX_SCOPE)
        nothing = self._free[comma] - self._free[start] == self._counted[comma] - self._counted[start]
        # its object is not a mention
        nothing = nothing and FIELD[cue.reads] != "experiencer" and cue.side != "around"
        nothing = nothing and not (cue.reads == "hypothetical" and self._low(start - 1) in self._rules.lists)
        if (denies and self._begins_statement(start, comma, end)) or self._is_graded(start, comma, end, until):
            return False
        if nothing and cue.reads in ("historical", "allergy"):
            return False  # "s/p stent, asthma and gout"
        if start in self._bound:
            return any_within(self._either, start, until)
        if any_within(self._joins, start, until):
            # "no fever or cough, rash": a list ends at a comma if no joining word follows that
            whole = self._denies_all(start) and not self._is_described(start, comma, end)
            return whole or any_within(self._joins, comma, until)
        tight = cue.scope_limit is not None and cue.reads in _TIGHT
        if nothing or tight or self._between(comma, first) > _ITEM:
            return False  # "no compresible, ascitis"
        return not denies or not self._is_described(start, comma, end)

    def _is_graded(self, start: int, comma: int, end: int, until: int) -> bool:
        """Whether a degree or a number begins what follows a comma: "no rales, mild edema", "gonartrosis avanzada"."""
        behind = self._words[comma + 1].low
        is_grade = behind in self._rules.grades or is_number(behind)
        is_grade = is_grade or (self._rules.head_first and self._words[end - 1].low in self._rules.grades)
        return is_grade and not any_within(self._either, start, until)

    def _is_described(self, start: int, comma: int, end: int) -> bool:
        """Whether a mention behind a comma is more than a bare member of a list of denials.

        It has an article ("no longer in pain, the cough persists"), further words, or the clause has other denials.
        """
        more = end < self._over[bisect_left(self._over, end)] and self._plain[end]
        more = more or self._low(end) in self._rules.since  # "kein Husten, Fieber seit gestern"
        if more and self._words[end].low not in self._rules.evident:
            return True
        begin, close = self._from[bisect_right(self._from, start) - 1], self._until[bisect_left(self._until, start)]
        verb = self._words[start - 1].low in self._rules.refuses
        each = not verb and bisect_left(self._denials, close) - bisect_left(self._denials, begin) > 1
        return each or self._is_between(start) or self._words[comma + 1].low in self._rules.articles

    def _denies_all(self, start: int) -> bool:
        """Whether a denial that ends at a place has all words of its sentence as objects: "denies", "negative for"."""
        at = start - 1 - (self._words[start - 1].low in self._rules.prepositions)
        return self._words[at].low in (self._rules.refuses if at == start - 1 else self._rules.results)

    def _is_between(self, start: int) -> bool:
        """Whether a denial that ends at a place follows a finding and a comma: "anxiety, no delusions, insomnia"."""
        comma = self._denials[max(bisect_left(self._denials, start) - 1, 0)] - 1 if self._denials else -1
        return comma > 0 and comma in self._commas and self._covered[comma - 1] > 0

    def _begins_statement(self, start: int, comma: int, end: int) -> bool:
        """Whether a new statement follows a comma, up to a mention that ends at ``end``: a subject and its state.

        That is "lips cyanotic", "Haut blass", or a new head: "no conjunctivitis or keratitis, and right ptosis".
        """
        if self._words[comma + 1].low in self._ands and any_within(self._either, start - 1, comma):
            return True
        if self._rules.state.fullmatch(self._words[end - 1].low) is None:
            return False
        return any(self._rules.subject.fullmatch(word.text) for word in self._words[comma + 1 : end - 1])

    def _is_list(self, cue: Cue, begin: int, anchor: int, end: int) -> bool:
        """Whether all words from ``begin`` to a mention before a cue are members of its list: "fever, cough denied"."""
        if self._free[anchor] != self._free[begin] or cue.reads == "allergy":  # "Metformin, latex allergy"
            return False
        if self._low(end) == "?" or self._low(end) in self._rules.lone:  # "anemia, bleeding?"
            return False
        if any_within(self._joins, begin, anchor):
            return False  # "fever and cough, dyspnea denied"
        if not any_within(self._sentences, begin, begin + 1):
            return False  # "ARDS due to pneumonia, shock resolved"
        # a result is that of one test: "chest pain, troponin negative", but "HIV, HCV negative"
        if self._low(end) not in self._rules.results:
            return True
        mentions = self._mentions[bisect_left(self._starts, begin) : bisect_left(self._starts, end)]
        others = (mention for mention in mentions if mention not in self._acts)
        found = (word for _, behind in mentions for word in self._words[behind - 1 : behind + 1])
        # names of tests have a word in capitals: "HIV", "Hepatitis B"
        return all(word.low not in self._rules.found for word in found) and all(
            any(word.text.isupper() for word in self._words[slice(*mention)]) for mention in others
        )

    def _between(self, start: int, end: int) -> int:
        return self._counted[end] - self._counted[start] if end > start else 0
