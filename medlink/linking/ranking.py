"""The third stage: which candidate is the likeliest, by one number for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from medlink.index.keys import Keys
from medlink.language.tags import base
from medlink.linking.calibration import WIDEST
from medlink.linking.candidates import EXACT
from medlink.linking.measures import Evidence
from medlink.linking.mention import Mention
from medlink.linking.profiles import ConceptProfiles

_REACH = 1.0  # rank scores by which a name may be lower than the best one and still be moved before it
_FIRST = 8  # concepts of a ranking that are made together, as few readers need more
_SHARE = 0.3  # of the log odds of a concept that count beside the likeness of its name


class Ranker(Protocol):
    """What ranks candidate names.

    ``uses_context`` says whether the context of a mention changes its ranks: the linker then ranks a mention anew in
    each context, and gives ``rank`` the contexts; otherwise each distinct mention is ranked once.
    """

    uses_context: bool

    def rank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, candidates: Evidence
    ) -> NDArray[np.float64]:
        """Rank scores ``(p,)`` of candidate names, higher is better.

        Args:
            mentions: n mentions; ``text`` is what is linked.
            contexts: n texts around them; ``None`` where there are none, or the ranker uses none.
            candidates: their candidate names, with the evidence for each.
        """


@dataclass(frozen=True, slots=True)
class LinearJoin:
    """A weighted sum of the evidence, one weight for each of :data:`medlink.linking.measures.FEATURES`."""

    weights: tuple[float, ...]
    uses_context = False

    def rank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, candidates: Evidence
    ) -> NDArray[np.float64]:
        """Rank scores ``(p,)`` by the evidence alone; mentions and contexts do not count."""
        return self.sums(candidates.features)

    def sums(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Rank scores ``(p,)`` of ``features (p, f)``.

        Summed feature by feature: a matrix product may round differently with another number of pairs.

        >>> LinearJoin((2.0, 1.0)).sums(np.array([[0.5, 1.0]], dtype=np.float32)).tolist()
        [2.0]
        """
        total = np.zeros(len(features))
        for i, weight in enumerate(self.weights):
            total += weight * features[:, i].astype(np.float64)
        return total


class PriorRanker:
    """Ranks names by another ranker and by how well known their concepts are.

    Where a bundle has several sources, a name of one of them may be a little more like a mention than that of the
    concept which everybody means. Ranks are moved so that the best name of a mention keeps its rank score, and the
    calibration what it means.

    Args:
        first: the ranker by likeness.
        profiles: of the concepts of the bundle.
    """

    def __init__(self, first: Ranker, profiles: ConceptProfiles) -> None:
        self._first, self._profiles = first, profiles
        self.uses_context = first.uses_context

    def rank(
        self, mentions: Sequence[Mention], contexts: Sequence[str] | None, candidates: Evidence
    ) -> NDArray[np.float64]:
        """Rank scores ``(p,)``: those of the first ranker and the share of the prior, for names near the best one."""
        ranks, mention = np.array(self._first.rank(mentions, contexts, candidates)), candidates.mention
        if not len(ranks):
            return ranks
        _, starts, run = np.unique(mention, return_index=True, return_inverse=True)
        near = ranks >= np.maximum.reduceat(ranks, starts)[run] - _REACH
        pair, entry = candidates.entry
        chosen = near[pair]
        pair, concept = pair[chosen], candidates.entries.concept[entry[chosen]]
        distinct, which = np.unique(concept, return_inverse=True)
        profiles = self._profiles.of(distinct.tolist())
        odds = np.array([profiles[key].standing for key in distinct.tolist()])
        moved = np.full(len(ranks), -np.inf)
        np.maximum.at(moved, pair, ranks[pair] + _SHARE * odds[which])
        best = np.lexsort((-moved, mention))[starts]
        return np.where(near, moved - (moved - ranks)[best][run], ranks)


class Ranked(NamedTuple):
    """The best name of one concept for one mention: keys of both, and the address of the entry.

    ``margin`` is by how much the best other name of another concept ranks lower; ``adds`` says that the name is of a
    finding and the mention is not. The first of a mention has its ``measures``
    (:data:`medlink.linking.measures.FEATURES`). ``weight`` is how much likelier a re-ranker holds the concept than
    others that share its name; ``moved`` says of the first that a re-ranker put its name before another.
    """

    concept: float
    rank: float
    margin: float
    name: float
    entry: int
    preferred: bool
    route: int
    adds: bool
    measures: tuple[float, ...] | None = None
    weight: float = 1.0
    moved: bool = False


_ROW = np.dtype(
    [
        ("concept", "f8"), ("rank", "f8"), ("margin", "f8"), ("name", "f8"),
        ("entry", "i8"), ("preferred", "?"), ("route", "i1"), ("adds", "?"),
    ]
)  # fmt: skip
"""The fields of :class:`Ranked` up to ``adds``."""


class Ranking(Sequence[Ranked]):
    """The concepts of one mention, best first.

    Few of them are ever looked at, so that an object is made of one when it is.

    Args:
        rows: a row of :data:`_ROW` for each concept.
        measures: of the first of them.
    """

    __slots__ = ("_measures", "_rows")

    def __init__(self, rows: NDArray[np.void], measures: NDArray[np.float32]) -> None:
        self._rows, self._measures = rows, measures

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Ranked: ...

    @overload
    def __getitem__(self, at: slice) -> list[Ranked]: ...

    def __getitem__(self, at: int | slice) -> Ranked | list[Ranked]:
        if isinstance(at, slice):
            rows = self._rows[at].tolist()
            first = at.indices(len(self._rows))[0] == 0
        else:
            rows = [self._rows[at].item()]
            first = at in (0, -len(self._rows))
        found = [Ranked(*row) for row in rows]
        if first and found:
            found[0] = found[0]._replace(measures=tuple(self._measures.tolist()))
        return found if isinstance(at, slice) else found[0]

    def __iter__(self) -> Iterator[Ranked]:
        yield from self[:_FIRST]
        yield from self[_FIRST:]


def best_names(evidence: Evidence, rank: NDArray[np.float64]) -> list[Ranking]:
    """Concepts of each mention by their best name, best first.

    Of a concept's names the best counts; of equals one in the mention's language, then the preferred one. A name to
    the letter stands before any other. ``rank (p,)`` are the rank scores of the candidate names.
    """
    rank, entries, batch = np.round(rank, 9), evidence.entries, evidence.batch
    pair, entry = evidence.entry
    mention, exact = evidence.mention[pair], evidence.route[pair] == EXACT
    concept = entries.concept[entry]
    languages = {tag: base(tag or "") for tag in {*batch.languages, *batch.index.languages}}
    codes = {tag: code for code, tag in enumerate(dict.fromkeys(languages.values()))}
    spoken, written = (
        np.array([codes[languages[tag]] for tag in tags], np.int64) for tags in (batch.languages, batch.index.languages)
    )
    other = spoken[mention] != written[entries.language[entry]]
    # names go by their exact form, entries of one name by language and text: so they come
    order = np.lexsort((2 * other + ~entries.preferred[entry], -rank[pair], ~exact, concept, mention))
    first = np.ones(len(order), dtype=bool)
    first[1:] = (np.diff(mention[order]) != 0) | (np.diff(concept[order]) != 0)
    best = order[first]
    # equal ranks in the order of concept ids, in which they are
    best = best[np.lexsort((-rank[pair[best]], 2 * mention[best] + ~exact[best]))]
    at, mention = pair[best], mention[best]
    rows = np.empty(len(best), _ROW)
    rows["concept"], rows["rank"], rows["name"] = concept[best], rank[at], evidence.name[at]
    rows["margin"] = margins(mention, rows["rank"], rows["name"])
    rows["entry"], rows["preferred"] = entries.address[entry[best]], entries.preferred[entry[best]]
    rows["route"], rows["adds"] = evidence.route[at], (evidence.overlap.adds & ~evidence.named)[at]
    ends = np.searchsorted(mention, np.arange(len(batch.texts) + 1))
    measures = np.zeros((len(batch.texts), evidence.features.shape[1]), dtype=np.float32)
    some = ends[1:] > ends[:-1]
    measures[some] = evidence.features[at[ends[:-1][some]]]
    # copies: a ranking that is kept holds no others
    return [Ranking(rows[slice(*place)].copy(), measures[i].copy()) for i, place in enumerate(pairwise(ends.tolist()))]


def margins(mention: NDArray[np.int64], rank: NDArray[np.float64], name: Keys) -> NDArray[np.float64]:
    """By how much the best candidate of another name ranks lower, for each candidate of each mention.

    >>> margins(np.array([0, 0, 0, 1]), np.array([3.0, 3.0, 1.0, 2.0]), np.array([7.0, 7.0, 8.0, 9.0])).tolist()
    [2.0, 2.0, -2.0, 5.0]
    """
    order = np.lexsort((-rank, mention))
    first = order[np.diff(mention[order], prepend=-1) != 0]
    top = np.zeros(int(mention.max(initial=-1)) + 1, dtype=np.int64)
    top[mention[first]] = first
    best = top[mention]
    other = name != name[best]
    second = np.full(len(top), -np.inf)
    np.maximum.at(second, mention[other], rank[other])
    against = np.where(other, rank[best], second[mention])
    return np.asarray(np.clip(rank - against, -WIDEST, WIDEST))
