"""Link descriptions: rank by their parts, prefer the domain of the list, and distrust what only a filter
leaves.

The domains of a list are the semantic types that it is about, estimated from the codes whose concepts are certain: in a
list of drugs, *fomivirsen; ophthalmic* is a drug, not a procedure on the eye. The prior of a semantic type is its share
among the certain codes, divided by its share among the concepts of the bundle; with few certain codes it is close to 1.
A type with few concepts counts as one with more, because one or two codes prove little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import exp, log

import numpy as np

from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.language.tags import base
from medlink.language.text import normalise
from medlink.linking import Linker, Mention
from medlink.linking.arrays import Floats
from medlink.linking.candidates import Contexts
from medlink.linking.decision import SharedNamePolicy
from medlink.linking.drugs import base_name, is_substance
from medlink.linking.features import CandidateFeatures
from medlink.linking.linker import open_reranker
from medlink.linking.lru import BatchCache
from medlink.linking.profiles import kinds_of
from medlink.linking.ranking import FittedRanker, PriorRanker, Ranker, default_ranker
from medlink.mapping.laboratory import is_full_name
from medlink.mapping.options import MapOptions
from medlink.mapping.ranking import (
    POOL,
    DescriptionRanker,
    MainPartRanker,
    default_description_ranker,
)
from medlink.mapping.targets import allowed_targets
from medlink.mapping.word_meanings import (
    Additions,
    Words,
    additions,
    compare_words,
    have_same_component,
    mean_other_kinds,
    read_words,
    relates_to,
)  # fmt: skip
from medlink.records import AMBIGUOUS, LINKED, NIL, Candidate, Link

NAMED = ("exact", "inflected")
"""Routes of a description that equals a name."""
_NAMED_TYPES = 8  # semantic types in a message
SAMPLE = 2_000
"""Most descriptions that the domain of a list is estimated from."""
CERTAIN = 0.8
"""Score from which a concept is certain."""
_SEVERAL = 3  # names
_LOW = 0.05  # highest score of a candidate that is certainly wrong
_CACHED = 8192  # texts
name_form = lru_cache(_CACHED)(normalise)
"""Cached exact forms of names of the bundle."""
_LEAST = 20  # certain codes, below which a list has no domain
_SMOOTHING = 5.0  # pseudo-codes, distributed like the concepts of the bundle
_LEAST_SHARE = 0.02  # share of the bundle's concepts that a type with fewer counts as having
_LOWEST = -5.0  # log odds of a type that the list does not have
_MAIN, _LEAST_MAIN = 0.05, 3  # least share and number of certain codes of a type that is a domain
_SETTLED = 0.8  # least share of certain codes in the domains of a list that is about nothing else
Priors = Mapping[str, float]  # log odds of each semantic type, at most 0


def estimate_priors(links: Iterable[Link], concepts_by_type: Mapping[str, int]) -> tuple[Priors, list[str]]:
    """Estimate the priors of the semantic types of a list, and its domains; both are empty for few certain codes.

    ``concepts_by_type`` are the numbers of concepts of the bundle.
    """
    certain = _certain_types(links)
    if len(certain) < _LEAST or len(concepts_by_type) < 2:
        return {}, []
    counts = Counter(kind for kinds in certain for kind in kinds)
    total, codes = sum(concepts_by_type.values()), len(certain)
    odds = {}
    for kind, concepts in concepts_by_type.items():
        share = max(concepts / total, _LEAST_SHARE)
        odds[kind] = log((counts[kind] + _SMOOTHING * share) / (codes + _SMOOTHING) / share)
    ordered = sorted(counts, key=lambda kind: (-counts[kind], kind))
    priors = {kind: min(max(value - odds[ordered[0]], _LOWEST), 0.0) for kind, value in odds.items()}
    return priors, [kind for kind in ordered if counts[kind] >= max(_MAIN * codes, _LEAST_MAIN)]


def is_settled(links: Iterable[Link], domains: Collection[str]) -> bool:
    """Return whether nearly all certain codes of a list belong to its domains."""
    inside = [not set(kinds).isdisjoint(domains) for kinds in _certain_types(links)]
    return bool(inside) and sum(inside) >= _SETTLED * len(inside)


def _certain_types(links: Iterable[Link]) -> list[tuple[str, ...]]:
    firsts = [link.candidates[0] for link in links if link.status == LINKED]
    return [first.semantic_types for first in firsts if first.score >= CERTAIN and first.semantic_types]


def priors_of(domains: Sequence[str], concepts_by_type: Mapping[str, int]) -> Priors:
    """Return the priors of a list whose domains are known."""
    wanted = {domain.casefold() for domain in domains}
    return {kind: 0.0 if kind.casefold() in wanted else _LOWEST for kind in concepts_by_type}


def prior_of(priors: Priors, kinds: Iterable[str]) -> float:
    """Return the highest prior of some semantic types, and none without a type."""
    return max((priors.get(kind, 0.0) for kind in kinds), default=0.0)


class DomainRanker:
    """Adds the priors of the semantic types of concepts to the rank scores of another ranker.

    Weights of a ranker are those of a conditional logit, so differences of rank scores are log odds.
    """

    def __init__(self, first: Ranker, priors: Priors) -> None:
        self._first, self._priors = first, priors
        self.uses_context = first.uses_context

    def rank(self, mentions: Sequence[Mention], contexts: Contexts, candidates: CandidateFeatures) -> Floats:
        """Return rank scores ``(p,)``: a name has the highest prior of its types and concepts, without a type none.

        Full names of tests have no prior: it would raise tests of another component, as the type follows from it.
        """
        pair, entry = candidates.entry
        concepts, inverse = np.unique(candidates.entries.concept, return_inverse=True)
        types = candidates.batch.index.concept_types(concepts)
        priors = np.array([prior_of(self._priors, kinds) for kinds in types])
        highest = np.full(len(candidates.name), -np.inf)
        np.maximum.at(highest, pair, priors[inverse[entry]])
        is_test = np.array([is_full_name(text) for text in candidates.batch.texts], dtype=bool)
        highest[is_test[candidates.mention]] = 0.0
        return np.asarray(self._first.rank(mentions, contexts, candidates) + highest)


class DescriptionLinker:
    """Links the descriptions of a list.

    A filter by hierarchy may leave only look-alikes of a description. A description that equals no name is therefore
    also compared with all concepts of the sources: beside a certain concept that the filter excludes, the look-alikes
    get the score that they have there. ``among`` are the allowed targets, ``None`` for all. ``domains`` are the
    semantic types that the list is about, as estimated.

    Raises:
        ConfigError: no concept has a semantic type of the options.
    """

    def __init__(self, bundle: Bundle, options: MapOptions, among: frozenset[str] | None) -> None:
        self._bundle, self._options, self._among = bundle, options, among
        self._policy = SharedNamePolicy(bundle, options.prefer, presume=options.presume)
        ranker = options.ranker
        self.reranker = None if ranker is None else open_reranker(ranker, bundle, options.ranker_cache)
        self._words = BatchCache[tuple[str, str | None], Words](_CACHED)
        self.domains, self._is_settled = list[str](), bool(options.domain)
        concepts = bundle.kb.concepts_by_type() if options.domain else {}
        known = {kind.casefold() for kind in concepts}
        for domain in options.domain:
            if domain.casefold() not in known:
                named = ", ".join(sorted(concepts, key=lambda kind: (-concepts[kind], kind))[:_NAMED_TYPES])
                remedy = f"the most frequent are: {named}" if named else "leave domain out"
                raise ConfigError(f"no concept has the semantic type {domain!r}", path=bundle.folder, remedy=remedy)
        self._open(priors_of(options.domain, concepts))

    def _open(self, priors: Priors) -> None:
        self._priors = priors
        self.linker, self._whole = self._linker(priors, self._among, self._options.sources), None
        if self._among is not None and (self._options.under or self._options.not_under or self._options.ecl):
            everything = self._options.replace(under=(), not_under=(), ecl=None)
            known = set(self._bundle.kb.sources_of(self._among).values()) & set(self._bundle.index.sources)
            sources = self._options.sources or tuple(sorted(known))
            self._whole = self._linker(priors, allowed_targets(self._bundle.kb, everything), sources)

    def _linker(self, priors: Priors, among: frozenset[str] | None, sources: tuple[str, ...]) -> Linker:
        stored = self._bundle.manifest["calibration"]
        fitted = FittedRanker.from_dict(stored) if stored else default_ranker()
        ranker: Ranker = fitted.ranker
        is_shipped = fitted == default_ranker()
        if is_shipped:  # else fitted to mentions of a site
            fitted, ranker = default_description_ranker(), DescriptionRanker(fitted.ranker)
        if priors:
            ranker = DomainRanker(ranker, priors)
        if self._policy.profiles.has_several_sources:
            ranker = PriorRanker(ranker, self._policy.profiles)
        if is_shipped:
            ranker = MainPartRanker(ranker)
        options = {name: value for name, value in self._options.linking.items() if not name.startswith("ranker")}
        return Linker(
            self._bundle, ranker=ranker, reranker=self.reranker, calibration=fitted.calibration, decision=self._policy,
            among=among, pool=POOL, **{**options, "sources": sources},
        )  # fmt: skip

    def infer_domain(self, sample: Iterable[Link]) -> None:
        """Estimate from the links of some codes what the list is about, and prefer such concepts from now on."""
        links = list(sample)
        priors, self.domains = estimate_priors(links, self._bundle.kb.concepts_by_type())
        self._is_settled = is_settled(links, self.domains)
        if priors:
            self._open(priors)

    def link(self, mentions: Sequence[Mention], k: int | None = None) -> list[Link]:
        """Link n descriptions, with k candidates each; default: as many as the options say."""
        links = self.linker.link(mentions) if k is None else self.linker.link(mentions, k=k)
        self._lower_other_kinds(links, [mention.language for mention in mentions])
        if self._priors:
            links = [self._weigh_sharing(link) for link in links]
        if self._priors and self._is_settled:
            links = [self._weigh_named(link) for link in links]
        if self._whole is not None:
            doubtful = [
                at
                for at, link in enumerate(links)
                if link.status != NIL and link.candidates and link.candidates[0].route not in NAMED
            ]
            for at, whole in zip(doubtful, self._whole.link([mentions[at] for at in doubtful]), strict=True):
                links[at] = self._doubt(links[at], whole)
        return links

    def same_component(self, one: str, other: str) -> bool:
        """Return whether two names of laboratory tests have the same component, also in two languages."""
        return have_same_component(self._bundle.index, one, other)

    def additions(self, description: str, language: str | None, candidate: Candidate) -> Additions:
        """Compare the words of the name of a candidate to those of a description."""
        return additions(self._bundle.index, description, language, candidate.name, candidate.language)

    def _lower_other_kinds(self, links: list[Link], languages: Sequence[str | None]) -> None:
        """Lower candidates of another kind than the description, and drugs that lack a part of it: *tracheostomy* is
        not *trachea*, and *levodopa/carbidopa* not *levodopa*.
        """
        index = self._bundle.index
        doubtful = [
            at
            for at, link in enumerate(links)
            if link.candidates and link.candidates[0].route not in NAMED and not is_full_name(link.mention)
        ]
        texts = [(links[at].mention, languages[at]) for at in doubtful]
        texts += [(one.name, one.language) for at in doubtful for one in links[at].candidates]
        words = self._words.get(dict.fromkeys(texts), lambda new: read_words(index, *map(list, zip(*new, strict=True))))
        for at in doubtful:
            link, own = links[at], words[links[at].mention, languages[at]]
            is_other = [
                mean_other_kinds(index, own, words[one.name, one.language], kinds_of(one.semantic_types))
                or (relates_to(one.name) and not relates_to(link.mention))
                for one in link.candidates
            ]
            if any(is_other):
                links[at] = lower(link, [one for one, other in zip(link.candidates, is_other, strict=True) if other])
            if is_substance(link.candidates[0].concept_id):
                compared = [(one, compare_words(index, own, words[one.name, one.language])) for one in link.candidates]
                if len(own.shares) == 1:
                    narrower = [one for one, found in compared if found.adds and found.has_all]
                    links[at] = _between_narrower(links[at], narrower)
                elif not compared[0][1].has_all and any(found.has_all for _, found in compared):
                    links[at] = lower(links[at], [one for one, found in compared if not found.has_all])

    def _weigh_sharing(self, link: Link) -> Link:
        """Divide the score that concepts with one name share by the priors of their types."""
        first, *others = link.candidates or (None,)
        if first is None or is_substance(first.concept_id):  # between the codes of a drug its route decides
            return link
        name = name_form(first.name)
        same = [first, *(one for one in others if one.score == first.score and name_form(one.name) == name)]
        weights = [exp(prior_of(self._priors, one.semantic_types)) for one in same]
        if len(set(weights)) < 2:
            return link
        whole, total = min(first.score * len(same), 1.0), sum(weights)
        shares = {one.concept_id: round(whole * weight / total, 6) for one, weight in zip(same, weights, strict=True)}
        scored = [replace(one, score=shares.get(one.concept_id, one.score)) for one in link.candidates]
        ordered = tuple(sorted(scored, key=lambda one: (-one.score, one.concept_id)))
        is_certain = link.status == AMBIGUOUS and ordered[0].score >= CERTAIN
        return replace(link, candidates=ordered, status=LINKED if is_certain else link.status)

    def _weigh_named(self, link: Link) -> Link:
        """Apply the prior to concepts with the description as a name, too: the ranker puts these before all others."""
        named = [candidate for candidate in link.candidates if candidate.route in NAMED]
        prior = max((prior_of(self._priors, candidate.semantic_types) for candidate in named), default=0.0)
        if not prior or is_full_name(link.mention):  # only lists of tests have such names
            return link
        whole = min(sum(candidate.score for candidate in named), 1.0)
        factor = 1 / (whole + (1 - whole) * exp(-prior))
        weighed = [replace(c, score=round(c.score * factor, 6)) if c.route in NAMED else c for c in link.candidates]
        ordered = tuple(sorted(weighed, key=lambda c: -c.score))
        is_certain = ordered[0] is weighed[0] and whole * factor >= self._options.threshold
        return replace(link, candidates=ordered, status=link.status if is_certain else NIL)

    def _doubt(self, link: Link, whole: Link) -> Link:
        """Lower scores to those beside a certain concept that the filter excludes, if there is one."""
        named = whole.candidates[: 1 if whole.status == LINKED else 2]  # two share the name of an ambiguous description
        is_certain = whole.status == AMBIGUOUS or (whole.status == LINKED and named[0].score >= CERTAIN)
        ids = {concept_id for candidate in named for concept_id in (candidate.concept_id, *candidate.same_as)}
        if not is_certain or not ids.isdisjoint(self._among or ()):
            return link
        scores = {candidate.concept_id: candidate.score for candidate in whole.candidates}
        beside = [replace(c, score=min(c.score, scores.get(c.concept_id, 0.0))) for c in link.candidates]
        return replace(link, candidates=tuple(sorted(beside, key=lambda c: -c.score)), status=NIL)


def _between_narrower(link: Link, narrower: Sequence[Candidate]) -> Link:
    """Divide the score of a drug among those that share the only word of a description: *Insulin* is neither insulin
    icodec nor insulin detemir. A salt is no other drug.
    """
    first, names = link.candidates[0], {normalise(one.name) for one in narrower}
    is_salt = normalise(base_name(first.name, base(first.language))) == normalise(link.mention)
    if first not in narrower or len(names) < _SEVERAL or is_salt:
        return link
    scored = [
        replace(one, score=round(one.score / len(narrower), 6)) if one in narrower else one for one in link.candidates
    ]
    return replace(link, candidates=tuple(sorted(scored, key=lambda one: -one.score)), status=NIL)


def lower(link: Link, wrong: Collection[Candidate]) -> Link:
    """Return a link whose ``wrong`` candidates have a low score; without its first one, nothing is certain."""
    lowered = [replace(one, score=min(one.score, _LOW)) if one in wrong else one for one in link.candidates]
    ordered = tuple(sorted(lowered, key=lambda one: (-one.score, one.concept_id)))
    return replace(link, candidates=ordered, status=NIL if link.candidates[0] in wrong else link.status)
