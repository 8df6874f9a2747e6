"""New orders by hand, and what the stages behind them need to hold of any."""

from __future__ import annotations

import math

import numpy as np
import pytest

from medlink.linking.candidates import DENSE, EXACT
from medlink.linking.rankers.common import CHOSEN, by_ranks, chosen_first
from medlink.linking.ranking import Ranked


def ranked(*rows: tuple[float, float, float], exact: int = 0) -> list[Ranked]:
    """Concepts by concept, rank and name; the first so many are names to the letter."""
    return [
        Ranked(concept, rank, 0.0, name, 0, False, EXACT if at < exact else DENSE, False, (1.0,) if at == 0 else None)
        for at, (concept, rank, name) in enumerate(rows)
    ]


def test_by_ranks_by_hand() -> None:
    # concepts 1 and 2 share the name 10: it has the rank of the better of them
    found = by_ranks(ranked((1, 5, 10), (2, 5, 10), (3, 4, 11)), np.array([1.0, 2.0, 4.0]))
    assert [(one.concept, one.rank, one.margin) for one in found] == [(3, 4, 2), (1, 2, -2), (2, 2, -2)]
    assert [one.weight for one in found] == pytest.approx([1, math.exp(-1), 1])
    assert [one.moved for one in found] == [True, False, False]
    assert found[0].measures == (1.0,)


def test_a_name_to_the_letter_stays_first_and_equals_stay_in_order() -> None:
    found = by_ranks(ranked((1, 5, 10), (2, 4, 11), (3, 4, 12), exact=1), np.array([0.0, 3.0, 3.0]))
    assert [one.concept for one in found] == [1, 2, 3]
    assert not found[0].moved
    assert found[0].margin == -3
    assert by_ranks([], np.zeros(0)) == []


def test_the_chosen_name_takes_the_place_of_the_first() -> None:
    given = ranked((1, 5, 10), (2, 4, 11), (3, 3, 12), (4, 2, 13))
    found = chosen_first(given, 2, 3)
    assert [(one.concept, one.rank) for one in found] == [(3, 5), (1, 4), (2, 3), (4, 2)]
    assert found[0].moved
    assert found[0].weight == CHOSEN
    # what is first already stays as it is, but for the others of its name
    same = chosen_first(given, 0, 3)
    assert [(one.concept, one.rank) for one in same] == [(1, 5), (2, 4), (3, 3), (4, 2)]
    assert not any(one.moved for one in same)


def test_the_chosen_of_concepts_that_share_a_name() -> None:
    given = ranked((1, 5, 10), (2, 5, 10), (3, 3, 12))
    found = chosen_first(given, 1, 3)
    assert [(one.concept, one.rank, one.weight) for one in found] == [(1, 5, 1), (2, 5, CHOSEN), (3, 3, 1)]
    # a shared name that was second comes first with all who have it, also with those behind the first k
    given = ranked((1, 5, 10), (2, 4, 11), (3, 4, 11))
    found = chosen_first(given, 1, 2)
    assert [(one.concept, one.rank, one.weight) for one in found] == [(2, 5, CHOSEN), (1, 4, 1), (3, 5, 1)]


def test_any_order_keeps_all_concepts_and_gives_one_rank_to_a_name() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        count = int(rng.integers(1, 9))
        names = np.sort(rng.integers(0, 4, count))
        given = ranked(*((float(at), float(9 - name), float(name)) for at, name in enumerate(names)))
        k = int(rng.integers(1, count + 1))
        for found in (by_ranks(given, rng.normal(size=count)), chosen_first(given, int(rng.integers(0, k)), k)):
            assert sorted(one.concept for one in found) == [one.concept for one in given]
            ranks = {one.name: one.rank for one in found}
            assert all(one.rank == ranks[one.name] for one in found)
            assert found[0].rank == max(ranks.values())
            assert max(one.weight for one in found if one.name == found[0].name) in (1, CHOSEN)
