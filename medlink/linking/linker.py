"""``Linker``: mentions to ranked concepts, stage by stage.

Candidates (:mod:`~medlink.linking.candidates`), measures (:mod:`~medlink.linking.features`), ranking
(:mod:`~medlink.linking.ranking`), a re-ranker where one is named (:mod:`~medlink.linking.rankers`), calibration
(:mod:`~medlink.linking.calibration`), decision (:mod:`~medlink.linking.decision`).
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.linking.calibration import Calibration
from medlink.linking.candidates import INFLECTED, LEARNED, ROUTES, WIDTH, Mention, QueryBatch
from medlink.linking.decision import Decision, Holder, SharedNames, Shares
from medlink.linking.features import compute_features
from medlink.linking.lru import Memo
from medlink.linking.options import LinkOptions, known_tag
from medlink.linking.rankers.common import RankerCache, Reranker
from medlink.linking.ranking import Join, LearnedConcepts, PriorRanker, Ranked, Ranker, best_names, default_join
from medlink.processes import collection_paused
from medlink.records import AMBIGUOUS, LINKED, Candidate, Link, Status

_BATCH = 1024  # mentions that are ranked together
_KEPT = 8192  # distinct mentions whose concepts are kept for the next call, 2 KB each
_SHOWN = 65_536  # concepts whose id, preferred name and types are kept
OF_ANOTHER_KIND = 0.25
"""The highest score of a name of a finding for a mention of none. No mention in training is such a pair; of 13 in notes
and development sets that were linked, 2 were right (ECG was linked to an abnormal ECG)."""


class _Place(NamedTuple):
    ranked: Ranked
    holder: Holder


Rankings = Sequence[Sequence[Ranked]]
"""The concepts of each mention, best first."""


class Best(NamedTuple):
    """The concept that ranks first for a mention, its score, and its id."""

    ranked: Ranked
    score: float
    concept_id: str


class _Key(NamedTuple):
    text: str
    language: str | None
    context: bytes | None
    width: int


class _List(NamedTuple):
    """What the candidates of a mention depend on; ``number`` is that of the distinct ranking."""

    number: int
    language: str | None
    shares: Shares
    likely: float | None


class _Shown(NamedTuple):
    concept_id: str
    preferred_name: str | None
    semantic_types: tuple[str, ...]


class Linker:
    """Link mentions with a bundle: same bundle, same mentions, same result.

    Args:
        bundle: an opened bundle, or its folder.
        ranker: what ranks the candidates; the weights of the bundle when left out. The folder of a trained ranker, or
            the URL or description of a language model, names a re-ranker, as the option of that name does.
        reranker: what orders the first concepts of a mention anew, where none is named.
        calibration: what turns ranks into scores; the curves of the re-ranker or the bundle when left out.
        decision: what shares out scores and decides what is linked, ambiguous or NIL;
            :class:`~medlink.linking.decision.SharedNames` when left out.
        among: ids of the concepts that may be candidates; all when left out.
        options: fields of :class:`~medlink.linking.options.LinkOptions`.

    Raises:
        ConfigError: an option is unknown, a value is out of range or not in the index, or what is named is no ranker.
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
        decision: Decision | None = None,
        among: Collection[str] | None = None,
        **options: Any,
    ) -> None:
        if isinstance(ranker, str | Path):
            options["ranker"], ranker = str(ranker), None
        self.options = LinkOptions(**options)
        self.bundle = bundle if isinstance(bundle, Bundle) else Bundle(bundle)
        self.kb, self.index = self.bundle.kb, self.bundle.index
        concepts = None if among is None else frozenset(among)
        self.selection = self.index.select(replace(self.options.filter, concepts=concepts))
        self._learned = LearnedConcepts(self.bundle, self.selection)
        self._rankings = Memo[_Key, Sequence[Ranked]](_KEPT)
        self._reranked = Memo[tuple[_Key, bool], Sequence[Ranked]](_KEPT)
        self._shown: defaultdict[str | None, Memo[float, _Shown]] = defaultdict(lambda: Memo(_SHOWN))
        self._described = Memo[int, tuple[str, str, str]](_SHOWN)
        fitted = self.bundle.manifest["calibration"]
        join = Join.from_dict(fitted) if fitted else default_join()
        shared = SharedNames(self.bundle, self.options.prefer, presume=self.options.presume)
        self.decision: Decision = shared if decision is None else decision
        if ranker is None:
            ranker = PriorRanker(join.ranker, shared.profiles) if shared.profiles.several else join.ranker
        self.ranker: Ranker = ranker
        self.calibration: Calibration = join.calibration if calibration is None else calibration
        if reranker is None and self.options.ranker is not None:
            reranker = _open_reranker(self.options.ranker, self.bundle, self.options.ranker_cache)
        self.reranker = reranker
        own = None if reranker is None or calibration is not None else reranker.calibration
        self._last: Calibration = self.calibration if own is None else own

    @collection_paused()
    def link(
        self, mentions: Sequence[str | Mention], contexts: Sequence[str] | None = None, k: int | None = None
    ) -> list[Link]:
        """Link mentions; each distinct one is embedded and searched once.

        Args:
            mentions: n mentions.
            contexts: n texts around them. A context decides between concepts that share the matched name; without
                one they share the score.
            k: candidates wanted for each, 1 to 10,000; that of the options when left out.

        Returns:
            n links, candidates best first, ties broken by ``concept_id``.

        Raises:
            ConfigError: k is out of range, a mention is no text, or there are not as many contexts as mentions.
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
        queries = [self._query(mention) for mention in mentions]
        ranked = self._final(queries, contexts, options.k)
        shares = self.decision.shares(queries, contexts, ranked)
        # a ranking has one number, however many mentions have it; they differ where their contexts share out the score
        # differently, and where it was judged
        numbers = {id(one): number for number, one in enumerate(ranked)}
        lists = [
            _List(numbers[id(one)], query.language, share, self._likely(mention, query, one))
            for mention, query, one, share in zip(mentions, queries, ranked, shares, strict=True)
        ]
        ordered = {one: _ordered(ranked[one.number], one.shares, options.k) for one in lists}
        candidates = self._candidates(ordered)
        links = []
        for given, one in zip(mentions, lists, strict=True):
            text, expanded = (given.text, given.expanded) if isinstance(given, Mention) else (given, None)
            links.append(Link(text, *candidates[one], expanded))
        return links

    @collection_paused()
    def best(self, mentions: Sequence[Mention]) -> list[Best | None]:
        """For each mention the concept that ranks first and its score, before names of several concepts are told apart.

        That is what a reader of notes needs to know of stretches of text of which few are mentions. ``None`` where
        there is no candidate.
        """
        queries = [self._query(mention) for mention in mentions]
        ranked = self._with_learned(queries, self._rank(queries, None, self.options.k))
        # mentions that have one ranking have one best concept
        distinct = {id(one): (one, query.language) for one, query in zip(ranked, queries, strict=True) if len(one)}
        firsts = [one[0] for one, _ in distinct.values()]
        scores = self._scores(firsts, [language for _, language in distinct.values()], self.calibration)
        ids = self.index.concept_ids(np.array([first.concept for first in firsts]))
        found = dict(zip(distinct, map(Best, firsts, scores, ids), strict=True))
        return [found.get(id(one)) for one in ranked]

    @collection_paused()
    def rank(self, mentions: Sequence[str | Mention]) -> list[Sequence[Ranked]]:
        """The concepts of each of n mentions by the evidence alone, best first, as a re-ranker gets them.

        Distinct mentions are ranked together, each once, and remembered for the next call. What somebody taught for a
        mention is not among its concepts, unless the evidence finds it.
        """
        return self._rank([self._query(mention) for mention in mentions], None, self.options.k)

    def ranker_said(self) -> list[str]:
        """Sentences on what did not go well with the re-ranker; none where there is none."""
        return [] if self.reranker is None else self.reranker.said()

    def _scores(
        self, ranked: Sequence[Ranked], languages: Sequence[str | None], calibration: Calibration
    ) -> list[float]:
        columns = np.array([(one.rank, one.margin, one.route, one.adds) for one in ranked], dtype=float).reshape(-1, 4)
        rank, margin, route, adds = columns.T
        likeliest = np.where(adds > 0, OF_ANOTHER_KIND, 1.0)
        scores: list[float] = np.minimum(
            calibration.score(rank, margin, route <= INFLECTED, languages), likeliest
        ).tolist()
        return scores

    def _query(self, mention: str | Mention) -> Mention:
        if isinstance(mention, str):
            return Mention(mention.strip(), self.options.language)
        text, language = mention.text.strip(), known_tag(mention.language) or self.options.language
        if mention.expanded:
            return Mention(mention.expanded.strip(), language)
        return Mention(text, language, found=mention.found if text == mention.text else None, taught=mention.taught)

    def _rank(self, queries: Sequence[Mention], contexts: Sequence[str] | None, k: int) -> list[Sequence[Ranked]]:
        keys = _keys(queries, contexts, max(WIDTH, 2 * k))
        places = {key: at for at, key in enumerate(keys)}

        def ranked(new: list[_Key]) -> Iterator[Sequence[Ranked]]:
            for start in range(0, len(new), _BATCH):
                batch = new[start : start + _BATCH]
                mentions = [queries[places[key]] for key in batch]
                evidence = compute_features(
                    QueryBatch(
                        self.index,
                        self.bundle.encoder,
                        [key.text for key in batch],
                        [key.language for key in batch],
                        self.selection,
                        batch[0].width,
                        [None if mention.found is None else mention.found.rows for mention in mentions],
                    )
                )
                around = None if contexts is None else [contexts[places[key]] for key in batch]
                yield from best_names(evidence, self.ranker.rank(mentions, around, evidence))

        found = self._rankings.get(places, ranked)
        return [found[key] for key in keys]

    def _final(self, queries: Sequence[Mention], contexts: Sequence[str] | None, k: int) -> list[Sequence[Ranked]]:
        rankings = self._rank(queries, contexts if self.ranker.uses_context else None, k)
        if self.reranker is not None:
            rankings = self._rerank(self.reranker, queries, contexts, rankings, k)
        return self._with_learned(queries, rankings)

    def _rerank(
        self, reranker: Reranker, queries: Sequence[Mention], contexts: Sequence[str] | None, rankings: Rankings, k: int
    ) -> list[Sequence[Ranked]]:
        """Concepts by the re-ranker; those of distinct mentions that were met lately are remembered.

        It may leave mentions that are taught as they are. These are remembered apart, as they are no answer of its own.
        """
        around = contexts if reranker.uses_context or self.ranker.uses_context else None
        keys = [
            (key, query.taught is not None)
            for key, query in zip(_keys(queries, around, max(WIDTH, 2 * k)), queries, strict=True)
        ]
        places = {key: at for at, key in enumerate(keys)}

        def reranked(new: list[tuple[_Key, bool]]) -> Sequence[Sequence[Ranked]]:
            at = [places[key] for key in new]
            texts = [contexts[i] for i in at] if contexts is not None and reranker.uses_context else None
            return reranker.rerank([queries[i] for i in at], texts, [rankings[i] for i in at])

        found = self._reranked.get(places, reranked)
        return [found[key] for key in keys]

    def _with_learned(self, queries: Sequence[Mention], rankings: Rankings) -> list[Sequence[Ranked]]:
        return [
            ranking if query.taught is None else self._learned.first(ranking, query.taught, query.language)
            for query, ranking in zip(queries, rankings, strict=True)
        ]

    def _likely(self, mention: str | Mention, query: Mention, ranked: Sequence[Ranked]) -> float | None:
        """The score that the text gives to the best candidate; none where its concept is not allowed as a candidate.

        The finder judged the name that ranked first by the evidence. Where the re-ranker puts another name first, the
        score of that name counts, but never more than the judgement.
        """
        if isinstance(mention, str) or (mention.taught and not (ranked and ranked[0].route == LEARNED)):
            return None
        if mention.likely is None or self.reranker is None or not (ranked and ranked[0].moved):
            return mention.likely
        return min(mention.likely, self._scores(ranked[:1], [query.language], self._last)[0])

    def _candidates(self, ordered: dict[_List, list[_Place]]) -> dict[_List, tuple[tuple[Candidate, ...], Status]]:
        flat = [place.ranked for places in ordered.values() for place in places]
        languages = [which.language for which, places in ordered.items() for _ in places]
        scored = iter(self._scores(flat, languages, self._last))
        names = self._described.get(sorted({one.entry for one in flat}), self._describe)
        members: defaultdict[str | None, set[float]] = defaultdict(set)
        for which, places in ordered.items():
            members[which.language].update(concept for place in places for concept in place.holder.members)
        every = {
            tag: self._shown[tag].get(sorted(some), partial(self._show, language=tag)) for tag, some in members.items()
        }
        out: dict[_List, tuple[tuple[Candidate, ...], Status]] = {}
        for which, places in ordered.items():
            shown, candidates = every[which.language], list[Candidate]()
            ceiling, best, factor = 1.0, 0.0, 1.0
            for (one, holder), plain in zip(places, islice(scored, len(places)), strict=True):
                concept_id, preferred, types = shown[holder.shown]
                text, language, source = names[one.entry]
                if not candidates and which.likely is not None:
                    factor = which.likely / max(plain, 1e-9)
                score = plain * factor
                best = best or score
                if one.route == LEARNED:
                    factor = 1.0 - score  # what is left for the others
                # what ranks lower is never the likelier link, however many concepts share the best name
                ceiling = min(score * holder.share, ceiling)
                label, route = text if preferred is None else preferred, ROUTES[one.route]
                same = [concept for concept in holder.members if concept != holder.shown]
                ids = [shown[concept].concept_id for concept in same]
                presumed = tuple(i for i, concept in zip(ids, same, strict=True) if concept in holder.presumed)
                candidates.append(
                    Candidate(
                        concept_id, label, round(ceiling, 6), text, language, route, source, types, tuple(ids), presumed
                    )
                )
            decided = self.decision.status(candidates, round(best, 6), which.shares, self.options.threshold)
            if decided == AMBIGUOUS and self.options.resolve == "first":
                decided = LINKED
            out[which] = tuple(candidates), decided
        return out

    def _describe(self, entries: list[int]) -> Iterator[tuple[str, str, str]]:
        return zip(*self.index.describe(np.array(entries)), strict=True)

    def _show(self, concepts: list[float], language: str | None) -> Iterator[_Shown]:
        ids, types = self.index.concept_ids(np.array(concepts)), self.index.concept_types(np.array(concepts))
        preferred = self.kb.preferred_names(ids, language)
        return (_Shown(one, preferred.get(one), kinds) for one, kinds in zip(ids, types, strict=True))


def _keys(queries: Sequence[Mention], contexts: Sequence[str] | None, width: int) -> list[_Key]:
    if contexts is None:
        return [_Key(query.text, query.language, None, width) for query in queries]
    # of a context, which may be much of a note, nothing is kept but a hash
    hashes = [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in contexts]
    pairs = zip(queries, hashes, strict=True)
    return [_Key(query.text, query.language, context, width) for query, context in pairs]


def _ordered(ranked: Sequence[Ranked], shares: Shares, k: int) -> list[_Place]:
    """The best k: who shares the score of the best name first, in the order of the shares; all others as they are.

    Concepts that are one have the place of the first of them.
    """
    if not shares:
        return [_Place(one, Holder(one.concept, 1.0, (one.concept,))) for one in ranked[:k]]
    holders = {concept: holder for holder in shares for concept in holder.members}
    waiting, first = set(holders), dict[float, _Place]()
    for one in ranked:
        holder = holders.get(one.concept) or Holder(one.concept, 1.0, (one.concept,), holds=False)
        place = first.setdefault(holder.shown, _Place(one, holder))
        if one.concept == holder.shown and one.name == place.ranked.name:
            first[holder.shown] = _Place(one, holder)  # the name is that of the concept shown, where it has it
        waiting.discard(one.concept)
        if len(first) >= k and not waiting:
            break
    tied = [first.pop(holder.shown) for holder in shares if holder.holds]
    return [*tied, *first.values()][:k]


def _open_reranker(named: str, bundle: Bundle, cache: str | None) -> Reranker:
    # the libraries of a re-ranker are for those who name one
    kept = None if cache is None else RankerCache(cache)
    if os.path.isdir(named):  # noqa: PTH112  # Path fails where a name is too long
        from medlink.linking.rankers.cross_encoder import CrossEncoderRanker

        return CrossEncoderRanker(named, bundle, kept)
    is_url = named.lower().startswith(("http://", "https://"))
    if is_url or Path(named).suffix.lower() in (".toml", ".json"):
        from medlink.linking.rankers.chat import ChatRanker, Endpoint

        return ChatRanker(Endpoint(url=named) if is_url else Endpoint.read(named), bundle, kept)
    remedy = "name the folder of a trained ranker, a URL that begins with https://, or a TOML or JSON file"
    raise ConfigError("is no ranker", path=named, remedy=remedy)
