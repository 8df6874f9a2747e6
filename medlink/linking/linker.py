"""``Linker``: turn mentions into ranked concepts, stage by stage.

Candidates (:mod:`~medlink.linking.candidates`), features (:mod:`~medlink.linking.features`), ranking
(:mod:`~medlink.linking.ranking`), an optional re-ranker (:mod:`~medlink.linking.rankers`), calibration
(:mod:`~medlink.linking.calibration`), decision (:mod:`~medlink.linking.decision`).
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.language.tags import base
from medlink.linking.branches import select_branches
from medlink.linking.calibration import Calibration
from medlink.linking.candidates import INFLECTED, LEARNED, MIN_K, ROUTES, Contexts, Mention, QueryBatch
from medlink.linking.decision import ConceptShare, DecisionPolicy, SharedNamePolicy, Shares
from medlink.linking.drugs import combination_name, is_substance, phrases_behind, prefer_drug, prefer_substance
from medlink.linking.features import compute_features
from medlink.linking.lru import BatchCache
from medlink.linking.options import LinkOptions, parse_language
from medlink.linking.rankers.common import RankerCache, Reranker
from medlink.linking.ranking import (
    FittedRanker,
    LearnedConcepts,
    NegatedNames,
    PriorRanker,
    Ranked,
    RankedConcept,
    Ranker,
    Rankings,
    default_ranker,
    rank_concepts,
)  # fmt: skip
from medlink.processes import gc_disabled
from medlink.records import AMBIGUOUS, LINKED, Candidate, Link, Status

_BATCH = 1024  # mentions that are ranked together
_CACHED_RANKINGS = 8192  # 2 KB each
_CACHED_CONCEPTS = 65_536
MAX_SCORE_OF_OTHER_KIND = 0.25
"""Highest score of a name of a finding for a mention that is not a finding. Training has no such pair; of 13 linked
pairs in notes and development sets, 2 were right (*ECG* was linked to an abnormal ECG).
"""


class BestConcept(NamedTuple):
    """First concept of a mention."""

    ranked: RankedConcept
    score: float
    concept_id: str


class _Place(NamedTuple):
    ranked: RankedConcept
    share: ConceptShare


_Key = tuple[str, str | None, bytes | None, int]
"""Text, language, hash of the context, and k."""


class _Query(NamedTuple):
    """Everything that determines the candidates of a mention; equal queries share candidates."""

    ranking: int
    language: str | None
    shares: Shares
    confidence: float | None


_ConceptLabel = tuple[str, str | None, tuple[str, ...], str]
"""Id, preferred name, semantic types and source."""


class Linker:
    """Link mentions with a bundle; the same bundle and mentions give the same result.

    Args:
        bundle: an opened bundle, or its folder.
        ranker: ranks the candidates; default: the weights of the bundle. The folder of a trained ranker, or the URL or
            description of a language model, selects a re-ranker, like the option of that name.
        reranker: re-orders the first concepts of a mention, unless ``ranker`` selects a re-ranker.
        calibration: turns ranks into scores; default: the calibration of the re-ranker or of the bundle.
        decision: shares scores and decides between linked, ambiguous and NIL; default:
            :class:`~medlink.linking.decision.SharedNamePolicy`.
        among: ids of the concepts that may be candidates; default: all.
        pool: minimum number of names that word overlap and dense search each return.
        options: fields of :class:`~medlink.linking.options.LinkOptions`.

    Raises:
        ConfigError: an option is unknown, a value is out of range or not in the index, or ``ranker`` is not a ranker.
        EncoderError: the folder of the ranker is damaged.
        InputError: the description of the ranker cannot be read.
    """

    def __init__(
        self,
        bundle: Bundle | str | Path,
        *,
        ranker: Ranker | str | Path | None = None,
        reranker: Reranker | None = None,
        calibration: Calibration | None = None,
        decision: DecisionPolicy | None = None,
        among: Collection[str] | None = None,
        pool: int = MIN_K,
        **options: Any,
    ) -> None:
        if isinstance(ranker, str | Path):
            options["ranker"], ranker = str(ranker), None
        self.options, self._pool = LinkOptions(**options), pool
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle(bundle)
        self.kb, self.index = self.bundle.kb, self.bundle.index
        branches = {name: getattr(self.options, name) for name in ("under", "not_under", "ecl")}
        concepts = select_branches(self.kb, **branches)
        if among is not None:
            concepts = frozenset(among) if concepts is None else concepts.intersection(among)
        self.selection = self.index.select(replace(self.options.filter, concepts=concepts))
        self._learned, self._negated = LearnedConcepts(self.bundle, self.selection), NegatedNames(self.index)
        self._rankings = BatchCache[_Key, Ranked](_CACHED_RANKINGS)
        self._reranked = BatchCache[tuple[_Key, bool], Ranked](_CACHED_RANKINGS)
        self._labels = defaultdict[str | None, BatchCache[float, _ConceptLabel]](lambda: BatchCache(_CACHED_CONCEPTS))
        self._names = BatchCache[int, tuple[str, str, str]](_CACHED_CONCEPTS)
        raw = self.bundle.manifest["calibration"]
        fitted = FittedRanker.from_dict(raw) if raw else default_ranker()
        policy = SharedNamePolicy(self.bundle, self.options.prefer, presume=self.options.presume)
        self.decision: DecisionPolicy = policy if decision is None else decision
        if ranker is None:
            several = policy.profiles.has_several_sources
            ranker = PriorRanker(fitted.ranker, policy.profiles) if several else fitted.ranker
        self.ranker: Ranker = ranker
        self.calibration: Calibration = fitted.calibration if calibration is None else calibration
        if reranker is None and self.options.ranker is not None:
            reranker = open_reranker(self.options.ranker, self.bundle, self.options.ranker_cache)
        self.reranker = reranker
        own = None if reranker is None or calibration is not None else reranker.calibration
        self._final_calibration: Calibration = self.calibration if own is None else own

    @gc_disabled()
    def link(
        self, mentions: Sequence[str | Mention], contexts: Sequence[str] | None = None, k: int | None = None
    ) -> list[Link]:
        """Link mentions; embeds and searches each distinct mention once.

        Args:
            mentions: n mentions.
            contexts: n texts around them, which decide between concepts with the same name. Without them such concepts
                share the score.
            k: number of candidates of each mention, 1 to 10,000; default: ``k`` of the options.

        Returns:
            n links, candidates best first, ties broken by ``concept_id``.

        Raises:
            ConfigError: k is out of range, a mention is not text, or the numbers of contexts and mentions differ.
        """
        options = self.options if k is None else self.options.replace(k=k)
        if contexts is not None and len(contexts) != len(mentions):
            message = f"{len(contexts)} contexts for {len(mentions)} mentions"
            raise ConfigError(message, remedy="give one context for each mention, or none at all")
        if isinstance(mentions, str):
            raise ConfigError("a list of mentions is expected, not one string", remedy="give [text]")
        for at, mention in enumerate(mentions):
            text = mention.text if isinstance(mention, Mention) else mention
            if not isinstance(text, str):
                raise ConfigError(f"mentions[{at}] is of type {type(text).__name__}, a text or a Mention expected")
        normalised = [self._normalise(mention) for mention in mentions]
        ranked = self._final_rankings(normalised, contexts, options.k)
        for at, (mention, plain) in enumerate(zip(mentions, normalised, strict=True)):
            # in a note the qualifiers tell what is absent: "the spleen is not enlarged"
            if isinstance(mention, str) or mention.confidence is None:
                ranked[at] = self._negated.mark(plain.text, plain.language, ranked[at])
        shares = self.decision.shares(normalised, contexts, ranked)
        numbers = {id(ranking): number for number, ranking in enumerate(ranked)}  # mentions may share a ranking
        queries = [
            _Query(numbers[id(ranking)], query.language, own, self._confidence(mention, query, ranking))
            for mention, query, ranking, own in zip(mentions, normalised, ranked, shares, strict=True)
        ]
        places = {query: _order(ranked[query.ranking], query.shares, options.k) for query in queries}
        candidates = self._candidates(places)
        texts = [(own.text, own.expanded) if isinstance(own, Mention) else (own, None) for own in mentions]
        pairs = zip(texts, queries, strict=True)
        links = [Link(text, *candidates[query], expanded) for (text, expanded), query in pairs]
        return self._link_drugs(links, normalised, contexts) if "ATC" in self.index.sources else links

    def _link_drugs(self, links: list[Link], mentions: Sequence[Mention], contexts: Contexts) -> list[Link]:
        """Put drugs before diagnostics and classes, and link combinations of ATC (*Amoxicillin/Clavulansäure*)."""
        links, combined = list(map(prefer_substance, map(prefer_drug, links))), dict[int, Mention]()
        for mention, (at, context) in zip(mentions, enumerate(contexts or ()), strict=False):
            names = {
                combination_name(phrase, base(mention.language or ""))
                for phrase in phrases_behind(mention.text, context)
            }
            if len(names) == 1 and (name := names.pop()):
                combined[at] = Mention(name, mention.language)
        found = self.link(list(combined.values())) if combined else ()
        for at, link in zip(combined, found, strict=True):
            if link.status == LINKED and is_substance(link.candidates[0].concept_id):
                links[at] = replace(link, mention=links[at].mention, expanded=link.mention)
        return links

    @gc_disabled()
    def best(self, mentions: Sequence[Mention]) -> list[BestConcept | None]:
        """Return the first concept of each mention or ``None``, before concepts with the same name share the score.

        Cheaper than :meth:`link`, for the many spans of a note that may not be mentions.
        """
        queries = [self._normalise(mention) for mention in mentions]
        rankings = self._with_learned(queries, self._rank(queries, None, self.options.k))
        # mentions may share a ranking, and so the best concept
        distinct = {id(ranking): (ranking, q.language) for ranking, q in zip(rankings, queries, strict=True) if ranking}
        firsts = [ranking[0] for ranking, _ in distinct.values()]
        scores = self._scores(firsts, [language for _, language in distinct.values()], self.calibration)
        ids = self.index.concept_ids(np.array([first.concept for first in firsts]))
        best_of = dict(zip(distinct, map(BestConcept, firsts, scores, ids), strict=True))
        return [best_of.get(id(ranking)) for ranking in rankings]

    @gc_disabled()
    def rank(self, mentions: Sequence[str | Mention]) -> list[Ranked]:
        """Rank the concepts of each mention, best first, without context, re-ranker and learned concepts."""
        return self._rank([self._normalise(mention) for mention in mentions], None, self.options.k)

    def ranker_warnings(self) -> list[str]:
        """Return messages about failures of the re-ranker."""
        return [] if self.reranker is None else self.reranker.warnings()

    def _scores(self, ranked: Ranked, languages: Sequence[str | None], calibration: Calibration) -> list[float]:
        columns = np.array([(c.rank, c.margin, c.route, c.adds) for c in ranked], dtype=float).reshape(-1, 4)
        rank, margin, route, adds = columns.T
        ceiling = np.where(adds > 0, MAX_SCORE_OF_OTHER_KIND, 1.0)
        scores = np.minimum(calibration.score(rank, margin, route <= INFLECTED, languages), ceiling)
        return cast(list[float], scores.tolist())

    def _normalise(self, mention: str | Mention) -> Mention:
        if isinstance(mention, str):
            return Mention(mention.strip(), self.options.language)
        text, language = mention.text.strip(), parse_language(mention.language) or self.options.language
        if mention.expanded:
            return Mention(mention.expanded.strip(), language)
        match = mention.match if text == mention.text else None
        return Mention(text, language, match=match, learned_id=mention.learned_id)

    def _rank(self, queries: Sequence[Mention], contexts: Contexts, k: int) -> list[Ranked]:
        width = max(self._pool, 2 * k)
        keys = _keys(queries, contexts, width)
        position = {key: at for at, key in enumerate(keys)}

        def rank(new: list[_Key]) -> Iterator[Ranked]:
            for start in range(0, len(new), _BATCH):
                rows = [position[key] for key in new[start : start + _BATCH]]
                mentions = [queries[at] for at in rows]
                texts, languages = [mention.text for mention in mentions], [mention.language for mention in mentions]
                matches = [None if mention.match is None else mention.match.rows for mention in mentions]
                batch = self.index, self.bundle.encoder, texts, languages, self.selection, width, matches
                candidates = compute_features(QueryBatch(*batch))
                around = None if contexts is None else [contexts[at] for at in rows]
                yield from rank_concepts(candidates, self.ranker.rank(mentions, around, candidates))

        rankings = self._rankings.get(position, rank)
        return [rankings[key] for key in keys]

    def _final_rankings(self, queries: Sequence[Mention], contexts: Contexts, k: int) -> list[Ranked]:
        rankings = self._rank(queries, contexts if self.ranker.uses_context else None, k)
        if self.reranker is not None:
            rankings = self._rerank(self.reranker, queries, contexts, rankings, k)
        return self._with_learned(queries, rankings)

    def _rerank(
        self, reranker: Reranker, queries: Sequence[Mention], contexts: Contexts, rankings: Rankings, k: int
    ) -> list[Ranked]:
        around = contexts if reranker.uses_context or self.ranker.uses_context else None
        plain = _keys(queries, around, max(self._pool, 2 * k))
        # learned mentions are cached apart, as a re-ranker may leave them unchanged
        keys = [(key, query.learned_id is not None) for key, query in zip(plain, queries, strict=True)]
        position = {key: at for at, key in enumerate(keys)}

        def rerank(new: list[tuple[_Key, bool]]) -> Rankings:
            rows = [position[key] for key in new]
            texts = [contexts[i] for i in rows] if contexts is not None and reranker.uses_context else None
            return reranker.rerank([queries[i] for i in rows], texts, [rankings[i] for i in rows])

        reranked = self._reranked.get(position, rerank)
        return [reranked[key] for key in keys]

    def _with_learned(self, queries: Sequence[Mention], rankings: Rankings) -> list[Ranked]:
        return [
            ranking if query.learned_id is None else self._learned.move_first(ranking, query.learned_id, query.language)
            for query, ranking in zip(queries, rankings, strict=True)
        ]

    def _confidence(self, mention: str | Mention, query: Mention, ranked: Ranked) -> float | None:
        """The confidence of a mention as the score of its first candidate, ``None`` if it does not apply.

        It belongs to the name that ranked first without a re-ranker: another name has its own score, up to the
        confidence. It does not apply to a learned concept that the options exclude.
        """
        if isinstance(mention, str) or (mention.learned_id and not (ranked and ranked[0].route == LEARNED)):
            return None
        if mention.confidence is None or self.reranker is None or not (ranked and ranked[0].moved):
            return mention.confidence
        return min(mention.confidence, self._scores(ranked[:1], [query.language], self._final_calibration)[0])

    def _candidates(self, places: Mapping[_Query, list[_Place]]) -> dict[_Query, tuple[tuple[Candidate, ...], Status]]:
        flat = [place.ranked for own in places.values() for place in own]
        languages = [query.language for query, own in places.items() for _ in own]
        scores = iter(self._scores(flat, languages, self._final_calibration))
        names = self._names.get(sorted({ranked.entry for ranked in flat}), self._describe)
        members = defaultdict[str | None, set[float]](set)
        for query, own in places.items():
            members[query.language].update(concept for place in own for concept in place.share.members)
        labels = {
            tag: self._labels[tag].get(sorted(concepts), partial(self._label, language=tag))
            for tag, concepts in members.items()
        }
        out: dict[_Query, tuple[tuple[Candidate, ...], Status]] = {}
        for query, own in places.items():
            plain = list(islice(scores, len(own)))
            candidates, best = _score_candidates(own, plain, query.confidence, names, labels[query.language])
            status = self.decision.status(candidates, round(best, 6), query.shares, self.options.threshold)
            if status == AMBIGUOUS and self.options.resolve == "first":
                status = LINKED
            out[query] = tuple(candidates), status
        return out

    def _describe(self, entries: list[int]) -> Iterator[tuple[str, str, str]]:
        return zip(*self.index.describe(np.array(entries)), strict=True)

    def _label(self, concepts: list[float], language: str | None) -> Iterator[_ConceptLabel]:
        ids, types = self.index.concept_ids(np.array(concepts)), self.index.concept_types(np.array(concepts))
        preferred, sources = self.kb.preferred_names(ids, language), self.kb.sources_of(ids)
        return ((id_, preferred.get(id_), kinds, sources[id_]) for id_, kinds in zip(ids, types, strict=True))


def _score_candidates(
    places: Sequence[_Place],
    scores: Sequence[float],
    confidence: float | None,
    names: Mapping[int, tuple[str, str, str]],
    labels: Mapping[float, _ConceptLabel],
) -> tuple[list[Candidate], float]:
    """The candidates of a mention, and the score of its best name before sharing."""
    candidates = list[Candidate]()
    ceiling, best, factor = 1.0, 0.0, 1.0
    for (ranked, share), plain in zip(places, scores, strict=True):
        concept_id, preferred, types, source = labels[share.representative]
        text, language, _ = names[ranked.entry]
        if not candidates and confidence is not None:
            factor = confidence / max(plain, 1e-9)
        score = plain * factor
        best = best or score
        if ranked.route == LEARNED:
            factor = 1.0 - score  # the probability that is left for the others
        # a lower rank never has a higher score, however many concepts share the best name
        ceiling = min(score * share.share, ceiling)
        others = {labels[concept][0]: concept for concept in share.members if concept != share.representative}
        same_as, presumed = tuple(others), tuple(id_ for id_, other in others.items() if other in share.presumed)
        label, route = text if preferred is None else preferred, ROUTES[ranked.route]
        candidates.append(
            Candidate(concept_id, label, round(ceiling, 6), text, language, route, source, types, same_as, presumed)
        )
    return candidates, best


def _keys(queries: Sequence[Mention], contexts: Contexts, k: int) -> list[_Key]:
    if contexts is None:
        return [(query.text, query.language, None, k) for query in queries]
    # hashes: the cache must not hold text of a note
    hashes = [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in contexts]
    return [(query.text, query.language, context, k) for query, context in zip(queries, hashes, strict=True)]


def _order(ranked: Ranked, shares: Shares, k: int) -> list[_Place]:
    """The best k: concepts that share the best name, then all others by rank; equivalent concepts have one place."""
    if not shares:
        return [_Place(concept, ConceptShare(concept.concept, 1.0, (concept.concept,))) for concept in ranked[:k]]
    share_of = {concept: share for share in shares for concept in share.members}
    unseen, first = set(share_of), dict[float, _Place]()
    for concept in ranked:
        key = concept.concept
        share = share_of.get(key) or ConceptShare(key, 1.0, (key,), has_best_name=False)
        place = first.setdefault(share.representative, _Place(concept, share))
        if key == share.representative and concept.name == place.ranked.name:
            first[key] = _Place(concept, share)  # prefer the entry of the representative
        unseen.discard(key)
        if len(first) >= k and not unseen:
            break
    tied = [first.pop(share.representative) for share in shares if share.has_best_name]
    return [*tied, *first.values()][:k]


def open_reranker(named: str, bundle: Bundle, cache: str | None) -> Reranker:
    # re-rankers are imported on demand, with their libraries
    answers = None if cache is None else RankerCache(cache)
    if os.path.isdir(named):  # noqa: PTH112  # Path fails if a name is too long
        from medlink.linking.rankers.cross_encoder import CrossEncoderRanker

        return CrossEncoderRanker(named, bundle, answers)
    is_url = named.lower().startswith(("http://", "https://"))
    if is_url or Path(named).suffix.lower() in (".toml", ".json"):
        from medlink.linking.rankers.chat import ChatRanker, Endpoint

        return ChatRanker(Endpoint(url=named) if is_url else Endpoint.read(named), bundle, answers)
    remedy = "name the folder of a trained ranker, a URL that begins with https://, or a TOML or JSON file"
    raise ConfigError("is not a ranker", path=named, remedy=remedy)
