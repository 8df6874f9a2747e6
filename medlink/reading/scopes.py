"""Scopes: which mentions a cue acts on, and which of several cues counts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from medlink.language.cues import Cue, any_within
from medlink.reading.matches import Match
from medlink.reading.scope_structure import DENIES, FIELD, MAX_SCOPE, OVER, TURNS, ScopeStructure

_SHORT = 3  # scope limit up to which a cue for both sides does not look back beyond a comma
_ATTACHED = 6  # most words and marks before a procedure that belongs to what is before
_EXPECTS = 3  # most words between a suspicion and a procedure that it expects
_GAP = 8  # most words between members of a list
_ARROWS = (">", "→")
_OF_ACTS = {"stopped": "historical", "planned": "hypothetical", "declined": "absent"}
_OF_OBJECTS = (*_OF_ACTS, "avoided")
# these do not act on a method or a therapy beside a finding
_OF_OBSERVED = (*DENIES, "uncertain", "hypothetical", "allergy")
_EXPECTED = ("uncertain", "hypothetical")
_RANK = {"absent": 0, "uncertain": 1}  # between cues that are equally near


class CueEffect(NamedTuple):
    """Effect of a cue on a field of a mention; the nearest effect counts, then the one with the lowest rank."""

    distance: int
    rank: int
    reads: str
    cue: str


class Scopes(ScopeStructure):
    """The effects of cues on the fields of mentions."""

    def decide(self) -> list[dict[str, CueEffect]]:
        """Return the effects on each field of each mention."""
        self.decided: list[dict[str, CueEffect]] = [{} for _ in self._mentions]
        for match in self._acting if self._mentions else ():
            for cue in match.cues:
                if self._is_denied(cue, match):
                    self._act(cue._replace(reads="absent"), match)
                elif cue.reads in _OF_OBJECTS or (cue.reads == "gone" and cue.side == "both"):
                    self._act_on_object(cue, match)
                elif cue.side:
                    is_frame = len(match.parts) > 1 and cue.side in ("around", "both")
                    (self._act_around if is_frame else self._act)(cue, match)
        self._act_on_attributes()
        return self.decided

    def _act_on_attributes(self) -> None:
        """Give attributes of something past its time.

        These are what an operation removed ("hysterectomy in 2014 for fibroids"), and procedures ("stroke in 2015 with
        thrombolysis and stent").
        """
        before: CueEffect | None = None  # effect on the preceding mention, if that is past
        for number, mention in enumerate(self._mentions):
            decided, is_act = self.decided[number], mention in self._procedures
            time = decided.get("temporality")
            is_open = time is None or (time.reads == "past" and time.distance >= MAX_SCOPE)
            if before is not None and is_open and self._belongs(number, is_act):
                time = decided["temporality"] = before._replace(reads="historical")
            before = None
            if time is not None and time.reads in OVER:
                passes = self._rules.passes.match(self._phrase(number)) is not None
                before = time if is_act or passes or time.reads == "historical" else None

    def _belongs(self, number: int, is_act: bool) -> bool:
        """Whether a mention is an attribute of the one before and shares its time."""
        end, first = self._mentions[number - 1].end, self._mentions[number].start
        if self._stops.find(1, end, first) >= 0 or any_within(self._commas, end, first):
            return False
        behind = self._mentions[number].end
        lows = [word.low for word in self._words[end:first]]
        if is_act:
            joined = self._mentions[number - 1] in self._procedures and any_within(self._joins, end, first)
            return len(lows) <= _ATTACHED and (joined or not self._rules.accompanied.isdisjoint(lows))
        if self._mentions[number] in self._acts:
            return not self._rules.treated.isdisjoint([*lows, self._low(behind)])
        removes = not self._rules.reasons.isdisjoint(lows) and self._attribute(first, end) is not None
        return removes and self._rules.removes.search(self._phrase(number - 1)) is not None

    def _act_around(self, cue: Cue, match: Match) -> None:
        (first, start), (end, last) = match.parts
        if cue.reads == "hypothetical" and self._low(first) in self._rules.grounds:
            close = self._until[bisect_left(self._until, last)]
            if any(self._low(at) in self._rules.given for at in range(start, close)):
                return  # "bei Fieber wurde Paracetamol gegeben"
        for number in self._ahead(cue, start, start - 1, end):
            first, behind = self._mentions[number]
            self._decide(cue, number, min(self._between(start, first), self._between(behind, end)))
        if cue.side == "both":
            self._back(cue, match.start, crossing=False)

    def _act(self, cue: Cue, match: Match) -> None:
        ahead, end = False, match.end
        if cue.side != "after" and not self._answers(cue, match):
            ends = self._of_person if FIELD.get(cue.reads) == "experiencer" else self._until
            until = ends[bisect_left(ends, end)]
            further = self._over[bisect_left(self._over, end)] if cue.reads in OVER else until
            for number in self._ahead(cue, end, match.start, min(further, self._closed.get(end, further))):
                first = self._mentions[number].start
                # the cause of a past finding may persist: "Z. n. Apoplex bei Hypertonie"
                lasts = ahead and first >= until
                self._decide(cue._replace(reads="past") if lasts else cue, number, self._between(end, first))
                ahead = True
        turns = not ahead and self._turns(cue, match)
        if cue.side != "before" or turns:
            after = cue.side == "after"
            crosses = (after or not ahead) and (cue.scope_limit is None or cue.scope_limit > _SHORT)
            crosses = crosses and (after or cue.reads != "uncertain" or not self._has_object(match.end))
            crosses = crosses or (after and self._words[match.start - 1].low == ",")
            # only adverbs and a phrase stand between
            near = cue._replace(scope_limit=None) if turns and cue.side == "before" else cue
            self._back(near, match.start, crossing=crosses)

    def _act_on_object(self, cue: Cue, match: Match) -> None:
        """Act on what was stopped, planned, avoided, declined or gone: the nearest mentions that are not attributes.

        This is *Metformin* in "Wegen Niereninsuffizienz wurde Metformin abgesetzt", and nothing in "Resektion des
        Tumors geplant". A frame has its object inside, else before it: "Metformin wurde bei Niereninsuffizienz
        abgesetzt".
        """
        if self._low(match.end - 1) in _ARROWS and not self._begins_drug(match.end):
            return  # "Ramipril 5 mg -> 10 mg"
        first, last = match.parts[-1 if cue.side == "before" else 0], match.parts[-1]
        until = last.start if last is not first else self._until[bisect_left(self._until, last.end)]
        if any_within(self._breaks, first.end, last.start):
            # "ist stabil, Sectio geplant": the verb belongs to another act
            first, cue = last, cue._replace(side="after")
        heads = self._low(first.end) == ":"  # "Stopped: metformin, ibuprofen"
        if heads and cue.side == "after" and not self._covered[max(first.start - 1, 0)]:
            cue = cue._replace(side="before")
        ahead = cue.side != "after" and self._objects_ahead(cue, first.end, until)
        if cue.side in ("after", "both") and not ahead:
            self._objects_before(cue, first.start)

    def _begins_drug(self, place: int) -> bool:
        at = bisect_left(self._starts, place)
        is_next = at < len(self._starts) and self._starts[at] == place
        return is_next and self._mentions[at] in self._acts and self._mentions[at] not in self._procedures

    def _objects_ahead(self, cue: Cue, start: int, until: int) -> bool:
        anchor, limit = start, cue.scope_limit or 0
        for number in range(bisect_left(self._starts, start), len(self._mentions)):
            first, end = self._mentions[number]
            if first >= until or self._apart(anchor, first) > limit:
                break
            is_second, attribute = self._is_second(start, first), self._attribute(first, anchor)
            # "die Therapie mit Ramipril wurde abgesetzt"
            is_own = attribute == start and self._low(start - 1) in self._rules.therapies
            if attribute is not None and not (is_second or is_own):
                break
            listed = anchor > start and (self._low(start) == ":" or any_within(self._joins, anchor, until))
            if not (listed or is_second) and any_within(self._breaks, anchor, first):
                break  # "la tos cedió y la fiebre persiste"
            self._decide(cue, number, self._between(start, first))
            anchor, limit = max(anchor, end), 0
        return anchor > start

    def _is_second(self, start: int, first: int) -> bool:
        """Whether a mention is the second object of a cue whose first is none: "declined a flu jab and colonoscopy"."""
        at = first - 1
        while at > start and self._words[at].low in self._rules.articles:
            at -= 1
        named = self._plain[start : start + 1] + self._plain[start:at]
        return at > start and at in self._joins and all(named) and self._low(start) not in self._rules.prepositions

    def _objects_before(self, cue: Cue, end: int) -> None:
        begin = self._sentences[bisect_right(self._sentences, end) - 1]
        if cue.scope_limit is not None and cue.scope_limit > _GAP:
            # it stands for what was named before: "caused a rash, and the drug was stopped"
            named = range(bisect_left(self._starts, end) - 1, bisect_left(self._starts, begin) - 1, -1)
            known = self._acts if self._knows_acts else self._mentions
            acts = [number for number in named if self._mentions[number] in known]
            act = next((n for n in acts if self._mentions[n] not in self._procedures), acts[0] if acts else None)
            if act is not None:
                self._decide(cue, act, self._between(self._mentions[act].end, end))
            return
        comma = bisect_left(self._commas, end)
        anchor = end - 1 if comma and self._commas[comma - 1] == end - 1 else end  # "Allopurinol, stopped"
        limit, joined = cue.scope_limit or 0, False
        for number in range(bisect_left(self._starts, end) - 1, -1, -1):
            first, behind = self._mentions[number]
            joined = joined or any_within(self._joins, behind, anchor)
            if first < max(begin, end - MAX_SCOPE) or self._apart(behind, anchor) > limit:
                return
            if any_within(self._commas, behind, anchor) and not joined:
                return
            attribute = self._attribute(first, begin)
            if attribute is None:
                self._decide(cue, number, self._between(behind, end))
                limit = 0
            anchor = min(anchor, first if attribute is None else attribute)

    def _ahead(self, cue: Cue, start: int, behind: int, until: int) -> Iterator[int]:
        """Mentions from a place on within the scope limit, counted in words from the place or the last mention."""
        counted, commas, denies = self._counted, self._commas, cue.reads in DENIES
        until = min(until, start + MAX_SCOPE + 1)
        anchor, comma = start, bisect_left(commas, start)
        for number in range(bisect_right(self._starts, behind), len(self._mentions)):
            first, end = self._mentions[number]
            if end < start or (end == start and not (denies or cue.reads == "historical")):
                continue  # the rest of a cue acts on a mention at its end
            if first >= until:
                return
            if denies and first < start and self._words[first].low in self._rules.answers:
                continue  # "but no" before "no temperature", which itself denies
            distance = counted[first] - counted[anchor] if first > anchor else 0
            if cue.scope_limit is not None and distance > cue.scope_limit:
                return
            if self._ends_before(cue, start, anchor, number):
                return
            while comma < len(commas) and commas[comma] < anchor:
                comma += 1
            if comma < len(commas) and commas[comma] < first:
                if distance > _GAP or (denies and any_within(self._resumes, start, first)):
                    return  # a present finding is in between: "no erythema, +flatus, engorgement"
                elliptic = commas[comma] + 1 in self._elliptic
                if not elliptic and not self._continues_list(cue, start, number, until):
                    return
            reason = denies and self._mentions[number] not in self._acts and self._is_reason(number, start)
            if not (reason or (cue.reads in _OF_OBSERVED and self._is_attribute(number, start, anchor))):
                yield number
            anchor = max(anchor, end)

    def _ends_before(self, cue: Cue, start: int, anchor: int, number: int) -> bool:
        """Whether the scope of a cue that ends at ``start`` ends before a mention, behind the one at ``anchor``."""
        first = self._mentions[number].start
        of_clause = cue.reads in (*DENIES, "uncertain") or (cue.reads == "hypothetical" and self._is_result(number))
        if of_clause and self._begins_clause(start, number):
            return True
        if anchor > start and cue.reads == "hypothetical" and self._low(anchor) in self._rules.grounds:
            return True  # "to rule out embolism given tachycardia"
        if anchor > start and cue.reads in _EXPECTED:
            return any_within(self._colons, anchor, first)  # "suspected meningitis: fever, headache"
        if cue.reads not in DENIES:
            return False
        # it denies something that is not a mention: "sits not yet (delay)"
        another = self._low(start) == "(" or any_within(self._separators, start + 1, first)
        another = another or self._is_of_adjective(start, first)
        return (anchor == start and another) or (anchor > start and self._begins_head(start, anchor, number))

    def _back(self, cue: Cue, end: int, *, crossing: bool) -> None:
        begin = self._from[bisect_right(self._from, end) - 1]
        anchor, joined, limit = end, False, MAX_SCOPE if cue.scope_limit is None else cue.scope_limit
        for number in range(bisect_left(self._starts, end) - 1, -1, -1):
            first, behind = self._mentions[number]
            if first < begin or end - behind > MAX_SCOPE or self._between(behind, anchor) > limit:
                return
            joined = joined or any_within(self._joins, behind, anchor)
            if any_within(self._commas, behind, anchor):
                if cue.side == "both" and cue.reads in OVER and self._low(end - 1) != ",":
                    return  # "asthma, neuritis in the past"
                # a bracket belongs to what it follows: "diabetes, gout (mother)"
                listed = (joined or self._is_list(cue, begin, anchor, end)) and self._words[end].low != "("
                subject = self._has_subject(behind, end) or (cue.reads in DENIES and self._is_next_noun(end))
                if not (crossing and not subject if anchor == end else listed):
                    return
            if anchor < end and cue.reads in TURNS and any_within(self._colons, behind, anchor):
                return  # "after myocarditis in 2023: the effusion is no longer seen"
            if anchor < end and cue.reads == "gone" and self._is_present(number):
                return  # "the cough persists and the effusion has resolved"
            if cue.reads == "gone" and self._has_cause(behind, end):
                return  # "cirrhosis due to HCV (cured)"
            if not (cue.reads in _OF_OBSERVED and self._is_attribute(number, begin, begin + 1)):
                self._decide(cue, number, self._between(behind, end))
                limit = min(limit, _SHORT) if cue.reads == "gone" else limit
            anchor = min(anchor, first)

    def _has_object(self, end: int) -> bool:
        """Whether a cue has an object that is no mention: "nodes smaller, no se puede descartar linfangitis"."""
        low, rules = self._low(end), self._rules
        others = (rules.prepositions, rules.joins, rules.circumstances, rules.grounds, rules.either)
        return low[:1].isalpha() and not self._stops[end] and not any(low in words for words in others)

    def _has_cause(self, start: int, end: int) -> bool:
        """Whether a bracket before ``end`` belongs to the cause of what is before ``start``."""
        lows = [self._low(at) for at in range(start, end)]
        return "(" in lows and not self._rules.reasons.isdisjoint(lows[: lows.index("(")])

    def _is_present(self, number: int) -> bool:
        presence = self.decided[number].get("presence")
        return presence is not None and presence.reads == "present"

    def _has_subject(self, start: int, end: int) -> bool:
        """Whether a subject that is no mention follows the last comma: "Anämie renal, ein Infekt ausgeschlossen"."""
        first = self._commas[bisect_left(self._commas, end) - 1] + 1
        noun = first + 1 < end and (
            self._rules.head_first or self._rules.subject.fullmatch(self._words[first + 1].text) is not None
        )
        return first > start and noun and self._low(first) in self._rules.articles

    def _is_next_noun(self, end: int) -> bool:
        """Whether one word stands between a comma and a cue, its subject: "Aphasie, Neglect nicht mehr nachweisbar"."""
        rules = self._rules
        end -= rules.adverb.fullmatch(self._low(end - 1)) is not None and self._low(end - 2) != ","  # "Pleura li"
        word = self._words[end - 1]
        alone = self._low(end - 2) == "," and word.low[:1].isalpha() and not self._covered[end - 1]
        others = (rules.joins, rules.between, rules.prepositions, rules.definite, rules.finite)
        known = rules.adverb.fullmatch(word.low) is not None or any(word.low in words for words in others)
        return alone and not known and (rules.head_first or rules.subject.fullmatch(word.text) is not None)

    def _decide(self, cue: Cue, number: int, distance: int) -> None:
        reads, decided = cue.reads, self.decided[number]
        if self._mentions[number].start in self._means and FIELD[reads] == "presence":
            return
        is_act = self._mentions[number] in self._acts
        of_others = reads in ("absent", "uncertain") or (reads in OVER and cue.side == "before")
        if is_act and of_others and self._is_subject(number):
            return
        if reads == "planned" and self._mentions[number] in self._procedures and self._has_result(number):
            return  # "repeat ultrasound no longer shows"
        if reads in _OF_ACTS and self._knows_acts and not is_act:
            return  # "we recommend evaluation of the anemia", "swelling: amlodipine was replaced"
        if reads == "sought":
            if is_act or self._rules.observed.search(self._phrase(number)):
                return  # "investigate the anemia": it is there
            cue, reads = cue._replace(reads="uncertain"), "uncertain"
        if reads == "uncertain" and self._mentions[number] in self._procedures:
            if distance > _EXPECTS:
                return
            self._decide(cue._replace(reads="present"), number, distance)
            reads = "hypothetical"  # "consider bronchoscopy"
        value = "historical" if reads == "gone" and is_act else _OF_ACTS.get(reads, str(reads))
        if value == "gone" or (value == "avoided" and is_act):
            # a finding was there before, and is absent now
            self._decide(cue._replace(reads="absent"), number, distance)
        if value == "past":
            # an explicit cue takes precedence: "Z. n. Apoplex 2002 (Hemiparese)"
            distance += MAX_SCOPE
        known = decided.get(FIELD[value])
        if known is not None and value == "gone" and known.reads in OVER and decided["presence"].reads == "absent":
            known = None  # "the ulcer of 2019 has healed"
        stays = known is not None and known.reads == "gone" and value in OVER
        if not stays and (known is None or distance <= known.distance):
            new = CueEffect(distance, _RANK.get(value, 2), value, cue.name)
            decided[FIELD[value]] = new if known is None else min(known, new)
