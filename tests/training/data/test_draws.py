"""Draws for many concepts at once: by hand, and against one concept at a time."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from medlink.training.data.batches import order
from medlink.training.data.pairs import counts_of, draw_ancestors, draw_places, draw_values, upto
from medlink.training.data.view import Runs


def runs_of(values: list[list[int]]) -> Runs:
    ends = np.concatenate([[0], np.cumsum([len(one) for one in values])]).astype(np.int64)
    return ends, np.array([value for one in values for value in one], dtype=np.int32)


def owners(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int32)


@pytest.mark.parametrize("seed", range(3))
def test_draws_against_lists(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.integers(100, size=rng.integers(5)).tolist() for _ in range(50)]
    asked, uniform = rng.integers(50, size=200).astype(np.int32), rng.random(200)
    runs = runs_of(values)
    drawn, places = draw_values(runs, asked, uniform), draw_places(runs, asked, uniform)
    for owner, share, value, place in zip(asked.tolist(), uniform, drawn.tolist(), places.tolist(), strict=True):
        given = values[owner]
        assert value == (given[int(share * len(given))] if given else -1)
        assert (runs[1][place] if given else -1) == value
    assert counts_of(runs, asked).tolist() == [len(values[owner]) for owner in asked]


def test_ancestors_by_hand() -> None:
    # 0 -> 1 -> 2 -> 3, and 4 without parents
    parents = runs_of([[1], [2], [3], [], []])
    drawn = draw_ancestors(parents, np.repeat(owners(0, 2, 3, 4), 6000), np.random.default_rng(0)).reshape(4, 6000)
    counts = Counter(drawn[0].tolist())
    assert set(counts) == {1, 2, 3}
    assert max(abs(count / 6000 - 1 / 3) for count in counts.values()) < 0.02
    assert set(drawn[1].tolist()) == {3}
    assert set(drawn[2:].ravel().tolist()) == {-1}


@pytest.mark.parametrize("seed", range(3))
def test_ancestors_against_the_closure(seed: int) -> None:
    rng = np.random.default_rng(seed)
    above = [rng.integers(number, size=rng.integers(3)).tolist() if number else [] for number in range(30)]
    closure: list[set[int]] = []
    for parents in above:
        closure.append(set(parents).union(*(closure[parent] for parent in parents)))
    start = np.repeat(np.arange(30, dtype=np.int32), 400)
    drawn = draw_ancestors(runs_of(above), start, rng).reshape(30, 400)
    for ancestors, found in zip(closure, drawn, strict=True):
        assert set(found.tolist()) == (ancestors or {-1})


def test_a_cycle_ends() -> None:
    # 0 -> 1 -> 2 -> 1, and 3 -> 4 -> 3
    drawn = draw_ancestors(runs_of([[1], [2], [1], [4], [3]]), np.repeat(owners(0, 3), 200), np.random.default_rng(0))
    assert set(drawn[:200].tolist()) == {1, 2}
    # a concept is no ancestor of its own
    assert set(drawn[200:].tolist()) == {4}


def test_orders() -> None:
    assert sorted(order(1, 2, 3, 100)) == list(range(100))
    assert order(1, 2, 3, 0).tolist() == []
    others = [order(*given, 100).tolist() for given in ((1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4))]
    assert len({tuple(one) for one in others}) == 4


@pytest.mark.parametrize("share", [0.0, 0.15, 0.85, 1 / 3, 1.0])
def test_shares_are_spread_evenly(share: float) -> None:
    counts = [upto(share, place) for place in range(2001)]
    assert all(0 <= after - before <= 1 for before, after in pairwise(counts))
    assert max(abs(count - share * place) for place, count in enumerate(counts)) <= 1
    assert upto(0.15, 10**8) == 15 * 10**6
