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
from importlib import resources
from math import inf
from typing import Any, NamedTuple

import numpy as np

from medlink.files.json import parse_json
from medlink.index import Bundle
from medlink.language.cues.tables import scopes
from medlink.language.languages import Rules, any_of, language_data
from medlink.language.scan import Place, ScannedText, WordEntry
from medlink.language.text import ROMAN
from medlink.linking import Linker, Mention
from medlink.linking.candidates import WORDS
from medlink.linking.linker import Best
from medlink.reading.classifier import SelectedSpan
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
    table: dict[str, Any] = parse_json(
        resources.files("medlink").joinpath("resources/notes/attributes.json").read_text("utf-8")
    )
    return table


def asks_for_attributes(semantic_types: Iterable[str]) -> bool:
    """Whether concepts of one of these types say attributes, so that those who ask for it want them as mentions.

    >>> asks_for_attributes(["Finding"]), asks_for_attributes(["qualifier value"])
    (False, True)
    """
    return not set(_table()["other"]["semantic_types"]).isdisjoint(semantic_types)


def says_an_attribute(concept_id: str) -> bool:
    """Whether a concept is known to say no finding by itself, also in a bundle without hierarchy and types.

    >>> says_an_attribute("HP:0025297"), says_an_attribute("HP:0001945")  # Prolonged, Fever
    (True, False)
    """
    alone: dict[str, str] = _table()["other"]["alone"]
    return concept_id in alone


class _Word(NamedTuple):
    """A word, or some, that may be an attribute."""

    place: Place
    kind: AttributeKind
    family: str | None = None
    concept_id: str | None = None


class _Way(NamedTuple):
    """How an attribute leads to the nearest mention on one side; the least way counts."""

    crossed: bool
    joined: float
    content: float
    grammar: float
    mention: int


_RIGHT_BESIDE = (False, 0, 0, 1)  # above the ways with nothing between


class _Concept(NamedTuple):
    """What an attribute's concept says, and its name."""

    kind: AttributeKind | None
    name: str | None


class AttributeReader:
    """Reads the attributes of the findings in notes of one language with the terminology of a bundle.

    Args:
        bundle: whose concepts attributes have, and whose lexicon knows their words.
        language: of the notes, BCP 47.
        linker: what links stretches; the concept of an attribute needs its threshold.
    """

    def __init__(self, bundle: Bundle, language: str, linker: Linker) -> None:
        self._kb, self._index, self._language, self._linker = bundle.kb, bundle.index, language, linker
        self._kinds: dict[str, AttributeKind] = {name: kind for kind in _KINDS for name in _table()[kind]["families"]}
        names = enumerate(bundle.index.forms.names)
        self._families = {number: name for number, name in names if name in self._kinds}
        self._meant: dict[str, str | None] = {}
        self._concepts: dict[str, _Concept] = {}
        rules = language_data(language).read("attributes", _Rules)
        self._behind, self._parts, self._more = any_of(map(re.compile, rules.behind)), rules.parts, rules.words
        self._scopes = scopes(language)

    def read(
        self, text: ScannedText, mentions: Sequence[SelectedSpan], attributes: Iterable[ScoredSpan]
    ) -> list[list[Attribute]]:
        """The attributes of each mention of a text.

        Args:
            text: a scanned text.
            mentions: its mentions, in order and without overlap.
            attributes: spans whose likeliest concept is no thing.
        """
        if not mentions:
            return []
        sure = ((one.candidate.place, one) for one in attributes if self.says_one(one.best))
        # of what is no name as it stands one word is enough: "left" of "left lower"
        spans = [
            (place, one.best)
            for place, one in sure
            if one.is_name or (one.best.ranked.route == WORDS and place[1] - place[0] == 1)
        ]
        return _Note(self, text, [one.place for one in mentions], spans).attached()

    def concept(self, concept_id: str) -> _Concept:
        """What is known of a concept; ``kind`` is ``None`` where hierarchy and types of the terminology do not tell."""
        if concept_id not in self._concepts:
            table = _table()
            above = {concept_id, *(one for one, _ in self._kb.ancestors(concept_id))}
            types = [one.semantic_type for one in self._kb.semantic_types(concept_id)]
            kind: AttributeKind | None = next((k for k in _KINDS if not above.isdisjoint(table[k]["concepts"])), None)
            if kind is None and (asks_for_attributes(types) or not above.isdisjoint(table["other"]["concepts"])):
                kind = "other"
            self._concepts[concept_id] = _Concept(kind, self._kb.preferred_name(concept_id, self._language))
        return self._concepts[concept_id]

    def families(self, text: ScannedText) -> dict[int, str]:
        """The words of a text that have a family of the table as a whole, not as a part of a compound, with that."""
        known = text.table.column("attribute", lambda entry: self._family(entry) is not None, bool)
        found = ((at, self._family(text.words[at].entry)) for at in text.where(known))
        return {at: family for at, family in found if family is not None}

    def _family(self, entry: WordEntry) -> str | None:
        memo = entry.memo
        if "family" not in memo:
            meanings = entry.word.meanings
            found = next((self._families[meaning] for meaning in meanings if meaning in self._families), None)
            low = entry.written.casefold()
            more = (family for family, pattern in self._more.items() if pattern.fullmatch(low))
            memo["family"] = next(more, None) if found is None else found
        family: str | None = memo["family"]
        return family

    def kind(self, family: str) -> AttributeKind:
        """What the words of a family of the table say."""
        return self._kinds[family]

    def meant(self, family: str) -> str | None:
        """The concept that is named as a family is: that of *links* in a terminology without German names.

        Names of families are English, with the sense in brackets.
        """
        if family not in self._meant:
            best = self._linker.best([Mention(family.partition(" (")[0], "en")])[0]
            found = None
            if best is not None and self.says_one(best) and self._index.attributes(np.array([best.ranked.name])).all():
                found = best.concept_id if self.concept(best.concept_id).kind in (self.kind(family), None) else None
            self._meant[family] = found
        return self._meant[family]

    def says_one(self, best: Best) -> bool:
        """Whether a concept is taken for a stretch, and is more than a class of such concepts (*severity*)."""
        classes = (one for entry in _table().values() for one in entry["concepts"])
        return best.score >= self._linker.options.threshold and best.concept_id not in classes

    def stands_behind(self, text: str) -> bool:
        """Whether a word stands behind its finding where it may be on either side."""
        return self._behind.fullmatch(text.casefold()) is not None

    def joins(self, text: str) -> bool:
        """Whether a word joins members of a list."""
        return text.casefold() in self._scopes.joins

    def is_abbreviated(self, text: str) -> bool:
        """Whether a dot behind a word is its own."""
        return text.casefold() in self._scopes.abbreviated

    def parts(self, text: str) -> bool:
        """Whether something else is spoken of behind a word."""
        return text.casefold() in self._parts


def _is_stage(text: str) -> bool:
    """Whether a word is the number of a stage or degree.

    >>> [_is_stage(word) for word in ("IIb", "3", "2+", "B", "IIII", "2024")]
    [True, True, True, False, False, False]
    """
    found = _STAGE.fullmatch(text.casefold())
    return found is not None and (found[1] in ROMAN or found[1].isdecimal())


class _Note:
    """A note with its mentions and attributes."""

    def __init__(
        self, rules: AttributeReader, text: ScannedText, mentions: Sequence[Place], spans: Sequence[tuple[Place, Best]]
    ) -> None:
        self._rules, self._text, self._words, self._mentions = rules, text.text, text.words, mentions
        self._owner = {at: number for number, place in enumerate(mentions) for at in range(*place)}
        self._attributes = self._found(spans, rules.families(text))
        self._taken = {at for one in self._attributes for at in range(*one.place)}
        self._sides = {at for one in self._attributes if one.kind == "laterality" for at in range(*one.place)}

    def attached(self) -> list[list[Attribute]]:
        """The attributes of each mention, in the order of the mentions."""
        found: list[list[Attribute]] = [[] for _ in self._mentions]
        sided = set[int]()  # mentions whose side is said
        for one in self._attributes:
            numbers = list(self._of(one, sided))
            for number in numbers:
                start, end = self._characters(one.place)
                meant = one.concept_id or (one.family and self._rules.meant(one.family))
                name = meant and self._rules.concept(meant).name
                found[number].append(Attribute(start, end, self._text[start:end], one.kind, meant, name))
            if one.kind == "laterality":
                sided.update(numbers)
        return found

    def _said(self, first: int, stop: int) -> str:
        return self._text[self._words[first].start : self._words[stop - 1].end]

    def _characters(self, place: Place) -> tuple[int, int]:
        return self._words[place[0]].start, self._words[place[1] - 1].end

    def _found(self, spans: Sequence[tuple[Place, Best]], families: Mapping[int, str]) -> list[_Word]:
        """Attributes in order and without overlap: those with a concept first, of these the longest."""
        taken, found = set[int](), list[_Word]()
        for place, best in sorted(spans, key=lambda one: (one[0][0] - one[0][1], one[0], -one[1].score)):
            words = [self._words[at] for at in range(*place)]
            family = next((families[at] for at in range(*place) if at in families), None)
            kind, own = self._rules.concept(best.concept_id).kind, None if family is None else self._rules.kind(family)
            if kind is not None and own not in (kind, None):
                continue  # *homolateral* is not lateral
            kind = kind or own
            if kind is None and all(word.function or word.kinds == _QUALITY for word in words):
                kind = "other"
            if words and kind is not None and taken.isdisjoint(range(*place)):
                found.append(_Word(place, kind, family, best.concept_id))
                taken.update(range(*place))
        left = ((at, family) for at, family in families.items() if at not in taken)
        found += [_Word((at, at + 1), self._rules.kind(family), family) for at, family in left]
        return sorted(map(self._whole, found), key=lambda one: one.place)

    def _whole(self, one: _Word) -> _Word:
        """An attribute with what a hyphen joins to it and nothing is known of (*left-sided*)."""
        stop = one.place[1]
        if stop == len(self._words) or stop in self._owner or self._gap(stop - 1, stop) != "-":
            return one
        goes_on = self._words[stop].kinds <= {"general", "quality"}
        return one._replace(place=(one.place[0], stop + 1)) if goes_on else one

    def _of(self, one: _Word, sided: set[int]) -> Iterator[int]:
        """The mentions that an attribute is of."""
        owners = [self._owner.get(at) for at in range(*one.place)]
        if owners[0] is not None or owners[-1] is not None:
            if owners[0] is not None and owners[0] == owners[-1] and not self._is_all(one, owners[0]):
                yield owners[0]
            return
        behind = self._rules.stands_behind(self._said(*one.place))
        before, after = self._way(one, -1, other_side=not behind), self._way(one, 1, other_side=behind)
        way = min(filter(None, (before, after)), default=None)
        if way is None or (one.kind == "other" and way >= _RIGHT_BESIDE):
            return  # other words are of what they stand right beside
        yield way.mention
        if way is before and one.kind == "laterality" and way < _RIGHT_BESIDE:
            yield from self._listed_before(way.mention, sided)

    def _is_all(self, one: _Word, number: int) -> bool:
        """Whether a mention says nothing but an attribute."""
        rest = {*range(*self._mentions[number])}.difference(range(*one.place))
        return all(self._words[at].function for at in rest)

    def _way(self, one: _Word, step: int, *, other_side: bool) -> _Way | None:
        """To the nearest mention on one side, half a word farther where such words do not stand there."""
        edge = one.place[0] if step < 0 else one.place[1] - 1
        at, last, crossed = edge + step, edge, False
        passed: tuple[float, ...] = (0, 0, 0)
        while 0 <= at < len(self._words):
            if self._words[at].clause != self._words[last].clause and not self._compares(at, last):
                if last not in self._taken or not self._crosses(one, last, at, other_side=other_side):
                    return None
                crossed = True
            if at in self._owner:
                joined, content, grammar = passed
                return _Way(crossed, joined, content, grammar + 0.5 * other_side, self._owner[at])
            cost = self._cost(at, last, step, other_side=other_side)
            passed = tuple(map(sum, zip(passed, cost, strict=True)))
            if any(number > most for number, most in zip(passed, _MOST, strict=True)):
                return None
            last, at = at, at + step
        return None

    def _cost(self, at: int, last: int, step: int, *, other_side: bool) -> tuple[float, float, float]:
        """Of a word between: one that joins, of content, of the grammar; without end for one that parts."""
        word, text = self._words[at], self._said(at, at + 1)
        if self._rules.joins(text):
            # "left and right", not "fever and left ..."
            return (1 if last in self._taken and at + step in self._taken else inf), 0, 0
        if self._rules.parts(text) or (word.function and other_side and step > 0):
            return 0, 0, inf
        if word.function:
            return 0, 0, 1
        if at in self._taken or word.kinds == _QUALITY or _is_stage(text):
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
            return (mark == "," and not other_side) or (mark == "." and opens and self._is_cut(last, at))
        # "pain, severe", "effusion (left)": nothing else is said there
        stop = one.place[1]
        if stop < len(self._words) and self._words[stop].clause == self._words[stop - 1].clause:
            return False
        return mark != "." and not (stop < len(self._words) and self._is_cut(stop - 1, stop))

    def _compares(self, at: int, last: int) -> bool:
        """Whether two words are sides of which a mark between says on which there is more."""
        first, second = sorted((at, last))
        return {at, last} <= self._sides and _COMPARED.fullmatch(self._gap(first, second).strip()) is not None

    def _is_cut(self, at: int, behind: int) -> bool:
        """Whether a dot behind a word is that of an abbreviation, which stands before what it is said of."""
        dot = self._gap(at, behind).startswith(".") and "\n" not in self._gap(at, behind)
        return dot and self._rules.is_abbreviated(self._said(at, at + 1))

    def _listed_before(self, number: int, sided: set[int]) -> Iterator[int]:
        """The mentions of a list that ends with one: a side behind "Rötung und Schwellung" is of both."""
        joined = False
        while number and number - 1 not in sided:
            first, stop = self._mentions[number - 1][1], self._mentions[number][0]
            between = [self._said(at, at + 1) for at in range(first, stop)]
            if self._taken.intersection(range(first, stop)) or self._gap(stop - 1, stop).strip() not in ("", ","):
                return
            commas = self._text[self._words[first - 1].end : self._words[stop].start].strip() == ","
            joined = joined or any(map(self._rules.joins, between))
            if not joined or not (commas or (between and all(map(self._rules.joins, between)))):
                return
            number -= 1
            yield number

    def _gap(self, first: int, second: int) -> str:
        return self._text[self._words[first].end : self._words[second].start]
