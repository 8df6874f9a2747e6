"""The last stage: what of a score each concept gets, and what is linked, ambiguous or NIL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from medlink.index import Bundle
from medlink.language.text import is_short, spelling
from medlink.linking.equals import Equals, Groups
from medlink.linking.mention import Mention
from medlink.linking.ranking import Ranked
from medlink.records import AMBIGUOUS, LINKED, NIL, Candidate, Status

# How much likelier a shared name means the concept that prefers it than one that has it as a synonym.
_PREFERRED = 3.0
# How much likelier a mention means the name with its own letters than one that differs by an accent or a mark, which
# many leave out.
_SPELT = 20.0
# How much the context decides between concepts that share a name (divisor of cosines; an abbreviation's senses
# usually differ by 0.1 to 0.3).
_CONTEXT_TEMPERATURE = 0.05


class Holder(NamedTuple):
    """A concept that has the best name, by key, and its share of the score of the name.

    ``same`` are the concepts of other sources that are shown as one with it.
    """

    concept: float
    share: float
    same: tuple[float, ...] = ()


Shares = tuple[Holder, ...]
"""Who shares the score of the best name, the largest share first; empty where it is the name of one concept alone."""


class Decision(Protocol):
    """What decides on a mention whose candidates have their ranks and scores."""

    def shares(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, ranked: Sequence[Sequence[Ranked]]
    ) -> list[Shares]:
        """How the concepts of each of n mentions, ``ranked`` best first, share the score of its best name.

        ``text`` of a mention is what is linked; ``contexts`` are n texts around them.
        """

    def status(self, candidates: Sequence[Candidate], best: float, shares: Shares, threshold: float) -> Status:
        """Whether the first of the candidates is the link, or why there is none.

        ``best`` is the score of the best name before it is shared.
        """


class SharedNames:
    """Concepts that have the best name in common share its score; one that several sources have counts once.

    A name is first of all the name of the concept that prefers it, and a mention first of all the name with its own
    letters: *Nagel* is not *Nägel*. A context counts by the likeness of each concept's
    preferred name to it. A mention is linked where one concept has the threshold, and more than any other that has the
    name. It is ambiguous where the name has the threshold, and only sharing it keeps its concepts below; else NIL.

    Args:
        bundle: where the concepts are from.
        prefer: sources whose concept is shown where several have it (:class:`~medlink.linking.equals.Equals`).

    Raises:
        ConfigError: no source of that name has concepts.
    """

    def __init__(self, bundle: Bundle, prefer: Sequence[str] = ()) -> None:
        self.bundle, self.equals = bundle, Equals(bundle, prefer)

    def status(self, candidates: Sequence[Candidate], best: float, shares: Shares, threshold: float) -> Status:
        """Ambiguous where the first two share alike or sharing keeps them below the threshold; else linked or NIL."""
        if not candidates or best < threshold:
            return NIL
        undecided = len(shares) > 1 and shares[0].share == shares[1].share
        return AMBIGUOUS if undecided or candidates[0].score < threshold else LINKED

    def shares(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, ranked: Sequence[Sequence[Ranked]]
    ) -> list[Shares]:
        """Shares by preferred name, spelling and context; none where the best name is that of one concept."""
        holders = [_holders(candidates) for candidates in ranked]
        groups = self.equals.groups({tuple(same) for same in holders if same})
        shares: list[Shares] = []
        for mention, same, candidates in zip(mentions, holders, ranked, strict=True):
            spelt = self._spelt(mention.text, candidates[0].name) if same else set()
            weights = {one.concept: one.weight for one in candidates} if same else {}
            shares.append(_shared(same, spelt, weights, groups[tuple(same)]) if same else ())
        wanted = [i for i, same in enumerate(shares) if len(same) > 1]
        if contexts is not None and wanted:
            self._weigh(shares, wanted, mentions, contexts)
        self._order(shares, wanted, mentions, ranked)
        return shares

    def _order(
        self,
        shares: list[Shares],
        wanted: Sequence[int],
        mentions: Sequence[Mention],
        ranked: Sequence[Sequence[Ranked]],
    ) -> None:
        """Put the greatest share first; of equal ones that of the concept whose other names lie nearer to the shared.

        An abbreviation is like no other name; there the concept with more names is first, as the better known.
        """
        index = self.bundle.index
        for i in wanted:
            same = shares[i]
            concepts = np.array([one.concept for one in same])
            if is_short(mentions[i].text):
                likelier = index.name_counts(concepts)
            else:
                vector = index.vectors(np.array([ranked[i][0].name]))[0]
                likelier = np.round((index.means(concepts).astype(np.float32) * vector).sum(axis=1), 4)
            order = np.lexsort((concepts, -likelier, np.array([-one.share for one in same]))).tolist()
            shares[i] = tuple(same[at] for at in order)

    def _spelt(self, mention: str, name: float) -> set[float]:
        """The concepts that have a name with the letters of the mention."""
        entries, wanted = self.bundle.index.entries(np.array([name])), spelling(mention)
        texts = self.bundle.index.describe(entries.address)[0]
        return {c for c, text in zip(entries.concept.tolist(), texts, strict=True) if spelling(text) == wanted}

    def _weigh(
        self, shares: list[Shares], wanted: Sequence[int], mentions: Sequence[Mention], contexts: Sequence[str]
    ) -> None:
        """Let the contexts of some mentions weigh on how their concepts share."""
        encoder = self.bundle.encoder
        # the mention itself says nothing about which of its concepts is meant
        around = encoder.encode([contexts[i].replace(mentions[i].text, " ") for i in wanted])
        concepts = sorted({holder.concept for i in wanted for holder in shares[i]})
        ids = self.bundle.index.concept_ids(np.array(concepts))
        languages = sorted({mentions[i].language or "" for i in wanted})
        labels: list[str] = []
        for language in languages:
            named = self.bundle.kb.preferred_names(ids, language or None)
            labels += [named.get(concept_id, concept_id) for concept_id in ids]
        places = [(language, concept) for language in languages for concept in concepts]
        vectors = dict(zip(places, encoder.encode(labels), strict=True))
        for vector, i in zip(around, wanted, strict=True):
            same = shares[i]
            likeness = np.array([float(vectors[mentions[i].language or "", one.concept] @ vector) for one in same])
            likeness /= _CONTEXT_TEMPERATURE
            weight = np.exp(likeness - likeness.max()) * np.array([one.share for one in same])
            parts = (weight / weight.sum()).tolist()
            shares[i] = tuple(one._replace(share=part) for one, part in zip(same, parts, strict=True))


def _holders(candidates: Sequence[Ranked]) -> dict[float, bool]:
    """The concepts that have the best name, in the order of their ids, and whether they prefer it; none for one."""
    # who has one name has one rank, and most best names are the only ones of their rank
    first = candidates[:2]
    if len(first) < 2 or first[1].rank != first[0].rank:
        return {}
    holders = {c.concept: c.preferred for c in candidates if c.name == first[0].name}
    return holders if len(holders) > 1 else {}


def _shared(holders: Mapping[float, bool], spelt: set[float], ranked: Mapping[float, float], groups: Groups) -> Shares:
    """Shares of concepts; those of a group have one in common. ``spelt`` are those with the letters of the mention.

    ``ranked`` are the weights of a re-ranker.
    """
    weights = [
        (_PREFERRED if any(holders[concept] for concept in group) else 1.0)
        * (1.0 if spelt.isdisjoint(group) else _SPELT)
        * max(ranked[concept] for concept in group)
        for group in groups
    ]
    return tuple(
        Holder(concept, weight / sum(weights), tuple(same))
        for (concept, *same), weight in zip(groups, weights, strict=True)
    )
