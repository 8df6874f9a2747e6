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
    names = np.array([one.name for one in ranked])
    _, which = np.unique(names, return_inverse=True)
    best = np.full(which.max() + 1, -np.inf)
    np.maximum.at(best, which, ranks)
    of_name = best[which]
    weights = np.exp(ranks - of_name)
    away = margins(np.zeros(len(ranked), dtype=np.int64), of_name, names)
    exact = np.array([one.route == EXACT for one in ranked])
    order = np.lexsort((np.arange(len(ranked)), -of_name, ~exact)).tolist()
    columns = (of_name.tolist(), away.tolist(), weights.tolist())
    return _in_order(ranked, order, *columns)


def chosen_first(ranked: Sequence[Ranked], chosen: int, k: int) -> list[Ranked]:
    """Concepts with the name of the chosen one before the other names of the first k, all others as they were.

    Each takes over the rank score and the margin of the place where it then stands, so that these mean what they meant
    to a calibration. Among the concepts of its name the chosen one has the weight :data:`CHOSEN`.
    """
    name, first = ranked[chosen].name, list(range(min(k, len(ranked))))
    order = sorted(first, key=lambda at: ranked[at].name != name)
    moved = ranked[0].name != name
    rank, away, weight = ([getattr(one, kind) for one in ranked] for kind in ("rank", "margin", "weight"))
    if moved:
        # by names: the concepts of one name have one rank
        places = list(dict.fromkeys(ranked[at].name for at in first))
        at_place = {ranked[at].name: ranked[at] for at in reversed(first)}
        given = dict(zip(sorted(places, key=lambda one: one != name), (at_place[one] for one in places), strict=True))
        for at, one in enumerate(ranked):
            if one.name in given:
                rank[at], away[at] = given[one.name].rank, given[one.name].margin
    weight[chosen] *= CHOSEN
    return _in_order(ranked, [*order, *range(len(first), len(ranked))], rank, away, weight)


def _in_order(
    ranked: Sequence[Ranked], order: Sequence[int], rank: list[float], margin: list[float], weight: list[float]
) -> list[Ranked]:
    top = ranked[0]
    found = [ranked[at]._replace(rank=rank[at], margin=margin[at], weight=weight[at], measures=None) for at in order]
    found[0] = found[0]._replace(moved=found[0].name != top.name, measures=top.measures)
    return found
