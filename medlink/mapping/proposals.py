"""``Mapper``: local codes to proposals, by what their descriptions mean and what the codes themselves say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from medlink.index import Bundle
from medlink.language.text import normalise
from medlink.linking import Linker, Mention
from medlink.mapping.codes import (
    AUTO_MAPPED,
    AUTO_MAPPED_TO_1,
    MAPS_TO_UNIT,
    MAPS_TO_VALUE,
    UNCHECKED,
    CodeMapping,
    SourceCode,
    Target,
)
from medlink.mapping.descriptions import Description, read_description, stated_value, unit_code
from medlink.mapping.options import MapOptions
from medlink.mapping.targets import CodeEvidence, Evidence, Targets, allowed
from medlink.records import AMBIGUOUS, CODE, LINKED, NIL, Candidate, Link, Status

BY_CODE = "code"
"""Route of a candidate that the code itself brought."""
_NAMED = ("exact", "inflected")
_UNCALLED = 0.01  # weight of a concept of the code that the description does not bring
_VALUE_TYPES = frozenset({"meas value", "qualifier value"})
_UNIT_TYPES = frozenset({"unit", "unit of measure"})
_MILLISECONDS = 86_400_000
_Key = tuple[str, str]  # a text, and its language
_EPOCH = 719_163  # ordinal of 1970-01-01


@dataclass(frozen=True, slots=True)
class _Judged:
    """Candidates with their scores, what is decided about them, and what speaks for the first."""

    candidates: tuple[Candidate, ...]
    link: Status
    evidence: str
    status: str = UNCHECKED


@dataclass(frozen=True, slots=True)
class _Asked:
    """A code with its description taken apart; ``base`` and ``value`` where a result ends it."""

    source: SourceCode
    read: Description
    base: str = ""
    value: Target | None = None


class Mapper:
    """Propose concepts for local codes: same bundle, same codes, same proposals.

    Args:
        bundle: an opened bundle, or its folder.
        options: fields of :class:`~medlink.mapping.options.MapOptions`.

    Raises:
        ConfigError: an option is unknown or out of range, or names what the bundle does not have.
        BundleError: the bundle cannot be opened.

    Examples:
        >>> from medlink.linking.demo import demo_bundle
        >>> found = Mapper(demo_bundle()).propose([SourceCode("17", "Herzinfarkt (Notaufnahme)", language="de")])
        >>> [target.concept_id for target in found[0].targets]
        ['DEMO:0016']
    """

    def __init__(self, bundle: Bundle | str | Path, **options: Any) -> None:
        self.options = MapOptions(**options)
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle(bundle)
        self.among = allowed(self.bundle.kb, self.options)
        self.linker = Linker(self.bundle, among=self.among, **self.options.linking)
        day = self.options.day
        self.targets = Targets(self.bundle.kb, 0 if day is None else (day.toordinal() - _EPOCH) * _MILLISECONDS)
        self._codes = CodeEvidence(self.bundle.kb, self._sayable(), self.options.code_system)
        self._unit, self._value = cache(self._unit_target), cache(self._value_target)
        self._awaited: Counter[_Key] = Counter()
        self._held: dict[_Key, Link] = {}

    def _sayable(self) -> frozenset[str] | None:
        """Concepts that a code may bring, ``None`` for all: the filters of names hold for them as well."""
        kb, found = self.bundle.kb, self.among
        if self.options.semantic_types:
            typed = frozenset(one.concept_id for one in kb.iter_concepts(semantic_types=self.options.semantic_types))
            found = typed if found is None else found & typed
        if self.options.sources:
            named = frozenset(one.concept_id for one in kb.iter_names(sources=self.options.sources))
            found = named if found is None else found & named
        return found

    def expect(self, codes: Iterable[SourceCode]) -> int:
        """Tell which codes will come, so that what a description is linked to is kept until its last code came.

        Returns:
            How many distinct descriptions there are.
        """
        self._awaited.update(key for code in codes for key in self._keys(self._asked(code)))
        return len(self._awaited)

    def propose(self, codes: Sequence[SourceCode]) -> list[CodeMapping]:
        """Proposals for n codes.

        A description is linked without the codes of other systems and the unit in it. Concepts that are meant by the
        code, or by one in the description, share a score of 1. If the best candidate of the description is another
        concept, it keeps its score, and they share what is left. If that candidate reaches the threshold, code and
        description disagree, and nothing is proposed.

        Returns:
            n proposals; units and values that the bundle has concepts for are further targets.
        """
        asked = [self._asked(code) for code in codes]
        links = self._links(asked)
        judged = [self._judge(one, links) for one in asked]
        firsts = [one[0].candidates[0] for one in judged if one[0].link == LINKED]
        made = {one.concept_id: one for one in self.targets.made(dict.fromkeys(c.concept_id for c in firsts))}
        found = []
        for one, (what, value, assigned) in zip(asked, judged, strict=True):
            targets: list[Target] = []
            if what.link == LINKED:
                targets.append(made[what.candidates[0].concept_id])
                unit = self._unit(one.source.unit or one.read.unit)
                targets += [extra for extra in (value, unit) if extra is not None]
            source = replace(
                one.source, unit=one.source.unit or one.read.unit, assigned=assigned or one.source.assigned
            )
            score = what.candidates[0].score if what.candidates else 0.0
            found.append(
                CodeMapping(
                    source, tuple(targets), score, what.status, link=what.link, candidates=what.candidates,
                    evidence=what.evidence,
                )
            )  # fmt: skip
        return found

    def _asked(self, code: SourceCode) -> _Asked:
        read = read_description(code.name)
        stated = stated_value(read.text, code.language or self.options.language or "")
        value = stated and self._value(stated[1])
        return _Asked(code, read, stated[0], value) if stated and value else _Asked(code, read)

    def _keys(self, asked: _Asked) -> tuple[_Key, ...]:
        language = asked.source.language
        return tuple((text, language) for text in (asked.read.text, asked.base) if text)

    def _links(self, asked: Sequence[_Asked]) -> dict[_Key, Link]:
        keys = [key for one in asked for key in self._keys(one)]
        new = [key for key in dict.fromkeys(keys) if key not in self._held]
        linked = self.linker.link([Mention(text, language or None) for text, language in new])
        found = dict(zip(new, linked, strict=True))
        found.update((key, self._held[key]) for key in dict.fromkeys(keys) if key in self._held)
        self._awaited.subtract(keys)
        for key in dict.fromkeys(keys):
            if self._awaited[key] > 0:
                self._held[key] = found[key]
            else:
                self._held.pop(key, None)
                del self._awaited[key]
        return found

    def _judge(self, asked: _Asked, links: dict[_Key, Link]) -> tuple[_Judged, Target | None, tuple[str, ...]]:
        language = asked.source.language
        link, value = links.get((asked.read.text, language), Link("")), None
        if asked.base:
            base = links[asked.base, language]
            whole = link.candidates[0] if link.candidates else None
            if not base.nil and (whole is None or _weaker(whole, base.candidates[0])):
                link, value = base, asked.value
        said = self._codes.of(asked.source.code, asked.read.codes)
        if said.exact:
            shown = language or self.options.language
            judged = self._with_code(link, said, shown)
        else:
            judged = _by_name(link, said)
        if value is not None and judged.link == LINKED:
            judged = replace(judged, evidence=f"{judged.evidence}; value {value.name} apart")
        return judged, value, tuple(self.targets.written(one) for one in said.exact)

    def _with_code(self, link: Link, said: Evidence, language: str | None) -> _Judged:
        brought = {one.concept_id: one for one in link.candidates}
        first = link.candidates[0] if link.candidates else None
        rival = 0.0 if first is None or first.concept_id in said.exact else first.score
        weights = {one: (brought[one].score if one in brought else 0.0) + _UNCALLED for one in said.exact}
        shares = {one: round((1 - rival) * weight / sum(weights.values()), 6) for one, weight in weights.items()}
        by_code = [
            replace(brought[one], score=share, route=BY_CODE)
            if one in brought
            else self.targets.candidate(one, language, share, BY_CODE)
            for one, share in shares.items()
        ]
        left = [replace(c, score=min(c.score, rival)) for c in link.candidates if c.concept_id not in shares]
        ranked = sorted([*by_code, *left], key=lambda one: (-one.score, one.concept_id))[: self.options.k]
        best = ranked[0]
        alone = len(ranked) < 2 or ranked[1].score < best.score
        agree = rival < self.options.threshold
        linked = agree and alone and best.route == BY_CODE and best.score >= self.options.threshold
        words = said.said(said.exact[0])
        if not agree:
            words += ", but the description more likely means another concept"
        elif first is not None and first.concept_id in said.exact:
            words += f"; {_words(first)}"
        status = UNCHECKED if not agree else AUTO_MAPPED_TO_1 if len(said.exact) == 1 else AUTO_MAPPED
        return _Judged(tuple(ranked), LINKED if linked else AMBIGUOUS, words, status)

    def _unit_target(self, unit: str) -> Target | None:
        code = unit_code(unit)
        if code is None:
            return None
        kb = self.bundle.kb
        mapped = kb.mapped("UCUM", code)
        own = [one for one, kinds in kb.mappings_of(mapped).items() if any(m.type == CODE for m in kinds)]
        found = sorted(own) or self._called(dict.fromkeys((unit, code)), _UNIT_TYPES)
        return self.targets.made(found[:1], MAPS_TO_UNIT)[0] if found else None

    def _value_target(self, value: str) -> Target | None:
        found = self._called([value], _VALUE_TYPES)
        return self.targets.made(found[:1], MAPS_TO_VALUE)[0] if found else None

    def _called(self, names: Iterable[str], types: frozenset[str]) -> list[str]:
        found = [(not one.preferred, one.concept_id) for name in names for one in self.bundle.kb.lookup(name, "en")]
        kinds = self.bundle.kb.semantic_types
        return [
            concept_id
            for _, concept_id in sorted(dict.fromkeys(found))
            if types & {one.semantic_type.casefold() for one in kinds(concept_id)}
        ]


def _by_name(link: Link, said: Evidence) -> _Judged:
    candidates, status = link.candidates, link.status
    if not candidates:
        return _Judged((), status, "")
    if status != NIL:
        form = normalise(candidates[0].name)
        sharing = [one for one in candidates if normalise(one.name) == form]
        meant = [one for one in sharing if one.concept_id in said.related]
        if len(sharing) > 1 and len(meant) == 1:
            chosen = replace(meant[0], score=round(min(1.0, sum(one.score for one in sharing)), 6))
            others = [replace(one, score=0.0) if one in sharing else one for one in candidates if one != meant[0]]
            others = [replace(one, score=min(one.score, chosen.score)) for one in others]
            ranked = [chosen, *sorted(others, key=lambda one: (-one.score, one.concept_id))]
            candidates, status = tuple(ranked), LINKED
    words = _words(candidates[0])
    if by_code := said.said(candidates[0].concept_id):
        words += f"; {by_code} is related to it"
    return _Judged(candidates, status, words)


def _words(candidate: Candidate) -> str:
    return f"{candidate.route}: {candidate.name}"


def _weaker(whole: Candidate, base: Candidate) -> bool:
    return whole.route not in _NAMED and whole.score <= base.score
