"""Attributes: words for the side, degree or course of a finding, which are no mentions but are kept with the mention.

An attribute is a stretch whose likeliest concept says no thing (*left*, *mild*), or a word of one of the families of
``resources/notes/attributes.json`` where the terminology has no such concept. It is of the finding in whose span it
stands, else of the nearest one in its clause from which nothing parts it but words of the grammar, parts of the body,
stages and other attributes; sides that are compared (*re > li*) are of one finding. Between a finding before it and one
behind it, the one without a joining word between and with fewer other words counts, then the side on which such words
stand in the language (``attributes.json`` of its folder).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import inf
from typing import Any, NamedTuple

import numpy as np

from medlink.index import Bundle
from medlink.language.cues import scopes
from medlink.language.languages import Rules, any_of, language_data
from medlink.language.scan import Place, ScannedText, WordEntry
from medlink.language.text import ROMAN
from medlink.linking import Linker, Mention
from medlink.linking.candidates import WORDS
from medlink.linking.linker import Best
from medlink.reading.classifier import SelectedSpan, shipped
from medlink.reading.features import ScoredSpan
from medlink.records import Attribute, AttributeKind

_KINDS: tuple[AttributeKind, ...] = ("laterality", "severity", "course")
_PASSED = frozenset(("body", "quality", "general"))  # kinds of the words that may stand between
_CHANGE = frozenset(("change",))  # may be meant by a word that stands between: *lower* leg
_QUALITY = frozenset(("quality",))
_MOST = (2, 3, 3)  # words between at most: joining ones, of content, of the grammar
_CROSSED = (",", "(", ")", ".")  # marks of which one may stand beside an attribute
_COMPARED = re.compile(r"\.?\s*[<>=≤≥]{1,3}")  # what stands between two sides of one finding: "re > li"
_STAGE = re.compile(r"([ivx]+|\d{1,2})(?:[a-e]|\+)?")  # of a stage or degree: IIb, 2, 3+
_Way = tuple[bool, float, float, float, int]
"""To the nearest mention on one side: whether over a mark, the words between (joining ones, of content, of the
grammar), and its number. The least way counts."""
_RIGHT_BESIDE = (False, 0, 0, 1)  # above the ways with nothing between


class _Rules(Rules):
    """``attributes.json`` of a language.

    ``behind`` are patterns of words, in lower case, that stand behind their finding where it may be on either side.
    ``parts`` are words of the grammar behind which something else is spoken of. ``words`` are patterns of words, in
    lower case, by the family that they mean beside a finding and the lexicon does not read them as.
    """

    words: dict[str, re.Pattern[str]] = {}  # noqa: RUF012 # pydantic copies it
    behind: tuple[str, ...] = ()
    parts: frozenset[str] = frozenset()


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = shipped("attributes")
    return table


def asks_for_attributes(semantic_types: Iterable[str]) -> bool:
    """Whether concepts of one of these types say attributes, so that those who ask for it want them as mentions."""
    return not set(_table()["other"]["semantic_types"]).isdisjoint(semantic_types)


def says_an_attribute(concept_id: str) -> bool:
    """Whether a concept is known to say no finding by itself, also in a bundle without hierarchy and types."""
    return concept_id in _table()["other"]["alone"]


class _Word(NamedTuple):
    place: Place
    kind: AttributeKind
    family: str | None = None
    concept_id: str | None = None


class AttributeReader:
    """Reads the attributes of the findings in notes of one language (BCP 47) with the terminology of a bundle.

    The concept of an attribute needs the threshold of the linker.
    """

    def __init__(self, bundle: Bundle, language: str, linker: Linker) -> None:
        self._kb, self._index, self._language, self._linker = bundle.kb, bundle.index, language, linker
        self.kinds: dict[str, AttributeKind] = {name: kind for kind in _KINDS for name in _table()[kind]["families"]}
        names = enumerate(bundle.index.forms.names)
        self._families = {number: name for number, name in names if name in self.kinds}
        rules = language_data(language).read("attributes", _Rules)
        self.behind, self.parts, self._more = any_of(map(re.compile, rules.behind)), rules.parts, rules.words
        self.scopes = scopes(language)
        self.concept, self.meant = cache(self._concept), cache(self._meant)

    def read(
        self, text: ScannedText, mentions: Sequence[SelectedSpan], attributes: Iterable[ScoredSpan]
    ) -> list[list[Attribute]]:
        """The attributes of each mention of a text, which are in order and without overlap.

        ``attributes`` are the spans whose likeliest concept is no thing.
        """
        if not mentions:
            return []
        # of what is no name as it stands one word is enough: "left" of "left lower"
        spans = [
            (one.candidate.place, one.best)
            for one in attributes
            if (one.is_name or (one.best.ranked.route == WORDS and len(range(*one.candidate.place)) == 1))
            and self._says_one(one.best)
        ]
        return _Note(self, text, [one.place for one in mentions], spans).attached()

    def _concept(self, concept_id: str) -> tuple[AttributeKind | None, str | None]:
        above = {concept_id, *(one for one, _ in self._kb.ancestors(concept_id))}
        types = [one.semantic_type for one in self._kb.semantic_types(concept_id)]
        kind: AttributeKind | None = next((k for k in _KINDS if not above.isdisjoint(_table()[k]["concepts"])), None)
        if kind is None and (asks_for_attributes(types) or not above.isdisjoint(_table()["other"]["concepts"])):
            kind = "other"
        return kind, self._kb.preferred_name(concept_id, self._language)

    def families(self, text: ScannedText) -> dict[int, str]:
        """The words of a text that have a family of the table as a whole, not as a part of a compound, with that."""
        known = text.table.column("attribute", lambda entry: self._family(entry) is not None, bool)
        found = ((at, self._family(text.words[at].entry)) for at in text.where(known))
        return {at: family for at, family in found if family is not None}

    def _family(self, entry: WordEntry) -> str | None:
        if "family" not in entry.memo:
            low = entry.written.casefold()
            read = (self._families[meaning] for meaning in entry.word.meanings if meaning in self._families)
            more = (family for family, pattern in self._more.items() if pattern.fullmatch(low))
            entry.memo["family"] = next(read, None) or next(more, None)
        family: str | None = entry.memo["family"]
        return family

    def _meant(self, family: str) -> str | None:
        """The concept that is named as a family is: that of *links* in a terminology without German names.

        Names of families are English, with the sense in brackets.
        """
        best = self._linker.best([Mention(family.partition(" (")[0], "en")])[0]
        if best is None or not self._says_one(best) or not self._index.attributes(np.array([best.ranked.name])).all():
            return None
        return best.concept_id if self.concept(best.concept_id)[0] in (self.kinds[family], None) else None

    def _says_one(self, best: Best) -> bool:
        classes = (one for entry in _table().values() for one in entry["concepts"])
        return best.score >= self._linker.options.threshold and best.concept_id not in classes


def _is_stage(text: str) -> bool:
    """Whether a word is the number of a stage or degree.

    >>> [_is_stage(word) for word in ("IIb", "3", "2+", "B", "IIII", "2024")]
    [True, True, True, False, False, False]
    """
    found = _STAGE.fullmatch(text.casefold())
    return found is not None and (found[1] in ROMAN or found[1].isdecimal())


class _Note:
    def __init__(
        self, rules: AttributeReader, text: ScannedText, mentions: Sequence[Place], spans: Sequence[tuple[Place, Best]]
    ) -> None:
        self._rules, self._text, self._words, self._mentions = rules, text, text.words, mentions
        self._owner = {at: number for number, place in enumerate(mentions) for at in range(*place)}
        self._attributes = self._found(spans, rules.families(text))
        self._taken = {at for one in self._attributes for at in range(*one.place)}
        self._sides = {at for one in self._attributes if one.kind == "laterality" for at in range(*one.place)}

    def attached(self) -> list[list[Attribute]]:
        found: list[list[Attribute]] = [[] for _ in self._mentions]
        sided = set[int]()  # mentions whose side is said
        for one in self._attributes:
            numbers = list(self._of(one, sided))
            for number in numbers:
                meant = one.concept_id or (one.family and self._rules.meant(one.family))
                name, written = meant and self._rules.concept(meant)[1], self._text.written(one.place)
                found[number].append(Attribute(*self._text.span(one.place), written, one.kind, meant, name))
            if one.kind == "laterality":
                sided.update(numbers)
        return found

    def _low(self, at: int) -> str:
        return self._text.written((at, at + 1)).casefold()

    def _found(self, spans: Sequence[tuple[Place, Best]], families: Mapping[int, str]) -> list[_Word]:
        taken, found = set[int](), list[_Word]()
        for place, best in sorted(spans, key=lambda one: (one[0][0] - one[0][1], one[0], -one[1].score)):
            family = next((families[at] for at in range(*place) if at in families), None)
            kind, own = self._rules.concept(best.concept_id)[0], None if family is None else self._rules.kinds[family]
            if kind is not None and own not in (kind, None):
                continue  # *homolateral* is not lateral
            kind = kind or own
            if kind is None and all(word.function or word.kinds == _QUALITY for word in self._words[slice(*place)]):
                kind = "other"
            if place[0] < place[1] and kind is not None and taken.isdisjoint(range(*place)):
                found.append(_Word(place, kind, family, best.concept_id))
                taken.update(range(*place))
        left = ((at, family) for at, family in families.items() if at not in taken)
        found += [_Word((at, at + 1), self._rules.kinds[family], family) for at, family in left]
        return sorted(map(self._whole, found), key=lambda one: one.place)

    def _whole(self, one: _Word) -> _Word:
        """An attribute with what a hyphen joins to it and nothing is known of (*left-sided*)."""
        stop = one.place[1]
        if stop == len(self._words) or stop in self._owner or self._gap(stop - 1, stop) != "-":
            return one
        goes_on = self._words[stop].kinds <= {"general", "quality"}
        return one._replace(place=(one.place[0], stop + 1)) if goes_on else one

    def _of(self, one: _Word, sided: set[int]) -> Iterator[int]:
        first, last = self._owner.get(one.place[0]), self._owner.get(one.place[1] - 1)
        if first is not None or last is not None:
            rest = {*range(*self._mentions[first])}.difference(range(*one.place)) if first is not None else set[int]()
            # no mention says nothing but an attribute
            if first is not None and first == last and not all(self._words[at].function for at in rest):
                yield first
            return
        behind = self._rules.behind.fullmatch(self._text.written(one.place).casefold()) is not None
        before, after = self._way(one, -1, other_side=not behind), self._way(one, 1, other_side=behind)
        way = min(filter(None, (before, after)), default=None)
        if way is None or (one.kind == "other" and way >= _RIGHT_BESIDE):
            return  # other words are of what they stand right beside
        yield way[-1]
        if way is before and one.kind == "laterality" and way < _RIGHT_BESIDE:
            yield from self._listed_before(way[-1], sided)

    def _way(self, one: _Word, step: int, *, other_side: bool) -> _Way | None:
        last = one.place[0] if step < 0 else one.place[1] - 1
        at, crossed, joined, content, grammar = last + step, False, 0.0, 0.0, 0.0
        while 0 <= at < len(self._words):
            if self._words[at].clause != self._words[last].clause and not self._compares(at, last):
                if last not in self._taken or not self._crosses(one, last, at, other_side=other_side):
                    return None
                crossed = True
            if at in self._owner:
                return crossed, joined, content, grammar + 0.5 * other_side, self._owner[at]
            cost = self._cost(at, last, step, other_side=other_side)
            joined, content, grammar = joined + cost[0], content + cost[1], grammar + cost[2]
            if joined > _MOST[0] or content > _MOST[1] or grammar > _MOST[2]:
                return None
            last, at = at, at + step
        return None

    def _cost(self, at: int, last: int, step: int, *, other_side: bool) -> tuple[float, float, float]:
        """Of a word between: one that joins, of content, of the grammar; without end for one that parts."""
        word, low = self._words[at], self._low(at)
        if low in self._rules.scopes.joins:
            # "left and right", not "fever and left ..."
            return (1 if last in self._taken and at + step in self._taken else inf), 0, 0
        if low in self._rules.parts or (word.function and other_side and step > 0):
            return 0, 0, inf
        if word.function:
            return 0, 0, 1
        if at in self._taken or word.kinds == _QUALITY or _is_stage(low):
            return 0, 0, 0
        passes = word.kinds & _PASSED and word.kinds <= _PASSED | _CHANGE
        return 0, 1 if passes else inf, 0

    def _crosses(self, one: _Word, last: int, at: int, *, other_side: bool) -> bool:
        """Whether the mark between an attribute and the clause beside it does not part it from that."""
        mark = self._gap(min(last, at), max(last, at)).strip()
        if mark not in _CROSSED:
            return False
        if at > last:  # "severe, stabbing pain", "bds. Ödeme", but not "HTEP bds. Ödeme"
            first = one.place[0] - 1
            opens = first < 0 or self._words[first].clause != self._words[first + 1].clause
            opens = opens or first in self._taken or self._words[first].function
            return (mark == "," and not other_side) or (mark == "." and opens and self._is_cut(last))
        # "pain, severe", "effusion (left)": nothing else is said there
        stop = one.place[1]
        if stop < len(self._words) and self._words[stop].clause == self._words[stop - 1].clause:
            return False
        return mark != "." and not (stop < len(self._words) and self._is_cut(stop - 1))

    def _compares(self, at: int, last: int) -> bool:
        mark = self._gap(min(at, last), max(at, last)).strip() if {at, last} <= self._sides else ""
        return _COMPARED.fullmatch(mark) is not None

    def _is_cut(self, at: int) -> bool:
        """Whether a dot behind a word is that of an abbreviation, which stands before what it is said of."""
        gap = self._gap(at, at + 1)
        return gap.startswith(".") and "\n" not in gap and self._low(at) in self._rules.scopes.abbreviated

    def _listed_before(self, number: int, sided: set[int]) -> Iterator[int]:
        joined = False
        while number and number - 1 not in sided:
            first, stop = self._mentions[number - 1][1], self._mentions[number][0]
            joins = [self._low(at) in self._rules.scopes.joins for at in range(first, stop)]
            if self._taken.intersection(range(first, stop)) or self._gap(stop - 1, stop).strip() not in ("", ","):
                return
            joined = joined or any(joins)
            if not joined or not (self._gap(first - 1, stop).strip() == "," or (joins and all(joins))):
                return
            number -= 1
            yield number

    def _gap(self, first: int, second: int) -> str:
        return self._text.text[self._words[first].end : self._words[second].start]
