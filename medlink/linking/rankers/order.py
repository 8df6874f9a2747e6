"""What a re-ranker says of concepts, turned into ranks of their names, which the stages after it need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from medlink.linking.candidates import EXACT
from medlink.linking.ranking import Ranked, margins

CHOSEN = 20.0
"""How much likelier the concept that was chosen is than another one that has the same name."""


def by_ranks(ranked: Sequence[Ranked], ranks: NDArray[np.float64]) -> list[Ranked]:
    """Concepts in the order of new rank scores ``(n,)``; of equals the earlier stays first.

    The rank score of a name is that of its best concept. The difference says how much less likely another concept
    of the name is, as in a softmax over rank scores. A name to the letter stays before any other.
    """
    if not ranked:
        return []
    ranks = np.round(ranks, 6)
    names, which = np.unique([one.name for one in ranked], return_inverse=True)
    best = np.full(len(names), -np.inf)
    np.maximum.at(best, which, ranks)
    of_name = best[which]
    away = margins(np.zeros(len(ranked), dtype=np.int64), of_name, names[which])
    order = np.lexsort((-of_name, np.array([one.route != EXACT for one in ranked]))).tolist()
    return _in_order(ranked, order, of_name.tolist(), away.tolist(), np.exp(ranks - of_name).tolist())


def chosen_first(ranked: Sequence[Ranked], chosen: int, k: int) -> list[Ranked]:
    """Concepts with the name of the chosen one before the other names of the first k, all others as they were.

    Each takes over the rank score and the margin of the place where it then stands, so that these mean what they meant
    to a calibration. Among the concepts of its name the chosen one has the weight :data:`CHOSEN`.
    """
    name, first = ranked[chosen].name, ranked[:k]
    order = [*sorted(range(len(first)), key=lambda at: first[at].name != name), *range(len(first), len(ranked))]
    # by names: the concepts of one name have one rank
    places = {one.name: one for one in reversed(first)}
    before = list(dict.fromkeys(one.name for one in first))
    after = sorted(before, key=lambda one: one != name)
    given = {now: places[then] for now, then in zip(after, before, strict=True)}
    stands = [given.get(one.name, one) if name != ranked[0].name else one for one in ranked]
    weight = [one.weight for one in ranked]
    weight[chosen] *= CHOSEN
    return _in_order(ranked, order, [one.rank for one in stands], [one.margin for one in stands], weight)


def _in_order(
    ranked: Sequence[Ranked], order: Sequence[int], rank: list[float], margin: list[float], weight: list[float]
) -> list[Ranked]:
    top = ranked[0]
    found = [ranked[at]._replace(rank=rank[at], margin=margin[at], weight=weight[at], measures=None) for at in order]
    found[0] = found[0]._replace(moved=found[0].name != top.name, measures=top.measures)
    return found
