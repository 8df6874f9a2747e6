"""``Mapper`` proposes concepts for local codes, by their descriptions and by the codes themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from medlink.index import Bundle
from medlink.language.text import is_short, normalise
from medlink.linking import Mention
from medlink.linking.drugs import codes_of_route, is_class, is_same_drug, is_substance
from medlink.linking.profiles import kinds_of
from medlink.mapping import codes as usagi
from medlink.mapping.broader import BROADER, class_above, nearest_parent
from medlink.mapping.codes import CodeMapping, SourceCode, Target
from medlink.mapping.descriptions import parse_description, ucum_code
from medlink.mapping.laboratory import is_full_name, names_specimen
from medlink.mapping.laboratory_links import link_of_test, lower_other_specimens
from medlink.mapping.linkers import CERTAIN, NAMED, SAMPLE, DescriptionLinker, lower, name_form
from medlink.mapping.options import MapOptions
from medlink.mapping.organisms import is_only_genus
from medlink.mapping.parsed_codes import CodeParser, Key, ParsedCode
from medlink.mapping.procedure_words import lacks_approach
from medlink.mapping.qualifiers import describe_finding
from medlink.mapping.ranking import main_name, main_part
from medlink.mapping.targets import CodeEvidence, Evidence, Targets, allowed_targets
from medlink.mapping.word_meanings import has_kind
from medlink.processes import MIN_FORKED, map_in_two
from medlink.records import AMBIGUOUS, CODE, LINKED, NIL, Candidate, Link, Status

BY_CODE = "code"
"""Route of a candidate that the code itself gives."""
_WEIGHT_BY_CODE_ALONE = 0.01  # of a concept to which only the code leads
_VALUE_TYPES = frozenset({"meas value", "qualifier value"})
_UNIT_TYPES = frozenset({"unit", "unit of measure"})
_ORGANISM = "organism"  # kind of concepts and words
_SHARING = 24  # candidates of a description that are compared
_PARSED = 1_000  # descriptions parsed at a time
_MILLISECONDS = 86_400_000
_EPOCH = 719_163  # ordinal of 1970-01-01
_Written = tuple[str, str, str]  # what a description is read from: its text, its unit, and its language
_Likeliest = tuple[Link, Target | None, bool]  # a link, its value if that is apart, and whether the link is broader


@dataclass(frozen=True, slots=True)
class _Decision:
    """Candidates with scores, the decision, and the evidence for the first."""

    candidates: tuple[Candidate, ...]
    link: Status
    evidence: str
    status: str = usagi.UNCHECKED
    equivalence: str = usagi.UNREVIEWED


class Mapper:
    """Proposes concepts of an opened bundle, or of its folder, for local codes, deterministically.

    ``options`` are fields of :class:`~medlink.mapping.options.MapOptions`.

    Raises:
        ConfigError: an option is unknown or out of range, or names a concept that the bundle lacks.
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
        self.among = allowed_targets(self.bundle.kb, self.options)
        self.linker = DescriptionLinker(self.bundle, self.options, self.among)
        day = self.options.day
        self.targets = Targets(self.bundle.kb, 0 if day is None else (day.toordinal() - _EPOCH) * _MILLISECONDS)
        kb, self._allowed = self.bundle.kb, self.among  # filters of names hold for concepts that a code means, too
        if kinds := self.options.semantic_types:
            typed = frozenset(concept.concept_id for concept in kb.iter_concepts(semantic_types=kinds))
            self._allowed = typed if self._allowed is None else self._allowed & typed
        if sources := self.options.sources:
            named = frozenset(name.concept_id for name in kb.iter_names(sources=sources))
            self._allowed = named if self._allowed is None else self._allowed & named
        self.code_evidence = CodeEvidence(self.bundle.kb, self._allowed, self.options.code_system)
        self._unit, value = cache(self._unit_target), cache(self._value_target)
        has_atc = any(source.name == "ATC" for source in self.bundle.kb.sources())
        self._parser = CodeParser(self.bundle.index, self.options.language, value, has_atc=has_atc)
        self._remaining: Counter[Key] = Counter()
        self._parsed: dict[SourceCode, ParsedCode] = {}
        self._linked: dict[Key, Link] = {}

    def expect(self, codes: Iterable[SourceCode]) -> int:
        """Announce the codes to come, and estimate what they are about; returns the number of distinct descriptions."""
        codes, descriptions = list(codes), set[Key]()
        distinct = list({(code.name, code.unit, code.language): code for code in codes}.values())
        parts = [distinct[start : start + _PARSED] for start in range(0, len(distinct), _PARSED)]
        parsed_parts = map_in_two(
            lambda part: list(map(self._parser.parse, part)), parts, wanted=len(distinct) >= MIN_FORKED
        )
        same = {_written(parsed.source): parsed for part in parsed_parts for parsed in part}
        for code in codes:
            known = same[_written(code)]
            parsed = self._parsed[code] = known if known.source is code else replace(known, source=code)
            self._remaining.update(parsed.keys)
            descriptions.update(parsed.own_keys)
        if self.options.infer_domain and not self.options.domain:
            sample = list(islice({parsed.keys: parsed for parsed in self._parsed.values()}.values(), SAMPLE))
            links = self._link_keys(dict.fromkeys(key for code in sample for key in code.keys))
            decided = [self._decide(code, links, {})[0] for code in sample]
            self.linker.infer_domain([Link("", one.candidates, one.link) for one in decided])
        return len(descriptions)

    def propose(self, codes: Sequence[SourceCode]) -> list[CodeMapping]:
        """Propose concepts for n codes.

        Links a description without its unit and codes of other systems. If the code, or a code in the description,
        means concepts, these share a score of 1. If the best candidate of the description is another concept, it keeps
        its score, and the concepts of the code share the rest. If it reaches the threshold, code and description
        disagree, and nothing is proposed. Units and values with a concept in the bundle become further targets.
        """
        parsed = [self._parsed.pop(code) if code in self._parsed else self._parser.parse(code) for code in codes]
        links, same = self._link(parsed), dict[_Written, _Likeliest]()
        decided = [self._decide(code, links, same) for code in parsed]
        firsts = dict.fromkeys(decision.candidates[0].concept_id for decision, *_ in decided if decision.link == LINKED)
        target_by_concept = {target.concept_id: target for target in self.targets.make_targets(firsts)}
        mappings = []
        for code, (decision, value, assigned) in zip(parsed, decided, strict=True):
            first, unit = next(iter(decision.candidates), None), code.source.unit or code.description.unit
            targets: tuple[Target | None, ...] = ()
            if first is not None and decision.link == LINKED:
                targets = (target_by_concept[first.concept_id], value, self._unit(unit))
            source = replace(code.source, unit=unit, assigned=code.source.assigned or assigned)
            tag = source.language or self.options.language or ""
            mappings.append(CodeMapping(
                source, tuple(filter(None, targets)), first.score if first else 0.0, decision.status,
                decision.equivalence, link=decision.link, candidates=decision.candidates, evidence=decision.evidence,
                qualifiers=describe_finding(code.description.text, first.name if first else "", tag)
                if code.may_be_qualified else None,
            ))  # fmt: skip
        return mappings

    def qualify(self, mapping: CodeMapping) -> CodeMapping:
        """Add the qualifiers that the description gives the finding."""
        source = mapping.source
        name = next((one.name for one in (*mapping.candidates, mapping.target) if one), "")
        text, tag = parse_description(source.name).text, source.language or self.options.language or ""
        return replace(mapping, qualifiers=describe_finding(text, name, tag))

    def _link_keys(self, keys: Iterable[Key]) -> dict[Key, Link]:
        mentions = {key: Mention(key[0], key[1] or None) for key in keys}
        # all concepts that share the name, or are tests, are compared
        more = [key for key in mentions if is_full_name(key[0])]
        few = [key for key in mentions if not is_full_name(key[0])]
        links = dict(zip(few, self.linker.link([mentions[key] for key in few]), strict=True))
        more += [key for key, link in links.items() if _shares_name(link)]
        wide = self.linker.link([mentions[key] for key in more], k=max(self.options.k, _SHARING))
        return links | dict(zip(more, wide, strict=True))

    def _link(self, codes: Sequence[ParsedCode]) -> dict[Key, Link]:
        keys = [key for code in codes for key in code.keys]
        distinct = dict.fromkeys(keys)
        known = {key: self._linked[key] for key in distinct if key in self._linked}
        link_by_key = known | self._link_keys(key for key in distinct if key not in known)
        self._remaining.subtract(keys)
        for key in distinct:
            if self._remaining[key] > 0:
                self._linked[key] = link_by_key[key]
            else:
                self._linked.pop(key, None)
                del self._remaining[key]
        return link_by_key

    def _likeliest(self, code: ParsedCode, links: dict[Key, Link]) -> _Likeliest:
        """Return the likeliest of the links of a description; it is broader if the description marks a residual class,
        and the name neither does so nor has further words: *other anaemias* are no *iron deficiency anaemia*."""
        language = code.source.language
        link, value = links.get((code.description.text, language), Link("")), None
        if code.base:
            base = links[code.base, language]
            whole = link.candidates[0] if link.candidates else None
            if not base.nil and (whole is None or _is_weaker(link, base)):
                link, value = base, code.value
        link = _best_wording(code, links, link)
        if code.subsite and links[code.subsite, language].status != NIL:
            link = links[code.subsite, language]
        genus = link if link.candidates and self._is_only_genus(code, link.candidates[0]) else None
        link = _renamed(code, links, link if genus is None else lower(genus, genus.candidates[:1]))
        link = self._as_test(code, links, link)
        if genus is not None and self.options.broader and link.status == NIL:
            return genus, value, True
        is_broader = bool(code.above) and not (
            link.candidates and class_above(link.candidates[0].name, link.candidates[0].language)
        )
        if is_broader:
            above = links[code.above, language]
            if above.candidates and (not link.candidates or _is_weaker(link, above)):
                link = above
            if link.candidates and link.candidates[0].route not in NAMED:
                words = self.linker.additions(code.above, language, link.candidates[0])
                if words.adds and words.has_all:
                    return lower(link, link.candidates[:1]), value, False
                is_broader = not words.adds
        return link, value, is_broader

    def _as_test(self, code: ParsedCode, links: dict[Key, Link], link: Link) -> Link:
        """Return the link of a laboratory test; one that no unit or prefix proves must be found."""
        if not code.is_test:
            return link
        written = links.get((code.base or code.description.text, code.source.language), Link(""))
        has_unit = bool(code.source.unit or code.description.unit)
        tests = [links[name] for name in code.full_names]
        if names_specimen(code.base or code.description.text, code.source.language or self.options.language):
            names = [name for name, _ in code.full_names]
            link, written, *tests = (lower_other_specimens(one, names) for one in (link, written, *tests))
        test = link_of_test(written, tests, None if has_unit else self.linker.same_component)
        return link if test is None or (code.is_open and test.status == NIL) else test

    def _is_only_genus(self, code: ParsedCode, first: Candidate) -> bool:
        if not is_only_genus(code.description.text, first.name):
            return False
        kinds = kinds_of(first.semantic_types)
        return _ORGANISM in kinds or (not kinds and has_kind(self.bundle.index, first.name, _ORGANISM))

    def _decide(
        self, code: ParsedCode, links: dict[Key, Link], same: dict[_Written, _Likeliest]
    ) -> tuple[_Decision, Target | None, tuple[str, ...]]:
        language, written = code.source.language, _written(code.source)
        link, value, is_broader = same[written] = same.get(written) or self._likeliest(code, links)
        assigned = map(self.targets.parse_id, code.source.assigned)
        evidence = self.code_evidence.find(code.source.code, code.description.codes, assigned)
        if evidence.exact:
            decision = self._decide_by_code(link, evidence, language or self.options.language)
        else:
            decision = _decide_by_name(link, evidence, code.source.name, self.options.threshold)
            first = next(iter(decision.candidates), None)
            is_broader |= first is not None and lacks_approach(code.description.text, first.name)
            if is_broader and decision.link == LINKED:
                decision = replace(decision, evidence=f"{decision.evidence}; broader", equivalence=usagi.WIDER)
            elif self.options.broader and decision.link != LINKED:
                decision = self._widen(decision, language or self.options.language)
        decision = replace(decision, candidates=decision.candidates[: self.options.k])
        if value is not None and decision.link == LINKED:
            decision = replace(decision, evidence=f"{decision.evidence}; value {value.name} apart")
        return decision, value, tuple(self.targets.format_id(concept_id) for concept_id in evidence.exact)

    def _decide_by_code(self, link: Link, evidence: Evidence, language: str | None) -> _Decision:
        found = {candidate.concept_id: candidate for candidate in link.candidates}
        first = link.candidates[0] if link.candidates else None
        rival = 0.0 if first is None or first.concept_id in evidence.exact else first.score
        weights = {id_: (found[id_].score if id_ in found else 0.0) + _WEIGHT_BY_CODE_ALONE for id_ in evidence.exact}
        total = sum(weights.values())
        shares = {concept_id: round((1 - rival) * weight / total, 6) for concept_id, weight in weights.items()}
        by_code = [
            replace(found[concept_id], score=share, route=BY_CODE)
            if concept_id in found
            else self.targets.make_candidate(concept_id, language, share, BY_CODE)
            for concept_id, share in shares.items()
        ]
        left = [replace(c, score=min(c.score, rival)) for c in link.candidates if c.concept_id not in shares]
        ranked = sorted([*by_code, *left], key=lambda c: (-c.score, c.concept_id))[: self.options.k]
        best = ranked[0]
        is_single = len(ranked) < 2 or ranked[1].score < best.score
        agree = rival < self.options.threshold
        linked = agree and is_single and best.route == BY_CODE and best.score >= self.options.threshold
        text = evidence.sources[evidence.exact[0]]
        place = next((at for at, c in enumerate(link.candidates, 1) if c.concept_id in evidence.exact), None)
        if not agree:
            text += ", but the description more likely means another concept"
        elif place is not None:
            text += f"; {_describe(link.candidates[place - 1])}"
            text += f", candidate {place} of the description" if place > 1 else ""
        status = (
            usagi.UNCHECKED if not agree else usagi.AUTO_MAPPED_TO_1 if len(evidence.exact) == 1 else usagi.AUTO_MAPPED
        )
        return _Decision(tuple(ranked), LINKED if linked else AMBIGUOUS, text, status)

    def _widen(self, decision: _Decision, language: str | None) -> _Decision:
        """Put the nearest parent that is certain first, if there is one."""
        found = nearest_parent(self.bundle.kb, decision.candidates, self.options.threshold, self._allowed)
        if found is None:
            return decision
        parent = self.targets.make_candidate(found[0], language, found[1], BROADER)
        others = (candidate for candidate in decision.candidates if candidate.concept_id != parent.concept_id)
        below = f"{BROADER}: {parent.name}, above {decision.candidates[0].name}"
        return _Decision((parent, *others), LINKED, below, equivalence=usagi.WIDER)

    def _unit_target(self, unit: str) -> Target | None:
        code, kb = ucum_code(unit), self.bundle.kb
        if code is None:
            return None
        mappings = kb.mappings_of(kb.concepts_mapped_to("UCUM", code))
        own = [concept_id for concept_id, kinds in mappings.items() if any(m.type == CODE for m in kinds)]
        concept_ids = sorted(own) or self._look_up((unit, code), _UNIT_TYPES)
        return next(iter(self.targets.make_targets(concept_ids[:1], usagi.MAPS_TO_UNIT)), None)

    def _value_target(self, value: str) -> Target | None:
        return next(
            iter(self.targets.make_targets(self._look_up([value], _VALUE_TYPES)[:1], usagi.MAPS_TO_VALUE)), None
        )

    def _look_up(self, names: Iterable[str], types: frozenset[str]) -> list[str]:
        kb = self.bundle.kb
        matches = {(not name.preferred, name.concept_id) for text in names for name in kb.lookup(text, "en")}
        kinds = {id_: {kind.semantic_type.casefold() for kind in kb.semantic_types(id_)} for _, id_ in matches}
        return [concept_id for _, concept_id in sorted(matches) if types & kinds[concept_id]]


def _best_wording(code: ParsedCode, links: dict[Key, Link], link: Link) -> Link:
    """Return the best of the links of a description, its full names, long forms and drug, and its suspected finding."""
    finding = [(code.finding, code.source.language)] if code.finding else []
    is_whole = is_short(code.description.text)  # an abbreviation: GBS is a disease, too
    names = () if code.is_test and code.is_open else code.full_names
    for name in (*finding, *names, *code.longs, *code.drugs):
        full = links[name]
        if not full.candidates:
            continue
        first, is_exact = full.candidates[0], full.candidates[0].route in NAMED
        if name in code.longs and is_whole and not is_exact:
            continue
        is_form = name in code.drugs and bool(link.candidates) and is_class(link.candidates[0].concept_id)
        if name[0] == code.inner_drug and not (is_form and is_exact):
            continue
        if name in code.drugs and not (is_substance(first.concept_id) or is_form):
            continue
        always = (is_exact and not is_whole and name not in finding) or name[0] == code.bare_drug
        if not link.candidates or is_form or _is_weaker(link, full, always=always):
            link = full
    return link


def _renamed(code: ParsedCode, links: dict[Key, Link], link: Link) -> Link:
    """Return the likeliest link, also by other names of drug, operation or species if no concept has its own name."""
    text = code.base or code.description.text
    # other names are those of the main part
    is_whole = link.status == LINKED and link.candidates[0].score >= CERTAIN and main_part(text) != text
    if not code.others or is_whole or _has_name(link, main_name(text)):
        return link
    named = [links[other] for other in code.others if _has_name(links[other], other[0])]
    found = [*([link] if link.candidates else []), *named]
    return max(found, key=lambda one: one.candidates[0].score, default=link)


def _written(code: SourceCode) -> _Written:
    return code.name, code.unit, code.language


def _decide_by_name(link: Link, evidence: Evidence, description: str, threshold: float) -> _Decision:
    candidates, status, route = link.candidates, link.status, ""
    if not candidates:
        return _Decision((), status, "")
    if _shares_name(link):
        sharing = {c.concept_id: c.score for c in candidates if _same_name(candidates[0], c)}
        meant = sharing.keys() & evidence.related if status != NIL else set()
        if len(meant) != 1:
            meant, route = codes_of_route(description, sharing)
        if 0 < len(meant) < len(sharing):
            whole = min(1.0, sum(sharing.values()))
            share = round(whole / len(meant), 6)
            scores = {concept_id: share if concept_id in meant else 0.0 for concept_id in sharing}
            scored = [replace(c, score=scores.get(c.concept_id, min(c.score, share))) for c in candidates]
            candidates = tuple(sorted(scored, key=lambda c: (-c.score, c.concept_id not in meant, c.concept_id)))
            if status != NIL or whole >= threshold:
                status = LINKED if len(meant) == 1 else AMBIGUOUS
    by_code = evidence.sources.get(candidates[0].concept_id)
    reasons = (_describe(candidates[0]), by_code and f"{by_code} is related to it", route)
    return _Decision(candidates, status, "; ".join(filter(None, reasons)))


def _shares_name(link: Link) -> bool:
    """Return whether the first two candidates have the same name."""
    return len(link.candidates) > 1 and _same_name(*link.candidates[:2])


def _same_name(first: Candidate, other: Candidate) -> bool:
    return name_form(first.name) == name_form(other.name) or is_same_drug(first, other)


def _describe(candidate: Candidate) -> str:
    return f"{candidate.route}: {candidate.name}"


def _has_name(link: Link, name: str) -> bool:
    return bool(link.candidates) and normalise(link.candidates[0].name) == normalise(name)


def _is_weaker(whole: Link, base: Link, *, always: bool = False) -> bool:
    return whole.candidates[0].route not in NAMED and (always or _score_of_name(whole) <= _score_of_name(base))


def _score_of_name(link: Link) -> float:
    """Return the score that the concepts with the first name share."""
    return min(sum(one.score for one in link.candidates if _same_name(link.candidates[0], one)), 1.0)
