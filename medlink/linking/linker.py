"""``Linker``: mentions to ranked concepts, stage by stage.

Candidates (:mod:`~medlink.linking.candidates`), measures (:mod:`~medlink.linking.measures`), ranking
(:mod:`~medlink.linking.ranking`), a re-ranker where one is named (:mod:`~medlink.linking.rankers`), calibration
(:mod:`~medlink.linking.calibration`), decision (:mod:`~medlink.linking.decision`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.language.lexicon.reading import FamilyReader
from medlink.linking.calibration import Calibration
from medlink.linking.candidates import INFLECTED, LEARNED, ROUTES, WIDTH, Asked
from medlink.linking.decision import Decision, Holder, SharedNames, Shares
from medlink.linking.join import Join, default_join
from medlink.linking.lately import Lately
from medlink.linking.measures import gather
from medlink.linking.mention import Mention
from medlink.linking.options import LinkOptions, known_tag
from medlink.linking.rankers.protocol import Reranker
from medlink.linking.ranking import Ranked, Ranker, best_names
from medlink.linking.taught import TaughtConcepts
from medlink.records import Candidate, Link, Status

_BATCH = 1024
_REMEMBERED = 8192  # distinct mentions whose concepts are kept for the next call
_FIRSTS = 32_768  # distinct stretches of text whose first concept is kept, 1 KB each
OF_ANOTHER_KIND = 0.25
"""The highest score of a name of a finding for a mention of none. No mention in training is such a pair; of 13 in notes
and development sets that were linked, 2 were right (ECG was linked to an abnormal ECG)."""
_SHOWN = 65_536  # concepts whose id, preferred name and types are kept, for each language

# A mention as it is linked, the context where the ranker looks at it, and the concept that it is known to be.
_Key = tuple[str, str | None, str | None, str | None]
# A distinct list of candidates: number of the distinct mention, language, how concepts share the score, and what score
# the text gives to the best.
_Wanted = tuple[int, str | None, Shares, float | None]
_ALONE = Holder(0.0, 1.0)  # what stands for a concept that shares no score


class Best(NamedTuple):
    """The concept that ranks first for a mention, its score, and its id."""

    ranked: Ranked
    score: float
    concept_id: str


# Id, preferred name and semantic types of a concept.
_Shown = tuple[str, str | None, tuple[str, ...]]


class Linker:
    """Link mentions with a bundle: same bundle, same mentions, same result.

    Args:
        bundle: an opened bundle, or its folder.
        ranker: what ranks the candidates; the weights of the bundle when left out. A folder of ``medlink train
            ranker``, or the URL or description of a language model, names a re-ranker, as the option of that name does.
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
        self._taught = TaughtConcepts(self.bundle, self.selection)
        self._remembered, self._reranked = Lately[Sequence[Ranked]](_REMEMBERED), Lately[Sequence[Ranked]](_REMEMBERED)
        self._firsts = Lately[Ranked | None](_FIRSTS)
        self._shown: dict[str | None, dict[float, _Shown]] = {}
        fitted = self.bundle.manifest["calibration"]
        join = Join.from_dict(fitted) if fitted else default_join()
        self.ranker: Ranker = join.ranker if ranker is None else ranker
        self.calibration: Calibration = join.calibration if calibration is None else calibration
        if reranker is None and self.options.ranker is not None:
            from medlink.linking.rankers.opening import open_reranker  # its libraries are for those who name one

            reranker = open_reranker(self.options.ranker, self.bundle, self.options.ranker_cache)
        self.reranker = reranker
        own = None if reranker is None or calibration is not None else reranker.calibration
        self._last: Calibration = self.calibration if own is None else own
        self._by_context = self.ranker.uses_context or (reranker is not None and reranker.uses_context)
        self.decision: Decision = SharedNames(self.bundle, self.options.prefer) if decision is None else decision

    def link(
        self,
        mentions: Sequence[str | Mention],
        contexts: Sequence[str] | None = None,
        k: int | None = None,
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
        k = options.k
        if contexts is not None and len(contexts) != len(mentions):
            message = f"{len(contexts)} contexts for {len(mentions)} mentions"
            raise ConfigError(message, remedy="give one context for each mention, or none at all")
        if isinstance(mentions, str):
            raise ConfigError("a list of mentions is expected, not one string", remedy="give [text]")
        for at, mention in enumerate(mentions):
            text = mention.text if isinstance(mention, Mention) else mention
            if not isinstance(text, str):
                raise ConfigError(f"mentions[{at}] is of type {type(text).__name__}, a text or a Mention expected")
        asked = [self._asked(mention) for mention in mentions]
        around = contexts if contexts is not None and self._by_context else [None] * len(asked)
        keys: list[_Key] = [(m.text, m.language, context, m.taught) for m, context in zip(asked, around, strict=True)]
        distinct = dict(zip(keys, asked, strict=True))
        numbers = {key: i for i, key in enumerate(distinct)}
        ranked = self._ranked(distinct, self._width(options.k), again=True)
        shares = self.decision.shares(asked, contexts, [ranked[numbers[key]] for key in keys])
        # Mentions of one key differ in their candidates only where their contexts share out the score differently.
        likely = [self._likely(mention, key, ranked[numbers[key]]) for mention, key in zip(mentions, keys, strict=True)]
        columns = zip(keys, shares, likely, strict=True)
        wanted: list[_Wanted] = [(numbers[key], key[1], share, judged) for key, share, judged in columns]
        named = self._candidates({which: _ordered(ranked[which[0]], which[2], options.k) for which in wanted})
        links = []
        for given, which in zip(mentions, wanted, strict=True):
            text, expanded = (given.text, given.expanded) if isinstance(given, Mention) else (given, None)
            links.append(Link(text, *named[which], expanded))
        return links

    def best(self, mentions: Sequence[Mention], reader: FamilyReader | None = None) -> list[Best | None]:
        """For each mention the concept that ranks first and its score, before names of several concepts are told apart.

        That is what a reader of notes needs to know of stretches of text of which few are mentions. What is found is
        remembered for :meth:`link`. ``None`` where there is no candidate. ``reader`` is one of the index that met the
        words of the notes before.
        """
        asked = [self._asked(mention) for mention in mentions]
        keys: list[_Key] = [(mention.text, mention.language, None, mention.taught) for mention in asked]
        distinct = dict(zip(keys, asked, strict=True))
        firsts = self._first(distinct, self._width(self.options.k), reader)
        known = [one for one in firsts if one is not None]
        languages = [key[1] for key, one in zip(distinct, firsts, strict=True) if one is not None]
        ids = self.index.concept_ids(np.array([one.concept for one in known]))
        scored = iter(zip(known, self._scores(known, languages, self.calibration), ids, strict=True))
        found = {key: None if one is None else Best(*next(scored)) for key, one in zip(distinct, firsts, strict=True)}
        return [found[key] for key in keys]

    def _first(self, distinct: dict[_Key, Mention], width: int, reader: FamilyReader | None) -> list[Ranked | None]:
        """The concept that ranks first for each; those met lately are remembered."""
        digests = _digests(distinct, width)
        known = {digest: self._firsts[digest] for digest in dict.fromkeys(digests) if digest in self._firsts}
        pairs = list(zip(digests, distinct, strict=True))
        new = {key: distinct[key] for digest, key in pairs if digest not in known or key[3] is not None}
        ranked = dict(zip(new, self._ranked(new, width, reader), strict=True))
        firsts = []
        for digest, key in pairs:
            if key in ranked:
                first = ranked[key][0] if ranked[key] else None
                if key[3] is None:
                    known[digest] = first
            else:
                first = known[digest]
            firsts.append(first)
        self._firsts.meet(known)
        return firsts

    def ranked(self, mentions: Sequence[Mention]) -> list[Sequence[Ranked]]:
        """The concepts of each of n mentions by the evidence alone, best first, as a re-ranker gets them."""
        asked = [self._asked(mention) for mention in mentions]
        keys: list[_Key] = [(mention.text, mention.language, None, mention.taught) for mention in asked]
        distinct = dict(zip(keys, asked, strict=True))
        found = dict(zip(distinct, self._ranked(distinct, self._width(self.options.k)), strict=True))
        return [found[key] for key in keys]

    def ranker_said(self) -> list[str]:
        """Sentences on what did not go well with the re-ranker; none where there is none."""
        return [] if self.reranker is None else self.reranker.said()

    @staticmethod
    def _width(k: int) -> int:
        return max(WIDTH, 2 * k)

    def _scores(
        self, ranked: Sequence[Ranked], languages: Sequence[str | None], calibration: Calibration
    ) -> list[float]:
        """Scores of concepts, as if no other one had their names."""
        named = np.array([one.route <= INFLECTED for one in ranked], dtype=bool)
        rank, margin = (np.array([getattr(one, kind) for one in ranked], dtype=float) for kind in ("rank", "margin"))
        adds = np.array([one.adds for one in ranked], dtype=bool)
        likeliest = np.where(adds, OF_ANOTHER_KIND, 1.0)
        scores: list[float] = np.minimum(calibration.score(rank, margin, named, languages), likeliest).tolist()
        return scores

    def _asked(self, mention: str | Mention) -> Mention:
        """A mention as it is linked: its long form where there is one, its language as the knowledge base writes it."""
        if isinstance(mention, str):
            return Mention(mention.strip(), self.options.language)
        text, language = mention.text.strip(), known_tag(mention.language) or self.options.language
        if mention.expanded:
            return Mention(mention.expanded.strip(), language)
        return Mention(text, language, found=mention.found if text == mention.text else None, taught=mention.taught)

    def _ranked(
        self, distinct: dict[_Key, Mention], width: int, reader: FamilyReader | None = None, *, again: bool = False
    ) -> list[Sequence[Ranked]]:
        """Concepts of distinct mentions, those met lately remembered; ``again`` by the re-ranker if there is one."""
        digests = _digests(distinct, width)
        found: dict[bytes, Sequence[Ranked]]
        found = {digest: self._remembered[digest] for digest in digests if digest in self._remembered}
        new = [(digest, key) for digest, key in zip(digests, distinct, strict=True) if digest not in found]
        for start in range(0, len(new), _BATCH):
            batch, keys = zip(*new[start : start + _BATCH], strict=True)
            mentions = [distinct[key] for key in keys]
            texts, languages, contexts, _ = map(list, zip(*keys, strict=True))
            known = [None if mention.found is None else mention.found.rows for mention in mentions]
            given = self.selection, width, known, reader
            evidence = gather(Asked(self.index, self.bundle.encoder, texts, languages, *given))
            rank = self.ranker.rank(mentions, None if None in contexts else contexts, evidence)
            ranked = best_names(self.index, evidence, rank, languages, self.selection)
            found.update(zip(batch, ranked, strict=True))
        self._remembered.meet(found)
        if again and self.reranker is not None:
            found = self._rerank(self.reranker, list(zip(digests, distinct.items(), strict=True)), found)
        return [
            found[digest] if taught is None else self._taught.first(found[digest], taught, language)
            for digest, (_, language, _, taught) in zip(digests, distinct, strict=True)
        ]

    def _likely(self, mention: str | Mention, key: _Key, ranked: Sequence[Ranked]) -> float | None:
        """The score that the text gives to the best candidate; none where its concept is not allowed as a candidate.

        The finder judged the name that ranked first by the evidence. Where the re-ranker puts another name first, the
        score of that name counts, but never more than the judgement.
        """
        if isinstance(mention, str) or (mention.taught and not (ranked and ranked[0].route == LEARNED)):
            return None
        if mention.likely is None or not (ranked and ranked[0].moved):
            return mention.likely
        return min(mention.likely, self._scores(ranked[:1], [key[1]], self._last)[0])

    def _rerank(
        self,
        reranker: Reranker,
        asked: Sequence[tuple[bytes, tuple[_Key, Mention]]],
        ranked: dict[bytes, Sequence[Ranked]],
    ) -> dict[bytes, Sequence[Ranked]]:
        """Concepts by the re-ranker, under the same hashes.

        It may leave mentions that are taught as they are. These are remembered apart, as they are no answer of its own.
        """
        found: dict[bytes, Sequence[Ranked]] = {}
        for taught in (True, False):
            mine = [(digest, *one) for digest, one in asked if (one[1].taught is not None) == taught]
            keys = {digest: digest + bytes([taught]) for digest, *_ in mine}
            known = {key: self._reranked[key] for key in keys.values() if key in self._reranked}
            new = [one for one in mine if keys[one[0]] not in known]
            if new:
                contexts = [key[2] for _, key, _ in new]
                texts = [text for text in contexts if text is not None]
                around = texts if reranker.uses_context and len(texts) == len(new) else None
                said = reranker.rerank([mention for *_, mention in new], around, [ranked[digest] for digest, *_ in new])
                known.update((keys[digest], one) for (digest, *_), one in zip(new, said, strict=True))
            self._reranked.meet(known)
            # what is taught comes first in any case
            found.update((digest, known[key]) for digest, key in keys.items())
        return found

    def _candidates(self, ordered: dict[_Wanted, list[Ranked]]) -> dict[_Wanted, tuple[tuple[Candidate, ...], Status]]:
        """Candidates with their scores and names, and what is decided about them, of all wanted lists at once."""
        flat = [one for ranked in ordered.values() for one in ranked]
        languages = [language for (_, language, *_), ranked in ordered.items() for _ in ranked]
        scores = self._scores(flat, languages, self._last)
        texts = self.index.describe(np.array([one.entry for one in flat], dtype=np.int64))
        described = iter(zip(flat, scores, *texts, strict=True))
        concepts: dict[str | None, set[float]] = {}
        for (_, language, shares, _), ranked in ordered.items():
            asked = concepts.setdefault(language, set())
            asked.update([one.concept for one in ranked])
            if shares:
                asked.update(concept for holder in shares for concept in holder.same)
        shown = {language: self._show(wanted, language) for language, wanted in concepts.items()}
        out: dict[_Wanted, tuple[tuple[Candidate, ...], Status]] = {}
        for which, ranked in ordered.items():
            held, show = {holder.concept: holder for holder in which[2]}, shown[which[1]]
            candidates: list[Candidate] = []
            ceiling, best, factor = 1.0, 0.0, 1.0
            for one, plain, text, language, source in islice(described, len(ranked)):
                concept_id, preferred, types = show[one.concept]
                _, share, same = held.get(one.concept, _ALONE) if held else _ALONE
                if not candidates and which[3] is not None:
                    factor = which[3] / max(plain, 1e-9)
                score = plain * factor
                best = best or score
                if one.route == LEARNED:
                    factor = 1.0 - score  # what is left for the others
                # what ranks lower is never the likelier link, however many concepts share the best name
                ceiling = min(score * share, ceiling)
                label, route = text if preferred is None else preferred, ROUTES[one.route]
                ids = tuple(show[concept][0] for concept in same) if same else ()
                candidates.append(
                    Candidate(concept_id, label, round(ceiling, 6), text, language, route, source, types, ids)
                )
            decided = self.decision.status(candidates, round(best, 6), which[2], self.options.threshold)
            out[which] = tuple(candidates), decided
        return out

    def _show(self, concepts: set[float], language: str | None) -> dict[float, _Shown]:
        """Id, preferred name and semantic types of concepts; those shown lately are remembered."""
        remembered = self._shown.setdefault(language, {})
        new = sorted(concepts - remembered.keys())
        if new:
            if len(remembered) + len(new) > _SHOWN:
                remembered = {c: remembered[c] for c in concepts & remembered.keys()}
                self._shown[language] = remembered
            ids = self.index.concept_ids(np.array(new))
            preferred = self.kb.preferred_names(ids, language)
            for concept, concept_id, types in zip(new, ids, self.index.concept_types(np.array(new)), strict=True):
                remembered[concept] = concept_id, preferred.get(concept_id), types
        return remembered


def _digests(distinct: Iterable[_Key], width: int) -> list[bytes]:
    """Hashes under which what was ranked is kept: numbers of the index, no word of a note."""
    return [
        hashlib.blake2b(
            f"{width} {language} {text}\0{context or ''}".encode("utf-8", "surrogatepass"), digest_size=16
        ).digest()
        for text, language, context, _ in distinct
    ]


def _ordered(ranked: Sequence[Ranked], shares: Shares, k: int) -> list[Ranked]:
    """The best k: who shares the score of the best name first, in the order of the shares; all others as they are."""
    if not shares:
        return list(ranked[:k])
    by_concept = {one.concept: one for one in ranked}
    first = [by_concept.pop(holder.concept) for holder in shares]
    for holder in shares:
        for concept in holder.same:
            del by_concept[concept]
    return [*first, *by_concept.values()][:k]
