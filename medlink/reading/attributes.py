"""Attributes: words for laterality, severity or course, which belong to a mention and are not mentions themselves.

An attribute is a span whose best concept is a modifier (*left*, *mild*), or a word of one of the families in
``resources/notes/attributes.json`` if the terminology has no such concept. It belongs to the finding whose span
contains it, else to the nearest one in its clause from which only function words, body parts, stages and other
attributes separate it; sides that are compared (*re > li*) belong to one finding. If findings on both sides qualify,
fewer joining words in between decide, then fewer other words, then the usual side in the language (``attributes.json``
of its folder).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import inf
from typing import Any, NamedTuple

import numpy as np

from medlink.index import Bundle
from medlink.language.languages import Rules, any_of, language_data
from medlink.language.scan import Place, ScannedText, WordEntry
from medlink.language.scope_rules import scopes
from medlink.language.text import ROMAN
from medlink.linking import Linker, Mention
from medlink.linking.candidates import WORDS
from medlink.linking.linker import BestConcept
from medlink.reading.classifier import SelectedSpan, load_notes_resource
from medlink.reading.features import ScoredSpan
from medlink.records import Attribute, AttributeKind

_KINDS: tuple[AttributeKind, ...] = ("laterality", "severity", "course")
_TRANSPARENT = frozenset(("body", "quality", "general"))  # kinds of words that may separate attribute and finding
_CHANGE = frozenset(("change",))  # a further kind that such a word may have: *lower* leg
_QUALITY = frozenset(("quality",))
_MAX_BETWEEN = (2, 3, 3)  # most words in between: joining words, content words, function words
_CROSSED = (",", "(", ")", ".")  # one of these marks may stand beside an attribute
_COMPARISON = re.compile(r"\.?\s*[<>=≤≥]{1,3}")  # between two sides of one finding: "re > li"
_STAGE = re.compile(r"([ivx]+|\d{1,2})(?:[a-e]|\+)?")  # a stage or degree: IIb, 2, 3+
_Distance = tuple[bool, float, float, float, int]
"""Distance to the nearest mention on one side: whether a mark is crossed, the words in between (joining words, content
words, function words), and the number of the mention. The least distance wins."""
_ADJACENT = (False, 0, 0, 1)  # greater than the distance to an adjacent mention


class _Rules(Rules):
    """``attributes.json`` of a language.

    Attributes:
        behind: patterns of lower-case words that follow their finding, if it may be on either side.
        parts: function words that begin a new subject.
        words: patterns of lower-case words, by the family that they have beside a finding, but not in the lexicon.
    """

    words: dict[str, re.Pattern[str]] = {}  # noqa: RUF012 # pydantic copies it
    behind: tuple[str, ...] = ()
    parts: frozenset[str] = frozenset()


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = load_notes_resource("attributes")
    return table


def include_attribute_types(semantic_types: Iterable[str]) -> bool:
    """Return whether these semantic types include a type of attributes; if so, attributes count as mentions."""
    return not set(_table()["other"]["semantic_types"]).isdisjoint(semantic_types)


def is_attribute_concept(concept_id: str) -> bool:
    """Return whether a concept is a known modifier, even in a bundle without hierarchy and types."""
    return concept_id in _table()["other"]["alone"]


class _Word(NamedTuple):
    place: Place
    kind: AttributeKind
    family: str | None = None
    concept_id: str | None = None


class AttributeReader:
    """Reads attributes of findings in notes of one language (BCP 47) with the terminology of a bundle.

    The concept of an attribute must reach the threshold of the linker.
    """

    def __init__(self, bundle: Bundle, language: str, linker: Linker) -> None:
        self._kb, self._index, self._language, self._linker = bundle.kb, bundle.index, language, linker
        self.kinds: dict[str, AttributeKind] = {name: kind for kind in _KINDS for name in _table()[kind]["families"]}
        names = enumerate(bundle.index.forms.names)
        self._families = {number: name for number, name in names if name in self.kinds}
        rules = language_data(language).read("attributes", _Rules)
        self.behind, self.parts, self._more = any_of(map(re.compile, rules.behind)), rules.parts, rules.words
        self.scopes = scopes(language)
        self.concept, self.concept_of_family = cache(self._concept), cache(self._concept_of_family)

    def read(
        self, text: ScannedText, mentions: Sequence[SelectedSpan], attributes: Iterable[ScoredSpan]
    ) -> list[list[Attribute]]:
        """Read the attributes of each mention of a text; mentions are in order and do not overlap.

        ``attributes`` are the spans whose best concept is a modifier.
        """
        if not mentions:
            return []
        # a single word need not be a name: "left" of "left lower"
        spans = [
            (span.candidate.place, span.best)
            for span in attributes
            if (span.is_name or (span.best.ranked.route == WORDS and len(range(*span.candidate.place)) == 1))
            and self._is_modifier(span.best)
        ]
        return _Note(self, text, [mention.place for mention in mentions], spans).attach()

    def _concept(self, concept_id: str) -> tuple[AttributeKind | None, str | None]:
        above = {concept_id, *(ancestor for ancestor, _ in self._kb.ancestors(concept_id))}
        types = [row.semantic_type for row in self._kb.semantic_types(concept_id)]
        kind: AttributeKind | None = next((k for k in _KINDS if not above.isdisjoint(_table()[k]["concepts"])), None)
        if kind is None and (include_attribute_types(types) or not above.isdisjoint(_table()["other"]["concepts"])):
            kind = "other"
        return kind, self._kb.preferred_name(concept_id, self._language)

    def families(self, text: ScannedText) -> dict[int, str]:
        """Return the words of a text that belong to a family of the table, by position, without parts of compounds."""
        known = text.table.column("attribute", self._family, object)[text.numbers]
        return {at: family for at, family in enumerate(known.tolist()) if family is not None}

    def _family(self, entry: WordEntry) -> str | None:
        read = (self._families[meaning] for meaning in entry.word.meanings if meaning in self._families)
        more = (family for family, pattern in self._more.items() if pattern.fullmatch(entry.written.casefold()))
        return next(read, None) or next(more, None)

    def _concept_of_family(self, family: str) -> str | None:
        """The concept with the name of a family, such as that of *links* in a terminology without German names.

        Names of families are English, with the sense in brackets.
        """
        best = self._linker.best([Mention(family.partition(" (")[0], "en")])[0]
        if (
            best is None
            or not self._is_modifier(best)
            or self.concept(best.concept_id)[0] not in (self.kinds[family], None)
        ):
            return None
        return best.concept_id if self._index.attributes(np.array([best.ranked.name])).all() else None

    def _is_modifier(self, best: BestConcept) -> bool:
        classes = (concept for entry in _table().values() for concept in entry["concepts"])
        return best.score >= self._linker.options.threshold and best.concept_id not in classes


def _is_stage(text: str) -> bool:
    """Whether a word is the number of a stage or degree.

    >>> [_is_stage(word) for word in ("IIb", "3", "2+", "B", "IIII", "2024")]
    [True, True, True, False, False, False]
    """
    match = _STAGE.fullmatch(text.casefold())
    return match is not None and (match[1] in ROMAN or match[1].isdecimal())


class _Note:
    def __init__(
        self,
        rules: AttributeReader,
        text: ScannedText,
        mentions: Sequence[Place],
        spans: Sequence[tuple[Place, BestConcept]],
    ) -> None:
        self._rules, self._text, self._words, self._mentions = rules, text, text.words, mentions
        self._owner = {at: number for number, place in enumerate(mentions) for at in range(*place)}
        self._attributes = self._find(spans, rules.families(text))
        self._taken = {at for word in self._attributes for at in range(*word.place)}
        self._sides = {at for word in self._attributes if word.kind == "laterality" for at in range(*word.place)}

    def attach(self) -> list[list[Attribute]]:
        attached: list[list[Attribute]] = [[] for _ in self._mentions]
        sided = set[int]()  # mentions with a laterality
        for word in self._attributes:
            numbers = list(self._owners(word, sided))
            for number in numbers:
                concept = word.concept_id or (word.family and self._rules.concept_of_family(word.family))
                name, written = concept and self._rules.concept(concept)[1], self._text.written(word.place)
                attached[number].append(Attribute(*self._text.span(word.place), written, word.kind, concept, name))
            if word.kind == "laterality":
                sided.update(numbers)
        return attached

    def _low(self, at: int) -> str:
        return self._words[at].entry.written.casefold()

    def _find(self, spans: Sequence[tuple[Place, BestConcept]], families: Mapping[int, str]) -> list[_Word]:
        taken, words = set[int](), list[_Word]()
        for place, best in sorted(spans, key=lambda pair: (pair[0][0] - pair[0][1], pair[0], -pair[1].score)):
            family = next((families[at] for at in range(*place) if at in families), None)
            kind, own = self._rules.concept(best.concept_id)[0], None if family is None else self._rules.kinds[family]
            if kind is not None and own not in (kind, None):
                continue  # *homolateral* is not lateral
            kind = kind or own
            if kind is None and all(word.function or word.kinds == _QUALITY for word in self._words[slice(*place)]):
                kind = "other"
            if place[0] < place[1] and kind is not None and taken.isdisjoint(range(*place)):
                words.append(_Word(place, kind, family, best.concept_id))
                taken.update(range(*place))
        rest = ((at, family) for at, family in families.items() if at not in taken)
        words += [_Word((at, at + 1), self._rules.kinds[family], family) for at, family in rest]
        return sorted(map(self._whole, words), key=lambda word: word.place)

    def _whole(self, word: _Word) -> _Word:
        """An attribute with an otherwise unknown word that a hyphen joins to it (*left-sided*)."""
        stop = word.place[1]
        if stop == len(self._words) or stop in self._owner or self._gap(stop - 1, stop) != "-":
            return word
        goes_on = self._words[stop].kinds <= {"general", "quality"}
        return word._replace(place=(word.place[0], stop + 1)) if goes_on else word

    def _owners(self, word: _Word, sided: set[int]) -> Iterator[int]:
        first, last = self._owner.get(word.place[0]), self._owner.get(word.place[1] - 1)
        if first is not None or last is not None:
            rest = {*range(*self._mentions[first])}.difference(range(*word.place)) if first is not None else set[int]()
            # a mention has other content than an attribute
            if first is not None and first == last and not all(self._words[at].function for at in rest):
                yield first
            return
        behind = self._rules.behind.fullmatch(self._text.written(word.place).casefold()) is not None
        before, after = self._distance(word, -1, other_side=not behind), self._distance(word, 1, other_side=behind)
        distance = min(filter(None, (before, after)), default=None)
        if distance is None or (word.kind == "other" and distance >= _ADJACENT):
            return  # other words belong to an adjacent finding only
        yield distance[-1]
        if distance is before and word.kind == "laterality" and distance < _ADJACENT:
            yield from self._listed_before(distance[-1], sided)

    def _distance(self, word: _Word, step: int, *, other_side: bool) -> _Distance | None:
        last = word.place[0] if step < 0 else word.place[1] - 1
        at, crossed, joined, content, grammar = last + step, False, 0.0, 0.0, 0.0
        while 0 <= at < len(self._words):
            if self._words[at].clause != self._words[last].clause and not self._compares(at, last):
                if last not in self._taken or not self._crosses(word, last, at, other_side=other_side):
                    return None
                crossed = True
            if at in self._owner:
                return crossed, joined, content, grammar + 0.5 * other_side, self._owner[at]
            cost = self._cost(at, last, step, other_side=other_side)
            joined, content, grammar = joined + cost[0], content + cost[1], grammar + cost[2]
            if joined > _MAX_BETWEEN[0] or content > _MAX_BETWEEN[1] or grammar > _MAX_BETWEEN[2]:
                return None
            last, at = at, at + step
        return None

    def _cost(self, at: int, last: int, step: int, *, other_side: bool) -> tuple[float, float, float]:
        """Cost of a word in between, as joining, content or function word; infinite if it separates."""
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
        passes = word.kinds & _TRANSPARENT and word.kinds <= _TRANSPARENT | _CHANGE
        return 0, 1 if passes else inf, 0

    def _crosses(self, word: _Word, last: int, at: int, *, other_side: bool) -> bool:
        """Whether an attribute may cross the mark between it and the neighbouring clause."""
        mark = self._gap(min(last, at), max(last, at)).strip()
        if mark not in _CROSSED:
            return False
        if at > last:  # "severe, stabbing pain", "bds. Ödeme", but not "HTEP bds. Ödeme"
            first = word.place[0] - 1
            opens = first < 0 or self._words[first].clause != self._words[first + 1].clause
            opens = opens or first in self._taken or self._words[first].function
            return (mark == "," and not other_side) or (mark == "." and opens and self._is_cut(last))
        # "pain, severe", "effusion (left)": the clause has nothing else
        stop = word.place[1]
        if stop < len(self._words) and self._words[stop].clause == self._words[stop - 1].clause:
            return False
        return mark != "." and not (stop < len(self._words) and self._is_cut(stop - 1))

    def _compares(self, at: int, last: int) -> bool:
        mark = self._gap(min(at, last), max(at, last)).strip() if {at, last} <= self._sides else ""
        return _COMPARISON.fullmatch(mark) is not None

    def _is_cut(self, at: int) -> bool:
        """Whether the dot after a word marks an abbreviation, which precedes its finding."""
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
